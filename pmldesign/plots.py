"""Figures, drawn with matplotlib, which is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pmldesign_solvers.operators import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENVELOPE_STYLES: Mapping[str, tuple[str, str]] = {
    "Theorem 3": ("tab:gray", ":"),
    "CVaR bound": ("tab:orange", "--"),
    "exact envelope": ("tab:blue", "-"),
    "binary envelope": ("tab:green", "-."),
}
"""Colour and line of each bound on the envelope, from above to below."""


def draw_envelope(axes: Axes, deltas: Array, curves: Mapping[str, Array]) -> None:
    """Draw bounds on the PML envelope over delta.

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


def envelope_figure(title: str, deltas: Array, curves: Mapping[str, Array]) -> Figure:
    """A figure of `draw_envelope` with a title; save it with `figure.savefig`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    draw_envelope(axes, deltas, curves)
    axes.set_title(title)
    return figure
