"""Workloads as tables over given attributes, and what the variances of their answers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pmldesign.workloads.base import Workload
from pmldesign.workloads.tables.base import asks_counts
from pmldesign.workloads.tables.same import Table, tables_in
from pmldesign.workloads.union import spread_out, stacked
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.upper.asked import Asked, asked, asked_plain


def as_tables_over(workload: Workload, sizes: Sequence[int]) -> list[Table] | None:
    """The workload as tables over attributes of these sizes, if it is such; not to be changed."""
    return _tables_over(workload.inner, tuple(sizes))


@lru_cache(maxsize=2)
def _tables_over(inner: Workload, sizes: tuple[int, ...]) -> list[Table] | None:
    tables = tables_in(stacked(inner), sizes)
    return tables_in(spread_out(inner), sizes) if tables is None else tables


class QueryNumbers:
    """The numbers of queries that their variances depend on, each computed once.

    Args:
        sizes: number of values of each attribute.
        ordered: what is measured of those that are not plain.
        features: the number of features of each of these.
    """

    def __init__(
        self, sizes: Sequence[int], ordered: Mapping[int, Measured], features: Mapping[int, int]
    ) -> None:
        self._sizes, self._ordered, self._features = sizes, ordered, features
        self._asked: list[Asked] = []
        # the queries are kept so that their ids stay theirs
        self._numbers: dict[tuple[int, int], tuple[Workload, int]] = {}

    def __call__(self, tables: Sequence[Table]) -> tuple[list[Asked], list[tuple[int, ...]]]:
        """The factors of tables, and the numbers of those of each table."""
        numbers = [
            tuple([self._number(i, factor) for i, factor in queries.items()])
            for _, queries in tables
        ]
        return self._asked, numbers

    def _number(self, attribute: int, queries: Workload) -> int:
        key = (attribute, id(queries))
        if key not in self._numbers:
            if attribute in self._ordered:
                basis, features = self._ordered[attribute], self._features[attribute]
                numbers = asked(attribute, queries, basis, features)
            else:
                counts = None if asks_counts(queries) else queries
                numbers = asked_plain(attribute, self._sizes[attribute], counts)
            self._numbers[key] = (queries, len(self._asked))
            self._asked.append(numbers)
        return self._numbers[key][1]
