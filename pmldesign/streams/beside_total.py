"""Running sums whose total is public, on line: replace neighbours.

A record moves from step i to step j, or to the last one, with the same number of at most 1: C x
changes by C (e_i - e_j), and the last sum not at all. So n - 1 steps are answered, by the
triangular C' whose columns are as far apart as those of C, and each as far from 0 as from the last
one of C: of a strategy with buffers by its recurrence (`intervals.on_line` in the solvers), of
a matrix by a QR factorization. Its errors are those of C beside the total.

Inputs are rounded down to multiples of 2^-40, after which both changes may differ by that.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, sensitivity_above
from pmldesign.privacy.outward import raised, root_above
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.schema import participation_refusal
from pmldesign.strategies.participation.strategy import participation_of
from pmldesign.streams.digits import INPUT_BITS
from pmldesign.streams.on_line import Designed, OnLine
from pmldesign.streams.recurrences import States, Window, lower_triangular
from pmldesign.streams.sums import Sums, question_of
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.running import RunningWorkload
from pmldesign_solvers.intervals.on_line import open_factor
from pmldesign_solvers.operators.operator import Array


class BesideTotal(OnLine):
    """A strategy for n steps whose total is public, for the first n - 1 of them.

    Args:
        strategy: C, or any R that determines the steps beside their total.
        workload: running sums or windows (`sums.Question`).

    Raises:
        InvalidInputError: running sums whose last one is not the total, or a
            strategy that does not determine them.
    """

    single: ClassVar[bool] = True

    def __init__(self, strategy: Strategy, workload: Workload) -> None:
        self.sensitivity = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
        self.name, self._strategy = strategy.name, strategy
        asked = question_of(strategy, workload.beside(RECORDS))
        if not asked.sums.tells_total:
            raise InvalidInputError(
                f"workload {workload.name!r}: under replace a stream answers running sums in"
                " which nothing fades and no step has a weight, such as prefix:24, whose last one"
                " is public; take add-remove neighbours"
            )
        self._asked = asked.open()
        self.remedy = f"the sum of all {strategy.cells} is public"
        factor = strategy.recurrence
        if factor is None:
            matrix = strategy.matrix[:, :-1] - strategy.matrix[:, -1:]
            triangle = Strategy(strategy.name, matrix).streaming()
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
        """At least the l2 distance of C' x for neighbours x, C' as it is in whole numbers."""
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
    """What goes on line of a strategy, scaled to sensitivity 1.

    Args:
        strategy: R, with the participation of a person.
        workload: running sums or windows; None for those that the strategy is made for.
        neighbours: how neighbours differ.

    Raises:
        InvalidInputError: as `Designed` and `BesideTotal`, or several participations under replace.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        return Designed(lower_triangular(strategy), workload)
    if participation_of(strategy) is not None:
        raise participation_refusal()
    if workload is None:
        sums, _ = strategy.own_sums or (None, None)
        assert sums is not None
        weights = (np.sqrt(squares) for squares in (sums.query_squares, sums.step_squares))
        workload = RunningWorkload(sums.rates, *weights)
    apart = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    return BesideTotal(strategy.uncentred.scaled(1.0 / apart), workload)
