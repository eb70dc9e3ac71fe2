r"""Variances of all answers of a strategy of independent coordinates, for many tables at once.

A query a on attribute i has the pair (t, h) = ((a^T v)^2, norm(a^T Psi)^2); of a plain attribute
v = 1/n and Psi Psi^T = (1 - 1/n)(1 - 1 1^T/n). The query of table T made of one for each attribute
has the variance

    sum_{S in T} (prod_{i in S} h_i prod_{i in T off S} t_i) / s_S,

a tensor 1/s of shape 2 x ... x 2 applied to the pairs. Sums over all queries need the sums of pairs
only, and an attribute whose queries have the same pair, as its counts, needs that alone: tables of
as many attributes are then one array.

Pairs of ordered attributes are rounded up, for certified upper bounds: a^T (v, Psi) is taken to be
off by delta, and its square counts as (1 + ETA) (a^T (v, Psi))^2 + (1 + 1/ETA) delta^2, which is at
least as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from pmldesign_solvers.operators.operator import EPS, TINY, Array, Indices, Operator
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.subsets import residual_spaces
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import Attributes, padded

ETA = 1e-11
"""Relative addition to a variance for the rounding of a^T (v, Psi)."""
BLOCK = 2**18
"""Variances that are formed at once: they fit into the caches of a processor."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The queries of one factor.

    Attributes:
        attribute: which one.
        pairs: t and h of each query, shape (m, 2).
    """

    attribute: int
    pairs: Array

    @cached_property
    def alike(self) -> bool:
        """Whether all queries have the same pair."""
        return bool((self.pairs == self.pairs[0]).all())


def asked(attribute: int, operator: Operator, measured: Measured) -> Asked:
    """The pairs of an ordered attribute's queries, upwards."""
    n = len(measured.inverse)
    sizes = np.sqrt(np.maximum(operator.row_norms(np.eye(n)), 1.0))
    delta = (n + 8) * EPS * math.sqrt(n) * np.linalg.norm(measured.inverse, axis=0)
    squares = (1 + ETA) * operator.matvec(measured.inverse) ** 2
    squares += (1 + 1 / ETA) * np.multiply.outer(sizes**2, delta**2)
    return Asked(attribute, np.column_stack([squares[:, 0], squares[:, 1:].sum(axis=1)]))


def asked_plain(attribute: int, size: int, operator: Operator | None) -> Asked:
    """What is asked of a plain attribute; None for its counts."""
    if operator is None:
        return Asked(attribute, np.tile([1 / size**2, ((size - 1) / size) ** 2], (size, 1)))
    squares, sums = operator.row_norms(np.eye(size)), operator.matvec(np.ones(size))
    rest = np.maximum(squares - sums**2 / size, 0.0) * (size - 1) / size
    return Asked(attribute, np.column_stack([(sums / size) ** 2, rest]))


class _Kind(NamedTuple):
    """Tables whose queries differ in the same factors.

    Attributes:
        tables: their numbers.
        varied: these factors, in the order of attributes.
        cores: the rest of 1/s for these factors, shape (tables, 2, ..., 2).
        queries: the number of queries of each table for one of these factors.
    """

    tables: Indices
    varied: tuple[int, ...]
    cores: Array
    queries: Array


