"""Pictures of privacy: delta against epsilon, envelopes of channels, losses at a smaller alpha."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.plots.pictures import BOUND, COLOURS, one_axes, styled
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.noise import Noise
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_DELTA = 1e-12
"""delta at the lower edge."""
POINTS = 400
"""Of a curve: more than a picture has pixels for each."""
ENVELOPE_STYLES: Mapping[str, tuple[str, str]] = {
    "Theorem 3": (BOUND, ":"),
    "CVaR bound": (COLOURS[1], "--"),
    "exact envelope": (COLOURS[0], "-"),
    "binary envelope": (COLOURS[2], "-."),
}
"""Colour and line of each bound on the PML envelope, from above to below."""


@styled
def privacy_figure(curves: Mapping[str, PrivacyCurve]) -> Figure:
    """The smallest delta at every epsilon, by the name of the mechanism.

    Raises:
        InvalidInputError: no noise, or nothing to protect.
    """
    if not all(0 < max(curve.ratios) < np.inf for curve in curves.values()):
        raise InvalidInputError("there is no noise whose delta could be drawn; remove the plot")
    figure, axes = one_axes(6, 4.2)
    end = max(curve.epsilon(LEAST_DELTA) for curve in curves.values())
    epsilons = np.linspace(0, end, POINTS)
    for name, curve in curves.items():
        deltas = curve.deltas(epsilons)
        shown = deltas > 0
        pair = Noise.GAUSSIAN, Noise.LAPLACE if curve.gaussian else curve.noise
        kinds = (kind.value for kind, ratio in zip(pair, curve.ratios, strict=True) if ratio)
        label = f"{name}, " * bool(name) + f"{' and '.join(kinds)} noise"
        axes.semilogy(epsilons[shown], deltas[shown], label=label)
    axes.set_ylim(LEAST_DELTA, 1)
    axes.set_xlabel(r"$\varepsilon$")
    axes.set_ylabel(r"$\delta$")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


@styled
def alpha_figure(title: str, label: str, curves: Mapping[str, Any]) -> Figure:
    """The loss of a mechanism as alpha falls from the assumed value to 0.

    Args:
        title: of the picture.
        label: of the losses.
        curves: "share" of alpha, and a loss for each of them by name.
    """
    figure, axes = one_axes(6.4, 4.4)
    for name, values in curves.items():
        if name != "share":
            axes.plot(curves["share"], values, label=name)
            axes.plot(0.0, values[-1], "o", color=axes.lines[-1].get_color(), clip_on=False)
    axes.set_xlim(1, 0)
    axes.set_xlabel("share of alpha that holds; at 0 differential privacy")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title(title)
    return figure


@styled
def envelope_figure(title: str, deltas: Array, curves: Mapping[str, Array]) -> Figure:
    """Bounds on the PML envelope of one channel; deltas and curves as for `draw_envelope`."""
    figure, axes = one_axes(6.4, 4.4)
    draw_envelope(axes, deltas, curves)
    axes.set_title(title)
    return figure


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
