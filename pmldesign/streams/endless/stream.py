"""A stream without an end, for a guarantee."""

from __future__ import annotations

from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.streams.endless.steps import EndlessSums, Exponentials
from pmldesign.streams.endless.strategy import endless
from pmldesign.streams.noise import GridNoise
from pmldesign.streams.on_line import OnLine, unit_scale
from pmldesign.streams.stream import Stream


class Endless(OnLine):
    """The strategy without an end, whose whole numbers define it."""

    name = "prefix:inf"

    def __init__(self) -> None:
        self.recurrence, self.sensitivity = Exponentials(), endless().sensitivity

    @property
    def distance(self) -> float:
        """That of the columns in whole numbers."""
        return self.sensitivity

    def response(self, scale: float, least: float, total: Any) -> EndlessSums:
        """The running sums."""
        return EndlessSums(scale, least, total)


def endless_stream(
    guarantee: Guarantee, *, noise: GridNoise | None = None, series: int = 1
) -> Stream:
    """Running sums of numbers, however many there will be; a record changes one of them.

    Args:
        guarantee: of all answers together, under add-remove neighbours.
        noise: where it comes from; None for OpenDP's exact sampler where that is installed, and
            floating-point noise, not for publication, where it is not.
        series: how many numbers a step has; a record changes one of them.

    Raises:
        InvalidInputError: a guarantee that Gaussian noise does not meet, or replace neighbours.
    """
    if guarantee.neighbours is Neighbours.REPLACE:
        raise InvalidInputError(
            f"a stream without an end has add-remove neighbours, not {guarantee!r}: no total is"
            " public that nobody knows"
        )
    return Stream(Endless(), unit_scale(guarantee), noise, series)
