"""pmldesign target WORKLOAD --max-std 5 [--delta 1e-6]: the least budget for accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options import (
    add_options,
    at_alpha_option,
    json_option,
    known_option,
    load_known,
    load_queries,
    plot_option,
    report_option,
    require_alpha_fits,
    schema_option,
    strategy_option,
    table_options,
    weights_option,
    write_tables,
)
from pmldesign.cli.pages.design import target_page
from pmldesign.cli.reports.privacy import draw_privacy
from pmldesign.cli.target.options import ACCURACIES, PROMISES, accuracy, promise
from pmldesign.cli.target.report import as_json as to_json
from pmldesign.cli.target.report import cells_of, print_budget, usual_budgets
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import note, print_json, progress, table
from pmldesign.designs.targets.least import BUDGET_GAP, least_budget
from pmldesign.errors import NotConvergedError
from pmldesign.files import write_strategy
from pmldesign.privacy.noise import Noise


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
@strategy_option
@add_options([plot_option("delta against epsilon"), report_option, *table_options])
@add_options([at_alpha_option, known_option, weights_option, schema_option])
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
    report: Path | None,
    csv_path: Path | None,
    latex: Path | None,
    weights: Path | None,
    known: str | None,
    schema: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Find the least budget at which every query of WORKLOAD is accurate enough.

    WORKLOAD is as for `pmldesign optimize`. The accuracy is a standard deviation or a half-width
    for all queries, or one for each query or part. Without --delta, --currency rho or mu the noise
    is Laplace noise.
    """
    noise = arguments.pop("noise")
    public = load_known(known, schema, arguments["neighbours"])
    guarantee = promise(**arguments)
    queries = load_queries(workload, schema, note, weights=weights)
    require_alpha_fits(queries.shape[1])
    asked = accuracy(queries, workload, max_std, half_width, targets, table_std, level)
    with progress() as callback:
        budget = least_budget(
            queries,
            asked,
            guarantee,
            noise=noise,
            search_time=search_time,
            budget_gap=rel_gap,
            time_limit=time_limit,
            known=public,
            callback=callback,
        )
        if output is not None:
            write_strategy(output, budget.mechanism)
        if not as_json:
            print_budget(budget, output)
        rows = usual_budgets(budget, noise, callback)
    document = to_json(budget, rows, output)
    header, cells = cells_of(budget, rows)
    if as_json:
        print_json(document)
    else:
        click.echo()
        table(header, cells)
    draw_privacy(budget.mechanism, plot)
    write_tables(csv_path, latex, document["strategies"], header, cells)
    if report is not None:
        target_page(report, budget, document)
    if budget.mechanism.noise is Noise.GAUSSIAN and not guarantee.pml and budget.gap > rel_gap:
        raise NotConvergedError(
            f"the bounds on {budget.name} are a relative {budget.gap:.1e} apart:"
            f" {budget.design.status.value}; both hold"
        )
