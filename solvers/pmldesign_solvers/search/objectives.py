"""The logarithm of the error as a smooth function of a strategy, with its gradient.

A strategy is R = [diag(d); Theta], with k rows Theta. With G = R^T R, X = G^-1 (on the vectors that
sum to zero, where the total is public) and t = tr_{p/2}(A X A^T), the error at noise scale 1 is
sqrt(2 t), and with dt = <K, dX>

    grad log sqrt(t) = -R X K X / t.

Without a public total sum_r R_rj grad_rj = -(K X)_jj / t, which gives the gradient in d without
another n x n product. Where moreover every d_j > 0 and k is small, X comes from a k x k system
(Woodbury), and everything costs O(n^2 k).

add-remove: the columns of R are divided by s_j = d_j + sum_k |Theta_kj|, so that the noise scale is
1/eps whatever Theta and d is a constant. Distances: log b is added, and d >= 0 varies.
|x| is smoothed to (x^2 + mu^2)^(1/2) unless Theta >= 0; the error does not depend on the scale of
R, and (log mean square)^2 / 2 keeps it near 1, where mu is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import CALL, DECOMPOSED, ENTRY, SOLVED
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_noise import PairRule, log_moment, strategy_gradient
from pmldesign_solvers.search.problem import SearchProblem

RIDGE = 1e-11
"""Added to G, relative to its mean eigenvalue, where R may not measure everything."""

UNMEASURED = 1e-100
"""Norm of a column that is not measured."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How much absolute values and maxima are smoothed in a stage of the descent.

    Attributes:
        width: mu of the smoothed absolute value and tau of smoothed maxima, positive.
        exact_moment: the exact even moment instead of the p-trace.
    """

    width: float
    exact_moment: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """R = [diag(d); Theta]: d of shape (n,), Theta of shape (k, n)."""

    diagonal: Array
    rows: Array

    def matrix(self) -> Array:
        """R without its zero rows."""
        full = np.vstack([np.diag(self.diagonal), self.rows])
        return np.ascontiguousarray(full[full.any(axis=1)])


def log_unit_error(
    problem: SearchProblem, blocks: Stacked, smoothing: Smoothing
) -> tuple[float, Array, Array]:
    """Logarithm of the error at noise scale 1, and its gradients in d and in Theta."""
    if smoothing.exact_moment:
        return _log_moment(problem, blocks)
    power = problem.p / 2
    if power > 1:
        power = min(power, 1 / smoothing.width)
    inverse = _inverse(problem, blocks)
    trace, weights = problem.p_trace(inverse, power)
    d, Theta = blocks.diagonal, blocks.rows
    if len(Theta) < len(d):
        along_rows = ((Theta @ inverse) @ weights) @ inverse / -trace
    else:
        along_rows = Theta @ (inverse @ weights @ inverse) / -trace
    along_d = np.zeros_like(d)
    if problem.public_total:
        along_d -= d * np.einsum("ij,ij->i", inverse @ weights, inverse) / trace
    elif d.any():
        products = -np.einsum("ij,ij->j", weights, inverse) / trace
        along_d = (products - _column_products(along_rows, Theta)) / d
    return 0.5 * float(np.log(2 * trace)), along_d, along_rows


def _column_products(left: Array, right: Array) -> Array:
    return np.asarray(np.einsum("kj,kj->j", left, right))


def _inverse(problem: SearchProblem, blocks: Stacked) -> Array:
    d, Theta = blocks.diagonal, blocks.rows
    k, n = Theta.shape
    if not problem.public_total and 2 * k < n and d.min() > 0:
        scaled = Theta / d
        inner = -scaled.T @ _solved(np.eye(k) + scaled @ scaled.T, scaled)
        inner.flat[:: n + 1] += 1.0
        return np.asarray(inner / d / d[:, None])
    gram = Theta.T @ Theta
    gram.flat[:: n + 1] += d**2
    level = gram.trace() / n
    gram.flat[:: n + 1] += RIDGE * level
    if not problem.public_total:
        return _solved(gram, np.eye(n))
    means = gram.mean(axis=0)
    gram += means.mean() - means - means[:, None] + level / n
    return np.asarray(_solved(gram, np.eye(n)) - 1 / (level * n))


def _solved(system: Array, right: Array) -> Array:
    """The positive definite system solved by LAPACK itself: scipy's checks cost 8 cells tenfold."""
    _, solution, failed = scipy.linalg.lapack.dposv(system, right)
    if failed:
        raise scipy.linalg.LinAlgError("the Gram matrix of a strategy is singular")
    return np.asarray(solution)


def error_work(problem: SearchProblem, rows: int, smoothing: Smoothing, *, few: bool) -> float:
    """Units of `Work` of `log_unit_error`; `few` rows in addition to d > 0 need no n x n system."""
    k, m, n = rows, problem.counts.size, problem.cells
    if smoothing.exact_moment:
        units = DECOMPOSED * 2 * n**2 * (n + k) + ENTRY * m * (n + k) * problem.p / 2
    elif few and not problem.public_total and 2 * k < n:
        units = 5 * k * n**2 + SOLVED * k**2 * n + ENTRY * n**2 / 3
    else:
        units = (SOLVED + 2) * n**3 + 2 * k * n**2 + ENTRY * n**2 / 3
    return CALL + units + problem.trace_work


