"""From a workload, p and a guarantee to a strategy for Laplace noise.

The scale of Laplace noise depends on l1 distances: the largest column norm (DP, add-remove), the
largest distance of two columns (DP, replace), or all distances weighed by the prior (PML, Corollary
1 of [ZSO]). The error is not a convex function of the strategy, so a search from many starts finds
a good one, never worse than any start, and lower bounds say how far from the best possible it is.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pmldesign._arguments import exponent, positive
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import ApproxDP, Guarantee, PureDP
from pmldesign.mechanism import Mechanism, mechanism, require_feasible
from pmldesign.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload, as_workload
from pmldesign_solvers import l1_strategies
from pmldesign_solvers.l1_scales import AddRemoveL1, Leakage, ReplaceL1, ScaleRule
from pmldesign_solvers.l1_solution import L1Status, L1Step, Start
from pmldesign_solvers.operators import Array


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceDesign:
    """The best strategy that a search found for Laplace noise.

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

    def reconstruction(self) -> Array:
        """L = A R^+, shape (m, r): answers are L (R x + noise)."""
        return self.strategy.reconstruction(self.mechanism.workload)


def laplace_design(
    workload: Any,
    guarantee: Guarantee,
    *,
    p: float = 2.0,
    starts: Iterable[Strategy] = (),
    signed: bool = True,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[L1Step], None] | None = None,
) -> LaplaceDesign:
    """Search for the strategy with the smallest error under Laplace noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        guarantee: any; a delta is not used by Laplace noise.
        p: in [2, inf].
        starts: strategies to begin from besides the search's own; the answer is at least as good
            as every one of them that answers the workload.
        signed: allow strategies with negative entries.
        seed: of the random starts; the same seed gives the same strategy unless time runs out.
        time_limit: in seconds; None for none.
        callback: called with every `L1Step`. Ctrl-C during the search returns the best so far.

    Returns:
        The design, whatever the status.

    Raises:
        InvalidInputError: an argument out of range, or a workload that needs no measurement.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    workload = as_workload(workload)
    p = exponent(p)
    if time_limit is not None:
        time_limit = positive("time_limit", time_limit)
    cells = workload.shape[1]
    require_feasible(guarantee, cells, noise="laplace")
    named = {start.name: start.matrix for start in starts}
    try:
        found = l1_strategies.solve(
            workload,
            p,
            scale=_rule(guarantee, cells),
            signed=signed,
            starts=named,
            seed=seed,
            time_limit=time_limit,
            callback=callback,
        )
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error
    made = mechanism(
        Strategy("design", found.strategy), workload, guarantee=guarantee, noise="laplace", p=p
    )
    return LaplaceDesign(
        workload=workload,
        p=p,
        guarantee=guarantee,
        mechanism=made,
        status=found.status,
        starts=found.starts,
        seconds=found.seconds,
    )


def _rule(guarantee: Guarantee, cells: int) -> ScaleRule:
    """How the scale of the noise follows from the strategy."""
    if isinstance(guarantee, PureDP | ApproxDP):
        if guarantee.neighbours is Neighbours.ADD_REMOVE:
            return AddRemoveL1(guarantee.epsilon)
        return ReplaceL1(guarantee.epsilon)
    return Leakage(guarantee.epsilon, guarantee.class_probabilities(cells))
