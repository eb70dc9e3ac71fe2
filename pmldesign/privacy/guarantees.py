"""Privacy guarantees: what is promised, to whom, and under which assumption.

    PureDP(epsilon)                      P(E | x) <= e^eps P(E | x')           neighbours x, x'
    ApproxDP(epsilon, delta)             P(E | x) <= e^eps P(E | x') + delta
    PML(epsilon, alpha)                  P(E | D_i = d) <= e^eps P(E)
    ApproxPML(epsilon, delta, alpha)     P(E | D_i = d) <= e^eps P(E) + delta
    EnvelopePML(epsilon, delta, alpha)   P(leakage of any post-processing > eps) <= delta

    ZCDP(rho), GaussianDP(mu), RenyiDP(order, epsilon)     see `currencies.guarantees`

for every event E, record D_i and value d. The PML ones speak of data drawn from a distribution
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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pmldesign.arguments import parameter, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.sample import SampledAlpha
from pmldesign.privacy.currencies.guarantees import (
    ZCDP,
    CurrencyGuarantee,
    GaussianDP,
    RenyiDP,
    currency_from_json,
)
from pmldesign.privacy.currencies.relation import OneRecord
from pmldesign.privacy.digits import shortest
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import OnPriors, Shifts, checked_alpha


class _Promise:
    """What every guarantee answers."""

    __slots__ = ()
    if TYPE_CHECKING:
        epsilon: float
        neighbours: Neighbours
        pml: ClassVar[bool]
        known: str

        @property
        def delta(self) -> float:
            """Slack or failure probability; 0 without one."""
            ...

    failure: ClassVar[str | None] = None
    """What delta means under PML: "slack" on every event, or "envelope"."""

    def admits(self, noise: Noise) -> bool:
        """Whether this noise meets it at some scale: Gaussian noise needs a delta."""
        return noise is Noise.LAPLACE or self.delta > 0

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The kinds of noise that it admits."""
        return tuple(noise for noise in Noise if self.admits(noise))

    def to_json(self) -> dict[str, Any]:
        """The numbers that it is made of, for JSON and strategy files (`from_json`)."""
        alpha = getattr(self, "alpha", None)
        numbers = {
            "kind": "pml" if self.pml else "dp",
            "epsilon": self.epsilon,
            "delta": self.delta or None,
            "alpha": list(alpha) if isinstance(alpha, tuple) else alpha,
            "neighbours": self.neighbours.value,
            "failure": self.failure,
        }
        if getattr(self, "known", ""):
            numbers["known"] = self.known
        if isinstance(alpha, SampledAlpha):
            numbers["sample"] = {"records": alpha.records, "confidence": alpha.confidence}
        return numbers


class _DP(OneRecord, _Promise):
    """What the guarantees of differential privacy share."""

    __slots__ = ()
    pml: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parameter("epsilon", self.epsilon))
        self._check_relation()

    @property
    def laplace_ratio(self) -> float:
        """Largest l1 sensitivity over scale of Laplace noise, whose delta is 0."""
        return self.epsilon

    def shifts(self, cells: int) -> Shifts:  # noqa: ARG002 - the same question to every guarantee
        """The (epsilon, delta) of one step."""
        return Shifts(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True, repr=False)
class PureDP(_DP):
    """epsilon-differential privacy.

    Attributes:
        epsilon: privacy parameter, positive and finite.
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
    """

    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    delta: ClassVar[float] = 0.0

    def describe(self, cells: int) -> str:  # noqa: ARG002 - likewise
        """What is promised, in words."""
        return (
            f"No event becomes more than e^{shortest(self.epsilon)} times as likely when "
            f"{self.change}, whatever the data."
        )


