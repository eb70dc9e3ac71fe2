"""A sweep: every setting once, the same rows however often it is killed."""

import csv
import itertools
import os
import random
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars
import pytest
from children import in_a_child

import pmldesign as pml
from pmldesign.comparison import COLUMNS, sweeping, tasks
from pmldesign.workloads import display

BACKENDS = ["processes", "dask", *(["ray"] if find_spec("ray") else [])]
"""Ray is large and no part of the test extra."""
STUDY = {
    "workloads": ["prefix:{n}", "histogram:5"],
    "n": [6, 7],
    "p": [2, float("inf")],
    "strategies": ["least-norm", "tree", "identity"],
    "noise": "gaussian",
    "guarantees": [
        {"epsilon": [0.5, 1], "delta": 1e-6},
        {"epsilon": 1, "delta": 0.1, "alpha": 0.15, "failure": "slack"},
    ],
}
ROWS = 3 * 2 * 3 * 3


def rows(path):
    """Every column but the times."""
    with Path(path).open(newline="") as handle:
        table = [*csv.DictReader(handle)]
    for row in table:
        del row["seconds"]
    return table


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "whole.csv"
    result = pml.sweep(STUDY, path)
    assert result.complete
    assert (result.rows, result.computed, result.present) == (ROWS, ROWS, 0)
    return path


def test_rows_are_those_of_compare(whole):
    table = {
        (row["workload"], row["p"], row["epsilon"], row["alpha"], row["strategy"]): row
        for row in rows(whole)
    }
    assert len(table) == ROWS
    names = STUDY["strategies"]
    for alpha, guarantee in [
        ("", pml.ApproxDP(0.5, 1e-6)),
        ("0.15", pml.ApproxPML(1, 0.1, 0.15)),
    ]:
        shown = pml.compare(
            "prefix:6", names, p=float("inf"), guarantee=guarantee, noise="gaussian"
        )
        for name, row in zip(names, shown.rows, strict=True):
            entry = table["prefix:6", "inf", str(float(guarantee.epsilon)), alpha, name]
            for column in ("scale", "error", "rmse", "ratio", "norm", "lower_bound"):
                expected = getattr(row, column)
                value = float(entry[column]) if entry[column] else None
                # the threads of a linear algebra library round in another order
                assert value == (expected and pytest.approx(expected, rel=1e-9))
            bounds = shown.designs[float("inf")].certificate
            assert float(entry["norm_lower"]) == pytest.approx(bounds.lower, rel=1e-9)


def test_what_has_no_numbers_says_why(whole):
    for row in rows(whole):
        too_large = row["alpha"] and row["workload"] == "prefix:7"  # 0.15 > 1/7
        assert row["status"].startswith("alpha must be in (0, 1/k]" if too_large else "done")
        assert bool(row["error"]) is not bool(too_large)


def test_a_sweep_that_was_cut_off_anywhere_goes_on(whole, tmp_path):
    data = whole.read_bytes()
    cut = random.Random(1).randrange(len(data))
    path = tmp_path / "rows.csv"
    path.write_bytes(data[:cut])
    result = pml.sweep(STUDY, path)
    assert rows(path) == rows(whole)
    assert result.present + result.computed == ROWS
    assert result.present >= data[:cut].count(b"\n") - 1 - 9  # a unit has nine rows at most


EVERY_COLUMN = """
workloads = "prefix:4"
weights = ["none", "w.csv"]
participation = ["once", "2,every=2"]
strategies = ["least-norm", "identity"]
guarantees = [
    { rho = 0.5 }, { mu = 1 }, { order = 4, epsilon = 1 },
    { epsilon = 0.5, alpha = [0.1, "alpha.csv"] },
]
"""


def without_times(path):
    """The bytes of a file but for the column of times."""
    place = COLUMNS.index("seconds")
    with path.open(newline="") as handle:
        lines = [[*line[:place], *line[place + 1 :]] for line in csv.reader(handle)]
    return "\n".join(map(repr, lines)).encode()


