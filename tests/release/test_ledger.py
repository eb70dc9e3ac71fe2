"""The ledger: no answer without its entry, never above the budget, exact composition."""

import json
import math
import multiprocessing
import resource
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pmldesign.errors import FileError, InfeasibleError, InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, Neighbours, PureDP
from pmldesign.release import (
    Budget,
    Ledger,
    check_paths,
    cost_of,
    exact_noise,
    open_ledger,
    parse_budget,
    read_ledger,
    release_tables,
)
from pmldesign.strategies import baseline
from pmldesign.workloads import parse_workload

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


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def affordable(data, ledger):
    try:
        release_tables(made(GAUSSIAN, "gaussian"), data, ledger=ledger, budget=BUDGET)
    except InfeasibleError:
        return False
    return True


def test_releases_are_paid_for_until_the_budget_is_spent(tmp_path, data):
    ledger = tmp_path / "ledger.jsonl"
    count = 0
    while count < 20 and affordable(data, ledger):
        count += 1
    assert len(entries(ledger)) == 1 + count
    assert 2 <= count < 20
    # at 50 digits: what was spent keeps the promise, another release would not have
    mu2 = sum(Fraction(entry["squared_ratio"]) for entry in entries(ledger)[1:])
    with mpmath.workdps(50):
        for times, kept in ((1, True), (Fraction(count + 1, count), False)):
            mu = mpmath.sqrt(mpmath.mpf((mu2 * times).numerator) / (mu2 * times).denominator)
            rest = mpmath.mpf(BUDGET.epsilon - BUDGET.pure)
            x = rest / mu - mu / 2
            delta = mpmath.ncdf(-x) - mpmath.e**rest * mpmath.ncdf(-x - mu)
            assert (delta <= BUDGET.delta) is kept
    release_tables(made(PureDP(0.25)), data, ledger=ledger)
    with pytest.raises(InfeasibleError):
        release_tables(made(PureDP(1e-3)), data, ledger=ledger)


def test_the_whole_budget_can_be_spent_at_once(tmp_path, data):
    for number, guarantee in enumerate((ApproxDP(1.0, 1e-6), PureDP(1.0))):
        noise = "gaussian" if number == 0 else "laplace"
        budget = Budget(1.0, 1e-6 if number == 0 else 0.0, float(number))
        ledger = tmp_path / f"{number}.jsonl"
        release_tables(made(guarantee, noise), data, ledger=ledger, budget=budget)
        with pytest.raises(InfeasibleError):
            release_tables(made(guarantee, noise), data, ledger=ledger)


def test_costs_are_those_of_the_lattice():
    noise = exact_noise(made(GAUSSIAN, "gaussian"))
    ratio = cost_of(noise).squared_ratio
    assert ratio == Fraction(noise.sensitivity) / Fraction(noise.continuous) ** 2
    laplace = exact_noise(made(PureDP(0.7)))
    assert Fraction(0.7) * (1 - Fraction(1, 2**50)) < cost_of(laplace).pure <= Fraction(0.7)


def _one_release(path, data, results):
    try:
        release_tables(made(PureDP(1.0)), data, ledger=path)
        results.put("published")
    except InfeasibleError:
        results.put("refused")


