"""What a step of the fixed point costs and what could replace it: `python step_cost.py`.

For running sums over n cells, every n and number of threads in a process of its own:

    factorizations  of the matrix that a step at p = 4 decomposes, diag(w)^(1/2) K diag(w)^(1/2) at
                    the best weights: LAPACK drivers, single precision, two halves (what a symmetric
                    workload would need), and iterations for its root;
    solutions       to a gap of 1e-6, from equal weights or extrapolated ones.

One CSV row each, with the time in units of numpy's eigh, and for what yields the diagonal of
M^(-1/2) how far it is from that of Newton's iteration. Seconds are processor time at one thread,
wall-clock time at more.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import linalg

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import warm_start
from pmldesign_solvers.norm.dense_dual import ScalingProblem
from pmldesign_solvers.norm.solution import Solution
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators import NEVER
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Array

HERE = Path(__file__).parent
COLUMNS = (
    *("n", "threads", "what", "p", "seconds", "in_eigh"),
    *("steps", "eigendecompositions", "gap", "difference"),
)
ROOT_ERROR = 1e-9
"""Relative change at which an iteration for a root is done."""
Row = dict[str, object]


def step_matrix(cells: int) -> Array:
    """diag(w)^(1/2) K diag(w)^(1/2) of a step at p = 4 near the optimum."""
    workload = parse_workload(f"prefix:{cells}")
    problem = ScalingProblem(MergedWorkload(workload), 4.0)
    guess = warm_start.start(problem, 1e-6, NEVER) or (np.ones(cells), np.ones(cells))
    u, w = problem.normalise(*guess)
    root = np.sqrt(w)
    return np.asarray(root[:, None] * workload.gram(u) * root)


def newton_root(matrix: Array) -> Array:
    """M^(1/2) by the product form of Denman and Beavers' iteration, with determinantal scaling."""
    n = len(matrix)
    unit, root = np.eye(n), matrix
    while True:
        factor = linalg.cholesky(matrix, check_finite=False)
        inverse = linalg.lapack.dpotri(factor)[0]
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        change = float(np.abs(matrix - unit).max())
        scale = np.exp(-np.log(factor.diagonal()).sum() / n) if change > 1e-2 else 1.0
        root = 0.5 * scale * (root + root @ inverse / scale**2)
        matrix = 0.5 * unit + 0.25 * (scale**2 * matrix + inverse / scale**2)
        if change < ROOT_ERROR:
            return root


def newton_schulz_root(matrix: Array) -> Array:
    """M^(1/2) by coupled Newton-Schulz iterations: products only."""
    size = float(np.abs(matrix).sum(axis=0).max())
    root, inverse, unit = matrix / size, np.eye(len(matrix)), np.eye(len(matrix))
    while True:
        step = 1.5 * unit - 0.5 * (inverse @ root)
        root, inverse = root @ step, step @ inverse
        if np.abs(step - unit).max() < ROOT_ERROR:
            return np.asarray(root * np.sqrt(size))


def polar_root(matrix: Array) -> Array:
    """M^(1/2) = U^T F for M = F^T F and the polar factor U of F, by the weighted Halley iteration.

    QDWH of Nakatsukasa, Bai and Gygi (2010): a step is a QR factorization of a 2n x n matrix, or a
    Cholesky factorization once that is stable.
    """
    factor, unit = linalg.cholesky(matrix, check_finite=False), np.eye(len(matrix))
    size = float(np.sqrt(np.abs(matrix).sum(axis=0).max()))
    polar, smallest = factor / size, float(1.0 / (size * np.linalg.norm(np.linalg.inv(factor))))
    while smallest < 1.0 - ROOT_ERROR:
        square = smallest**2
        d = (4.0 * (1.0 - square) / square**2) ** (1 / 3)
        a = np.sqrt(1.0 + d) + 0.5 * np.sqrt(
            8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * np.sqrt(1.0 + d))
        )
        b = (a - 1.0) ** 2 / 4.0
        c = a + b - 1.0
        if c > 100.0:
            both = linalg.qr(np.vstack([np.sqrt(c) * polar, unit]), mode="economic")[0]
            moved = both[: len(unit)] @ both[len(unit) :].T / np.sqrt(c)
        else:
            solved = linalg.cho_factor(unit + c * polar.T @ polar)
            moved = linalg.cho_solve(solved, polar.T).T
        polar = b / c * polar + (a - b / c) * moved
        smallest *= (a + b * square) / (1.0 + c * square)
    root = polar.T @ factor
    return np.asarray(0.5 * (root + root.T))


