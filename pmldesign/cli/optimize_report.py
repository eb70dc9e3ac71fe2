"""What `pmldesign optimize` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.compare_table import rows_table
from pmldesign.cli.show import facts
from pmldesign.comparison import Row
from pmldesign.optimization import Optimized
from pmldesign.workloads.base import count_text
from pmldesign_solvers.l1_solution import L1Status

_STOPPED = {
    L1Status.COMPLETED: "",
    L1Status.TIME_LIMIT: "; the time limit came first",
    L1Status.INTERRUPTED: "; interrupted",
}


def as_json(found: Optimized, rows: Sequence[Row], output: Path | None) -> dict[str, Any]:
    """The documented keys; the best design is the first row."""
    made, lower = found.norm_design, found.lower_bound()
    polished, searched = found.gaussian_design, found.laplace_design
    best = found.mechanisms[found.best]
    m, n = made.workload.shape
    return {
        "workload": made.workload.name,
        "queries": m,
        "cells": n,
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
        "descent": None
        if polished is None
        else {
            "status": polished.status.name.lower(),
            "before": polished.starts[0].before,
            "after": polished.starts[0].after,
            "seconds": polished.seconds,
        },
        "search": None
        if searched is None
        else {
            "status": searched.status.name.lower(),
            "starts": len(searched.starts),
            "seconds": searched.seconds,
        },
        "sensitivity": best.sensitivity,
        "noise": {"kind": best.noise.value, "scale": best.scale},
        "guarantee": None if found.guarantee is None else found.guarantee.describe(n),
        "lower_bound": None if lower is None else lower.value,
        "strategies": [row.to_json() for row in rows],
        "output": None if output is None else str(output),
    }


def print_report(found: Optimized, rows: Sequence[Row], output: Path | None) -> None:
    """Facts, then the table."""
    made, polished, searched = found.norm_design, found.gaussian_design, found.laplace_design
    m, n = made.workload.shape
    certificate = made.certificate
    lines = [
        ("workload", f"{made.workload.name}: {count_text(m)} queries on {count_text(n)} cells"),
        (
            "norm",
            f"gamma_({made.p:g}) between {certificate.lower:.9g} and {certificate.upper:.9g},"
            f" gap {certificate.gap:.1e} ({made.neighbours.value} neighbours)",
        ),
        ("status", made.status.value),
        (
            "effort",
            f"{_counted(made.steps, 'step')},"
            f" {_counted(made.eigendecompositions, 'eigendecomposition')},"
            f" {made.seconds:.2f} s",
        ),
    ]
    if polished is not None:
        start = polished.starts[0]
        lines.append(
            (
                "descent",
                f"from {start.before:.6g} to {start.after:.6g} for Gaussian noise,"
                f" {polished.seconds:.1f} s{_STOPPED[polished.status]}",
            )
        )
    if searched is not None:
        lines.append(
            (
                "search",
                f"{_counted(len(searched.starts), 'start')} for Laplace noise,"
                f" {searched.seconds:.1f} s;"
                f" {searched.status.value}",
            )
        )
    if found.guarantee is None:
        lines.append(("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)"))
    else:
        lines.append(("guarantee", found.guarantee.describe(n)))
        lower = found.lower_bound()
        if lower is not None and lower.value:
            lines.append(
                (
                    "bound",
                    f"{lower.mechanisms}: error at least {lower.value:.6g},"
                    f" the design has {rows[0].error / lower.value:.3g} times that",
                )
            )
    if output is not None:
        lines.append(("written", str(output)))
    facts(lines)
    click.echo()
    rows_table(rows)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