def test_a_sweep_that_is_killed_goes_on(tmp_path):
    np.savetxt(tmp_path / "w.csv", [1.0, 2.0, 3.0, 4.0])
    np.savetxt(tmp_path / "alpha.csv", [0.1, 0.1, 0.2, 0.3])
    study, path = tmp_path / "study.toml", tmp_path / "rows.csv"
    study.write_text(EVERY_COLUMN)

    def announce(text):
        if text.startswith("2 of"):
            os.kill(os.getpid(), signal.SIGKILL)

    def killed():
        pml.sweep(study, path, announce=announce)

    assert in_a_child(killed) == -signal.SIGKILL
    present, size = len(rows(path)), 2 * 2 * 5 * 2
    assert 0 < present < size
    result = pml.sweep(study, path)
    assert (result.present, result.computed) == (present, size - present)
    assert pml.sweep(study, tmp_path / "whole.csv").complete
    assert without_times(path) == without_times(tmp_path / "whole.csv")


def test_no_norm_is_computed_twice(tmp_path, monkeypatch):
    asked = []
    solve = tasks.solve

    def counted(workload, p, options):
        asked.append((workload.name, p, options.neighbours))
        return solve(workload, p, options)

    monkeypatch.setattr(tasks, "solve", counted)
    path = tmp_path / "rows.csv"
    stop = itertools.count()

    def announce(text):
        if next(stop) == 4:
            raise KeyboardInterrupt

    first = pml.sweep(STUDY, path, announce=announce)
    assert first.interrupted
    assert not first.complete
    second = pml.sweep(STUDY, path)
    assert second.complete
    assert second.present == first.computed > 0
    # three workloads, two p, two relations; at 7 cells the PML guarantee is refused before
    assert len(asked) == len(set(asked)) == 3 * 2 * 2 - 2
    assert pml.sweep(STUDY | {"n": [6, 7, 9]}, path).computed == 2 * 3 * 3  # what is new
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_do_not_depend_on_who_computes_them(whole, tmp_path, backend):
    if backend == "dask":
        settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
        import distributed  # here, as killed processes import this module

        with distributed.LocalCluster(**settings, processes=False) as cluster:
            address = cluster.scheduler_address
            pml.sweep(STUDY, tmp_path / "rows.csv", backend=backend, address=address)
    else:
        pml.sweep(STUDY, tmp_path / "rows.csv", backend=backend, jobs=2)
    assert rows(tmp_path / "rows.csv") == rows(whole)


