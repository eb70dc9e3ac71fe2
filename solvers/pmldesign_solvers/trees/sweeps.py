r"""Least squares for counts of nodes of a tree, and the adjoint, each in two sweeps.

With noise of variance 1 and precisions x of the counts of places,

    up:    i_leaf = x,     h = 1 / (1 / i_1 + 1 / i_2),     i = x + h,
    down:  q_root = 0,     q_1 = 1 / (1 / (x + q) + 1 / i_2),
    var = 1 / (i + q),

i the precision of a count from below, q that from elsewhere: the sweeps of `problem` for v = 0.
Estimates take the same way. With c the count of a place and s the estimate from below,

    up:    z = (x c + h s) / i,      s = z_1 + z_2 over the parts,
    down:  the difference between the estimate of a whole and z_1 + z_2 is shared like 1 / i,

so that parts add up. Among cells that are not measured, which have faint precisions (`floored`), it
is shared evenly: the least norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array, Flags
from pmldesign_solvers.trees.tree import Tree

LEAST = 1e-300
"""Replaces a precision of 0."""
FAINT = 1e-60
"""Fraction of the largest precision given to cells that are not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Precisions at all places without the count of the place, and variances with it, (..., P).

    Attributes:
        below: h, from the counts below, shape (P,).
        elsewhere: q, from all other counts.
        variances: 1 / (h + x + q).
    """

    below: Array
    elsewhere: Array
    variances: Array


def swept(tree: Tree, precisions: Array, public: Flags | None = None) -> Sweep:
    """Least squares for counts of these precisions, shape (..., P), positive at cells.

    Args:
        tree: the tree.
        precisions: of the counts.
        public: places whose sums are known, with all above them, shape (..., P); None for none.
    """
    below, elsewhere = np.zeros((2, *precisions.shape))
    if public is not None:
        elsewhere[public] = np.inf
    for merges in tree.rounds:
        measured = below[..., merges.parts] + precisions[..., merges.parts]
        inverse = 1.0 / np.maximum(measured, LEAST)
        below[..., merges.wholes] = 1.0 / merges.total(inverse)
    inner = below + precisions
    for merges in reversed(tree.rounds):
        outer = precisions[..., merges.wholes] + elsewhere[..., merges.wholes]
        whole = merges.each(1.0 / np.maximum(outer, LEAST))
        inverse = 1.0 / np.maximum(inner[..., merges.parts], LEAST)
        parts = elsewhere[..., merges.parts]
        parts[:] = 1.0 / (whole + merges.others(inverse))
        if public is not None:
            parts[public[..., merges.parts]] = np.inf
    return Sweep(below, elsewhere, 1.0 / (inner + elsewhere))


def floored(tree: Tree, precisions: Array) -> Array:
    """Precisions, shape (S, P), with faint ones of cells instead of 0."""
    floor = np.zeros(tree.places)
    floor[tree.place_of_cell] = FAINT * precisions.max()
    return np.maximum(precisions, floor)


def by_precisions(tree: Tree, precisions: Array, sweep: Sweep, by_variances: Array) -> Array:
    """The derivative by the precisions, from that by the variances, shape (..., P)."""
    inner = sweep.below + precisions
    elsewhere = np.where(np.isinf(sweep.elsewhere), 0.0, sweep.elsewhere)  # known: it is constant
    by_inner = -by_variances * sweep.variances**2
    by_elsewhere, total = by_inner.copy(), np.zeros_like(by_inner)
    for merges in tree.rounds:
        outer = precisions[..., merges.wholes] + sweep.elsewhere[..., merges.wholes]
        q, least = elsewhere[..., merges.parts], np.maximum(inner[..., merges.parts], LEAST)
        g, told = by_elsewhere[..., merges.parts], by_inner[..., merges.parts]
        by_whole = merges.total(g * (q / merges.each(np.maximum(outer, LEAST))) ** 2)
        total[..., merges.wholes] += by_whole
        by_elsewhere[..., merges.wholes] += by_whole
        told += merges.others(g * (q / merges.another(least)) ** 2)
    for merges in reversed(tree.rounds):
        least = np.maximum(inner[..., merges.parts], LEAST)
        ratios = merges.each(sweep.below[..., merges.wholes]) / least
        by_inner[..., merges.parts] += merges.each(by_inner[..., merges.wholes]) * ratios**2
    return np.asarray(total + by_inner)


def estimates(
    tree: Tree, precisions: Array, below: Array, own: Array, public: Flags | None = None
) -> Array:
    """The least squares estimates at all places, shape (P, c).

    Args:
        tree: the tree.
        precisions: x, shape (P,).
        below: h of `swept`.
        own: x c for each count c, shape (P, c).
        public: places whose sums are 0, with all above them; None for no such.
    """
    variances, known = inner_variances(precisions, below), below[:, None]
    inner = np.zeros_like(own)
    leaves = tree.place_of_cell
    inner[leaves] = own[leaves] * variances[leaves, None]
    for merges in tree.rounds:
        wholes, sums = merges.wholes, merges.total(inner.T[..., merges.parts]).T
        inner[wholes] = (own[wholes] + known[wholes] * sums) * variances[wholes, None]
    if public is not None:
        inner[public] = 0.0
    for merges in reversed(tree.rounds):
        parts = inner[merges.parts]
        missing = inner[merges.wholes] - (parts[0::2] + parts[1::2])
        parts[0::2] += first_shares(variances[merges.parts])[:, None] * missing
        parts[1::2] = inner[merges.wholes] - parts[0::2]
    return inner


def with_total(tree: Tree, precisions: Array, sweep: Sweep) -> Array:
    """The covariances of all cells with the sum over the tree, shape (n,)."""
    covariances = np.zeros(tree.places)
    covariances[tree.root] = sweep.variances[tree.root]
    variances = inner_variances(precisions, sweep.below)
    for merges in reversed(tree.rounds):
        first, whole = first_shares(variances[merges.parts]), covariances[merges.wholes]
        covariances[merges.parts][0::2] = first * whole
        covariances[merges.parts][1::2] = (1.0 - first) * whole
    return np.asarray(covariances[tree.place_of_cell])


def inner_variances(precisions: Array, below: Array) -> Array:
    """1 / i: those from below and the own counts."""
    return np.asarray(1.0 / (below + precisions))


def first_shares(variances: Array) -> Array:
    """The share of the first of two parts in their variances, for each two."""
    return np.asarray(variances[0::2] / (variances[0::2] + variances[1::2]))