def test_two_processes_do_not_overspend(tmp_path, data):
    ledger = tmp_path / "ledger.jsonl"
    noise = exact_noise(made(PureDP(1.0)))
    with open_ledger(Ledger(ledger, budget=Budget(1.0, 0.0, 1.0)), noise, data):
        pass
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_one_release, args=(ledger, data, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(outcomes) == ["published", "refused", "refused", "refused"]
    assert len(entries(ledger)) == 2


def test_a_crash_after_the_entry_leaves_it_spent(tmp_path, data):
    ledger = tmp_path / "ledger.jsonl"

    def crash(*_):
        # the entry is on the disk before any noise is drawn
        assert len(entries(ledger)) == 2
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        release_tables(
            made(PureDP(1.0)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0), sampler=crash
        )
    assert len(entries(ledger)) == 2
    with pytest.raises(InfeasibleError):
        release_tables(made(PureDP(1.0)), data, ledger=ledger)


@pytest.mark.parametrize("step", ["manifest", "table"])
def test_a_crash_between_noise_and_table_publishes_nothing(tmp_path, data, monkeypatch, step):
    ledger, renamed = tmp_path / "ledger.jsonl", []

    def crash(path, target):
        renamed.append(target.name)
        if len(renamed) == (1 if step == "manifest" else 2):
            raise RuntimeError("power cut")
        return rename(path, target)

    rename = type(tmp_path).replace
    monkeypatch.setattr(type(tmp_path), "replace", crash)
    found = release_tables(made(PureDP(1.0)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(RuntimeError, match="power cut"):
        found.to_csv(tmp_path / "t.csv")
    assert renamed == ["t.manifest.json", "t.csv"][: len(renamed)]
    assert not (tmp_path / "t.csv").exists()
    assert len(entries(ledger)) == 2


def test_nothing_is_drawn_if_the_entry_cannot_be_written(tmp_path, data, monkeypatch):
    def fail(_number):
        raise OSError(28, "No space left on device")

    drawn = []
    monkeypatch.setattr("pmldesign.release.costs.lines.os.fsync", fail)
    with pytest.raises(FileError, match="No space left"):
        release_tables(
            made(PureDP(1.0)),
            data,
            ledger=tmp_path / "l",
            budget=Budget(1.0, 0.0, 1.0),
            sampler=lambda *a: drawn.append(a),
        )
    assert not drawn


@pytest.mark.parametrize("room", [0, 1, 40])
@pytest.mark.parametrize("begun", [False, True])
def test_a_line_for_which_the_disk_has_no_room_is_taken_back(tmp_path, data, begun, room):
    """Nothing was drawn for it, and a part of it would refuse every later release."""
    ledger, budget = tmp_path / "ledger.jsonl", Budget(1.0, 0.0, 1.0)
    ledger.touch()
    if begun:
        release_tables(made(PureDP(0.5)), data, ledger=ledger, budget=budget)
    before, drawn = ledger.read_bytes(), []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, limits[1]))
    try:
        with pytest.raises(FileError, match="cannot write the ledger"):
            release_tables(
                made(PureDP(0.5)), data, ledger=ledger, budget=budget, sampler=drawn.append
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (ledger.read_bytes(), drawn) == (before, [])
    release_tables(made(PureDP(0.5)), data, ledger=ledger, budget=budget)
    assert len(entries(ledger)) == 2 + begun


def test_a_ledger_that_was_replaced_meanwhile_pays_for_nothing(tmp_path, data):
    """As an editor does that writes a file anew: what is paid into the old one nobody sees."""
    ledger = tmp_path / "ledger.jsonl"
    release_tables(made(PureDP(0.5)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with open_ledger(Ledger(ledger), exact_noise(made(PureDP(0.5))), data) as account:
        (tmp_path / "edited").write_bytes(ledger.read_bytes())
        (tmp_path / "edited").replace(ledger)
        with pytest.raises(FileError, match="it was replaced"):
            account.spend(exact_noise(made(PureDP(0.5))), None)
    assert len(entries(ledger)) == 2


def test_a_missing_extra_costs_nothing(tmp_path, data, monkeypatch):
    ledger = tmp_path / "l.jsonl"
    chosen = made(PureDP(0.25))
    monkeypatch.setattr("pmldesign.errors.find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=r"pip install 'pmldesign\[release\]'"):
        release_tables(chosen, data, ledger=ledger, budget=BUDGET)
    assert not ledger.exists()


def test_bad_data_cost_nothing_and_a_refusal_does_not_read_them(tmp_path, data):
    ledger = tmp_path / "ledger.jsonl"
    release_tables(made(PureDP(0.5)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    np.save(data, np.array([3, 1, -4, 1]))
    with pytest.raises(InvalidInputError, match="has -4"):
        release_tables(made(PureDP(0.5)), data, ledger=ledger, same_people=True)
    assert len(entries(ledger)) == 2
    data.unlink()
    with pytest.raises(InfeasibleError):  # not a complaint about the missing file
        release_tables(made(PureDP(0.6)), data, ledger=ledger)


@pytest.mark.parametrize("damage", ['{"release": "x", "pure"', "[1]\n", "{}\n", "\x00\n"])
def test_a_torn_line_refuses(tmp_path, data, damage):
    ledger = tmp_path / "ledger.jsonl"
    release_tables(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with ledger.open("a") as handle:
        handle.write(damage)
    before = ledger.read_bytes()
    with pytest.raises(FileError, match="damaged"):
        release_tables(made(PureDP(0.1)), data, ledger=ledger)
    assert ledger.read_bytes() == before


def test_other_data_budgets_units_and_guarantees_are_refused(tmp_path, data):
    ledger = tmp_path / "ledger.jsonl"
    with pytest.raises(InvalidInputError, match="new ledger; give --budget"):
        release_tables(made(PureDP(0.1)), data, ledger=ledger)
    assert not ledger.exists()
    release_tables(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(1.0, 0.0, 1.0))
    with pytest.raises(InvalidInputError, match="fixed beforehand"):
        release_tables(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(2.0, 0.0, 2.0))
    other = tmp_path / "other.npy"
    np.save(other, np.array([3, 1, 4, 2]))
    with pytest.raises(InvalidInputError, match="another content"):
        release_tables(made(PureDP(0.1)), other, ledger=ledger)
    with pytest.raises(InvalidInputError, match="a ledger for each"):
        release_tables(made(PureDP(0.1, Neighbours.REPLACE)), data, ledger=ledger)
    with pytest.raises(InvalidInputError, match="path"):
        release_tables(made(PureDP(0.1)), [3, 1, 4, 1], ledger=ledger)
    with pytest.raises(InvalidInputError, match="needs a ledger"):
        release_tables(made(PureDP(0.1)), data, budget=Budget(1.0, 0.0, 1.0))
    pml = tmp_path / "pml.jsonl"
    with pytest.raises(InvalidInputError, match="does not add up"):
        release_tables(made(PML(0.5, 0.2)), data, ledger=pml, budget=Budget(1.0, 0.0, 1.0))
    assert not pml.exists()


def test_budgets_are_written_as_text():
    assert parse_budget("epsilon=3, delta=1e-6") == Budget(3.0, 1e-6, 0.0)
    assert parse_budget("epsilon=3") == Budget(3.0, 0.0, 3.0)
    assert parse_budget("epsilon=3,delta=1e-6,pure=1") == Budget(3.0, 1e-6, 1.0)
    for text in ("", "3", "epsilon=x", "epsilon=1,epsilon=1", "epsilon=nan", "delta=0.1"):
        with pytest.raises(InvalidInputError):
            parse_budget(text)
    for text in ("epsilon=-1", "epsilon=1,delta=1", "epsilon=1,pure=2"):
        with pytest.raises(InvalidInputError, match="of --budget"):
            parse_budget(text)
    assert math.isclose(parse_budget("epsilon=1e-3").pure, 1e-3)


HEAD = {"epsilon": 1.0, "delta": 0.0, "pure": 1.0}


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("epsilon", "NaN"),
        ("epsilon", "Infinity"),
        ("epsilon", "-1.0"),
        ("epsilon", "true"),
        ("epsilon", "1" + "0" * 700),
        ("epsilon", '"1"'),
        ("epsilon", "null"),
        ("epsilon", "[" * 100_000),
        ("delta", "-1e-9"),
        ("delta", "1.0"),
        ("delta", "false"),
        ("pure", "Infinity"),
        ("pure", "1.5"),
        ("pure", "-0.5"),
        ("unit", "7"),
        ("plan", "[]"),
        ("plan", '[["laplace", -1]]'),
        ("plan", '[["laplace", NaN]]'),
        ("pure_", "1.0"),
    ],
)
def test_a_false_first_line_is_damaged_whatever_it_says(tmp_path, data, key, written):
    ledger = tmp_path / "ledger.jsonl"
    release_tables(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(**HEAD))
    first, *rest = ledger.read_text().splitlines()
    fields = {name: json.dumps(value) for name, value in json.loads(first).items()}
    head = ", ".join(f'"{name}": {value}' for name, value in (fields | {key: written}).items())
    ledger.write_text("\n".join(["{" + head + "}", *rest]) + "\n")
    refuse(ledger, data)


@pytest.mark.parametrize(
    "line",
    [
        '{"release": "a", "pure": "-5", "squared_ratio": "0"}',
        '{"release": "a", "pure": "0", "squared_ratio": "-1/4"}',
        '{"release": "a", "pure": "1/0", "squared_ratio": "0"}',
        '{"release": "a", "pure": "1/-2", "squared_ratio": "0"}',
        '{"release": "a", "pure": "nan", "squared_ratio": "0"}',
        '{"release": "a", "pure": "1e-3", "squared_ratio": "0"}',
        '{"release": "a", "pure": " 0", "squared_ratio": "0"}',
        '{"release": "a", "pure": 0, "squared_ratio": "0"}',
        '{"release": "a", "pure": Infinity, "squared_ratio": "0"}',
        '{"release": "a", "pure": null, "squared_ratio": "0"}',
        '{"release": "a", "pure": "' + "9" * 700 + '", "squared_ratio": "0"}',
        '{"release": "a", "pure": "' + "9" * 5000 + '", "squared_ratio": "0"}',
        '{"release": "a", "pure": "0", "squared_ratio": "1' + "0" * 700 + '"}',
        '{"release": "a", "pure": "0.5", "pure": "0", "squared_ratio": "0"}',
        '{"release": "a", "pure": "0", "squared_ratio": "0", "planned": 0}',
        '{"release": "a", "pure": "0", "squared_ratio": "0", "paid_back": "1"}',
        '{"release": "a", "pure": "0"}',
        "[" * 100_000,
        "null",
        "",
    ],
)
def test_a_false_line_of_a_release_is_damaged_and_nothing_is_paid_back(tmp_path, data, line):
    ledger = tmp_path / "ledger.jsonl"
    release_tables(made(PureDP(0.1)), data, ledger=ledger, budget=Budget(**HEAD))
    with ledger.open("a") as handle:
        handle.write(line + "\n")
    refuse(ledger, data)


def refuse(ledger, data):
    before = ledger.read_bytes()
    with pytest.raises(FileError, match="damaged"):
        release_tables(made(PureDP(0.1)), data, ledger=ledger)
    assert ledger.read_bytes() == before


def test_a_ledger_that_is_no_file_is_refused(tmp_path, data):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path, "/dev/full", "/dev/zero"):
        with pytest.raises(FileError, match="ledger"):
            release_tables(made(PureDP(0.1)), data, ledger=path, budget=Budget(**HEAD))
    with pytest.raises(FileError, match="cannot write"):
        check_paths(tmp_path / "loop" / "t.csv", used=[loop])
    check_paths(tmp_path / "t.csv", used=[loop])  # who opens the loop says what is wrong with it


@pytest.mark.parametrize(("part", "times"), [(0.1, 3), (0.1, 10), (0.7, 3), (0.01, 7), (1e-3, 9)])
def test_decimal_numbers_add_up_as_they_are_written(tmp_path, data, part, times):
    total = float(Fraction(str(part)) * times)
    ledger = tmp_path / "ledger.jsonl"
    for _ in range(times):
        budget = None if ledger.exists() else parse_budget(f"epsilon={total}")
        release_tables(made(PureDP(part)), data, ledger=ledger, budget=budget)
    spent = sum(Fraction(entry["pure"]) for entry in entries(ledger)[1:])
    assert spent <= Fraction(str(total))
    with pytest.raises(InfeasibleError):
        release_tables(made(PureDP(part)), data, ledger=ledger)


@pytest.mark.parametrize("shared", [False, True])
def test_a_refused_first_release_begins_no_ledger(tmp_path, data, shared):
    """Not for lack of room, and not for data that are refused: another budget may follow."""
    place = f"sqlite:///{tmp_path}/budget.db" if shared else tmp_path / "ledger.jsonl"
    asked = {"ledger": place, "people": "panel", "budget": Budget(0.25, 0.0, 0.25)}
    with pytest.raises(InfeasibleError, match="no room"):
        release_tables(made(PureDP(0.5)), data, **asked)
    np.save(tmp_path / "wrong.npy", np.array([3.5, 1, 4, 1]))
    with pytest.raises(InvalidInputError):
        release_tables(made(PureDP(0.25)), tmp_path / "wrong.npy", **asked)
    with pytest.raises(FileError):
        release_tables(made(PureDP(0.25)), tmp_path / "missing.npy", **asked)
    assert shared or not place.exists()
    asked["budget"] = Budget(1.0, 0.0, 1.0)
    release_tables(made(PureDP(0.5)), data, **asked)
    assert read_ledger(place, "panel").budget == Budget(1.0, 0.0, 1.0)
