"""Hierarchical strategies: the b-ary tree of sums and the Haar wavelet.

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

References:
    Hay, Rastogi, Miklau and Suciu, Boosting the accuracy of differentially private histograms
    through consistency, 2010 (the tree with least squares).
    Xiao, Wang and Gehrke, Differential privacy via wavelet transforms, 2010 (Haar; their level
    weights, which suit Laplace noise, are not used).
"""

from __future__ import annotations

import operator

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.arguments import require_cells
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators import Array


def tree(cells: int, *, branching: int = 2) -> Strategy:
    """The sums of all nodes of a complete tree over the cells.

    Args:
        cells: number of cells n, at least 1.
        branching: children b of a node, at least 2.

    Returns:
        "tree" for b = 2, "tree:b" otherwise.

    Raises:
        InvalidInputError: an argument is no such number, or the tree is too large.
    """
    cells = require_cells(cells)
    children = require_branching(branching)
    name = "tree" if children == 2 else f"tree:{children}"
    widths = level_widths(cells, children)
    check_entries(f"strategy {name!r}", (sum(-(-cells // width) for width in widths), cells))
    return Strategy(name, np.vstack([_sums(cells, width) for width in reversed(widths)]))


def haar_wavelet(cells: int) -> Strategy:
    """The Haar wavelet with entries 1 and -1, and the total.

    Args:
        cells: number of cells n, at least 1.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    cells = require_cells(cells)
    widths = level_widths(cells, 2)
    rows = 1 + sum(-(-cells // width) for width in widths[1:])
    check_entries("strategy 'haar'", (rows, cells))
    levels = [np.ones((1, cells))]
    for width in reversed(widths[1:]):
        sign = np.where(np.arange(cells) % width < width // 2, 1.0, -1.0)
        levels.append(_sums(cells, width) * sign)
    return Strategy("haar", np.vstack(levels))


def require_branching(branching: int) -> int:
    """The number of children of a node as an int.

    Raises:
        InvalidInputError: it is not a whole number of at least 2.
    """
    try:
        children = operator.index(branching)
    except TypeError:
        children = 0
    if children < 2:
        raise InvalidInputError(
            f"branching must be a whole number of at least 2, got {branching!r}"
        )
    return children


def level_widths(cells: int, branching: int) -> list[int]:
    """Cells below a node, level by level from the leaves (1) to the root (at least n)."""
    widths = [1]
    while widths[-1] < cells:
        widths.append(widths[-1] * branching)
    return widths


def _sums(cells: int, width: int) -> Array:
    """One row for each run of `width` cells that has a cell, the last one cut at n."""
    node = np.arange(cells) // min(width, cells)
    level = np.zeros((node[-1] + 1, cells))
    level[node, np.arange(cells)] = 1.0
    return level
