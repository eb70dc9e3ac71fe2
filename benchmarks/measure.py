"""One measurement in one process: `python measure.py SOLVER WORKLOAD CELLS P GOALS LIMIT LOWER`.

Prints one JSON object a goal, a relative gap. A process of its own gives every case the same start,
a peak memory of its own, and a limit that holds even inside a solver. Seconds are processor time:
with one thread they are what an idle machine would take, whoever else is using this one.

LOWER is a certified lower bound on gamma_(p)(A), 0 for the own solver, which finds it. Every
strategy, whoever made it, gets the certified upper bound of `pmldesign_solvers.certificate.cells`;
the gap is between these two.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from peers import PEERS

from pmldesign.workloads import parse_workload
from pmldesign_solvers.certificate import certify, upper_bound
from pmldesign_solvers.norm.solution import Solution, SolverOptions
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators import Deadline
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.oracle import programs
from pmldesign_solvers.oracle.programs import ProgramError

REPEATS = 3
TIGHTER = 1e-8
"""The gap to which the lower bound for all others is computed."""
ACCURACIES = {
    "SCS": [10.0**-digits for digits in range(3, 10)],
    "CLARABEL": [1e-3, 1e-5, 1e-7, 1e-9],
}
STUCK_AFTER = 10.0
"""Seconds after which a peer is stopped that has not come a tenth closer since half of its time."""
Row = dict[str, object]


def workload(name: str, cells: int) -> Operator:
    """Prefix and all-range without their matrix; random is 2n x n; the census table is merged."""
    if name == "random":
        entries = np.random.default_rng(0).integers(0, 2, (2 * cells, cells))
        return DenseOperator(entries.astype(float))
    if name == "census-p12":
        return DenseOperator(MergedWorkload(parse_workload(name)).operator.to_dense())
    return parse_workload(f"{name}:{cells}")


def own(operator: Operator, p: float, goals: list[float], limit: float) -> Iterator[Row]:
    """The fastest of a few runs for each goal, then what serves to judge the others.

    That is a tight lower bound, and the seconds that `certify` takes.
    """
    for goal in goals:
        start = time.perf_counter()
        runs: list[tuple[float, Solution]] = []
        while len(runs) < REPEATS and time.perf_counter() - start < limit / 10:
            begun = time.process_time()
            solution = solve_norm(
                operator, p, options=SolverOptions(rel_gap=goal, deadline=Deadline(limit))
            )
            runs.append((time.process_time() - begun, solution))
        seconds, solution = min(runs, key=lambda run: run[0])
        gap = solution.certificate.gap
        yield row(goal, seconds, gap) | {
            "steps": solution.steps,
            "decompositions": solution.eigendecompositions,
            "note": "" if gap <= goal else solution.status.name.lower().replace("_", " "),
        }
        if gap > goal:
            return
    tight = solve_norm(
        operator, p, options=SolverOptions(rel_gap=TIGHTER, deadline=Deadline(limit))
    )
    begun = time.process_time()
    certify(operator, tight.strategy, tight.right_inverse, tight.dual_u, tight.dual_w, p)
    seconds = time.process_time() - begun
    lower = max(tight.certificate.lower, solution.certificate.lower)
    yield {"lower": lower, "certificate": float(f"{seconds:.3g}")}


def program(
    solver: str, operator: Operator, p: float, goals: list[float], limit: float, lower: float
) -> Iterator[Row]:
    """The first accuracy whose strategy meets the goal; the failed ones are not timed."""
    matrix = operator.to_dense()
    programs.solve(np.eye(2), p, solver=solver)  # loads CVXPY
    start = time.process_time()
    accuracies = list(ACCURACIES[solver])
    best: Row = {}
    for goal in goals:
        while not best or best["certified_gap"] > goal:
            left = limit - (time.process_time() - start)
            if left <= 0 or not accuracies:
                break
            accuracy, begun = accuracies.pop(0), time.process_time()
            with suppress(ProgramError):  # no point at all: try the next accuracy
                found = programs.solve(matrix, p, solver=solver, accuracy=accuracy, time_limit=left)
                gap = found.certificate.upper / lower - 1.0
                best = row(goal, time.process_time() - begun, gap)
                best |= {"steps": found.steps, "accuracy": accuracy}
        if best:
            met = best["certified_gap"] <= goal
            late = time.process_time() - start >= limit
            note = "" if met else "time limit" if late else "accuracy exhausted"
            yield best | {"goal": goal, "met": met, "note": note}


class Finished(Exception):  # noqa: N818 - no error
    """The last goal is met, or the time is over."""


class Trace:
    """Takes a peer's iterates, times and certifies those that matter; its own work is not timed."""

    def __init__(
        self, operator: Operator, p: float, goals: list[float], limit: float, lower: float
    ) -> None:
        self._operator, self._p, self._lower = operator, p, lower
        self._goals, self._limit = list(goals), limit
        self._history: list[tuple[float, float]] = []
        self.rows: list[Row] = []
        self._startup = 0.0
        self._begun = time.process_time()

    def restart(self) -> None:
        """Set the clock to zero and call what was before startup."""
        self._startup += time.process_time() - self._begun
        self._begun = time.process_time()

    def __call__(self, value: Callable[[], float], gram: Callable[[], Array], **spent: int) -> None:
        """Take an iterate."""
        paused = time.process_time()
        seconds = paused - self._begun
        believed = value() / self._lower - 1.0
        self._history.append((seconds, believed))
        spent |= {"startup": round(self._startup, 3)}
        if believed <= self._goals[0]:
            gap = self._certified(gram())
            while self._goals and gap <= self._goals[0]:
                self.rows.append(row(self._goals.pop(0), seconds, gap) | spent)
        stuck = self._stuck()
        if self._goals and (seconds >= self._limit or stuck):
            note = "stuck" if stuck else "time limit"
            if stuck:  # it was as good as this before
                seconds = next(then for then, gap in self._history if gap <= 1.1 * believed)
            reached = row(self._goals[0], seconds, self._certified(gram())) | spent
            self.rows += [reached | {"goal": goal, "note": note} for goal in self._goals]
            self._goals = []
        if not self._goals:
            raise Finished
        self._begun += time.process_time() - paused

    def _certified(self, gram: Array) -> float:
        norms = np.sqrt(gram.diagonal())
        strategy = np.linalg.cholesky(gram / norms / norms[:, None]).T
        inverse = np.linalg.inv(strategy)
        return upper_bound(self._operator, strategy, inverse, self._p) / self._lower - 1.0

    def _stuck(self) -> bool:
        seconds, believed = self._history[-1]
        middle = bisect_left(self._history, (seconds / 2, 0.0))
        return seconds >= STUCK_AFTER and believed > 0.9 * self._history[middle][1]


