import csv
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_quick_benchmark_compares_both_solvers(tmp_path):
    paths = [str(ROOT), str(ROOT / "solvers"), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", "--quick", "--output", tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        check=True,
        capture_output=True,
    )
    with (tmp_path / "solvers.csv").open() as file:
        rows = list(csv.DictReader(file))
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
