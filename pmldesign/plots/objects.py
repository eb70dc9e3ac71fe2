"""A picture of whatever has one: what `plot` and the method of that name return in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pmldesign.bounds import Bound
from pmldesign.comparison.comparison import Comparison
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism
from pmldesign.plots.comparisons import comparisons_figure
from pmldesign.plots.designs import bounds_figure, deviations_figure, strategy_figure
from pmldesign.plots.page import svg_text
from pmldesign.strategies import Strategy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(shown: Any) -> Figure:
    """The picture of an object, with matplotlib (the plot extra).

    Args:
        shown: a comparison, or several (errors); a strategy or a factorization (heat maps of R and
            of its Gram matrix); a mechanism (the standard deviation of every query); the bounds of
            `error_bounds`.

    Returns:
        A figure, which notebooks show; `savefig` writes it as .pdf, .svg or .png.

    Raises:
        InvalidInputError: there is no picture of it, or nothing to draw.
    """
    figure = _figure(shown)
    if figure is None:
        raise InvalidInputError(
            f"there is no picture of {type(shown).__name__}: plot takes comparisons, strategies of"
            " up to 2048 cells, mechanisms and bounds"
        )
    vars(figure)["_repr_svg_"] = partial(svg_text, figure)  # how a notebook shows it
    return figure


def _figure(shown: Any) -> Figure | None:
    several = isinstance(shown, Sequence) and not isinstance(shown, str) and bool(shown)
    if isinstance(shown, Comparison):
        return comparisons_figure([shown])
    if isinstance(shown, Mechanism):
        return deviations_figure({shown.strategy.name: shown.standard_deviations})
    if several and all(isinstance(entry, Comparison) for entry in shown):
        return comparisons_figure(shown)
    if several and all(isinstance(entry, Bound) for entry in shown):
        return bounds_figure(shown)
    strategy = shown if isinstance(shown, Strategy) else getattr(shown, "strategy", None)
    return strategy_figure(strategy) if isinstance(strategy, Strategy) else None
