"""The strategy of smallest error under Gaussian noise whose scale depends on all distances.

With A = L0 R0, R0 of full row rank and L0 = A B, every strategy worth considering is R = M R0, M
regular: for any L R = A let P be the projection onto the row space of L; then L P = L, so P R
answers A too, its columns are not farther apart, and its row space is that of A. With
X = M^-1 M^-T and the scale sigma of R (below)

    log err_p = log sigma + 1/2 log t,     t = tr_{p/2}(A B X B^T A^T),   dt = <K, dX>,

whose gradient in M is  -M^-T K X / t + R Lap(W) R0^T,  W_ij = (d log sigma / d D_ij) / D_ij and
Lap(W) = diag(W 1) - W. L-BFGS minimises it from M = I, with maxima smoothed less and less.

Error and distances depend on G = R^T R, the distances linearly: D_ij^2 = G_ii + G_jj - 2 G_ij. The
error is convex in G, and so is HS_e in D^2 as long as (D/sigma)^2 <= 2 ((1 + e^2)^(1/2) - 1). With
that, and c fixed, the set of G that need sigma = 1 at most is convex: a local minimum is global.

The scale, smooth, with its gradient. D_jr are the l2 distances of the columns of R, t = D/sigma,
and HS_e(t) is the hockey-stick divergence of two unit Gaussians at distance t. With x = e/t - t/2
and m = Phi(-x)/phi(x),

    HS_e(t) = phi(x) (m(x) - m(x + t)),    d HS_e / dt = phi(x).

On the prior class p >= alpha the bound of each cell r is, with kept_r = 1 - e^e alpha_r and
e'_r = e + log((1 - alpha_r)/kept_r),

    bound_r(e) = kept_r / (1 - alpha_r) sum_j q_j HS_e'_r(t_jr),

q = alpha and 1 - sum alpha more on the farthest cell (of three different columns the calibration
computes the slack more closely). The scale is the root sigma of loss = delta,

    slack       loss = max_r bound_r(eps)
    envelope    loss = sum_r bound_r(log c) / (e^eps - c),   the best c in [1, e^eps).

Maxima become power means max_i v_i ~ (sum_i v_i^(1/tau))^tau. The loss depends on D/sigma alone, so
the implicit function theorem gives  d log sigma / d D = loss' / <loss', D>,  homogeneous of degree
0 in D. As log loss is close to concave in log t, Newton's method in log t climbs to the root.

References:
    Saeidian, Pinzon and Palamidessi, Information leakage envelopes, Sec. III and IV.
    Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, Theorem 8.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from pmldesign_solvers.norm.bounds_loop import ended
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import CALL, ENTRY, SOLVED, Work
from pmldesign_solvers.operators.lbfgs import StoppedError, descend
from pmldesign_solvers.operators.operator import Array, Indices, Operator, power_mean
from pmldesign_solvers.operators.scale import LARGEST_GAP, normalised
from pmldesign_solvers.search.descent import single_thread
from pmldesign_solvers.search.solution import SearchStep

NEWTON_STEPS = 200
"""Far more than the root ever takes."""
LONGEST, FARTHEST = 1e8, 1e3
"""Limits of t and x beyond which the divergence is 1 or 0."""
NO_DIVERGENCE = 1e-300
"""Divergences below this count as 0."""


def hockey_stick(ratios: Array, epsilon: Array) -> tuple[Array, Array]:
    """HS_e(t) and its derivative in t, for t >= 0 and e >= 0 of shapes that broadcast."""
    apart = ratios > 0
    t = np.where(apart, np.minimum(ratios, LONGEST), 1.0)
    x = np.where(apart, np.minimum(epsilon / t - t / 2, FARTHEST), FARTHEST)
    slope = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    ahead = _mills(np.maximum(x, 0.0)) - _mills(np.maximum(x + t, 0.0))
    value = np.where(
        x > 0, slope * ahead, scipy.special.ndtr(-x) - slope * _mills(np.maximum(x + t, 0.0))
    )
    return np.where(apart, value, 0.0), np.where(apart, slope, 0.0)


def _mills(x: Array) -> Array:
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianLeakage:
    """(epsilon, delta)-PML of Gaussian noise; the number of records is public.

    Attributes:
        epsilon: positive.
        delta: in (0, 1).
        alpha: shape (n,), least probability of each cell, positive, with a sum of at most 1.
        share: None for the slack; for the envelope, (c - 1) / (e^epsilon - 1), in [0, 1).
    """

    epsilon: float
    delta: float
    alpha: Array
    share: float | None = None

    def tuned(self, distances: Array, temperature: float) -> GaussianLeakage:
        """With the best c of the envelope for these distances; the slack has nothing to choose."""
        if self.share is None:
            return self
        best = scipy.optimize.minimize_scalar(
            lambda share: replace(self, share=share).smooth_log_scale(distances, temperature)[0],
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-4},
        )
        return replace(self, share=float(best.x))

    def smooth_log_scale(self, distances: Array, temperature: float) -> tuple[float, Array]:
        """Logarithm of sigma with smoothed maxima, and its gradient.

        Args:
            distances: D, shape (n, n), symmetric, zero only on the diagonal.
            temperature: tau of the power means, positive.

        Returns:
            log sigma, and its derivatives by the n (n - 1) / 2 distances as a symmetric matrix.
        """
        # one pair has about delta there: x = (1 + 2 log 1/delta)^(1/2), or HS_0(t) = 0.4 t
        active, shifted = self._active(self._level())
        ratio = shifted / math.sqrt(1 - 2 * math.log(self.delta)) + self.delta
        log_inverse = math.log((ratio / distances[active].max(axis=1)).min())
        for _ in range(NEWTON_STEPS):
            ratios = distances * math.exp(log_inverse)
            value, slope = self._loss(ratios, temperature)
            step = math.log(self.delta / value) * value / float((slope * ratios).sum())
            log_inverse += min(max(step, -1.0), 1.0)
            if abs(step) <= 1e-13:
                break
        gradient = slope / (slope * distances).sum()
        return -log_inverse, gradient + gradient.T

    def _loss(self, ratios: Array, temperature: float) -> tuple[float, Array]:
        """The loss, and its derivatives by t_jr in row r."""
        bounds, slopes = self._bounds(ratios, temperature)
        if self.share is None:
            value, weights = _power_mean(bounds[None], temperature)
            return float(value[0]), weights[0, :, None] * slopes
        rest = (1 - self.share) * math.expm1(self.epsilon)
        return float(bounds.sum()) / rest, slopes / rest

    def _level(self) -> float:
        """The e of the bounds: epsilon, or log c."""
        if self.share is None:
            return self.epsilon
        return math.log1p(self.share * math.expm1(self.epsilon))

    def _active(self, level: float) -> tuple[Indices, Array]:
        """The cells r with a bound that is not 0, and e'_r of them."""
        active = np.flatnonzero(level + np.log(self.alpha) < 0)
        alpha = self.alpha[active]
        return active, level + np.log1p(-alpha) - np.log(-np.expm1(level + np.log(alpha)))

    def _bounds(self, ratios: Array, temperature: float) -> tuple[Array, Array]:
        """bound_r, shape (n,), and its derivatives by t_jr, shape (n, n)."""
        level = self._level()
        active, shifted = self._active(level)
        alpha = self.alpha[active]
        values, slopes = hockey_stick(ratios[active], shifted[:, None])
        farthest, weights = _power_mean(values, temperature)
        rest = max(0.0, 1.0 - float(self.alpha.sum()))
        factor = -np.expm1(level + np.log(alpha)) / (1 - alpha)
        bounds, derivatives = np.zeros(len(ratios)), np.zeros(ratios.shape)
        bounds[active] = factor * (values @ self.alpha + rest * farthest)
        derivatives[active] = factor[:, None] * (self.alpha + rest * weights) * slopes
        return bounds, derivatives


