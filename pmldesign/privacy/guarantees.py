"""Privacy guarantees with their neighbours and assumptions.

    PureDP(epsilon)                      P(E | x) <= e^eps P(E | x')           neighbours x, x'
    ApproxDP(epsilon, delta)             P(E | x) <= e^eps P(E | x') + delta
    PML(epsilon, alpha)                  P(E | D_i = d) <= e^eps P(E)
    ApproxPML(epsilon, delta, alpha)     P(E | D_i = d) <= e^eps P(E) + delta
    EnvelopePML(epsilon, delta, alpha)   P(leakage of any post-processing > eps) <= delta

for every event E, record D_i and value d, and in currencies that add up over releases

    ZCDP(rho)                D_a(x || x') <= a rho for every order a > 1
    GaussianDP(mu)           telling x from x' is as hard as N(0, 1) from N(mu, 1), at least
    RenyiDP(order, epsilon)  D_a(x || x') <= epsilon at the order a

for the laws of the output on neighbours x, x' and their Renyi divergence D_a. Gaussian noise meets
each exactly: with t = sensitivity/sigma they are t^2/2, t and a t^2/2 (`curves`).

A step of length 1 has a variance of at least 1/(e^D - 1), D the divergence of order 2, for any
noise (Hammersley, Chapman and Robbins): rho-zCDP gives D = 2 rho, mu-GDP D = mu^2, Renyi DP of an
order of at least 2 gives epsilon.

The PML ones assume data drawn from a distribution
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
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from pmldesign.arguments import instance, parameter, probability
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.curves import PrivacyCurve, checked_order
from pmldesign.privacy.neighbours import Neighbours, NeighboursLike
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import NARROW, private_end
from pmldesign.privacy.priors import OnPriors, Shifts
from pmldesign.privacy.promises import OneRecord
from pmldesign.privacy.public_sample import sampled_from_json


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
        published: public answers that the guarantee does not cover (`OneRecord`).
    """

    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            epsilon: float,
            neighbours: NeighboursLike = Neighbours.ADD_REMOVE,
            known: str = "",
            published: str = "",
        ) -> None: ...

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
        published: public answers that the guarantee does not cover (`OneRecord`).
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            epsilon: float,
            delta: float,
            neighbours: NeighboursLike = Neighbours.ADD_REMOVE,
            known: str = "",
            published: str = "",
        ) -> None: ...

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
    """epsilon-PML on Q_alpha except with probability delta, after any post-processing [SPP].

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


class _Currency(OneRecord):
    """What the guarantees in these currencies share."""

    __slots__ = ()
    delta: ClassVar[float] = 0.0
    unit: ClassVar[str]
    """What the budget is called."""

    def __post_init__(self) -> None:
        object.__setattr__(self, self.unit, parameter(self.unit, getattr(self, self.unit)))
        self._check_relation()

    @property
    def budget(self) -> float:
        """The number that adds up over releases."""
        return float(getattr(self, self.unit))

    @property
    @abstractmethod
    def gaussian_square(self) -> Fraction:
        """Largest square of sensitivity over standard deviation of Gaussian noise."""

    @property
    def divergence(self) -> float | None:
        """Upper bound on the Renyi divergence of order 2; None without one."""
        return float(self.gaussian_square)

    @property
    def laplace_ratio(self) -> float:
        """Largest sensitivity over scale of Laplace noise, up to a relative 5e-7."""
        start = max(1.0, 1 / self.budget)

        def loss(scale: float) -> float:
            return self.spent(PrivacyCurve(Noise.LAPLACE, 1 / scale))

        scale = private_end(loss, self.budget, start=start, width=NARROW)
        return math.nextafter(1 / scale, 0)

    def admits(self, noise: Noise) -> bool:
        """Whether this noise meets it at some scale: Gaussian and Laplace noise do."""
        return noise is not Noise.CUBE

    def shifts(self, cells: int) -> None:
        """No (epsilon, delta) of a step: bounds ask for `divergence`."""

    def spent(self, curve: PrivacyCurve) -> float:
        """What noise spends of the budget, rounded up."""
        return curve.rho if self.unit == "rho" else curve.mu

    def to_json(self) -> dict[str, Any]:
        """The numbers that it is made of (`guarantees.from_json`)."""
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        numbers = {"kind": self.kind, **numbers, "neighbours": self.neighbours.value}
        return {k: v for k, v in numbers.items() if v or k not in ("known", "published")}


@dataclass(frozen=True, slots=True, repr=False)
class ZCDP(_Currency):
    """Zero-concentrated differential privacy.

    Attributes:
        rho: positive and finite.
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
        published: public answers that the guarantee does not cover (`OneRecord`).
    """

    rho: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            rho: float,
            neighbours: NeighboursLike = Neighbours.ADD_REMOVE,
            known: str = "",
            published: str = "",
        ) -> None: ...

    unit: ClassVar[str] = "rho"
    kind: ClassVar[str] = "zcdp"
    words: ClassVar[str] = (
        "The Renyi divergence of every order a > 1 is at most a times {rho} when {about}, whatever "
        "the data (zCDP)."
    )

    @property
    def gaussian_square(self) -> Fraction:
        """2 rho, as Gaussian noise of t = sensitivity/sigma is t^2/2-zCDP."""
        return 2 * Fraction(self.rho)


@dataclass(frozen=True, slots=True, repr=False)
class GaussianDP(_Currency):
    """Gaussian differential privacy.

    Attributes:
        mu: positive and finite.
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
        published: public answers that the guarantee does not cover (`OneRecord`).
    """

    mu: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            mu: float,
            neighbours: NeighboursLike = Neighbours.ADD_REMOVE,
            known: str = "",
            published: str = "",
        ) -> None: ...

    unit: ClassVar[str] = "mu"
    kind: ClassVar[str] = "gaussian-dp"
    words: ClassVar[str] = (
        "Whether {about} is as hard to tell as one draw from N(0, 1) from one of N({mu}, 1), or "
        "harder, whatever the data (Gaussian DP)."
    )

    @property
    def gaussian_square(self) -> Fraction:
        """mu^2, as Gaussian noise of t = sensitivity/sigma is t-Gaussian DP."""
        return Fraction(self.mu) ** 2


@dataclass(frozen=True, slots=True, repr=False)
class RenyiDP(_Currency):
    """Renyi differential privacy of one order.

    Attributes:
        order: above 1 and finite.
        epsilon: positive and finite.
        neighbours: neighbouring relation, add-remove by default.
        known: public answers that neighbours have in common (`OneRecord`).
        published: public answers that the guarantee does not cover (`OneRecord`).
    """

    order: float
    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            order: float,
            epsilon: float,
            neighbours: NeighboursLike = Neighbours.ADD_REMOVE,
            known: str = "",
            published: str = "",
        ) -> None: ...

    unit: ClassVar[str] = "epsilon"
    kind: ClassVar[str] = "renyi"
    words: ClassVar[str] = (
        "The Renyi divergence of order {order} is at most {epsilon} when {about}, whatever the "
        "data."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checked_order(self.order))
        _Currency.__post_init__(self)

    @property
    def gaussian_square(self) -> Fraction:
        """2 epsilon / order, as Gaussian noise loses order t^2/2."""
        return 2 * Fraction(self.epsilon) / Fraction(self.order)

    @property
    def divergence(self) -> float | None:
        """Epsilon from order 2 on: the divergence rises with its order."""
        return self.epsilon if self.order >= 2 else None

    def spent(self, curve: PrivacyCurve) -> float:
        """What noise spends of the budget, rounded up."""
        return curve.renyi(self.order)


CurrencyGuarantee = ZCDP | GaussianDP | RenyiDP
PMLGuarantee = PML | ApproxPML | EnvelopePML
Guarantee = PureDP | ApproxDP | PMLGuarantee | CurrencyGuarantee

KINDS: Any = (PureDP, ApproxDP, PML, ApproxPML, EnvelopePML, ZCDP, GaussianDP, RenyiDP)
BESIDE = {"kind", "neighbours", "failure", "known", "published", "sample"}
"""Keys of a guarantee other than its numbers."""


def require_guarantee(value: Guarantee) -> None:
    """Refuse a value that is not a guarantee."""
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
            values["alpha"] = sampled_from_json(given["alpha"], given["sample"])
        for name in {"known", "published"} & values.keys():
            values[name] = str(values[name])
        guarantee: Guarantee = kind(**values)
        if guarantee.to_json() == given:
            return guarantee
    raise InvalidInputError(
        "a guarantee has the keys kind, epsilon, delta, alpha, neighbours and failure, with values"
        f" that go together, got {numbers!r}"
    )
