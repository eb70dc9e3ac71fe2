"""Pictures of what was published: estimates and their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmldesign.plots.style import COLOURS, one_axes, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmldesign.release.tables import Table

NAMED = 60
"""Queries with labels; beyond, their numbers."""


@styled
def intervals_figure(table: Table) -> Figure:
    """The estimate of every query, and its interval."""
    count = len(table.estimate)
    places = range(count)
    if count > NAMED:
        figure, axes = one_axes(7.2, 3.4)
        axes.fill_between(places, table.lower, table.upper, color=COLOURS[0], alpha=0.3)
        axes.plot(places, table.estimate, color=COLOURS[0])
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
        axes.invert_yaxis()
        axes.set_xlabel("estimate and interval")
    axes.grid(alpha=0.3)
    return figure
