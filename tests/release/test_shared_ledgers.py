"""Ledgers of people, in files and in databases that several machines share (here by SQLAlchemy)."""

import json
import sqlite3
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from killed_ledgers import attacked, prepared_release

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ZCDP, ApproxDP, GaussianDP, PureDP
from pmldesign.releases import (
    Ledger,
    charge_of,
    exact_noise,
    read_ledger,
    share_of,
)
from pmldesign.releases.costs import accounts

pytestmark = pytest.mark.usefixtures("quick_disk")


def made(guarantee, noise="auto"):
    return mechanism("identity", "histogram:3", guarantee=guarantee, noise=noise)


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", np.array([3, 1, 4]))
    return tmp_path / "x.npy"


@pytest.fixture(autouse=True)
def server(monkeypatch):
    """SQLite by the way of SQLAlchemy, which takes the statements that PostgreSQL gets."""
    monkeypatch.setitem(accounts.SERVERS, "sqlite", "SELECT 1")


@pytest.fixture(params=["file", "server"])
def place(request, tmp_path):
    return tmp_path / "ledger" if request.param == "file" else f"sqlite:///{tmp_path}/budget.db"


def release(guarantee, data, place, noise="auto", **options):
    options = {"population": "panel", **options}
    return pml.release(made(guarantee, noise), data, ledger=place, **options)


def test_a_ledger_pays_until_the_budget_is_spent(place, data):
    release(PureDP(0.5), data, place, budget="epsilon=1")
    release(PureDP(0.5), data, place)
    with pytest.raises(InfeasibleError, match="no room"):
        release(PureDP(0.01), data, place)
    assert [p.cost.pure for p in read_ledger(place, "panel").payments] == [Fraction(1, 2)] * 2


def test_a_ledger_belongs_to_people_and_knows_their_data(place, data, tmp_path):
    release(PureDP(0.1), data, place, budget="epsilon=1")
    copied, changed = tmp_path / "copy.npy", tmp_path / "changed.npy"
    copied.write_bytes(data.read_bytes())
    np.save(changed, np.array([3, 1, 5]))
    release(PureDP(0.1), copied, place)  # the same people under another name
    with pytest.raises(InvalidInputError, match="pass `confirm_same_population"):
        release(PureDP(0.1), changed, place)
    release(PureDP(0.1), changed, place, confirm_same_population=True)
    release(PureDP(0.1), changed, place)
    assert len(read_ledger(place, "panel").payments) == 4


def test_contents_are_kept_under_a_key_of_the_ledger(place, data, tmp_path):
    release(PureDP(0.1), data, place, budget="epsilon=1")
    release(PureDP(0.1), data, tmp_path / "second", budget="epsilon=1")
    (one,), (two,) = (read_ledger(at, "panel").payments for at in (place, tmp_path / "second"))
    assert one.data != two.data
    assert len(one.data) == 64


def test_other_people_are_refused_or_have_a_ledger_of_their_own(place, data):
    release(PureDP(0.5), data, place, budget="epsilon=0.5")
    if "://" in str(place):
        release(PureDP(0.5), data, place, population="others", budget="epsilon=0.5")
        with pytest.raises(InvalidInputError, match="pass `population`"):
            release(PureDP(0.5), data, place, population=None)
        return
    with pytest.raises(InvalidInputError, match="is about 'panel'"):
        release(PureDP(0.5), data, place, population="others")
    with pytest.raises(InfeasibleError):
        release(PureDP(0.5), data, place, population=None)


def test_a_payment_that_another_machine_has_made_meanwhile_counts(place, data):
    """Both have read the ledger before either of them pays."""
    release(PureDP(0.1), data, place, budget="epsilon=1")
    charge, published = charge_of(exact_noise(made(PureDP(0.5)))), []
    ledger = Ledger(place, "panel")

    def read():
        ledger.pay(charge, data, lambda: "fast", published.append)
        return "slow"

    with pytest.raises(InfeasibleError, match="no room"):
        ledger.pay(charge, data, read, published.append)
    assert published == ["fast"]
    assert len(read_ledger(place, "panel").payments) == 2


