"""Both bounds on gamma_(p) if neighbours differ by e_i - e_j: a record moves between cells.

Upper bound. R counts by the largest distance of two columns, and A on vectors that sum to zero
only: as differences of its columns to the last one, so that nothing which they have in common is
rounded. L and E of `cells` are made of these and of the first n - 1 rows of B. Where i and j are
of one group of cells, all of this is said of each group, and no weight is between groups.

Lower bound. Every pair has a weight, and their graph Laplacian takes the place of diag(w).

With F F^T = W = sum_{i<j} w_ij (e_i - e_j)(e_i - e_j)^T, the graph Laplacian of the weights,

    gamma_(p)(A) >= nuclear_norm( diag(u)^(1/2) A F ).

F comes from Gaussian elimination, a cell at a time: with d = sum_j w_1j its first column is
d^(1/2) e_1 - sum_j w_1j d^(-1/2) e_j, and the rest is the Laplacian of the weights
w_ij + w_1i w_1j / d. Nothing is ever subtracted:

* What a cell adds to the weights that are left is off by at most (n + 4) eps, each relative to
  itself, in whatever order they are added up, and so is their Laplacian in the order of Loewner.
  After n cells W lies between two multiples of F F^T, n (n + 4) eps apart; roots of matrices, hence
  nuclear norms, keep that order.
* Entries of F, columns a_j of A and the products of both are off by relative amounts: A F by at
  most 4 (m + n) eps sum_j norm(a_j) norm(f_j), with the rows f_j of F, norm(f_j)^2 = W_jj. That
  does not shrink where nearly equal columns make A F small; each singular value is lowered by it.
  Columns count both relative to the first one, as they are rounded, and to their mean.
* Where A is large, the singular values are roots of eigenvalues of F^T K F, with the Gram matrix K
  of the columns relative to the last one and without its row of F, which is minus the sum of the
  others. With d the norms of these columns, roundings of K and of the products are multiples of
  d d^T and of |F|^T d d^T |F|, whose only eigenvalue is norm(|F|^T d)^2.

Given public answers that neighbours do not have in common: with P the projection onto the
part that they leave open, and N an orthonormal basis of its range, any L with L R N = A N is valid:
answers may use the public ones. For weights of pairs, sum 1, with the Laplacian W, tr(R W R^T) <= 1
for every R of sensitivity 1. Where N S N^T <= W,

    norm(diag(u)^(1/2) L)_F >= norm(diag(u)^(1/2) L)_F norm(R N S^(1/2))_F
                            >= nuclear_norm(diag(u)^(1/2) A N S^(1/2)).

The largest such S is the Schur complement (N^T W^+ N)^(-1). W gets a little of equal weights for
all pairs, so that it is definite on vectors that sum to zero, and S is lowered until the
eigenvalues of W - N S N^T are at least 0 with their rounding.

Lower bound of a product. Pairs may weigh w_i w_j, with w the dual weights of cells, sum 1: their
Laplacian is (diag(w) - w w^T) / c, c = sum_{i<j} w_i w_j = (1 - sum_i w_i^2) / 2. With B =
diag(u)^(1/2) A diag(w)^(1/2), s = w^(1/2), a unit vector, and K = B^T B,

    gamma_(p)(A) >= nuclear_norm(B (1 - s s^T)) / c^(1/2) = trace(C^(1/2)) / c^(1/2),

C being K on the vectors orthogonal to s. With the eigenvalues k_a and eigenvectors of K, and s_a
the coordinates of s in them, det(C + t) = phi(t) det(K + t), phi(t) = sum_a s_a^2 / (k_a + t), so
that

    trace(K^(1/2)) - trace(C^(1/2)) = 1/pi int_0^inf h(t) t^(-1/2) dt,
    h(t) = sum_a s_a^2 k_a / (k_a + t)^2 / phi(t),

from x^(1/2) = 1/pi int x / (x + t) t^(-1/2) dt. In a product k_a and s_a^2 are products of those of
the factors: nothing larger than a factor is decomposed. Where nuclear_norm(B) is known, s takes
away norm(B s)_2 = norm(diag(u)^(1/2) A w)_2 of it at most.

Rounding. Eigenvalues of the factors are lowered by more than they can be off, and products of too
many different ones are cut: trace(C^(1/2)) grows with K. In log t the integrand is analytic in a
strip of half width pi, so that the trapezoidal rule of step 1/2 is off by e^(-4 pi^2) of it; what
lies beyond the ends is at most t^(1/2) 2/pi below, as h <= 1, and 2/pi t^(-1/2) sum_a s_a^2 k_a
above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.certificate.factors import factor_sizes
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import diameter, members_of
from pmldesign_solvers.operators.operator import (
    EPS,
    TINY,
    Array,
    Indices,
    Operator,
    dual_norm,
    power_mean,
    sum_of_roots,
)

DECOMPOSED = 10**9
"""Largest m n^2 of a matrix that is decomposed itself: half a second."""
ELIMINATED = 64
"""Cells after which their effect on the others is added up, in a product of matrices: 1500 cells in
0.2 s instead of 3 s."""
EVEN = 3e-7
"""Part of the weights that is the same for all pairs."""
LOWERED = (3e-8, 1e-6, 3e-5, 1e-3)
"""Parts by which S is lowered, one after the other."""


def lower_bound_of_pairs(operator: Operator, u: Array, w: Array) -> float:
    """Nuclear norm of diag(u)^(1/2) A times a root of the Laplacian W."""
    weighted = np.flatnonzero(w.any(axis=1))  # of equal cells perhaps only one
    if len(weighted) == 0:
        return 0.0
    m, n = operator.shape[0], len(weighted)
    weights = w[np.ix_(weighted, weighted)]
    root = laplacian_root(weights / (weights.sum() / 2))
    if m * n**2 <= DECOMPOSED or m < n:
        nuclear = _nuclear_norm(operator.to_dense()[:, weighted], u, root)
    else:
        every = np.zeros((operator.shape[1], n - 1))
        every[weighted] = root
        nuclear = _by_products(operator, u, every)
    return float(nuclear * (1.0 - (m + (n + 3) ** 2) * EPS))


def _nuclear_norm(matrix: Array, u: Array, root: Array) -> float:
    """At least that of diag(u)^(1/2) A F, from the matrix itself."""
    m, n = matrix.shape
    # differences first: what all columns have in common is not to be rounded
    scaled = np.sqrt(u)[:, None] * (matrix - matrix[:, :1])
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(scaled, axis=0) + np.linalg.norm(centred, axis=0)
    if m > n:
        centred = np.linalg.qr(centred, mode="r")
    values = np.linalg.svd(centred @ root, compute_uv=False)
    rounding = 4 * (m + n) * EPS * float(sizes @ np.linalg.norm(root, axis=1))
    return float(np.maximum(values - rounding, 0.0).sum())


def _by_products(operator: Operator, u: Array, root: Array) -> float:
    """The same from the Gram matrix of the columns relative to the last one."""
    relative, kept = operator.relative(idle=False)
    gram, rest = relative.gram(u[kept]), root[:-1]
    size = float(np.sum((np.sqrt(gram.diagonal()) @ np.abs(rest)) ** 2))
    rounding = 2 * relative.gram_rounding(u[kept]) + 8 * (len(root) + 4) * EPS
    values: Array = scipy.linalg.eigvalsh(rest.T @ gram @ rest).astype(np.float64)
    return sum_of_roots(values, size, rounding)


def laplacian_root(weights: Array) -> Array:
    """F, shape (n, n - 1), with F F^T the Laplacian of symmetric weights."""
    left, last = weights.copy(), len(weights) - 1
    root = np.zeros((len(left), last))
    for start in range(0, last, ELIMINATED):
        stop = min(start + ELIMINATED, last)
        for cell in range(start, stop):
            before = root[:, start:cell]  # a row has entries of one sign: nothing cancels
            below = left[cell + 1 :, cell] + before[cell + 1 :] @ before[cell]
            degree = float(below.sum())
            if degree > 0.0:
                root[cell, cell] = np.sqrt(degree)
                root[cell + 1 :, cell] = below / -root[cell, cell]
        done = root[stop:, start:stop]
        left[stop:, stop:] += done @ done.T
    return root


def upper_bound_of_pairs(
    operator: Operator,
    strategy: Array,
    right_inverse: Array,
    p: float,
    groups: Indices | None = None,
) -> float:
    """Certified upper bound from any factorization, as `cells.upper_bound` has it."""
    m, n = operator.shape
    members = [np.arange(n)] if groups is None else members_of(groups)
    sensitivity = max(diameter(strategy[:, cells]) for cells in members) + float(np.sqrt(TINY))
    if groups is None:
        relative, kept = operator.relative(idle=False)
    else:
        relative, kept = DenseOperator(_relative(operator.to_dense(), members)), np.arange(m)
    inverse = right_inverse[np.concatenate([cells[:-1] for cells in members])]
    value, rest = factor_sizes(relative, _relative(strategy, members), inverse, p)
    if len(kept) < m:
        moves = np.vstack([np.eye(n - 1), -np.ones(n - 1)])
        left_out = np.delete(operator.row_norms(moves), kept)
        rest += float(np.sqrt(power_mean(left_out + TINY, p / 2)))
    # measuring every cell but one of each group has the sensitivity sqrt 2
    return float((value * sensitivity + rest * np.sqrt(2.0)) * (1.0 + (m + n) * EPS))


def _relative(matrix: Array, members: Sequence[Indices]) -> Array:
    """Columns less the last one of their group, which is left out."""
    return np.hstack([matrix[:, cells[:-1]] - matrix[:, cells[-1:]] for cells in members])


def lower_bound(matrix: Array, basis: Array, u: Array, w: Array, p: float) -> float:
    """Certified lower bound from any dual weights; 0 where rounding leaves none.

    Args:
        matrix: A, shape (m, n).
        basis: N, shape (n, k), of vectors that sum to zero.
        u: shape (m,), non-negative, not all zero.
        w: symmetric, non-negative, not all zero, zeros on the diagonal; shape (n, n).
        p: in [2, inf].
    """
    n, k = basis.shape
    pairs = n * (n - 1) / 2
    weights = (1 - EVEN) * w / (w.sum() / 2) + EVEN / pairs * (1 - np.eye(n))
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.inv(laplacian + np.ones((n, n)) / n)
    schur = np.linalg.inv(basis.T @ inverse @ basis)
    root = scipy.linalg.cholesky((schur + schur.T) / 2, lower=True)
    half = basis @ root
    rounding = 8 * (n + k) * EPS * float(np.trace(laplacian))
    for lowered in LOWERED:
        left = laplacian - (1 - lowered) * half @ half.T + np.ones((n, n)) / n
        if np.linalg.eigvalsh(left)[0] >= rounding:
            break
    else:
        return 0.0
    rows = np.sqrt(u / dual_norm(u, p))[:, None] * (matrix @ half)
    values = np.linalg.svd(rows, compute_uv=False)
    off = (len(rows) + n + k) * EPS * float(np.linalg.norm(rows))
    nuclear = float(np.maximum(values - off, 0.0).sum())
    return float(nuclear * math.sqrt(1 - lowered) * (1 - (len(rows) + n + 8) * EPS))


STEP = 0.5
"""Of log t in the trapezoidal rule: an error of e^(-4 pi^2) = 7e-18."""
TAIL = 1e-10
"""Of trace(K^(1/2)): limit of the part that the integral omits at each end."""
QUADRATURE = 1e-9
"""Of trace(K^(1/2)): more than the error of the integral."""
EIGENVALUE_GRID = 1e-12
"""Eigenvalues of a factor are cut to multiples of this part of the largest one."""
POWERS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Of weights for add-remove neighbours, that are tried under replace. Chosen, not measured."""
TRIED_CELLS = 1024
"""Largest factor whose weights are raised to all of them. Chosen, not measured."""
MOST_VALUES = 2**18
"""Eigenvalues of a product that are kept apart, 2 MiB. Chosen, not measured."""
CUT = 2**-14
"""Relative width of the intervals to which more eigenvalues than that are cut: a loss of 3e-5 of
the bound at most, each time."""

