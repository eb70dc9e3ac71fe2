"""The account of a ledger: its initial terms, its payments, and the SQL statements for both.

One table has a row for each ledger, another one a row for each payment. A ledger is a SQLite file,
or in a PostgreSQL database that several machines share and that has the ledgers of many people;
both run the same statements. Costs are exact fractions without a sign, so that nothing is paid
back.

A payment has a place, and the place is a part of the primary key. A process that pays has read all
payments before that place. Of two that write to the same place one is refused, reads the payment of
the other, and decides again; in SQLite the second one waits until the first has written. A planned
release is unique in the same way. A payment is on the disk when its transaction ends: `synchronous
= EXTRA` of SQLite, `synchronous_commit` of PostgreSQL.

With a damaged file, a place without a payment or an invalid number, every release is refused,
because the amount spent is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from pmldesign._version import FORMAT
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError, require_extra
from pmldesign.releases.costs.budget import Budget, Charge, Cost, budget_text, cost_text
from pmldesign.releases.costs.left import Left, left_of
from pmldesign.releases.costs.plan import Plan, plan_from_json
from pmldesign.releases.costs.unit import Unit, unit_from
from pmldesign.releases.noise import ExactNoise
from pmldesign.store import Kind, opened, transaction

TABLES = """
CREATE TABLE IF NOT EXISTS pmldesign_ledger (
    population TEXT PRIMARY KEY, format INTEGER NOT NULL, unit TEXT NOT NULL,
    epsilon DOUBLE PRECISION NOT NULL, delta DOUBLE PRECISION NOT NULL,
    pure DOUBLE PRECISION NOT NULL, plan TEXT, mark_key TEXT NOT NULL, selection_key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pmldesign_payment (
    population TEXT NOT NULL, place INTEGER NOT NULL, released TEXT NOT NULL, pure TEXT NOT NULL,
    squared_ratio TEXT NOT NULL, delta TEXT NOT NULL, planned INTEGER, data TEXT NOT NULL,
    day TEXT NOT NULL, PRIMARY KEY (population, place), UNIQUE (population, planned))
"""
HEAD = (
    "population",
    "format",
    "unit",
    "epsilon",
    "delta",
    "pure",
    "plan",
    "mark_key",
    "selection_key",
)
PAYMENT = ("place", "released", "pure", "squared_ratio", "delta", "planned", "data", "day")
COSTS = ("pure", "squared_ratio", "delta")
FRACTION = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?")
SERVERS = {"postgresql": "SET LOCAL synchronous_commit TO on"}
"""Databases that several machines share, with the setting that makes a transaction durable."""


Ask = Callable[[str, Mapping[str, Any]], Any]
"""Runs a statement in an open transaction; a cursor with `fetchall` and `rowcount`."""


class FileStore:
    """A SQLite file with one ledger.

    Args:
        path: of the file.
    """

    where = ""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Ask | None]:
        """One transaction; without `write` None if the tables do not exist yet.

        Raises:
            FileError: the file cannot be read or written, or is damaged.
        """
        if not write and not self._path.exists():
            yield None
            return
        with opened(self._path, Kind.LEDGER, TABLES, new=write) as database:
            if database.empty:
                yield None
                return
            if database.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise damaged(self.name)
            if not write:
                yield database.execute
                return
            with transaction(database):
                yield database.execute


class ServerStore:
    """A database with the ledgers of many people.

    Args:
        address: of the database.
    """

    where = " WHERE population = :population"

    def __init__(self, address: str) -> None:
        require_extra("a ledger in a database", "sqlalchemy", "sql")
        import sqlalchemy

        self.name = address.split("@")[-1]
        with self._errors():
            url = sqlalchemy.make_url(address)
            self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        self._durable = SERVERS[url.get_backend_name()]

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Ask | None]:
        """As `FileStore.transaction`."""
        import sqlalchemy

        with self._errors():
            begun = sqlalchemy.inspect(self._engine).has_table("pmldesign_payment")
            if not begun and not write:
                yield None
                return
            for statement in () if begun else TABLES.split(";"):
                # another process may create the table at the same moment
                with suppress(sqlalchemy.exc.IntegrityError), self._engine.begin() as connection:
                    connection.exec_driver_sql(statement)
            with self._engine.begin() as connection:
                connection.exec_driver_sql(self._durable)
                yield lambda statement, values: connection.execute(
                    sqlalchemy.text(statement), values
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the database as one line."""
        import sqlalchemy

        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            raise FileError(f"the database {self.name!r} cannot be used: {reason}") from None


@dataclass(frozen=True)
class Payment:
    """A release that was paid for.

    Attributes:
        released: description of the release, in words.
        cost: of it.
        data: HMAC-SHA256 of the content of the data.
        day: of the payment, in UTC.
    """

    released: str
    cost: Cost
    data: str
    day: str


@dataclass(frozen=True)
class Account:
    """A ledger as it is at some moment.

    Attributes:
        name: of the ledger, for messages.
        population: name of the people.
        unit: of privacy.
        budget: the limits that all releases together keep.
        plan: the noise that was fixed beforehand, if any.
        mark_key: of the marks of data.
        selection_key: of the choice of rows of a person.
        payments: one for each release.
    """

    name: str
    population: str
    unit: Unit
    budget: Budget
    plan: Plan | None
    mark_key: bytes = field(repr=False)
    selection_key: bytes = field(repr=False)
    payments: tuple[Payment, ...] = ()

    @cached_property
    def spent(self) -> Cost:
        """What all releases cost together."""
        return sum((payment.cost for payment in self.payments), Cost(Fraction(0)))

    @property
    def made(self) -> list[int]:
        """The planned releases that were made, by number."""
        return [p.cost.planned for p in self.payments if p.cost.planned is not None]

    def left(self, delta: float | None = None) -> Left:
        """What still fits; of Gaussian noise at `delta`, None for that of the budget."""
        if self.plan is None:
            return left_of(self.budget, self.spent, delta)
        made = set(self.made)
        rest = [noise for number, noise in enumerate(self.plan.releases) if number not in made]
        return Left(0.0, 0.0, 0.0, 0.0, Plan(tuple(rest)).text if rest else "nothing")

    def lines(self) -> Iterator[dict[str, Any]]:
        """All of it except the keys: its initial terms, then each payment, with exact costs."""
        plan = None if self.plan is None else self.plan.to_json()
        said = {
            "population": self.population,
            "unit": asdict(self.unit),
            "budget": asdict(self.budget),
        }
        yield {"ledger": FORMAT, **said, "plan": plan}
        for payment in self.payments:
            costs = {name: str(getattr(payment.cost, name)) for name in COSTS}
            told = {"release": payment.released, "day": payment.day, "data": payment.data}
            yield told | costs | {"planned": payment.cost.planned}

    def require(self, charge: Charge) -> Cost:
        """The cost of a release, if the budget has room for it, or the plan contains it.

        Raises:
            InvalidInputError: the release is about another unit of privacy, or not in the plan.
            InfeasibleError: the budget has no room.
        """
        if charge.unit != self.unit:
            raise InvalidInputError(
                f"the ledger {self.name!r} is about {self.unit}, the release is about"
                f" {charge.unit}; use another ledger for it: costs of different units do not add up"
            )
        if self.plan is not None:
            return replace(charge.cost, planned=self.plan.next_for(_planned(charge), self.made))
        if not self.budget.allows(self.spent + charge.cost):
            raise self.no_room(f"this release has {cost_text(charge.cost)}")
        return charge.cost

    def no_room(self, asked: str) -> InfeasibleError:
        """The refusal of a release that exceeds the budget, with the cost that would fit."""
        before = f"those before it have {cost_text(self.spent)}, " if self.payments else ""
        return InfeasibleError(
            f"the budget has no room: {asked}, {before}the budget is {budget_text(self.budget)};"
            f" what fits is {self.left()}"
        )


def load(store: FileStore | ServerStore, ask: Ask, population: str | None) -> Account | None:
    """The ledger in a store; None if it has not begun.

    Args:
        store: a file or a database.
        ask: in its open transaction.
        population: whose ledger, in a database.

    Raises:
        FileError: it is damaged.
    """
    found = []
    # payments first: another process may begin the ledger, and pay, between the two statements
    for table, columns in ((f"payment{store.where} ORDER BY place", PAYMENT), ("ledger", HEAD)):
        where = store.where if table == "ledger" else ""
        statement = f"SELECT {', '.join(columns)} FROM pmldesign_{table}{where}"
        found.append(ask(statement, {"population": population}).fetchall())
    rows, heads = found
    if not heads and not rows:
        return None
    try:
        (head,) = heads
        return _account(store.name, head, [_payment(*pair) for pair in enumerate(rows)])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InvalidInputError):
        raise damaged(store.name) from None


