"""Ledgers of people, in files and in databases that several machines share."""

import json
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from killed_ledgers import attacked, prepared_release

from pmldesign.cli import main
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ZCDP, ApproxDP, GaussianDP, PureDP
from pmldesign.release import (
    Ledger,
    exact_noise,
    left_of,
    open_ledger,
    read_ledger,
    release_tables,
    share_of,
)


def made(guarantee, noise="auto"):
    return mechanism("identity", "histogram:3", guarantee=guarantee, noise=noise)


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", np.array([3, 1, 4]))
    return tmp_path / "x.npy"


@pytest.fixture(params=["file", "sqlite"])
def place(request, tmp_path):
    return tmp_path / "ledger" if request.param == "file" else f"sqlite:///{tmp_path}/budget.db"


def release(guarantee, data, place, noise="auto", **options):
    options = {"people": "panel", **options}
    return release_tables(made(guarantee, noise), data, ledger=place, **options)


def test_a_ledger_pays_until_the_budget_is_spent(place, data):
    release(PureDP(0.5), data, place, budget="epsilon=1")
    release(PureDP(0.5), data, place)
    with pytest.raises(InfeasibleError, match="no room"):
        release(PureDP(0.01), data, place)
    assert [entry["pure"] for entry in read_ledger(place, "panel").releases] == ["1/2"] * 2


def test_a_ledger_belongs_to_people_and_knows_their_data(place, data, tmp_path):
    release(PureDP(0.1), data, place, budget="epsilon=1")
    copied, changed = tmp_path / "copy.npy", tmp_path / "changed.npy"
    copied.write_bytes(data.read_bytes())
    np.save(changed, np.array([3, 1, 5]))
    release(PureDP(0.1), copied, place)  # the same people under another name
    with pytest.raises(InvalidInputError, match="add --same-people"):
        release(PureDP(0.1), changed, place)
    release(PureDP(0.1), changed, place, same_people=True)
    release(PureDP(0.1), changed, place)
    assert len(read_ledger(place, "panel").releases) == 4


def test_contents_are_kept_under_a_key_of_the_ledger(place, data, tmp_path):
    release(PureDP(0.1), data, place, budget="epsilon=1")
    release(PureDP(0.1), data, tmp_path / "second", budget="epsilon=1")
    (one,), (two,) = (read_ledger(at, "panel").releases for at in (place, tmp_path / "second"))
    assert one["data"] != two["data"]
    assert len(one["data"]) == 64


def test_other_people_are_refused_or_have_a_ledger_of_their_own(place, data):
    release(PureDP(0.5), data, place, budget="epsilon=0.5")
    if "://" in str(place):
        release(PureDP(0.5), data, place, people="others", budget="epsilon=0.5")
        with pytest.raises(InvalidInputError, match="say whose"):
            release(PureDP(0.5), data, place, people=None)
        return
    with pytest.raises(InvalidInputError, match="is about 'panel'"):
        release(PureDP(0.5), data, place, people="others")
    with pytest.raises(InfeasibleError):
        release(PureDP(0.5), data, place, people=None)


def test_a_line_that_another_machine_has_written_meanwhile_counts(data, tmp_path):
    """Both have read the ledger before either of them writes."""
    place = f"sqlite:///{tmp_path}/budget.db"
    noise, ledger = exact_noise(made(PureDP(0.6))), Ledger(place, "panel", budget="epsilon=1")
    with open_ledger(ledger, noise, data) as slow:
        slow.require(noise)
        with open_ledger(ledger, noise, data) as fast:
            fast.require(noise)
            fast.spend(noise, None)
        with pytest.raises(InfeasibleError, match="no room"):
            slow.spend(noise, None)
    assert len(read_ledger(place, "panel").releases) == 1


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_processes_that_are_killed_never_overspend_and_publish_nothing_unpaid(kind, tmp_path):
    place = tmp_path / "ledger" if kind == "file" else f"sqlite:///{tmp_path}/budget.db"
    rng, prepared = np.random.default_rng(1), prepared_release()
    wrong, published, kills = attacked(prepared, place, tmp_path, rng, processes=6, longest=0.3)
    assert not wrong
    assert published + kills


