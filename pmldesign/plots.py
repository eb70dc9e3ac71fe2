"""Pictures, with matplotlib (the plot extra), which is imported when one is asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmldesign.comparison import Comparison, Row
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import atomic_write, check_writable
from pmldesign.rows import parameters
from pmldesign_solvers.operators import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".pdf", ".svg")
ENVELOPE_STYLES: Mapping[str, tuple[str, str]] = {
    "Theorem 3": ("tab:gray", ":"),
    "CVaR bound": ("tab:orange", "--"),
    "exact envelope": ("tab:blue", "-"),
    "binary envelope": ("tab:green", "-."),
}
"""Colour and line of each bound on the PML envelope, from above to below."""


AXES = ("cells", "epsilon", "alpha", "delta", "p")
LABELS = {
    "cells": "cells n",
    "epsilon": r"$\varepsilon$",
    "alpha": r"$\alpha$",
    "delta": r"$\delta$",
    "p": "p",
}
MARKERS = "osD^vP*Xh<>"
MAX_PANELS = 12


def check_plot_path(path: Path) -> None:
    """Refuse a picture that cannot be drawn or written; called before long work.

    Raises:
        FileError: another extension, or not writable.
        InvalidInputError: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"cannot write {str(path)!r}: a picture ends in {', '.join(FORMATS)}")
    check_writable(path)
    if find_spec("matplotlib") is None:
        raise InvalidInputError(
            "pictures need matplotlib; install it with: pip install 'pmldesign[plot]'"
        )


def plot_comparisons(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw the error of each strategy: bars, or lines over what varies.

    Lines are over the cells of a family of workloads, else over epsilon, alpha, delta or p, the
    first of these that varies, and show the error per query, err_p / m^(1/p). What varies besides
    has a panel for each value. The dashed line is the lower bound for every mechanism.

    Args:
        comparisons: what to draw; at least one row.
        path: .png, .pdf or .svg; an existing file is replaced at the end.

    Raises:
        InvalidInputError: there would be more than MAX_PANELS panels.
        FileError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    points = _points(comparisons)
    varying = [key for key in points[0].where if len({point.where[key] for point in points}) > 1]
    axis = next((key for key in AXES if key in varying), None)
    panels: dict[tuple[Any, ...], list[_Point]] = {}
    for point in points:
        key = tuple(point.where[key] for key in varying if key != axis)
        panels.setdefault(key, []).append(point)
    if len(panels) > MAX_PANELS:
        raise InvalidInputError(
            f"the picture would have {len(panels)} panels, at most {MAX_PANELS} can be drawn; "
            "compare fewer workloads, p or parameters at a time, or write them with --csv"
        )
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns + 2.4, 4.2 * height), layout="constrained")
    grid = figure.subplots(height, columns, squeeze=False).flat
    for group, axes in zip(panels.values(), grid, strict=False):
        (_bars if axis is None else _lines)(axes, axis or "", group)
        others = [name for name in varying if name not in (axis, "workload")]
        values = [group[0].where[name] for name in others]
        parts = [f"{LABELS[n]} = {_text(v)}" for n, v in zip(others, values, strict=True)]
        axes.set_title(", ".join([group[0].where["workload"], *parts]))
        axes.grid(alpha=0.3)
    for axes in [*grid]:  # panels that were not needed
        axes.set_axis_off()
    if axis is not None:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper")
    _save(figure, path)


@dataclass(frozen=True, slots=True)
class _Point:
    """A row, where it lies, and the error of one query at it."""

    where: dict[str, Any]
    row: Row
    queries: int

    def per_query(self, error: float) -> float:
        p = self.row.p
        size = 1.0 if math.isinf(p) else math.pow(self.queries, 1 / p)
        return error / size


