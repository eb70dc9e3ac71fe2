"""Privacy guarantees: what is promised, to whom, and under which assumption.

    PureDP(epsilon)                      P(E | x) <= e^eps P(E | x')           neighbours x, x'
    ApproxDP(epsilon, delta)             P(E | x) <= e^eps P(E | x') + delta
    PML(epsilon, alpha)                  P(E | D_i = d) <= e^eps P(E)
    ApproxPML(epsilon, delta, alpha)     P(E | D_i = d) <= e^eps P(E) + delta
    EnvelopePML(epsilon, delta, alpha)   P(leakage of any post-processing > eps) <= delta

for every event E, record D_i and value d. The last three speak of data drawn from a distribution
in Q_alpha: n independent records, n public, each falling in cell j with probability at least
alpha_j. A scalar alpha means the same for each of the k cells, so it is at most 1/k.

Whatever the mechanism, the leakage is at most log(1/min alpha): from there on a PML guarantee is
vacuous, it promises nothing.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Sec. II.
    [SPP] Saeidian, Pinzon and Palamidessi, Information leakage envelopes: psi_2, closed failure
        probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pmldesign._arguments import positive, probability
from pmldesign.neighbours import Neighbours
from pmldesign.priors import checked_alpha, class_probabilities, least_probability
from pmldesign.workloads.base import count_text
from pmldesign_solvers.operators import Array


@dataclass(frozen=True, slots=True)
class PureDP:
    """epsilon-differential privacy.

    Attributes:
        epsilon: privacy parameter, positive and finite.
        neighbours: neighbouring relation, add-remove by default.
    """

    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    def describe(self, cells: int) -> str:  # noqa: ARG002 - the same question to every guarantee
        """What is promised, in words."""
        return (
            f"No event becomes more than e^{self.epsilon:g} times as likely when "
            f"{_CHANGE[self.neighbours]}, whatever the data."
        )


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy.

    Attributes:
        epsilon: privacy parameter, positive and finite.
        delta: additive slack, in (0, 1).
        neighbours: neighbouring relation, add-remove by default.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    def describe(self, cells: int) -> str:  # noqa: ARG002 - the same question to every guarantee
        """What is promised, in words."""
        return (
            f"No event's probability exceeds e^{self.epsilon:g} times what it was, plus "
            f"{self.delta:g}, when {_CHANGE[self.neighbours]}, whatever the data."
        )


class _OnPriors:
    """What the guarantees that speak of Q_alpha share."""

    __slots__ = ()
    epsilon: float
    alpha: float | tuple[float, ...]
    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))

    def class_probabilities(self, cells: int) -> Array:
        """Least probability of each cell, shape (cells,); see `class_probabilities`."""
        return class_probabilities(self.alpha, cells)

    def least_probability(self, cells: int) -> float:
        """Least probability of any cell; see `least_probability`."""
        return least_probability(self.alpha, cells)

    def is_vacuous(self, cells: int) -> bool:
        """Whether every mechanism satisfies it: epsilon >= log(1/min alpha)."""
        return self.epsilon >= -math.log(self.least_probability(cells))


@dataclass(frozen=True, slots=True)
class PML(_OnPriors):
    """epsilon pointwise maximal leakage on Q_alpha.

    Attributes:
        epsilon: largest leakage about a record, positive and finite.
        alpha: least probability of a cell: one number for all cells, or one for each.
    """

    epsilon: float
    alpha: float | tuple[float, ...]

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            f"No output raises an adversary's expected gain about any record more than "
            f"e^{self.epsilon:g} times above what it was before, {_assumption(self.alpha, cells)}."
        )


@dataclass(frozen=True, slots=True)
class ApproxPML(_OnPriors):
    """epsilon-PML on Q_alpha up to an additive slack delta on every event (psi_2 of [SPP]).

    Attributes:
        epsilon: leakage about a record, positive and finite.
        delta: additive slack, in (0, 1); not a failure probability.
        alpha: least probability of a cell: one number for all cells, or one for each.
    """

    epsilon: float
    delta: float
    alpha: float | tuple[float, ...]

    def __post_init__(self) -> None:
        _OnPriors.__post_init__(self)
        object.__setattr__(self, "delta", probability("delta", self.delta))

    def is_vacuous(self, cells: int) -> bool:
        """Whether every mechanism satisfies it: delta >= 1 - e^eps min alpha."""
        least = self.least_probability(cells)
        return self.epsilon + math.log(least) >= math.log1p(-self.delta)

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            f"Knowing any one record raises no event's probability above e^{self.epsilon:g} times "
            f"what it was, plus {self.delta:g}, {_assumption(self.alpha, cells)}."
        )


@dataclass(frozen=True, slots=True)
class EnvelopePML(_OnPriors):
    """epsilon-PML on Q_alpha but for a probability delta, after any post-processing [SPP].

    Attributes:
        epsilon: leakage about a record, positive and finite.
        delta: probability of a larger leakage, in (0, 1).
        alpha: least probability of a cell: one number for all cells, or one for each.
    """

    epsilon: float
    delta: float
    alpha: float | tuple[float, ...]

    def __post_init__(self) -> None:
        _OnPriors.__post_init__(self)
        object.__setattr__(self, "delta", probability("delta", self.delta))

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            f"Except with probability {self.delta:g}, nothing computed from the output raises an "
            f"adversary's expected gain about any one record more than e^{self.epsilon:g} times "
            f"above what it was before, {_assumption(self.alpha, cells)}."
        )


PMLGuarantee = PML | ApproxPML | EnvelopePML
Guarantee = PureDP | ApproxDP | PMLGuarantee

_CHANGE = {
    Neighbours.ADD_REMOVE: "one record is added or removed",
    Neighbours.REPLACE: "one record is replaced (the number of records is public)",
}


def _assumption(alpha: float | tuple[float, ...], cells: int) -> str:
    if isinstance(alpha, float):
        least = least_probability(alpha, cells)
        each = f"falls in each of the {count_text(cells)} cells with probability at least {least:g}"
    else:
        each_least = class_probabilities(alpha, cells)
        each = (
            f"falls in cell j of {cells} with probability at least alpha_j, "
            f"from {each_least.min():g} to {each_least.max():g}"
        )
    return f"provided that records are independent, each {each}, and their number is public"