def peer(
    solver: str, operator: Operator, p: float, goals: list[float], limit: float, lower: float
) -> Iterator[Row]:
    """For each goal the fastest of a few runs."""
    start = time.perf_counter()
    runs: list[list[Row]] = []
    while len(runs) < REPEATS and time.perf_counter() - start < limit / 10:
        trace = Trace(operator, p, goals, limit, lower)
        with suppress(Finished):
            PEERS[solver](operator, p, trace)
        runs.append(trace.rows)
    for rows in zip(*runs, strict=True):
        yield min(rows, key=lambda found: (not found["met"], found["seconds"]))


def row(goal: float, seconds: float, gap: float) -> Row:
    if gap < 0:
        raise AssertionError(f"a strategy lies below the certified lower bound: gap {gap}")
    return {
        "goal": goal,
        "met": gap <= goal,
        "seconds": float(f"{seconds:.3g}"),
        "certified_gap": float(f"{gap:.3g}"),
    }


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (2**20 if sys.platform == "darwin" else 2**10), 1)


def main() -> None:
    """Measure what the command line names."""
    solver, name, cells = sys.argv[1:4]
    p, limit, lower = (float(sys.argv[index]) for index in (4, 6, 7))
    goals = sorted((float(goal) for goal in sys.argv[5].split(",")), reverse=True)
    operator = workload(name, int(cells))
    rows: Iterator[Row]
    if solver == "own":
        rows = own(operator, p, goals, limit)
    elif solver in PEERS:
        rows = peer(solver, operator, p, goals, limit, lower)
    else:
        rows = program(solver.upper(), operator, p, goals, limit, lower)
    for found in rows:
        found |= {"rows": operator.shape[0], "peak_mb": peak_megabytes()}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
