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
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from pmldesign.arguments import instance, parameter, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.alpha.sample import SampledAlpha, sampled_alpha
from pmldesign.privacy.currencies.guarantees import ZCDP as ZCDP
from pmldesign.privacy.currencies.guarantees import CurrencyGuarantee as CurrencyGuarantee
from pmldesign.privacy.currencies.guarantees import GaussianDP as GaussianDP
from pmldesign.privacy.currencies.guarantees import RenyiDP as RenyiDP
from pmldesign.privacy.currencies.relation import OneRecord
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors, Shifts


class _DP(OneRecord):
    """What the guarantees of differential privacy share."""

    __slots__ = ()
    kind: ClassVar[str] = "dp"

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
        published: public answers beside what it is about (`OneRecord`).
    """

    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""
    delta: ClassVar[float] = 0.0
    words: ClassVar[str] = (
        "No event becomes more than e^{epsilon} times as likely when {about}, whatever the data."
    )


@dataclass(frozen=True, slots=True, repr=False)
class ApproxDP(_DP):
    """(epsilon, delta)-differential privacy.

    Attributes:
        epsilon: privacy parameter, positive and finite.
        delta: additive slack, in (0, 1).
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
        published: public answers beside what it is about (`OneRecord`).
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""
    words: ClassVar[str] = (
        "No event's probability exceeds e^{epsilon} times what it was, plus {delta}, when {about}, "
        "whatever the data."
    )

    def __post_init__(self) -> None:
        _DP.__post_init__(self)
        object.__setattr__(self, "delta", probability("delta", self.delta))


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
Guarantee = PureDP | ApproxDP | PMLGuarantee | CurrencyGuarantee

KINDS: Any = (PureDP, ApproxDP, PML, ApproxPML, EnvelopePML, ZCDP, GaussianDP, RenyiDP)
BESIDE = {"kind", "neighbours", "failure", "known", "published", "sample"}
"""Keys of a guarantee that are none of its numbers."""


def require_guarantee(value: Guarantee) -> None:
    """Refuse what is no guarantee."""
    instance("guarantee", value, KINDS, "such as PureDP(1), ApproxDP(1, 1e-6) or PML(1, 0.1)")


def from_json(numbers: Any) -> Guarantee:
    """The guarantee that `to_json` made these numbers of.

    Raises:
        InvalidInputError: other keys, values out of range, or values that do not go together.
    """
    given = dict(numbers) if isinstance(numbers, Mapping) else {}
    several = isinstance(given.get("alpha"), list)
    own = {key for key, value in given.items() if value is not None} - BESIDE
    for kind in KINDS:
        names = {field.name for field in fields(kind)}
        same = (kind.kind, kind.failure) == (given.get("kind"), given.get("failure"))
        if not same or own != names - BESIDE:
            continue
        values = {name: given[name] for name in names if name in given}
        for key in own:
            for value in values[key] if several and key == "alpha" else [values[key]]:
                if not isinstance(value, int | float) or isinstance(value, bool):
                    raise InvalidInputError(f"{key} of a guarantee must be a number, got {value!r}")
        if several and "sample" in given:
            values["alpha"] = _sampled(given["alpha"], given["sample"])
        for name in {"known", "published"} & values.keys():
            values[name] = str(values[name])
        guarantee: Guarantee = kind(**values)
        if guarantee.to_json() == given:
            return guarantee
    raise InvalidInputError(
        "a guarantee has the keys kind, epsilon, delta, alpha, neighbours and failure, with values"
        f" that go together, got {numbers!r}"
    )


def _sampled(alpha: list[float], sample: Any) -> SampledAlpha:
    """Alpha with the confidence that it has."""
    keys = ("records", "confidence", "radius", "counts")
    if not isinstance(sample, Mapping) or set(sample) != set(keys):
        raise InvalidInputError(
            f"the sample of an alpha has {', '.join(keys)}, got {sample!r:.200}"
        )
    limits = sampled_alpha(sample["counts"], sample["confidence"])
    same = len(alpha) == len(limits) and np.allclose(alpha, limits, rtol=1e-9, atol=0)
    if not same or not math.isclose(sample["radius"], limits.radius):
        raise InvalidInputError("alpha is not what the counts of its sample give")
    return SampledAlpha(alpha, limits.counts, limits.confidence, sample["radius"])
