"""pmldesign target WORKLOAD --max-std 5 [--delta 1e-6]: the least budget for accuracies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.documents.targets import Needed, usual_budgets
from pmldesign.cli.options import alpha, common, inputs, outputs
from pmldesign.cli.options.results import Outputs
from pmldesign.cli.target.options import ACCURACIES, PROMISES, accuracy, promise
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.process import interrupted
from pmldesign.cli.terminal.show import note, progress
from pmldesign.designs.targets.least import BUDGET_GAP, least_budget
from pmldesign.errors import NotConvergedError
from pmldesign.files import write_strategy
from pmldesign.privacy.noise import Noise


@click.command(name="target")
@click.argument("workload", type=WorkloadName())
@common.add_options(ACCURACIES)
@common.add_options(PROMISES)
@click.option(
    "--rel-gap",
    type=float,
    default=BUDGET_GAP,
    show_default=True,
    metavar="GAP",
    help="Gaussian noise: stop when enough / at_least - 1 is at most this.",
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="For everything.")
@common.search_time_option(20.0, "For the search of a strategy for Laplace noise.")
@outputs.strategy_option
@outputs.plot_option("delta against epsilon")
@common.add_options([outputs.report_option, *outputs.table_options, alpha.at_alpha_option])
@common.add_options([inputs.known_option, inputs.weights_option, inputs.schema_option])
@outputs.json_option
def command(
    workload: str,
    max_std: float | None,
    half_width: float | None,
    level: float,
    targets: Path | None,
    table_std: tuple[str, ...],
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
    public = inputs.load_known(known, schema, arguments["neighbours"])
    guarantee = promise(**arguments)
    queries = inputs.load_queries(workload, schema, note, weights=weights)
    alpha.require_alpha_fits(queries.shape[1])
    asked = accuracy(queries, workload, max_std, half_width, targets, table_std, level)
    start = time.perf_counter()
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
        found = Needed(budget, output, click.get_current_context().meta.get(alpha.AT_ALPHA))
        shown = Outputs(plot=plot, report=report, csv=csv_path, latex=latex, json=as_json)
        shown.begin(found.section)
        deadline = None if time_limit is None else start + time_limit
        rows = usual_budgets(budget, noise, callback, deadline)
    shown.deliver(found.document(rows), begun=True)
    if interrupted():
        raise NotConvergedError("interrupted: what is shown holds, but more time may improve it")
    if budget.mechanism.noise is Noise.GAUSSIAN and not guarantee.pml and budget.gap > rel_gap:
        raise NotConvergedError(
            f"the bounds on {budget.name} are a relative {budget.gap:.1e} apart:"
            f" {budget.design.status.value}; both hold"
        )