Dual = tuple[Operator, Array, Array]
"""A factor of the product, weights of its queries and of its cells."""


def lower_bound_of_product(duals: Sequence[Dual], p: float) -> float:
    """Certified lower bound from dual weights of the factors.

    Args:
        duals: for every factor its workload, and weights as in `certificate.lower_bound`.
        p: in [2, inf].

    Returns:
        The bound; 0 if all weight is on one cell.
    """
    spectrum = Spectrum(np.ones(1), np.ones(1), np.ones(1))
    norm, log_single, terms = 1.0, 0.0, 0
    for operator, u, w in duals:
        shares = w / w.sum()
        spectrum = spectrum.times(_spectrum(operator, u, shares))
        log_single += math.log1p(-share_of_pairs(shares))
        norm *= dual_norm(u, p)
        terms += sum(operator.shape) + 8
    pairs = -math.expm1(log_single)
    if pairs == 0:
        return 0.0
    kept = max(0.0, spectrum.trace_without() * math.sqrt(2 / (pairs * norm)))
    return kept * (1 - (terms + len(spectrum.values)) * EPS)


def share_of_pairs(w: Array) -> float:
    """2 sum_{i<j} w_i w_j = 1 - sum_i w_i^2 for weights of sum 1, however much is on one cell."""
    largest = int(w.argmax())
    others = np.delete(w, largest)
    return float(w[largest] * others.sum() + others @ (1 - others))


