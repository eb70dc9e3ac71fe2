"""What `pmldesign envelope` shows, bounds rounded to the side where they stay bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from pmldesign.cli.terminal.show import facts, table
from pmldesign.privacy.digits import to_places
from pmldesign_solvers.operators.operator import Array

COLUMNS = ("delta", "binary", "exact", "cvar", "theorem3")
LABELS = {
    "theorem3": "Theorem 3, from above",
    "cvar": "CVaR bound, from above",
    "exact": "exact envelope",
    "quantile": "quantile, from below",
    "binary": "binary envelope, from below",
}


def show(report: Mapping[str, Any]) -> None:
    """Print the numbers at one delta, and the curve."""
    lines = [
        ("channel", report["channel"]),
        ("values of the secret", str(report["secrets"])),
        ("outputs", str(report["outputs"])),
        ("maximal leakage", f"{report['maximal_leakage']:.6f} nats"),
        ("largest leakage of an output", f"{report['largest_leakage']:.6f} nats"),
    ]
    if "delta" in report:
        lines += [
            ("delta", f"{report['delta']:g}"),
            *((label, f"{_bound(name, report[name])} nats") for name, label in LABELS.items()),
        ]
    facts(lines)
    if "curve" not in report:
        return
    click.echo()
    table(*cells_of(report))
    click.echo()
    table(
        ("constant at", "from delta", "to delta"),
        [
            [f"{plateau[key]:.6f}" for key in ("level", "start", "end")]
            for plateau in report["curve"]["plateaus"]
        ],
    )


def records_of(report: Mapping[str, Any]) -> list[dict[str, float]]:
    """The rows of the table: a delta and its bounds."""
    if "curve" not in report:
        return [{name: report[name] for name in (*COLUMNS, "exact_lower", "quantile")}]
    columns = {name: report["curve"][name] for name in (*COLUMNS, "exact_lower")}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def cells_of(report: Mapping[str, Any]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Header and cells of the table."""
    return COLUMNS, [
        [f"{row['delta']:.4g}", *(_bound(name, row[name]) for name in COLUMNS[1:])]
        for row in records_of(report)
    ]


def curves_of(report: Mapping[str, Any]) -> dict[str, Array]:
    """The curves by the names that a picture has for them."""
    labels = {
        "theorem3": "Theorem 3",
        "cvar": "CVaR bound",
        "exact": "exact envelope",
        "binary": "binary envelope",
    }
    return {label: np.array(report["curve"][key]) for key, label in labels.items()}


def _bound(name: str, value: float) -> str:
    return to_places(value, up=name not in ("quantile", "binary"))
