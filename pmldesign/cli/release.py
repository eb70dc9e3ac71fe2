"""pmldesign release WORKLOAD DATA [--schema S] --epsilon 1 -o tables.csv."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmldesign.cli.options import common, guarantees, inputs, outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.process import interrupted
from pmldesign.cli.terminal.show import facts, note, progress
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.mechanisms import Mechanism, mechanism, require_feasible
from pmldesign.privacy.digits import of_scale
from pmldesign.privacy.guarantees import CurrencyGuarantee, Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy
from pmldesign.strategies.known import KnownStrategy, with_known
from pmldesign.workloads import Workload

if TYPE_CHECKING:
    from pmldesign.release.result import Release


@click.command(name="release")
@click.argument("workload", metavar="WORKLOAD|STRATEGY", type=WorkloadName())
@click.argument("data", type=click.Path(path_type=Path))
@common.add_options([inputs.schema_option])
@common.file_option(
    "--strategy",
    help="What is measured: a file of `pmldesign optimize`. Without it one is designed.",
)
@common.add_options([*guarantees.guarantee_options, inputs.known_option])
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Of the intervals, in (0, 1)."
)
@click.option("--simultaneous", is_flag=True, help="All intervals hold together.")
@click.option("--nonnegative", is_flag=True, help="No negative counts, all tables consistent.")
@click.option("--integers", is_flag=True, help="Whole counts, all tables consistent.")
@click.option(
    "--quantiles",
    multiple=True,
    metavar="NAME=Q,...",
    help="Of an attribute, such as age=0.25,0.5,0.75; in FILE.quantiles.csv.",
)
@common.file_option(
    "--ledger", help="Keep count of what releases from DATA cost, and refuse more than the budget."
)
@click.option(
    "--budget",
    metavar="epsilon=E[,delta=D][,pure=P]",
    help="With which a new ledger begins; pure is for Laplace noise.",
)
@click.option(
    "--plan",
    metavar="PLAN",
    help="The noise of all releases of a new ledger (`pmldesign plan`): they cost less together.",
)
@common.search_time_option(2.0, "For the searches of a design.")
@common.file_option(
    "-o",
    "--output",
    required=True,
    help="Write the table: .csv or .parquet; FILE.manifest.json beside it.",
)
@outputs.report_option
def command(
    workload: str,
    data: Path,
    schema: Path | None,
    strategy: Path | None,
    known: str | None,
    level: float,
    simultaneous: bool,
    nonnegative: bool,
    integers: bool,
    quantiles: tuple[str, ...],
    ledger: Path | None,
    budget: str | None,
    plan: str | None,
    search_time: float,
    output: Path,
    report: Path | None,
    noise: Any,
    **guarantee_arguments: Any,
) -> None:
    """Answer WORKLOAD on DATA, and publish the answers with exact noise and intervals.

    DATA are people (.csv, .parquet, .arrow) with --schema, or a histogram (.npy, .csv) without.
    With a schema WORKLOAD names attributes: sex*age + region, age:prefix. A STRATEGY file of
    `pmldesign optimize` answers the workload that it was made for, with its guarantee unless the
    options have another.
    """
    from pmldesign.files import read_guarantee, read_strategy
    from pmldesign.files.workloads import is_matrix_path
    from pmldesign.release.people.schema import read_schema
    from pmldesign.release.prepared import prepare
    from pmldesign.release.publish import carry_out
    from pmldesign.release.quantiles import parse_quantiles
    from pmldesign.release.result import beside_path, check_paths

    for package in ["opendp"] if schema is None else ["opendp", "polars"]:
        require_extra("a release", package, "release")
    queried = [Path(workload)] if is_matrix_path(workload) else []
    check_paths(output, used=[data, *filter(None, [schema, ledger, strategy]), *queried])
    guarantee = guarantees.build_guarantee(**guarantee_arguments)
    if strategy is None:
        workload, strategy = _question(workload)
    if guarantee is None and strategy is not None:
        guarantee = read_guarantee(strategy)
    if guarantee is None:
        raise InvalidInputError("a release needs a guarantee; add for example --epsilon 1")
    form = None if schema is None else read_schema(schema)
    measured = None if strategy is None else read_strategy(strategy)
    public = _public(known, measured, schema, guarantee_arguments["neighbours"])
    queries, promise = with_known(inputs.load_queries(workload, schema, note), guarantee, public)
    assert promise is not None
    guarantee = promise
    if form is not None:
        form.require_release(guarantee.neighbours)
    if noise == "auto" and isinstance(guarantee, CurrencyGuarantee):
        noise = "gaussian"
    chosen = _mechanism(queries, measured, guarantee, noise, search_time)
    prepared = prepare(
        chosen,
        schema=form,
        level=level,
        simultaneous=simultaneous,
        nonnegative=nonnegative,
        integers=integers,
        quantiles=dict(map(parse_quantiles, quantiles)),
    )
    published = carry_out(prepared, data, ledger=ledger, budget=budget, plan=plan, output=output)
    files = [beside_path(output, "known").name] if published.known else []
    files += _page(report, published, chosen, output)
    _report(chosen, prepared.noise.noise_scale, guarantee, [str(output), *files])


def _question(text: str) -> tuple[str, Path | None]:
    """The workload that a strategy file was made for, and the file; else the text itself."""
    if Path(text).suffix.lower() != ".npz":
        return text, None
    from pmldesign.files.strategies import read_question

    name = read_question(text)
    return (text, None) if name is None else (name, Path(text))


def _public(
    known: str | None, strategy: Strategy | None, schema: Path | None, neighbours: str | None
) -> Any:
    """The answers that --known, or else the strategy file, says are public; with a warning."""
    if known is None and isinstance(strategy, KnownStrategy):
        inputs.warn_of_known(strategy.known)
        return strategy.answers
    return inputs.load_known(known, schema, neighbours)


def _mechanism(
    queries: Workload,
    strategy: Strategy | None,
    guarantee: Guarantee,
    noise: Any,
    search_time: float,
) -> Mechanism:
    """The strategy of the file, or the best one, with its noise."""
    require_feasible(guarantee, queries.shape[1], noise=noise, p=2.0)
    if strategy is not None:
        return mechanism(strategy, queries, guarantee=guarantee, noise=noise)
    from pmldesign.designs.best_noise import optimize

    with progress() as callback:
        best = optimize(
            queries, guarantee=guarantee, noise=noise, search_time=search_time, callback=callback
        )
    if interrupted():  # a design may end early, but not in a release that nobody wants any more
        raise KeyboardInterrupt
    return best


def _page(path: Path | None, published: Release, chosen: Mechanism, output: Path) -> list[str]:
    """Write the page that --report asks for."""
    if path is None:
        return []
    from pmldesign.cli.documents.releases import release_page

    release_page(path, published, chosen, output)
    return [path.name]


def _report(chosen: Mechanism, scale: float, guarantee: Guarantee, written: Sequence[str]) -> None:
    from pmldesign.release.result import manifest_path

    letter = "s" if chosen.noise is Noise.GAUSSIAN else "b"
    noise = f"discrete {chosen.noise.value}, {letter} = {of_scale(scale)}"
    m, n = chosen.workload.shape
    wrong = chosen.fallback
    facts(
        [
            ("workload", f"{chosen.workload.name}: {m} queries on {n} cells"),
            ("guarantee", guarantee.describe(n)),
            *([] if wrong is None else [("if wrong", wrong.describe())]),
            ("noise", f"{noise}, on {chosen.strategy.shape[0]} measurements"),
            ("written", f"{', '.join(written)} and {manifest_path(written[0]).name}"),
        ]
    )
