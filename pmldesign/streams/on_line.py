"""Online strategies: C, the distance of C x between neighbours x, and the answered sums.

`Stream` and its wrappers use the interface `OnLine`: for a strategy of n steps (`Designed`), given
a public total (`BesideTotal`), or for an unbounded stream (`endless_steps`).

Running sums whose total is public have replace neighbours: a record moves from step i to step j, or
to the last one, with the same number of at most 1. C x changes by C (e_i - e_j), and the last sum
not at all. So n - 1 steps are answered, by the triangular C' whose columns are as far apart as
those of C, and each as far from 0 as from the last one of C: of a strategy with buffers by its
recurrence (`intervals.on_line` in the solvers), of a matrix by a QR factorization. Its errors are
those of C given the total. Inputs are rounded down to multiples of 2^-40, after which both changes
may differ by that.

Of several series, `prefix:24*histogram:12` is 24 steps of 12 sums, the workload is A x 1_d, and so
is the best strategy R x 1_d: each series is measured by R. One record changes one in a step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours, sensitivity_above
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import raised, root_above
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.beside import uncentred
from pmldesign.strategies.online import factor_of, streaming_form, sums_of
from pmldesign.strategies.participation.schema import AnyParticipation, participation_refusal
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.streams.recurrences import (
    Recurrence,
    States,
    Window,
    lower_triangular,
    recurrence_of,
)
from pmldesign.streams.rows import INPUT_BITS
from pmldesign.streams.sums import Sums, question_of
from pmldesign.workloads.base import Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.running import RunningWorkload
from pmldesign_solvers.intervals.beside import open_factor
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array


class Response(Protocol):
    """The answers A x^ for x^ = C^-1 y, with their standard deviations.

    Attributes:
        total: the state kept of all x^.
    """

    total: Any

    @property
    def identity(self) -> list[float]:
        """The identity of a stream, which its saved states share."""

    def go_on(self, time: int, total: Any) -> None:
        """Continue from a step on, with `total` as it was."""

    def take(self, x: Any) -> tuple[Any, float]:
        """The answer of the next step for its x^, and its standard deviation."""

    def together(self, first: int, x: Array) -> tuple[Array, Array]:
        """Answers and deviations of the steps from `first` on."""


class OnLine(ABC):
    """C, lower triangular, and its answers.

    Attributes:
        name: its name in messages.
        recurrence: its rows.
        sensitivity: l2 distance of C x for neighbours x, C as it is meant; 1 or less.
        participation: of a person; None for one step.
        single: whether it is for one series only.
        remedy: advice for more steps than it has.
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
        """At least the same for C as it is in integers."""

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
            least: the one required at sensitivity 1.
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
        self.sensitivity, self.participation = strategy.sensitivity, strategy.participation

    @cached_property
    def distance(self) -> float:
        """At least the l2 distance of C x for neighbours x, C as it is in integers."""
        if self.strategy.sampling is not None:
            raise InvalidInputError(
                "amplification by sampling is for noise in floating point, of training_noise and"
                " vector_stream; a stream of exact noise takes participations without it"
            )
        return self._measured() + self.reach * self.recurrence.moved()

    def _measured(self) -> float:
        """The same for C as its recurrence gives it."""
        whole = without_participation(self.strategy)
        factor = factor_of(whole)
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
    """Standard deviation of the noise that a guarantee requires at sensitivity 1.

    Raises:
        InvalidInputError: a guarantee that Gaussian noise does not meet, one on priors, or one
            given more invariants than the number of records.
    """
    others = guarantee.pml or guarantee.public_answers
    if others or not guarantee.admits(Noise.GAUSSIAN):
        raise InvalidInputError(
            f"a stream has Gaussian noise and add-remove or replace neighbours, not {guarantee!r};"
            " use for example `epsilon=1` and `delta=1e-6`, and a strategy designed for them"
        )
    return calibrate([[1.0, 0.0]], guarantee, noise="gaussian").scale