def _power_mean(values: Array, temperature: float) -> tuple[Array, Array]:
    """(sum_j v_j^(1/tau))^tau for every row, and its derivatives; v >= 0."""
    top = np.maximum(values.max(axis=1, keepdims=True), NO_DIVERGENCE)
    powers = (values / top) ** (1 / temperature)
    total = np.maximum(powers.sum(axis=1, keepdims=True), NO_DIVERGENCE)
    mean = top * total**temperature
    ratios = np.divide(mean, values, out=np.zeros_like(values), where=powers > 0)
    return mean[:, 0], powers / total * ratios


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

    @property
    def work(self) -> float:
        """Units of `Work` of `evaluate`."""
        (r, k), (m, n) = self.columns.shape, self._operator.shape
        traces = 0.0 if self._power == 1 else 2 * min(m * n**2, ENTRY * (m + n**2)) + 4 * n**2 * r
        return float(CALL + (SOLVED + 3) * r**3 + (3 * r + 8 * ENTRY) * k**2 + traces)

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
        """The scale with its free parameters at their best for M."""
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
    work: Work | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> tuple[Array, Status]:
    """Descend from R0 to the strategy M R0 of smallest error under Gaussian noise.

    Args:
        operator: the workload A, shape (m, n).
        p: in [2, inf].
        right_inverse: B, shape (n, r), A B R0 = A on differences of cells.
        columns: the distinct columns of R0, shape (r, k), R0 of full row rank.
        scale: of the guarantee, alpha of shape (k,).
        work: ends the descent with the best so far; None for all that gains.
        callback: called after every stage. Ctrl-C returns the best so far.

    Returns:
        M, shape (r, r), and why the descent stopped; M = I where nothing better was found.
    """
    begin, work = time.perf_counter(), work or Work()
    normal = normalised(operator, "replace", LARGEST_GAP)
    objective, unit = Objective(normal.searched, p, right_inverse, columns), 2.0**normal.exponent
    best = reached = np.eye(len(columns))
    lowest, tuned = math.inf, scale

    def offer(M: Array) -> None:
        nonlocal best, lowest
        value = objective.evaluate(M, tuned, WIDTHS[-1])[0]
        if value < lowest:
            best, lowest = M, value

    units = objective.work
    with work.deadline.catching(), suppress(StoppedError):
        tuned = objective.tuned(reached, scale, WIDTHS[-1])
        offer(reached)
        for width in WIDTHS:
            descended = descend(
                partial(objective.flat, scale=tuned, width=width),
                reached.ravel(),
                proceed=partial(work.step, units),
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
    return best, ended(work) or Status.COMPLETED


def _distances(strategy: Array) -> Array:
    columns = np.ascontiguousarray(strategy.T)
    return np.asarray(scipy.spatial.distance.cdist(columns, columns))
