"""Pictures, with matplotlib (the plot extra), which is imported when one is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmldesign.comparison import Comparison
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import atomic_write, check_writable
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


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Draw the error of each strategy: bars at one p, lines over several.

    Args:
        comparison: what to draw.
        path: .png, .pdf or .svg; an existing file is replaced at the end.

    Raises:
        FileError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    values = list(dict.fromkeys(row.p for row in comparison.rows))
    names = list(dict.fromkeys(row.strategy for row in comparison.rows))
    if len(values) == 1:
        rows = sorted(comparison.rows, key=lambda row: row.error, reverse=True)
        bars = axes.barh([row.strategy for row in rows], [row.error for row in rows])
        axes.bar_label(bars, [f" {row.error:.4g}" for row in rows])
        axes.margins(x=0.15)
        axes.set_xlabel(f"$\\ell_{{{_text(values[0])}}}$ error")
    else:
        queries = comparison.workload.shape[0]
        for name, marker in zip(names, "osD^vP*Xh<>" * len(names), strict=False):
            errors = [row for row in comparison.rows if row.strategy == name]
            # per query, so that different p can share an axis
            heights = [
                row.error / queries ** (0 if math.isinf(row.p) else 1 / row.p) for row in errors
            ]
            axes.plot(range(len(values)), heights, marker=marker, label=name)
        axes.set_xticks(range(len(values)), [_text(value) for value in values])
        axes.set_yscale("log")
        axes.set_xlabel("p")
        axes.set_ylabel("$\\ell_p$ error per query")
        axes.legend()
    axes.set_title(comparison.workload.name)
    axes.grid(alpha=0.3)
    _save(figure, path)


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


def _text(p: float) -> str:
    return "\u221e" if math.isinf(p) else f"{p:g}"


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.suffix.lower().lstrip("."), dpi=150)
