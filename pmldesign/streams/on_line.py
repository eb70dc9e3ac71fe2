"""What goes on line: C, how far apart C x is for neighbours x, and the sums that are answered.

`Stream` and what keeps it take it as it is stated here: of a strategy for n steps (`Designed`), or
without an end (`endless.stream`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Protocol

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import raised
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.schema import AnyParticipation
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.streams.recurrences import Recurrence, States, Window, recurrence_of
from pmldesign.streams.sums import Sums, question_of
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array


class Response(Protocol):
    """The answers A x^ for x^ = C^-1 y, with their standard deviations.

    Attributes:
        total: what is kept of all x^.
    """

    total: Any

    @property
    def identity(self) -> list[float]:
        """What a saved state belongs to."""

    def go_on(self, time: int, total: Any) -> None:
        """From a step on, with `total` as it was."""

    def take(self, x: Any) -> tuple[Any, float]:
        """The answer of the next step for its x^, and its standard deviation."""

    def together(self, first: int, x: Array) -> tuple[Array, Array]:
        """Those of the steps from `first` on."""


class OnLine(ABC):
    """C, lower triangular, and what it answers.

    Attributes:
        name: how messages call it.
        recurrence: its rows.
        sensitivity: l2 distance of C x for neighbours x, C as it is meant; 1 or less.
        participation: of a person; None for one step.
        single: whether it is for one series alone.
        remedy: what to do about more steps than it has.
    """

    name: str
    recurrence: Recurrence
    sensitivity: float
    participation: AnyParticipation | None = None
    single: ClassVar[bool] = False
    remedy: str = "design a longer one"

    @property
    @abstractmethod
    def distance(self) -> float:
        """At least the same for C as it is in whole numbers."""

    @property
    def reach(self) -> int:
        """How many steps a person takes part in, at most."""
        schema = self.participation
        return 1 if schema is None else schema.reach(self.recurrence.cells)

    @abstractmethod
    def response(self, scale: float, least: float, total: Any) -> Response:
        """The sums of a stream.

        Args:
            scale: standard deviation of the noise on C x.
            least: the one that sensitivity 1 asks for.
            total: the sum before the first step, 0 or zeros of shape (d,).
        """


class Designed(OnLine):
    """A strategy for n steps under add-remove neighbours.

    Args:
        strategy: C, with the participation of a person.
        workload: running sums or windows (`sums.Question`); None for those that it is made for.

    Raises:
        InvalidInputError: C is not lower triangular with a positive diagonal, or no state of fixed
            precision can hold it.
    """

    def __init__(self, strategy: Strategy, workload: Workload | None = None) -> None:
        self.strategy, self.workload, self.name = strategy, workload, strategy.name
        self.recurrence: States | Window = recurrence_of(strategy)
        self.sensitivity, self.participation = strategy.sensitivity, participation_of(strategy)

    @cached_property
    def distance(self) -> float:
        """At least the l2 distance of C x for neighbours x, C as it is in whole numbers."""
        if self.strategy.sampling is not None:
            raise InvalidInputError(
                "amplification by sampling is for noise in floating point, of training_noise and"
                " vector_stream; a stream of exact noise takes participations without it"
            )
        return self._measured() + self.reach * self.recurrence.moved()

    def _measured(self) -> float:
        """The same for C as its recurrence gives it."""
        whole = with_participation(self.strategy, None)
        factor = whole.recurrence
        if factor is None:
            return self.sensitivity
        single, longest = whole.sensitivity, math.sqrt(float(factor.column_squares().max()))
        repeated = self.sensitivity / single
        if self.participation is not None:
            repeated += 2 * self.reach * factor.column_units * 2.0**-53
        return max(single, raised(longest, factor.column_units)) * repeated

    def response(self, scale: float, least: float, total: Any) -> Sums:  # noqa: ARG002
        """The running sums or windows."""
        return Sums(question_of(self.strategy, self.workload), scale, total)


def unit_scale(guarantee: Guarantee) -> float:
    """Standard deviation of the noise that a guarantee asks for at sensitivity 1.

    Raises:
        InvalidInputError: a guarantee that Gaussian noise does not meet, on priors, or beside more
            than the number of records.
    """
    others = guarantee.pml or guarantee.public_answers
    if others or not guarantee.admits(Noise.GAUSSIAN):
        raise InvalidInputError(
            f"a stream has Gaussian noise and add-remove or replace neighbours, not {guarantee!r};"
            " take for example --epsilon 1 --delta 1e-6, of `pmldesign optimize` where FILE says"
            " otherwise"
        )
    return calibrate([[1.0, 0.0]], guarantee, noise="gaussian").scale
