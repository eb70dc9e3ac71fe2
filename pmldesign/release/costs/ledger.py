r"""The ledger: what releases about some people have cost, and a budget that they stay within.

A line for the budget and one for each release (`lines`). Costs are exact fractions:
epsilon_i of releases with Laplace noise, mu_i^2 = Delta^2 / sigma^2 of those with Gaussian noise.
All together are (epsilon, delta)-differentially private with

    delta = delta_mu(epsilon - sum epsilon_i),    mu^2 = sum mu_i^2,

delta_mu the profile of one Gaussian release, also where later releases are chosen after earlier
ones were seen. What is epsilon_i-private but for a probability delta_i (drafts of schemas) adds
this to delta. The limits on sum epsilon_i ("pure", 0 unless the budget says otherwise) and on mu^2
are fixed when the ledger begins. kappa of the discrete Gaussian (`exact_noise`) is covered by 2^-40
of mu. Pointwise maximal leakage does not compose in this way, and is refused.

Instead, the noise of all releases may be fixed in the first line, a plan (`plan`), whose privacy
losses compose to less; each of its releases is made once, and no other. To choose noise later by
the losses so far would not be valid (arXiv 2602.06756).

The order: read; refuse; read and check the data; write the cost to the disk, after all lines that
were read (`lines`); only then draw. A crash after that leaves the budget spent and nothing
published. Nothing is ever paid back.

A ledger belongs to people, not to a path. It holds a random key, and of the data of each release
HMAC-SHA256 of their content under that key: data that no release was about are refused, unless
somebody says that they are about the same people.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pmldesign.arguments import flags, instance
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.files.atomic import PathName, as_path, undisturbed
from pmldesign.release.costs.budget import (
    Budget,
    Charge,
    Cost,
    budget_text,
    charge_of,
    cost_text,
    parse_budget,
    require_within,
)
from pmldesign.release.costs.lines import (
    FORMAT,
    LIMITS,
    Store,
    append_line,
    damaged,
    entry_of,
    is_shared,
    numbers_of,
    opened_store,
    read_lines,
    total_of,
)
from pmldesign.release.costs.plan import Plan, parse_plan, plan_from_json
from pmldesign.release.noise import ExactNoise

PAID = "note: the release is paid for, so it is finished first; a second signal would lose it\n"
Data = TypeVar("Data")
Published = TypeVar("Published")


@dataclass(frozen=True)
class Ledger:
    """Which ledger pays for a release, and what a new one begins with.

    Attributes:
        place: a path, or the address of a database that several machines share.
        people: what the people are called; None for the name that the ledger has.
        same_people: whether data of another content than before are about these people.
        budget: of a new ledger.
        plan: of a new ledger, if any.
    """

    place: PathName
    people: str | None = None
    same_people: bool = False
    budget: Budget | str | None = None
    plan: Plan | str | None = None

    def __post_init__(self) -> None:
        if not is_shared(self.place):
            as_path(self.place, "ledger")
        flags(same_people=self.same_people)
        instance("people", self.people, str | None, "a name, or None")
        instance("budget", self.budget, Budget | str | None, "such as 'epsilon=3,delta=1e-6'")
        instance("plan", self.plan, Plan | str | None, "such as '4*laplace:0.1'")

    @cached_property
    def limits(self) -> Budget | None:
        """The budget of a new ledger."""
        return parse_budget(self.budget) if isinstance(self.budget, str) else self.budget

    @cached_property
    def planned(self) -> Plan | None:
        """The plan of a new ledger, if any; InfeasibleError if it is more than the budget."""
        plan = parse_plan(self.plan) if isinstance(self.plan, str) else self.plan
        if plan is not None and self.limits is not None:
            require_within(plan, self.limits)
        return plan

    @property
    def name(self) -> str:
        """What messages call it, without a password."""
        return str(self.place).split("@")[-1]

    def pay(
        self,
        noise: ExactNoise | Charge,
        data: Any,
        read: Callable[[], Data],
        publish: Callable[[Data], Published],
    ) -> Published:
        """What is published of data, after the ledger has paid: read, refuse, write, then draw.

        Args:
            noise: what is to be paid for.
            data: a file, or a name that stands for a table of a database.
            read: the data, checked.
            publish: draws the noise; signals wait from the payment until it is done.

        Raises:
            FileError: the ledger or the data cannot be read or written.
            InvalidInputError: other data than a file, people, budget or plan.
            InfeasibleError: there is no room.
        """
        if not isinstance(data, str | Path):
            raise InvalidInputError("a ledger is kept for a file of data; give its path")
        new = existing(self) is None
        if new:  # nothing is left of a ledger that begins with a refusal
            _require_beginning(self, charge_of(noise))
            content = read()
        with open_ledger(self, noise, data) as account:
            account.require(noise)
            mark = account.recognise(data, same_people=self.same_people)
            content = content if new else read()
            with undisturbed(PAID):
                account.spend(noise, mark)
                return publish(content)


class Account:
    """An open ledger.

    Attributes:
        budget: the limits that all releases together keep.
        plan: the noise that was fixed beforehand, if any.
        head: the first line.
        releases: the others.
        spent: what these cost together.
        made: which of the planned releases they are.
    """

    def __init__(self, store: Store, entries: list[dict[str, Any]]) -> None:
        self._store = store
        self._load(entries)

    def _load(self, entries: list[dict[str, Any]]) -> None:
        self.head, *self.releases = entries
        try:
            self.budget = Budget(*(self.head[key] for key in LIMITS))
            self.plan = plan_from_json(self.head["plan"]) if "plan" in self.head else None
            self.spent = total_of(self.releases)
            self.made = numbers_of(self.releases, self.plan)
        except (KeyError, TypeError, ValueError, OverflowError, InvalidInputError):
            raise damaged(self._store) from None

    @property
    def people(self) -> str:
        """What they are called, or where their data were."""
        return str(self.head.get("people", self.head.get("data")))

    def require(self, noise: ExactNoise | Charge) -> Cost:
        """The cost of a release, if the budget has room for it, or the plan has foreseen it.

        Raises:
            InvalidInputError: the release does not compose, or is about another unit of privacy.
            InfeasibleError: there is no room.
        """
        charge = charge_of(noise)
        unit, cost = charge.unit, charge.cost
        if unit != self.head["unit"]:
            raise InvalidInputError(
                f"the ledger {self._store.name!r} is about {self.head['unit']}, the release about "
                f"{unit}; keep a ledger for each, whose costs add up"
            )
        if self.plan is not None:
            return replace(cost, planned=self.plan.next_for(_planned(charge), self.made))
        _require_room(self.budget, self.spent, cost)
        return cost

    def recognise(self, data: PathName, *, same_people: bool) -> str | None:
        """What the ledger remembers of data, which are about its people.

        Args:
            data: a file, or a name that stands for a table of a database.
            same_people: whether somebody says so of data of another content.

        Raises:
            FileError: the data cannot be read.
            InvalidInputError: they have another content than those of earlier releases.
        """
        if "key" not in self.head:
            if self.people != os.path.realpath(data) and not same_people:
                raise InvalidInputError(f"the ledger {self._store.name!r} is about {self.people!r}")
            return None
        mark = hmac.new(self.head["key"].encode(), _content(data), hashlib.sha256).hexdigest()
        before = {entry.get("data") for entry in self.releases}
        if before and mark not in before and not same_people:
            raise InvalidInputError(
                f"the ledger {self._store.name!r} is about {self.people!r}, and {str(data)!r} has"
                " another content than the data of earlier releases; if it is about the same"
                " people, add --same-people, and name another ledger if it is not"
            )
        return mark

    def spend(self, noise: ExactNoise | Charge, mark: str | None) -> None:
        """Write the cost of a release down; nothing may be drawn before this returns.

        Raises:
            FileError: the system refuses to write.
            InvalidInputError, InfeasibleError: as `require`, of releases that came in between.
        """
        beside = {} if mark is None else {"data": mark}
        beside["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        while True:
            entry = entry_of(charge_of(noise).release, self.require(noise)) | beside
            if append_line(self._store, 1 + len(self.releases), entry):
                return
            self._load(read_lines(self._store))


@contextmanager
def open_ledger(ledger: Ledger, noise: ExactNoise | Charge, data: PathName) -> Iterator[Account]:
    """The ledger of people; a new one begins with the budget, and perhaps a plan.

    Raises:
        FileError: it cannot be read or written, or is damaged.
        InvalidInputError: no budget, or another one, another plan or other people than it began
            with.
        InfeasibleError: the plan is more than the budget.
    """
    budget, plan, charge = ledger.limits, ledger.planned, charge_of(noise)
    with opened_store(ledger.place, ledger.people, new=True) as store:
        entries = read_lines(store)
        if not entries:
            started = required_budget(ledger)
            head = {"ledger": FORMAT, "people": ledger.people or os.path.realpath(data)}
            head |= {"key": secrets.token_hex(32), "unit": charge.unit, **vars(started)}
            append_line(store, 0, head if plan is None else {**head, "plan": plan.to_json()})
            entries = read_lines(store)
        account = Account(store, entries)
        _require_same(account, ledger, budget, plan)
        yield account


def read_ledger(place: PathName, people: str | None = None) -> Account:
    """A ledger as it is, to be looked at; raises as `open_ledger`."""
    account = existing(Ledger(place, people))
    if account is None:
        raise FileError(f"there is no ledger {str(place)!r} yet")
    return account


def ledger_of(place: PathName | None, **told: Any) -> Ledger | None:
    """The ledger with what is told of it; None without one.

    Raises:
        InvalidInputError: something is told, and there is no ledger.
    """
    if place is not None:
        return Ledger(place, **told)
    if any(value is not None and value is not False for value in told.values()):
        raise InvalidInputError(
            "a budget, a plan or a name of people needs a ledger; add --ledger FILE"
        )
    return None


def _planned(charge: Charge) -> ExactNoise:
    """The noise of a release for which a plan may have a place."""
    if charge.noise is None:
        raise InvalidInputError(
            f"a ledger with a plan is for the tables that it names, and this is {charge.release};"
            " take a ledger without a plan"
        )
    return charge.noise


def existing(ledger: Ledger) -> Account | None:
    """A ledger that has begun; None for a new one. Raises as `read_ledger`."""
    if not is_shared(ledger.place) and not Path(ledger.place).exists():
        return None
    with opened_store(ledger.place, ledger.people, new=False) as store:
        entries = read_lines(store)
        return Account(store, entries) if entries else None


def required_budget(ledger: Ledger) -> Budget:
    """The budget with which a new ledger begins.

    Raises:
        InvalidInputError: there is none.
    """
    if ledger.limits is None:
        raise InvalidInputError(
            f"{ledger.name!r} is a new ledger; give --budget epsilon=3,delta=1e-6"
        )
    return ledger.limits


def _require_beginning(ledger: Ledger, charge: Charge) -> None:
    """Refuse a new ledger without a budget, or without room or a plan for its first release."""
    budget, plan = required_budget(ledger), ledger.planned
    if plan is None:
        _require_room(budget, Cost(Fraction(0)), charge.cost)
    else:
        plan.next_for(_planned(charge), ())


def _require_room(budget: Budget, spent: Cost, cost: Cost) -> None:
    if not budget.allows(spent + cost):
        raise InfeasibleError(
            f"the budget has no room: this release has {cost_text(cost)}, those before it have "
            f"{cost_text(spent)}, the budget is {budget_text(budget)}; take a smaller epsilon"
        )


def _require_same(
    account: Account, ledger: Ledger, budget: Budget | None, plan: Plan | None
) -> None:
    """Refuse another budget, another plan or other people than a ledger began with."""
    name = ledger.name
    if ledger.people is not None and ledger.people != account.people:
        raise InvalidInputError(f"the ledger {name!r} is about {account.people!r}; name another")
    if budget is not None and budget != account.budget:
        raise InvalidInputError(
            f"the ledger {name!r} began with {budget_text(account.budget)}; a budget is "
            "fixed beforehand: leave --budget out"
        )
    if plan is not None and plan != account.plan:
        began = "no plan" if account.plan is None else f"the plan {account.plan.text}"
        raise InvalidInputError(
            f"the ledger {name!r} began with {began}; a plan is fixed beforehand: leave "
            "--plan out, or begin another ledger for other data"
        )


def _content(data: PathName) -> bytes:
    """SHA-256 of a file, or of the name of a table in a database."""
    if "://" in str(data):
        return hashlib.sha256(str(data).encode()).digest()
    try:
        with Path(data).open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError as error:
        raise FileError(f"cannot read {str(data)!r}: {error.strerror or error}") from None
