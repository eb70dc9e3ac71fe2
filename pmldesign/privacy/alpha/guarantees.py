"""Guarantees of pointwise maximal leakage; `privacy.guarantees` has all guarantees side by side.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information leakage envelopes: psi_2, closed failure
        probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pmldesign.privacy.priors import OnPriors


@dataclass(frozen=True, slots=True)
class PML(OnPriors):
    """epsilon pointwise maximal leakage on Q_alpha.

    Attributes:
        epsilon: largest leakage about a record, positive and finite.
        alpha: least probability of a cell: one number for all cells, or one for each, which
            `sampled_alpha` takes from a public sample.
    """

    epsilon: float
    alpha: float | tuple[float, ...]
    delta: ClassVar[float] = 0.0
    words: ClassVar[str] = (
        "No output raises an adversary's expected gain about any record more than e^{epsilon} "
        "times above what it was before, {about}."
    )


@dataclass(frozen=True, slots=True)
class ApproxPML(OnPriors):
    """epsilon-PML on Q_alpha up to an additive slack delta on every event (psi_2 of [SPP]).

    Attributes:
        epsilon: leakage about a record, positive and finite.
        delta: additive slack, in (0, 1); not a failure probability.
        alpha: least probability of a cell: one number for all cells, or one for each, which
            `sampled_alpha` takes from a public sample.
    """

    epsilon: float
    delta: float
    alpha: float | tuple[float, ...]
    failure: ClassVar[str | None] = "slack"
    words: ClassVar[str] = (
        "Knowing any one record raises no event's probability above e^{epsilon} times what it was, "
        "plus {delta}, {about}."
    )

    def is_vacuous(self, cells: int) -> bool:
        """Whether every mechanism satisfies it: delta >= 1 - e^eps min alpha."""
        least = self.least_probability(cells)
        return self.epsilon + math.log(least) >= math.log1p(-self.delta)


@dataclass(frozen=True, slots=True)
class EnvelopePML(OnPriors):
    """epsilon-PML on Q_alpha but for a probability delta, after any post-processing [SPP].

    Attributes:
        epsilon: leakage about a record, positive and finite.
        delta: probability of a larger leakage, in (0, 1).
        alpha: least probability of a cell: one number for all cells, or one for each, which
            `sampled_alpha` takes from a public sample.
    """

    epsilon: float
    delta: float
    alpha: float | tuple[float, ...]
    failure: ClassVar[str | None] = "envelope"
    words: ClassVar[str] = (
        "Except with probability {delta}, nothing computed from the output raises an adversary's "
        "expected gain about any one record more than e^{epsilon} times above what it was before, "
        "{about}."
    )


PMLGuarantee = PML | ApproxPML | EnvelopePML
