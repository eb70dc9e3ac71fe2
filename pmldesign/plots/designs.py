"""Pictures of bounds, strategies, errors of queries, and published tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.error_bounds import ANY_SIZE, Bound, Kind
from pmldesign.plots.pictures import BOUND, COLOURS, one_axes, styled, whole_ticks
from pmldesign.strategies import Strategy
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pmldesign.releases.result import ReleasedTable

PIXELS = 256
"""Rows and columns of a matrix that are drawn: beyond, each is the largest entry of a block."""
POINTS = 2000
"""Queries of a line: beyond, the smallest and the largest value of every stretch."""
NAMED = 60
"""Published queries with labels; beyond, their numbers."""


@styled
def bounds_figure(bounds: Sequence[Bound]) -> Figure | None:
    """Bounds on the error, one below the other; errors that no mechanism can reach are shaded.

    Returns:
        None if no bound is above 0.
    """
    shown = sorted(((bound.value, bound) for bound in bounds if bound.value), key=lambda b: b[0])
    if not shown:
        return None
    figure, axes = one_axes(7.2, 0.8 + 0.26 * len(shown))
    for place, (value, bound) in enumerate(shown):
        lower = bound.kind is Kind.LOWER
        axes.plot([value], [place], ">" if lower else "<", color=COLOURS[0 if lower else 1])
    universal = [value for value, bound in shown if bound.for_every_mechanism]
    axes.set_xscale("log")
    left = axes.get_xlim()[0]
    if universal:
        axes.axvspan(left, max(universal), color=BOUND, alpha=0.2, linewidth=0)
        axes.set_xlim(left=left)
    axes.set_yticks(range(len(shown)), [bound.name for _, bound in shown])
    shaded = f"; shaded: out of reach of\n{ANY_SIZE}" if universal else ""
    figure.supxlabel(f"error: at least (to the right) or at most{shaded}", fontsize="medium")
    axes.grid(axis="x", alpha=0.3)
    return figure


@styled
def bars_figure(
    values: Sequence[tuple[str, float]], bound: float | None, label: str, beyond: str
) -> Figure:
    """A bar for every name; the range below a bound is shaded, and `beyond` explains that."""
    figure, axes = one_axes(7.2, 0.9 + 0.3 * len(values))
    bars = axes.barh(range(len(values)), [value for _, value in values], color=COLOURS[0])
    axes.bar_label(bars, [f" {value:.5g}" for _, value in values])
    axes.set_yticks(range(len(values)), [name for name, _ in values])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    if bound:
        axes.axvspan(0, bound, color=BOUND, alpha=0.35, linewidth=0, zorder=0)
    axes.set_xlabel(label + (f"; shaded: {beyond}" if bound else ""))
    return figure


@styled
def strategy_figure(strategy: Strategy) -> Figure | None:
    """The matrix R and its Gram matrix, or those of the factors of a product.

    Returns:
        None for a strategy that is not dense: only its structure could be shown.
    """
    from matplotlib.figure import Figure

    parts = strategy.factors
    if any(max(part.shape) > WRITTEN_CELLS for part in parts) or len(parts) > 4:
        return None
    figure = Figure(figsize=(7.2, 3.3 * len(parts)), layout="constrained")
    grid = figure.subplots(len(parts), 2, squeeze=False)
    for number, (part, (left, right)) in enumerate(zip(parts, grid, strict=True), start=1):
        of = f" of attribute {number}" if len(parts) > 1 else ""
        _heat(left, part.matrix, f"strategy R{of}: {part.shape[0]} x {part.shape[1]}")
        _heat(right, part.gram, f"Gram matrix $R^\\top R${of}")
        left.set(xlabel="cell", ylabel="measurement")
        right.set(xlabel="cell", ylabel="cell")
    return figure


def _heat(axes: Axes, matrix: Array, title: str) -> None:
    rows, cells = matrix.shape
    largest = float(np.abs(matrix).max()) or 1.0
    image = axes.imshow(
        _coarse(matrix),
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
        extent=(-0.5, cells - 0.5, rows - 0.5, -0.5),
        aspect="auto",
        interpolation="nearest",
    )
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    whole_ticks(axes.xaxis, axes.yaxis)
    axes.set_title(title, fontsize="medium")


def _coarse(matrix: Array) -> Array:
    """At most PIXELS rows and columns, each the entry of largest size of a block."""
    for axis in (0, 1):
        size = matrix.shape[axis]
        if size > PIXELS:
            edges = np.linspace(0, size, PIXELS + 1).astype(int)[:-1]
            high = np.maximum.reduceat(matrix, edges, axis=axis)
            low = np.minimum.reduceat(matrix, edges, axis=axis)
            matrix = np.where(high >= -low, high, low)
    return matrix


@styled
def deviations_figure(lines: dict[str, Array]) -> Figure:
    """The standard deviation of every query, by the name of the mechanism."""
    figure, axes = one_axes(7.2, 3.4)
    for name, deviations in lines.items():
        places, heights = _thinned(deviations)
        axes.plot(places, heights, "." if len(places) < 40 else "-", label=name)
    axes.set(xlabel="query", ylabel="standard deviation")
    whole_ticks(axes.xaxis)
    highest = max(float(deviations.max()) for deviations in lines.values())
    axes.set_ylim(0, 1.1 * highest or 1.0)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def _thinned(values: Array) -> tuple[Array, Array]:
    count = len(values)
    places: Any = np.arange(count)
    if count <= POINTS:
        return places, values
    edges = np.linspace(0, count, POINTS // 2 + 1).astype(int)[:-1]
    pairs = np.stack([np.minimum.reduceat(values, edges), np.maximum.reduceat(values, edges)])
    return np.repeat(edges, 2), pairs.T.ravel()


@styled
def intervals_figure(table: ReleasedTable) -> Figure:
    """The estimate of every query, and its interval."""
    count = len(table.estimate)
    places = range(count)
    if count > NAMED:
        figure, axes = one_axes(7.2, 3.4)
        axes.fill_between(places, table.lower, table.upper, step="mid", color=COLOURS[0], alpha=0.3)
        axes.plot(places, table.estimate, color=COLOURS[0], drawstyle="steps-mid")
        axes.set(xlabel="query", ylabel="estimate and interval")
    else:
        figure, axes = one_axes(7.2, 0.9 + 0.26 * count)
        axes.hlines(places, table.lower, table.upper, color=COLOURS[0])
        axes.plot(table.estimate, places, "o", color=COLOURS[0])
        names = [
            " ".join(part for part in row if part != "*") or "total"
            for row in zip(*table.labels.values(), strict=True)
        ]
        axes.set_yticks(places, names)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_xlabel("estimate and interval")
    axes.grid(alpha=0.3)
    return figure
