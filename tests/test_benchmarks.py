import contextlib
import csv
import importlib
import io
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import SolverOptions, solve_norm

ROOT = Path(__file__).parent.parent


class Processes:
    """Runs scripts of benchmarks in this process, which has their libraries in memory."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(subprocess, "run", self.run)
        monkeypatch.syspath_prepend(ROOT / "benchmarks")

    def run(self, command, **_options):
        printed = io.StringIO()
        with self.monkeypatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(sys, "argv", [str(word) for word in command[1:]])
            runpy.run_path(str(command[1]), run_name="__main__")
        return subprocess.CompletedProcess(command, 0, printed.getvalue())


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The rows that a benchmark writes."""

    def run(script, *options):
        here = Processes(monkeypatch)
        here.run([sys.executable, ROOT / "benchmarks" / script, *options, "--output", tmp_path])
        with next(tmp_path.glob("*.csv")).open() as file:
            return list(csv.DictReader(file))

    return run


def test_the_quick_benchmark_compares_the_solvers(tmp_path, results):
    rows = results("run.py", "--quick")
    # one workload, 3 gaps, small enough for every solver
    assert {row["solver"] for row in rows} >= {"own", "fixed-point", "l-bfgs", "scs", "clarabel"}
    assert len(rows) == 3 * len({row["solver"] for row in rows})
    for row in rows:
        assert row["met"] == "True"
        assert 0 <= float(row["certified_gap"]) <= float(row["goal"])
        assert float(row["seconds"]) > 0
    lines = (tmp_path / "table.md").read_text().splitlines()
    times = [line for line in lines if line.startswith("| 2 |")]
    assert len(times) == 3
    assert len({line.count("|") for line in times}) == 1
    assert (tmp_path / "solvers.png").read_bytes().startswith(b"\x89PNG")


def peers(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("peers")


class Last:
    """Keeps the last iterate of a peer, ends the run when its value no longer falls."""

    def __init__(self):
        self.value = np.inf

    def __call__(self, value, gram, **spent):
        before, self.value, self.gram = self.value, value(), gram()
        if before - self.value < 1e-10 * self.value:
            raise StopIteration


@pytest.mark.parametrize("name", ["fixed-point", "l-bfgs"])
@pytest.mark.parametrize("workload", ["prefix:12", "all-range:6", "window:9,4"])
def test_peers_reach_the_certified_optimum(monkeypatch, name, workload):
    operator = parse_workload(workload)
    last = Last()
    with suppress(StopIteration):
        peers(monkeypatch).PEERS[name](operator, 2.0, last)
    best = solve_norm(operator, 2.0, options=SolverOptions(rel_gap=1e-9)).certificate
    assert best.lower * (1 - 1e-12) <= last.value <= best.upper * (1 + 1e-5)
    # what it says of its value is the error of its strategy, of sensitivity 1
    A = operator.to_dense()
    np.testing.assert_allclose(last.gram.diagonal(), 1.0, rtol=1e-9)
    assert np.trace(A @ np.linalg.inv(last.gram) @ A.T) == pytest.approx(last.value**2)


def test_everything_that_could_be_a_step_computes_the_same(results):
    rows = results("step_cost.py", "--sizes", "60", "--threads", "1")
    assert len({row["what"] for row in rows}) == len(rows) - 2 * 2
    for row in rows:
        assert float(row["seconds"]) > 0
        assert float(row["gap"] or 0) <= 1e-6
        if "single" not in row["what"]:
            assert float(row["difference"] or 0) <= 1e-8


def test_tables_beside_the_peers(tmp_path, results):
    rows = results("tables.py", "--only", "5,2,20,ways=3")
    assert [(row["workload"], row["peer"]) for row in rows] == [
        ("marginals:75,16,5,2,20,ways=3", "HDMM")
    ]
    assert float(rows[0]["rmse"]) <= float(rows[0]["published"]) + 1e-3
    assert len((tmp_path / "tables.md").read_text().splitlines()) == 3


def laplace_bounds(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("laplace_bounds")


def test_bounds_of_laplace_noise_hold_for_every_strategy(monkeypatch):
    module, rng = laplace_bounds(monkeypatch), np.random.default_rng(3)
    for n in (2, 3, 4):
        grams = module.signed_groups(n)
        assert len(grams) == {2: 3, 3: 11, 4: 49}[n]
        for _ in range(40):
            A, R = rng.normal(size=(n + 1, n)), rng.normal(size=(n + 2, n))
            R[np.abs(R) < rng.uniform(0, 1)] = 0.0
            R[:n] += 0.1 * np.eye(n)
            R /= np.abs(R).sum(axis=0)
            inverse = np.linalg.inv(R.T @ R)
            error = np.sqrt(2 * np.trace(A @ inverse @ A.T))
            # the vectors for which Cauchy and Schwarz are equal for this strategy, and others
            W = np.linalg.qr(rng.normal(size=(n + 3, n + 1)))[0] @ A
            for V in (W @ inverse, rng.normal(size=W.shape)):
                assert module.proved(W, V, grams) <= error


def test_bounds_of_laplace_noise_are_ahead_of_those_of_gaussian_noise(monkeypatch):
    module = laplace_bounds(monkeypatch)
    # the identity is the best for a histogram
    assert module.lower_bound(np.eye(3), terms=3, starts=1) == pytest.approx(np.sqrt(6), rel=1e-5)
    A = parse_workload("prefix:3").to_dense()
    gaussian = np.sqrt(2) * solve_norm(parse_workload("prefix:3"), 2.0).certificate.upper
    bound = module.lower_bound(A, terms=4, starts=1)
    assert 1.02 * gaussian < bound <= np.sqrt(2) * np.linalg.norm(A)


def test_commands_are_counted_in_seconds_memory_and_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("commands")
    assert len(set(module.COMMANDS)) == 40
    folder = module.prepared(tmp_path / "here")
    command = "schema draft people.csv -o drafted.json"
    one = module.run(command, ROOT, folder, module.COUNTING)
    assert one.seconds > 0.01
    assert one.megabytes > 10
    assert (folder / "drafted.json").exists()
    files = int((folder / "entered").read_text())
    assert 3 < files < 40
    line = module.line_of(command, {ROOT: [one], folder: [module.Run(one.seconds / 2, 1.0)]}, files)
    assert line.endswith(f"| 2.00 | {one.megabytes:.2f} |")
    with pytest.raises(RuntimeError, match="wrong"):
        module.run("workload wrong:4", ROOT, folder)


def test_variances_of_a_hundred_attributes_are_timed(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    importlib.import_module("many_attributes").main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["TablesStrategy", "WeightedTablesStrategy"]