def _points(comparisons: Sequence[Comparison]) -> list[_Point]:
    """Every row with its coordinates; the members of a family share one name."""
    sizes = {one.workload.name: one.workload.shape[1] for one in comparisons}
    patterns = {re.sub(r"\d+", "#", name) for name in sizes}
    family = len(sizes) > 1 and len(patterns) == 1 and len(set(sizes.values())) == len(sizes)
    points = []
    for one in comparisons:
        m, n = one.workload.shape
        name = one.workload.name
        place = {"workload": _family_name([*sizes]), "cells": n} if family else {"workload": name}
        for row in one.rows:
            where = {**place, **parameters(one.guarantee), "p": row.p}
            points.append(_Point(where, row, m))
    return points


def _family_name(names: Sequence[str]) -> str:
    """The first name, with the numbers that others have differently written as n."""
    split = [re.split(r"(\d+)", name) for name in names]
    return "".join(parts[0] if len(set(parts)) == 1 else "n" for parts in zip(*split, strict=True))


def _bars(axes: Axes, axis: str, points: Sequence[_Point]) -> None:  # noqa: ARG001 - as _lines
    rows = sorted((point.row for point in points), key=lambda row: row.error, reverse=True)
    bars = axes.barh([row.strategy for row in rows], [row.error for row in rows])
    axes.bar_label(bars, [f" {row.error:.4g}" for row in rows])
    axes.margins(x=0.18)
    axes.set_xlabel(f"$\\ell_{{{_text(rows[0].p)}}}$ error")


def _lines(axes: Axes, axis: str, points: Sequence[_Point]) -> None:
    from matplotlib.ticker import LogFormatter

    values = sorted({point.where[axis] for point in points})
    # p is drawn at even steps, as infinity may be among its values
    place = {value: float(i) if axis == "p" else value for i, value in enumerate(values)}
    names = list(dict.fromkeys(point.row.strategy for point in points))
    for name, marker in zip(names, MARKERS * len(names), strict=False):
        own = sorted((q for q in points if q.row.strategy == name), key=lambda q: q.where[axis])
        heights = [point.per_query(point.row.error) for point in own]
        axes.plot([place[q.where[axis]] for q in own], heights, marker=marker, label=name)
    bounds = {q.where[axis]: q.per_query(q.row.lower_bound) for q in points if q.row.lower_bound}
    if bounds:
        xs = sorted(bounds)
        heights = [bounds[x] for x in xs]
        axes.plot([place[x] for x in xs], heights, "--", color="0.4", label="lower bound")
    if axis != "p":
        axes.set_xscale("log")
    if len(values) <= 12:
        axes.set_xticks([place[value] for value in values], [_text(value) for value in values])
        axes.set_xticks([], minor=True)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.4)))
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel("$\\ell_p$ error per query")


def plot_envelope(title: str, deltas: Array, curves: Mapping[str, Array], path: Path) -> None:
    """Draw bounds on the PML envelope of one channel.

    Args:
        title: of the picture.
        deltas: as for draw_envelope.
        curves: as for draw_envelope.
        path: .png, .pdf or .svg; an existing file is replaced at the end.

    Raises:
        FileError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    draw_envelope(axes, deltas, curves)
    axes.set_title(title)
    _save(figure, path)


def draw_envelope(axes: Axes, deltas: Array, curves: Mapping[str, Array]) -> None:
    """Draw bounds on the PML envelope over delta into axes.

    Args:
        axes: where to draw.
        deltas: shape (d,), increasing.
        curves: for some keys of ENVELOPE_STYLES, shape (d,), in nats.
    """
    for name, (color, line) in ENVELOPE_STYLES.items():
        if name in curves:
            width = 2.0 if name == "exact envelope" else 1.4
            axes.plot(deltas, curves[name], line, color=color, linewidth=width, label=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(r"failure probability $\delta$")
    axes.set_ylabel("leakage (nats)")
    axes.grid(alpha=0.3)
    axes.legend()


def _text(value: float | None) -> str:
    if value is None:
        return "none"
    return "\u221e" if math.isinf(value) else f"{value:g}"


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.suffix.lower().lstrip("."), dpi=150)
