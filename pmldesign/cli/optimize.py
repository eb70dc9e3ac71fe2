"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from pmldesign.bounds import Bound, Kind, bounds
from pmldesign.cli.options import (
    add_options,
    build_guarantee,
    gap_options,
    guarantee_options,
    json_option,
)
from pmldesign.cli.show import facts, number, print_json, progress, table
from pmldesign.comparison import Row, as_row, compare, with_ratios
from pmldesign.design import METHODS, Design, design
from pmldesign.errors import NotConvergedError
from pmldesign.files import check_strategy_path, load_workload, write_strategy
from pmldesign.guarantees import Guarantee
from pmldesign.laplace_design import LaplaceDesign, laplace_design
from pmldesign.mechanism import (
    Mechanism,
    NoiseChoice,
    admissible,
    mechanism,
    require_feasible,
)
from pmldesign.noise import Noise
from pmldesign_solvers.l1_solution import L1Status
from pmldesign_solvers.solution import Status

BASELINES = ("tree", "haar", "identity", "workload")


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
    help="For the search of a strategy for Laplace noise.",
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
    products, a .npy, .npz, .csv or .mtx file, or - for standard input. Without --epsilon errors are
    those of noise at a scale equal to the sensitivity.
    """
    if output is not None:
        check_strategy_path(output)
    queries = load_workload(workload)
    guarantee = build_guarantee(**guarantee_arguments)
    relation = guarantee_arguments["neighbours"] or "add-remove"
    require_feasible(guarantee, queries.shape[1], noise=noise)
    with progress() as callback:
        made = design(
            queries,
            p=p,
            neighbours=relation if guarantee is None else guarantee.neighbours,
            rel_gap=rel_gap,
            max_steps=max_steps,
            time_limit=time_limit,
            method=method,
            solver=solver,
            callback=callback,
        )
        searched = None
        wanted = guarantee is not None and Noise.LAPLACE in admissible(guarantee, noise)
        if guarantee is not None and wanted and made.status is not Status.INTERRUPTED:
            searched = laplace_design(
                queries,
                guarantee,
                p=p,
                starts=[made.strategy],
                seed=seed,
                time_limit=search_time,
                callback=callback,
            )
    if streaming:
        made = replace(made, strategy=made.strategy.streaming())
    designs: list[Design | LaplaceDesign] = [made] if searched is None else [made, searched]
    mechanisms = [
        mechanism(
            one.strategy,
            queries,
            guarantee=guarantee,
            noise=noise if searched is None or noise != "auto" else _own_noise(one, guarantee),
            p=p,
            neighbours=relation,
        )
        for one in designs
    ]
    best = min(range(len(designs)), key=lambda index: mechanisms[index].error(p))
    names = [_name(one, guarantee) for one in designs]
    baselines = compare(
        queries, BASELINES, p=p, guarantee=guarantee, noise=noise, neighbours=relation
    )
    own = [as_row(name, p, one) for name, one in zip(names, mechanisms, strict=True)]
    rows = with_ratios([own[best], *own[:best], *own[best + 1 :], *baselines.rows])
    if output is not None:
        write_strategy(output, designs[best])
    report = _Report(made, searched, guarantee, rows, output, mechanisms[best])
    if as_json:
        print_json(report.to_json())
    else:
        report.print()
    made.require_optimal()
    if searched is not None and searched.status is L1Status.INTERRUPTED:
        raise NotConvergedError(searched.status.value)


def _own_noise(one: Design | LaplaceDesign, guarantee: Guarantee | None) -> NoiseChoice:
    """The noise that a design was made for, where the guarantee admits it."""
    if isinstance(one, Design) and Noise.GAUSSIAN in admissible(guarantee, "auto"):
        return "gaussian"
    return "laplace"


def _name(one: Design | LaplaceDesign, guarantee: Guarantee | None) -> str:
    gaussian = guarantee is None or Noise.GAUSSIAN in admissible(guarantee, "auto")
    return "norm-optimal" if isinstance(one, Design) and not gaussian else "design"


@dataclass(frozen=True, slots=True)
class _Report:
    """What the command shows.

    Attributes:
        made: the strategy of least norm, with its certificate.
        searched: the strategy for Laplace noise, if that was wanted.
        guarantee: what the noise meets.
        rows: the best design first.
        output: where it was written.
        best: the best design with its noise.
    """

    made: Design
    searched: LaplaceDesign | None
    guarantee: Guarantee | None
    rows: tuple[Row, ...]
    output: Path | None
    best: Mechanism

    def lower_bound(self) -> Bound | None:
        """The largest lower bound for every mechanism of the guarantee."""
        if self.guarantee is None:
            return None
        found = bounds(
            self.made.workload,
            norm_lower=self.made.certificate.lower,
            norm_upper=self.made.certificate.upper,
            p=self.made.p,
            guarantee=self.guarantee,
        )
        holding = [
            (bound.value, bound)
            for bound in found
            if bound.kind is Kind.LOWER
            and bound.value is not None
            and bound.mechanisms.startswith("every mechanism, ")
        ]
        return max(holding, key=lambda pair: pair[0])[1] if holding else None

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        made, lower = self.made, self.lower_bound()
        return {
            "workload": made.workload.name,
            "queries": made.workload.shape[0],
            "cells": made.workload.shape[1],
            "p": made.p,
            "neighbours": made.neighbours.value,
            "norm": {
                "lower": made.certificate.lower,
                "upper": made.certificate.upper,
                "gap": made.certificate.gap,
            },
            "status": made.status.name.lower(),
            "message": made.status.value,
            "steps": made.steps,
            "eigendecompositions": made.eigendecompositions,
            "seconds": made.seconds,
            "search": None
            if self.searched is None
            else {
                "status": self.searched.status.name.lower(),
                "starts": len(self.searched.starts),
                "seconds": self.searched.seconds,
            },
            "sensitivity": self.best.sensitivity,
            "noise": {"kind": self.best.noise.value, "scale": self.best.scale},
            "guarantee": None
            if self.guarantee is None
            else self.guarantee.describe(made.workload.shape[1]),
            "lower_bound": None if lower is None else lower.value,
            "strategies": [row.to_json() for row in self.rows],
            "output": None if self.output is None else str(self.output),
        }

    def print(self) -> None:
        """Facts, then the table."""
        made = self.made
        m, n = made.workload.shape
        certificate = made.certificate
        lines = [
            ("workload", f"{made.workload.name}: {m} queries on {n} cells"),
            (
                "norm",
                f"gamma_({made.p:g}) between {certificate.lower:.9g} and {certificate.upper:.9g},"
                f" gap {certificate.gap:.1e} ({made.neighbours.value} neighbours)",
            ),
            ("status", made.status.value),
            (
                "effort",
                f"{made.steps} steps, {made.eigendecompositions} eigendecompositions,"
                f" {made.seconds:.2f} s",
            ),
        ]
        if self.searched is not None:
            lines.append(
                (
                    "search",
                    f"{len(self.searched.starts)} starts for Laplace noise,"
                    f" {self.searched.seconds:.1f} s; {self.searched.status.value}",
                )
            )
        if self.guarantee is None:
            lines.append(
                ("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)")
            )
        else:
            lines.append(("guarantee", self.guarantee.describe(n)))
            lower = self.lower_bound()
            if lower is not None and lower.value is not None and lower.value > 0:
                ratio = self.rows[0].error / lower.value
                lines.append(
                    (
                        "bound",
                        f"{lower.mechanisms}: error at least {lower.value:.6g},"
                        f" the design has {ratio:.3g} times that",
                    )
                )
        if self.output is not None:
            lines.append(("written", str(self.output)))
        facts(lines)
        click.echo()
        comparison_table(self.rows)


def comparison_table(rows: Sequence[Row]) -> None:
    """Print the rows of a comparison; the p in front if there are several."""
    several = len({row.p for row in rows}) > 1
    headers = ["strategy", "noise", "sensitivity", "scale", "error", "rmse", "max std", "ratio"]
    body = [
        [
            row.strategy,
            row.noise,
            *map(number, (row.sensitivity, row.scale, row.error, row.rmse, row.max_std)),
            f"{row.ratio:.4f}",
        ]
        for row in rows
    ]
    if several:
        headers.insert(1, "p")
        for cells, row in zip(body, rows, strict=True):
            cells.insert(1, f"{row.p:g}")
    elif rows:
        headers[headers.index("error")] = f"err_{rows[0].p:g}"
    table(headers, body)