@dataclass(frozen=True, slots=True, repr=False)
class ApproxDP(_DP):
    """(epsilon, delta)-differential privacy.

    Attributes:
        epsilon: privacy parameter, positive and finite.
        delta: additive slack, in (0, 1).
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""

    def __post_init__(self) -> None:
        _DP.__post_init__(self)
        object.__setattr__(self, "delta", probability("delta", self.delta))

    def describe(self, cells: int) -> str:  # noqa: ARG002 - likewise
        """What is promised, in words."""
        return (
            f"No event's probability exceeds e^{shortest(self.epsilon)} times what it was, plus "
            f"{shortest(self.delta)}, when {self.change}, whatever the data."
        )


@dataclass(frozen=True, slots=True)
class PML(OnPriors, _Promise):
    """epsilon pointwise maximal leakage on Q_alpha.

    Attributes:
        epsilon: largest leakage about a record, positive and finite.
        alpha: least probability of a cell: one number for all cells, or one for each, which
            `sampled_alpha` takes from a public sample.
    """

    epsilon: float
    alpha: float | tuple[float, ...]
    delta: ClassVar[float] = 0.0

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            f"No output raises an adversary's expected gain about any record more than "
            f"e^{shortest(self.epsilon)} times above what it was before, "
            f"{self.assumption(cells)}."
        )


@dataclass(frozen=True, slots=True)
class ApproxPML(OnPriors, _Promise):
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

    def is_vacuous(self, cells: int) -> bool:
        """Whether every mechanism satisfies it: delta >= 1 - e^eps min alpha."""
        least = self.least_probability(cells)
        return self.epsilon + math.log(least) >= math.log1p(-self.delta)

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            "Knowing any one record raises no event's probability above "
            f"e^{shortest(self.epsilon)} times what it was, plus {shortest(self.delta)}, "
            f"{self.assumption(cells)}."
        )


@dataclass(frozen=True, slots=True)
class EnvelopePML(OnPriors, _Promise):
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

    def describe(self, cells: int) -> str:
        """What is promised, to whom, and under which assumption."""
        return (
            f"Except with probability {shortest(self.delta)}, nothing computed from the output "
            "raises an adversary's expected gain about any one record more than "
            f"e^{shortest(self.epsilon)} times above what it was before, "
            f"{self.assumption(cells)}."
        )


__all__ = [
    "PML",
    "ZCDP",
    "ApproxDP",
    "ApproxPML",
    "CurrencyGuarantee",
    "EnvelopePML",
    "GaussianDP",
    "Guarantee",
    "PMLGuarantee",
    "PureDP",
    "RenyiDP",
    "from_json",
]

PMLGuarantee = PML | ApproxPML | EnvelopePML
Guarantee = PureDP | ApproxDP | PMLGuarantee | CurrencyGuarantee

KEYS = ("kind", "epsilon", "delta", "alpha", "neighbours", "failure")


def from_json(numbers: Any) -> Guarantee:
    """The guarantee that `to_json` made these numbers of.

    Raises:
        InvalidInputError: other keys, values out of range, or values that do not go together.
    """
    currency = currency_from_json(dict(numbers)) if isinstance(numbers, Mapping) else None
    if currency is not None:
        return currency
    if not isinstance(numbers, Mapping) or set(numbers) - {"sample", "known"} != set(KEYS):
        raise InvalidInputError(f"a guarantee has the keys {', '.join(KEYS)}, got {numbers!r}")
    alpha = numbers["alpha"]
    several = [("alpha", value) for value in (alpha if isinstance(alpha, list) else [alpha])]
    for key, value in [(key, numbers[key]) for key in ("epsilon", "delta")] + several:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number and (value is not None or key == "epsilon"):
            raise InvalidInputError(f"{key} of a guarantee must be a number, got {value!r}")
    arguments = {key: numbers[key] for key in KEYS}
    if isinstance(alpha, list) and "sample" in numbers:
        arguments["alpha"] = _sampled(alpha, numbers["sample"])
    guarantee = _build(**arguments, known=str(numbers.get("known", "")))
    if guarantee is None or guarantee.to_json() != dict(numbers):
        raise InvalidInputError(f"these numbers are no guarantee: {dict(numbers)!r}")
    return guarantee


def _sampled(alpha: list[float], sample: Any) -> SampledAlpha:
    """Alpha with the confidence that it has."""
    keys = {"records", "confidence"}
    if not isinstance(sample, Mapping) or set(sample) != keys:
        raise InvalidInputError(
            f"the sample of an alpha has records and confidence, got {sample!r}"
        )
    records, confidence = sample["records"], probability("confidence", sample["confidence"])
    checked_alpha([limit for limit in alpha if limit != 0])
    return SampledAlpha(alpha, records, confidence)


def _build(
    *,
    kind: str,
    epsilon: Any,
    delta: Any,
    alpha: Any,
    neighbours: str,
    failure: str | None,
    known: str,
) -> Guarantee | None:
    if kind == "dp":
        relation = Neighbours(neighbours)
        if delta is None:
            return PureDP(epsilon, relation, known)
        return ApproxDP(epsilon, delta, relation, known)
    if kind != "pml" or alpha is None:
        return None
    if delta is None:
        return PML(epsilon, alpha)
    return (ApproxPML if failure == "slack" else EnvelopePML)(epsilon, delta, alpha)
