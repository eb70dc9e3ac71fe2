"""The norms of gamma_(p): the p-norm of the errors, and its dual for the weights of queries.

tr_{p/2}(L L^T)^(1/2) is the p-norm of the row norms of L. Weights u of queries are on the unit
sphere of the dual of the (p/2)-norm, q = p/(p - 2).
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array


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