def factorizations(cells: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What to time; what yields a root says so by its name."""
    matrix = step_matrix(cells)
    half, single = matrix[::2, ::2], matrix.astype(np.float32)
    yield "numpy eigh", lambda: np.linalg.eigh(matrix)
    yield "product", lambda: matrix @ matrix
    drivers = ("evd", "evr", "ev") if cells <= 1024 else ("evd", "evr")
    for driver in drivers:
        yield f"scipy {driver}", lambda d=driver: linalg.eigh(matrix, driver=d, check_finite=False)
    yield "scipy evd, single precision", lambda: linalg.eigh(single, driver="evd")
    yield "two halves", lambda: (np.linalg.eigh(half), np.linalg.eigh(half))
    yield "root by Newton", lambda: newton_root(matrix)
    yield "root by Newton-Schulz", lambda: newton_schulz_root(matrix)
    yield "root by QDWH", lambda: polar_root(matrix)


def difference(name: str, result: object, reference: Array) -> float | None:
    """Largest relative one of the diagonal of M^(-1/2), on which the norms of rows depend."""
    if name.startswith("root"):
        found = np.linalg.inv(result).diagonal()
    elif name.startswith("scipy"):
        values, vectors = map(np.float64, result)
        with np.errstate(invalid="ignore"):
            found = (vectors**2) @ np.sqrt(values) ** -1.0
    else:
        return None
    return float(np.abs(found / reference - 1.0).max())


def solutions(cells: int) -> Iterator[tuple[str, str, Callable[[], Solution]]]:
    """Solvers from plain to complete."""
    smallest = warm_start.WORTHWHILE
    workload = parse_workload(f"prefix:{cells}")
    for p in ("2", "4", "inf"):
        for start in (False, True):
            warm_start.WORTHWHILE = smallest if start else cells + 1
            name = "extrapolated weights" if start else "equal weights"
            yield name, p, lambda exponent=float(p): solve_norm(workload, exponent)


def measure(cells: int, threads: int) -> Iterator[Row]:
    """All rows of this process."""
    clock = time.process_time if threads == 1 else time.perf_counter
    reference = np.linalg.inv(newton_root(step_matrix(cells))).diagonal()
    unit = np.nan

    def timed(run: Callable[[], object]) -> tuple[Row, object]:
        repeats = 3 if cells <= 1024 else 1
        runs = []
        for _ in range(repeats):
            start = clock()
            result = run()
            runs.append(clock() - start)
        return {"seconds": float(f"{min(runs):.3g}")}, result

    for name, run in factorizations(cells):
        row, result = timed(run)
        unit = row["seconds"] if name == "numpy eigh" else unit
        change = difference(name, result, reference)
        row |= {"what": name, "difference": "" if change is None else f"{change:.1e}"}
        yield row | {"in_eigh": round(row["seconds"] / unit, 2)}
    for name, p, run in solutions(cells):
        row, found = timed(run)
        row |= {"what": name, "p": p, "gap": f"{found.certificate.gap:.1e}"}
        row |= {"steps": found.steps, "eigendecompositions": found.eigendecompositions}
        yield row | {"in_eigh": round(row["seconds"] / unit, 2)}


def main() -> None:
    """Measure every size and number of threads in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--sizes", default="512,1024,2048", help="numbers of cells")
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        for row in measure(int(options.sizes), int(options.threads)):
            print(json.dumps(row), flush=True)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "step_cost.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for cells in options.sizes.split(","):
            for threads in options.threads.split(","):
                arguments = ["--here", "--sizes", cells, "--threads", threads]
                lines = subprocess.run(
                    [sys.executable, str(HERE / "step_cost.py"), *arguments],
                    env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
                    stdout=subprocess.PIPE,
                    check=True,
                ).stdout.splitlines()
                for line in lines:
                    row = {"n": cells, "threads": threads} | json.loads(line)
                    writer.writerow(row)
                    print(*row.items(), file=sys.stderr)


if __name__ == "__main__":
    main()
