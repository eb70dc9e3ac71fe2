"""Pictures of what noise satisfies: delta against epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.plots.style import one_axes, styled
from pmldesign.privacy.currencies.curves import PrivacyCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 1e-12
"""delta at the lower edge."""
POINTS = 400
"""Of a curve: more than a picture has pixels for each."""


@styled
def privacy_figure(curves: Mapping[str, PrivacyCurve]) -> Figure:
    """The smallest delta at every epsilon, by the name of the mechanism.

    Raises:
        InvalidInputError: no noise, or nothing to protect.
    """
    if not all(0 < curve.ratio < np.inf for curve in curves.values()):
        raise InvalidInputError("there is no noise whose delta could be drawn; leave --plot out")
    figure, axes = one_axes(6, 4.2)
    end = max(curve.epsilon(LEAST) for curve in curves.values())
    epsilons = np.linspace(0, end, POINTS)
    for name, curve in curves.items():
        deltas = curve.deltas(epsilons)
        shown = deltas > 0
        label = f"{name}, {curve.noise.value} noise" if name else f"{curve.noise.value} noise"
        axes.semilogy(epsilons[shown], deltas[shown], label=label)
    axes.set_ylim(LEAST, 1)
    axes.set_xlabel(r"$\varepsilon$")
    axes.set_ylabel(r"$\delta$")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
