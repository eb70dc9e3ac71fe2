"""Duals that vanish, and others: every small workload to a certified gap of 1e-6.

    python benchmarks/hard_duals.py [--output FOLDER]

For each workload, p and neighbouring relation: the gap of the certificate, steps,
eigendecompositions, and the processor time, also in units of one eigendecomposition of a matrix of
that order, because a step of the interior point method costs much besides its decomposition. Below
order 32 that unit is so small that it mostly counts the overhead of Python. One thread: run it as
`make benchmark-own`, or set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm.solution import SolverOptions
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators import Deadline
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Operator

GAP = 1e-6
EXPONENTS = (2.0, 2.5, 4.0, 16.0, np.inf)
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace")
NAMES = (
    *(f"{name}:{n}" for name in ("prefix", "all-range", "haar") for n in (8, 16, 32, 64)),
    *("random-range:40,64", "random-range:64,64", "random-range:200,64", "random-range:24,32"),
    *("window:16,4", "window:32,7", "window:64,8", "window:64,48"),
    *("parity:4,2", "parity:5,2", "parity:6,2", "parity:6,3"),
    "census-p12",
)
COLUMNS = (
    *("workload", "rows", "cells", "p", "relation", "gap", "met", "steps", "eigendecompositions"),
    *("seconds", "order", "cost", "status"),
)
Row = dict[str, object]


def workloads() -> Iterator[tuple[str, Operator]]:
    """Named ones, random matrices, and at the end the hardest known."""
    for name in NAMES:
        yield name, parse_workload(name)
    rng = np.random.default_rng(0)
    for rows, cells in ((20, 60), (200, 64)):
        entries = rng.integers(0, 2, (rows, cells)).astype(float)
        yield f"random 0/1 {rows}x{cells}", DenseOperator(entries)
    yield "Gaussian 40x30", DenseOperator(rng.standard_normal((40, 30)))
    sparse = (rng.random((64, 64)) < 0.1).astype(float)
    yield "one entry in ten 1, 64x64", DenseOperator(sparse)
    low = rng.standard_normal((30, 5)) @ rng.standard_normal((5, 40))
    yield "Gaussian of rank 5, 30x40", DenseOperator(low)
    yield "Cauchy 30x40", DenseOperator(rng.standard_cauchy((30, 40)))
    yield "Cauchy 64x64", DenseOperator(rng.standard_cauchy((64, 64)))


def seconds_of_decomposition(order: int) -> float:
    """Processor time of one `numpy.linalg.eigh`, the smallest of some."""
    matrix = np.random.default_rng(0).standard_normal((order, order))
    matrix += matrix.T
    best = np.inf
    for _ in range(20):
        start = time.process_time()
        np.linalg.eigh(matrix)
        best = min(best, time.process_time() - start)
    return best


def measure(name: str, operator: Operator, p: float, relation: Relation) -> Row:
    merged = MergedWorkload(operator).shape
    start = time.process_time()
    solution = solve_norm(
        operator, p, relation=relation, options=SolverOptions(rel_gap=GAP, deadline=Deadline(60.0))
    )
    seconds = time.process_time() - start
    order = min(merged) if relation == "add-remove" else merged[1] - 1
    return {
        "workload": name,
        "rows": operator.shape[0],
        "cells": operator.shape[1],
        "p": f"{p:g}",
        "relation": relation,
        "gap": f"{solution.certificate.gap:.2e}",
        "met": solution.certificate.gap <= GAP,
        "steps": solution.steps,
        "eigendecompositions": solution.eigendecompositions,
        "seconds": f"{seconds:.3g}",
        "order": order,
        "cost": round(seconds / seconds_of_decomposition(order)),
        "status": solution.status.name.lower(),
    }


def table(rows: list[Row]) -> str:
    """Markdown: a line for each workload and relation, the decompositions at each p."""
    heads = ["workload", "neighbours differ in", *(f"p = {p:g}" for p in EXPONENTS)]
    lines = [
        "# Results of benchmarks/hard_duals.py\n",
        "Eigendecompositions to a gap of 1e-6, or the gap reached instead; the longest time.\n",
        "| " + " | ".join([*heads, "seconds", "cost"]) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for start in range(0, len(rows), len(EXPONENTS)):
        group = rows[start : start + len(EXPONENTS)]
        cells = [
            str(row["eigendecompositions"]) if row["met"] else f"gap {row['gap']}" for row in group
        ]
        worst = max(group, key=lambda row: float(str(row["seconds"])))
        fields = [
            group[0]["workload"],
            group[0]["relation"],
            *cells,
            worst["seconds"],
            worst["cost"],
        ]
        lines.append("| " + " | ".join(map(str, fields)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for relation in RELATIONS:  # loads what is imported late
        solve_norm(parse_workload("all-range:8"), np.inf, relation=relation)
    rows = []
    with (folder / "hard_duals.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for name, operator in workloads():
            for relation in RELATIONS:
                for p in EXPONENTS:
                    rows.append(measure(name, operator, p, relation))
                    writer.writerow(rows[-1])
                    print(*rows[-1].values(), file=sys.stderr)
    (folder / "hard_duals.md").write_text(table(rows))


if __name__ == "__main__":
    main()
