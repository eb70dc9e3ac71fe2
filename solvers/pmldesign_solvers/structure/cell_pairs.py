r"""Two cells of a table of attributes, by the set of attributes in which they differ.

In the letters of `subsets`, a Gram matrix G = n sum_T theta_T P_T, and any matrix like it,
depends on a pair of cells through the set U of attributes in which they differ alone:

    n (P_T)_xy = prod_{i in T} (-1 if i in U, else n_i - 1).

Attributes with the same number of values that may be exchanged without a change of theta form a
class. Then T and U count by how many attributes of each class they have, their types t and k. The
sum over all T of a type is a product over the classes (of c attributes with s values) of

    K_c[t, k] = sum_j C(k, j) (-1)^j C(c - k, t - j) (s - 1)^(t - j),

the Krawtchouk polynomials, applied one axis at a time; K_c[t, k] / K_c[t, 0] are means.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array, Indices

MAX_TYPES = 2**18
"""Most types of U that are ever listed."""
EQUAL_VALUES = 1e-9
"""Relative difference of two values that count as equal when attributes are exchanged."""

Sets = Mapping[tuple[int, ...], float]
"""A value for each set of attributes, in increasing order."""


@dataclass(frozen=True, eq=False)
class DifferingSets:
    """The types of sets of attributes.

    Attributes:
        classes: attributes that may be exchanged; those that occur in no set are in none.
        values: s, the number of values of the attributes of each class, at least 2.
    """

    classes: tuple[tuple[int, ...], ...]
    values: tuple[int, ...]

    def without(self, known: Collection[int]) -> DifferingSets:
        """The types of sets that have none of some attributes."""
        rest = [tuple(i for i in members if i not in known) for members in self.classes]
        pairs = [(members, s) for members, s in zip(rest, self.values, strict=True) if members]
        return DifferingSets(tuple(m for m, _ in pairs), tuple(s for _, s in pairs))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of counts k of each class, from 0 to all of its attributes."""
        return tuple(len(members) + 1 for members in self.classes)

    @property
    def listed(self) -> bool:
        """Whether the types are few enough to be listed."""
        return math.prod(self.shape) <= MAX_TYPES

    def types_of(self, sets: Sequence[tuple[int, ...]]) -> Indices:
        """The type of each set, shape (sets, classes)."""
        place = {i: number for number, members in enumerate(self.classes) for i in members}
        types = np.zeros((len(sets), len(self.classes)), dtype=np.int64)
        for row, members in zip(types, sets, strict=True):
            for i in members:
                row[place[i]] += 1
        return types

    def means(self, types: Indices, differing: Indices) -> Array:
        """The mean of n (P_T)_xy / d_T over the sets U of some types, shape (U types, T types).

        Args:
            types: of the T, shape (T types, classes).
            differing: of the U, shape (U types, classes).
        """
        product = np.ones((len(differing), len(types)))
        for axis, degree in enumerate(types.max(axis=0, initial=0)):
            table = self._tables(axis, int(degree))[1]
            product *= table[types[:, axis][None, :], differing[:, axis][:, None]]
        return product

    def sums(self, types: Indices, values: Array) -> Array:
        """Sum over all T of value_T n (P_T)_xy for every type of U, shape `shape`.

        Args:
            types: distinct types, shape (T types, classes).
            values: of each T of a type, shape (T types,).
        """
        if not self.classes:  # cells that differ in nothing
            return np.full((), values.sum())
        degrees = types.max(axis=0, initial=0)
        tensor = np.zeros(tuple(degrees + 1))
        tensor[tuple(types.T)] = values
        for axis, degree in enumerate(degrees):
            sizes, means = self._tables(axis, int(degree))
            front = np.moveaxis(tensor, axis, -1) @ (sizes[:, None] * means)
            tensor = np.moveaxis(front, -1, axis)
        return tensor

    def distances(self, types: Indices, type_of: Indices, values: Array) -> Array:
        """Squared distance of two cells for every type of U, shape `shape`, rounded up.

        The largest value of a type stands for all sets of it, and no distance falls with a value.
        The arguments are those of `largest_distance`.
        """
        if not self.classes:
            return np.zeros(())
        most = np.zeros(len(types))
        np.maximum.at(most, type_of, values)
        sums = self.sums(types, most)
        rounding = (len(values) + 8 * sum(self.shape) + 100) * EPS
        squares = 2 * (sums.flat[0] * (1 + rounding) - sums)
        squares.flat[0] = 0.0
        return np.asarray(squares)

    def largest_distance(
        self, types: Indices, type_of: Indices, values: Array, dimensions: Array
    ) -> float:
        """Largest squared distance of two cells for G = n sum_T value_T P_T, rounded up.

        Exact where sets of a type have equal values and the types of U are listed; more otherwise.

        Args:
            types: distinct types, shape (T types, classes).
            type_of: the number of the type of each T, shape (R,).
            values: of each T, at least 0, shape (R,).
            dimensions: d_T, shape (R,).
        """
        rounding = 1 + (len(values) + 8 * sum(self.shape) + 100) * EPS
        if self.listed:
            return float(self.distances(types, type_of, values).max())
        # every product is at least that of one difference, in the attribute of fewest values
        fewest = np.array(
            [
                min((s for s, t in zip(self.values, row, strict=True) if t), default=2)
                for row in types
            ]
        )
        each = np.where(types.any(axis=1), 1 + 1 / (fewest - 1.0), 0.0)[type_of]
        return 2 * float(each @ (values * dimensions)) * rounding

    def counts(self) -> Array:
        """Number of cells that differ from a given one in a set of each type, shape `shape`."""
        total = np.ones(())
        for members, size in zip(self.classes, self.values, strict=True):
            c = len(members)
            sets = [float(math.comb(c, k)) * float(size - 1) ** k for k in range(c + 1)]
            total = np.multiply.outer(total, np.array(sets))
        return total

    def _tables(self, axis: int, degree: int) -> tuple[Array, Array]:
        """K_c[t, 0] and K_c[t, k] / K_c[t, 0] for t up to a degree."""
        c, s = len(self.classes[axis]), self.values[axis]
        means = np.array(
            [
                [
                    math.fsum(
                        math.comb(k, j) * math.comb(c - k, t - j) / math.comb(c, t) / (1 - s) ** j
                        for j in range(max(0, t + k - c), min(t, k) + 1)
                    )
                    for k in range(c + 1)
                ]
                for t in range(degree + 1)
            ]
        )
        sizes = [float(math.comb(c, t)) * float(s - 1) ** t for t in range(degree + 1)]
        return np.array(sizes), means