def test_parquet_has_the_same_rows(whole, tmp_path):
    path = tmp_path / "rows.parquet"
    assert pml.sweep(STUDY, path).complete
    frame = polars.read_parquet(path)
    assert frame.columns == [*COLUMNS]
    for row, expected in zip(frame.rows(named=True), rows(whole), strict=True):
        assert row["workload"] == expected["workload"]
        assert ("" if row["error"] is None else repr(row["error"])) == expected["error"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.parquet"]
    assert pml.sweep(STUDY, path).computed == 0


def test_a_file_of_something_else_is_refused_and_kept(whole, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("name,value\na,1\n")
    with pytest.raises(pml.FileError, match="does not hold the rows of a sweep"):
        pml.sweep(STUDY, other)
    assert other.read_text() == "name,value\na,1\n"
    mine = tmp_path / "mine.csv"
    mine.write_bytes(whole.read_bytes())
    with pytest.raises(pml.FileError, match="does not ask for"):
        pml.sweep(STUDY | {"rel_gap": 1e-3}, mine)
    assert mine.read_bytes() == whole.read_bytes()
    another = {"workloads": "histogram:5", "strategies": "identity", "rel_gap": 1e-3}
    assert pml.sweep(another, mine, restart=True).present == 0
    with pytest.raises(pml.FileError, match=r"ends in \.csv, \.parquet"):
        pml.sweep(STUDY, tmp_path / "rows.txt")


def test_two_sweeps_into_one_file_are_refused(whole, tmp_path):
    path = tmp_path / "rows.csv"

    def announce(text):
        with pytest.raises(pml.FileError, match="in use by another sweep"):
            pml.sweep(STUDY, path)
        raise KeyboardInterrupt

    assert pml.sweep(STUDY, path, announce=announce).interrupted


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_sweep_that_could_not_begin_leaves_no_file(tmp_path, monkeypatch, name):
    def run(units, workers):
        raise pml.PmldesignError("no dask cluster")
        yield

    monkeypatch.setattr(sweeping, "run", run)
    with pytest.raises(pml.PmldesignError, match="no dask cluster"):
        pml.sweep(STUDY, tmp_path / name)
    assert not [*tmp_path.iterdir()]


def numbers_of(row, names):
    return [float(row[name]) for name in names]


def test_guarantees_in_other_currencies(tmp_path):
    """On unit sensitivity sigma = 1/mu = 1/sqrt(2 rho) = sqrt(order/(2 epsilon))."""
    study = {
        "workloads": "histogram:3",
        "strategies": "identity",
        "noise": "gaussian",
        "guarantees": [{"rho": [0.5, 2]}, {"mu": 0.5}, {"order": [4, 16], "epsilon": 2}],
    }
    pml.sweep(study, tmp_path / "rows.csv")
    table = rows(tmp_path / "rows.csv")
    assert [row["kind"] for row in table] == ["zcdp", "zcdp", "gaussian-dp", "renyi", "renyi"]
    assert [row["order"] for row in table] == ["", "", "", "4.0", "16.0"]
    assert [row["rho"] for row in table] == ["0.5", "2.0", "", "", ""]
    scales = [float(row["scale"]) for row in table]
    assert scales == pytest.approx([1, 0.5, 2, 1, 2], rel=1e-5)


def test_what_may_fail_under_pml_with_a_delta(tmp_path):
    study = {
        "workloads": "histogram:3",
        "strategies": "identity",
        "noise": "gaussian",
        "guarantees": {"epsilon": 1, "delta": 0.1, "alpha": 0.2, "failure": ["slack", "envelope"]},
    }
    pml.sweep(study, tmp_path / "rows.csv")
    guarantees = [pml.ApproxPML(1, 0.1, 0.2), pml.EnvelopePML(1, 0.1, 0.2)]
    made = [pml.mechanism("identity", "histogram:3", guarantee=asked) for asked in guarantees]
    scales = [float(row["scale"]) for row in rows(tmp_path / "rows.csv")]
    assert scales == pytest.approx([mechanism.scale for mechanism in made])


def test_weights_multiply_errors(tmp_path):
    np.savetxt(tmp_path / "w.csv", [3.0, 4.0])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:2"\nweights = ["none", "w.csv"]\nstrategies = "identity"\n'
    )
    pml.sweep(tmp_path / "study.toml", tmp_path / "rows.csv")
    plain, weighty = rows(tmp_path / "rows.csv")
    assert (plain["workload"], plain["weights"]) == ("histogram:2", "")
    assert (weighty["workload"], weighty["weights"]) == ("histogram:2", "w.csv")
    assert float(plain["error"]) == pytest.approx(2**0.5)
    assert numbers_of(weighty, ["error", "unweighted_error"]) == pytest.approx([5, 2**0.5])


def test_weights_that_do_not_fit_are_refused(tmp_path):
    np.savetxt(tmp_path / "w.csv", [3.0, 4.0])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:3"\nweights = "w.csv"\nstrategies = "identity"\n'
    )
    with pytest.raises(pml.InvalidInputError, match="weights must be"):
        pml.sweep(tmp_path / "study.toml", tmp_path / "rows.csv")


