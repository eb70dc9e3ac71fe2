"""Sizes of L and of the residual of A = L R, for an upper bound on gamma_(p), with their rounding.

With L = A B and E = A (1 - B R), these are (sum_i norm(X_i)_2^p)^(1/p) of X = L and of X = E.
Squares that may have underflowed count with the smallest normal number added. Where A is wide or
small, L is A B as it is computed, and the rounding of L R is added to E. Elsewhere the products A B
and B R count as they are computed, except at p = 2, where their rounding is added: a B with entries
far larger than A and R require hides some of the rounding of L.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import (
    DIRECT_ENTRIES,
    EPS,
    TINY,
    Array,
    Operator,
    power_mean,
)

NEGLIGIBLE_BOUND = 1e-10
"""Part of an upper bound that need not be computed closely."""
ROUNDING_PART = 1e-8
"""Largest part of an upper bound that may be added for rounding instead of computing closely."""
SAMPLES = 8
"""Combinations of columns with random signs that estimate the size of a trace. Chosen, not
measured: the choice decides how a bound is computed, not whether it holds."""


def factor_sizes(
    operator: Operator, strategy: Array, right_inverse: Array, p: float
) -> tuple[float, float]:
    """(sum_i norm(X_i)^p)^(1/p) of X = L and of X = A - L R."""
    m, n = operator.shape
    if m < n or m * n <= DIRECT_ENTRIES:
        return _written_sizes(operator, strategy, right_inverse, p)
    value = float(np.sqrt(_variance_norm(operator, right_inverse, p)))
    size = np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max())
    residual = np.eye(n) - right_inverse @ strategy
    return value, _size_of_rest(operator, residual, p, NEGLIGIBLE_BOUND * value * float(size))


def _written_sizes(
    operator: Operator, strategy: Array, right_inverse: Array, p: float
) -> tuple[float, float]:
    """The same from L and A - L R themselves; the rounding of the product L R is added.

    The rounding of A B does not matter: L is not necessarily equal to it.
    """
    reconstruction = operator.matvec(right_inverse)
    rest = operator.to_dense() - reconstruction @ strategy
    value, left = (
        float(np.sqrt(power_mean(np.einsum("ij,ij->i", rows, rows) + TINY, p / 2)))
        for rows in (reconstruction, rest)
    )
    rounding = len(strategy) * EPS * float(np.linalg.norm(strategy))
    return value, left + rounding * value


def _variance_norm(operator: Operator, right_inverse: Array, p: float) -> float:
    """norm(diag(A B B^T A^T))_(p/2), rounded up except for its last sums.

    At p = 2 that is the sum of the entries of K and B B^T, K = A^T A, which many queries have in
    common. With d the norms of the columns of A and b those of the rows of B, the entries of K are
    off by at most `gram_rounding` times d d^T, those of B B^T by n eps b b^T, and a row's sum by
    n eps of its terms; all that is added, unless a badly conditioned B makes it matter.
    """
    m, n = operator.shape
    if p == 2 and sums_rows(operator):
        equal = np.ones(m)
        gram = operator.gram(equal)
        reach = float(
            np.sqrt(gram.diagonal() * np.einsum("ij,ij->i", right_inverse, right_inverse)).sum()
        )
        rounding = 2.0 * (operator.gram_rounding(equal) + 2 * n * EPS) * reach**2
        sample = right_inverse @ np.random.default_rng(0).choice(
            (-1.0, 1.0), (right_inverse.shape[1], SAMPLES)
        )
        if rounding <= ROUNDING_PART * float(np.vdot(gram @ sample, sample)) / SAMPLES:
            total = np.einsum("ij,ij->i", gram, right_inverse @ right_inverse.T).sum()
            return float(total) + rounding + m * TINY
    return power_mean(operator.row_norms(right_inverse) + TINY, p / 2)


def sums_rows(operator: Operator) -> bool:
    """Whether the Gram matrix gives the sum of the norms of rows faster than the rows."""
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
