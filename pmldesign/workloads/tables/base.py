"""Tables over sets of attributes, one below the other: what marginals and other tables share.

Marginals and their strategies check their attributes, and sets of them, here.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.weighting import scaled_factors
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

MAX_SIZE = 2**53
"""Values of an attribute: beyond, float64 cannot count them."""
MAX_SETS = 2**20
"""Tables of a workload: each is a Python tuple, 100 bytes and more."""
MAX_CELLS = 10**1000
"""Of a domain: far above all that is asked for, and still a quick product of Python integers."""


def attribute_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The number of values of each attribute.

    Raises:
        InvalidInputError: none, one that is not a whole number from 1 to MAX_SIZE, or more than
            MAX_CELLS cells together.
    """
    if not len(sizes):
        raise InvalidInputError("marginals need at least one attribute, got no sizes")
    for attribute, size in enumerate(sizes):
        whole = isinstance(size, Integral) and not isinstance(size, bool)
        if not whole or not 1 <= size <= MAX_SIZE:
            raise InvalidInputError(
                f"the size of attribute {attribute} must be a whole number from 1 to {MAX_SIZE}, "
                f"got {size!r}"
            )
    kept = tuple(int(size) for size in sizes)
    if math.prod(kept) > MAX_CELLS:
        raise InvalidInputError(
            f"the {len(kept)} attributes have over 10^1000 cells together; leave some out"
        )
    return kept


def attribute_sets(
    kind: str, sets: Iterable[Iterable[int]], attributes: int
) -> tuple[tuple[int, ...], ...]:
    """Different sets of attributes, each of them in increasing order.

    Args:
        kind: what messages call a set, "marginal" or "residual".
        sets: from 1 to MAX_SETS of them; () is the total.
        attributes: their number.

    Raises:
        InvalidInputError: too few or too many sets, an attribute that does not exist, or a repeated
            attribute or set.
    """
    kept = [attribute_set(kind, n, members, attributes) for n, members in enumerate(sets)]
    require_different(kind, kept)
    return tuple(kept)


def attribute_set(
    kind: str, number: int, members: Iterable[int], attributes: int
) -> tuple[int, ...]:
    """The attributes of set `number` in increasing order; arguments and errors as above."""
    given = tuple(members)
    try:
        subset = tuple(sorted(map(operator.index, given)))
    except TypeError:
        subset = (-1,)
    if subset and not 0 <= subset[0] <= subset[-1] < attributes:
        raise InvalidInputError(
            f"{kind} {number} has the attributes {given}; attributes are whole numbers from "
            f"0 to {attributes - 1}"
        )
    if len(set(subset)) < len(subset):
        raise InvalidInputError(f"{kind} {number} names an attribute twice: {given}")
    return subset


def require_different(kind: str, sets: Sequence[Hashable]) -> None:
    """Refuse a set that is there twice, and too few or too many of them."""
    numbers: dict[Hashable, int] = {}
    for number, subset in enumerate(sets):
        if subset in numbers:
            raise InvalidInputError(
                f"{kind}s {numbers[subset]} and {number} are the same, {subset}; give it once, "
                "with a larger weight if it counts more"
            )
        numbers[subset] = number
    if not 1 <= len(numbers) <= MAX_SETS:
        raise InvalidInputError(f"there must be from 1 to {MAX_SETS} {kind}s, got {len(numbers)}")


def positive_weights(kind: str, weights: ArrayLike, count: int) -> Array:
    """One weight for each set, read-only.

    Raises:
        InvalidInputError: another number of weights, or one that is not positive and finite.
    """
    if np.iscomplexobj(weights):
        raise InvalidInputError(f"the weights of {kind}s must be real numbers")
    kept = np.array(weights, dtype=np.float64)
    if kept.shape != (count,):
        raise InvalidInputError(
            f"there is one weight for each of the {count} {kind}s, got shape {kept.shape}"
        )
    wrong = np.flatnonzero(~((kept > 0) & np.isfinite(kept)))
    if wrong.size:
        raise InvalidInputError(
            f"the weight of {kind} {wrong[0]} must be positive and finite, got {kept[wrong[0]]}"
        )
    kept.flags.writeable = False
    return kept


