r"""Two cells of a table of attributes, by the set of attributes in which they differ.

Let a Gram matrix be a sum over sets T of attributes, with X_i of diagonal 1 at most,

    G = sum_T s_T (x)_{i in T} X_i  (x)_{i not in T} 1 1^T,    s_T >= 0.

Two cells that differ in the attributes U have the squared distance

    D_U <= 2 sum_T s_T (1 - prod_{i in T and U} r_i),    r_i the least entry of X_i,

for it is linear in every entry of an X_i. It is equal where X_i is 1 on the diagonal and r_i off
it: r_i = -1/(n_i - 1) for contrasts, X_i = n_i/(n_i - 1) (1 - 1 1^T/n_i), 0 for counts, X_i = 1.

Attributes with the same number of values and the same r that may be exchanged without a change of
s form a class. Then T and U count by how many attributes of each class they have, their types t and
k, and the mean of the product over all T of a type is a product over the classes (of c attributes)
of

    K_c[t, k] = sum_j C(k, j) C(c - k, t - j) / C(c, t) r^j,

for r = -1/(n - 1) the Krawtchouk polynomials over their values at 0. They are applied one axis at a
time.
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
        values: n, the number of values of the attributes of each class, at least 2.
        ratios: r of each class, from -1 to 1.
    """

    classes: tuple[tuple[int, ...], ...]
    values: tuple[int, ...]
    ratios: tuple[float, ...]

    def without(self, known: Collection[int]) -> DifferingSets:
        """The types of sets without some attributes."""
        rest = [tuple(i for i in members if i not in known) for members in self.classes]
        kept = [place for place, members in enumerate(rest) if members]
        return DifferingSets(
            tuple(rest[place] for place in kept),
            tuple(self.values[place] for place in kept),
            tuple(self.ratios[place] for place in kept),
        )

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
        """The mean of prod_{i in T and U} r_i over the T of some types, shape (U types, T types).

        Args:
            types: of the T, shape (T types, classes).
            differing: of the U, shape (U types, classes).
        """
        product = np.ones((len(differing), len(types)))
        for axis, degree in enumerate(types.max(axis=0, initial=0)):
            table = self._table(axis, int(degree))
            product *= table[types[:, axis][None, :], differing[:, axis][:, None]]
        return product

    def sums(self, types: Indices, totals: Array) -> Array:
        """Sum over all T of s_T prod_{i in T and U} r_i for every type of U, shape `shape`.

        Args:
            types: distinct types, shape (T types, classes).
            totals: the sum of s_T over the T of each type, shape (T types,).
        """
        if not self.classes:  # cells that differ in nothing
            return np.full((), totals.sum())
        degrees = types.max(axis=0, initial=0)
        tensor = np.zeros(tuple(degrees + 1))
        tensor[tuple(types.T)] = totals
        for axis, degree in enumerate(degrees):
            front = np.moveaxis(tensor, axis, -1) @ self._table(axis, int(degree))
            tensor = np.moveaxis(front, -1, axis)
        return tensor

    def distances(self, types: Indices, type_of: Indices, shares: Array) -> Array:
        """D_U for every type of U, shape `shape`, rounded up.

        The largest s_T of a type stands for all its sets, and no distance falls with an s_T.
        The arguments are those of `largest_distance`.
        """
        if not self.classes:
            return np.zeros(())
        most = np.zeros(len(types))
        np.maximum.at(most, type_of, shares)
        sums = self.sums(types, most * np.bincount(type_of, minlength=len(types)))
        rounding = (len(shares) + 8 * sum(self.shape) + 100) * EPS
        squares = 2 * (sums.flat[0] * (1 + rounding) - sums)
        squares.flat[0] = 0.0
        return np.asarray(squares)

    def largest_distance(self, types: Indices, type_of: Indices, shares: Array) -> float:
        """The largest D_U, rounded up; more than that where the types of U are not listed.

        Args:
            types: distinct types, shape (T types, classes).
            type_of: the number of the type of each T, shape (R,).
            shares: s_T, shape (R,).
        """
        if self.listed:
            return float(self.distances(types, type_of, shares).max())
        # a product of some r in a set is at least the least r of it, or that of all if none is
        # negative
        rounding = 1 + (len(shares) + 8 * sum(self.shape) + 100) * EPS
        r = np.array(self.ratios)
        least = [
            min([float(np.prod(r**row)), *r[row > 0].tolist()]) for row in types.astype(np.float64)
        ]
        return 2 * float((1 - np.array(least))[type_of] @ shares) * rounding

    def counts(self) -> Array:
        """Number of cells that differ from a given one in a set of each type, shape `shape`."""
        total = np.ones(())
        for members, size in zip(self.classes, self.values, strict=True):
            c = len(members)
            sets = [float(math.comb(c, k)) * float(size - 1) ** k for k in range(c + 1)]
            total = np.multiply.outer(total, np.array(sets))
        return total

    def _table(self, axis: int, degree: int) -> Array:
        """K_c[t, k] for t up to a degree."""
        c, r = len(self.classes[axis]), self.ratios[axis]
        rows = [
            [
                math.fsum(
                    math.comb(k, j) * math.comb(c - k, t - j) / math.comb(c, t) * r**j
                    for j in range(max(0, t + k - c), min(t, k) + 1)
                )
                for k in range(c + 1)
            ]
            for t in range(degree + 1)
        ]
        return np.array(rows)


class OpenParts:
    """The parts of sets T of attributes outside the set C in which two cells agree.

    Two cells that agree in C have the distance that T without C gives, for the sum of all s_T.

    Args:
        sets: the T.
        known: C.

    Attributes:
        sets: the distinct T without C.
        place: the number among them of each T without C.
    """

    def __init__(self, sets: Sequence[tuple[int, ...]], known: Collection[int]) -> None:
        parts = [tuple(i for i in T if i not in known) for T in sets]
        number = {part: k for k, part in enumerate(dict.fromkeys(parts))}
        self.sets = tuple(number)
        self.place = np.array([number[part] for part in parts], dtype=np.intp)

    def totals(self, shares: Array) -> Array:
        """The sum of s_T of each distinct set in which two cells may differ, shape (sets,)."""
        return np.bincount(self.place, weights=shares).astype(np.float64)


def contrast_ratios(sizes: Sequence[int]) -> list[float]:
    """R of contrasts of each attribute; 0 for one with a single value, in which no cells differ."""
    return [-1.0 / (size - 1) if size > 1 else 0.0 for size in sizes]


def differing_sets(
    sizes: Sequence[int], sets: Sets, ratios: Sequence[float] | None = None
) -> DifferingSets:
    """The types of sets of attributes for values that some exchanges do not change.

    Args:
        sizes: number of values of each attribute.
        sets: the value of each set; attributes with one value do not count.
        ratios: r of each attribute; None for contrasts.
    """
    ratios = contrast_ratios(sizes) if ratios is None else ratios
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
            same = sizes[first] == sizes[i] and ratios[first] == ratios[i]
            if same and _exchangeable(rest[first], rest[i], first, i):
                alike.append(i)
                break
        else:
            classes.append([i])
    return DifferingSets(
        classes=tuple(tuple(alike) for alike in classes),
        values=tuple(sizes[alike[0]] for alike in classes),
        ratios=tuple(ratios[alike[0]] for alike in classes),
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