class BesideTotal(OnLine):
    """A strategy for n steps whose total is public, for the first n - 1 of them.

    Args:
        strategy: C, or any R that determines the steps given their total.
        workload: running sums or windows (`sums.Question`).

    Raises:
        InvalidInputError: running sums whose last one is not the total, or a
            strategy that does not determine them.
    """

    single: ClassVar[bool] = True

    def __init__(self, strategy: Strategy, workload: Workload) -> None:
        self.sensitivity = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
        self.name, self._strategy = strategy.name, strategy
        asked = question_of(strategy, given_invariants(workload, RECORDS))
        if not asked.sums.tells_total:
            raise InvalidInputError(
                f"workload {workload.name!r}: under replace a stream answers running sums in"
                " which nothing fades and no step has a weight, such as prefix:24, whose last one"
                " is public; take add-remove neighbours"
            )
        self._asked = asked.open()
        self.remedy = f"the sum of all {strategy.cells} is public"
        factor = factor_of(strategy)
        if factor is None:
            matrix = strategy.matrix[:, :-1] - strategy.matrix[:, -1:]
            triangle = streaming_form(Strategy(strategy.name, matrix))
            self.recurrence: States | Window = Window(triangle)
            self._farthest = _farthest(triangle.matrix, 0.0)
        else:
            opened, turned = open_factor(factor)
            self.recurrence = States(strategy.name, opened)
            if strategy.cells <= WRITTEN_CELLS:
                units = strategy.entry_units + 1.0
                self._farthest = _farthest(opened.multiply(np.eye(strategy.cells - 1)), units)
            else:  # columns of C >= 0 are at most 2^(1/2) times the longest one apart
                longest = math.sqrt(float(factor.column_squares().max()))
                apart = raised(root_above(2.0) * longest, factor.column_units + 1)
                self._farthest = max(self.sensitivity, apart) + 2.0 * turned

    @property
    def distance(self) -> float:
        """At least the l2 distance of C' x for neighbours x, C' as it is in integers."""
        return (self._farthest + 2.0 * self.recurrence.moved()) * (1.0 + 2.0**-INPUT_BITS)

    def response(self, scale: float, least: float, total: float) -> Sums:  # noqa: ARG002
        """The running sums or windows of the first steps."""
        return Sums(self._asked, scale, total)


def _farthest(columns: Array, units: float) -> float:
    """The largest distance of columns and a zero one, with entries off by so many units."""
    padded = np.pad(columns, [(0, 0), (0, 1)])
    return sensitivity_above(padded, Neighbours.REPLACE, "l2", entry_units=units)


def on_line_of(
    strategy: Strategy, workload: Workload | None, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> OnLine:
    """The online form of a strategy, scaled to sensitivity 1.

    Args:
        strategy: R, with the participation of a person.
        workload: running sums or windows; None for those that the strategy is made for.
        neighbours: how neighbours differ.

    Raises:
        InvalidInputError: as `Designed` and `BesideTotal`, or several participations under replace.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        return Designed(lower_triangular(strategy), workload)
    if strategy.participation is not None:
        raise participation_refusal()
    if workload is None:
        sums, _ = sums_of(strategy) or (None, None)
        assert sums is not None
        weights = (np.sqrt(squares) for squares in (sums.query_squares, sums.step_squares))
        workload = RunningWorkload(sums.rates, *weights)
    apart = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    return BesideTotal(uncentred(strategy).scaled(1.0 / apart), workload)


def series_of(workload: Workload) -> tuple[Workload, int]:
    """The queries on each series and the number of series: A and d."""
    if len(workload.factors) == 2:
        steps, values = workload.factors
        cells = np.arange(values.shape[1])
        ends = values.ends
        if ends is not None and np.array_equal(ends, (cells, cells + 1)):
            return steps, cells.size
    return workload, 1


def one_series(strategy: Strategy, cells: int) -> Strategy:
    """The measurements of each series.

    Args:
        strategy: of one series, or R x 1_d.
        cells: steps of a series.

    Raises:
        InvalidInputError: it is neither, or a participation of R x 1_d.
    """
    count, rest = divmod(strategy.cells, cells)
    if count == 1 and not rest:
        return strategy
    if strategy.participation is not None:
        raise InvalidInputError(
            "participation in steps is for the strategy of one series: design that, and name the"
            " series when it is streamed"
        )
    first = None if rest else _first_factor(strategy, count)
    if first is None:
        raise InvalidInputError(
            f"strategy {strategy.name!r} is for {strategy.cells} cells, which are not series of"
            f" {cells} steps that are measured alike; design a strategy for {cells} steps"
        )
    return first


def _first_factor(strategy: Strategy, count: int) -> Strategy | None:
    """R, if the strategy is R x c 1_d."""
    one = np.eye(count)
    if len(strategy.factors) == 2 and strategy.factors[1].cells == count:
        values = strategy.factors[1].matrix
        alike = np.array_equal(values, values[0, 0] * one)
        return strategy.factors[0] if alike and values[0, 0] else None
    part = strategy.matrix[::count, ::count]
    alike = np.array_equal(strategy.matrix, np.kron(part, one))
    return Strategy(strategy.name, part) if alike else None