def test_of_two_payments_at_one_place_one_decides_again(data, tmp_path, monkeypatch):
    """A server lets both read; the key of the second one is taken, and it reads again."""
    place = f"sqlite:///{tmp_path}/budget.db"
    release(PureDP(0.5), data, place, budget="epsilon=1")
    once, load = [], accounts.load

    def stale(store, ask, population):
        account = load(store, ask, population)
        if len(once) == 1:  # what was read is old by the time it is used
            once.append(2)
            other = f"INSERT INTO pmldesign_payment SELECT population, 1, released, pure, {REST}"
            with sqlite3.connect(tmp_path / "budget.db") as connection:
                connection.execute(f"{other} FROM pmldesign_payment")
            connection.close()
        once.append(1)
        return account

    monkeypatch.setattr("pmldesign.releases.costs.ledger.load", stale)
    with pytest.raises(InfeasibleError, match="no room"):
        release(PureDP(0.25), data, place)
    assert len(once) == 4  # before the data were read, at the payment, and once more
    assert len(read_ledger(place, "panel").payments) == 2


def test_a_ledger_that_begins_between_two_statements_is_not_damaged(place, data):
    """Another process begins it and pays while it is read."""
    charge, ledger = charge_of(exact_noise(made(PureDP(0.5)))), Ledger(place, "panel")
    with ledger._store.transaction(write=True):
        pass  # the tables are there
    begun = []

    def between(statement, values):
        rows = ask(statement, values).fetchall()
        if not begun:
            begun.append(Ledger(place, "panel", budget="epsilon=1").pay(charge, data, str, str))
        return SimpleNamespace(fetchall=lambda: rows)

    with ledger._store.transaction(write=False) as ask:
        account = accounts.load(ledger._store, between, "panel")
    assert account.payments == ()
    assert len(ledger.account().payments) == 1


REST = "squared_ratio, delta, planned, data, day"


@pytest.mark.parametrize("kind", ["file", "server"])
def test_processes_that_are_killed_never_overspend_and_publish_nothing_unpaid(kind, tmp_path):
    place = tmp_path / "ledger" if kind == "file" else f"sqlite:///{tmp_path}/budget.db"
    rng, prepared = np.random.default_rng(1), prepared_release()
    wrong, published, kills = attacked(prepared, place, tmp_path, rng, processes=6, longest=0.3)
    assert not wrong
    assert published + kills


