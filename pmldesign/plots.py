"""Pictures, with matplotlib (the plot extra), which is imported when one is asked for."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pmldesign.comparison import Comparison
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import atomic_write, check_writable

FORMATS = (".png", ".pdf", ".svg")


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


def _text(p: float) -> str:
    return "\u221e" if math.isinf(p) else f"{p:g}"


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.suffix.lower().lstrip("."), dpi=150)
