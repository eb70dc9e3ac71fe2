"""The norm of running sums, with a certificate and the strategy that attains it.

The fixed point runs with as few nodes as the gap allows: the loss of K nodes is close to a quarter
of the square of their largest error, 4 exp(-2 pi^2 K / (log(M/m) + 3)). Of some upper ends for the
nodes the best one is taken: few eigenvalues are large. Columns that are level while the bounds do
not meet call for one node more. With a given number of buffers the strategy of so many nodes
follows from the best weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import CLOSER, BoundsLoop, final_status
from pmldesign_solvers.norm.solution import Bounds, Outcome, SolverOptions, Status
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.certificate import certify
from pmldesign_solvers.streams.chain import DualProblem
from pmldesign_solvers.streams.fixed_point import Level, fit, start
from pmldesign_solvers.streams.nodes import Nodes, zolotarev

MOST_BUFFERS = 128
"""Of which the error is 3e-15 at a condition of 10^30 (`nodes_for`)."""
CUTS = (1.0, 0.3, 0.1, 0.03)
"""Upper ends of the nodes, in parts of the bound: for running sums of 10^3 cells 0.3 is the best
of them, of 10^6 cells 0.1 with 12 buffers and 0.03 with 8; others lose up to 4 times as much."""
FEW_CUTS = (*CUTS, 0.01, 0.003)
"""For a given number of buffers, which may be so few that large eigenvalues count little."""
SHARE = 0.2
"""Part of the gap that the nodes may take."""
MORE = 1.2
"""Times as many nodes as there are, from which on a wider spectrum calls for more."""
LEVEL = 0.1
"""Part of the gap below which columns are level: more steps gain nothing."""
CORRECTIONS = 20
"""How often a search goes on that believed its bounds to be closer than they are."""
BUFFER_STEPS = 40
"""Steps for a given number of buffers; 5 to 15 level the columns of running sums."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StreamSolution(Outcome):
    """Weights and nodes of a strategy, X = sum_k c_k ((A^T U A)^-1 + s_k^2 W)^-1.

    Attributes:
        u: weights of the queries, shape (m,), all ones where p = 2.
        w: weights of the cells, shape (n,), sum 1.
        nodes: s_k and c_k; their number is that of the buffers.
    """

    u: Array
    w: Array
    nodes: Nodes


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate(Bounds):
    """A step of the fixed point with the bounds that it is believed to prove."""

    point: Level


def solve(
    problem: DualProblem,
    p: float,
    *,
    buffers: int | None = None,
    options: SolverOptions | None = None,
) -> StreamSolution:
    """Compute gamma_(p) with a certificate, and a strategy with few buffers that comes close.

    Args:
        problem: the workload.
        p: in [2, inf]; 2 for all ranges.
        buffers: number of nodes of the strategy, from 2 to MOST_BUFFERS; None for as many as the
            gap asks for.
        options: when to stop.
    """
    options = options or SolverOptions()
    begin, rel_gap, deadline = time.perf_counter(), options.rel_gap, options.deadline
    search = BoundsLoop(_candidates(problem, p, rel_gap, deadline), options, begin)
    for _ in range(CORRECTIONS):
        status = search.run(CLOSER)
        dual, point = search.lower.point, search.upper.point
        certified = partial(_certificate, problem, p, dual, point, rel_gap)
        certificate = deadline.completed(certified)
        if deadline.interrupted:
            status = Status.INTERRUPTED
        if certificate.gap <= rel_gap or status is not Status.OPTIMAL:
            break
        search.correct(certificate)
    status = final_status(status, certificate, rel_gap)
    if buffers is not None and buffers != len(point.nodes.poles):
        chosen = partial(_with_buffers, problem, p, buffers, dual, certificate.lower, deadline)
        point = deadline.completed(chosen)
        certificate = _certificate(problem, p, dual, point, rel_gap)
        if status is Status.OPTIMAL and certificate.gap > rel_gap:
            status = Status.BUFFERS
    return StreamSolution(
        u=point.u,
        w=point.w,
        nodes=point.nodes,
        dual_u=dual.u,
        dual_w=dual.w,
        certificate=certificate,
        status=status,
        steps=search.steps,
        seconds=time.perf_counter() - begin,
    )


