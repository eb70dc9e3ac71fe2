"""What a stream answers: running sums A x^ of the estimates x^ = C^-1 y, by one number of state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.running import stream_problem
from pmldesign_solvers.operators.operator import Array

ROWS = 1024
"""Steps whose numbers are turned into lists at a time."""

Weights = tuple[float, float, float, float]
"""What a step keeps of the sum, the weights of its input and answer, and its deviation."""


class Sums:
    """The running sums that a stream answers, with the variances of C^-1 z in them.

    Raises:
        InvalidInputError: no running sums, or more or fewer steps than the strategy has.
    """

    def __init__(self, strategy: Strategy, workload: Workload | None) -> None:
        whole, sums = with_participation(strategy, None), None
        if workload is not None:
            sums = stream_problem(workload)
        elif isinstance(whole, StreamStrategy | EpochStrategy):
            sums = whole.sums
        if sums is None or sums.cells != strategy.cells:
            asked = "no workload" if workload is None else repr(workload.name)
            raise InvalidInputError(
                f"a stream answers running sums over {strategy.cells} steps, such as"
                f" prefix:{strategy.cells} or decay:{strategy.cells},0.99; got {asked}"
            )
        self.variances: Array
        if workload is not None:
            self.variances = whole.variances(workload)
        else:
            assert isinstance(whole, StreamStrategy | EpochStrategy)
            self.variances = whole.sums_variances
        self.kept = np.concatenate([[0.0], sums.rates])
        self.query, self.step = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)

    def added(self, part: slice, terms: Array, total: float | Array) -> Array:
        """The sums after each step of a part, for terms of shape (m,) or (m, d) and what was."""
        kept, sums = self.kept[part], np.array(terms)
        if not kept.size:
            return sums
        sums[0] += kept[0] * total
        if (kept[1:] == 1.0).all():
            return np.asarray(np.cumsum(sums, axis=0))
        total = 0.0
        for t, (keep, term) in enumerate(zip([1.0, *kept[1:].tolist()], sums, strict=True)):
            sums[t] = total = keep * total + term
        return sums

    def weights_from(self, first: int, deviations: Array) -> Iterator[Weights]:
        """The weights of step after step, from step `first` on."""
        numbers = (self.kept, self.step, self.query, deviations)
        for start in range(first, self.kept.size, ROWS):
            lists = (values[start : start + ROWS].tolist() for values in numbers)
            yield from zip(*lists, strict=True)
