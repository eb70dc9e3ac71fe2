"""Exact errors of l1 strategies, recomputed from the workload and R alone."""

import math

import numpy as np
import pytest

from pmldesign.privacy import PML, Neighbours, PureDP, calibrate, laplace_error
from pmldesign.strategies import baseline
from pmldesign_solvers.search import AddRemoveL1, Leakage, ReplaceL1


def guarantee_of(rule):
    if isinstance(rule, Leakage):
        return PML(rule.epsilon, tuple(rule.alpha))
    if isinstance(rule, ReplaceL1):
        return PureDP(rule.epsilon, Neighbours.REPLACE)
    return PureDP(rule.epsilon)


def exact_error(A, R, rule, p=2):
    """Error of R by the exact calibrator and the exact moments; inf if A is not determined."""
    n = A.shape[1]
    public = not isinstance(rule, AddRemoveL1)
    free = np.eye(n) - public / n
    R = R @ free
    L = A @ np.linalg.pinv(R, rcond=1e-10)
    if np.abs(L @ R - A @ free).max() > 1e-6 * np.abs(A).max():
        return math.inf
    return laplace_error(L, p=p, scale=calibrate(R, guarantee_of(rule), noise="laplace").scale)


def baselines(workload, *, signed=True):
    names = ["identity", "tree", "workload"] + ["haar"] * signed
    return {name: np.array(baseline(name, workload).matrix) for name in names}


def until(bound):
    """A callback that ends a search at an error of at most `bound`."""

    def stop(step):
        if step.error <= bound:
            raise KeyboardInterrupt

    return stop


def assert_sound(solution, A, rule, p=2):
    """Everything that a solution says, from A and R alone."""
    exact = exact_error(A, solution.strategy, rule, p)
    assert solution.error == pytest.approx(exact, rel=3e-6)
    guarantee = guarantee_of(rule)
    b = calibrate(solution.strategy, guarantee, noise="laplace").scale
    assert solution.scale == pytest.approx(b, rel=2e-6)
    n = A.shape[1]
    public = not isinstance(rule, AddRemoveL1)
    free = np.eye(n) - public / n
    R, target = solution.strategy @ free, A @ free
    answered = A @ np.linalg.pinv(R, rcond=1e-10) @ solution.strategy
    np.testing.assert_allclose(answered, target, atol=1e-7 * np.abs(A).max())
    assert solution.error <= min([s.before for s in solution.starts] + [math.inf])
    assert all(s.after <= s.before for s in solution.starts)
