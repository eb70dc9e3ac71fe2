r"""Trees that suit a workload: the best weight for each level, or the best branching.

Weights. On N = b^k cells let T_l sum the runs of w_l cells, w_0 = N at the root and w_k = 1 at the
leaves, and let x_l be the squared weight of level l: the squared sensitivity is sum_l x_l. Since
T_l^T T_l = w_l P_l with nested projections P_0 < ... < P_k = I,

    G = sum_l x_l T_l^T T_l = sum_j mu_j (P_j - P_(j-1)),    mu_j = sum_{l >= j} x_l w_l,

so the squared error at p = 2 is (sum_j s_j/mu_j) (sum_j d_j mu_j) with
s_j = tr A (P_j - P_(j-1)) A^T and d_j = 1/w_j - 1/w_(j-1) (1/w_0 for j = 0). It is to be minimised
over mu_0 >= mu_1 >= ... >= mu_k >= 0. Without the order mu_j^2 = s_j/d_j; with it mu^2 is the
decreasing isotonic regression of s_j/d_j with weights d_j (Barlow and Brunk), in closed form.

Where n is no power of b, the n cells are the first of N of which the others are always empty. The
weights are those for the N cells; least squares on the n cells does at least as well.

References:
    Barlow and Brunk, The isotonic regression problem and its dual, 1972.
    Qardaji, Yang and Li, Understanding hierarchical methods for differentially private histograms,
    2013 (the choice of the branching).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.trees import level_widths, tree
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.operators.operator import Array

BRANCHINGS = 16
"""Largest branching that is tried, besides n: leaves and their total."""


def weighted_tree(workload: Workload, *, branching: int = 2) -> Strategy:
    """The tree whose levels have the best weights for the workload at p = 2.

    Args:
        workload: A, shape (m, n).
        branching: children b of a node, at least 2.

    Returns:
        "weighted-tree" for b = 2, "weighted-tree:b" otherwise. Levels that A does not need are
        left out; the weights are the best ones if n is a power of b, or those for the next power.

    Raises:
        InvalidInputError: `branching` is no such number, A is zero, or the tree is too large.
    """
    m, n = workload.shape
    children = whole("branching", branching, 2)
    name = "weighted-tree" if children == 2 else f"weighted-tree:{children}"
    widths = level_widths(n, children)
    nodes = [-(-n // width) for width in reversed(widths)]
    check_entries(f"strategy {name!r}", (sum(nodes), n))
    squares = _level_weights(near_one(workload)[0].gram(np.ones(m)), widths)
    if not squares.any():
        raise InvalidInputError(
            f"workload {workload.name!r} is zero: its strategy {name!r} measures nothing"
        )
    weights = np.repeat(np.sqrt(squares), nodes)
    kept = weights > 0
    return Strategy(name, weights[kept, None] * tree(n, branching=children).matrix[kept])


def best_tree(workload: Workload) -> Strategy:
    """The tree of least error at p = 2 among branchings 2 ... 16 and n, under Gaussian noise.

    Args:
        workload: A, shape (m, n).

    Raises:
        InvalidInputError: the tree is too large.
    """
    m, n = workload.shape
    check_entries("strategy 'tree:best'", (n, n))
    gram = near_one(workload)[0].gram(np.ones(m))

    def squared_error(strategy: Strategy) -> float:
        factor = scipy.linalg.cho_factor(strategy.gram)
        return strategy.sensitivity**2 * float(np.trace(scipy.linalg.cho_solve(factor, gram)))

    best = min(
        sorted({*range(2, min(n, BRANCHINGS) + 1), max(n, 2)}),
        key=lambda branching: squared_error(tree(n, branching=branching)),
    )
    return Strategy("tree:best", tree(n, branching=best).matrix)


def _level_weights(gram: Array, widths: list[int]) -> Array:
    """x_l from the root to the leaves, with sum 1, for A^T A and the widths from the leaves."""
    traces = [float(np.trace(gram))]
    for below, width in pairwise(widths):
        starts = np.arange(0, len(gram), min(width // below, len(gram)))
        gram = np.add.reduceat(np.add.reduceat(gram, starts, axis=0), starts, axis=1)
        traces.append(float(np.trace(gram)) / width)
    inverse_widths = 1 / np.array(widths[::-1], dtype=np.float64)
    parts = np.diff(traces[::-1], prepend=0.0).clip(min=0.0)
    costs = np.diff(inverse_widths, prepend=0.0)
    levels = scipy.optimize.isotonic_regression(parts / costs, weights=costs, increasing=False).x
    squares = -np.diff(np.sqrt(levels), append=0.0) * inverse_widths
    total = float(squares.sum())
    result: Array = squares / total if total > 0 else squares
    return result