def _log_moment(problem: SearchProblem, blocks: Stacked) -> tuple[float, Array, Array]:
    n = problem.cells
    R = np.vstack([np.diag(blocks.diagonal), blocks.rows])
    inverse = problem.pseudo_inverse(R)
    value, slope = log_moment(problem.matvec(inverse), problem.p, problem.counts)
    gradient = strategy_gradient(problem.centred(R), inverse, problem.rmatvec(slope))
    return value, gradient[:n].diagonal(), gradient[n:]


def _scale_penalty(x: Array) -> tuple[float, Array]:
    """(log mean square)^2 / 2, and its gradient."""
    mean = float(x @ x) / x.size
    log = float(np.log(mean))
    return 0.5 * log**2, np.asarray(2 * log / mean / x.size * x)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnObjective:
    """Add-remove DP: x holds Theta; the columns are normalised, d is a constant.

    Attributes:
        problem: without a public total.
        diagonal: d, all positive or all zero.
        signed: whether Theta may be negative.
    """

    problem: SearchProblem
    diagonal: Array
    signed: bool

    def variables(self, start: Stacked) -> Array:
        """Variables of a start; without a constant part, scaled to mean square 1."""
        x = start.rows.ravel()
        return x if self.diagonal.any() else np.asarray(x / np.sqrt(x @ x / x.size))

    def form(self, x: Array) -> Stacked:
        """Blocks d and Theta as they are, before normalisation."""
        return Stacked(self.diagonal, x.reshape(-1, self.problem.cells))

    def bounds(self, size: int) -> list[tuple[float | None, None]] | None:
        """Bounds on the variables, for `scipy.optimize.minimize`."""
        return None if self.signed else [(0.0, None)] * size

    def strategy(self, x: Array) -> Array:
        """R, with columns of l1 norm 1."""
        norms = self._norms(np.abs(x.reshape(-1, self.problem.cells)))
        return self.form(x).matrix() / norms

    def work(self, size: int, smoothing: Smoothing) -> float:
        """Units of `Work` of `evaluate`, for so many variables."""
        rows, few = size // self.problem.cells, bool(self.diagonal.any())
        return error_work(self.problem, rows, smoothing, few=few) + ENTRY * size

    def evaluate(self, x: Array, smoothing: Smoothing) -> tuple[float, Array]:
        """The logarithm of the error at epsilon = 1, and its gradient."""
        Theta = x.reshape(-1, self.problem.cells)
        size = np.sqrt(Theta**2 + smoothing.width**2) if self.signed else Theta
        norms = self._norms(size)
        blocks = Stacked(self.diagonal / norms, Theta / norms)
        value, along_d, gradient = log_unit_error(self.problem, blocks, smoothing)
        products = along_d * blocks.diagonal + _column_products(gradient, blocks.rows)
        slope = Theta / size if self.signed else 1.0
        gradient = ((gradient - products * slope) / norms).ravel()
        if self.diagonal.any():
            return value, gradient
        penalty, pull = _scale_penalty(x)
        return value + penalty, gradient + pull

    def _norms(self, size: Array) -> Array:
        norms: Array = np.maximum(self.diagonal + size.sum(axis=0), UNMEASURED)
        return norms


@dataclass(frozen=True, slots=True, eq=False)
class PairObjective:
    """Replace DP or PML: x holds d, then Theta; the noise scale is part of the objective."""

    problem: SearchProblem
    rule: PairRule

    def variables(self, start: Stacked) -> Array:
        """Variables of a start, scaled to mean square 1."""
        x = np.concatenate([start.diagonal, start.rows.ravel()])
        return np.asarray(x / np.sqrt(x @ x / x.size))

    def bounds(self, size: int) -> list[tuple[float | None, None]]:
        """Bounds on the variables, for `scipy.optimize.minimize`."""
        n = self.problem.cells
        return [(0.0, None)] * n + [(None, None)] * (size - n)

    def form(self, x: Array) -> Stacked:
        """Blocks d and Theta, which are the strategy."""
        n = self.problem.cells
        return Stacked(x[:n], x[n:].reshape(-1, n))

    def strategy(self, x: Array) -> Array:
        """R."""
        return self.form(x).matrix()

    def work(self, size: int, smoothing: Smoothing) -> float:
        """Units of `Work` of `evaluate`, for so many variables: all pairs of cells in every row."""
        n = self.problem.cells
        rows = size // n - 1
        pairs = 4 * ENTRY * (rows + 1) * n**2
        return error_work(self.problem, rows, smoothing, few=True) + pairs

    def evaluate(self, x: Array, smoothing: Smoothing) -> tuple[float, Array]:
        """The logarithm of the error, and its gradient."""
        blocks = self.form(x)
        d, Theta = blocks.diagonal, blocks.rows
        value, along_d, gradient = log_unit_error(self.problem, blocks, smoothing)
        moves = Theta[:, :, None] - Theta[:, None, :]
        sizes = np.sqrt(moves**2 + smoothing.width**2)
        distances = sizes.sum(axis=0) + d + d[:, None]
        distances.flat[:: self.problem.cells + 1] = 0.0
        log_scale, pull = self.rule.smooth_log_scale(distances, smoothing.width)
        moves /= sizes
        along_d = along_d + pull.sum(axis=1)
        along_rows = gradient + np.einsum("ij,kij->ki", pull, moves)
        penalty, back = _scale_penalty(x)
        return value + log_scale + penalty, np.concatenate([along_d, along_rows.ravel()]) + back


Objective = ColumnObjective | PairObjective
