"""Laplace noise for a strategy R: its scale with a smooth stand-in, and exact even moments.

With the l1 distances D_jr = norm(R e_j - R e_r)_1 between the columns of R, the noise scale b is

    add-remove DP     b = max_j norm(R e_j)_1 / eps
    replace DP        b = max_jr D_jr / eps
    PML on Q_alpha    the largest root b_r, over the cells r, of
                      sum_j alpha_j e^(-D_jr / b) + (1 - sum alpha) e^(-max_j D_jr / b) = e^-eps.

The last is Corollary 1 of [ZSO]. In t = 1/b, the logarithm of its left side is convex and decreases
from 0, so Newton's method from t = 0 climbs to the root and never passes it. A cell with
alpha_r >= e^-eps has no root: its leakage is below eps without noise. With pi_jr the terms of the
sum (the maximum counts for the j that attains it), the implicit function theorem gives

    d log b_r / d D_jr = pi_jr / sum_j pi_jr D_jr.

Maxima are smoothed by the power mean max_i v_i ~ (sum_i v_i^(1/tau))^tau, which respects scaling:
b stays homogeneous of degree one in R.

Exact even moments of a linear reconstruction, and their gradient: for z with i.i.d. Laplace(1)
entries, a row l of L and an even p = 2 N,

    E |l^T z|^p = p! h_N(y),     y_j = l_j^2,

with h_N the complete homogeneous symmetric polynomial: E e^(s l^T z) = prod_j 1/(1 - y_j s^2). From
the power sums, N h_N = sum_{k=1}^N (sum_j y_j^k) h_{N-k}; and d h_N / d y_j = h_{N-1} with y_j
taken twice, which is g_{N-1} of the recursion g_k = h_k + y_j g_{k-1}.

The error depends on the strategy R through L = A R^+. With F the gradient in L, W = A^T F and
P = R R^+, the gradient in R is  (I - P) W^T R^+ R^+^T - R^+^T W R^+^T  (`strategy_gradient`).

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Cor. 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.differences import BLOCK_ENTRIES
from pmldesign_solvers.operators.operator import Array, Indices


def worst_masses(distances: Array, least: Array, room: Array, most: float) -> Array:
    """What cells keep when mass moves from the nearest ones to the farthest.

    Args:
        distances: of all cells from some, shape (c, k).
        least: mass that every cell keeps, shape (k,).
        room: its mass beyond that, shape (k,).
        most: mass that is moved altogether.

    Returns:
        Shape (c, k), without the mass added to the farthest cell.
    """
    masses = np.empty(distances.shape)
    step = max(1, BLOCK_ENTRIES // distances.shape[1])
    for start in range(0, len(distances), step):
        order = np.argsort(distances[start : start + step], axis=1, kind="stable")
        moved = np.minimum(np.cumsum(room[order], axis=1), most)
        kept = masses[start : start + step]
        np.put_along_axis(kept, order, np.diff(moved, axis=1, prepend=0.0), axis=1)
        kept[:] = least + np.maximum(room - kept, 0.0)
    return masses


NEWTON_STEPS = 200
"""Far more than the root ever takes: it is reached from one side, at last quadratically."""
LARGEST_EXACT = 64
"""Largest even p treated exactly; h_N of a row scaled to 1 stays in range, and costs N steps."""


def pairwise_l1(strategy: Array) -> Array:
    """D, shape (n, n), for R of shape (r, n)."""
    columns = np.ascontiguousarray(strategy.T)
    return np.asarray(scipy.spatial.distance.cdist(columns, columns, "cityblock"))


def _checked_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be positive and finite, got {epsilon}")


@dataclass(frozen=True, slots=True)
class AddRemoveL1:
    """epsilon-DP when one record is added or removed."""

    epsilon: float

    def __post_init__(self) -> None:
        _checked_epsilon(self.epsilon)

    def scale(self, strategy: Array) -> float:
        """Scale b for R of shape (r, n)."""
        return float(np.abs(strategy).sum(axis=0).max()) / self.epsilon


@dataclass(frozen=True, slots=True)
class ReplaceL1:
    """epsilon-DP when one record is replaced; the number of records is public."""

    epsilon: float

    def __post_init__(self) -> None:
        _checked_epsilon(self.epsilon)

    def scale(self, strategy: Array) -> float:
        """Scale b for R of shape (r, n)."""
        return float(pairwise_l1(strategy).max()) / self.epsilon

    def smooth_log_scale(self, distances: Array, temperature: float) -> tuple[float, Array]:
        """Logarithm of b with a smoothed maximum, and its gradient.

        Args:
            distances: D, shape (n, n), symmetric, zero only on the diagonal.
            temperature: tau of the power mean, positive.

        Returns:
            log b, and its derivatives by the n (n - 1) / 2 distances as a symmetric matrix.
        """
        value, shares = _power_mean(distances.ravel() / 2**temperature, temperature)
        off = np.where(distances > 0, distances, 1.0)
        gradient = 2 * shares.reshape(distances.shape) / off
        return math.log(value) - math.log(self.epsilon), gradient

    def on_cells(self, cell_of: Indices) -> ReplaceL1:  # noqa: ARG002 - as Leakage
        """The same rule after merging cells."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Leakage:
    """epsilon-PML on Q_alpha by Corollary 1; the number of records is public.

    Attributes:
        epsilon: positive.
        alpha: shape (n,), least probability of each cell, positive, with a sum of at most 1.
        room: shape (n,), mass of each cell beyond that if no mass moves; None: all of it moves.
        most: how much mass moves.
    """

    epsilon: float
    alpha: Array
    room: Array | None = None
    most: float = math.inf

    def __post_init__(self) -> None:
        _checked_epsilon(self.epsilon)
        if self.alpha.ndim != 1 or not (self.alpha > 0).all() or not self.alpha.sum() < 1 + 1e-9:
            raise ValueError("alpha must be a vector of positive numbers with a sum of at most 1")
        if self.alpha.min() >= math.exp(-self.epsilon):
            raise ValueError(
                f"epsilon must be below log(1/min alpha) = {-math.log(self.alpha.min()):.6g}, "
                f"got {self.epsilon}: no noise is needed"
            )

    def scale(self, strategy: Array) -> float:
        """Scale b for R of shape (r, n); 0 if no noise is needed."""
        distances = pairwise_l1(strategy)
        return float(self._scales(distances, distances.max(axis=1)).max())

    def smooth_log_scale(self, distances: Array, temperature: float) -> tuple[float, Array]:
        """Logarithm of b with smoothed maxima, and its gradient; as for `ReplaceL1`."""
        top = distances.max(axis=1)
        powers = (distances / top[:, None]) ** (1 / temperature)
        total = powers.sum(axis=1)
        farthest = top * total**temperature
        off = np.where(distances > 0, distances, 1.0)
        moves = powers / total[:, None] * farthest[:, None] / off  # d farthest / d distances
        scales = self._scales(distances, farthest)
        limits = scales > 0
        b = np.where(limits, scales, 1.0)
        masses, rest = self._masses(distances)
        terms = masses * np.exp(-distances / b[:, None])
        last = rest * np.exp(-farthest / b)
        weights = terms + last[:, None] * moves
        weights /= ((terms * distances).sum(axis=1) + last * farthest)[:, None]
        value, shares = _power_mean(scales, temperature)
        gradient = np.where(limits, shares, 0.0)[:, None] * weights
        gradient.flat[:: len(gradient) + 1] = 0.0
        return math.log(value), gradient + gradient.T

    def on_cells(self, cell_of: Indices) -> Leakage:
        """The same rule after merging cells; cell_of, shape (n,), has the merged cell of each."""
        alpha, room = (
            None if part is None else np.bincount(cell_of, weights=part).astype(np.float64)
            for part in (self.alpha, self.room)
        )
        assert alpha is not None
        return Leakage(self.epsilon, alpha, room, self.most)

    def _masses(self, distances: Array) -> tuple[Array, Array]:
        """Masses of all cells about every cell r, shape (n, n), and that added to the farthest."""
        if self.room is None:
            masses = np.broadcast_to(self.alpha, distances.shape)
        else:
            masses = worst_masses(distances, self.alpha, self.room, self.most)
        return masses, np.maximum(1.0 - masses.sum(axis=1), 0.0)

    def _scales(self, distances: Array, farthest: Array) -> Array:
        """b_r for every cell r, shape (n,); 0 without a root."""
        masses, rest = self._masses(distances)
        alike = ((distances == 0) * masses).sum(axis=1)  # of cells with the column of r
        rooted = (alike < math.exp(-self.epsilon)) & (farthest > 0)
        far = farthest[rooted]
        D, masses, rest = distances[rooted] / far[:, None], masses[rooted], rest[rooted]
        t = np.zeros(len(D))
        for _ in range(NEWTON_STEPS):
            terms = masses * np.exp(-D * t[:, None])
            last = rest * np.exp(-t)
            total = terms.sum(axis=1) + last
            slope = ((terms * D).sum(axis=1) + last) / total
            step = (np.log(total) + self.epsilon) / slope
            t += step
            if (np.abs(step) <= 1e-14 * t).all():
                break
        scales = np.zeros(len(distances))
        scales[rooted] = far / t
        return scales