def insert(ask: Ask, table: str, values: Mapping[str, Any]) -> bool:
    """Write a row; False if there is one with its key already."""
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    statement = f"INSERT INTO pmldesign_{table} ({columns}) VALUES ({places})"
    return bool(ask(f"{statement} ON CONFLICT DO NOTHING", values).rowcount == 1)


def _account(name: str, head: Any, payments: list[Payment]) -> Account:
    """The account of a row; an error of any kind if it was not written here."""
    population, number, unit, epsilon, delta, pure, plan, *keys = head
    mark_key, selection_key = (bytes.fromhex(key) for key in keys)
    planned = None if plan is None else plan_from_json(json.loads(plan))
    budget = Budget(epsilon, delta, pure)
    account = Account(
        name, population, unit_from(unit), budget, planned, mark_key, selection_key, tuple(payments)
    )
    foreseen = range(0 if planned is None else len(planned.releases))
    sound = (
        number == FORMAT and type(population) is str and len(mark_key) == len(selection_key) == 32
    )
    sound = sound and set(account.made) <= set(foreseen)
    sound = sound and len(set(account.made)) == (0 if planned is None else len(payments))
    if not sound:
        raise ValueError
    for total in (account.spent.pure, account.spent.squared_ratio, account.spent.delta):
        float(total)  # OverflowError: no release can have cost so much
    return account


def _payment(place: int, row: Any) -> Payment:
    """The payment of a row; ValueError or TypeError if it was not written here."""
    found, released, pure, squared_ratio, delta, planned, data, day = row
    texts = (released, pure, squared_ratio, delta, data, day)
    if found != place or type(planned) not in (int, type(None)):
        raise ValueError
    "".join(texts)  # TypeError if one is not a string
    cost = Cost(_fraction(pure), _fraction(squared_ratio), _fraction(delta), planned)
    return Payment(released, cost, data, day)


def _fraction(text: str) -> Fraction:
    """A cost as it was written, without a sign."""
    if not FRACTION.fullmatch(text):
        raise ValueError
    return Fraction(text)


def damaged(name: str) -> FileError:
    """Why nothing is released."""
    return FileError(
        f"the ledger {name!r} is damaged; what was spent is not known, so nothing is released"
    )


def _planned(charge: Charge) -> ExactNoise:
    """The noise of a release for which a plan may have a place."""
    if charge.noise is None:
        raise InvalidInputError(
            f"a ledger with a plan is for the tables that it names, and this is {charge.release};"
            " use a ledger without a plan"
        )
    return charge.noise