def test_participation_multiplies_what_a_person_can_change(tmp_path):
    study = {
        "workloads": "prefix:8",
        "strategies": "identity",
        "noise": "gaussian",
        "participation": ["once", "4,every=2"],
    }
    pml.sweep(study, tmp_path / "rows.csv")
    once, often = rows(tmp_path / "rows.csv")
    assert (once["participation"], often["participation"]) == ("", "4,every=2")
    # four measurements of one number each move by 1: twice as far as one
    assert numbers_of(once, ["sensitivity"]) == [1]
    assert numbers_of(often, ["sensitivity"]) == pytest.approx([2])
    assert float(often["error"]) == pytest.approx(2 * float(once["error"]))


def test_an_alpha_for_each_cell_comes_from_a_file(tmp_path):
    np.savetxt(tmp_path / "alpha.csv", [0.2, 0.3, 0.4])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:{n}"\nn = [3, 4]\nstrategies = "identity"\n'
        '[[guarantees]]\nepsilon = 0.5\nalpha = [0.1, "alpha.csv"]\n'
    )
    pml.sweep(tmp_path / "study.toml", tmp_path / "rows.csv")
    table = rows(tmp_path / "rows.csv")
    assert [(row["alpha"], row["alpha_file"]) for row in table] == [
        ("0.1", ""), ("", "alpha.csv"), ("0.1", ""), ("", "alpha.csv"),
    ]  # fmt: skip
    for row, alpha in zip(table, (0.1, (0.2, 0.3, 0.4)), strict=False):
        # three cells of variance 2 b^2, less the third that the public total takes away
        scale = pml.mechanism("identity", "histogram:3", guarantee=pml.PML(0.5, alpha)).scale
        assert numbers_of(row, ["scale", "error"]) == pytest.approx([scale, 2 * scale])
    assert float(table[1]["scale"]) < float(table[0]["scale"])  # more is assumed
    assert table[3]["status"] == (
        "alpha must be one number or one for each of the k = 4 cells, got 3"
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_sweep_is_a_frame_with_columns_of_one_kind(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(
        display, "find_spec", lambda name: None if name == "pandas" else find_spec(name)
    )
    study = STUDY | {"n": 7, "p": 2, "strategies": ["identity"]}
    result = pml.sweep(study, tmp_path / f"rows.{ending}")
    frame = result.to_frame()
    assert [*frame.columns] == [*COLUMNS]
    assert frame.schema["mu"] == polars.Float64  # of which no row has one
    assert frame.rows(named=True) == result.to_records()
    refused = frame.filter(polars.col("error").is_null())
    assert refused["status"].str.starts_with("alpha must be").to_list() == [True]
    assert repr(result) == f"Sweep in {str(result.path)!r}: 6 of 6 rows\n  refused 1"


def test_the_frame_of_a_sweep_that_was_interrupted(tmp_path):
    def announce(text):
        raise KeyboardInterrupt

    result = pml.sweep(STUDY, tmp_path / "rows.parquet", announce=announce)
    assert not result.complete
    assert len(result.to_frame()) == result.computed > 0


def test_files_are_looked_for_beside_the_study(tmp_path):
    np.save(tmp_path / "queries.npy", np.tril(np.ones((4, 4))))
    np.savetxt(tmp_path / "mine.csv", np.eye(4), delimiter=",")
    (tmp_path / "study.toml").write_text(
        'workloads = ["queries.npy"]\nstrategies = ["mine.csv"]\np = 4\n'
    )
    pml.sweep(tmp_path / "study.toml", tmp_path / "rows.csv")
    (row,) = rows(tmp_path / "rows.csv")
    assert (row["workload"], row["strategy"]) == ("queries.npy", "mine.csv")
    # variances 1, 2, 3 and 4, of normal numbers E x^4 = 3 sigma^4
    assert float(row["error"]) == pytest.approx((3 * (1 + 4 + 9 + 16)) ** 0.25)
