r"""The certified value of a coupled strategy, recomputed from what it is made of.

gamma_(p) is at most (sum_T omega_T^p sum_q v_q^(p/2))^(1/p) times the largest column norm, plus
what rounding left unanswered. v are the variances (`variances`) and the norm that of `columns`,
both rounded up. With D_i = (v, Psi)(1^T; Y) - 1, what is left
of a table is at most omega_T (prod_k (1 + e_k) - 1) prod_k norm(A_k)_F, e_k = norm(D_i), which is
added by the triangle inequality, for the table of counts itself has the sensitivity 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.columns import largest_column
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.variances import Asked, Variances


def upper_bound(
    design: Coupled,
    asked: Sequence[Asked],
    norms: Sequence[float],
    tables: Sequence[tuple[int, ...]],
    scales: Array,
    p: float,
) -> float:
    """Certified upper bound on gamma_(p).

    Args:
        design: the strategy.
        asked: the queries of each factor, upwards.
        norms: norm(A_k)_F, upwards.
        tables: the factors of each.
        scales: omega_T.
        p: in [2, inf].
    """
    variances = Variances(design.sectors, design.features)
    spread = [
        scale**2 * variances.norm([asked[k] for k in table], p / 2)
        for table, scale in zip(tables, scales.tolist(), strict=True)
    ]
    off = {i: _off(measured) for i, measured in design.attributes.items()}
    rest = math.fsum(
        scale
        * _product_off([off.get(asked[k].attribute, 0.0) for k in table])
        * math.prod(norms[k] for k in table)
        for table, scale in zip(tables, scales.tolist(), strict=True)
    )
    square = power_mean(np.array(spread), p / 2) * largest_column(design.sectors, design.features)
    condition = max(map(_condition, design.sectors))
    rounding = (200 + 64 * condition + len(tables)) * EPS
    return math.sqrt(square) * (1 + rounding) + rest


def _off(measured: Measured) -> float:
    n = len(measured.inverse)
    stacked = np.vstack([np.ones(n), measured.rows])
    left = measured.inverse @ stacked - np.eye(n)
    reach = np.abs(measured.inverse) @ np.abs(stacked)
    return float(np.linalg.norm(left) + (n + 2) * EPS * np.linalg.norm(reach))


def _product_off(parts: Sequence[float]) -> float:
    return math.expm1(math.fsum(math.log1p(part) for part in parts)) + 8 * len(parts) * EPS


def _condition(sector: Sector) -> float:
    """Size times the condition of E scaled to diagonal 1."""
    if len(sector.matrix) == 1:
        return 1.0
    root = np.sqrt(sector.matrix.diagonal())
    values = np.linalg.eigvalsh(sector.matrix / np.outer(root, root))
    return float(len(values) * values[-1] / max(values[0], EPS))
