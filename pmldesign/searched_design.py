"""A strategy that a search found for one kind of noise and one guarantee."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import Mechanism
from pmldesign.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.l1_solution import L1Status, Start
from pmldesign_solvers.operators import Array


@dataclass(frozen=True, slots=True, eq=False)
class SearchedDesign:
    """The best strategy that a search found.

    Attributes:
        workload: what it answers.
        p: of the l_p^p error, in [2, inf].
        guarantee: what the noise was to meet.
        mechanism: the strategy with its exactly calibrated noise.
        status: why the search stopped.
        starts: every start and what became of it.
        seconds: that the search took.
    """

    workload: Workload
    p: float
    guarantee: Guarantee
    mechanism: Mechanism
    status: L1Status
    starts: tuple[Start, ...]
    seconds: float

    @property
    def strategy(self) -> Strategy:
        """R; without its total where the number of records is public."""
        return self.mechanism.strategy

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the sensitivity speaks of."""
        return self.guarantee.neighbours

    @property
    def improved(self) -> bool:
        """Whether it is better than every start."""
        return min(one.after for one in self.starts) < min(one.before for one in self.starts)

    def reconstruction(self) -> Array:
        """L = A R^+, shape (m, r): answers are L (R x + noise)."""
        return self.strategy.reconstruction(self.mechanism.workload)