def nodes_for(condition: float, error: float) -> int:
    """How many nodes have a relative error on a spectrum of this condition."""
    rate = 2.0 * math.pi**2 / (math.log(condition) + 3.0)
    return min(MOST_BUFFERS, max(2, math.ceil(math.log(4.0 / error) / rate)))


def loss(condition: float, count: int) -> float:
    """What a strategy of so many nodes loses, about."""
    error = 4.0 * math.exp(-2.0 * math.pi**2 * count / (math.log(condition) + 3.0))
    return 0.25 * error**2


def _candidates(
    problem: DualProblem, p: float, rel_gap: float, deadline: Deadline
) -> Iterator[_Candidate]:
    error = math.sqrt(4.0 * SHARE * rel_gap)
    guess = nodes_for(float(problem.cells) ** 2 + 1e3, error)
    u, w = start(problem, p, guess, rel_gap, deadline)
    condition = _condition(problem, u, w)
    count = nodes_for(condition, error)
    points = _first_points(problem, p, count, (u, w), deadline)
    while True:
        for point in points:
            believed = point.level / (1.0 + loss(condition, count))
            yield _Candidate(believed, point.value, point)
            u, w = point.u, point.w
            wider = _condition(problem, u, w)
            needed = nodes_for(wider, error)
            level = point.slope <= LEVEL * rel_gap
            if count < MOST_BUFFERS and (level or needed > MORE * count):
                break
        count, condition = max(count + 1, needed), wider
        points = fit(problem, p, count, _best_cut(problem, p, count, u, w), u, w)


def _first_points(
    problem: DualProblem, p: float, count: int, weights: tuple[Array, Array], deadline: Deadline
) -> Iterator[Level]:
    """Steps of the fixed point, the first one in any case."""
    cut = CUTS[1]
    with deadline.catching():
        if not deadline.over():
            cut = _best_cut(problem, p, count, *weights)
    yield from deadline.begun(lambda: fit(problem, p, count, cut, *weights))


def _condition(problem: DualProblem, u: Array, w: Array) -> float:
    smallest, largest = problem.spectrum(u, w / w.sum())
    return largest / smallest


def _best_cut(
    problem: DualProblem,
    p: float,
    count: int,
    u: Array,
    w: Array,
    cuts: tuple[float, ...] = CUTS,
) -> float:
    """The one of least loss at these weights."""
    return min(cuts, key=lambda cut: next(fit(problem, p, count, cut, u, w)).level)


def _with_buffers(
    problem: DualProblem, p: float, count: int, dual: Level, lower: float, deadline: Deadline
) -> Level:
    """The strategy of so many nodes, from the best weights."""
    cut = _best_cut(problem, p, count, dual.u, dual.w, FEW_CUTS)
    best: Level | None = None
    for point in islice(fit(problem, p, count, cut, dual.u, dual.w), BUFFER_STEPS):
        if best is None or point.value < best.value:
            best = point
        if deadline.over() or point.slope <= LEVEL * max(point.level / lower - 1.0, 1e-9):
            break
    assert best is not None
    return best


def _certificate(
    problem: DualProblem, p: float, dual: Level, point: Level, rel_gap: float
) -> Certificate:
    smallest, largest = problem.spectrum(dual.u, dual.w)
    count = nodes_for(largest / smallest, 0.02 * min(rel_gap, 1e-5))
    fine = zolotarev(smallest, largest, count)
    return certify(problem, (dual.u, dual.w), (point.u, point.w), p, fine=fine, nodes=point.nodes)