class AttributeTables(Workload):
    """Every combination of the queries on some attributes, for several sets of attributes.

    Attributes:
        sizes: the number of values of each attribute.
        subsets: the attributes of each table, in increasing order.
        weights: c_T of each table, shape (K,), read-only.
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]
    weights: Array
    ways: tuple[tuple[Workload, ...], ...] = ()
    """The ways in which each attribute is asked; nothing where all are asked for their counts."""
    kinds: tuple[tuple[int, ...], ...] = ()
    """Of every table the number of the way of each of its attributes, likewise."""
    between: ClassVar[str]
    """What stands between the attributes in the label of a query."""
    crossed: ClassVar[bool] = True
    """Whether every table asks for all combinations of queries on its attributes."""

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return self.sizes

    @property
    def non_negative(self) -> bool:
        """Whether all that is asked of attributes is."""
        return all(queries.non_negative for ways in self.ways for queries in ways)

    @property
    def part_names(self) -> Sequence[str]:
        """What the user called the tables, or their attributes."""
        names = self.name.split("+")
        if len(names) == len(self.subsets):
            return [name.strip() for name in names]
        return ["*".join(map(str, subset)) or "total" for subset in self.subsets]

    @property
    def part_queries(self) -> Sequence[int]:
        """The number of queries of each table."""
        return self.table_queries

    def times(self, weights: Array | float) -> Workload:
        """The tables, each with its weight where its queries have the same."""
        if isinstance(weights, float):
            return self.times_parts([weights] * len(self.subsets))
        parts = self.split(weights)
        if not all((part == part[0]).all() for part in parts):
            return super().times(weights)
        return self.times_parts([part[0] for part in parts])

    def times_parts(self, weights: Sequence[Array | float]) -> Workload:
        """Every table times its weight."""
        return self.reweighted(np.array(weights))

    def as_tables(self) -> Self:
        """The workload itself."""
        return self

    @abstractmethod
    def queries_on(self, attribute: int) -> Workload:
        """All queries that tables with an attribute ask of it, one way below the other."""

    @abstractmethod
    def queries_of(self, number: int) -> tuple[Workload, ...]:
        """What table `number` asks of each of its attributes."""

    @abstractmethod
    def asked_of(self, number: int) -> tuple[int, ...]:
        """The number of queries on each attribute of table `number`."""

    @abstractmethod
    def reweighted(self, scales: Array) -> Self:
        """The same with each table times its scale, shape (K,)."""

    def ask(self, number: int, counts: Array) -> Array:  # noqa: ARG002
        """The answers of table `number`, shape (m_T,) or (m_T, c), from its counts (times c_T)."""
        return counts

    @abstractmethod
    def _words(self, number: int, place: int, row: int) -> str:
        """What a query of table `number` asks of the attribute in a place of its set."""

    @cached_property
    def table_queries(self) -> tuple[int, ...]:
        """The number of queries of each table."""
        return tuple(math.prod(self.asked_of(number)) for number in range(len(self.subsets)))

    @cached_property
    def _stops(self) -> list[int]:
        return list(accumulate(self.table_queries))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n, as large as they may be."""
        return self._stops[-1], math.prod(self.sizes)

    def products(self) -> list[tuple[Workload, ...]]:
        """The factors of each table, one for each attribute, the first one with its weight."""
        totals = dict(enumerate(map(total_of, self.sizes)))
        products = []
        for number, weight in enumerate(self.weights.tolist()):
            asked = zip(self.subsets[number], self.queries_of(number), strict=True)
            products.append(scaled_factors((*(totals | dict(asked)).values(),), weight))
        return products

    def counts_over(self, subsets: Sequence[tuple[int, ...]]) -> AttributeTables:
        """The tables of counts over other sets of the same attributes."""
        from pmldesign.workloads.tables.marginals import MarginalsWorkload

        return MarginalsWorkload(self.sizes, subsets)

    def split(self, answers: Array) -> list[Array]:
        """Views of the answers, shape (m,) or (m, c), table by table."""
        return [
            answers[stop - queries : stop]
            for stop, queries in zip(self._stops, self.table_queries, strict=True)
        ]

    def row_label(self, index: int) -> str:
        """What query `index` asks: "row 5 (attribute 0 is 1, attribute 2 is 1)"."""
        table = bisect_right(self._stops, index)
        rest = index - self._stops[table] + self.table_queries[table]
        words = []
        asked = [*enumerate(zip(self.subsets[table], self.asked_of(table), strict=True))]
        for place, (i, queries) in reversed(asked):
            rest, row = divmod(rest, queries)
            words.append(f"attribute {i} {self._words(table, place, row)}")
        return f"row {index} ({self.between.join(reversed(words)) or 'total'})"


def counts_of(size: int) -> RangeWorkload:
    """The counts of an attribute of so many values."""
    starts = np.arange(size)
    return RangeWorkload(starts, starts + 1, size, name=f"histogram:{size}")


def total_of(size: int) -> RangeWorkload:
    """The sum over an attribute of so many values."""
    return RangeWorkload(np.array([0]), np.array([size]), size, name=f"total:{size}")


def ask(queries: Sequence[Workload], counts: Array) -> Array:
    """Every combination of queries, shape (m,) or (m, c), from the counts of their attributes."""
    maps: list[kronecker.Map] = [
        (lambda y: y) if asks_counts(entry) else entry.matvec for entry in queries
    ]
    return kronecker.apply(maps, [entry.shape[1] for entry in queries], counts)


def asks_counts(queries: Workload) -> bool:
    """Whether the queries are the counts of an attribute, in the order of its values."""
    m, n = queries.shape
    return m == n and _same(queries, counts_of(n))


def asks_total(queries: Workload) -> bool:
    """Whether the only query is the sum over an attribute."""
    m, n = queries.shape
    return m == 1 and _same(queries, total_of(n))


def _same(first: Workload, second: RangeWorkload) -> bool:
    return (
        isinstance(first, RangeWorkload)
        and np.array_equal(first.starts, second.starts)
        and np.array_equal(first.stops, second.stops)
    )
