"""The ledger: no answer without its entry, never above the budget, exact composition."""

import math
import multiprocessing
import re
import resource
import sqlite3
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from click.testing import CliRunner

from pmldesign.api import workload
from pmldesign.cli import main
from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ZCDP, ApproxDP, Neighbours, PureDP
from pmldesign.releases import (
    Budget,
    Ledger,
    charge_of,
    check_paths,
    cost_of,
    exact_noise,
    noise_for,
    parse_budget,
    prepare,
    private_draft,
    read_ledger,
    release,
)
from pmldesign.strategies import baseline
from pmldesign.workloads import parse_workload

pytestmark = pytest.mark.usefixtures("quick_disk")
QUERIES = parse_workload("prefix:4")
GAUSSIAN = ApproxDP(0.5, 1e-7)
BUDGET = Budget(1.0, 1e-6, 0.25)


def made(guarantee, noise="auto"):
    strategy = baseline("identity", QUERIES)
    return mechanism(strategy, QUERIES, guarantee=guarantee, noise=noise)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "counts.npy"
    np.save(path, np.array([3, 1, 4, 1]))
    return path


def payments(path):
    return read_ledger(path).payments


def affordable(data, ledger):
    try:
        release(made(GAUSSIAN, "gaussian"), data, ledger=ledger, budget=BUDGET)
    except InfeasibleError:
        return False
    return True


def test_releases_are_paid_for_until_the_budget_is_spent(tmp_path, data):
    ledger = tmp_path / "ledger"
    count = 0
    while count < 20 and affordable(data, ledger):
        count += 1
    assert len(payments(ledger)) == count
    assert 2 <= count < 20
    # at 50 digits: what was spent keeps the promise, another release would not have
    mu2 = sum(payment.cost.squared_ratio for payment in payments(ledger))
    with mpmath.workdps(50):
        for times, kept in ((1, True), (Fraction(count + 1, count), False)):
            mu = mpmath.sqrt(mpmath.mpf((mu2 * times).numerator) / (mu2 * times).denominator)
            rest = mpmath.mpf(BUDGET.epsilon - BUDGET.pure)
            x = rest / mu - mu / 2
            delta = mpmath.ncdf(-x) - mpmath.e**rest * mpmath.ncdf(-x - mu)
            assert (delta <= BUDGET.delta) is kept
    release(made(PureDP(0.25)), data, ledger=ledger)
    with pytest.raises(InfeasibleError):
        release(made(PureDP(1e-3)), data, ledger=ledger)


def test_the_whole_budget_can_be_spent_at_once(tmp_path, data):
    for number, guarantee in enumerate((ApproxDP(1.0, 1e-6), PureDP(1.0))):
        noise = "gaussian" if number == 0 else "laplace"
        budget = Budget(1.0, 1e-6 if number == 0 else 0.0, float(number))
        ledger = tmp_path / f"{number}"
        release(made(guarantee, noise), data, ledger=ledger, budget=budget)
        with pytest.raises(InfeasibleError):
            release(made(guarantee, noise), data, ledger=ledger)


def test_costs_are_those_of_the_lattice():
    noise = exact_noise(made(GAUSSIAN, "gaussian"))
    ratio = cost_of(noise).squared_ratio
    assert ratio == Fraction(noise.sensitivity) / Fraction(noise.continuous) ** 2
    laplace = exact_noise(made(PureDP(0.7)))
    assert Fraction(0.7) * (1 - Fraction(1, 2**50)) < cost_of(laplace).pure <= Fraction(0.7)


def _one_release(path, data, results):
    try:
        release(made(PureDP(1.0)), data, ledger=path)
        results.put("published")
    except InfeasibleError:
        results.put("refused")


