"""The strategy of smallest error under Gaussian noise whose scale depends on all distances.

With A = L0 R0, R0 of full row rank and L0 = A B, every strategy worth considering is R = M R0, M
regular: for any L R = A let P be the projection onto the row space of L; then L P = L, so P R
answers A too, its columns are no farther apart, and its row space is that of A. With
X = M^-1 M^-T and the scale sigma of R (see `gaussian_scale`)

    log err_p = log sigma + 1/2 log t,     t = tr_{p/2}(A B X B^T A^T),   dt = <K, dX>,

whose gradient in M is  -M^-T K X / t + R Lap(W) R0^T,  W_ij = (d log sigma / d D_ij) / D_ij and
Lap(W) = diag(W 1) - W. L-BFGS minimises it from M = I, with maxima smoothed less and less.

Error and distances depend on G = R^T R, the distances linearly: D_ij^2 = G_ii + G_jj - 2 G_ij. The
error is convex in G, and so is HS_e in D^2 as long as (D/sigma)^2 <= 2 ((1 + e^2)^(1/2) - 1). With
that, and c fixed, the set of G that need sigma = 1 at most is convex: a local minimum is global.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy

from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.lbfgs import TimeUpError, descend
from pmldesign_solvers.operators.normalised import LARGEST_GAP, normalised
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.search.descent import single_thread
from pmldesign_solvers.search.gaussian_scale import GaussianLeakage
from pmldesign_solvers.search.solution import SearchStep

WIDTHS = (0.1, 0.01, 1e-3, 1e-4)
"""Smoothing of the stages; the last one stands for none."""
STAGE_STEPS = 300
"""L-BFGS steps of one stage."""


class Objective:
    """The logarithm of the l_p norm of the answers' standard deviations, as a function of M.

    Args:
        operator: the workload A, shape (m, n).
        p: in [2, inf].
        right_inverse: B, shape (n, r), A B R0 = A on differences of cells.
        columns: the distinct columns of R0, shape (r, k), R0 of full row rank.
    """

    def __init__(self, operator: Operator, p: float, right_inverse: Array, columns: Array) -> None:
        self._operator, self._power = operator, p / 2
        self._right_inverse, self.columns = right_inverse, columns
        self._weights = self._weigh(np.ones(operator.shape[0]))

    def evaluate(self, M: Array, scale: GaussianLeakage, width: float) -> tuple[float, Array]:
        """The value, maxima smoothed by `width`, and the gradient; M of shape (r, r)."""
        inverse = np.linalg.inv(M)
        X = inverse @ inverse.T
        trace, K = self._p_trace(X, width)
        strategy = M @ self.columns
        distances = _distances(strategy)
        log_scale, pull = scale.smooth_log_scale(distances, width)
        W = np.divide(pull, distances, out=np.zeros_like(pull), where=distances > 0)
        gradient = (strategy * W.sum(axis=0) - strategy @ W) @ self.columns.T
        gradient -= inverse.T @ K @ X / trace
        return log_scale + 0.5 * math.log(trace), gradient

    def flat(self, x: Array, scale: GaussianLeakage, width: float) -> tuple[float, Array]:
        """The same for the entries of M one after the other."""
        value, gradient = self.evaluate(x.reshape(len(self.columns), -1), scale, width)
        return value, gradient.ravel()

    def tuned(self, M: Array, scale: GaussianLeakage, width: float) -> GaussianLeakage:
        """The scale with what it may choose at its best for M."""
        return scale.tuned(_distances(M @ self.columns), width)

    def _p_trace(self, X: Array, width: float) -> tuple[float, Array]:
        power = self._power
        if power == 1:
            return float((self._weights * X).sum()), self._weights
        power = min(power, 1 / width)
        variances = self._operator.row_quadratic(self._right_inverse @ X @ self._right_inverse.T)
        variances = np.maximum(variances, 0.0)  # a query of the total alone has rounding only
        trace = power_mean(variances, power)
        return trace, self._weigh((variances / trace) ** (power - 1))

    def _weigh(self, weights: Array) -> Array:
        """B^T A^T diag(weights) A B."""
        return self._right_inverse.T @ self._operator.gram(weights) @ self._right_inverse


@single_thread()
def solve(
    operator: Operator,
    p: float,
    *,
    right_inverse: Array,
    columns: Array,
    scale: GaussianLeakage,
    time_limit: float | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> tuple[Array, Status]:
    """Descend from R0 to the strategy M R0 of smallest error under Gaussian noise.

    Args:
        operator: the workload A, shape (m, n).
        p: in [2, inf].
        right_inverse: B, shape (n, r), A B R0 = A on differences of cells.
        columns: the distinct columns of R0, shape (r, k), R0 of full row rank.
        scale: what is promised, alpha of shape (k,).
        time_limit: in seconds; None for none.
        callback: called after every stage. Ctrl-C returns the best so far.

    Returns:
        M, shape (r, r), and why the descent stopped; M = I where nothing better was found.
    """
    begin = time.perf_counter()
    deadline = math.inf if time_limit is None else begin + time_limit
    normal = normalised(operator, "replace", LARGEST_GAP)
    objective, unit = Objective(normal.searched, p, right_inverse, columns), 2.0**normal.exponent
    best = reached = np.eye(len(columns))
    lowest, tuned = math.inf, scale

    def offer(M: Array) -> None:
        nonlocal best, lowest
        value = objective.evaluate(M, tuned, WIDTHS[-1])[0]
        if value < lowest:
            best, lowest = M, value

    status = Status.COMPLETED
    try:
        tuned = objective.tuned(reached, scale, WIDTHS[-1])
        offer(reached)
        for width in WIDTHS:
            descended = descend(
                partial(objective.flat, scale=tuned, width=width),
                reached.ravel(),
                proceed=lambda: time.perf_counter() <= deadline,
                maxiter=STAGE_STEPS,
                maxcor=20,
                ftol=1e-13,
                gtol=1e-9,
            )
            reached = descended.point.reshape(best.shape)
            offer(reached)
            descended.unless_stopped()
            tuned = objective.tuned(reached, scale, WIDTHS[-1])
            offer(reached)
            if callback is not None:
                callback(SearchStep(1, math.exp(lowest) * unit, time.perf_counter() - begin))
    except TimeUpError:
        status = Status.TIME_LIMIT
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return best, status


def _distances(strategy: Array) -> Array:
    columns = np.ascontiguousarray(strategy.T)
    return np.asarray(scipy.spatial.distance.cdist(columns, columns))
