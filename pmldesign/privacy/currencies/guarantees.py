"""Guarantees in currencies that add up over releases: zCDP, Gaussian DP and Renyi DP.

    ZCDP(rho)                D_a(x || x') <= a rho for every order a > 1
    GaussianDP(mu)           telling x from x' is as hard as N(0, 1) from N(mu, 1), at least
    RenyiDP(order, epsilon)  D_a(x || x') <= epsilon at the order a

for the laws of the output on neighbours x, x' and their Renyi divergence D_a. Gaussian noise meets
each exactly: with t = sensitivity/sigma they are t^2/2, t and a t^2/2 (`curves`).

A step of length 1 has a variance of at least 1/(e^D - 1), D the divergence of order 2, for any
noise (Hammersley, Chapman and Robbins): rho-zCDP gives D = 2 rho, mu-GDP D = mu^2, Renyi DP of an
order of at least 2 gives epsilon.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from pmldesign.arguments import parameter
from pmldesign.privacy.brackets import NARROW, private_end
from pmldesign.privacy.currencies.curves import PrivacyCurve, checked_order
from pmldesign.privacy.currencies.relation import OneRecord
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise


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
        """Upper bound on the Renyi divergence of order 2; None where it implies none."""
        return float(self.gaussian_square)

    @property
    def laplace_ratio(self) -> float:
        """Largest sensitivity over scale of Laplace noise, but for a relative 5e-7."""
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
        published: public answers beside what it is about (`OneRecord`).
    """

    rho: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""
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
        published: public answers beside what it is about (`OneRecord`).
    """

    mu: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""
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
        published: public answers beside what it is about (`OneRecord`).
    """

    order: float
    epsilon: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    known: str = ""
    published: str = ""
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