def test_lines_of_a_database_that_were_deleted_or_damaged_refuse(data, tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"
    for _ in range(3):
        release(PureDP(0.1), data, place, budget="epsilon=1")
    for change in (
        "DELETE FROM pmldesign_ledger WHERE place = 2",
        "UPDATE pmldesign_ledger SET line = '{}' WHERE place = 1",
        "UPDATE pmldesign_ledger SET line = CAST(line AS BLOB) WHERE place = 1",
    ):
        kept = (tmp_path / "budget.db").read_bytes()
        with sqlite3.connect(tmp_path / "budget.db") as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(FileError, match="damaged"):
            release(PureDP(0.1), data, place)
        (tmp_path / "budget.db").write_bytes(kept)
    (tmp_path / "budget.db").write_bytes(kept[:-700])  # its rows are there, their order is not
    with pytest.raises(FileError, match=r"damaged|cannot be used"):
        release(PureDP(0.1), data, place, budget="epsilon=1")


def test_databases_that_cannot_be_used_are_one_line(data, tmp_path):
    (tmp_path / "text.db").write_text("no database" * 1000)
    for place in (
        f"sqlite:///{tmp_path}/text.db",
        f"sqlite:///{tmp_path}/no/folder.db",
        "postgresql+none://host/db",
    ):
        with pytest.raises(FileError, match="shared ledger"):
            release(PureDP(0.1), data, place, budget="epsilon=1")
    with pytest.raises(InvalidInputError, match="SQLite or PostgreSQL"):
        release(PureDP(0.1), data, "mysql://host/db", budget="epsilon=1")


def test_ledgers_of_the_first_format_go_on(data, tmp_path):
    head = {"ledger": 1, "data": str(data), "unit": "add-remove neighbours with 1 row a person"}
    head |= {"epsilon": 1.0, "delta": 0.0, "pure": 1.0}
    line = {"release": "x", "pure": "3/4", "squared_ratio": "0"}
    (tmp_path / "old").write_text(f"{json.dumps(head)}\n{json.dumps(line)}\n")
    release(PureDP(0.25), data, tmp_path / "old", people=None)
    with pytest.raises(InfeasibleError):
        release(PureDP(0.25), data, tmp_path / "old", people=None)


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
    left = left_of(read_ledger(place), delta)
    for more in (1.001, 1.0):
        guarantee, noise = GUARANTEES[currency](left, more)
        account = read_ledger(place)
        if more > 1:
            with pytest.raises(InfeasibleError):
                account.require(exact_noise(made(guarantee, noise)))
        else:
            release(guarantee, data, place, noise)
    after = left_of(read_ledger(place), delta)
    assert after.epsilon == (0.0 if currency == "pure" else left.epsilon)
    assert after.mu < 1e-3 * left.mu or currency == "pure"


def test_the_command_shows_what_was_spent_and_what_is_left(place, data):
    release(PureDP(0.25), data, place, budget="epsilon=2,delta=1e-6,pure=1")
    release(ApproxDP(0.5, 1e-7), data, place, "gaussian")
    words = ["ledger", str(place), "--people", "panel", "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert found["left"]["epsilon"] == 0.75
    assert [row["epsilon"] for row in found["releases"]] == [0.25, 0.0]
    assert found["people"] == "panel"
    shown = CliRunner().invoke(main, words[:-1]).stdout
    assert "epsilon 0.75 with Laplace noise" in shown
    assert CliRunner().invoke(main, ["ledger", f"{place}-none", "--people", "x"]).exit_code in (
        2,
        6,
    )


def test_a_planned_ledger_says_which_releases_are_left(data, tmp_path):
    place = tmp_path / "ledger"
    plan = "2*laplace:0.25 + gaussian:mu=0.1"
    release(PureDP(0.25), data, place, budget="epsilon=1,delta=1e-6", plan=plan)
    assert left_of(read_ledger(place)).plan == "laplace:0.25 + gaussian:mu=0.1"


def test_an_entry_of_the_registry_says_what_was_promised_together(data, tmp_path):
    place = tmp_path / "ledger"
    release(PureDP(0.25), data, place, budget="epsilon=2,delta=1e-6,pure=1")
    words = ["ledger", str(place), "--registry", str(tmp_path / "entry.yaml")]
    assert CliRunner().invoke(main, words).exit_code == 0
    loss = json.loads((tmp_path / "entry.yaml").read_text())["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 0.25}
    release(ApproxDP(0.5, 1e-6), data, place, "gaussian")
    CliRunner().invoke(main, words)
    loss = json.loads((tmp_path / "entry.yaml").read_text())["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": pytest.approx(0.75, abs=1e-5), "delta": 1e-6}


@pytest.mark.parametrize(("noise", "share"), [("gaussian", 0.2), ("laplace", 0.25)])
def test_a_share_of_what_is_left_can_be_taken_every_year(noise, share, place, data):
    """For ever: squares of mu, or epsilons, are a geometric series below the budget."""
    budget = "epsilon=2,delta=1e-6" if noise == "gaussian" else "epsilon=2"
    spent, key = [], "squared_ratio" if noise == "gaussian" else "pure"
    for _ in range(12):
        promise = share_of(Ledger(place, "panel", budget=budget), share, noise)
        release(promise, data, place, noise, budget=budget)
        spent.append(float(Fraction(read_ledger(place, "panel").releases[-1][key])))
    assert spent[1:] == pytest.approx([(1 - share) * cost for cost in spent[:-1]], rel=5e-5)
    total = 2.0
    if noise == "gaussian":
        total = left_of(read_ledger(place, "panel")).mu ** 2 + sum(spent)
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
