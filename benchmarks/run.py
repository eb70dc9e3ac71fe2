"""Own solver and CVXPY with SCS side by side: `python benchmarks/run.py [--quick] [--threads 1]`.

Both solve the same workloads to a certified gap, each case in a process of its own. Writes one CSV
row per (workload, n, p, solver, gap) and the table of the README.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
WORKLOADS = ("prefix", "all-range", "random")
GAPS = ("1e-4", "1e-6")
LARGEST_BLOCK = 600
"""Order m + n of the semidefinite block above which SCS is not tried."""
COLUMNS = (
    *("workload", "n", "rows", "p", "solver", "gap", "met", "seconds", "certified_gap"),
    *("steps", "eigendecompositions", "accuracy", "peak_mb", "note"),
)
Row = dict[str, object]


def measure(solver: str, name: str, cells: int, p: str, limit: float, threads: int) -> list[Row]:
    """The rows of one case; gaps that it did not come to are rows without a time."""
    case: Row = {"workload": name, "n": cells, "p": p, "solver": solver}
    variables = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(threads))
    arguments = [solver, name, str(cells), p, ",".join(GAPS), str(limit)]
    try:
        output = subprocess.run(
            [sys.executable, str(HERE / "measure.py"), *arguments],
            env=environment,
            timeout=(6 if solver == "own" else 1.5) * limit + 10,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        reason = "time limit"
    except subprocess.TimeoutExpired as stopped:
        output, reason = stopped.stdout or b"", "stopped from outside: time limit"
    found = [case | json.loads(line) for line in output.splitlines()]
    missing = GAPS[len(found) :]
    return found + [case | {"gap": float(gap), "met": False, "note": reason} for gap in missing]


def not_tried(name: str, cells: int, p: str) -> list[Row]:
    """Rows that say why SCS was not run."""
    block = block_order(name, cells)
    note = f"not run: semidefinite block of order {block} > {LARGEST_BLOCK}"
    case: Row = {"workload": name, "n": cells, "p": p, "solver": "scs", "met": False, "note": note}
    return [case | {"gap": float(gap)} for gap in GAPS]


def block_order(name: str, cells: int) -> int:
    """Of the semidefinite program, m + n."""
    rows = {"prefix": cells, "all-range": cells * (cells + 1) // 2, "random": 2 * cells}[name]
    return rows + cells


def cases(
    sizes: list[int], shared: int, exponents: list[str], options: argparse.Namespace
) -> Iterator[Row]:
    """All rows; SCS takes part up to `shared` cells."""
    for name in WORKLOADS:
        for cells in sizes:
            for p in exponents:
                yield from measure("own", name, cells, p, options.limit, options.threads)
                if cells <= shared and block_order(name, cells) <= LARGEST_BLOCK:
                    yield from measure("scs", name, cells, p, options.limit, options.threads)
                elif cells <= shared:
                    yield from not_tried(name, cells, p)


def table(rows: list[Row]) -> str:
    """Markdown: one line per (workload, n, p), the time of each solver to each gap, the ratio."""
    lines = [
        "| workload | n | p | own 1e-4 | SCS 1e-4 | ratio | own 1e-6 | SCS 1e-6 | ratio | steps "
        "| decompositions |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    keyed = {(r["workload"], r["n"], r["p"], r["solver"], r["gap"]): r for r in rows}
    for workload, n, p in dict.fromkeys((r["workload"], r["n"], r["p"]) for r in rows):
        cells = []
        for gap in map(float, GAPS):
            ours = keyed[workload, n, p, "own", gap]
            theirs = keyed.get((workload, n, p, "scs", gap))
            both = theirs is not None and ours["met"] and theirs["met"]
            ratio = (
                f"{float(str(theirs['seconds'])) / float(str(ours['seconds'])):.0f}" if both else ""
            )
            cells += [_time(ours), "" if theirs is None else _time(theirs), ratio]
        counts = [ours.get("steps", ""), ours.get("eigendecompositions", "")]
        lines.append("| " + " | ".join(map(str, [workload, n, p, *cells, *counts])) + " |")
    return "\n".join(lines) + "\n"


def _time(row: Row) -> str:
    if row["met"]:
        return f"{row['seconds']:.3g} s"
    if "certified_gap" in row:
        return f"{row['note']} at {row['certified_gap']:.1e}"
    return str(row["note"]).split(":")[0]


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a few seconds")
    parser.add_argument("--threads", type=int, default=1, help="of the linear algebra")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a solver has per case")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder")
    options = parser.parse_args()
    sizes, shared = ([8], 8) if options.quick else ([2**k for k in range(4, 11)], 128)
    exponents = ["4"] if options.quick else ["2", "4", "inf"]
    options.output.mkdir(parents=True, exist_ok=True)
    rows = []
    with (options.output / "solvers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in cases(sizes, shared, exponents, options):
            rows.append(row)
            writer.writerow(row)
            file.flush()
            print(*(f"{key}={row[key]}" for key in COLUMNS if key in row), file=sys.stderr)
    (options.output / "table.md").write_text(table(rows))


if __name__ == "__main__":
    main()
