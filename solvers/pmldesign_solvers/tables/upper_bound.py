r"""The certified value of a strategy of independent coordinates, recomputed from its rows.

gamma_(p) is at most (sum_T omega_T^p sum_q v_q^(p/2))^(1/p) times the largest column norm, plus the
part left unanswered by rounding. v are the variances (`variances`), and the squared norm of a
column is sum_S s_S at most. With D_i = (v, Psi)(1^T; Y) - 1, the unanswered part of a table is at
most omega_T (prod_k (1 + e_k) - 1) prod_k norm(A_k)_F, e_k = norm(D_i), which is added by the
triangle inequality, for the table of counts itself has the sensitivity 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pmldesign_solvers.operators.operator import EPS, power_mean
from pmldesign_solvers.tables.free_vector import Coordinates, Measured
from pmldesign_solvers.tables.problem import padded
from pmldesign_solvers.tables.query_weights import Question
from pmldesign_solvers.tables.variances import Asked, Variances


def upper_bound(
    strategy: Coordinates, asked: Sequence[Asked], question: Question, p: float
) -> float:
    """Certified upper bound on gamma_(p) from a strategy and its queries' pairs, upwards."""
    tables, scales = question.tables, question.scales
    shares = dict(zip(strategy.sets, strategy.precisions.tolist(), strict=True))
    variances = Variances(question.sizes, shares)
    spread = scales**2 * variances.norms(asked, tables, p / 2)
    off = {i: _off(measured) for i, measured in strategy.attributes.items()}
    numbers = padded(tables, len(asked))
    logs = np.array([math.log1p(off.get(query.attribute, 0.0)) for query in asked] + [0.0])
    left = np.expm1(logs[numbers].sum(axis=1)) + 8 * numbers.shape[1] * EPS
    rest = float(scales @ (left * np.array([*_norms(question), 1.0])[numbers].prod(axis=1)))
    square = power_mean(spread, p / 2) * math.fsum(strategy.precisions)
    rows = sum(len(measured.rows) for measured in strategy.attributes.values())
    rounding = (300 + 16 * numbers.shape[1] + len(tables) + rows) * EPS
    return float(math.sqrt(square) * (1 + rounding) + rest * (1 + len(tables) * EPS))


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
