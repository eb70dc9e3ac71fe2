"""A sweep: every setting once, the same rows however often it is killed."""

import itertools
import os
import signal
import sqlite3
from importlib.util import find_spec

import numpy as np
import polars
import pytest
from children import in_a_child

import pmldesign as pml
from pmldesign.comparison import COLUMNS, sweeping
from pmldesign.designs import flow
from pmldesign.workloads import display

BACKENDS = ["loky", "dask", *(["ray"] if find_spec("ray") else [])]
"""Ray is large and no part of the test extra."""
STUDY = {
    "workloads": ["prefix:{n}", "histogram:5"],
    "n": [6, 7],
    "p": [2, float("inf")],
    "strategies": ["least-norm", "tree", "identity"],
    "noise": "gaussian",
    "guarantees": [
        "dp:0.5,delta=1e-6",
        "dp:1,delta=1e-6",
        "pml:1,delta=0.1,alpha=0.15,failure=slack",
    ],
}
ROWS = 3 * 2 * 3 * 3


def rows(result):
    """Every column but the times."""
    return [{**record, "seconds": None} for record in result.to_records()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    result = pml.sweep(STUDY, tmp_path_factory.mktemp("sweep") / "whole.sqlite")
    assert result.complete
    assert (result.rows, result.computed, result.present) == (ROWS, ROWS, 0)
    return result


def test_rows_are_those_of_compare(whole):
    table = {
        (row["workload"], row["p"], row["epsilon"], row["alpha"], row["strategy"]): row
        for row in rows(whole)
    }
    assert len(table) == ROWS
    names = STUDY["strategies"]
    for alpha, guarantee in [
        (None, pml.ApproxDP(0.5, 1e-6)),
        (0.15, pml.ApproxPML(1, 0.1, 0.15)),
    ]:
        shown = pml.compare(
            "prefix:6", strategies=names, p=float("inf"), guarantee=guarantee, noise="gaussian"
        )
        for name, row in zip(names, shown.rows, strict=True):
            entry = table["prefix:6", np.inf, guarantee.epsilon, alpha, name]
            for column in ("scale", "error", "rmse", "ratio", "norm", "lower_bound"):
                expected = getattr(row, column)
                # the threads of a linear algebra library round in another order
                assert entry[column] == (expected and pytest.approx(expected, rel=1e-9))
            bounds = shown.designs[float("inf")].certificate
            assert entry["norm_lower"] == pytest.approx(bounds.lower, rel=1e-9)


def test_what_has_no_numbers_says_why(whole):
    for row in rows(whole):
        too_large = row["alpha"] and row["workload"] == "prefix:7"  # 0.15 > 1/7
        assert row["status"].startswith("alpha must be in (0, 1/k]" if too_large else "done")
        assert (row["error"] is None) is bool(too_large)


def test_the_file_is_a_table_of_sql(whole):
    with sqlite3.connect(whole.path) as database:
        question = "SELECT count(*), sum(error), max(\"order\") FROM rows WHERE strategy = 'tree'"
        count, total, order = database.execute(question).fetchone()
    trees = [row for row in rows(whole) if row["strategy"] == "tree"]
    assert (count, order) == (len(trees), None)
    assert total == pytest.approx(sum(row["error"] or 0 for row in trees))


EVERY_COLUMN = """
workloads = "prefix:4"
weights = ["none", "w.csv"]
participation = ["once", "2,every=2"]
strategies = ["least-norm", "identity"]
guarantees = ["zcdp:0.5", "gdp:1", "renyi:4,1", "pml:0.5,alpha=0.1", "pml:0.5,alpha=alpha.csv"]
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_that_is_killed_goes_on(tmp_path, jobs):
    np.savetxt(tmp_path / "w.csv", [1.0, 2.0, 3.0, 4.0])
    np.savetxt(tmp_path / "alpha.csv", [0.1, 0.1, 0.2, 0.3])
    study, path = tmp_path / "study.toml", tmp_path / "rows.sqlite"
    study.write_text(EVERY_COLUMN)

    def announce(text):
        if text.startswith("2 of"):
            os.kill(os.getpid(), signal.SIGKILL)

    def killed():
        pml.sweep(study, path, jobs=jobs, announce=announce)

    size = 2 * 2 * 5 * 2
    assert in_a_child(killed) == -signal.SIGKILL
    result = pml.sweep(study, path, jobs=jobs)
    assert result.complete
    assert 0 < result.present < size
    assert result.present + result.computed == size
    assert rows(result) == rows(pml.sweep(study, tmp_path / "whole.sqlite"))


def test_no_norm_is_computed_twice(tmp_path, monkeypatch):
    asked = []
    solve = flow.solve

    def counted(workload, p, options):
        asked.append((workload.name, p, options.neighbours))
        return solve(workload, p, options)

    monkeypatch.setattr(flow, "solve", counted)
    path = tmp_path / "rows.sqlite"
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
            found = pml.sweep(STUDY, tmp_path / "r.sqlite", backend=backend, address=address)
    else:
        found = pml.sweep(STUDY, tmp_path / "r.sqlite", backend=backend, jobs=2)
    assert rows(found) == rows(whole)


def test_a_file_of_something_else_is_refused_and_kept(whole, tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE rows (name)")
    database.close()
    kept = other.read_bytes()
    with pytest.raises(pml.FileError, match="it is no sweep file of this version"):
        pml.sweep(STUDY, other)
    assert other.read_bytes() == kept
    mine = tmp_path / "mine.sqlite"
    mine.write_bytes(whole.path.read_bytes())
    with pytest.raises(pml.FileError, match="does not ask for"):
        pml.sweep(STUDY | {"rel_gap": 1e-3}, mine)
    assert pml.sweep(STUDY, mine).present == ROWS
    another = {"workloads": "histogram:5", "strategies": "identity", "rel_gap": 1e-3}
    assert pml.sweep(another, mine, restart=True).present == 0
    assert pml.sweep(another, mine).present == 1
    with pytest.raises(pml.FileError, match=r"ends in \.sqlite"):
        pml.sweep(STUDY, tmp_path / "rows.csv")


def test_two_sweeps_into_one_file_are_refused(whole, tmp_path):
    path = tmp_path / "rows.sqlite"

    def announce(text):
        with pytest.raises(pml.FileError, match="in use by another process"):
            pml.sweep(STUDY, path)
        raise KeyboardInterrupt

    assert pml.sweep(STUDY, path, announce=announce).interrupted


def test_a_sweep_that_could_not_begin_leaves_no_file(tmp_path, monkeypatch):
    def run(units, workers):
        raise pml.PmldesignError("no dask cluster")
        yield

    monkeypatch.setattr(sweeping, "run", run)
    with pytest.raises(pml.PmldesignError, match="no dask cluster"):
        pml.sweep(STUDY, tmp_path / "rows.sqlite")
    assert not [*tmp_path.iterdir()]


def numbers_of(row, names):
    return [row[name] for name in names]


def test_guarantees_in_other_currencies(tmp_path):
    """On unit sensitivity sigma = 1/mu = 1/sqrt(2 rho) = sqrt(order/(2 epsilon))."""
    study = {
        "workloads": "histogram:3",
        "strategies": "identity",
        "noise": "gaussian",
        "guarantees": ["zcdp:0.5", "zcdp:2", "gdp:0.5", "renyi:4,2", "renyi:16,2"],
    }
    table = rows(pml.sweep(study, tmp_path / "rows.sqlite"))
    assert [row["kind"] for row in table] == ["zcdp", "zcdp", "gaussian-dp", "renyi", "renyi"]
    assert [row["order"] for row in table] == [None, None, None, 4, 16]
    assert [row["rho"] for row in table] == [0.5, 2, None, None, None]
    scales = [row["scale"] for row in table]
    assert scales == pytest.approx([1, 0.5, 2, 1, 2], rel=1e-5)


def test_what_may_fail_under_pml_with_a_delta(tmp_path):
    study = {
        "workloads": "histogram:3",
        "strategies": "identity",
        "noise": "gaussian",
        "guarantees": [
            f"pml:1,delta=0.1,alpha=0.2,failure={kind}" for kind in ("slack", "envelope")
        ],
    }
    table = rows(pml.sweep(study, tmp_path / "rows.sqlite"))
    guarantees = [pml.ApproxPML(1, 0.1, 0.2), pml.EnvelopePML(1, 0.1, 0.2)]
    made = [pml.mechanism("identity", "histogram:3", guarantee=asked) for asked in guarantees]
    scales = [row["scale"] for row in table]
    assert scales == pytest.approx([mechanism.scale for mechanism in made])


def test_weights_multiply_errors(tmp_path):
    np.savetxt(tmp_path / "w.csv", [3.0, 4.0])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:2"\nweights = ["none", "w.csv"]\nstrategies = "identity"\n'
    )
    plain, weighty = rows(pml.sweep(tmp_path / "study.toml", tmp_path / "rows.sqlite"))
    assert (plain["workload"], plain["weights"]) == ("histogram:2", None)
    assert (weighty["workload"], weighty["weights"]) == ("histogram:2", "w.csv")
    assert plain["error"] == pytest.approx(2**0.5)
    assert numbers_of(weighty, ["error", "unweighted_error"]) == pytest.approx([5, 2**0.5])


def test_weights_that_do_not_fit_are_refused(tmp_path):
    np.savetxt(tmp_path / "w.csv", [3.0, 4.0])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:3"\nweights = "w.csv"\nstrategies = "identity"\n'
    )
    with pytest.raises(pml.InvalidInputError, match="weights must be"):
        pml.sweep(tmp_path / "study.toml", tmp_path / "rows.sqlite")


def test_participation_multiplies_what_a_person_can_change(tmp_path):
    study = {
        "workloads": "prefix:8",
        "strategies": "identity",
        "noise": "gaussian",
        "participation": ["once", "4,every=2"],
    }
    once, often = rows(pml.sweep(study, tmp_path / "rows.sqlite"))
    assert (once["participation"], often["participation"]) == (None, "4,every=2")
    # four measurements of one number each move by 1: twice as far as one
    assert numbers_of(once, ["sensitivity"]) == [1]
    assert numbers_of(often, ["sensitivity"]) == pytest.approx([2])
    assert often["error"] == pytest.approx(2 * once["error"])


def test_an_alpha_for_each_cell_comes_from_a_file(tmp_path):
    np.savetxt(tmp_path / "alpha.csv", [0.2, 0.3, 0.4])
    (tmp_path / "study.toml").write_text(
        'workloads = "histogram:{n}"\nn = [3, 4]\nstrategies = "identity"\n'
        'guarantees = ["pml:0.5,alpha=0.1", "pml:0.5,alpha=alpha.csv"]\n'
    )
    table = rows(pml.sweep(tmp_path / "study.toml", tmp_path / "rows.sqlite"))
    assert [(row["alpha"], row["alpha_file"]) for row in table] == [
        (0.1, None), (None, "alpha.csv"), (0.1, None), (None, "alpha.csv"),
    ]  # fmt: skip
    for row, alpha in zip(table, (0.1, (0.2, 0.3, 0.4)), strict=False):
        # three cells of variance 2 b^2, less the third that the public total takes away
        scale = pml.mechanism("identity", "histogram:3", guarantee=pml.PML(0.5, alpha)).scale
        assert numbers_of(row, ["scale", "error"]) == pytest.approx([scale, 2 * scale])
    assert table[1]["scale"] < table[0]["scale"]  # more is assumed
    assert table[3]["status"] == (
        "alpha must be one number or one for each of the k = 4 cells, got 3"
    )


def test_a_sweep_is_a_frame_with_columns_of_one_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(
        display, "find_spec", lambda name: None if name == "pandas" else find_spec(name)
    )
    study = STUDY | {"n": 7, "p": 2, "strategies": ["identity"]}
    result = pml.sweep(study, tmp_path / "rows.sqlite")
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

    result = pml.sweep(STUDY, tmp_path / "rows.sqlite", announce=announce)
    assert not result.complete
    assert len(result.to_frame()) == result.computed > 0


def test_files_are_looked_for_beside_the_study(tmp_path):
    np.save(tmp_path / "queries.npy", np.tril(np.ones((4, 4))))
    np.savetxt(tmp_path / "mine.csv", np.eye(4), delimiter=",")
    (tmp_path / "study.toml").write_text(
        'workloads = ["queries.npy"]\nstrategies = ["mine.csv"]\np = 4\n'
    )
    (row,) = rows(pml.sweep(tmp_path / "study.toml", tmp_path / "rows.sqlite"))
    assert (row["workload"], row["strategy"]) == ("queries.npy", "mine.csv")
    # variances 1, 2, 3 and 4, of normal numbers E x^4 = 3 sigma^4
    assert row["error"] == pytest.approx((3 * (1 + 4 + 9 + 16)) ** 0.25)
