"""A release that is prepared: all that does not depend on the data, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.atomic import PathName
from pmldesign.mechanisms import Mechanism
from pmldesign.mechanisms import mechanism as mechanism_for
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.release.estimates import Estimate, estimated
from pmldesign.release.intervals import half_widths
from pmldesign.release.manifest import manifest_of, not_private
from pmldesign.release.measured.measurements import Measurements
from pmldesign.release.noise.exact import ExactNoise, exact_noise, require_agreement
from pmldesign.release.noise.law import AnswerNoise
from pmldesign.release.noise.sampler import Sampler, draw
from pmldesign.release.people.histogram import count_people, count_tables, read_histogram
from pmldesign.release.people.numbers import Number
from pmldesign.release.people.queries import NamedQueries, parse_queries
from pmldesign.release.people.regions import RegionQueries
from pmldesign.release.people.schema import Schema, as_schema
from pmldesign.release.public_counts import PublicCounts, counted
from pmldesign.release.quantiles import Band, bands
from pmldesign.release.ratios import Ratios, ratios_of, with_ratios
from pmldesign.release.result import Release
from pmldesign.release.tables import ReleasedTable, decimals_for
from pmldesign.strategies.participation.strategy import person_rows, with_participation
from pmldesign.strategies.whole.integers import Integers
from pmldesign.strategies.whole.tables import TableCounts
from pmldesign.workloads import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class Prepared:
    """All of a release that does not depend on the data.

    Attributes:
        noise: the mechanism on its lattice.
        schema: of the people; None for a histogram.
        widths: half-widths of the intervals, shape (m,).
        manifest: what is published beside the table.
        nonnegative: whether cells may not be negative.
        integers: whether cells are to be whole.
        parts: for each product its ratios, or the rows of its answers; () without any ratio.
        bands: quantiles that are asked for.
    """

    noise: ExactNoise
    schema: Schema | None
    widths: Array
    manifest: dict[str, Any]
    nonnegative: bool = False
    integers: bool = False
    parts: tuple[Ratios | slice, ...] = ()
    bands: tuple[Band, ...] = ()

    @property
    def denominator(self) -> int:
        """D: counts are whole multiples of 1/D."""
        return 1 if self.schema is None else self.schema.denominator

    def counts(self, data: Any) -> Integers | TableCounts:
        """The histogram of the data times D, or their tables where that is too large; checked.

        Raises:
            InvalidInputError, FileError: as `release`.
        """
        cells = self.noise.mechanism.workload.shape[1]
        counts: Integers | TableCounts
        exactly = self.noise.mechanism.neighbours is Neighbours.REPLACE
        if self.schema is None:
            counts = read_histogram(data, cells)
        elif cells <= MAX_PRODUCT_CELLS:
            counts = count_people(data, self.schema, exactly=exactly)
        else:
            subsets = self.noise.lattice.subsets
            counts = count_tables(data, self.schema, subsets, exactly=exactly)
        require_whole_people(number_of(counts) // self.denominator, self.noise)
        return counts

    def publish(self, counts: Integers | TableCounts, sampler: Sampler = draw) -> Release:
        """Draw the noise, and make the table."""
        values = self.noise.measure(counts, sampler=sampler)
        content = self.manifest if sampler is draw else not_private(self.manifest)
        public, answers = self.public_counts(counts), self.noise.of_answers
        if public is not None:
            content = {**content, "records": public.total}
        known, spreads = answers.factorization, answers.deviations
        queries = known.workload.whole
        estimate = estimated(known.strategy, values, queries, public)
        decimals = decimals_for(estimate.summed, spreads, estimate.size)
        measured = Measurements(
            *(known.strategy, values, answers.laws, public, (content,), queries, decimals),
            schema=self.schema,
        )
        labels = labels_of(queries, self.schema)
        steps = self.nonnegative, self.integers
        table = measured.table(estimate, queries, labels, (spreads, self.widths), steps)
        table = published(table, self.parts, estimate, queries, self.schema)
        if (cells := estimate.cells) is None:
            return Release(table, content, measurements=measured)
        listed = () if public is None else tuple(public.rows(self.schema))
        quantiles = tuple(band.read(cells) for band in self.bands)
        return Release(table, content, quantiles, listed, measured)

    def public_counts(self, counts: Integers | TableCounts) -> PublicCounts | None:
        """The numbers of records in the data that are public."""
        public = self.noise.mechanism.workload.public
        if isinstance(counts, TableCounts):
            parts = PublicCounts(public.members, (counts.total,)) if public else None
        else:
            parts = counted(public, counts)
        if parts is None:
            return None
        return replace(parts, counts=tuple(n // self.denominator for n in parts.counts))


def prepare(
    mechanism: Mechanism,
    *,
    schema: Schema | Mapping[str, Any] | PathName | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    nonnegative: bool = False,
    integers: bool = False,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    sampler: Sampler = draw,
) -> Prepared:
    """Everything before the data are read; arguments and errors as `release`."""
    mechanism = mechanism.unweighted or mechanism
    form = None if schema is None else as_schema(schema)
    if form is not None:
        form.require_release(mechanism.neighbours)
        if form.cells != mechanism.workload.shape[1]:
            raise InvalidInputError(
                f"the schema has {form.cells} cells, the workload "
                f"{mechanism.workload.shape[1]}; write the workload with names of attributes"
            )
        require_whole_groups(form, mechanism.workload)
        mechanism = for_people(mechanism, form)
    noise = exact_noise(mechanism, denominator=1 if form is None else form.denominator)
    if integers:
        require_whole_cells(form, mechanism.workload.public)
    whole = nonnegative or integers or bool(quantiles)
    tables = bool(noise.lattice.subsets)
    require_histogram(mechanism.workload.whole, whole=whole, tables=tables)
    if sampler is draw:
        require_agreement(noise)
    answers = noise.of_answers
    widths = half_widths(answers, level, simultaneous=simultaneous)
    if quantiles and form is None:
        raise InvalidInputError("quantiles are of attributes: they need a schema")
    parts = ratio_parts(answers, form, level, simultaneous=simultaneous)
    wanted = tuple(bands(answers, form, quantiles, level)) if form and quantiles else ()
    steps = {"nonnegative": nonnegative, "integers": integers}
    content = manifest_of(
        noise,
        schema=form,
        level=level,
        simultaneous=simultaneous,
        post_processing=[name for name, done in steps.items() if done],
    )
    ratios = sum(part.number for part in parts if isinstance(part, Ratios))
    if ratios:  # each made of two ends
        content |= {"queries": content["queries"] - ratios, "ratios": ratios}
    if form is not None and form.suppress is not None:
        content["suppress"] = {"relative_error": form.suppress}
    return Prepared(noise, form, widths, content, nonnegative, integers, parts, wanted)


def ratio_parts(
    noise: AnswerNoise, schema: Schema | None, level: float, *, simultaneous: bool
) -> tuple[Ratios | slice, ...]:
    """For each product its ratios, or the rows of its answers; () where there are no ratios."""
    named = named_queries(noise.factorization.workload.whole, schema)
    if isinstance(named, NamedQueries) and any(f.ratio for part in named.parts for f in part):
        return tuple(ratios_of(noise, named, level, simultaneous=simultaneous))
    return ()


def published(
    table: ReleasedTable,
    parts: Sequence[Ratios | slice],
    estimate: Estimate,
    queries: Workload,
    schema: Schema | None,
) -> ReleasedTable:
    """The table with ratios in place of their ends, without what is too noisy.

    Args:
        table: of all answers, linear ones, with the labels of the new one.
        parts: of the queries (`ratio_parts`).
        estimate: of which the answers are made.
        queries: A.
        schema: with the rule of what is too noisy.
    """
    if parts:
        assert estimate.cells is not None
        table = with_ratios(table, parts, queries.matvec(estimate.cells))
    if schema is not None and schema.suppress is not None:
        table = table.without_noisy(schema.suppress)
    return table


def require_whole_cells(schema: Schema | None, public: Public) -> None:
    """Refuse whole cells where numbers are spread over cells, or have to add up to several tables.

    Raises:
        InvalidInputError: either.
    """
    if public.several:
        raise InvalidInputError(
            f"whole cells beside several known tables, {public.name!r}, need not add up to all of"
            " them; leave integers out"
        )
    if schema is not None and schema.denominator > 1:
        raise InvalidInputError(
            "whole cells are counts, and numbers are spread over cells; leave integers out"
        )


def for_people(noisy: Mechanism, schema: Schema) -> Mechanism:
    """The mechanism with the noise for the rows of a person in the schema.

    Raises:
        InvalidInputError: the guarantee speaks of single rows.
    """
    rows = person_rows(noisy.strategy)
    if rows == schema.participation:
        return noisy
    measured = with_participation(noisy.strategy, schema.participation)
    again = mechanism_for(
        measured, noisy.workload, guarantee=noisy.guarantee, noise=noisy.noise.value
    )
    return replace(again, own_grid=noisy.own_grid)


def require_histogram(queries: Workload, *, whole: bool, tables: bool = True) -> None:
    """Refuse what needs a histogram where that would be too large.

    Args:
        queries: A, with what is public.
        whole: whether the histogram is asked for.
        tables: whether tables are all that is measured.

    Raises:
        InvalidInputError: it is needed.
    """
    if queries.shape[1] <= MAX_PRODUCT_CELLS:
        return
    cells = count_text(queries.shape[1])
    if whole:
        raise InvalidInputError(
            "non-negative and whole numbers and quantiles are of a histogram, and that of "
            f"{cells} cells does not fit into memory; leave attributes out of the schema"
        )
    if not (_is_counted(queries) and tables):
        raise InvalidInputError(
            f"a histogram of {cells} cells does not fit into memory; ask for tables of counts or "
            "ranges, such as sex*age + region*age:prefix, or leave attributes out of the schema"
        )


def _is_counted(queries: Workload) -> bool:
    """Whether these are tables of counts, sums and ranges, which have whole answers."""
    tables = queries.as_tables()
    if tables is None:
        return False
    ranges = all(asked.ends is not None for ways in tables.ways for asked in ways)
    return ranges and bool((tables.weights == 1).all())


def require_whole_groups(schema: Schema, queries: Workload) -> None:
    """Refuse public groups of cells among which the number of a record may be spread.

    Raises:
        InvalidInputError: they are not about whole records.
    """
    numbers = [(i, a) for i, a in enumerate(schema.attributes) if isinstance(a, Number)]
    public = queries.public
    for table in public.tables if public.several else ():
        kept = [size if i in table else 1 for i, size in enumerate(schema.sizes)]
        groups = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), schema.sizes)
        for i, attribute in numbers:
            attribute.require_whole(np.moveaxis(groups, i, 0), public.name)
    if not numbers or public.groups is None:
        return
    every = np.full(math.prod(schema.sizes), -1)  # what cannot be is in no group
    every[slice(None) if schema.possible is None else schema.possible] = public.groups
    groups = every.reshape(schema.sizes)
    for i, attribute in numbers:
        attribute.require_whole(np.moveaxis(groups, i, 0), public.name)


def number_of(counts: Integers | TableCounts) -> int:
    """How many records the data hold, times D."""
    return counts.total if isinstance(counts, TableCounts) else int(counts.sum())


def require_whole_people(rows: int, noise: ExactNoise) -> None:
    """Refuse a number of rows that people with k rows each cannot have, where it is public.

    Raises:
        InvalidInputError: it is no multiple of k.
    """
    people = noise.lattice.rows
    k = 1 if people is None else people.times
    if noise.mechanism.neighbours is Neighbours.REPLACE and rows % k:
        raise InvalidInputError(
            f"under replace everybody has exactly {k} rows, and {rows} rows are no "
            f"multiple of {k}; take add-remove neighbours, for which {k} is the most"
        )


def labels_of(queries: Workload, schema: Schema | None) -> dict[str, list[str]]:
    """Labels of the attributes, or the numbers of the queries."""
    named = named_queries(queries, schema)
    if named is not None:
        return named.labels()
    return {"query": [str(number) for number in range(queries.shape[0])]}


def named_queries(queries: Workload, schema: Schema | None) -> NamedQueries | RegionQueries | None:
    """The queries by names of attributes, as which a workload was written; None if it was not."""
    if schema is not None:
        with suppress(InvalidInputError):
            named = parse_queries(queries.name, schema)
            if same_queries(named.workload, queries):
                return named
    return None


def same_queries(first: Workload, second: Workload) -> bool:
    """Whether two workloads ask the same: the same tables, or the same of three histograms."""
    one, other = first.as_tables(), second.as_tables()
    if one and other and [*map(len, one.ways)] == [*map(len, other.ways)]:
        same = (one.sizes, one.subsets) == (other.sizes, other.subsets) and one.kinds == other.kinds
        return same and all(map(same_queries, chain(*one.ways), chain(*other.ways)))
    if first.shape != second.shape or first.shape[1] > MAX_PRODUCT_CELLS:
        return False
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 2**10, first.shape[1]).astype(np.float64)
        if not np.allclose(first.matvec(x), second.matvec(x), rtol=1e-9, atol=0):
            return False
    return True
