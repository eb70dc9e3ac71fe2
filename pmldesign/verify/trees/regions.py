r"""Files of counts of regions that nest, of weights r_nu; queries are a_nu times the same counts.

A person is counted on the path from a leaf to the root: the l1 norm of a column is the sum of r_nu
there and the l2 norm the root of that of r_nu^2; two columns are apart by what is not above both.
The variance of a query is a_nu^2 var_nu for precisions r_nu^2 (`sweeps`). With dual weights u and w
(sum 1), alpha_nu = u_nu a_nu^2 and f = tr N^(1/2), the norm is at least f / norm(u)_q^(1/2), and
for pairs of cells of a group, whose sum is known, with the weights w_i w_j/w_group

    f / (norm(u)_q (1 - sum w_i^2/w_group)/2)^(1/2),

f of N without the sums of groups: of all cells under replace.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from pmldesign.verify.arithmetic.rounding import around, gamma
from pmldesign.verify.forms.structured import (
    SLACK,
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import WEAKER, Arrays, Checks, Header
from pmldesign.verify.trees.known import known_nodes, mass_of_pairs
from pmldesign.verify.trees.sweeps import ReadTree

MOST_LEVELS = 2**12
"""Of a tree: a sweep takes about 20 microseconds for each, and there are a hundred and more."""
WIDEST = 1e120
"""Ratio of weights up to which nothing leaves the normal numbers."""
WEAKER_PAIRS = 1e-4
"""A lower bound for pairs of cells is a difference, and known to less than what it is made of."""


def check_regions(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy that measures regions, for queries about them."""
    assert queries.regions is not None
    parents, scales = queries.regions
    r = np.asarray(arrays["node_weights"], dtype=np.float64)
    same = np.array_equal(parents, arrays["parents"]) and r.shape == scales.shape
    if not checks.state("regions", same, "those of the workload"):
        return
    tree = ReadTree(parents)
    if not checks.state("L R = A", tree.tells_leaves(r > 0), "every cell is measured by itself"):
        return
    if len(tree.levels) > MOST_LEVELS or r.max() > WIDEST * r[r > 0].min():
        checks.unchecked("claims", f"more than {MOST_LEVELS} levels, or weights far apart")
        return
    found = known_nodes(tree, header, arrays, queries.known, checks)
    if found is None:
        return
    tops, known = found
    replace, cells = tops is not None, int(tree.leaves.sum())
    unit = 2.0 ** math.frexp(float(r.max()))[1]
    precisions = (r / unit) ** 2
    longest = partial(tree.farthest, tops=tops) if replace else tree.longest
    lengths = {"l1": unit * longest(r / unit), "l2": unit * math.sqrt(longest(precisions))}
    balls = {norm: around(np.array([x]), tree.slack + gamma(8))[0] for norm, x in lengths.items()}
    asked = scales > 0
    squares = (scales[asked] / unit) ** 2 * tree.variances(precisions, known)[asked]
    spread, off = spread_of((squares, 1)), around(np.ones(1), 4 * tree.slack)[0]
    computed = Computed(
        lambda p: spread(p) * off,
        squares.size,
        balls.get,
        lower_bound(header, arrays, queries.regions, found) if "lower" in header else None,
        rows={norm: profile([far], [cells - 1], 1) for norm, far in balls.items()},
        weaker=WEAKER_PAIRS if replace else WEAKER,
        slack=SLACK + 12 * tree.slack,
        slack_of_sensitivity=SLACK + 2 * tree.slack,
    )
    check_computed(header, computed, checks)


def lower_bound(
    header: Header, arrays: Arrays, regions: tuple[Any, Any], found: tuple[Any, Any]
) -> Any | None:
    """What dual weights prove for queries about regions; None for those of another form.

    Args:
        header: of the file.
        arrays: of the file.
        regions: as in `Queries`.
        found: the nodes of known sums, as `known_nodes`.
    """
    tree, scales, u, w = ReadTree(regions[0]), regions[1], arrays["dual_u"], arrays["dual_w"]
    if u.shape != (np.count_nonzero(scales),) or w.shape != (tree.leaves.sum(),):
        return None
    alpha, masses = np.zeros((2, scales.size))
    alpha[scales > 0] = u * scales[scales > 0] ** 2
    masses[tree.leaves] = w / w.sum()
    tops, known = found
    value, mass = 0.0, mass_of_pairs(tree, masses, tops)
    if known is not None:
        alpha[known] = 0.0
    if alpha.any():
        value = tree.nuclear_norm(alpha, masses, tops)
    p = float(header["p"])
    q = math.inf if p == 2 else 1 / (1 - 2 / p)
    size = float(u.max() * np.linalg.norm(u / u.max(), q))
    return rounded(max(value, 0.0)) / (rounded(size) * rounded(mass)).sqrt()