PairRule = ReplaceL1 | Leakage
"""What depends on the distances between columns; the total is public."""
ScaleRule = AddRemoveL1 | PairRule


def _power_mean(values: Array, temperature: float) -> tuple[float, Array]:
    """(sum v^(1/tau))^tau and the shares of each v in it, d log mean / d log v."""
    top = float(values.max())
    powers = (values / top) ** (1 / temperature)
    total = float(powers.sum())
    return top * total**temperature, powers / total


def is_exact(p: float) -> bool:
    """Whether `log_moment` has the exact moment: p is even and not too large."""
    return p <= LARGEST_EXACT and p % 2 == 0


def log_moment(reconstruction: Array, p: float, counts: Array) -> tuple[float, Array]:
    """Logarithm of err_p = (sum_i counts_i E |l_i^T z|^p)^(1/p), and its gradient in L.

    Args:
        reconstruction: L, shape (m, r), not zero.
        p: even, at most LARGEST_EXACT.
        counts: shape (m,), how often each row counts.
    """
    half = int(p) // 2
    size = np.abs(reconstruction).max(axis=1, initial=0.0)
    kept = size > 0
    rows = reconstruction[kept] / size[kept, None]
    squares = rows**2
    h = np.ones((half + 1, len(rows)))
    power_sums = np.empty((half, len(rows)))
    powers = squares.copy()
    for k in range(half):
        power_sums[k] = powers.sum(axis=1)
        powers *= squares
    for n in range(1, half + 1):
        h[n] = np.einsum("ki,ki->i", power_sums[:n], h[n - 1 :: -1]) / n
    slope = np.ones_like(squares)
    for n in range(1, half):
        slope = h[n][:, None] + squares * slope
    logs = np.log(h[half]) + p * np.log(size[kept]) + np.log(counts[kept])
    top = float(logs.max())
    shares = np.exp(logs - top)
    total = float(shares.sum())
    gradient = np.zeros_like(reconstruction)
    factor = shares / total / p / h[half] / size[kept]
    gradient[kept] = 2 * rows * slope * factor[:, None]
    return (math.lgamma(p + 1) + top + math.log(total)) / p, gradient


def strategy_gradient(strategy: Array, inverse: Array, workload_gradient: Array) -> Array:
    """The gradient in R, shape (r, n), from R, R^+ and W = A^T F, both of shape (n, r)."""
    spare = workload_gradient.T - strategy @ (inverse @ workload_gradient.T)
    turned: Array = spare @ inverse @ inverse.T
    return turned - inverse.T @ workload_gradient @ inverse.T
