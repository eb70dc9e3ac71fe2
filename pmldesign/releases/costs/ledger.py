r"""The ledger: the costs of releases about some people, and the budget that limits them.

Costs are exact fractions: epsilon_i of releases with Laplace noise, mu_i^2 = Delta^2 / sigma^2 of
those with Gaussian noise. All together are (epsilon, delta)-differentially private with

    delta = delta_mu(epsilon - sum epsilon_i),    mu^2 = sum mu_i^2,

delta_mu the profile of one Gaussian release, also if later releases are chosen after earlier ones
were seen. A draft of a schema is epsilon_i-private except with probability delta_i, which adds to
delta. The limits on sum epsilon_i ("pure", 0 unless the budget sets it) and on mu^2 are fixed when
the ledger begins. kappa of the discrete Gaussian (`exact_noise`) is covered by 2^-40 of mu.
Pointwise maximal leakage does not compose in this way, and is refused.

Instead, the noise of all releases may be fixed when the ledger begins, by a plan (`plan`), whose
privacy losses compose to less; each of its releases is made once, and no other. To choose noise
later by the losses so far would not be valid (arXiv 2602.06756).

The order: refuse; read and check the data; pay, in one transaction that reads all payments again
(`accounts`); only then draw and publish. A crash after the payment leaves the budget spent and
nothing published. Nothing is ever paid back.

A ledger belongs to people, not to a path. It holds two random keys. Under one it stores of each
release HMAC-SHA256 of the content of its data: data that no release was about are refused, unless
the user confirms that they are about the same people. The other one chooses the rows of a person
that count (`selection_key`).
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import Any, TypeVar

from pmldesign._version import FORMAT
from pmldesign.arguments import flags, instance, number
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError, printable
from pmldesign.files.atomic import PathName, as_path, undisturbed
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.guarantees import (
    ApproxDP,
    CurrencyGuarantee,
    GaussianDP,
    Guarantee,
    PureDP,
)
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import as_written, at_most
from pmldesign.releases.costs.accounts import COSTS, SERVERS, FileStore, ServerStore, insert, load
from pmldesign.releases.costs.accounts import Account as Account
from pmldesign.releases.costs.budget import (
    Budget,
    Charge,
    Cost,
    budget_text,
    cost_text,
    parse_budget,
    require_within,
)
from pmldesign.releases.costs.plan import Plan
from pmldesign.releases.costs.unit import Unit
from pmldesign.releases.people.sources import files_of
from pmldesign.workloads.display import Displayed, Facts

PAID = "note: the release is paid for, so it is finished first\n"
KEY = 32
"""Bytes of a key."""
Data = TypeVar("Data")
Published = TypeVar("Published")


@dataclass(frozen=True, repr=False)
class Ledger(Displayed):
    """The ledger that pays for a release, and the initial terms of a new one.

    Attributes:
        place: a path, or the address of a PostgreSQL database that several machines share.
        population: name of the people; None for the name that the ledger has.
        confirm_same_population: whether data that differ from those of earlier releases are about
            the same people.
        budget: of a new ledger.
        plan: of a new ledger, if any.
    """

    place: PathName
    population: str | None = None
    confirm_same_population: bool = False
    budget: Budget | str | None = None
    plan: Plan | str | None = None

    def __post_init__(self) -> None:
        if "://" not in str(self.place):
            as_path(self.place, "ledger")
        elif str(self.place).partition("://")[0].partition("+")[0] not in SERVERS:
            raise InvalidInputError(
                "a ledger is a file, such as budget.db, or a PostgreSQL database that several"
                f" machines share, postgresql://..., got {str(self.place).split('@')[-1]!r:.80}"
            )
        flags(confirm_same_population=self.confirm_same_population)
        instance("population", self.population, str | None, "a name, or None")
        instance("budget", self.budget, Budget | str | None, "such as 'epsilon=3,delta=1e-6'")
        instance("plan", self.plan, Plan | str | None, "such as '4*laplace:0.1'")

    def _display(self) -> tuple[str, Facts]:
        name = str(self.place).split("@")[-1]  # without a password
        return f"Ledger {name!r}", [] if self.population is None else [
            ("population", self.population)
        ]

    @cached_property
    def limits(self) -> Budget | None:
        """The budget of a new ledger."""
        return parse_budget(self.budget) if isinstance(self.budget, str) else self.budget

    @cached_property
    def planned(self) -> Plan | None:
        """The plan of a new ledger, if any; InfeasibleError if it is more than the budget."""
        plan = Plan.parse(self.plan) if isinstance(self.plan, str) else self.plan
        if plan is not None and self.limits is not None:
            require_within(plan, self.limits)
        return plan

    @cached_property
    def _store(self) -> FileStore | ServerStore:
        if "://" not in str(self.place):
            return FileStore(Path(self.place))
        if self.population is None:
            raise InvalidInputError(
                "a database holds the ledgers of several populations; pass `population`"
            )
        return ServerStore(str(self.place))

    @property
    def _named(self) -> str | None:
        """The people as they are stored."""
        return None if self.population is None else printable(self.population)

    @cached_property
    def _keys(self) -> tuple[bytes, bytes]:
        """Of a new ledger."""
        return secrets.token_bytes(KEY), secrets.token_bytes(KEY)

    def account(self) -> Account | None:
        """The ledger as it is; None for a new one.

        Raises:
            FileError: it cannot be read, or is damaged.
            InvalidInputError: it began with another budget, another plan or other people.
        """
        with self._store.transaction(write=False) as ask:
            account = None if ask is None else load(self._store, ask, self._named)
        return None if account is None else self._as_begun(account)

    def selection_key(self) -> bytes:
        """32 secret bytes for the choice of the rows of a person, the same for all releases.

        A new ledger stores the key when it begins. It is not for output of any kind.

        Raises:
            FileError, InvalidInputError: as `account`.
        """
        account = self.account()
        return self._keys[1] if account is None else account.selection_key

    def beginning(self, unit: Unit, data: PathName = "") -> Account:
        """What a new ledger begins with.

        Raises:
            InvalidInputError: the budget is missing.
            InfeasibleError: the plan is more than the budget.
        """
        if self.limits is None:
            raise InvalidInputError(
                f"{self._store.name!r} is a new ledger and needs a budget; pass for example"
                " epsilon=3,delta=1e-6"
            )
        population = printable(self.population or os.path.realpath(data))
        return Account(self._store.name, population, unit, self.limits, self.planned, *self._keys)

    def pay(
        self,
        charge: Charge,
        data: Any,
        read: Callable[[], Data],
        publish: Callable[[Data], Published],
    ) -> Published:
        """What is published of data, after the ledger has paid: refuse, read, pay, then draw.

        Args:
            charge: the release to pay for.
            data: a file, or a name that stands for a table of a database.
            read: the data, checked; with `selection_key` if rows of a person are chosen.
            publish: draws the noise; signals wait from the payment until it is done.

        Raises:
            FileError: the ledger or the data cannot be read or written.
            InvalidInputError: other data than a file, people, unit, budget or plan.
            InfeasibleError: the budget has no room.
        """
        if not isinstance(data, str | Path):
            raise InvalidInputError("a ledger is kept for a file of data; give its path")
        while True:
            account = self.account() or self.beginning(charge.unit, data)
            account.require(charge)
            mark = _mark(account, data, confirm_same_population=self.confirm_same_population)
            content = read()
            with undisturbed(PAID):
                if self._spend(charge, account, mark):
                    return publish(content)

    def _spend(self, charge: Charge, seen: Account, mark: str) -> bool:
        """Pay for a release; nothing may be drawn before this returns.

        Args:
            charge: the release that is paid for.
            seen: the ledger before the data were read; its initial terms if it is new.
            mark: of the data.

        Returns:
            Whether it is paid; False if it is another ledger now, which another process has begun.

        Raises:
            FileError: the system refuses to write.
            InvalidInputError, InfeasibleError: as `Account.require`, after payments in between.
        """
        while True:
            with self._store.transaction(write=True) as ask:
                assert ask is not None
                account = load(self._store, ask, self._named)
                if account is None:
                    if seen.mark_key != self._keys[0]:
                        raise FileError(f"the ledger {seen.name!r} was removed meanwhile")
                    insert(ask, "ledger", _row(seen))
                    account = load(self._store, ask, self._named)
                    assert account is not None
                if account.mark_key != seen.mark_key:
                    return False
                cost = account.require(charge)
                costs = {name: str(getattr(cost, name)) for name in COSTS}
                values = {"population": account.population, "place": len(account.payments), **costs}
                values |= {"released": printable(charge.release), "planned": cost.planned}
                values["day"] = datetime.datetime.now(datetime.UTC).date().isoformat()
                if insert(ask, "payment", {**values, "data": mark}):
                    return True

    def _as_begun(self, account: Account) -> Account:
        """The account, unless it began with other people, another budget or another plan."""
        name, budget, plan = self._store.name, self.limits, self.planned
        if self.population is not None and self._named != account.population:
            raise InvalidInputError(
                f"the ledger {name!r} is about {account.population!r}; name another"
            )
        if budget is not None and budget != account.budget:
            raise InvalidInputError(
                f"the ledger {name!r} began with {budget_text(account.budget)}; a budget is "
                "fixed when a ledger begins; remove `budget`"
            )
        if plan is not None and plan != account.plan:
            began = "no plan" if account.plan is None else f"the plan {account.plan.text}"
            raise InvalidInputError(
                f"the ledger {name!r} began with {began}; a plan is fixed when a ledger begins;"
                " remove `plan`,"
                " or begin another ledger for other data"
            )
        return account


def read_ledger(place: PathName, population: str | None = None) -> Account:
    """A ledger as it is.

    Raises:
        FileError: the ledger is missing, cannot be read, or is damaged.
        InvalidInputError: it is about other people.
    """
    account = Ledger(place, population).account()
    if account is None:
        raise FileError(f"there is no ledger {str(place)!r} yet")
    return account


def ledger_of(place: Ledger | PathName | None, **told: Any) -> Ledger | None:
    """The ledger with the given arguments; None without a ledger.

    Raises:
        InvalidInputError: arguments are given without a ledger, or with a `Ledger`, which already
            contains them.
    """
    given = [name for name, value in told.items() if value is not None and value is not False]
    if isinstance(place, Ledger):
        if given:
            raise InvalidInputError(f"{' and '.join(given)}: write them in the Ledger itself")
        return place
    if place is not None:
        return Ledger(place, **told)
    if given:
        raise InvalidInputError("a budget, a plan or a population needs a ledger; pass `ledger`")
    return None


def noise_for(ledger: Ledger, guarantee: Guarantee) -> str:
    """The noise of a release that may choose it: "laplace" or "gaussian" if only one fits.

    Args:
        ledger: which one; of a new one all of the budget is left.
        guarantee: of the release.

    Returns:
        "auto" if both fit, or the guarantee leaves no choice.

    Raises:
        FileError, InvalidInputError: as `Ledger.account`.
        InfeasibleError: neither fits.
    """
    account = ledger.account() or ledger.beginning(Unit())
    if account.plan is not None:
        kinds = {
            planned.noise.value
            for place, planned in enumerate(account.plan.releases)
            if place not in account.made
        }
        return kinds.pop() if len(kinds) == 1 else "auto"
    costs = _costs_of(guarantee)
    fitting = [kind for kind, cost in costs.items() if account.budget.allows(account.spent + cost)]
    if costs and not fitting:
        asked = " or ".join(f"{cost_text(cost)} with {kind} noise" for kind, cost in costs.items())
        raise account.no_room(f"this release has {asked}")
    return fitting[0] if len(fitting) < len(costs) else "auto"


def _costs_of(guarantee: Guarantee) -> dict[str, Cost]:
    """What a release costs with each kind of noise, if it has a choice; see `calibrated_on`."""
    costs: dict[str, Cost] = {}
    if isinstance(guarantee, PureDP | ApproxDP):
        costs["laplace"] = Cost(as_written(guarantee.epsilon))
    if isinstance(guarantee, ApproxDP):
        sigma = analytic_gaussian_scale(1.0, epsilon=guarantee.epsilon, delta=guarantee.delta)
        costs["gaussian"] = Cost(Fraction(0), 1 / Fraction(sigma) ** 2)
    if isinstance(guarantee, CurrencyGuarantee):
        costs["gaussian"] = Cost(Fraction(0), Fraction(guarantee.gaussian_square))
    return costs


def share_of(
    ledger: Ledger, share: float, noise: str = "auto", neighbours: str | None = None
) -> PureDP | GaussianDP:
    """The guarantee of a release that takes a share of the remaining budget of a ledger.

    A share q may be taken for ever, such as once a year: of epsilon, or of mu^2, which adds up
    exactly. After t shares (1 - q)^t is left, whatever was asked and seen in between: the limits
    were fixed when the ledger began.

    Args:
        ledger: which one; of a new one all of the budget is left.
        share: of epsilon for Laplace noise, of mu^2 for Gaussian noise, in (0, 1].
        noise: "laplace", "gaussian", or "auto" for Gaussian noise if the budget has a delta.
        neighbours: None for those of the ledger, or "add-remove".

    Raises:
        FileError: the ledger cannot be read.
        InvalidInputError: a share out of range, or a plan, which contains the noise.
        InfeasibleError: nothing is left.
    """
    if not 0 < number("share", share) <= 1:
        raise InvalidInputError(f"share must be in (0, 1], got {share:g}; use for example 0.2")
    account = ledger.account() or ledger.beginning(Unit())
    if account.plan is not None:
        raise InvalidInputError("a ledger with a plan determines the noise; remove `share`")
    relation = Neighbours(neighbours or account.unit.neighbours)
    left, kind = account.left(), noise
    if kind == "auto":
        kind = "gaussian" if left.gaussian_epsilon else "laplace"
    if not (left.mu if kind == "gaussian" else left.epsilon):
        raise InfeasibleError(
            f"the ledger {account.name!r} has nothing left for {kind.capitalize()} noise; what fits"
            f" is {left}"
        )
    if kind == "gaussian":
        return GaussianDP(float(at_most(left.mu * math.sqrt(share))), relation)
    return PureDP(float(at_most(left.epsilon * share)), relation)


def _mark(account: Account, data: PathName, *, confirm_same_population: bool) -> str:
    """What the ledger stores of data, which are about its people.

    Raises:
        FileError: the data cannot be read.
        InvalidInputError: they have another content than those of earlier releases.
    """
    mark = hmac.new(account.mark_key, _content(data), hashlib.sha256).hexdigest()
    before = {payment.data for payment in account.payments}
    if before and mark not in before and not confirm_same_population:
        raise InvalidInputError(
            f"the ledger {account.name!r} is about {account.population!r}, and {str(data)!r}"
            " differs from the data of earlier releases; pass `confirm_same_population` if it is"
            " about the same people, or use another ledger"
        )
    return mark


def _content(data: PathName) -> bytes:
    """SHA-256 of a file or of several, or of the name of a table in a database."""
    if "://" in str(data):
        return hashlib.sha256(str(data).encode()).digest()
    if not Path(data).is_file():
        each = (_content(file) for file in files_of(Path(data)))
        return hashlib.sha256(b"".join(each)).digest()
    try:
        with Path(data).open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError as error:
        raise FileError(f"cannot read {str(data)!r}: {error.strerror or error}") from None


def _row(account: Account) -> dict[str, Any]:
    """What a ledger begins with, as it is stored."""
    plan = None if account.plan is None else dumps(account.plan.to_json())
    values = {
        "population": account.population,
        "format": FORMAT,
        "unit": account.unit.text,
        "plan": plan,
    }
    values |= {name: float(value) for name, value in vars(account.budget).items()}
    keys = {"mark_key": account.mark_key, "selection_key": account.selection_key}
    return values | {name: key.hex() for name, key in keys.items()}