def lower_of_weights(operator: Operator, value: float, u: Array, w: Array) -> float:
    """Certified lower bound under replace from dual weights for add-remove.

    Args:
        operator: A.
        value: nuclear_norm(B), rounded down.
        u: weights of the queries, of norm 1.
        w: weights of the cells, sum 1.
    """
    rounding = (sum(operator.shape) + 8) * EPS
    pairs = share_of_pairs(w)
    if pairs == 0:
        return 0.0
    taken = float(np.linalg.norm(np.sqrt(u) * operator.matvec(w))) * (1 + rounding)
    return max(0.0, (value - taken) * math.sqrt(2 / pairs) * (1 - rounding))


def best_duals(duals: Sequence[Dual], p: float) -> tuple[float, list[Dual]]:
    """The best bound from powers of the weights of cells, and the weights that give it.

    Far pairs count more under replace, and so do cells that weigh little otherwise. Factors with
    more than TRIED_CELLS cells keep the weights as they are.
    """
    tried_powers = POWERS if max(len(w) for _, _, w in duals) <= TRIED_CELLS else POWERS[:1]
    powers = [[(operator, u, w**power) for operator, u, w in duals] for power in tried_powers]
    bounds = [lower_bound_of_product(tried, p) for tried in powers]
    best = int(np.argmax(bounds))
    return bounds[best], [(operator, u, w / w.sum()) for operator, u, w in powers[best]]


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The distinct eigenvalues of K.

    Attributes:
        values: k_a, rounded down.
        counts: how many eigenvectors each has.
        squares: the sum of their s_a^2.
    """

    values: Array
    counts: Array
    squares: Array

    def times(self, other: Spectrum) -> Spectrum:
        """The eigenvalues of the Kronecker product with another such matrix."""
        product = Spectrum(
            np.multiply.outer(self.values, other.values).ravel(),
            np.multiply.outer(self.counts, other.counts).ravel(),
            np.multiply.outer(self.squares, other.squares).ravel(),
        )
        if len(product.values) <= MOST_VALUES:
            return product
        with np.errstate(divide="ignore"):
            return product.merged(np.floor(np.log(product.values) / CUT))

    def merged(self, keys: Array) -> Spectrum:
        """Eigenvalues of equal keys as one, the smallest of them."""
        distinct, place = np.unique(keys, return_inverse=True)
        values = np.full(len(distinct), np.inf)
        np.minimum.at(values, place, self.values)
        return Spectrum(
            values,
            np.asarray(np.bincount(place, weights=self.counts), dtype=np.float64),
            np.asarray(np.bincount(place, weights=self.squares), dtype=np.float64),
        )

    def trace_without(self) -> float:
        """trace(C^(1/2)), rounded down except for the last sums."""
        top = float(self.values.max())
        if top == 0:
            return 0.0
        values = self.values / top
        total = float(self.counts @ np.sqrt(values))
        mean = float(self.squares @ values)
        first = 2 * math.log(TAIL * total)
        last = 2 * math.log(max(mean / (TAIL * total), TAIL * total))
        loss = 0.0
        for t in np.exp(np.arange(first, last + STEP, STEP)).tolist():
            parts = self.squares / (values + t)
            share = float((parts * (values / (values + t))).sum()) / float(parts.sum())
            loss += STEP * math.sqrt(t) * share / math.pi
        return math.sqrt(top) * (total * (1 - 2 * TAIL - QUADRATURE) - loss)


def _spectrum(operator: Operator, u: Array, w: Array) -> Spectrum:
    root = np.sqrt(w)
    gram = root[:, None] * operator.gram(u) * root
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values - len(w) * EPS * float(np.trace(gram)), 0.0)
    spectrum = Spectrum(values, np.ones(len(w)), (vectors.T @ root) ** 2)
    return spectrum.merged(np.floor(values / (EIGENVALUE_GRID * (float(values[-1]) or 1.0))))
