"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pmldesign.bounds import Bound
from pmldesign.cli.options import alpha, common, guarantees, inputs, outputs
from pmldesign.cli.pages.design import optimize_page
from pmldesign.cli.reports.baselines import usual_rows
from pmldesign.cli.reports.comparison import OPTIONAL, cells_of
from pmldesign.cli.reports.designs import as_json as to_json
from pmldesign.cli.reports.designs import print_bound, print_design
from pmldesign.cli.reports.privacy import draw_privacy
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import note, print_json, progress, table
from pmldesign.comparison.rows import Row, as_row, best_first, with_ratios
from pmldesign.comparison.tasks import DESIGN, LEAST_NORM
from pmldesign.designs.best_noise import all_designs
from pmldesign.designs.options import METHODS
from pmldesign.designs.results import Optimized
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import write_strategy
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.known import with_known
from pmldesign_solvers.norm.solution import Status


@click.command(name="optimize")
@click.argument("workload", type=WorkloadName())
@click.option("--p", type=float, default=2.0, show_default=True, help="Of the error; 2 to inf.")
@common.add_options(guarantees.guarantee_options)
@common.add_options(common.gap_options)
@click.option("--max-steps", type=int, default=1000, show_default=True, help="Stop after these.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="scaling",
    show_default=True,
    help="The certified solver, or a semidefinite program for CVXPY (small workloads).",
)
@click.option(
    "--solver",
    type=click.Choice(["SCS", "CLARABEL"], case_sensitive=False),
    default="SCS",
    show_default=True,
    help="For the semidefinite programs.",
)
@click.option(
    "--streaming",
    is_flag=True,
    help="Make the strategy lower triangular: the same error, usable on a stream.",
)
@click.option(
    "--buffers",
    type=int,
    metavar="K",
    help="Running sums: how many numbers a stream may keep; by default what the gap asks for.",
)
@common.search_time_option(20.0, "For the searches: Laplace noise, and Gaussian noise under PML.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the search's random starts."
)
@outputs.strategy_option
@outputs.plot_option("delta against epsilon")
@common.add_options([outputs.report_option, *outputs.table_options, inputs.participation_option])
@alpha.at_alpha_option
@common.add_options([inputs.known_option, inputs.weights_option, inputs.schema_option])
@outputs.json_option
def command(
    workload: str,
    plot: Path | None,
    report: Path | None,
    csv_path: Path | None,
    latex: Path | None,
    weights: Path | None,
    known: str | None,
    schema: Path | None,
    p: float,
    streaming: bool,
    search_time: float,
    seed: int,
    output: Path | None,
    as_json: bool,
    noise: Any,
    **arguments: Any,
) -> None:
    """Design a strategy for WORKLOAD and show it beside the usual ones.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Without
    --epsilon errors are those of noise at a scale equal to the sensitivity.
    """
    options = common.design_arguments(arguments)
    _require_method(options["method"])
    queries = inputs.load_queries(workload, schema, note, weights=weights)
    alpha.require_alpha_fits(queries.shape[1])
    public = inputs.load_known(known, schema, arguments["neighbours"])
    queries, guarantee = with_known(queries, guarantees.build_guarantee(**arguments), public)
    if public is not None:
        options["neighbours"] = Neighbours.REPLACE
    relation = Neighbours(options["neighbours"]) if guarantee is None else guarantee.neighbours
    if streaming:
        noise = _streaming_noise(guarantee, relation, noise)
    start = time.perf_counter()
    with progress() as callback:
        best = all_designs(
            queries,
            p=p,
            guarantee=guarantee,
            noise=noise,
            streaming=streaming,
            search_time=search_time,
            seed=seed,
            callback=callback,
            **options,
        )
        # first what was asked for, then what it is compared with, which may take longer
        if output is not None:
            _write(best, output)
        if not as_json:
            print_design(best, output)
        limit = options["time_limit"]
        deadline = None if limit is None else start + limit
        bound = _bound(best, deadline, callback)
        if not as_json:
            print_bound(best, bound)
        usual = usual_rows(
            queries,
            p=p,
            guarantee=guarantee,
            noise=noise,
            neighbours=relation,
            participation=options["participation"],
            announce=callback,
            deadline=deadline,
        )
    rows = best_first(with_ratios([*_own_rows(best), *usual]))
    document = to_json(best, bound, rows, output)
    header, cells = cells_of(rows)
    if as_json:
        print_json(document)
    else:
        click.echo()
        table(header, cells, optional=OPTIONAL)
    chosen = best.mechanisms[best.best]
    draw_privacy(chosen, plot)
    value = None if bound is None else bound.value
    records = [replace(row, lower_bound=value).to_record() for row in rows]
    outputs.write_tables(csv_path, latex, records, header, cells)
    if report is not None:
        optimize_page(report, chosen, document)
    _require_finished(best)


def _write(best: Optimized, output: Path) -> None:
    """The strategy of least norm with its certificate, any other with its noise alone."""
    noisy = best.mechanisms[best.best]
    write_strategy(output, noisy if best.best else best.norm_design, mechanism=noisy)


def _require_finished(best: Optimized) -> None:
    """Refuse to call it a success where a solver or a search stopped early."""
    best.norm_design.require_optimal()
    for searched in (best.gaussian_design, best.laplace_design):
        if searched is not None and searched.status is Status.INTERRUPTED:
            raise NotConvergedError(searched.status.value)


def _require_method(method: str) -> None:
    """Refuse options of the solvers that were not asked for."""
    if common.given("solver") and method == "scaling":
        raise InvalidInputError("--solver is for --method primal or dual; leave it out")
    if common.given("max_steps") and method != "scaling":
        raise InvalidInputError("--max-steps is for --method scaling; take --time-limit instead")


def _bound(
    best: Optimized, deadline: float | None, announce: Callable[[str], None]
) -> Bound | None:
    """The lower bound for every mechanism, unless the limit or Ctrl-C comes first."""
    if best.guarantee is None:
        return None
    if deadline is not None and time.perf_counter() >= deadline:
        note("the lower bound is left out: the time limit came first")
        return None
    announce("bounding the error of every mechanism")
    try:
        return best.lower_bound()
    except KeyboardInterrupt:
        note("the lower bound is left out: interrupted")
        return None


def _own_rows(best: Optimized) -> list[Row]:
    """The designs, the best one first; that of least norm may not be the best for its noise."""
    names = [DESIGN] * len(best.mechanisms)
    if best.mechanisms[0].noise in [other.noise for other in best.mechanisms[1:]]:
        names[0] = LEAST_NORM
    p = best.norm_design.p
    rows = [
        as_row(name, p, mechanism) for name, mechanism in zip(names, best.mechanisms, strict=True)
    ]
    return [rows.pop(best.best), *rows]


def _streaming_noise(guarantee: Guarantee | None, relation: Neighbours, noise: Any) -> Any:
    """Gaussian noise, which does not mind the rotation to lower triangular form."""
    if relation is Neighbours.REPLACE:
        return noise  # refused by `optimize`, for another reason
    if noise == "laplace" or (guarantee is not None and not guarantee.admits(Noise.GAUSSIAN)):
        raise InvalidInputError(
            "--streaming is for Gaussian noise: a lower-triangular form has the same l2 norms, but"
            " other l1 norms; leave it out, or give --delta"
        )
    return "gaussian"
