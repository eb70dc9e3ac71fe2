"""The release: from data to a table with intervals, and its manifest.

The order: the mechanism is put on its lattice, the ledger may refuse, data are read and checked,
the cost is written to the ledger, and only then noise is drawn. Signals wait from the payment until
the release is there, and in its file if one is named. All later steps are functions of the
measurements, and of the number of records if that is public. The parts of a release that do not
depend on the data are made first (`prepare`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from pmldesign.arguments import flags, instance, named_arguments, shown
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.files.atomic import PathName
from pmldesign.mechanisms import Mechanism, integer_valued
from pmldesign.mechanisms import mechanism as mechanism_for
from pmldesign.mechanisms.integers import Integers
from pmldesign.mechanisms.lattice import TableCounts
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.releases.alpha import alpha_doubts
from pmldesign.releases.costs.budget import Budget, charge_of
from pmldesign.releases.costs.ledger import Ledger, ledger_of
from pmldesign.releases.costs.plan import Plan
from pmldesign.releases.estimates import estimated, require_histogram
from pmldesign.releases.intervals import half_widths
from pmldesign.releases.manifest import manifest_of, not_private
from pmldesign.releases.measured.measurements import Measurements
from pmldesign.releases.noise import ExactNoise, exact_noise, require_agreement
from pmldesign.releases.nonlinear import Roots, roots_of
from pmldesign.releases.people.answers import CountedPeople, people_of
from pmldesign.releases.people.histogram import count_people, count_tables, read_histogram
from pmldesign.releases.people.numbers import Number
from pmldesign.releases.people.queries import Named, labels_of, named_queries, roots_asked
from pmldesign.releases.people.schema import Schema, as_schema, schema_of
from pmldesign.releases.post_processing import require_whole_cells
from pmldesign.releases.public_counts import PublicCounts, counted
from pmldesign.releases.result import Release, decimals_for
from pmldesign.releases.sampler import Sampler, draw
from pmldesign.strategies.participation.schema import rows_of
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign.workloads.display import frame_library
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class Prepared:
    """All of a release that does not depend on the data.

    Attributes:
        noise: the mechanism on its lattice.
        schema: of the people; None for a histogram.
        widths: half-widths of the intervals, shape (m,).
        manifest: the facts published with the table.
        nonnegative: whether cells may not be negative.
        integers: whether cells are to be whole.
        named: the queries by names of attributes; None if they have no names.
        parts: for each product its ratios or quantiles, or the rows of its answers; () if all
            answers are linear.
    """

    noise: ExactNoise
    schema: Schema | None
    widths: Array
    manifest: dict[str, Any]
    nonnegative: bool = False
    integers: bool = False
    named: Named | None = None
    parts: tuple[Roots | slice, ...] = ()

    @property
    def denominator(self) -> int:
        """D: counts are whole multiples of 1/D."""
        return 1 if self.schema is None else self.schema.denominator

    def counts(self, data: Any, *, key: str | None = None) -> Integers | TableCounts:
        """The histogram of the data times D, or their tables if it is too large; checked.

        Args:
            data: as `release`.
            key: of the choice of the rows of a person; None for a random one.

        Raises:
            InvalidInputError, FileError: as `release`.
        """
        cells = self.noise.mechanism.workload.shape[1]
        counts: Integers | TableCounts
        exactly = self.noise.mechanism.neighbours is Neighbours.REPLACE
        if self.schema is None:
            counts = read_histogram(data, cells)
        elif cells <= MAX_PRODUCT_CELLS:
            counts = count_people(data, self.schema, exactly=exactly, key=key)
        else:
            tables = self.noise.lattice.tables
            subsets = () if tables is None else tables.subsets
            counts = count_tables(data, self.schema, subsets, exactly=exactly, key=key)
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
        labels = labels_of(queries, self.named)
        steps = self.nonnegative, self.integers
        spread = spreads, self.widths
        table = measured.table(estimate, queries, labels, spread, steps, self.parts)
        table = replace(table, tables=tuple(self.named.tables()) if self.named else ())
        listed: tuple[dict[str, str | int], ...] = ()
        if public is not None and estimate.cells is not None:
            listed = tuple(public.rows(self.schema))
        return Release(table, content, listed, measured)

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
    sampler: Sampler = draw,
) -> Prepared:
    """Everything before the data are read; arguments and errors as `release`."""
    flags(simultaneous=simultaneous, nonnegative=nonnegative, integers=integers)
    mechanism = mechanism.unweighted or mechanism
    form = schema_of(mechanism.workload) if schema is None else as_schema(schema)
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
    whole = nonnegative or integers
    tables = noise.lattice.tables is not None
    require_histogram(mechanism.workload.whole, whole=whole, tables=tables)
    if sampler is draw:
        require_agreement(noise)
    answers = noise.of_answers
    widths = half_widths(answers, level, simultaneous=simultaneous)
    named = named_queries(mechanism.workload.whole, form)
    roots = roots_asked(named)
    parts = roots_of(answers, roots, level, simultaneous=simultaneous) if roots else []
    steps = {"nonnegative": nonnegative, "integers": integers}
    content = manifest_of(
        noise,
        schema=form,
        level=level,
        simultaneous=simultaneous,
        post_processing=[name for name, done in steps.items() if done],
    )
    if roots:  # each ratio or quantile is made of several answers
        answers_shown = sum(p.number if isinstance(p, Roots) else p.stop - p.start for p in parts)
        content |= {"queries": answers_shown, "asked": content["queries"]}
    if form is not None and form.suppress is not None:
        content["suppress"] = {"relative_error": form.suppress}
    return Prepared(noise, form, widths, content, nonnegative, integers, named, tuple(parts))


def for_people(noisy: Mechanism, schema: Schema) -> Mechanism:
    """The mechanism with the noise for the rows of a person in the schema.

    Raises:
        InvalidInputError: the guarantee is about single rows.
    """
    rows = rows_of(noisy.strategy.participation)
    if rows == schema.participation:
        return noisy
    measured = with_participation(noisy.strategy, schema.participation)
    again = mechanism_for(
        measured, noisy.workload, guarantee=noisy.guarantee, noise=noisy.noise.value
    )
    return replace(again, own_grid=noisy.own_grid)


def require_whole_groups(schema: Schema, queries: Workload) -> None:
    """Refuse public groups of cells among which the number of a record may be spread.

    Raises:
        InvalidInputError: they are not about whole records.
    """
    numbers = [(i, a) for i, a in enumerate(schema.attributes) if isinstance(a, Number)]
    if not numbers:
        return
    public, partitions = queries.public, []
    for table in public.tables if public.several else ():
        kept = [size if i in table else 1 for i, size in enumerate(schema.sizes)]
        partitions.append(np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), schema.sizes))
    if public.groups is not None:
        every = np.full(math.prod(schema.sizes), -1)  # impossible cells are in no group
        every[slice(None) if schema.possible is None else schema.possible] = public.groups
        partitions.append(every.reshape(schema.sizes))
    for groups, (i, attribute) in product(partitions, numbers):
        attribute.require_whole(np.moveaxis(groups, i, 0), public.name)


def number_of(counts: Integers | TableCounts) -> int:
    """How many records the data hold, times D."""
    return counts.total if isinstance(counts, TableCounts) else int(counts.sum())


def require_whole_people(rows: int, noise: ExactNoise) -> None:
    """Refuse a public number of rows that people with k rows each cannot have.

    Raises:
        InvalidInputError: it is not a multiple of k.
    """
    people = noise.lattice.rows
    k = 1 if people is None else people.times
    if noise.mechanism.neighbours is Neighbours.REPLACE and rows % k:
        raise InvalidInputError(
            f"under replace everybody has exactly {k} rows, and {rows} rows are no "
            f"multiple of {k}; take add-remove neighbours, for which {k} is the most"
        )


@named_arguments
def release(
    mechanism: Mechanism,
    data: Any,
    *,
    schema: Schema | Mapping[str, Any] | PathName | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    nonnegative: bool = False,
    integers: bool = False,
    ledger: Ledger | PathName | None = None,
    budget: Budget | str | None = None,
    plan: Plan | str | None = None,
    population: str | None = None,
    confirm_same_population: bool = False,
    noise: Literal["laplace", "integer-laplace"] | None = None,
    counted: bool = False,
    sampler: Sampler = draw,
) -> Release:
    """Answer the queries of a mechanism on data, with exact noise.

    Args:
        mechanism: a strategy with noise that meets a guarantee.
        data: people (a path, a data frame, or a table of DuckDB as duckdb:///file.db#table) with a
            schema; a histogram (a path or an array) without.
        schema: attributes of people, whose cells are those of the workload; a path, or a
            dictionary, also; None for the schema that the workload was made with, if any.
        level: of the intervals, in (0, 1).
        simultaneous: whether all intervals hold together.
        nonnegative: no negative cells, all answers consistent (`post_processing`).
        integers: integer cells, all answers consistent (`post_processing`).
        ledger: of what releases about these people have cost: a file, or a database that several
            machines share (postgresql://...), or a `Ledger`; data are a path then.
        budget: with which a new ledger begins, such as "epsilon=3,delta=1e-6".
        plan: the noise of all releases of a new ledger, such as "4*laplace:0.1 + gaussian:0.5,1e-7"
            (`Plan.parse`).
        population: name of the population that the ledger is about.
        confirm_same_population: whether data that differ from those of earlier releases are about
            the same population.
        noise: law of the Laplace noise: "integer-laplace" for integer-valued noise on measurements
            that are integers, with a smaller error, for which only epsilon is claimed and which no
            plan has, or "laplace" for a fine grid; None for that of the mechanism.
        counted: whether the file of people has combinations of values with counts, as the query of
            `pmldesign schema sql` returns them.
        sampler: another one is only for tests; the manifest then states that nothing is private.

    Raises:
        InvalidInputError: data, schema and mechanism do not fit together, or are out of range.
        InfeasibleError: the budget has no room.
        FileError: a file cannot be read.
    """
    instance("mechanism", mechanism, Mechanism, "a mechanism (pmldesign.mechanism makes one)")
    if noise is not None:
        if noise not in ("laplace", "integer-laplace") or mechanism.noise is not Noise.LAPLACE:
            raise InvalidInputError(
                "noise must be None, or for Laplace noise 'laplace' or 'integer-laplace', got"
                f" {shown(noise)}"
            )
        mechanism = replace(mechanism, own_grid=False)
        if noise == "integer-laplace":
            mechanism = integer_valued(mechanism)
    prepared = prepare(
        mechanism,
        schema=schema,
        level=level,
        simultaneous=simultaneous,
        nonnegative=nonnegative,
        integers=integers,
        sampler=sampler,
    )
    told: dict[str, Any] = {"budget": budget, "plan": plan}
    told |= {"population": population, "confirm_same_population": confirm_same_population}
    account = ledger_of(ledger, **told)
    people_there = people_of(data, prepared.schema, counted=counted)
    published = carry_out(prepared, people_there, ledger=account, sampler=sampler)
    return replace(published, library=frame_library(data))


def carry_out(
    prepared: Prepared,
    data: Any,
    *,
    ledger: Ledger | None = None,
    output: PathName | None = None,
    measurements: PathName | None = None,
    sampler: Sampler = draw,
) -> Release:
    """The release that is prepared, written to `output`; arguments and errors as `release`.

    What was measured is written to `measurements`, before the table.
    """
    if sampler is draw:
        require_extra("noise for publication", "opendp", "release")

    def finished(counts: Any) -> Release:
        release = prepared.publish(counts, sampler)
        if measurements is not None:
            assert release.measurements is not None
            release.measurements.save(measurements)
        if output is not None:
            release.save(output)
        noisy = prepared.noise.mechanism
        assert noisy.calibration is not None
        doubt = alpha_doubts(release, noisy.calibration.guarantee, noisy.workload.whole)
        if doubt:
            warnings.warn(doubt, stacklevel=2)
        return release

    if ledger is None:
        return finished(prepared.counts(data))
    source = data.source if isinstance(data, CountedPeople) else data
    charge = charge_of(prepared.noise, prepared.schema)
    account = ledger
    return ledger.pay(
        charge, source, lambda: prepared.counts(data, key=account.selection_key().hex()), finished
    )
