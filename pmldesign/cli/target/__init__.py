"""pmldesign target WORKLOAD --max-std 5 [--delta 1e-6]: the least budget for accuracies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import (
    add_options,
    alpha_file_option,
    build_guarantee,
    json_option,
    load_queries,
    neighbours_option,
    schema_option,
    weights_option,
)
from pmldesign.cli.reports.privacy import check_plot, draw_privacy, plot_option
from pmldesign.cli.target.report import as_json as to_json
from pmldesign.cli.target.report import print_budget, print_rows, usual_budgets
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import note, print_json, progress
from pmldesign.designs.targets.accuracy import (
    Targets,
    as_targets,
    half_width_as_deviation,
    named_targets,
)
from pmldesign.designs.targets.least import BUDGET_GAP, least_budget
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import check_strategy_path, read_prior, write_strategy
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.workloads import Workload

ACCURACIES: list[Any] = [
    click.option("--max-std", type=float, metavar="C", help="Largest standard deviation."),
    click.option(
        "--half-width", type=float, metavar="H", help="Or half-width of intervals at --level."
    ),
    click.option(
        "--level", type=float, default=0.95, show_default=True, help="Of these intervals."
    ),
    click.option(
        "--targets",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Or one number for each query: one number a line, .csv or .npy.",
    ),
    click.option(
        "--table-std",
        metavar="NAME=C,...",
        help="Or for parts of WORKLOAD by name or number from 1, or queries by their labels; "
        "--max-std for the others.",
    ),
]
PROMISES: list[Any] = [
    click.option(
        "--currency",
        type=click.Choice(["epsilon", "rho", "mu"]),
        default="epsilon",
        show_default=True,
        help="What is to be least: of DP or PML, zCDP, Gaussian DP.",
    ),
    click.option("--delta", type=float, help="Slack or failure probability, with epsilon."),
    click.option("--alpha", type=float, help="PML: every cell has at least this probability."),
    alpha_file_option,
    click.option(
        "--failure",
        type=click.Choice(["slack", "envelope"]),
        default="envelope",
        show_default=True,
        help="PML with --delta: what delta means.",
    ),
    neighbours_option,
    click.option(
        "--noise",
        type=click.Choice(["auto", "gaussian", "laplace"]),
        default="auto",
        show_default=True,
        help="auto takes the noise that needs less.",
    ),
]


@click.command(name="target")
@click.argument("workload", type=WorkloadName())
@add_options(ACCURACIES)
@add_options(PROMISES)
@click.option(
    "--rel-gap",
    type=float,
    default=BUDGET_GAP,
    show_default=True,
    metavar="GAP",
    help="Gaussian noise: stop when enough / at_least - 1 is at most this.",
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="Stop the design after this.")
@click.option(
    "--search-time",
    type=float,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For the search of a strategy for Laplace noise.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the strategy."
)
@add_options([plot_option, weights_option, schema_option])
@json_option
def command(
    workload: str,
    max_std: float | None,
    half_width: float | None,
    level: float,
    targets: Path | None,
    table_std: str | None,
    rel_gap: float,
    time_limit: float | None,
    search_time: float,
    output: Path | None,
    plot: Path | None,
    weights: Path | None,
    schema: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Find the least budget at which every query of WORKLOAD is accurate enough.

    WORKLOAD is as for `pmldesign optimize`. The accuracy is a standard deviation or a half-width
    for all queries, or one for each query or part. Without --delta, --currency rho or mu the noise
    is Laplace noise.
    """
    if output is not None:
        check_strategy_path(output)
    check_plot(plot)
    noise = arguments.pop("noise")
    guarantee = _promise(**arguments)
    queries = load_queries(workload, schema, note, weights=weights)
    asked = _accuracy(queries, workload, max_std, half_width, targets, table_std)
    if half_width is not None:
        noise = _gaussian(guarantee, noise)
        asked = asked.times(half_width_as_deviation(1.0, level))
    with progress() as callback:
        budget = least_budget(
            queries,
            asked,
            guarantee,
            noise=noise,
            search_time=search_time,
            budget_gap=rel_gap,
            time_limit=time_limit,
            callback=callback,
        )
        if output is not None:
            write_strategy(output, budget.mechanism)
        if not as_json:
            print_budget(budget, output)
        rows = usual_budgets(budget, noise, callback)
    if as_json:
        print_json(to_json(budget, rows, output))
    else:
        click.echo()
        print_rows(budget, rows)
    draw_privacy(budget.mechanism, plot)
    if budget.mechanism.noise is Noise.GAUSSIAN and not guarantee.pml and budget.gap > rel_gap:
        raise NotConvergedError(
            f"the bounds on {budget.name} are a relative {budget.gap:.1e} apart:"
            f" {budget.design.status.value}; both hold"
        )


