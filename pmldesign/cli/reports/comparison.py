"""The table of a comparison: a column only where it says something."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pmldesign.cli.reports.privacy import currencies
from pmldesign.cli.terminal.show import number
from pmldesign.comparison.comparison import Comparison
from pmldesign.comparison.rows import PARAMETERS, Row, parameters
from pmldesign.privacy.digits import of_scale, shortest
from pmldesign.workloads.base import count_text

Column = tuple[str, Callable[[Row], str]]

OPTIONAL = ("sensitivity", "rmse", "over-class", "max std", "scale", "over-any", "unweighted")
"""Columns that a narrow terminal goes without, the least important first."""


def heading(shown: Sequence[Comparison]) -> list[tuple[str, str]]:
    """What all rows have in common."""
    first = shown[0]
    m, n = map(count_text, first.workload.shape)
    names = list(dict.fromkeys(comparison.workload.name for comparison in shown))
    lines = [("workload", f"{first.workload.name}: {m} queries on {n} cells")]
    if len(names) > 1:
        lines = [("workloads", ", ".join(names))]
    if first.guarantee is not None:
        text = first.guarantee.describe(first.workload.shape[1])
        several = len(names) < len(shown)
        lines.append(("guarantee", f"of the first row: {text}" if several else text))
        best = min(first.rows, key=lambda row: row.error)
        if best.fallback is not None:
            lines.append(("if wrong", f"{best.strategy}, {best.fallback.describe()}"))
    return lines if len(shown) > 1 else lines + _privacy(first)


def _privacy(shown: Comparison) -> list[tuple[str, str]]:
    """What the noise of all rows of one kind satisfies; under PML it differs from row to row."""
    guarantee = shown.guarantee
    if guarantee is None or guarantee.pml:
        return []
    curves = {row.noise: row.privacy for row in shown.rows}
    return [
        (kind, f"noise satisfies {currencies(curve, guarantee)}")
        for kind, curve in sorted(curves.items())
        if curve is not None and 0 < curve.ratio < math.inf
    ]


def cells_of(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table; columns that are the same in all rows are left out."""
    columns: list[Column] = [("strategy", lambda row: row.strategy)]
    if len({row.workload for row in rows}) > 1:
        columns.append(("workload", lambda row: row.workload))
    columns += [_parameter(key) for key in PARAMETERS if _varies(rows, key)]
    error = f"err_{shortest(rows[0].p)}"
    if len({row.p for row in rows}) > 1:
        columns.append(("p", lambda row: shortest(row.p)))
        error = "error"
    columns += [
        ("noise", lambda row: row.noise),
        ("sensitivity", lambda row: of_scale(row.sensitivity)),
        ("scale", lambda row: of_scale(row.scale)),
        (error, lambda row: number(row.error)),
        ("rmse", lambda row: number(row.rmse)),
        ("max std", lambda row: _number(row.max_std)),
        ("ratio", lambda row: f"{row.ratio:.4f}"),
    ]
    if any(row.unweighted_rmse is not None for row in rows):
        columns.append(("unweighted", lambda row: _number(row.unweighted_rmse)))
    if any(row.class_bound for row in rows):
        columns.append(("over-class", lambda row: _ratio(row.over_class_bound)))
    if any(row.lower_bound for row in rows):
        columns.append(("over-any", lambda row: _ratio(row.over_lower_bound)))
    return [name for name, _ in columns], [[cell(row) for _, cell in columns] for row in rows]


def _varies(rows: Sequence[Row], key: str) -> bool:
    return len({parameters(row.guarantee).get(key) for row in rows}) > 1


def _parameter(key: str) -> Column:
    def text(row: Row) -> str:
        value = parameters(row.guarantee).get(key)
        return "" if value is None else shortest(value)

    return key, text


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
