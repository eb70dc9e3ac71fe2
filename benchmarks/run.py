"""Solvers side by side: `python benchmarks/run.py [--quick] [--limit 60] [--threads 1]`.

Every contestant solves the same workloads to the same certified gaps, one after the other for each
case, each in a process of its own. Writes `solvers.csv`, one row for each (workload, n, p, solver,
goal), and what `report.py` makes of it. jax-privacy takes part where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import report

HERE = Path(__file__).parent
GOALS = (1e-2, 1e-4, 1e-6)
SIZES = {"2": (16, 64, 256, 512, 1024, 2048), "inf": (16, 64, 256, 1024), "4": (16, 64, 256, 1024)}
CENSUS_CELLS = 46
"""Distinct cells of census-p12, which has one size."""
LARGEST_BLOCK = {"scs": 200, "clarabel": 100}
"""Order m + n of the semidefinite block above which it is not tried."""
LARGEST = {"fixed-point": 2048, "l-bfgs": 2048, "jax-privacy": 1024}
"""Cells above which it is not tried."""
LARGEST_MATRIX = 2**23
"""Entries of the workload above which jax-privacy is not tried at p = inf."""
COLUMNS = (
    *("workload", "n", "rows", "p", "solver", "goal", "met", "seconds", "certified_gap", "steps"),
    *("decompositions", "factorizations", "accuracy", "startup", "certificate", "peak_mb", "note"),
)
Row = dict[str, object]


def measure(
    solver: str, case: Row, goals: tuple[float, ...], lower: float, options: argparse.Namespace
) -> list[Row]:
    """The rows of one contestant; goals that it did not come to are rows without a time."""
    variables = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(options.threads))
    if options.threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    arguments = [solver, case["workload"], case["n"], case["p"], ",".join(map(str, goals))]
    try:
        output = subprocess.run(
            [sys.executable, HERE / "measure.py", *map(str, [*arguments, options.limit, lower])],
            env=environment,
            timeout=6 * options.limit + 60,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        reason = "time limit"
    except subprocess.TimeoutExpired as stopped:
        output, reason = stopped.stdout or b"", "stopped from outside: time limit"
    found: list[Row] = [json.loads(line) for line in output.splitlines()]
    seen = {row.get("goal") for row in found}
    missing = [{"goal": goal, "met": False, "note": reason} for goal in goals if goal not in seen]
    return [case | {"solver": solver} | row for row in found + missing]


def peers(case: Row) -> list[str]:
    """Who can do this case in principle."""
    name, n, p = str(case["workload"]), int(str(case["n"])), case["p"]
    rows = {"all-range": n * (n + 1) // 2, "random": 2 * n, "census-p12": 49}.get(name, n)
    found = ["fixed-point", "l-bfgs"] if p == "2" else []
    small = p == "2" or rows * n <= LARGEST_MATRIX
    if p != "4" and small and importlib.util.find_spec("jax_privacy") is not None:
        found.append("jax-privacy")
    found = [solver for solver in found if n <= LARGEST[solver]]
    return found + [solver for solver, block in LARGEST_BLOCK.items() if rows + n <= block]


def cases(options: argparse.Namespace) -> Iterator[Row]:
    """All rows; whoever ran out of time before the first goal does not try larger sizes."""
    sizes = {"2": (8,)} if options.quick else SIZES
    late: set[tuple[str, str, str]] = set()
    for p in sizes:
        workloads = ("prefix",) if options.quick else ("prefix", "all-range", "random")
        names = [(name, n) for name in workloads for n in sizes[p]]
        for name, n in names if options.quick else [*names, ("census-p12", CENSUS_CELLS)]:
            case: Row = {"workload": name, "n": n, "p": p}
            *own, bound = measure("own", case, GOALS, 0.0, options)
            yield from (row | {"certificate": bound.get("certificate", "")} for row in own)
            if "lower" not in bound:  # the own solver ran out of time
                yield bound
                continue
            missed: set[float] = set()
            for solver in peers(case):
                if (name, p, solver) in late:
                    continue
                rows = measure(solver, case, GOALS, float(str(bound["lower"])), options)
                yield from rows
                missed |= {
                    float(str(row["certified_gap"]))
                    for row in rows
                    if not row["met"] and "certified_gap" in row
                }
                if rows[0].get("note") not in (None, "", "stuck") and not rows[0]["met"]:
                    late.add((name, p, solver))
            if missed:  # the time to the gaps at which others ended
                yield from measure("own", case, tuple(missed), 0.0, options)[:-1]


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="one tiny workload, a few seconds")
    parser.add_argument("--threads", type=int, default=1, help="of the linear algebra")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a solver has per case")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "solvers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for row in cases(options):
            writer.writerow(row)
            file.flush()
            print(*(f"{key}={row[key]}" for key in COLUMNS if key in row), file=sys.stderr)
    report.write(options.output)


if __name__ == "__main__":
    main()
