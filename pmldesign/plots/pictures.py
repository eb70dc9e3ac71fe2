"""Pictures: one look for all, colours that colour-blind people can distinguish, one letter size.

The colours are those of Okabe and Ito (2008); lines also differ in their markers or dashes. Files
are .png, .pdf or .svg, written whole or not at all.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pmldesign.errors import require_extra
from pmldesign.files import atomic_write, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


P = ParamSpec("P")
T = TypeVar("T")

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "-.", ":", "--")
BOUND = "#7F7F7F"
"""Of lower bounds, and of the region that no mechanism reaches."""
FORMATS = (".png", ".pdf", ".svg")


@contextmanager
def one_look() -> Iterator[None]:
    """Pictures that are made within have the look of all."""
    require_extra("a picture", "matplotlib", "plot")
    from cycler import cycler
    from matplotlib import rc_context

    with rc_context(
        {
            "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=LINES * 2),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 10,
            "legend.frameon": False,
            "lines.linewidth": 1.5,
            "lines.markersize": 4.5,
            "pdf.fonttype": 42,
            "svg.fonttype": "none",
        }
    ):
        yield


def styled(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose pictures have the look of all."""

    @wraps(function)
    def inside(*arguments: P.args, **options: P.kwargs) -> T:
        with one_look():
            return function(*arguments, **options)

    return inside


def one_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches, and the only axes in it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def whole_ticks(*axes: Axis) -> None:
    """Label axes that count queries, cells or rows at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def check_plot_path(path: Path, noun: str = "picture", endings: Sequence[str] = FORMATS) -> None:
    """Refuse a picture, or a report, that cannot be drawn or written; called before long work.

    Raises:
        FileError: another extension, or not writable.
        InvalidInputError: matplotlib is not installed.
    """
    check_writable(path, f"a {noun}", *endings)
    require_extra(f"a {noun}", "matplotlib", "plot")


@styled
def save(figure: Figure, path: Path) -> None:
    """Write a figure; an existing file is replaced at the end.

    Raises:
        FileError: the file cannot be written.
    """
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.suffix.lower().lstrip("."), dpi=150)


def svg_text(figure: Figure) -> str:
    """The picture as an <svg> element."""
    buffer = io.StringIO()
    with one_look():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
