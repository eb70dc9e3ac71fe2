"""The PML envelope as a function of delta.

The curve eps_c(delta) is continuous and does not increase. It is constant exactly on plateaus, one
at most for each symbol x: with M_x = max_y r_xy and G from `programs`, the envelope is log M_x for
every delta in [G just above M_x, G(M_x)]. The ends of the plateaus are its breakpoints; between
two plateaus it decreases strictly, and its pieces are logarithms of rational functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.envelope.channel import Channel, check_delta
from pmldesign.envelope.exact import GAP, exact_envelope
from pmldesign.envelope.programs import dual_bound, solve_failure_program
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators import Array


@dataclass(frozen=True, slots=True)
class Plateau:
    """The envelope equals `level` (nats) for every delta in [start, end]."""

    level: float
    start: float
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class EnvelopeCurve:
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
        NotConvergedError: HiGHS gives up on a linear program.
    """
    points = np.unique(np.asarray(deltas, dtype=np.float64))
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

    Raises:
        NotConvergedError: HiGHS gives up on a linear program.
    """
    reduced = channel.reduced()
    ratios, masses = reduced.ratios, reduced.output_distribution
    levels = ratios.max(axis=1)
    plateaus: list[Plateau] = []
    for level in _distinct(levels):
        above = level * (1 + GAP)
        useful = np.flatnonzero(levels > above)
        _, dual = solve_failure_program(ratios, masses, above, useful)
        start = dual_bound(ratios, masses, dual, above)
        if start > 1 - GAP:
            break
        at_least = np.flatnonzero(levels >= level)
        assignment, _ = solve_failure_program(ratios, masses, level, at_least)
        end = min(float(assignment.sum()), 1.0)
        if end > start + GAP:
            plateaus.append(Plateau(float(np.log(level)), start, end))
    return tuple(plateaus)


def _distinct(levels: Array) -> list[float]:
    """Levels in decreasing order, one (the smallest) for each group that rounding split."""
    ordered = np.sort(levels)[::-1]
    last_of_group = np.append(ordered[1:] * (1 + GAP) < ordered[:-1], True)
    return [float(level) for level in ordered[last_of_group]]
