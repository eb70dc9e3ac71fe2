"""Both bounds on gamma_(p)(A), recomputed from the workload and a solver's output alone.

gamma_(p)(A) = min over L R = A of  tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2.

Upper bound. Any R and any n x r matrix B give L = A B with A = L R + E, E = A (I - B R), where E is
zero but for rounding. gamma_(p) is a norm and gamma_(p)(E) <= (sum_i norm(E_i)_2^p)^(1/p) (measure
every cell), so
    gamma_(p)(A) <= tr_{p/2}(L L^T)^(1/2) max_j norm(R e_j)_2 + (sum_i norm(E_i)_2^p)^(1/p)
holds whatever the solver did.

Lower bound. For u, w >= 0 with norm(u)_q <= 1, q = p/(p-2), and sum(w) <= 1,
    gamma_(p)(A) >= nuclear_norm( diag(u)^(1/2) A diag(w)^(1/2) ).
The singular values of a small matrix are computed directly and lowered by (m + n) eps times its
Frobenius norm, more than a backward stable method can be off (Weyl). Those of a large one are
square roots of eigenvalues of its Gram matrix, lowered before the root by what that is off: a
multiple of its trace, which sums over the long side decide.

Pairs. Where neighbours differ by e_i - e_j, R counts by the largest distance of two columns, w is a
weight for every pair, diag(w) the graph Laplacian of these weights (`pair_bounds`), and A counts on
vectors that sum to zero only: as differences of its columns to the last one, so that nothing which
they have in common is rounded. L and E are made of these and of the first n - 1 rows of B.

Both bounds are then moved outwards by the relative rounding error of their last sums. Squares that
may have underflowed enter the upper bound with the smallest normal number added. The products A B
and B R count as they are computed, but for p = 2 and wide A, where their rounding is added: a B
with entries far larger than A and R call for hides some of the rounding of L.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3 and
    the dual in the proof of Lemma 2.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.pair_bounds import diameter, lower_bound_of_pairs

Kind = Literal["cells", "pairs"]
"""What neighbouring histograms differ by: one cell (add-remove), or two (replace)."""

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
NEGLIGIBLE = 1e-10
"""Part of an upper bound that need not be computed closely."""
ROUNDED = 1e-8
"""Largest part of an upper bound that may be added for rounding instead of computing closely."""
SAMPLES = 8
"""Combinations of columns with random signs that tell the size of a trace beforehand."""
DIRECT_ENTRIES = 2**15
"""Largest m * n whose singular values are computed without a Gram matrix."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two-sided bound on gamma_(p)(A), recomputed from the workload and the factors alone.

    Attributes:
        lower: rounded down.
        upper: rounded up; the value of the returned factorization.
    """

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """Relative gap, upper / lower - 1."""
        return self.upper / self.lower - 1.0 if self.lower > 0 else float("inf")


def power_mean(values: Array, power: float, counts: Array | None = None) -> float:
    """(sum_i counts_i values_i^power)^(1/power) for values >= 0, scaled so that nothing overflows.

    tr_q of a matrix with this diagonal; power may be inf.
    """
    top = float(values.max(initial=0.0))
    if top in (0.0, np.inf) or np.isinf(power):
        return top
    scaled = (values / top) ** power
    total = float(scaled.sum() if counts is None else counts @ scaled)
    return float(top * total ** (1.0 / power))


def dual_exponent(p: float) -> float:
    """1/q = (p - 2)/p: 0 at p = 2, 1 at p = inf."""
    return 1.0 if np.isinf(p) else (p - 2.0) / p


def dual_norm(weights: Array, p: float, counts: Array | None = None) -> float:
    """norm(u)_q with q = p/(p - 2)."""
    exponent = dual_exponent(p)
    return power_mean(weights, np.inf if exponent == 0.0 else 1.0 / exponent, counts)


def lower_bound(operator: Operator, u: Array, w: Array, p: float) -> float:
    """Certified lower bound on gamma_(p)(A) from any dual weights.

    Args:
        operator: the m x n workload.
        u: shape (m,), non-negative, not all zero; scaled here to norm(u)_q = 1.
        w: non-negative, not all zero. Shape (n,) for cells, scaled here to sum 1; or a symmetric
            matrix of shape (n, n) for pairs, scaled to sum 1 over i < j.
        p: in [2, inf].
    """
    m, n = operator.shape
    u = np.asarray(u / dual_norm(u, p))
    if w.ndim == 2:
        return lower_bound_of_pairs(operator.to_dense(), u, w)
    root = np.sqrt(w / w.sum())
    if m * n <= DIRECT_ENTRIES:
        matrix = np.sqrt(u)[:, None] * operator.to_dense() * root
        values = np.linalg.svd(matrix, compute_uv=False)
        off = (m + n) * EPS * float(np.linalg.norm(matrix))
        nuclear = float(np.maximum(values - off, 0.0).sum())
    else:
        if m < n:
            rows = np.sqrt(u)[:, None] * operator.to_dense() * root
            gram, rounding = rows @ rows.T, n * EPS
        else:
            gram, rounding = root[:, None] * operator.gram(u) * root, operator.gram_rounding(u)
        nuclear = sum_of_roots(np.linalg.eigvalsh(gram), float(np.trace(gram)), rounding)
    return float(nuclear * (1.0 - (m + n) * EPS))


def sum_of_roots(eigenvalues: Array, trace: float, rounding: float) -> float:
    """Lower bound on trace(M)^(1/2) from the eigenvalues of a Gram matrix M.

    Its entries are off by at most `rounding` times the norms of the two columns, M by that times
    its trace, and scaling and eigenvalues by a few eps for every row.
    """
    lowered = eigenvalues - (rounding + (len(eigenvalues) + 8) * EPS) * trace
    return float(np.sqrt(np.maximum(lowered, 0.0)).sum())


def upper_bound(
    operator: Operator, strategy: Array, basis: Array, p: float, *, kind: Kind = "cells"
) -> float:
    """Certified upper bound on gamma_(p)(A) from any factorization, exact or nearly so.

    Args:
        operator: the m x n workload.
        strategy: R, shape (r, n).
        basis: B, shape (n, r); the reconstruction is L = A B.
        p: in [2, inf].
        kind: what neighbours differ by; for pairs A counts on vectors that sum to zero only, and
            the columns of B, which should sum to zero, without their last entries.
    """
    m, n = operator.shape
    if kind == "cells":
        sensitivity = float(np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max() + TINY))
        value, rest = _sizes(operator, strategy, basis, p)
        return (value * sensitivity + rest) * (1.0 + (m + n) * EPS)
    sensitivity = diameter(strategy) + float(np.sqrt(TINY))
    relative, kept = operator.relative(idle=False)
    value, rest = _sizes(relative, strategy[:, :-1] - strategy[:, -1:], basis[:-1], p)
    if len(kept) < m:
        moves = np.vstack([np.eye(n - 1), -np.ones(n - 1)])
        left_out = np.delete(operator.row_norms(moves), kept)
        rest += float(np.sqrt(power_mean(left_out + TINY, p / 2)))
    # measuring every cell but one has the sensitivity sqrt 2
    return float((value * sensitivity + rest * np.sqrt(2.0)) * (1.0 + (m + n) * EPS))


def _sizes(operator: Operator, strategy: Array, basis: Array, p: float) -> tuple[float, float]:
    """(sum_i norm(X_i)^p)^(1/p) of X = L and of X = A - L R."""
    m, n = operator.shape
    if m < n:
        return _wide_sizes(operator, strategy, basis, p)
    value = float(np.sqrt(_variance_norm(operator, basis, p)))
    size = np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max())
    residual = np.eye(n) - basis @ strategy
    return value, _size_of_rest(operator, residual, p, NEGLIGIBLE * value * float(size))


def _wide_sizes(operator: Operator, strategy: Array, basis: Array, p: float) -> tuple[float, float]:
    """The same without anything n x n; what the product L R can be off by is added."""
    reconstruction = operator.matvec(basis)
    rest = operator.to_dense() - reconstruction @ strategy
    value, left = (
        float(np.sqrt(power_mean(np.einsum("ij,ij->i", rows, rows) + TINY, p / 2)))
        for rows in (reconstruction, rest)
    )
    rounding = len(strategy) * EPS * float(np.linalg.norm(strategy))
    return value, left + rounding * value


def _variance_norm(operator: Operator, basis: Array, p: float) -> float:
    """norm(diag(A B B^T A^T))_(p/2), rounded up but for its last sums.

    At p = 2 that is the sum of the entries of K and B B^T, K = A^T A, which many queries have in
    common. With d the norms of the columns of A and b those of the rows of B, the entries of K are
    off by at most `gram_rounding` times d d^T, those of B B^T by n eps b b^T, and a row's sum by
    n eps of its terms; all that is added, unless a badly conditioned B makes it matter.
    """
    m, n = operator.shape
    if p == 2 and sums_rows(operator):
        equal = np.ones(m)
        gram = operator.gram(equal)
        reach = float(np.sqrt(gram.diagonal() * np.einsum("ij,ij->i", basis, basis)).sum())
        rounding = 2.0 * (operator.gram_rounding(equal) + 2 * n * EPS) * reach**2
        sample = basis @ np.random.default_rng(0).choice((-1.0, 1.0), (basis.shape[1], SAMPLES))
        if rounding <= ROUNDED * float(np.vdot(gram @ sample, sample)) / SAMPLES:
            total = np.einsum("ij,ij->i", gram, basis @ basis.T).sum()
            return float(total) + rounding + m * TINY
    return power_mean(operator.row_norms(basis) + TINY, p / 2)


def sums_rows(operator: Operator) -> bool:
    """Whether the Gram matrix tells the sum of the norms of rows for less than the rows do."""
    m, n = operator.shape
    return m > n and m * n > DIRECT_ENTRIES


def _size_of_rest(operator: Operator, residual: Array, p: float, negligible: float) -> float:
    """At least (sum_i norm(a_i^T X)^p)^(1/p): by norm(a_i) norm(X)_F if that is negligible.

    Their sum at p = 2 is more than that at any p.
    """
    m, _ = operator.shape
    if sums_rows(operator):
        sizes = float(np.trace(operator.gram(np.ones(m)))) * (1.0 + 2 * m * EPS) + m * TINY
        size = float(np.linalg.norm(residual) * np.sqrt(sizes))
        if size <= negligible:
            return size
    return float(np.sqrt(power_mean(operator.row_norms(residual) + TINY, p / 2)))


def certify(
    operator: Operator,
    strategy: Array,
    basis: Array,
    u: Array,
    w: Array,
    p: float,
    *,
    kind: Kind = "cells",
) -> Certificate:
    """Both bounds, from the original workload and the returned arrays alone."""
    return Certificate(
        lower=lower_bound(operator, u, w, p),
        upper=upper_bound(operator, strategy, basis, p, kind=kind),
    )
