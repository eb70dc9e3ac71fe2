"""Scale of Gaussian noise for a strategy R under PML with a delta, smooth, with its gradient.

D_jr are the l2 distances of the columns of R, t = D/sigma, and HS_e(t) is the hockey-stick
divergence of two unit Gaussians at distance t. With x = e/t - t/2 and m = Phi(-x)/phi(x),

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
from dataclasses import dataclass, replace

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array, Indices

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
        """For the envelope the best c for these distances; the slack has nothing to choose."""
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