def test_two_processes_do_not_overspend(tmp_path, data):
    ledger = tmp_path / "ledger"
    release(made(PureDP(1.0)), data, ledger=ledger, budget=Budget(2.0, 0.0, 2.0))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_one_release, args=(ledger, data, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(outcomes) == ["published", "refused", "refused", "refused"]
    assert len(payments(ledger)) == 2


def test_a_crash_after_the_entry_leaves_it_spent(tmp_path, data):
    ledger = tmp_path / "ledger"

    def crash(*_):
        # the payment is on the disk before any noise is drawn
        assert len(payments(ledger)) == 1
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        release(made(PureDP(1.0)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0), sampler=crash)
    assert len(payments(ledger)) == 1
    with pytest.raises(InfeasibleError):
        release(made(PureDP(1.0)), data, ledger=ledger)


@pytest.mark.parametrize("step", ["manifest", "table"])
def test_a_crash_between_noise_and_table_publishes_nothing(tmp_path, data, monkeypatch, step):
    ledger, renamed = tmp_path / "ledger", []

    def crash(path, target):
        renamed.append(target.name)
        if len(renamed) == (1 if step == "manifest" else 2):
            raise RuntimeError("power cut")
        return rename(path, target)

    rename = type(tmp_path).replace
    monkeypatch.setattr(type(tmp_path), "replace", crash)
    found = release(made(PureDP(1.0)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(RuntimeError, match="power cut"):
        found.save(tmp_path / "t.csv")
    assert renamed == ["t.manifest.json", "t.csv"][: len(renamed)]
    assert not (tmp_path / "t.csv").exists()
    assert len(payments(ledger)) == 1


@pytest.mark.parametrize("room", [0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("begun", [False, True])
def test_a_payment_for_which_the_disk_has_no_room_is_taken_back(tmp_path, data, begun, room):
    """Nothing was drawn for it, and a part of it would refuse every later release."""
    ledger, budget, drawn = tmp_path / "ledger", Budget(100.0, 0.0, 100.0), []
    charge = charge_of(exact_noise(made(PureDP(0.5))))
    for _ in range(40 * begun):  # until a page is full
        Ledger(ledger, budget=budget).pay(charge, data, str, str)
    size = ledger.stat().st_size if begun else 0
    before = len(payments(ledger)) if begun else 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room * max(size, 24576)), limits[1]))
    try:
        with pytest.raises(FileError, match="ledger"):
            Ledger(ledger, budget=budget).pay(charge, data, str, drawn.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not drawn
    assert not begun or len(payments(ledger)) == before
    Ledger(ledger, budget=budget).pay(charge, data, str, str)
    assert len(payments(ledger)) == before + 1


@pytest.mark.parametrize("other", ["an older copy", "another ledger", "nothing"])
def test_a_ledger_that_is_replaced_while_data_are_read_pays_for_its_own(tmp_path, data, other):
    """As an editor does: the payment is made in the file that is there, or nothing is drawn."""
    ledger, spare = tmp_path / "ledger", tmp_path / "spare"
    budget = Budget(1.0, 0.0, 1.0)
    release(made(PureDP(0.25)), data, ledger=ledger, budget=budget)
    if other == "an older copy":
        spare.write_bytes(ledger.read_bytes())
    elif other == "another ledger":
        release(made(PureDP(1.0)), data, ledger=spare, budget=budget)

    def read():
        ledger.unlink()
        if spare.exists():
            spare.replace(ledger)
        return "data"

    charge, drawn = charge_of(exact_noise(made(PureDP(0.25)))), []
    if other == "an older copy":
        assert Ledger(ledger).pay(charge, data, read, str) == "data"
        assert len(payments(ledger)) == 2
        return
    refusal = InfeasibleError if other == "another ledger" else FileError
    with pytest.raises(refusal, match=r"no room|removed meanwhile"):
        Ledger(ledger).pay(charge, data, read, drawn.append)
    assert not drawn


def test_a_ledger_is_for_its_owner(tmp_path, data):
    release(made(PureDP(1.0)), data, ledger=tmp_path / "l", budget=Budget(1.0, 0.0, 1.0))
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o600


MEMORY = ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"]


@pytest.mark.parametrize("place", [*MEMORY, "sqlite:///b.db", "mysql://host/db", "x://"])
def test_ledgers_that_end_with_their_process_are_refused(tmp_path, data, place, monkeypatch):
    """In memory every release would find a new budget."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="a ledger is a file, such as"):
            release(
                made(PureDP(0.9)), data, ledger=place, population="p", budget=Budget(1.0, 0.0, 1.0)
            )


@pytest.mark.parametrize("place", [":memory:", "file::memory:", "file:x?mode=memory"])
def test_names_of_files_that_mean_memory_to_sqlite_are_files(tmp_path, data, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release(made(PureDP(0.9)), data, ledger=place, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(InfeasibleError, match="no room"):
        release(made(PureDP(0.9)), data, ledger=place, budget=Budget(1.0, 0.0, 1.0))
    assert (tmp_path / place).is_file()


def test_a_missing_extra_costs_nothing(tmp_path, data, monkeypatch):
    ledger = tmp_path / "l"
    chosen = made(PureDP(0.25))
    monkeypatch.setattr("pmldesign.errors.find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install '\.\[release\]'"):
        release(chosen, data, ledger=ledger, budget=BUDGET)
    assert not ledger.exists()


def test_bad_data_cost_nothing_and_a_refusal_does_not_read_them(tmp_path, data):
    ledger = tmp_path / "ledger"
    release(made(PureDP(0.5)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    np.save(data, np.array([3, 1, -4, 1]))
    with pytest.raises(InvalidInputError, match="has -4"):
        release(made(PureDP(0.5)), data, ledger=ledger, confirm_same_population=True)
    assert len(payments(ledger)) == 1
    data.unlink()
    with pytest.raises(InfeasibleError):  # not a complaint about the missing file
        release(made(PureDP(0.6)), data, ledger=ledger)


def test_other_data_budgets_units_and_guarantees_are_refused(tmp_path, data):
    ledger = tmp_path / "ledger"
    with pytest.raises(InvalidInputError, match="new ledger and needs a budget"):
        release(made(PureDP(0.1)), data, ledger=ledger)
    assert not ledger.exists()
    release(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(InvalidInputError, match="fixed when a ledger begins"):
        release(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(2.0, 0.0, 2.0))
    other = tmp_path / "other.npy"
    np.save(other, np.array([3, 1, 4, 2]))
    with pytest.raises(InvalidInputError, match="differs from the data"):
        release(made(PureDP(0.1)), other, ledger=ledger)
    with pytest.raises(InvalidInputError, match="costs of different units do not add up"):
        release(made(PureDP(0.1, Neighbours.REPLACE)), data, ledger=ledger)
    with pytest.raises(InvalidInputError, match="path"):
        release(made(PureDP(0.1)), [3, 1, 4, 1], ledger=ledger)
    with pytest.raises(InvalidInputError, match="needs a ledger"):
        release(made(PureDP(0.1)), data, budget=Budget(1.0, 0.0, 1.0))
    pml = tmp_path / "pml"
    with pytest.raises(InvalidInputError, match="does not add up"):
        release(made(PML(0.5, 0.2)), data, ledger=pml, budget=Budget(1.0, 0.0, 1.0))
    assert not pml.exists()


def test_budgets_are_written_as_text():
    assert parse_budget("epsilon=3, delta=1e-6") == Budget(3.0, 1e-6, 0.0)
    assert parse_budget("epsilon=3") == Budget(3.0, 0.0, 3.0)
    assert parse_budget("epsilon=3,delta=1e-6,pure=1") == Budget(3.0, 1e-6, 1.0)
    for text in ("", "3", "epsilon=x", "epsilon=1,epsilon=1", "epsilon=nan", "delta=0.1"):
        with pytest.raises(InvalidInputError):
            parse_budget(text)
    for text in ("epsilon=-1", "epsilon=1,delta=1", "epsilon=1,pure=2"):
        with pytest.raises(InvalidInputError, match="of the budget"):
            parse_budget(text)
    assert math.isclose(parse_budget("epsilon=1e-3").pure, 1e-3)


PAID = "INSERT INTO pmldesign_payment VALUES ('p', 1, 'x', {}, {}, '0', {}, 'd', '2026-01-01')"
ALTERED = [
    *(
        f"UPDATE pmldesign_ledger SET {column} = {value}"
        for column, values in {
            "epsilon": ("9e999", "-1.0", "'x'", "x'31'", "0"),
            "delta": ("-1e-9", "1.0", "'x'"),
            "pure": ("9e999", "1.5", "-0.5"),
            "unit": ("'7'", "''", "'{}'", "replace(unit, 'remove', 'x')", "x'00'"),
            "plan": ("'[]'", "'x'", "'[[\"laplace\", -1]]'", "'[[\"laplace\", 0.1]]'", "x'00'"),
            "format": ("2", "'x'"),
            "mark_key": ("''", "'zz'", "x'00'"),
            "selection_key": ("substr(selection_key, 3)",),
            "population": ("x'00'",),
        }.items()
        for value in values
    ),
    *(
        PAID.format(pure, ratio, planned)
        for pure, ratio, planned in [
            ("'-5'", "'0'", "NULL"),
            ("'0'", "'-1/4'", "NULL"),
            ("'1/0'", "'0'", "NULL"),
            ("'1/-2'", "'0'", "NULL"),
            ("'nan'", "'0'", "NULL"),
            ("'1e-3'", "'0'", "NULL"),
            ("' 0'", "'0'", "NULL"),
            ("x'30'", "'0'", "NULL"),
            (f"'{'9' * 700}'", "'0'", "NULL"),
            (f"'{'9' * 5000}'", "'0'", "NULL"),
            ("'0'", f"'1{'0' * 700}'", "NULL"),
            ("'0'", "'0'", "0"),
            ("'0'", "'0'", "'x'"),
        ]
    ),
    PAID.format("'0'", "'0'", "NULL").replace("1,", "2,", 1),
    PAID.format("'0'", "'0'", "NULL").replace("1,", "'1x',", 1),
    PAID.format("'0'", "'0'", "NULL").replace("'d'", "x'00'"),
    "DELETE FROM pmldesign_ledger",
    "UPDATE pmldesign_payment SET place = 1",
    "INSERT INTO pmldesign_ledger SELECT 'q', format, unit, 9.0, delta, 9.0, plan, mark_key,"
    " selection_key FROM pmldesign_ledger",
    "DROP TABLE pmldesign_payment",
    "PRAGMA user_version = 2",
    "PRAGMA application_id = 7",
]


@pytest.mark.parametrize("statement", ALTERED)
def test_an_altered_ledger_refuses_and_nothing_is_paid_back(tmp_path, data, statement):
    ledger = tmp_path / "ledger"
    release(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with sqlite3.connect(ledger) as connection:
        connection.execute(statement)
    connection.close()
    refuse(ledger, data)


def refuse(ledger, data):
    before, drawn = ledger.read_bytes(), []
    with pytest.raises(
        FileError, match=r"damaged|malformed|not a database|of this version|no such"
    ):
        release(made(PureDP(0.1)), data, ledger=ledger, sampler=drawn.append)
    assert (ledger.read_bytes(), drawn) == (before, [])


def test_a_ledger_that_was_cut_or_is_no_database_refuses(tmp_path, data):
    ledger = tmp_path / "ledger"
    release(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    whole = ledger.read_bytes()
    for end in (*range(1, len(whole), 487), len(whole) - 1):
        ledger.write_bytes(whole[:end])
        refuse(ledger, data)
    for content in (b"x" * 5000, b"\0" * 4096, whole[:16] + b"\0" * 4080):
        ledger.write_bytes(content)
        refuse(ledger, data)


def test_a_ledger_that_is_no_file_is_refused(tmp_path, data):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path, "/dev/full", "/dev/zero"):
        with pytest.raises(FileError, match="ledger"):
            release(made(PureDP(0.1)), data, ledger=path, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(FileError, match="cannot write"):
        check_paths(tmp_path / "loop" / "t.csv", used=[loop])
    check_paths(tmp_path / "t.csv", used=[loop])  # who opens the loop says what is wrong with it


@pytest.mark.parametrize(("part", "times"), [(0.1, 3), (0.1, 10), (0.7, 3), (0.01, 7), (1e-3, 9)])
def test_decimal_numbers_add_up_as_they_are_written(tmp_path, data, part, times):
    total = float(Fraction(str(part)) * times)
    ledger = tmp_path / "ledger"
    for _ in range(times):
        budget = None if ledger.exists() else parse_budget(f"epsilon={total}")
        release(made(PureDP(part)), data, ledger=ledger, budget=budget)
    spent = sum(payment.cost.pure for payment in payments(ledger))
    assert spent <= Fraction(str(total))
    with pytest.raises(InfeasibleError):
        release(made(PureDP(part)), data, ledger=ledger)


def test_a_refused_first_release_begins_no_ledger(tmp_path, data):
    """Not for lack of room, and not for data that are refused: another budget may follow."""
    place = tmp_path / "ledger"
    asked = {"ledger": place, "population": "panel", "budget": Budget(0.25, 0.0, 0.25)}
    with pytest.raises(InfeasibleError, match="no room"):
        release(made(PureDP(0.5)), data, **asked)
    np.save(tmp_path / "wrong.npy", np.array([3.5, 1, 4, 1]))
    with pytest.raises(InvalidInputError):
        release(made(PureDP(0.25)), tmp_path / "wrong.npy", **asked)
    with pytest.raises(FileError):
        release(made(PureDP(0.25)), tmp_path / "missing.npy", **asked)
    assert not place.exists()
    asked["budget"] = Budget(1.0, 0.0, 1.0)
    release(made(PureDP(0.5)), data, **asked)
    assert read_ledger(place, "panel").budget == Budget(1.0, 0.0, 1.0)


ROOM = [
    ("epsilon=3,delta=1e-6", ApproxDP(1.0, 1e-7), "gaussian"),
    ("epsilon=3,delta=1e-6", ApproxDP(1e-6, 1e-7), "gaussian"),
    ("epsilon=3,delta=1e-6,pure=1", ApproxDP(1.0, 1e-7), "auto"),
    ("epsilon=3,delta=1e-6,pure=0.5", ApproxDP(1.0, 1e-7), "gaussian"),
    ("epsilon=3", ApproxDP(1.0, 1e-7), "laplace"),
    ("epsilon=3,delta=1e-9,pure=2.9", ApproxDP(1.0, 1e-7), "laplace"),
    ("epsilon=3", PureDP(1.0), "auto"),
    ("epsilon=3,delta=1e-6", ZCDP(0.01), "auto"),
    ("epsilon=3,delta=1e-6", PureDP(1.0), None),
    ("epsilon=3", ZCDP(0.01), None),
    ("epsilon=3,delta=1e-6,pure=0.5", ApproxDP(2.9999, 1e-6), None),
]


@pytest.mark.parametrize(("budget", "guarantee", "noise"), ROOM)
def test_automatic_noise_is_one_for_which_the_ledger_has_room(
    tmp_path, data, budget, guarantee, noise
):
    ledger = Ledger(tmp_path / "ledger", budget=budget)
    if noise is None:
        with pytest.raises(InfeasibleError, match=r"no room.*what fits is (Gaus|Lapl)"):
            noise_for(ledger, guarantee)
        return
    assert noise_for(ledger, guarantee) == noise
    chosen = {"auto": ["laplace"] if isinstance(guarantee, PureDP) else ["gaussian"]}
    for kind in chosen.get(noise, [noise]):
        release(made(guarantee, kind), data, ledger=ledger.place, budget=budget)
    other = "laplace" if noise == "gaussian" else "gaussian"
    with pytest.raises(InfeasibleError):
        release(made(ApproxDP(2.99, 9e-7), other), data, ledger=ledger.place)


def test_automatic_noise_is_the_one_that_a_plan_has_left(tmp_path, data):
    ledger = Ledger(
        tmp_path / "l", budget="epsilon=2,delta=1e-6", plan="laplace:1 + gaussian:mu=0.1"
    )
    assert noise_for(ledger, ApproxDP(1.0, 1e-7)) == "auto"
    release(made(PureDP(1.0)), data, ledger=ledger.place, budget=ledger.budget, plan=ledger.plan)
    assert noise_for(ledger, ApproxDP(1.0, 1e-7)) == "gaussian"


@pytest.mark.parametrize(
    "budget", ["epsilon=3,delta=1e-6,pure=0.7", "epsilon=2", "epsilon=1,delta=1e-9"]
)
def test_what_a_refusal_says_that_fits_does_fit(tmp_path, data, budget):
    """Until nothing is left."""
    ledger, refused, kinds = tmp_path / "ledger", "Laplace noise up to epsilon 1e-3", set()
    for _ in range(4):
        found = re.search(
            r"(Laplace|Gaussian) noise up to epsilon (\S+)( at delta (\S+))?", refused
        )
        if not found:
            break
        epsilon, delta = float(found[2]), float(found[4] or 0)
        guarantee = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        kinds.add(found[1])
        try:
            release(made(guarantee, found[1].lower()), data, ledger=ledger, budget=budget)
        except InfeasibleError:
            assert not ledger.exists()  # the first one, which was no advice
        with pytest.raises(InfeasibleError, match="what fits is") as refusal:
            release(made(PureDP(9.0)), data, ledger=ledger, budget=budget)
        refused = str(refusal.value)
    assert refused.endswith("what fits is nothing")
    assert "Gaussian" in kinds or "delta" not in budget


def test_the_key_of_the_selection_is_made_once_and_never_shown(tmp_path, data, capsys):
    ledger = Ledger(tmp_path / "ledger", budget="epsilon=1")
    key = ledger.selection_key()
    assert len(key) == 32
    assert key != Ledger(tmp_path / "ledger", budget="epsilon=1").selection_key()
    charge = charge_of(exact_noise(made(PureDP(0.1))))
    assert ledger.pay(charge, data, ledger.selection_key, lambda found: found) == key
    again = Ledger(tmp_path / "ledger")
    assert again.selection_key() == ledger.selection_key() == key
    account = read_ledger(tmp_path / "ledger")
    shown = [repr(account), *map(repr, account.lines()), repr(ledger)]
    for words in (
        ["ledger", "show", str(tmp_path / "ledger")],
        ["ledger", "show", str(tmp_path / "ledger"), "--json"],
    ):
        shown.append(CliRunner().invoke(main, words).output)
    words = ["ledger", "export", str(tmp_path / "ledger")]
    shown.append(CliRunner().invoke(main, words).output)
    assert shown[-1].count("\n") == 2
    for text in shown:
        for secret in (account.selection_key, account.mark_key):
            assert secret.hex() not in text
            assert repr(secret) not in text


def test_of_two_processes_that_begin_a_ledger_both_select_with_its_key(tmp_path, data):
    """The second one has read its data with a key of its own, and reads them again."""
    place, charge = tmp_path / "ledger", charge_of(exact_noise(made(PureDP(0.1))))
    slow, fast = (Ledger(place, budget="epsilon=1") for _ in range(2))
    used = []

    def read():
        if not used:
            used.append(slow.selection_key())
            fast.pay(charge, data, lambda: None, lambda _: None)
        return slow.selection_key()

    used.append(slow.pay(charge, data, read, lambda key: key))
    assert used[0] != used[1] == fast.selection_key()
    assert len(payments(place)) == 2


PERSONS = [
    {},
    {"person": "id"},
    {"person": "house"},
    {"person": ["id", "house"]},
    {"rows_per_person": 3},
    {"person": "id", "rows_per_person": 3},
    {"person": "id", "rows_per_person": 3, "one_per": "cell"},
    {"person": "id", "rows_per_person": 2, "one_per": "sex"},
    {"person": "id", "rows_per_person": 2, "one_per": "month"},
]


def test_releases_about_different_units_have_different_ledgers(tmp_path):
    """Of a person and of a household what is added up would be what neither of them loses."""
    data = tmp_path / "people.csv"
    data.write_text("id,house,sex,month\n1,1,F,1\n1,1,M,2\n2,1,F,2\n")
    attributes = [{"name": "sex", "keys": ["F", "M"]}, {"name": "month", "keys": ["1", "2"]}]
    schemas = [{"attributes": attributes, **person} for person in PERSONS]

    def charged(schema, neighbours="add-remove"):
        queries = workload("sex", schema=schema)
        noisy = mechanism("identity", queries, guarantee=PureDP(0.01, neighbours))
        ready = prepare(noisy, schema=schema)
        return charge_of(ready.noise, ready.schema)

    def pay(charge, place):
        Ledger(tmp_path / str(place), budget="epsilon=1").pay(charge, data, str, str)

    charges = [charged(schema) for schema in schemas]
    others = [charged(schemas[0], "replace"), charge_of(exact_noise(made(PureDP(0.01))))]
    for place, charge in enumerate(charges):
        for number, other in enumerate([*charges, *others]):
            if number == place or (place == 0 and number == len(charges) + 1):
                pay(other, place)
            else:
                pay(charge, place)
                with pytest.raises(InvalidInputError, match="different units"):
                    pay(other, place)
    pay(charged(schemas[1] | {"person": ["id"]}), 1)
    pay(charged(schemas[3] | {"person": ["house", "id"]}), 3)
    with pytest.raises(InvalidInputError, match=r"\(identified by house\)"):
        release(
            mechanism("identity", workload("sex", schema=schemas[2]), guarantee=PureDP(0.01)),
            data,
            schema=schemas[2],
            ledger=tmp_path / "1",
        )
    draft = Ledger(tmp_path / "1")
    with pytest.raises(InvalidInputError, match=r"\(identified by id\), the release is about add"):
        private_draft(data, ApproxDP(0.1, 1e-6), ledger=draft)