def test_ledgers_of_a_server_that_were_altered_refuse(data, tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"
    for _ in range(3):
        release(PureDP(0.1), data, place, budget="epsilon=1")
    for change in (
        "DELETE FROM pmldesign_payment WHERE place = 1",
        "UPDATE pmldesign_payment SET pure = '-1' WHERE place = 1",
        "UPDATE pmldesign_ledger SET format = 2",
        "DELETE FROM pmldesign_ledger",
    ):
        kept = (tmp_path / "budget.db").read_bytes()
        with sqlite3.connect(tmp_path / "budget.db") as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(FileError, match="damaged"):
            release(PureDP(0.1), data, place)
        (tmp_path / "budget.db").write_bytes(kept)


def test_databases_that_cannot_be_used_are_one_line(data, tmp_path):
    (tmp_path / "text.db").write_text("no database" * 1000)
    for place in (
        f"sqlite:///{tmp_path}/text.db",
        f"sqlite:///{tmp_path}/no/folder.db",
        "postgresql+none://host/db",
    ):
        with pytest.raises(FileError, match=r"the database .* cannot be used"):
            release(PureDP(0.1), data, place, budget="epsilon=1")


GUARANTEES = {
    "pure": lambda left, more: (PureDP(left.epsilon * more), "laplace"),
    "delta": lambda left, more: (ApproxDP(left.gaussian_epsilon * more, left.delta), "gaussian"),
    "mu": lambda left, more: (GaussianDP(left.mu * more), "gaussian"),
    "rho": lambda left, more: (ZCDP(left.rho * more), "gaussian"),
}


@pytest.mark.parametrize("currency", GUARANTEES)
@pytest.mark.parametrize("delta", [None, 1e-9])
def test_the_largest_release_that_is_left_fits_and_no_larger_one(currency, delta, data, tmp_path):
    place = tmp_path / "ledger"
    release(PureDP(0.3), data, place, budget="epsilon=2,delta=1e-6,pure=0.7")
    release(ApproxDP(0.5, 1e-7), data, place, "gaussian")
    left = read_ledger(place).left(delta)
    for more in (1.001, 1.0):
        guarantee, noise = GUARANTEES[currency](left, more)
        account = read_ledger(place)
        if more > 1:
            with pytest.raises(InfeasibleError):
                account.require(charge_of(exact_noise(made(guarantee, noise))))
        else:
            release(guarantee, data, place, noise)
    after = read_ledger(place).left(delta)
    assert after.epsilon == (0.0 if currency == "pure" else left.epsilon)
    assert after.mu < 1e-3 * left.mu or currency == "pure"


def test_the_command_shows_what_was_spent_and_what_is_left(place, data):
    release(PureDP(0.25), data, place, budget="epsilon=2,delta=1e-6,pure=1")
    release(ApproxDP(0.5, 1e-7), data, place, "gaussian")
    words = ["ledger", "show", str(place), "--population", "panel", "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert found["left"]["epsilon"] == 0.75
    assert [row["epsilon"] for row in found["releases"]] == [0.25, 0.0]
    assert found["population"] == "panel"
    shown = CliRunner().invoke(main, words[:-1]).stdout
    assert "epsilon 0.75 with Laplace noise" in shown
    assert CliRunner().invoke(
        main, ["ledger", "show", f"{place}-none", "--population", "x"]
    ).exit_code in (
        2,
        6,
    )


def test_a_planned_ledger_says_which_releases_are_left(data, tmp_path):
    place = tmp_path / "ledger"
    plan = "2*laplace:0.25 + gaussian:mu=0.1"
    release(PureDP(0.25), data, place, budget="epsilon=1,delta=1e-6", plan=plan)
    assert read_ledger(place).left().plan == "laplace:0.25 + gaussian:mu=0.1"


@pytest.mark.parametrize(("noise", "share"), [("gaussian", 0.2), ("laplace", 0.25)])
def test_a_share_of_what_is_left_can_be_taken_every_year(noise, share, place, data):
    """For ever: squares of mu, or epsilons, are a geometric series below the budget."""
    budget = "epsilon=2,delta=1e-6" if noise == "gaussian" else "epsilon=2"
    spent, key = [], "squared_ratio" if noise == "gaussian" else "pure"
    for _ in range(12):
        promise = share_of(Ledger(place, "panel", budget=budget), share, noise)
        release(promise, data, place, noise, budget=budget)
        spent.append(float(getattr(read_ledger(place, "panel").payments[-1].cost, key)))
    assert spent[1:] == pytest.approx([(1 - share) * cost for cost in spent[:-1]], rel=5e-5)
    total = 2.0
    if noise == "gaussian":
        total = read_ledger(place, "panel").left().mu ** 2 + sum(spent)
    assert spent[0] == pytest.approx(share * total, rel=5e-5)


def test_the_command_takes_a_share(tmp_path, data):
    words = ["release", "histogram:3", str(data), "-o", str(tmp_path / "t.csv"), "--share", "0.5"]
    ledger = ["--ledger", str(tmp_path / "ledger"), "--budget", "epsilon=1"]
    result = CliRunner().invoke(main, [*words, *ledger])
    assert result.exit_code == 0, result.output
    assert "e^0.5 times" in result.output
    for more in ([], [*ledger, "--epsilon", "1"], [*ledger[:2], "--budget", "epsilon=2"]):
        assert CliRunner().invoke(main, [*words, *more]).exit_code == 2
    assert CliRunner().invoke(main, [*words[:-1], "1.5", *ledger]).exit_code == 2
    assert CliRunner().invoke(main, [*words, *ledger, "--noise", "gaussian"]).exit_code == 5
