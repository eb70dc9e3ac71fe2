r"""The certified value of a coupled strategy, recomputed from what it is made of.

gamma_(p) is at most (sum_T omega_T^p sum_q v_q^(p/2))^(1/p) times the largest column norm, plus
what rounding left unanswered. v are the variances (`variances`) and the norm that of `columns`,
both rounded up. With D_i = (v, Psi)(1^T; Y) - 1, what is left
of a table is at most omega_T (prod_k (1 + e_k) - 1) prod_k norm(A_k)_F, e_k = norm(D_i), which is
added by the triangle inequality, for the table of counts itself has the sensitivity 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.problem import padded
from pmldesign_solvers.tables.query_weights import Question
from pmldesign_solvers.tables.sectors import Sector
from pmldesign_solvers.tables.upper.asked import Asked
from pmldesign_solvers.tables.upper.columns import largest_column, summed
from pmldesign_solvers.tables.upper.variances import Variances


def upper_bound(design: Coupled, asked: Sequence[Asked], question: Question, p: float) -> float:
    """Certified upper bound on gamma_(p) from a strategy and its queries' numbers, upwards."""
    tables, scales = question.tables, question.scales
    variances = Variances(design.sectors, design.features)
    spread = scales**2 * variances.norms(asked, tables, p / 2)
    off = {i: _off(measured) for i, measured in design.attributes.items()}
    numbers = padded(tables, len(asked))
    logs = np.array([math.log1p(off.get(query.attribute, 0.0)) for query in asked] + [0.0])
    left = np.expm1(logs[numbers].sum(axis=1)) + 8 * numbers.shape[1] * EPS
    rest = float(scales @ (left * np.array([*_norms(question), 1.0])[numbers].prod(axis=1)))
    columns = largest_column(summed(design.sectors), design.features)
    square = power_mean(spread, p / 2) * columns
    rounding = (200 + 64 * _condition(design.sectors) + len(tables)) * EPS
    return math.sqrt(square) * (1 + rounding) + rest * (1 + len(tables) * EPS)


def _norms(question: Question) -> Iterator[float]:
    """norm(A_k)_F, upwards."""
    for i, operator in zip(question.attribute, question.factors, strict=True):
        n = question.sizes[i]
        squares = np.ones(n) if operator is None else operator.row_norms(np.eye(n))
        yield math.sqrt(float(squares.sum()) * (1 + (len(squares) + 8) * EPS))


def _off(measured: Measured) -> float:
    n = len(measured.inverse)
    stacked = np.vstack([np.ones(n), measured.rows])
    left = measured.inverse @ stacked - np.eye(n)
    reach = np.abs(measured.inverse) @ np.abs(stacked)
    return float(np.linalg.norm(left) + (n + 2) * EPS * np.linalg.norm(reach))


def _condition(sectors: Sequence[Sector]) -> float:
    """The largest size times condition of an E scaled to diagonal 1."""
    by_size: dict[int, list[Array]] = {}
    for sector in sectors:
        by_size.setdefault(len(sector.matrix), []).append(sector.matrix)
    condition = 1.0
    for size, matrices in by_size.items():
        if size > 1:
            e = np.array(matrices)
            roots = np.sqrt(np.diagonal(e, axis1=1, axis2=2))
            units = roots[:, :, None] * roots[:, None, :]
            values = np.linalg.eigvalsh(e / units)
            worst = values[:, -1] / np.maximum(values[:, 0], EPS)
            condition = max(condition, size * float(worst.max()))
    return condition
