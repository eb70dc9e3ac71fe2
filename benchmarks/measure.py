"""One measurement in one process: `python measure.py SOLVER WORKLOAD CELLS P GAPS LIMIT`.

Prints one JSON object a gap. A process of its own gives every case the same start, a peak memory of
its own, and a limit that holds even inside a solver. Seconds are processor time: with one thread
they are what an idle machine would take, whoever else is using this one.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from pmldesign.workloads import parse_workload
from pmldesign_solvers import gamma, programs
from pmldesign_solvers.operators import DenseOperator, Operator
from pmldesign_solvers.solution import Solution

REPEATS = 3
ACCURACIES = [10.0**-digits for digits in range(3, 10)]
Row = dict[str, object]
Timed = tuple[float, Solution]


def workload(name: str, cells: int) -> Operator:
    """Prefix and all-range without their matrix; random is 2n x n with entries 0 and 1."""
    if name == "random":
        entries = np.random.default_rng(0).integers(0, 2, (2 * cells, cells))
        return DenseOperator(entries.astype(float))
    return parse_workload(f"{name}:{cells}")


def own(operator: Operator, p: float, gaps: list[float], limit: float) -> Iterator[Row]:
    """The fastest of a few runs for each gap."""
    for gap in gaps:
        start = time.perf_counter()
        runs: list[Timed] = []
        while len(runs) < REPEATS and time.perf_counter() - start < limit / 3:
            runs.append(_timed(gamma.solve, operator, p, rel_gap=gap, time_limit=limit))
        yield _row(gap, min(runs, key=lambda run: run[0]))


def scs(operator: Operator, p: float, gaps: list[float], limit: float) -> Iterator[Row]:
    """The first accuracy whose certificate meets the gap; the failed ones are not timed."""
    matrix = operator.to_dense()
    programs.solve(np.eye(2), p)  # loads CVXPY
    start = time.perf_counter()
    accuracies = list(ACCURACIES)
    accuracy, run = np.nan, None
    for gap in sorted(gaps, reverse=True):
        while run is None or run[1].certificate.gap > gap:
            left = limit - (time.perf_counter() - start)
            if left <= 0 or not accuracies:
                break
            accuracy = accuracies.pop(0)
            with suppress(programs.ProgramError):  # no point at all: try the next accuracy
                run = _timed(programs.solve, matrix, p, accuracy=accuracy, time_limit=left)
        if run is not None:
            row = _row(gap, run) | {"accuracy": accuracy}
            late = not row["met"] and time.perf_counter() - start >= limit
            yield row | {"note": "time limit"} if late else row


def _timed(solve: Callable[..., Solution], *arguments: object, **options: float) -> Timed:
    start = time.process_time()
    solution = solve(*arguments, **options)
    return time.process_time() - start, solution


def _row(gap: float, run: Timed) -> Row:
    seconds, solution = run
    reached = solution.certificate.gap
    return {
        "gap": gap,
        "seconds": float(f"{seconds:.3g}"),
        "certified_gap": float(f"{reached:.3g}"),
        "met": reached <= gap,
        "steps": solution.steps,
        "eigendecompositions": solution.eigendecompositions,
        "note": "" if reached <= gap else solution.status.name.lower().replace("_", " "),
    }


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (2**20 if sys.platform == "darwin" else 2**10), 1)


def main() -> None:
    """Measure what the command line names."""
    solver, name, cells, p, gaps, limit = sys.argv[1:]
    operator = workload(name, int(cells))
    measure = {"own": own, "scs": scs}[solver]
    for row in measure(operator, float(p), [float(gap) for gap in gaps.split(",")], float(limit)):
        row |= {"rows": operator.shape[0], "peak_mb": peak_megabytes()}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
