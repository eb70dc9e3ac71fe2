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
from typing import Any, ClassVar

import numpy as np

from pmldesign.arguments import parameter, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.guarantees import PML as PML
from pmldesign.privacy.alpha.guarantees import ApproxPML as ApproxPML
from pmldesign.privacy.alpha.guarantees import EnvelopePML as EnvelopePML
from pmldesign.privacy.alpha.guarantees import PMLGuarantee as PMLGuarantee
from pmldesign.privacy.alpha.sample import SampledAlpha, sampled_alpha
from pmldesign.privacy.currencies.guarantees import ZCDP as ZCDP
from pmldesign.privacy.currencies.guarantees import CurrencyGuarantee as CurrencyGuarantee
from pmldesign.privacy.currencies.guarantees import GaussianDP as GaussianDP
from pmldesign.privacy.currencies.guarantees import RenyiDP as RenyiDP
from pmldesign.privacy.currencies.guarantees import currency_from_json
from pmldesign.privacy.currencies.relation import OneRecord, Promise
from pmldesign.privacy.digits import shortest
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import Shifts


class _DP(OneRecord, Promise):
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
    keys = ("records", "confidence", "radius", "counts")
    if not isinstance(sample, Mapping) or set(sample) != set(keys):
        raise InvalidInputError(
            f"the sample of an alpha has {', '.join(keys)}, got {sample!r:.200}"
        )
    own = sampled_alpha(sample["counts"], sample["confidence"])
    limits = np.isclose(alpha, own, rtol=1e-9, atol=0) if len(alpha) == len(own) else False
    if not np.all(limits) or not math.isclose(sample["radius"], own.radius):
        raise InvalidInputError("alpha is not what the counts of its sample give")
    return SampledAlpha(alpha, own.counts, own.confidence, sample["radius"])


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
