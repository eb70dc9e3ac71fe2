"""Banded strategies for people whose steps are at least b apart (min-sep), p = 2.

C = diag(rho) T(c) diag(kappa) (`scaled_toeplitz`) with c_h = 0 for h >= b: columns at least b apart
are orthogonal, so that the squared sensitivity is the largest sum of column norms d_i over k steps
at least b apart. With d constant on each window [e b, (e + 1) b) that is exactly the sum of the k
largest of them, as no two such steps are in a window. Constant norms (as of all published banded
mechanisms) lose 2 to 3 % by that alone.

log rho is interpolated between knots in each window, log-spaced from both of its ends, where it
changes fastest; c is free. F times the sum of the k largest d is descended (L-BFGS) from the
first coefficients of the square root.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.scaled_toeplitz import Scaled, scaled
from pmldesign_solvers.streams.chain import RunningSums

KNOTS = 7
"""Of log rho at each end of a window; 256 steps, 4 times 64 apart: 5 lose 2e-5, 4 lose 2e-4."""
MEMORY = 20
"""Pairs of steps and slopes of L-BFGS. Chosen, not measured."""
STEPS = 400
"""Of the descent, at most; what is left then is below 1e-4."""
CLOSE = 1e-8
"""Relative decrease of a step below which the descent ends."""


def solve(sums: RunningSums, times: int, apart: int, callback: Callable[[float], bool]) -> Scaled:
    """The best banded strategy that a descent finds.

    Args:
        sums: the running sums, over n > b steps.
        times: k.
        apart: b, at least 2.
        callback: called with the norm that is reached after every step; True ends the descent.
    """
    n = sums.cells
    windows = np.arange(n) // apart
    count = int(windows[-1]) + 1
    knots = _knots(n, apart)

    def strategy(x: Array) -> tuple[Scaled, Array]:
        rows = np.exp(knots @ x[: knots.shape[1]])
        norms = np.exp(x[knots.shape[1] :][:count])
        impulse = np.zeros(n)
        impulse[0], impulse[1:apart] = 1.0, x[knots.shape[1] + count :]
        return scaled(sums, rows, norms[windows], impulse), norms

    def loss(x: Array) -> tuple[float, Array]:
        point, norms = strategy(x)
        largest = np.argsort(-norms)[:times]
        total = norms[largest].sum()
        by_rows, by_norms, by_impulse = point.gradient
        by_windows = np.bincount(windows, by_norms, count) / point.error
        by_windows[largest] += norms[largest] / total
        parts = [knots.T @ by_rows / point.error, by_windows, by_impulse[1:apart] / point.error]
        return float(np.log(point.error) + np.log(total)), np.concatenate(parts)

    def watch(intermediate_result: optimize.OptimizeResult) -> None:
        if callback(float(np.exp(0.5 * intermediate_result.fun))):
            raise StopIteration

    root = np.cumprod(1.0 - 0.5 / np.arange(1, apart))
    start = np.concatenate([np.zeros(knots.shape[1]), np.linspace(0.2, -0.2, count), root])
    minimum = optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": CLOSE},
    )
    return strategy(minimum.x)[0]


def _knots(n: int, apart: int) -> Array:
    """Values at the steps by values at the knots, shape (n, knots)."""
    near = np.round(np.geomspace(1, max(1, apart // 2), KNOTS)) - 1.0
    chosen = np.unique(np.concatenate([near, apart - 1.0 - near]))
    places, unit = np.arange(apart), np.eye(chosen.size)
    window = np.stack([np.interp(places, chosen, row) for row in unit], axis=1)
    return np.asarray(np.kron(np.eye(-(-n // apart)), window)[:n])
