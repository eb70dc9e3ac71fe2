r"""Workloads over attributes: terms, one below the other (`term`).

    a product of workloads            one term
    a union of products               several terms
    marginals                         every group is one attribute, asked for its counts
    tables                            every group is one attribute
    tables that join attributes       groups of several attributes

With x as a tensor of one axis for each attribute, the answers of a term are those of its table,
which is x summed over the attributes in no group; transposed, a table repeats along these. Of a
quadratic form on pairs of cells (j, j') a term needs the pairs summed over these attributes, where
j and j' agree in those that are counted. Nothing of the size of the domain is formed unless it is
asked for. Attributes with one value have no axis, as numpy allows 64 of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmldesign.arguments import real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import (
    Workload,
    check_entries,
    different_cells,
    distinct_shape,
)
from pmldesign.workloads.ranges import asks_counts, total_of
from pmldesign.workloads.terms.term import Group, Term
from pmldesign.workloads.weighting import (
    WeightedWorkload,
    factor_weights,
    scaled_factors,
    times,
    times_parts,
)
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.operator import EPS, Array, Merged
from pmldesign_solvers.structure import kronecker

MERGED_ENTRIES = 2**24
"""Largest workload, in entries, whose rows and columns are compared with each other (128 MiB)."""
COLUMN_ENTRIES = 2**26
"""Most norms of columns of terms, one for each cell, that are added up (in half a second)."""


class TermsWorkload(Workload):
    """Terms over one domain, one below the other.

    Args:
        domain: the number of values of each attribute.
        terms: at least one.
        name: its name in messages and tables.

    Attributes:
        terms: the same.

    Raises:
        InvalidInputError: groups of a term that are not in increasing order, or queries on another
            number of cells than their group has.
    """

    def __init__(self, domain: Sequence[int], terms: Sequence[Term], *, name: str) -> None:
        self._domain, self.terms, self.name = tuple(domain), tuple(terms), name
        for number, term in enumerate(self.terms):
            self._check(number, term)
        self._stops = list(accumulate(term.shape[0] for term in self.terms))
        self._shape = self._stops[-1], math.prod(self._domain)
        self._distinct = [*{id(q): q for t in self.terms for q in t.queries.values()}.values()]
        ones = all(term.weight == 1 for term in self.terms)
        self.binary = ones and all(queries.binary for queries in self._distinct)

    def _check(self, number: int, term: Term) -> None:
        steps = zip(term.attributes, term.attributes[1:], strict=False)
        if not all(first < second for first, second in steps):
            raise InvalidInputError(
                f"term {number} has the groups of attributes {[*term.queries]}; groups are disjoint"
                " and in increasing order"
            )
        for group, queries in term.queries.items():
            cells = math.prod([self._domain[i] for i in group])
            if queries.shape[1] != cells:
                raise InvalidInputError(
                    f"table {number} over attributes {group} has {cells} cells, its queries are on"
                    f" {queries.shape[1]}"
                )

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return self._domain

    @cached_property
    def subsets(self) -> tuple[Group, ...]:
        """The attributes of each term."""
        return tuple(term.attributes for term in self.terms)

    @cached_property
    def weights(self) -> Array:
        """The weight c of each term."""
        return np.array([term.weight for term in self.terms])

    @cached_property
    def counts(self) -> bool:
        """Whether the terms are tables of counts."""
        return all(term.counts for term in self.terms)

    @cached_property
    def crossed(self) -> bool:
        """Whether every group is a single attribute."""
        return all(term.crossed for term in self.terms)

    @property
    def ways(self) -> dict[Group, list[Workload]]:
        """The different queries that terms ask of each group, without sums over it."""
        return self._numbered[0]

    @property
    def kinds(self) -> list[tuple[tuple[Group, int], ...]]:
        """Of every term its groups, each with the number of the way in which it is asked."""
        return self._numbered[1]

    @cached_property
    def repeats(self) -> bool:
        """Whether two terms have equal queries except for their weights."""
        return len(set(self.kinds)) < len(self.terms)

    @cached_property
    def _numbered(
        self,
    ) -> tuple[dict[Group, list[Workload]], list[tuple[tuple[Group, int], ...]]]:
        ways: dict[Group, list[Workload]] = {}
        numbers: dict[tuple[Group, int], int] = {}
        kinds = []
        for term in self.terms:
            for group, queries in term.queries.items():
                if (group, id(queries)) not in numbers:
                    way = _way_of(ways.setdefault(group, []), queries)
                    numbers[group, id(queries)] = way
            kinds.append(tuple((g, numbers[g, id(q)]) for g, q in term.queries.items()))
        return ways, kinds

    def queries_on(self, attribute: int) -> Workload:
        """All that terms ask of one attribute, its total too if one sums over it."""
        ways = self.ways.get((attribute,), [])
        if not all(attribute in subset for subset in self.subsets):
            ways = [*ways, _total(self.domain[attribute])]
        return together(ways)

    @cached_property
    def factors(self) -> tuple[Workload, ...]:
        """Of one term the queries of each group, and the sum over each other attribute."""
        (term, *others) = self.terms
        if others or any(group[-1] - group[0] >= len(group) for group in term.queries):
            return (self,)
        return factors_of(term, self.domain)

    @property
    def non_negative(self) -> bool:
        """Whether all that is asked of attributes is."""
        return all(queries.non_negative for queries in self._distinct)

    @property
    def part_rows(self) -> Sequence[tuple[str, int]]:
        """What the terms are called, by default their attributes, and their numbers of queries."""
        if len(self.terms) == 1:
            return super().part_rows
        return [
            (term.name or "*".join(map(str, term.attributes)) or "total", term.shape[0])
            for term in self.terms
        ]

    def split(self, answers: Array) -> list[Array]:
        """Views of the answers, shape (m,) or (m, c), term by term."""
        return [
            answers[stop - term.shape[0] : stop]
            for stop, term in zip(self._stops, self.terms, strict=True)
        ]

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        tables = self._tables(x)
        answers = (term.answer(tables[term.attributes]) for term in self.terms)
        return np.concatenate([*answers])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c); refused if too large."""
        check_entries(f"the histogram of {self.name}", (self.shape[1], math.prod(y.shape[1:])))
        tables: dict[Group, Array] = {}
        for term, answers in zip(self.terms, self.split(y), strict=True):
            table = term.spread(answers)
            tables[term.attributes] = tables.get(term.attributes, 0.0) + table
        return self._repeated(tables)

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,); refused if too large."""
        n, ones = self.shape[1], bool((weights == 1).all())
        check_entries(f"the Gram matrix of {self.name}", (n, n))
        total = np.zeros((n, n))
        for term, part in zip(self.terms, self.split(weights), strict=True):
            view, counted, asked = self._agreeing(total, term)
            gram = term.gram(part, ones=ones)
            if gram.shape == (1, n, n) and len(self.terms) == 1:
                return np.asarray(gram[0])
            cells = counted if len(gram) > 1 else [1] * len(counted)
            others = [1] * (view.ndim - len(counted) - 2 * len(asked))
            view += gram.reshape(*cells, *asked, *asked, *others)
        return total

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        values = []
        for term in self.terms:
            view, counted, asked = self._agreeing(matrix, term)
            kept = len(counted) + 2 * len(asked)
            sums = view.sum(axis=tuple(range(kept, view.ndim)))
            cells = math.prod(asked)
            values.append(term.row_quadratic(sums.reshape(-1, cells, cells)))
        return np.concatenate(values)

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c)."""
        tables = self._tables(half)
        return np.concatenate([term.row_norms(tables[term.attributes]) for term in self.terms])

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        tables = self._tables(weights)
        return np.concatenate([term.squares(tables[term.attributes]) for term in self.terms])

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns; refused if too large."""
        check_entries(f"the cells of {self.name}", (self.shape[1], 1))
        if self.counts:
            return np.full(self.shape[1], float(self.weights @ self.weights))
        squares = {id(queries): queries.column_squares() for queries in self._distinct}
        tables: dict[Group, Array] = {}
        for term in self.terms:
            table = kronecker.outer([squares[id(queries)] for queries in term.queries.values()])
            tables[term.attributes] = tables.get(term.attributes, 0.0) + term.weight**2 * table
        return self._repeated(tables)

    def longest_column(self) -> float:
        """Largest squared norm of a column, rounded up; for many cells a bound above it."""
        if not self.counts and self.shape[1] * len(self.terms) <= COLUMN_ENTRIES:
            return super().longest_column()
        longest = {id(queries): queries.longest_column() for queries in self._distinct}
        squares = [
            term.weight**2 * math.prod([longest[id(q)] for q in term.queries.values()])
            for term in self.terms
        ]
        return math.fsum(squares) * (1 + (len(squares) + 2 * len(self.domain)) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up; for many cells a bound above it."""
        if not self.counts and self.shape[1] <= WRITTEN_CELLS:
            return super().longest_difference()
        made: dict[tuple[int, ...], float] = {}
        squares = []
        for term in self.terms:
            key = tuple(map(id, term.queries.values()))
            if key not in made:
                made[key] = term.longest_difference()
            squares.append(term.weight**2 * made[key])
        apart = math.fsum(squares) * (1 + (len(squares) + 4) * EPS)
        if self.counts:  # of cells that differ in all attributes
            return apart
        return min(apart, (2 if self.non_negative else 4) * self.longest_column())

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n); refused if too large."""
        check_entries(self.name, self.shape)
        if len(self.terms) == 1 and self.terms[0].shape == self.shape:
            return self.terms[0].dense()
        axes, sizes = self._axes
        dense = np.empty(self.shape)
        for term, rows in zip(self.terms, self.split(dense), strict=True):
            kept = [n if i in term.attributes else 1 for i, n in zip(axes, sizes, strict=True)]
            rows.reshape(-1, *sizes)[:] = term.dense().reshape(-1, *kept)
        return dense

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        sizes = {id(queries): queries.row_sizes() for queries in self._distinct}
        return np.concatenate(
            [
                term.weight * kronecker.outer([sizes[id(q)] for q in term.queries.values()])
                for term in self.terms
            ]
        )

    def without_offsets(self) -> tuple[TermsWorkload, Array]:
        """The same on vectors that sum to zero: terms on one group, whose tables do so as well."""
        terms, left_out = [], []
        for term in self.terms:
            new, apart = term, np.zeros(term.shape[0])
            if len(term.queries) == 1:
                ((group, queries),) = term.queries.items()
                moved, rows = queries.without_offsets()
                if moved is not queries:
                    new, apart = Term(term.weight, {group: moved}, term.name), term.weight * rows
            terms.append(new)
            left_out.append(apart if apart.size else np.zeros(term.shape[0]))
        if all(new is old for new, old in zip(terms, self.terms, strict=True)):
            return self, np.zeros(0)
        return TermsWorkload(self.domain, terms, name=self.name), np.concatenate(left_out)

    def merge(self) -> Merged:
        """The same workload without zero rows and columns, nor repeated ones if it is small.

        One with fewer queries than cells counts as small. Attributes that are summed over are left
        out first.
        """
        check_entries(f"the cells of {self.name}", (1, self.shape[1]))
        used = sorted(set().union(*self.subsets)) or [0]
        if len(used) < len(self.domain):
            merged = _on(used, self).merge()
            cells = [n if i in used else 1 for i, n in enumerate(self.domain)]
            columns = np.broadcast_to(merged.column_of.reshape(cells), self.domain).ravel()
            return Merged(merged.operator, merged.row_of, columns)
        m, n = self.shape
        large = m * n > MERGED_ENTRIES and m >= n
        if large and self.row_sizes().all() and self.column_squares().all():
            return Merged(self, np.arange(m), np.arange(n))
        return DenseOperator(self.to_dense()).merge()

    def of_records(self, records: ArrayLike) -> Iterator[Array]:
        """The answers for records, term by term, whatever the size of the domain.

        Args:
            records: integers of shape (N, d), the value of each attribute, from 0.

        Raises:
            InvalidInputError: another shape or type, a value out of its range, or a table with more
                than MAX_ENTRIES cells.
        """
        values = self._records(records)
        tables: dict[Group, Array] = {}
        for term in self.terms:
            attributes, cells = term.attributes, term.shape[1]
            if attributes not in tables:
                check_entries(f"the table of attributes {attributes}", (1, cells))
                place = np.zeros(len(values), dtype=np.intp)
                for i in attributes:
                    place = place * self.domain[i] + values[:, i]
                tables[attributes] = np.bincount(place, minlength=cells).astype(np.float64)
            yield term.answer(tables[attributes])

    def row_label(self, index: int) -> str:
        """What query `index` asks: "row 5 (attribute 0 is 1; attribute 2: row 1 (cell 1))"."""
        number = bisect_right(self._stops, index)
        term = self.terms[number]
        rest, words = index - self._stops[number] + term.shape[0], list[str]()
        for group, queries in reversed([*term.queries.items()]):
            rest, row = divmod(rest, queries.shape[0])
            listed = f"attribute{'s' * (len(group) > 1)} {', '.join(map(str, group))}"
            asked = f" is {row}" if asks_counts(queries) else f": {queries.row_label(row)}"
            words.append(listed + asked if len(self.domain) > 1 else queries.row_label(row))
        part = f"{term.name}: " if term.name and len(self.terms) > 1 else ""
        return f"row {index} ({part}{'; '.join(reversed(words)) or 'total'})"

    @cached_property
    def _axes(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """The axis of each attribute of a tensor of cells, and its shape."""
        wide = [i for i, size in enumerate(self.domain) if size > 1] or [0]
        return {i: axis for axis, i in enumerate(wide)}, tuple(self.domain[i] for i in wide)

    def _tables(self, x: Array) -> dict[Group, Array]:
        """The table of each set of attributes, shape (k,) or (k, c)."""
        axes, sizes = self._axes
        tensor, tables = x.reshape(*sizes, *x.shape[1:]), {}
        for subset in dict.fromkeys(self.subsets):
            others = tuple(axis for i, axis in axes.items() if i not in subset)
            tables[subset] = tensor.sum(axis=others).reshape(-1, *x.shape[1:])
        return tables

    def _repeated(self, tables: Mapping[Group, Array]) -> Array:
        """The sum of tables, each repeated along all other attributes."""
        axes, sizes = self._axes
        columns = next(iter(tables.values())).shape[1:]
        total = np.zeros((*sizes, *columns))
        for subset, table in tables.items():
            kept = [n if i in subset else 1 for i, n in zip(axes, sizes, strict=True)]
            total += table.reshape(*kept, *columns)
        return total.reshape(-1, *columns)

    def _agreeing(self, matrix: Array, term: Term) -> tuple[Array, list[int], list[int]]:
        """A view of the entries of pairs of cells that agree in counted attributes, and its sizes.

        Its first axes are those of counted attributes, then twice those that are asked otherwise;
        the others are summed over.
        """
        axes, sizes = self._axes
        counted: list[int] = []
        asked: list[int] = []
        for group, queries in term.queries.items():
            (counted if asks_counts(queries) else asked).extend(axes[i] for i in group if i in axes)
        d, letters = len(sizes), ascii_letters
        second = [axis if axis in counted else axis + d for axis in range(d)]
        others = [axis for axis in range(d) if axis not in (*counted, *asked)]
        order = [*counted, *asked, *(axis + d for axis in asked)]
        order += [*others, *(axis + d for axis in others)]
        pairs, kept = (
            "".join(letters[axis] for axis in axes) for axes in ((*range(d), *second), order)
        )
        view = np.einsum(f"{pairs}->{kept}", matrix.reshape(sizes * 2))
        return view, [sizes[axis] for axis in counted], [sizes[axis] for axis in asked]

    def _records(self, records: ArrayLike) -> NDArray[np.integer[Any]]:
        values = real_numbers("records", records)
        if values.dtype.kind not in "iu" or values.shape[1:] != (len(self.domain),):
            raise InvalidInputError(
                f"records are whole numbers of shape (N, {len(self.domain)}), one column for each "
                f"attribute; got {values.dtype} of shape {values.shape}"
            )
        wrong = (values < 0) | (values >= np.array(self.domain))
        if wrong.any():
            record, attribute = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"attribute {attribute} has the values 0 to {self.domain[attribute] - 1}, record "
                f"{record} has {values[record, attribute]}"
            )
        return values


def _way_of(ways: list[Workload], queries: Workload) -> int:
    """The number of queries among the ways in which a group is asked; the last, if new."""
    same = next((k for k, way in enumerate(ways) if _equal(way, queries)), len(ways))
    if same == len(ways):
        ways.append(queries)
    return same


def _equal(first: Workload, second: Workload) -> bool:
    """Whether two workloads have equal queries, as far as that is cheap to determine."""
    if first is second or first.shape != second.shape:
        return first is second
    return (asks_counts(first) and asks_counts(second)) or (
        math.prod(first.shape) <= MERGED_ENTRIES
        and np.array_equal(first.to_dense(), second.to_dense())
    )


@times.register
def _(workload: TermsWorkload, weights: Array | float) -> Workload:
    """Every term with its weight, or with weights that are products of those of its groups."""
    if isinstance(weights, float):
        return times_parts(workload, [weights] * len(workload.terms))
    pairs = zip(workload.terms, workload.split(weights), strict=True)
    weighted = [_with_weights(term, part) for term, part in pairs]
    terms = [term for term in weighted if term is not None]
    if len(terms) < len(weighted):
        return WeightedWorkload(workload, weights, name=workload.name)
    return TermsWorkload(workload.domain, terms, name=workload.name)


@times_parts.register
def _(workload: TermsWorkload, weights: Sequence[float]) -> TermsWorkload:
    pairs = zip(workload.terms, weights, strict=True)
    terms = [term.times(weight) for term, weight in pairs]
    return TermsWorkload(workload.domain, terms, name=workload.name)


@distinct_shape.register
def _(workload: TermsWorkload) -> tuple[int, int]:
    """Of large workloads at most so many."""
    domain, used = workload.domain, set().union(*workload.subsets)
    if workload.counts:
        wide = [tuple(i for i in subset if domain[i] > 1) for subset in workload.subsets]
        distinct = set(zip(wide, workload.weights.tolist(), strict=True))
        rows = sum(math.prod([domain[i] for i in subset]) for subset, _ in distinct)
        return rows, math.prod([domain[i] for i in used])
    if math.prod(workload.shape) <= MERGED_ENTRIES:
        return workload.merge().operator.shape
    if len(workload.terms) == 1:
        shapes = [distinct_shape(queries) for queries in workload.terms[0].queries.values()]
        return math.prod([m for m, _ in shapes]), math.prod([n for _, n in shapes])
    return workload.shape[0], math.prod([domain[i] for i in used])


@different_cells.register
def _(workload: TermsWorkload) -> int:
    return (
        distinct_shape(workload)[1]
        if workload.counts
        else different_cells.dispatch(Workload)(workload)
    )


_total = lru_cache(maxsize=128)(total_of)
"""One object for all terms, as results for a factor are cached."""


def factors_of(term: Term, domain: Sequence[int]) -> tuple[Workload, ...]:
    """The product that a term is, of contiguous groups; its first factor has the weight."""
    firsts = {group[0]: (group, queries) for group, queries in term.queries.items()}
    factors, place = [], 0
    while place < len(domain):
        group, queries = firsts.get(place) or ((place,), _total(domain[place]))
        factors.append(queries)
        place += len(group)
    return scaled_factors(tuple(factors), term.weight)


def together(ways: Sequence[Workload]) -> Workload:
    """Several queries on the same cells, one below the other."""
    if len(ways) == 1:
        return ways[0]
    terms = [Term(1.0, {(0,): queries}, queries.name) for queries in ways]
    return TermsWorkload(ways[0].shape[1:], terms, name="+".join(q.name for q in ways))


def on_table(term: Term) -> Workload:
    """The queries of a term on the cells of its table, without its weight."""
    factors = [*term.queries.values()] or [total_of(1)]
    if len(factors) == 1:
        return factors[0]
    queries: dict[Group, Workload] = {(k,): factor for k, factor in enumerate(factors)}
    cells = [factor.shape[1] for factor in factors]
    return TermsWorkload(cells, [Term(1.0, queries)], name=term.name)


def _on(used: Sequence[int], workload: TermsWorkload) -> TermsWorkload:
    """The queries about some attributes, those that they are about."""
    place = {i: k for k, i in enumerate(used)}
    terms = [
        Term(t.weight, {tuple(place[i] for i in g): q for g, q in t.queries.items()}, t.name)
        for t in workload.terms
    ]
    return TermsWorkload([workload.domain[i] for i in used], terms, name=workload.name)


def _with_weights(term: Term, weights: Array) -> Term | None:
    """A term whose queries have weights; None if the weights are not a product."""
    if (weights == weights[0]).all():
        return term.times(float(weights[0]))
    vectors = factor_weights([queries.shape[0] for queries in term.queries.values()], weights)
    if vectors is None:
        return None
    queries = {
        group: asked if (vector == 1).all() else WeightedWorkload(asked, vector, name=asked.name)
        for (group, asked), vector in zip(term.queries.items(), vectors, strict=True)
    }
    return Term(term.weight, queries, term.name)
