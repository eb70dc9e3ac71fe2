"""What a notebook shows: a picture of whatever has one, and progress where people wait.

Pictures are returned by `plot`, and by the method of that name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pmldesign.comparison.comparison import Comparison
from pmldesign.comparison.sweeping import Sweep
from pmldesign.designs.optimized import Optimized
from pmldesign.designs.targets.least import LeastBudget
from pmldesign.envelope import EnvelopeCurve
from pmldesign.error_bounds import Bound
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism
from pmldesign.plots.comparisons import comparisons_figure, sweep_figure
from pmldesign.plots.designs import (
    bounds_figure,
    deviations_figure,
    intervals_figure,
    strategy_figure,
)
from pmldesign.plots.pictures import svg_text
from pmldesign.plots.privacy import envelope_figure, privacy_figure
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.releases.result import Release
from pmldesign.strategies import Strategy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(shown: Any) -> Figure:
    """The picture of an object, with matplotlib (the plot extra).

    Args:
        shown: a comparison, several, or a sweep (errors); a strategy or a factorization (heat maps
            of R and of its Gram matrix); a mechanism, `Optimized` or `LeastBudget` (the standard
            deviation of every query); the bounds of `bounds`; `Mechanism.privacy` (delta
            against epsilon); an envelope curve; a release (estimates and intervals).

    Returns:
        A figure, which notebooks show; `savefig` writes it as .pdf, .svg or .png.

    Raises:
        InvalidInputError: the object has no picture, or nothing to draw.
    """
    figure = _figure(shown)
    if figure is None:
        raise InvalidInputError(
            f"there is no picture of {type(shown).__name__}: plot takes comparisons, sweeps,"
            " strategies of up to 2048 cells, mechanisms, bounds, privacy and envelope curves, and"
            " releases"
        )
    vars(figure)["_repr_svg_"] = partial(svg_text, figure)  # how a notebook shows it
    return figure


def _figure(shown: Any) -> Figure | None:
    several = isinstance(shown, Sequence) and not isinstance(shown, str) and bool(shown)
    if several and all(isinstance(entry, Comparison) for entry in shown):
        return comparisons_figure(shown)
    if several and all(isinstance(entry, Bound) for entry in shown):
        return bounds_figure(shown)
    for kind, draw in PICTURES.items():
        if isinstance(shown, kind):
            return draw(shown)
    strategy = getattr(shown, "strategy", None)
    return strategy_figure(strategy) if isinstance(strategy, Strategy) else None


def _deviations(noisy: Mechanism) -> Figure:
    return deviations_figure({noisy.strategy.name: noisy.standard_deviations})


PICTURES: dict[type, Callable[[Any], Figure | None]] = {
    Comparison: lambda comparison: comparisons_figure([comparison]),
    Sweep: sweep_figure,
    Strategy: strategy_figure,
    Mechanism: _deviations,
    Optimized: lambda result: _deviations(result.best),
    LeastBudget: lambda budget: _deviations(budget.mechanism),
    PrivacyCurve: lambda curve: privacy_figure({"": curve}),
    EnvelopeCurve: lambda curve: envelope_figure("", curve.deltas, {"exact envelope": curve.upper}),
    Release: lambda release: intervals_figure(release.table),
}
"""The picture of every kind of object that has one."""


def progress() -> Callable[[Any], None]:
    """A callback that shows how far a solver, a search or a comparison is, in one line.

    For `callback` of `factorize`, `optimize` and `least_budget`, and `announce` of `compare_all`
    and `sweep`. In a notebook the line is an output of the cell; on a terminal it is on standard
    error; elsewhere nothing is shown.
    """
    handle: Any = None
    shell = _shell()

    def show(step: Any) -> None:
        nonlocal handle
        if shell is None:
            if sys.stderr.isatty():
                print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)
            return
        content = {"text/plain": str(step)}
        if handle is None:
            handle = shell.display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return show


def _shell() -> Any:
    """IPython's module for displays, if this runs in the kernel of a notebook; else None."""
    if "IPython" not in sys.modules:
        return None
    from IPython import display as displays
    from IPython import get_ipython

    return displays if hasattr(get_ipython(), "kernel") else None
