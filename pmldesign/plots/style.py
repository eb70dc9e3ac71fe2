"""One look for all pictures: colours that colour-blind people tell apart, letters of one size.

The colours are those of Okabe and Ito (2008); lines differ in their markers or dashes besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pmldesign.errors import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "-.", ":", "--")
BOUND = "#7F7F7F"
"""Of lower bounds, and of the region that no mechanism reaches."""


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
