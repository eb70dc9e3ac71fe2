import csv
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def results(folder, script, *options):
    """The rows that a benchmark writes."""
    paths = [str(ROOT), str(ROOT / "solvers"), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, ROOT / "benchmarks" / script, *options, "--output", folder],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        check=True,
        capture_output=True,
    )
    with next(folder.glob("*.csv")).open() as file:
        return list(csv.DictReader(file))


def test_the_quick_benchmark_compares_both_solvers(tmp_path):
    rows = results(tmp_path, "run.py", "--quick")
    # 3 workloads, 2 solvers, 2 gaps: all of them small enough for every solver
    assert len(rows) == 12
    assert {row["solver"] for row in rows} == {"own", "scs"}
    for row in rows:
        assert row["met"] == "True"
        assert 0 < float(row["certified_gap"]) <= float(row["gap"])
        assert float(row["seconds"]) > 0
    table = (tmp_path / "table.md").read_text().splitlines()
    assert len(table) == 2 + 3
    assert len({line.count("|") for line in table}) == 1


def test_everything_that_could_be_a_step_computes_the_same(tmp_path):
    rows = results(tmp_path, "step_cost.py", "--sizes", "60", "--threads", "1")
    assert len({row["what"] for row in rows}) == len(rows) - 2 * 4
    for row in rows:
        assert float(row["seconds"]) > 0
        assert float(row["gap"] or 0) <= 1e-6
        if "single" not in row["what"]:
            assert float(row["difference"] or 0) <= 1e-8
