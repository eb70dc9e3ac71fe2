"""Both bounds on gamma_(p)(A), recomputed only from the workload and a solver's output.

gamma_(p)(A) = min over L R = A of  tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2.

Upper bound. Any R and any n x r matrix B give L = A B with A = L R + E, E = A (I - B R), where E is
zero up to rounding. gamma_(p) is a norm and gamma_(p)(E) <= (sum_i norm(E_i)_2^p)^(1/p) (measure
every cell), so
    gamma_(p)(A) <= tr_{p/2}(L L^T)^(1/2) max_j norm(R e_j)_2 + (sum_i norm(E_i)_2^p)^(1/p)
holds whatever the solver did.

Lower bound. For u, w >= 0 with norm(u)_q <= 1, q = p/(p-2), and sum(w) <= 1,
    gamma_(p)(A) >= nuclear_norm( diag(u)^(1/2) A diag(w)^(1/2) ).
The singular values of a small matrix are computed directly and lowered by (m + n) eps times its
Frobenius norm, more than a backward stable method can be off (Weyl). Those of a large one are
square roots of eigenvalues of its Gram matrix, lowered before the root by its rounding: a
multiple of its trace, which sums over the long side determine.

Both bounds are then moved outwards by the relative rounding error of their last sums; `factors`
has that of L and E. For neighbours that differ by e_i - e_j, `pairs` has both bounds.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3 and
    the dual in the proof of Lemma 2.10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.certificate.factors import factor_sizes
from pmldesign_solvers.certificate.pairs import lower_bound_of_pairs, upper_bound_of_pairs
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.operator import (
    EPS,
    SVD_ENTRIES,
    TINY,
    Array,
    Indices,
    Operator,
    dual_norm,
    sum_of_roots,
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two-sided bound on gamma_(p)(A), recomputed only from the workload and the factors.

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

    def join(self, other: Certificate) -> Certificate:
        """The largest lower and the smallest upper bound of two certificates of one norm."""
        return Certificate(max(self.lower, other.lower), min(self.upper, other.upper))

    def times_power_of_two(self, exponent: int) -> Certificate:
        """The certificate of the workload times 2^exponent.

        Raises:
            ValueError: a bound would be too large or too small for float64.
        """
        with np.errstate(over="ignore", under="ignore"):
            lower, upper = np.ldexp([self.lower, self.upper], exponent).tolist()
        if min(upper, lower or upper) < TINY or (np.isinf(upper) and np.isfinite(self.upper)):
            raise ValueError(
                f"its norm is near 2^{exponent + np.frexp(self.upper)[1]}, outside the range of"
                " float64; rescale the workload, which rescales all errors alike"
            )
        return Certificate(lower, upper)


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
        return lower_bound_of_pairs(operator, u, w)
    root = np.sqrt(w / w.sum())
    if m * n <= SVD_ENTRIES:
        matrix = np.sqrt(u)[:, None] * operator.to_dense() * root
        values = np.linalg.svd(matrix, compute_uv=False)
        off = (m + n) * EPS * float(np.linalg.norm(matrix))
        nuclear = float(np.maximum(values - off, 0.0).sum())
    else:
        turned = operator.transposed() if m < n else operator
        outer, inner = (np.sqrt(u), root**2) if m < n else (root, u)
        if turned is None:
            rows = outer[:, None] * operator.to_dense() * root
            gram, rounding = rows @ rows.T, n * EPS
        else:
            gram = outer[:, None] * turned.gram(inner) * outer
            rounding = turned.gram_rounding(inner)
        nuclear = sum_of_roots(np.linalg.eigvalsh(gram), float(np.trace(gram)), rounding)
    return float(nuclear * (1.0 - (m + n) * EPS))


def upper_bound(
    operator: Operator,
    strategy: Array,
    right_inverse: Array,
    p: float,
    *,
    relation: Relation = "add-remove",
    groups: Indices | None = None,
) -> float:
    """Certified upper bound on gamma_(p)(A) from any factorization, exact or nearly so.

    Args:
        operator: the m x n workload.
        strategy: R, shape (r, n).
        right_inverse: B, shape (n, r); the reconstruction is L = A B.
        p: in [2, inf].
        relation: of neighbours; under replace A counts on vectors that sum to zero only, and the
            columns of B, which should sum to zero, without their last entries.
        groups: under replace the number of the group of each cell, whose total is public.
    """
    if relation == "replace":
        return upper_bound_of_pairs(operator, strategy, right_inverse, p, groups)
    sensitivity = float(np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max() + TINY))
    value, rest = factor_sizes(operator, strategy, right_inverse, p)
    return (value * sensitivity + rest) * (1.0 + sum(operator.shape) * EPS)


def certify(
    operator: Operator,
    strategy: Array,
    right_inverse: Array,
    u: Array,
    w: Array,
    p: float,
    *,
    relation: Relation = "add-remove",
    groups: Indices | None = None,
) -> Certificate:
    """Both bounds, only from the original workload and the returned arrays."""
    return Certificate(
        lower=lower_bound(operator, u, w, p),
        upper=upper_bound(operator, strategy, right_inverse, p, relation=relation, groups=groups),
    )
