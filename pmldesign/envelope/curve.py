"""The PML envelope as a function of delta.

The curve eps_c(delta) is continuous and does not increase. It is constant exactly on plateaus, one
at most for each symbol x: with M_x = max_y r_xy and G from `programs`, the envelope is log M_x for
every delta in [G just above M_x, G(M_x)]. The ends of the plateaus are its breakpoints; between
two plateaus it decreases strictly, and its pieces are logarithms of rational functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, real_numbers
from pmldesign.envelope.channel import SMALLEST_DELTA, Channel, check_delta, require_channel
from pmldesign.envelope.exact import GAP, exact_envelope
from pmldesign.envelope.programs import largest_mass
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import at_least, at_most
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame
from pmldesign_solvers.operators.operator import Array

_SHORTEST = 1e-9
"""Plateaus are longer than this, relative to their start: ten times what HiGHS tolerates."""

_SHORT = 1e-4
"""Up to this length a plateau must show in the envelope at its middle: HiGHS was off by 3e-8."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """The envelope equals `level` (nats) for every delta in [start, end]."""

    level: float
    start: float
    end: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EnvelopeCurve(Drawn, Displayed):
    """The PML envelope at many deltas.

    Attributes:
        deltas: shape (d,), increasing.
        lower: shape (d,), certified lower ends, in nats.
        upper: shape (d,), certified upper ends, in nats.
        plateaus: the intervals of delta where the envelope is constant, from small delta to large.
    """

    deltas: Array
    lower: Array
    upper: Array
    plateaus: tuple[Plateau, ...]

    def to_frame(self) -> Any:
        """A data frame of the bounds: of pandas if it is installed, else of polars.

        Raises:
            InvalidInputError: neither is installed.
        """
        rows = zip(self.deltas.tolist(), self.lower.tolist(), self.upper.tolist(), strict=True)
        return data_frame({"delta": d, "lower": low, "upper": up} for d, low, up in rows)

    def _display(self) -> tuple[str, Facts]:
        title = (
            f"Envelope at {len(self.deltas)} deltas from {self.deltas[0]:g} to {self.deltas[-1]:g}"
        )
        leakage = f"{at_most(float(self.lower[-1]))} to {at_least(float(self.upper[0]))}"
        return title, [("leakage", f"{leakage} nats"), ("plateaus", str(len(self.plateaus)))]

    @property
    def breakpoints(self) -> Array:
        """The ends of the plateaus inside (0, 1), increasing."""
        ends = np.unique([end for p in self.plateaus for end in (p.start, p.end)])
        return ends[(ends > 0) & (ends < 1)]


def envelope_curve(channel: Channel, deltas: ArrayLike) -> EnvelopeCurve:
    """The exact envelope at the given deltas, and its plateaus.

    Args:
        channel: the mechanism and the prior.
        deltas: probabilities in (0, 1), at least one; sorted and without repetition in the result.

    Raises:
        InvalidInputError: no deltas, or one outside (0, 1).
    """
    require_channel(channel)
    points = np.unique(doubles(real_numbers("deltas", deltas)))
    if points.size == 0:
        raise InvalidInputError("deltas must hold at least one probability in (0, 1)")
    for point in points:
        check_delta(point)
    values = [exact_envelope(channel, float(point)) for point in points]
    return EnvelopeCurve(
        deltas=points,
        lower=np.array([value.lower for value in values]),
        upper=np.array([value.upper for value in values]),
        plateaus=envelope_plateaus(channel),
    )


def envelope_plateaus(channel: Channel) -> tuple[Plateau, ...]:
    """All intervals of delta where the envelope is constant, from small delta to large.

    A plateau whose ends HiGHS cannot separate is left out.
    """
    require_channel(channel)
    reduced = channel.reduced()
    ratios, masses = reduced.ratios, reduced.output_distribution
    levels = ratios.max(axis=1)
    plateaus: list[Plateau] = []
    for level in _distinct(levels):
        above = level * (1 + GAP)
        _, start = largest_mass(ratios, masses, above, np.flatnonzero(levels > above))
        if start > 1 - GAP:
            break
        at_least = np.flatnonzero(levels >= level)
        end, _ = largest_mass(ratios, masses, level, at_least)
        if end > start * (1 + _SHORTEST):
            plateaus.append(Plateau(float(np.log(level)), start, end))
    return tuple(p for p in plateaus if p.end > p.start * (1 + _SHORT) or _shows(reduced, p))


def _shows(channel: Channel, plateau: Plateau) -> bool:
    """Whether the envelope at the middle of a plateau is its level."""
    delta = 0.5 * (plateau.start + plateau.end)
    if delta < SMALLEST_DELTA:
        return False
    middle = exact_envelope(channel, delta)
    return middle.lower - GAP <= plateau.level <= middle.upper + GAP


def _distinct(levels: Array) -> list[float]:
    """Levels in decreasing order, one (the smallest) for each group that rounding split."""
    ordered = np.sort(levels)[::-1]
    last_of_group = np.append(ordered[1:] * (1 + GAP) < ordered[:-1], True)
    return [float(level) for level in ordered[last_of_group]]
