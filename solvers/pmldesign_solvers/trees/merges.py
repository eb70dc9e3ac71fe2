"""The parts of a whole: merges of two, or of copies of one, many of them side by side.

What the other parts add up to is the number of the one other part, or that of a copy times how many
others there are, so that no difference of two large numbers is ever formed. Methods take and return
numbers of the parts, or of the wholes, along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.operator import Array, Indices

Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Merges of two parts.

    Attributes:
        parts: the places first, first + 1, ..., the two parts of each merge next to each other.
        wholes: the place of each merge, half as many.
    """

    parts: slice
    wholes: Indices

    def each(self, wholes: Values) -> Values:
        """What the whole of every part has."""
        return np.repeat(wholes, 2, axis=-1)

    def copied(self, parts: Values) -> Values:
        """What all copies of every part in its whole have."""
        return parts

    def total(self, parts: Values) -> Values:
        """The sum of the parts of every whole."""
        return np.asarray(parts[..., 0::2] + parts[..., 1::2])

    def another(self, parts: Values) -> Values:
        """For every part another part of its whole."""
        other = np.empty_like(parts)
        other[..., 0::2], other[..., 1::2] = parts[..., 1::2], parts[..., 0::2]
        return other

    def others(self, parts: Values) -> Values:
        """For every part the sum of the other parts of its whole."""
        return self.another(parts)

    def largest(self, parts: Values) -> Values:
        """The largest part of every whole."""
        return np.asarray(np.maximum(parts[..., 0::2], parts[..., 1::2]))

    def least(self, parts: Values) -> Values:
        """The smallest part of every whole."""
        return np.asarray(np.minimum(parts[..., 0::2], parts[..., 1::2]))


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Wholes of copies of one part, of which numbers are those of one.

    Attributes:
        parts: the places first, first + 1, ...
        wholes: the place of all copies of each.
        number: how many copies, at least 2.
    """

    parts: slice
    wholes: Indices
    number: Array

    def each(self, wholes: Values) -> Values:
        """What the whole of every part has."""
        return wholes

    def copied(self, parts: Values) -> Values:
        """What all copies of every part in its whole have."""
        return np.asarray(self.number * parts)

    def total(self, parts: Values) -> Values:
        """The sum of the parts of every whole."""
        return self.copied(parts)

    def another(self, parts: Values) -> Values:
        """For every part another part of its whole."""
        return parts

    def others(self, parts: Values) -> Values:
        """For every part the sum of the other parts of its whole."""
        return np.asarray((self.number - 1.0) * parts)

    def largest(self, parts: Values) -> Values:
        """The largest part of every whole."""
        return parts

    least = largest


def by_depth(depths: Indices) -> list[Indices]:
    """The nodes of each depth, in order."""
    order = np.argsort(depths, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depths))[:-1])


def first_of_pairs(family: Indices) -> Indices:
    """The first one of every two that follow each other in a family; its last one may be left."""
    starts = np.flatnonzero(np.diff(family, prepend=-2))
    sizes = np.diff(starts, append=len(family))
    position = np.arange(len(family)) - np.repeat(starts, sizes)
    paired = (position % 2 == 0) & (position + 1 < np.repeat(sizes, sizes))
    return np.flatnonzero(paired)
