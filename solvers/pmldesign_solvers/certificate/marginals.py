r"""Both bounds on gamma_(p) of a collection of marginals, rounded outwards.

In the letters of `norm.marginals`, for any u >= 0 with (sum_S m_S u_S^q)^(1/q) <= 1 and s > 0,

    sum_T d_T a_T^(1/2)  <=  gamma_(p)  <=  (sum_S m_S v_S^(p/2))^(1/p) (sum_T s_T)^(1/2).

Where neighbours differ in two cells (`norm.marginals_pairs`), the sums leave out T = {}, a_T is
multiplied by 2 b_T, and the largest squared distance of two cells takes the place of sum_T s_T.
None of this mentions the number of cells, so that it never overflows. Every sum has positive terms,
and both bounds are moved by more than the rounding of all of them.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array, dual_norm, power_mean
from pmldesign_solvers.structure.subsets import ResidualSpaces

CANCELLED = 1e-13
"""More than the rounding of b_T, whose terms are at most 2."""


def lower_bound(
    spaces: ResidualSpaces, weights: Array, u: Array, p: float, *, b: Array | None = None
) -> float:
    """Certified lower bound from any dual weights.

    Args:
        spaces: the residual spaces of the K marginals; for pairs without that of the total.
        weights: c_S, shape (K,).
        u: shape (K,), non-negative, not all zero; scaled here to norm 1.
        p: in [2, inf].
        b: for pairs, b_T, shape (R,).
    """
    scale = _scale(spaces, weights)
    eigenvalues = spaces.incidence @ ((weights / scale) ** 2 / spaces.cells * u)
    if b is not None:
        eigenvalues = 2 * eigenvalues * np.maximum(b - CANCELLED, 0.0)
    norm = dual_norm(u, p, spaces.cells)
    value = scale * float(spaces.dimensions @ np.sqrt(eigenvalues) / np.sqrt(norm))
    return value * (1 - _rounding(spaces))


def upper_bound(
    spaces: ResidualSpaces,
    weights: Array,
    precisions: Array,
    p: float,
    *,
    squared_sensitivity: float | None = None,
) -> float:
    """Certified upper bound from any strategy.

    Args:
        spaces: as above.
        weights: as above.
        precisions: s_T > 0, shape (R,).
        p: in [2, inf].
        squared_sensitivity: for pairs, the largest squared distance of two cells, rounded up.
    """
    scale = _scale(spaces, weights)
    ratio = (weights / (scale * spaces.cells)) ** 2
    variances = ratio * (
        spaces.incidence.T @ (spaces.dimensions * (spaces.dimensions / precisions))
    )
    if squared_sensitivity is None:
        squared_sensitivity = float(precisions.sum())
    size = power_mean(variances, p / 2, spaces.cells)
    return scale * float(np.sqrt(size) * np.sqrt(squared_sensitivity)) * (1 + _rounding(spaces))


def _scale(spaces: ResidualSpaces, weights: Array) -> float:
    """The largest c_S / m_S: relative to it squares stay in range."""
    return float((weights / spaces.cells).max())


def _rounding(spaces: ResidualSpaces) -> float:
    # at most R + K terms in a sum, some dozens of products and powers in a term
    return (len(spaces.dimensions) + len(spaces.cells) + 200) * EPS
