"""pmldesign release WORKLOAD DATA [--schema S] --epsilon 1 -o tables.csv."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.documents.document import note, progress, warnings_shown
from pmldesign.cli.documents.parts import announced
from pmldesign.cli.options.fields import (
    AnswerOptions,
    ReportOutputs,
    argument,
    as_command,
    ends,
    group,
    option,
)
from pmldesign.cli.options.promises import LedgerOptions, PromiseOptions
from pmldesign.cli.options.questions import (
    QuestionOptions,
    WorkloadName,
    warn_of_known,
)
from pmldesign.cli.process import complain, interrupted
from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.factorization import with_known
from pmldesign.mechanisms import Mechanism, integer_valued, mechanism, on_own_grid, require_feasible
from pmldesign.privacy.guarantees import CurrencyGuarantee, Guarantee
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName(), metavar="WORKLOAD|STRATEGY")
    data: str = argument(metavar="DATA")
    counted: bool = option(
        "Read DATA as counts, the result of the query of `pmldesign schema sql`."
    )
    strategy: Path | None = option("Strategy file of `pmldesign optimize`. Default: a new design.")
    promise: PromiseOptions = group()
    question: QuestionOptions = group(participation=None, weights=None)
    answers: AnswerOptions = group()
    paid: LedgerOptions = group()
    share: float | None = option(
        "Part of the remaining budget of the ledger to spend, in (0, 1], instead of a guarantee."
    )
    measurements: Path | None = option(
        "File for the noisy measurements, for `pmldesign ask`: .npz (publishable).",
        check=ends("a file of measurements", ".npz"),
    )
    effort: str = option(
        "Amount of work spent on the search for a design.",
        default="quick",
        type=click.Choice(["quick", "normal", "thorough"]),
    )
    output: Path = option(
        "File for the table: .csv or .parquet. FILE.manifest.json is written next to it.",
        "-o",
        "--output",
        required=True,
    )
    outputs: ReportOutputs = group(plot=None, table=None)


@as_command("release", Asked)
def command(asked: Asked) -> None:
    """Publish answers to WORKLOAD about DATA, with exact noise and intervals.

    With --schema, DATA is a file, folder or pattern of people (.csv, .parquet, .arrow) or
    duckdb:///FILE#TABLE, and WORKLOAD uses the names of attributes: sex*age + region, age:prefix.
    Without, DATA is a histogram (.npy, .csv). A STRATEGY file of `pmldesign optimize` has a
    workload and a guarantee of its own.

    Example: pmldesign release sex*age people.csv --schema s.json --epsilon 1 -o t.csv
    """
    from pmldesign.cli.documents.releases import document_of
    from pmldesign.files import read_guarantee, read_strategy
    from pmldesign.files.strategies import read_own_grid
    from pmldesign.releases.people.answers import people_of
    from pmldesign.releases.publish import carry_out, prepare
    from pmldesign.releases.result import known_path

    promise, schema = asked.promise, asked.question.schema
    for package in ["opendp"] if schema is None else ["opendp", "duckdb"]:
        require_extra("a release", package, "release")
    workload, strategy, output = asked.workload, asked.strategy, asked.output
    data = _data(asked)
    more = [] if asked.measurements is None else [asked.measurements]
    _check_paths(asked, more)
    if strategy is None:
        workload, strategy = _question(workload)
    held = None if strategy is None or asked.share is not None else read_guarantee(strategy)
    ledger, guarantee = _ledger_and_promise(asked, held)
    if guarantee is None:
        raise InvalidInputError("a release needs a guarantee; add for example --epsilon 1")
    form = asked.question.form
    measured = None if strategy is None else read_strategy(strategy)
    public = _public(asked.question, measured, promise.neighbours)
    queries, beside = with_known(asked.question.queries(workload, note), guarantee, public)
    assert beside is not None
    if form is not None:
        form.require_release(beside.neighbours)
    fractions = asked.question.fractions or _is_planned(ledger)
    choose = promise.noise == "auto" and not fractions
    there = choose and strategy is not None and read_own_grid(strategy)
    noise = promise.noise if promise.noise != "auto" else _noise(beside, ledger, strategy, there)
    told: dict[str, Any] = {
        "guarantee": beside,
        "noise": noise,
        "participation": asked.question.takes_part,
    }
    require_feasible(beside, queries.shape[1], noise=noise, p=2.0)
    if measured is None:
        asked.question.note_units(queries, note)
        chosen = _designed(queries, effort=asked.effort, fractions=fractions, **told)
    else:
        with progress() as announce:
            announce(announced(measured))
            chosen = on_own_grid(mechanism(measured, queries, **told), 2.0, there)
    if promise.noise == "integer-laplace":
        chosen = integer_valued(chosen)
    prepared = prepare(chosen, schema=form, **vars(asked.answers))
    people, files = people_of(data, form, counted=asked.counted), asked.measurements
    with warnings_shown():
        published = carry_out(prepared, people, ledger=ledger, output=output, measurements=files)
    _warn_of_delta(beside, published.manifest.get("records"))
    written = [str(output), *([known_path(output).name] if published.known else [])]
    written += [path.name for path in more]
    written += [] if asked.outputs.report is None else [asked.outputs.report.name]
    asked.outputs.deliver(document_of(published, prepared.noise, written))


def _ledger_and_promise(asked: Asked, held: Guarantee | None) -> tuple[Any, Guarantee | None]:
    """The ledger that pays, if any, and the guarantee: given, a share of the ledger, or `held`.

    Args:
        asked: the options.
        held: the guarantee of a strategy file; None without one, or for a share.
    """
    from pmldesign.releases.costs.ledger import share_of

    ledger, promise = asked.paid.account(), asked.promise
    guarantee = promise.build_beside(held)
    if asked.share is None:
        return ledger, guarantee or held
    if ledger is None or guarantee is not None:
        raise InvalidInputError(
            "--share spends a part of the remaining budget of a ledger instead of a guarantee; add"
            " --ledger, and remove --epsilon and other options of guarantees"
        )
    return ledger, share_of(ledger, asked.share, promise.noise, promise.neighbours)


def _noise(guarantee: Guarantee, ledger: Any, strategy: Path | None, own_grid: bool) -> Any:
    """The automatic noise: of a kind for which the ledger has room, else as the file has it.

    Args:
        guarantee: of the release.
        ledger: that pays, if any.
        strategy: the file of the strategy, if there is one.
        own_grid: whether that has noise on whole measurements.
    """
    from pmldesign.files.strategies import read_noise
    from pmldesign.releases.costs.ledger import noise_for

    fitting = "auto" if ledger is None else noise_for(ledger, guarantee)
    if fitting == "gaussian" or isinstance(guarantee, CurrencyGuarantee):
        return "gaussian"
    if strategy is not None and (own_grid or read_noise(strategy) == "cube"):
        return read_noise(strategy)
    return fitting


def _is_planned(ledger: Any) -> bool:
    """Whether the ledger has a plan, which contains no integer-valued noise."""
    if ledger is None:
        return False
    account = ledger.account()
    return (ledger.planned if account is None else account.plan) is not None


def _data(asked: Asked) -> Path | str:
    """The people or the histogram, or the address of a table."""
    from pmldesign.releases.people.sources import DUCKDB

    if asked.data.startswith(DUCKDB) and not asked.counted:
        return asked.data
    if "://" in asked.data:
        raise InvalidInputError(
            f"{asked.data!r} is not a table of DuckDB; write {DUCKDB}FILE#TABLE. From another"
            " database export the table as .csv (sqlite3 -header -csv), or run the query of"
            " `pmldesign schema sql` there and release its result with --counted"
        )
    if Path(asked.workload).is_file() and not Path(asked.data).exists():
        raise FileError(
            f"cannot read {asked.data!r}: there is no such file; WORKLOAD comes first, then DATA"
        )
    return Path(asked.data)


def _check_paths(asked: Asked, more: list[Path]) -> None:
    """Refuse files that cannot be written, or that are read."""
    from pmldesign.files.workloads import is_matrix_path
    from pmldesign.releases.result import check_paths

    queried = [Path(asked.workload)] if is_matrix_path(asked.workload) else []
    others = [Path(name) for name in (asked.data, asked.question.schema, asked.strategy) if name]
    check_paths(asked.output, used=[*others, *queried, *asked.paid.paths], more=more)


def _question(text: str) -> tuple[str, Path | None]:
    """The workload that a strategy file was made for, and the file; else the text itself."""
    if Path(text).suffix.lower() != ".npz":
        return text, None
    from pmldesign.files.strategies import read_question

    name = read_question(text)
    return (text, None) if name is None else (name, Path(text))


def _public(question: QuestionOptions, strategy: Strategy | None, neighbours: str | None) -> Any:
    """The answers that --known, or else the strategy file, says are public; with a warning."""
    if question.known is None and strategy is not None and strategy.public.name:
        warn_of_known(strategy.public.name)
        return strategy.public
    return question.public(neighbours)


def _designed(queries: Workload, **options: Any) -> Mechanism:
    """The best strategy with its noise."""
    from pmldesign.designs.flow import optimize

    with progress() as callback:
        best = optimize(queries, callback=callback, **options).best
    if interrupted():  # a design may end early, but not in a cancelled release
        raise KeyboardInterrupt
    return best


def _warn_of_delta(guarantee: Guarantee, records: int | None) -> None:
    """Warn on standard error if delta is large for so many records, if their number is public."""
    delta = guarantee.delta or 0.0
    if records is not None and delta * records > 1:
        complain(
            f"warning: delta {delta:g} is more than one in {records} records: to publish a record "
            "as it is would keep the promise too; take one far smaller"
        )