def _promise(*, currency: str, delta: float | None, **others: Any) -> Guarantee:
    """The guarantee whose budget is looked for; the one that it has here does not count."""
    if currency != "epsilon" and delta is not None:
        raise InvalidInputError(f"--delta is for --currency epsilon, not {currency}; leave it out")
    budgets: dict[str, Any] = {"epsilon": None, "rho": None, "mu": None, currency: 1e-6}
    unused: dict[str, Any] = {"renyi": None, "alpha_sample": None, "confidence": 0.99}
    guarantee = build_guarantee(delta=delta, **budgets, **unused, **others)
    assert guarantee is not None
    return guarantee


def _accuracy(
    queries: Workload,
    text: str,
    max_std: float | None,
    half_width: float | None,
    targets: Path | None,
    table_std: str | None,
) -> Targets:
    """What the options ask for: standard deviations, or half-widths.

    Raises:
        InvalidInputError: none, or several that do not go together.
    """
    number = max_std if half_width is None else half_width
    if max_std is not None and half_width is not None:
        raise InvalidInputError("give either --max-std or --half-width, not both")
    if targets is not None:
        if number is not None or table_std is not None:
            raise InvalidInputError("--targets has a number for each query; leave the others out")
        return as_targets(read_prior(targets, name="targets"), queries)
    if table_std is not None:
        if half_width is not None:
            raise InvalidInputError("--table-std goes with --max-std; leave --half-width out")
        return as_targets(named_targets(queries, _named(table_std, text), max_std), queries)
    if number is None:
        raise InvalidInputError(
            "say how accurate the answers are to be: --max-std 5, --half-width 10, --targets FILE"
            " or --table-std"
        )
    return as_targets(number, queries)


def _named(text: str, workload: str) -> Mapping[str, float]:
    """Numbers by name: "A=20,B=5"; a name may have commas and signs of equality itself."""
    named: dict[str, float] = {}
    rest = ""
    for part in text.split(","):
        piece = f"{rest},{part}" if rest else part
        name, equals, number = piece.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            rest = piece
            continue
        if rest == "" and equals and name.strip() and _begins_part(piece, text, workload):
            rest = piece
            continue
        named[name.strip()] = value
        rest = ""
    if rest or "" in named or not named:
        raise InvalidInputError(
            f"--table-std is written as NAME=20,NAME=5, got {text[:60]!r}; a part may be called by"
            " its number from 1"
        )
    return named


def _begins_part(piece: str, text: str, workload: str) -> bool:
    """Whether what looks like NAME=C is the beginning of a longer name of a part."""
    parts = [part.strip() for part in workload.split("+")]
    longer = [part for part in parts if part.startswith(piece.strip()) and f"{part}=" in text]
    return bool(longer) and piece.rpartition("=")[0].strip() not in parts


def _gaussian(guarantee: Guarantee, noise: Any) -> Any:
    """Gaussian noise, for which a half-width is a standard deviation.

    Raises:
        InvalidInputError: another noise, or none that the guarantee admits.
    """
    if noise == "laplace" or not guarantee.admits(Noise.GAUSSIAN):
        raise InvalidInputError(
            "--half-width is for Gaussian noise; add --delta 1e-6, or take --max-std"
        )
    return "gaussian"
