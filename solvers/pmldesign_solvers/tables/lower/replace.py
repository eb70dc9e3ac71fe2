r"""A lower bound for tables under replace from product weights for add-remove.

Let f = norm(U^(1/2) A W^(1/2))_* for weights u of queries and w of cells. Pairs of cells weighed by
w_i w_j give

    gamma_(p) >= (f - norm(U^(1/2) A w)_2) / ((1 - sum w^2) / 2)^(1/2),

because taking one direction away lowers a nuclear norm by the norm of what it is taken to at most.
Both numbers are products: norm(U^(1/2) A w)^2 = sum_T c_T prod_{k in T} w^T G_k w.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables.problem import Tables


def lower_bound(problem: Tables, cells: Mapping[int, Array], lower: float) -> float:
    """Certified lower bound on gamma_(p) under replace.

    Args:
        problem: what is asked, with the weights of its queries.
        cells: w of each ordered attribute.
        lower: at most f.
    """
    weights = {i: w / w.sum() for i, w in cells.items()}
    shares = np.ones(len(problem.grams))
    for k, gram in enumerate(problem.grams):
        i = problem.attribute[k]
        w = weights.get(i)
        shares[k] = float(w @ gram @ w) if w is not None else float(np.sum(gram)) / problem.sizes[i]
    squares = [
        c * math.prod(shares[list(table)].tolist())
        for c, table in zip(problem.weights.tolist(), problem.tables, strict=True)
    ]
    used = set(problem.attribute)
    share = math.prod(
        float(weights[i] @ weights[i]) if i in weights else 1 / problem.sizes[i] for i in used
    )
    rounding = (4 * sum(problem.sizes[i] for i in weights) + len(squares) + 64) * EPS
    if share >= 1 - rounding:
        return 0.0
    taken = math.sqrt(math.fsum(squares)) * (1 + rounding)
    return max(0.0, (lower - taken) * math.sqrt(2 / (1 - share)) * (1 - 2 * rounding))
