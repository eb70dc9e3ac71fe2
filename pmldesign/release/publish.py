"""The release: from data to a table with intervals, and its manifest.

The order: the mechanism is put on its lattice, the ledger may refuse, data are read and checked,
the cost is written to the ledger, and only then noise is drawn. Signals wait from the payment until
the release is there, and in its file where that is named. What comes after the measurements
is a function of them, and of the number of records where that is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pmldesign.arguments import instance
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.files.atomic import PathName, undisturbed
from pmldesign.mechanisms import Mechanism
from pmldesign.release.costs.budget import Budget
from pmldesign.release.costs.ledger import Ledger, ledger_of, open_ledger
from pmldesign.release.costs.plan import Plan
from pmldesign.release.databases.counted import people_of
from pmldesign.release.noise.sampler import Sampler, draw
from pmldesign.release.people.people import CountedPeople
from pmldesign.release.people.schema import Schema
from pmldesign.release.prepared import Prepared, prepare
from pmldesign.release.result import Release

PAID = "note: the release is paid for, so it is finished first; a second signal would lose it\n"


def release_tables(
    mechanism: Mechanism,
    data: Any,
    *,
    schema: Schema | Mapping[str, Any] | PathName | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    nonnegative: bool = False,
    integers: bool = False,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    ledger: PathName | None = None,
    budget: Budget | str | None = None,
    plan: Plan | str | None = None,
    people: str | None = None,
    same_people: bool = False,
    own_grid: bool | None = None,
    counted: bool = False,
    sampler: Sampler = draw,
) -> Release:
    """Answer the queries of a mechanism on data, with exact noise.

    Args:
        mechanism: a strategy with noise that meets a guarantee.
        data: people (a path, a data frame, or a table of DuckDB as duckdb:///file.db#table) with a
            schema; a histogram (a path or an array) without.
        schema: attributes of people, whose cells are those of the workload; a path, or a
            dictionary, also.
        level: of the intervals, in (0, 1).
        simultaneous: whether all intervals hold together.
        nonnegative: no negative cells, all answers consistent (`post_processing`).
        integers: whole cells, likewise.
        quantiles: for names of attributes the q in (0, 1); needs a schema.
        ledger: of what releases about these people have cost: a file, or a database that several
            machines share (sqlite:///budget.db, postgresql://...); data are a path then.
        budget: with which a new ledger begins, such as "epsilon=3,delta=1e-6".
        plan: the noise of all releases of a new ledger, such as "4*laplace:0.1 + gaussian:0.5,1e-7"
            (`parse_plan`).
        people: what the people of the ledger are called.
        same_people: whether data of another content than before are about the same people.
        own_grid: whether Laplace noise is drawn on the whole numbers that are measured: less noise,
            of which epsilon alone is claimed, and no plan has it; None for as the mechanism has it.
        counted: whether the file of people has combinations of values with counts, as the query of
            `pmldesign sql` returns them.
        sampler: another one is for tests alone; the manifest then says that nothing is private.

    Raises:
        InvalidInputError: data, schema and mechanism do not fit together, or are out of range.
        InfeasibleError: the budget has no room.
        FileError: a file cannot be read.
    """
    instance("mechanism", mechanism, Mechanism, "a mechanism (pmldesign.mechanism makes one)")
    if own_grid is not None:
        instance("own_grid", own_grid, bool, "True, False or None")
        mechanism = replace(mechanism, own_grid=own_grid)
    prepared = prepare(
        mechanism,
        schema=schema,
        level=level,
        simultaneous=simultaneous,
        nonnegative=nonnegative,
        integers=integers,
        quantiles=quantiles,
        sampler=sampler,
    )
    told: dict[str, Any] = {"budget": budget, "plan": plan}
    account = ledger_of(ledger, people=people, same_people=same_people, **told)
    people_there = people_of(data, prepared.schema, counted=counted)
    return carry_out(prepared, people_there, ledger=account, sampler=sampler)


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
    files = output, measurements
    if sampler is draw:
        require_extra("noise for publication", "opendp", "release")
    if ledger is None:
        return _published(prepared, prepared.counts(data), files, sampler)
    source = data.source if isinstance(data, CountedPeople) else data
    if not isinstance(source, str | Path):
        raise InvalidInputError("a ledger is kept for a file of data; give its path")
    with open_ledger(ledger, prepared.noise, source) as account:
        account.require(prepared.noise)
        mark = account.recognise(source, same_people=ledger.same_people)
        counts = prepared.counts(data)
        with undisturbed(PAID):
            account.spend(prepared.noise, mark)
            return _published(prepared, counts, files, sampler)


def _published(
    prepared: Prepared,
    counts: Any,
    files: tuple[PathName | None, PathName | None],
    sampler: Sampler,
) -> Release:
    release, (output, measurements) = prepared.publish(counts, sampler), files
    if measurements is not None:
        assert release.measurements is not None
        release.measurements.write(measurements)
    if output is not None:
        release.write(output)
    return release