class OpenParts:
    """What sets T of attributes have beside those C in which two cells agree.

    There n (P_T)_xy is that of T without C, times prod_{i in T and C} (n_i - 1).

    Args:
        sizes: number of values of each attribute.
        sets: the T.
        known: C.

    Attributes:
        sets: the distinct T without C.
        dimensions: prod (n_i - 1) over each of these.
        place: the number among them of each T without C.
    """

    def __init__(
        self, sizes: Sequence[int], sets: Sequence[tuple[int, ...]], known: Collection[int]
    ) -> None:
        parts = [tuple(i for i in T if i not in known) for T in sets]
        number = {part: k for k, part in enumerate(dict.fromkeys(parts))}
        self.sets = tuple(number)
        self.place = np.array([number[part] for part in parts], dtype=np.intp)
        self.dimensions = np.array(
            [math.prod(float(sizes[i] - 1) for i in part) for part in self.sets]
        )
        agreed = [math.prod(float(sizes[i] - 1) for i in T if i in known) for T in sets]
        self._agreed = np.array(agreed)

    def totals(self, values: Array) -> Array:
        """The value of each distinct set in which two cells may differ, shape (sets,)."""
        return np.bincount(self.place, weights=values * self._agreed).astype(np.float64)


def differing_sets(sizes: Sequence[int], sets: Sets) -> DifferingSets:
    """The types of sets of attributes for values that some exchanges do not change.

    Args:
        sizes: number of values of each attribute.
        sets: the value of each set; attributes with one value do not count.
    """
    rest: dict[int, dict[tuple[int, ...], float]] = {}
    for members, value in sets.items():
        for i in members:
            if sizes[i] > 1:
                others = tuple(j for j in members if j != i)
                rest.setdefault(i, {})[others] = value
    classes: list[list[int]] = []
    for i in sorted(rest):
        for alike in classes:
            first = alike[0]
            if sizes[first] == sizes[i] and _exchangeable(rest[first], rest[i], first, i):
                alike.append(i)
                break
        else:
            classes.append([i])
    return DifferingSets(
        classes=tuple(tuple(alike) for alike in classes),
        values=tuple(sizes[alike[0]] for alike in classes),
    )


def _exchangeable(
    first: Mapping[tuple[int, ...], float],
    second: Mapping[tuple[int, ...], float],
    i: int,
    j: int,
) -> bool:
    """Whether the sets with i and those with j, without them, have the same values."""
    if len(first) != len(second):
        return False
    for others, value in first.items():
        if j in others:
            continue
        other = second.get(others)
        if other is None or abs(other - value) > EQUAL_VALUES * max(other, value):
            return False
    return sum(j in others for others in first) == sum(i in others for others in second)
