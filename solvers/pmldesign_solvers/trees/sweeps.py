r"""Least squares for counts of nodes of a tree, and the adjoint, each in two sweeps.

With noise of variance 1 and precisions x of the counts of places,

    up:    i_leaf = x,     h = 1 / (1 / i_1 + 1 / i_2),     i = x + h,
    down:  q_root = 0,     q_1 = 1 / (1 / (x + q) + 1 / i_2),
    var = 1 / (i + q),

i the precision of a count from below, q that from elsewhere: the sweeps of `problem` for v = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.trees.tree import Tree

LEAST = 1e-120
"""In place of a precision of 0: what is not measured has so large a variance."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Precisions at all places without the count of the place, and variances with it.

    Attributes:
        below: h, from the counts below, shape (P,).
        elsewhere: q, from all other counts.
        variances: 1 / (h + x + q).
    """

    below: Array
    elsewhere: Array
    variances: Array


def swept(tree: Tree, precisions: Array) -> Sweep:
    """Least squares for counts of these precisions, shape (P,), positive at cells."""
    below, elsewhere = np.zeros((2, tree.places))
    for merges in tree.rounds:
        inverse = 1.0 / np.maximum(below[merges.parts] + precisions[merges.parts], LEAST)
        below[merges.wholes] = 1.0 / (inverse[0::2] + inverse[1::2])
    inner = below + precisions
    for merges in reversed(tree.rounds):
        outer = precisions[merges.wholes] + elsewhere[merges.wholes]
        whole = 1.0 / np.maximum(outer, LEAST)
        inverse = 1.0 / np.maximum(inner[merges.parts], LEAST)
        parts = elsewhere[merges.parts]
        parts[0::2] = 1.0 / (whole + inverse[1::2])
        parts[1::2] = 1.0 / (whole + inverse[0::2])
    return Sweep(below, elsewhere, 1.0 / np.maximum(inner + elsewhere, LEAST))


def by_precisions(tree: Tree, precisions: Array, sweep: Sweep, by_variances: Array) -> Array:
    """The derivative by the precisions of what has these derivatives by the variances, (P,)."""
    inner, elsewhere = sweep.below + precisions, sweep.elsewhere
    by_inner = -by_variances * sweep.variances**2
    by_elsewhere, total = by_inner.copy(), np.zeros(tree.places)
    for merges in tree.rounds:
        outer = precisions[merges.wholes] + elsewhere[merges.wholes]
        whole = np.maximum(outer, LEAST)
        least = np.maximum(inner[merges.parts], LEAST)
        q, g, told = elsewhere[merges.parts], by_elsewhere[merges.parts], by_inner[merges.parts]
        by_whole = g[0::2] * (q[0::2] / whole) ** 2 + g[1::2] * (q[1::2] / whole) ** 2
        total[merges.wholes] += by_whole
        by_elsewhere[merges.wholes] += by_whole
        told[1::2] += g[0::2] * (q[0::2] / least[1::2]) ** 2
        told[0::2] += g[1::2] * (q[1::2] / least[0::2]) ** 2
    for merges in reversed(tree.rounds):
        least = np.maximum(inner[merges.parts], LEAST)
        ratios = np.repeat(sweep.below[merges.wholes], 2) / least
        by_inner[merges.parts] += np.repeat(by_inner[merges.wholes], 2) * ratios**2
    return np.asarray(total + by_inner)
