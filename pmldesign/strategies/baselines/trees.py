"""Hierarchical strategies: trees of sums, also of the best weights or branching, and Haar wavelets.

Tree with branching b: the n cells are the first leaves of a complete tree of b^k leaves, with k
the smallest integer such that b^k >= n. Every node measures the sum of the cells below it, root
and leaves included; nodes without a cell are left out. Each cell is counted once a level, so
every column has squared norm k + 1 and the sensitivity is sqrt(k + 1).

A node may cover the same cells as its only child that has any (the last cell, n = 3, b = 2); both
are measured. Leaving one out would lower the norm of those columns but not of the first one,
whose k + 1 nodes all differ: the same sensitivity, and more error.

Haar: on 2^k leaves, the total and, for each inner node, the sum of its left half minus the sum
of its right half, with entries 1 and -1; restricted to the first n cells in the same way.
Squared column norms are k + 1 again.

Gram matrices. With block(...) the block-diagonal matrix of what stands below a node, a node of
the tree has G_v = block(G_children) + 1 1^T, so that (Sherman and Morrison), with B = block(G_c^-1)

    G_v^-1 = B - B 1 1^T B / (1 + 1^T B 1).

For Haar let H_v(t) be the sum of the rows below a node, plus t times that of a row of ones; a node
with cells e on its left and f on its right has

    H_v(t) = block(H_l(t + 1), H_r(t + 1)) + (t - 1) (e f^T + f e^T),      G = H_root(1),

and a leaf H(t) = t. With B the inverse of the block, c = t - 1, s = e^T B e, z = f^T B f (Woodbury)

    H_v(t)^-1 = B - (B e, B f) [-c^2 z, c; c, -c^2 s] / (1 - c^2 s z) (B e, B f)^T.

Both are filled in from the leaves to the root, at a cost of O(n^2) in all. The two cells that
differ most are the first and the last one, which have only the root in common: k nodes of the tree
each, or k - 1 rows of Haar each and the root, with another sign.

Best weights of levels. On N = b^k cells let T_l sum the runs of w_l cells, w_0 = N at the root and
w_k = 1 at the leaves, and let x_l be the squared weight of level l: the squared sensitivity is
sum_l x_l. Since T_l^T T_l = w_l P_l with nested projections P_0 < ... < P_k = I,

    G = sum_l x_l T_l^T T_l = sum_j mu_j (P_j - P_(j-1)),    mu_j = sum_{l >= j} x_l w_l,

so the squared error at p = 2 is (sum_j s_j/mu_j) (sum_j d_j mu_j) with
s_j = tr A (P_j - P_(j-1)) A^T and d_j = 1/w_j - 1/w_(j-1) (1/w_0 for j = 0). It is to be minimised
over mu_0 >= mu_1 >= ... >= mu_k >= 0. Without the order mu_j^2 = s_j/d_j; with it mu^2 is the
decreasing isotonic regression of s_j/d_j with weights d_j (Barlow and Brunk), in closed form.

If n is not a power of b, the n cells are the first of N, and the others are always empty. The
weights are those for the N cells; least squares on the n cells does at least as well.

References:
    Barlow and Brunk, The isotonic regression problem and its dual, 1972.
    Qardaji, Yang and Li, Understanding hierarchical methods for differentially private histograms,
    2013 (the choice of the branching).
    Hay, Rastogi, Miklau and Suciu, Boosting the accuracy of differentially private histograms
    through consistency, 2010 (the tree with least squares).
    Xiao, Wang and Gehrke, Differential privacy via wavelet transforms, 2010 (Haar; their level
    weights, which suit Laplace noise, are not used).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import root_above
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.regular import RegularStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.operators.operator import Array


def tree(cells: int, *, branching: int = 2) -> Strategy:
    """The sums of all nodes of a complete tree over the cells.

    Args:
        cells: number of cells n, at least 1.
        branching: children b of a node, at least 2.

    Returns:
        "tree" for b = 2, "tree:b" otherwise.

    Raises:
        InvalidInputError: an argument is not such a number, or the tree is too large.
    """
    cells = whole("cells", cells)
    children = whole("branching", branching, 2)
    name = "tree" if children == 2 else f"tree:{children}"
    widths = level_widths(cells, children)
    check_entries(f"strategy {name!r}", (sum(-(-cells // width) for width in widths), cells))
    depth = len(widths) - 1
    return RegularStrategy(
        name,
        np.vstack([_sums(cells, width) for width in reversed(widths)]),
        invert=lambda: _inverse_tree(cells, widths),
        distances={"l1": 2.0 * depth, "l2": root_above(2.0 * depth)},
    )


def haar_wavelet(cells: int) -> Strategy:
    """The Haar wavelet with entries 1 and -1, and the total.

    Raises:
        InvalidInputError: `cells` is not an integer of at least 1, or too large.
    """
    cells = whole("cells", cells)
    widths = level_widths(cells, 2)
    rows = 1 + sum(-(-cells // width) for width in widths[1:])
    check_entries("strategy 'haar'", (rows, cells))
    levels = [np.ones((1, cells))]
    for width in reversed(widths[1:]):
        sign = np.where(np.arange(cells) % width < width // 2, 1.0, -1.0)
        levels.append(_sums(cells, width) * sign)
    depth = len(widths) - 1
    return RegularStrategy(
        "haar",
        np.vstack(levels),
        invert=lambda: _inverse_haar(cells, widths),
        distances={"l1": 2.0 * depth, "l2": root_above(2.0 * depth + 2) if depth else 0.0},
    )


def level_widths(cells: int, branching: int) -> list[int]:
    """Cells below a node, level by level from the leaves (1) to the root (at least n)."""
    widths = [1]
    while widths[-1] < cells:
        widths.append(widths[-1] * branching)
    return widths


def _inverse_tree(cells: int, widths: list[int]) -> Array:
    """G^-1 of the tree, shape (n, n)."""
    inverse = np.eye(cells)
    for width in widths[1:]:
        for start in range(0, cells, width):
            block = inverse[start : start + width, start : start + width]
            sums = block.sum(axis=0)
            block -= np.outer(sums, sums / (1.0 + sums.sum()))
    return inverse


def _inverse_haar(cells: int, widths: list[int]) -> Array:
    """G^-1 of the Haar wavelet, shape (n, n)."""
    inverse = np.eye(cells) / len(widths)
    for level, width in enumerate(widths[1:], start=1):
        coupling = float(len(widths) - 1 - level)  # t - 1: one more for every level from the root
        for start in range(0, cells, width):
            middle, stop = start + width // 2, min(start + width, cells)
            if coupling == 0 or middle >= stop:
                continue
            left = inverse[start:middle, start:middle].sum(axis=0)
            right = inverse[middle:stop, middle:stop].sum(axis=0)
            s, z = float(left.sum()), float(right.sum())
            scale = coupling / (1.0 - coupling**2 * s * z)
            inverse[start:middle, start:middle] += np.outer(left, left * (coupling * scale * z))
            inverse[middle:stop, middle:stop] += np.outer(right, right * (coupling * scale * s))
            cross = np.outer(left, right * scale)
            inverse[start:middle, middle:stop] = -cross
            inverse[middle:stop, start:middle] = -cross.T
    return inverse


def _sums(cells: int, width: int) -> Array:
    """One row for each run of `width` cells that has a cell, the last one cut at n."""
    node = np.arange(cells) // min(width, cells)
    level = np.zeros((node[-1] + 1, cells))
    level[node, np.arange(cells)] = 1.0
    return level


BRANCHINGS = 16
"""Largest branching that is tried, except for n: leaves and their total."""


def weighted_tree(workload: Workload, *, branching: int = 2) -> Strategy:
    """The tree whose levels have the best weights for the workload at p = 2.

    Args:
        workload: A, shape (m, n).
        branching: children b of a node, at least 2.

    Returns:
        "weighted-tree" for b = 2, "weighted-tree:b" otherwise. Levels that A does not need are
        left out; the weights are the best ones if n is a power of b, or those for the next power.

    Raises:
        InvalidInputError: `branching` is not such a number, A is zero, or the tree is too large.
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
