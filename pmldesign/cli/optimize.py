"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmldesign.cli.baselines import usual_rows
from pmldesign.cli.optimize_report import as_json as to_json
from pmldesign.cli.optimize_report import print_report
from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    gap_options,
    given,
    guarantee_options,
    json_option,
)
from pmldesign.cli.show import print_json, progress
from pmldesign.comparison import Row, as_row, with_ratios
from pmldesign.design import METHODS
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import check_strategy_path, load_workload, write_strategy
from pmldesign.guarantees import PML, Guarantee, PureDP
from pmldesign.mechanism import require_feasible
from pmldesign.neighbours import Neighbours
from pmldesign.optimization import Optimized, optimize
from pmldesign.workloads import KroneckerWorkload, MarginalsWorkload, Workload
from pmldesign_solvers.l1_solution import L1Status
from pmldesign_solvers.merged import MergedWorkload


@click.command(name="optimize")
@click.argument("workload")
@click.option("--p", type=float, default=2.0, show_default=True, help="Of the error; 2 to inf.")
@add_options(guarantee_options)
@add_options(gap_options)
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
    "--search-time",
    type=float,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For the searches: Laplace noise, and Gaussian noise under PML.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the search's random starts."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the strategy: .npz.",
)
@json_option
def command(
    workload: str,
    p: float,
    rel_gap: float,
    time_limit: float | None,
    device: str,
    max_steps: int,
    method: Any,
    solver: str,
    streaming: bool,
    search_time: float,
    seed: int,
    output: Path | None,
    as_json: bool,
    noise: Any,
    **guarantee_arguments: Any,
) -> None:
    """Design the optimal strategy for WORKLOAD and show it beside the usual ones.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Without
    --epsilon errors are those of noise at a scale equal to the sensitivity.
    """
    if output is not None:
        check_strategy_path(output)
    if given("solver") and method == "scaling":
        raise InvalidInputError("--solver is for --method primal or dual; leave it out")
    if given("max_steps") and method != "scaling":
        raise InvalidInputError("--max-steps is for --method scaling; take --time-limit instead")
    queries = load_workload(workload)
    guarantee = build_guarantee(**guarantee_arguments)
    relation = Neighbours(guarantee_arguments["neighbours"] or "add-remove")
    if guarantee is not None:
        relation = guarantee.neighbours
    if streaming:
        _require_streaming(queries, relation, method)
        noise = _streaming_noise(guarantee, noise)
    require_feasible(guarantee, queries.shape[1], noise=noise, p=p)
    with progress() as callback:
        found = optimize(
            queries,
            p=p,
            guarantee=guarantee,
            noise=noise,
            neighbours=relation,
            rel_gap=rel_gap,
            max_steps=max_steps,
            time_limit=time_limit,
            device=device,
            method=method,
            solver=solver,
            streaming=streaming,
            search_time=search_time,
            seed=seed,
            callback=callback,
        )
        if output is not None:  # before the table, which may take longer
            best = found.best
            write_strategy(output, found.designs[best], mechanism=found.mechanisms[best])
        usual = usual_rows(
            queries,
            p=p,
            guarantee=guarantee,
            noise=noise,
            neighbours=relation,
            announce=callback,
        )
    rows = with_ratios([*_own_rows(found), *usual])
    if as_json:
        print_json(to_json(found, rows, output))
    else:
        print_report(found, rows, output)
    found.norm_design.require_optimal()
    for searched in (found.gaussian_design, found.laplace_design):
        if searched is not None and searched.status is L1Status.INTERRUPTED:
            raise NotConvergedError(searched.status.value)


def _own_rows(found: Optimized) -> list[Row]:
    """The designs, the best one first; that of least norm may not be meant for its noise."""
    names = ["design"] * len(found.designs)
    if found.mechanisms[0].noise in [one.noise for one in found.mechanisms[1:]]:
        names[0] = "norm-optimal"
    p = found.norm_design.p
    rows = [as_row(name, p, one) for name, one in zip(names, found.mechanisms, strict=True)]
    return [rows.pop(found.best), *rows]


def _streaming_noise(guarantee: Guarantee | None, noise: Any) -> Any:
    """Gaussian noise, which does not mind the rotation to lower triangular form."""
    if noise == "laplace" or isinstance(guarantee, PureDP | PML):
        raise InvalidInputError(
            "--streaming is for Gaussian noise: a lower-triangular form has the same l2 norms, but"
            " other l1 norms; leave it out, or give --delta"
        )
    return "gaussian"


def _require_streaming(queries: Workload, relation: Neighbours, method: str) -> None:
    """Refuse before the solve what has no lower-triangular strategy."""
    if relation is Neighbours.REPLACE:
        raise InvalidInputError(
            "--streaming is for add-remove neighbours: with a public total a strategy has rank"
            " cells - 1 and no lower-triangular form; leave it out"
        )
    if isinstance(queries, MarginalsWorkload):
        raise InvalidInputError(
            "--streaming is for workloads whose cells have an order in time; marginals have none;"
            " leave it out"
        )
    factors = queries.factors if isinstance(queries, KroneckerWorkload) else (queries,)
    # the programs may return more measurements than the rank of the workload
    if method == "scaling" and any(MergedWorkload(one).rank < one.shape[1] for one in factors):
        raise InvalidInputError(
            f"--streaming needs a workload of rank {queries.shape[1]}, one for each cell, and"
            f" {queries.name!r} has less: add queries that tell all cells apart, or leave it out"
        )