class Variances:
    """The variances of tables' queries.

    Args:
        sizes: number of values of each attribute.
        precisions: s_S of each set.
        known: whether the table by some attributes is known without noise.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        precisions: Mapping[Attributes, float],
        known: Callable[[Attributes], bool] = lambda _: False,
    ) -> None:
        self._sizes, self._precisions, self._known = sizes, precisions, known

    def of_queries(
        self, asked: Sequence[Asked], tables: Sequence[tuple[int, ...]], squares: Array
    ) -> Array:
        """The variances of all queries, table by table.

        Args:
            asked: the factors of all tables.
            tables: the numbers of those of each.
            squares: factors of the variances of each table, shape (tables,).

        Raises:
            KeyError: the strategy does not determine a table.
            ValueError: too many sets.
        """
        lengths = np.array([*(len(query.pairs) for query in asked), 1])
        counts = lengths[padded(tables, len(asked))].prod(axis=1)
        ends = np.cumsum(counts)
        answers = np.empty(int(ends[-1]))
        for kind in self._kinds(asked, tables, [query.pairs[0] for query in asked]):
            cores = kind.cores.reshape(len(kind.tables), -1).T * squares[kind.tables]
            if not kind.varied:
                times = counts[kind.tables]
                places = np.repeat(ends[kind.tables] - np.cumsum(times), times)
                answers[places + np.arange(len(places))] = np.repeat(cores[0], times)
                continue
            values = kronecker.multiply([asked[k].pairs for k in kind.varied], cores)
            for column, table in enumerate(kind.tables.tolist()):
                every = lengths[list(tables[table])]
                axes = np.where(np.isin(tables[table], kind.varied), every, 1)
                spread = np.broadcast_to(values[:, column].reshape(axes), every)
                answers[ends[table] - counts[table] : ends[table]] = spread.ravel()
        return answers

    def norms(
        self, asked: Sequence[Asked], tables: Sequence[tuple[int, ...]], power: float
    ) -> Array:
        """(sum v^power)^(1/power) over the queries of each table, power at least 1.

        Arguments and errors are those of `of_queries`.
        """
        norms = np.zeros(len(tables))
        if power == 1:
            sums = [query.pairs.sum(axis=0) for query in asked]
            for kind in self._kinds(asked, tables, sums, summed=True):
                norms[kind.tables] = kind.cores
            return norms
        for kind in self._kinds(asked, tables, [query.pairs[0] for query in asked]):
            columns = kind.cores.reshape(len(kind.tables), -1).T
            own = _norms([asked[k].pairs for k in kind.varied], columns, power)
            norms[kind.tables] = own * kind.queries ** (1 / power)
        return norms

    def _kinds(
        self,
        asked: Sequence[Asked],
        tables: Sequence[tuple[int, ...]],
        pairs: Sequence[Array],
        *,
        summed: bool = False,
    ) -> Iterator[_Kind]:
        """All tables by kinds, with one pair for each factor whose queries need no other.

        These are all factors if the pairs are sums over queries.
        """
        nothing = len(asked)  # stands for no factor
        wide = np.array([*(self._sizes[query.attribute] > 1 for query in asked), False])
        alone = np.array([*(summed or query.alike for query in asked), True])
        counts = np.array([*(len(query.pairs) for query in asked), 1], dtype=np.float64)
        numbers = np.array([*pairs, np.array([1.0, 0.0])])
        factors = padded(tables, nothing)
        # the factors on attributes with contrasts first, in their order
        order = np.argsort(~wide[factors], axis=1, kind="stable")
        factors = np.take_along_axis(factors, order, axis=1)
        inverses = self._inverses([tuple(asked[k].attribute for k in table) for table in tables])
        varied = np.where(alone[factors], nothing, factors)
        for chosen in _alike(np.column_stack([varied, wide[factors].sum(axis=1)])):
            rows = factors[chosen]
            left: list[int] = []
            cores = inverses(chosen, int(wide[rows[0]].sum()))
            for column in rows.T:
                first = int(column[0])
                if not wide[first]:
                    cores = np.stack([cores, np.zeros_like(cores)], axis=1 + len(left))
                if not alone[first]:
                    left.append(first)
                    continue
                t, h = numbers[column].T
                off, on = np.moveaxis(cores, 1 + len(left), 0)
                shape = (-1,) + (1,) * (off.ndim - 1)
                cores = t.reshape(shape) * off + h.reshape(shape) * on
            places = sorted(range(len(left)), key=lambda place: asked[left[place]].attribute)
            yield _Kind(
                chosen,
                tuple(left[place] for place in places),
                cores.transpose(0, *(1 + place for place in places)),
                np.where(alone[rows], counts[rows], 1.0).prod(axis=1),
            )

    def _inverses(self, subsets: Sequence[Attributes]) -> Callable[[Indices, int], Array]:
        """1/s of the subsets of some of these sets, which have `width` wide attributes.

        The result has the shape (sets, 2, ..., 2), an axis for each wide attribute.
        """
        spaces = residual_spaces(self._sizes, subsets)
        inverses = np.zeros(len(spaces.residuals))
        for row, members in enumerate(spaces.residuals):
            if not self._known(members):
                inverses[row] = 1 / self._precisions[members]
        columns = spaces.incidence.tocsc()
        columns.sort_indices()  # subsets of a set by size, then in lexicographic order

        def of(chosen: Indices, width: int) -> Array:
            starts = columns.indptr[chosen]
            values = inverses[columns.indices[starts[:, None] + np.arange(1 << width)]]
            cores = np.zeros((len(chosen), *[2] * width))
            every = chain.from_iterable(combinations(range(width), k) for k in range(width + 1))
            for place, members in enumerate(every):
                corner: list[Any] = [int(i in members) for i in range(width)]
                cores[(slice(None), *corner)] = values[:, place]
            return cores

        return of


def _alike(rows: Indices) -> list[Indices]:
    """The numbers of equal rows."""
    if (rows == rows[:1]).all():
        return [np.arange(len(rows))]
    _, kinds = np.unique(rows, axis=0, return_inverse=True)
    ends = np.cumsum(np.bincount(kinds.ravel()))
    return np.split(np.argsort(kinds.ravel(), kind="stable"), ends[:-1])


def _norms(pairs: Sequence[Array], cores: Array, power: float) -> Array:
    """(sum v^power)^(1/power) of tables, whose tensors are the columns of `cores`."""
    entries = math.prod(map(len, pairs))
    width, norms = max(1, BLOCK // entries), []
    for start in range(0, cores.shape[1], width):
        columns = np.ascontiguousarray(cores[:, start : start + width])
        blocks = [
            _power_means(kronecker.multiply(rows, columns), power)
            for rows in _blocks(pairs, entries)
        ]
        norms.append(_power_means(np.array(blocks), power))
    return np.concatenate(norms)


def _blocks(pairs: Sequence[Array], entries: int) -> Iterator[Sequence[Array]]:
    """The factors of a table of so many queries, some rows of the first at a time."""
    if entries <= BLOCK or not pairs:
        yield pairs
        return
    first, *others = pairs
    length = max(1, BLOCK // (entries // len(first)))
    for start in range(0, len(first), length):
        yield [first[start : start + length], *others]


def _power_means(values: Array, power: float) -> Array:
    """(sum v^power)^(1/power) of every column, of values >= 0."""
    top = values.max(axis=0)
    if math.isinf(power):
        return np.asarray(top)
    scaled = values / np.maximum(top, TINY)
    return np.asarray(top * (scaled**power).sum(axis=0) ** (1 / power))
