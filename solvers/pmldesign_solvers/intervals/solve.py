"""The norm of running sums whose total is public, with both bounds and a stream that comes close.

Weights of the strategy start from few steps (`shape`) and level its columns, and at p > 2 its
variances, on every fourth step, then on all of these (`streams.fixed_point`). Weights of intervals
for the lower bound go from few steps to many likewise (`dual`). The bounds do not meet: product
weights are 0.2 to 0.3 % short, and this form of strategies loses 0.2 to 0.3 %.

Where weights of queries jump from step to step, every fourth step tells nothing. Then all steps are
levelled from the shape of even weights, along the steps and along what the queries turn out to
count; the better one's weights of queries are where the search for the lower bound begins.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.intervals.beside import BesideTotal
from pmldesign_solvers.intervals.dual import (
    IntervalWeights,
    first_weights,
    improved,
    lower_bound,
    open_sums,
)
from pmldesign_solvers.intervals.shape import shape_of_few, stretched
from pmldesign_solvers.norm.options import DEFAULTS, SolverOptions
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.norms import dual_norm
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.certificate import upper_bound
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.clock import Clock
from pmldesign_solvers.streams.fixed_point import Level, fit, refined
from pmldesign_solvers.streams.nodes import zolotarev
from pmldesign_solvers.streams.solve import StreamSolution, nodes_for

FEW = 64
"""Steps of the coarsest problem, at most."""
EVEN = 32
"""Steps of the shape of even weights, for weights that jump."""
LOSS = 1e-4
"""Of the nodes of a strategy, about, where no number of buffers is given."""
ROUGH = 1e-3
"""Relative error of nodes while weights of intervals are improved."""
COARSEST, EACH = 200, 12
"""Steps of L-BFGS for the lower bound, on the coarsest problem and on each finer one."""
ROUGH_NODES = 10
"""Of a strategy that only tells how much queries count."""
LEVEL = 1e-5
"""By how much a strategy may be worse than one with level columns."""
LEVELLING = {True: 12, False: 40}
"""Steps towards that on each problem, at most, at p = 2 and for larger p."""


def solve_intervals(
    sums: RunningSums, p: float, *, buffers: int | None = None, options: SolverOptions = DEFAULTS
) -> StreamSolution:
    """Compute both bounds on gamma_(p) beside the total, and a strategy with few buffers.

    The weights u and w of the strategy are those of all queries and steps; `dual_w` are those of
    the starts and the ends of intervals, shape (2, n - 1), and `dual_u` those of the open queries.

    Args:
        sums: running sums with rates and weights of steps of 1, of at least 3 steps.
        p: in [2, inf].
        buffers: number of nodes of the strategy; None for a loss of about LOSS.
        options: when to stop.
    """
    begin = time.perf_counter()
    clock = Clock(begin, options.time_limit)
    problems = [sums]
    while problems[0].cells > FEW and sums.smooth:
        problems.insert(0, problems[0].coarser())
    form = _level_columns if sums.smooth else _level_rough
    problem, point, steps = form(problems, p, buffers, clock)
    first = first_weights(problems[0].cells - 1)
    if not sums.smooth:
        first = replace(first, queries=point.u / point.u.max())
    weights, more = _interval_weights([open_sums(part) for part in problems], first, p, clock)
    certificate = clock.completed(
        lambda: Certificate(
            lower=_lower_bound(open_sums(sums), weights, p),
            upper=math.sqrt(2.0) * upper_bound(problem, point.u, point.w, p, point.nodes),
        )
    )
    status = Status.STRUCTURED if certificate.gap > options.rel_gap else Status.OPTIMAL
    if clock.over:
        status = Status.INTERRUPTED if clock.interrupted else Status.TIME_LIMIT
    return StreamSolution(
        u=problem.all_weights(point.u),
        w=point.w,
        nodes=point.nodes,
        dual_u=weights.queries / dual_norm(weights.queries, p),
        dual_w=np.stack([weights.starts, weights.ends]),
        certificate=certificate,
        status=status,
        steps=steps + more,
        seconds=time.perf_counter() - begin,
    )


def _level_columns(
    problems: list[RunningSums], p: float, buffers: int | None, clock: Clock
) -> tuple[BesideTotal, Level, int]:
    """The finest problem, its strategy, and steps on all of them."""
    q, steps = np.sqrt(problems[0].query_squares), 0
    u = np.ones(len(q) - 1)
    shape, w = shape_of_few(q[:-1] ** 2)
    if p > 2:
        problem = BesideTotal(q, shape)
        for point in islice(fit(problem, p, ROUGH_NODES, 1.0, u, w), LEVELLING[False]):
            u = point.u
        shape, w = shape_of_few(u * q[:-1] ** 2)
    for part in problems:
        even = np.ones(part.cells - 1)
        problem = BesideTotal(np.sqrt(part.query_squares), stretched(shape, even))
        if part is not problems[0]:
            u, w = refined(u, part.cells - 1), refined(w, part.cells)
        if clock.over and part is not problems[-1]:
            continue
        count = buffers if part is problems[-1] else None
        points = _levels(problem, p, count, u, w, clock)
        u, w, steps = points[-1].u, points[-1].w, steps + len(points)
    return problem, points[-1], steps


def _level_rough(
    problems: list[RunningSums], p: float, buffers: int | None, clock: Clock
) -> tuple[BesideTotal, Level, int]:
    """The same for weights that jump from step to step."""
    q = np.sqrt(problems[-1].query_squares)
    u = np.ones(len(q) - 1)
    few, w = shape_of_few(np.ones(min(EVEN, len(q)) - 1))
    w = refined(w, len(q))
    shapes: list[Callable[[Array], Array]] = [
        lambda asked: stretched(few, np.ones_like(asked)),
        lambda asked: stretched(few, asked),
    ]
    if p < math.inf and len(q) <= FEW:
        shapes.append(lambda asked: shape_of_few(asked)[0])
    found, steps = [], 0
    for shape in shapes:
        problem = BesideTotal(q, shape(u * q[:-1] ** 2))
        points = _levels(problem, p, buffers, u, w, clock)
        point = min(points, key=lambda point: point.value)
        found.append((problem, point))
        u, w, steps = point.u, point.w, steps + len(points)
        if clock.over:
            break
    return *min(found, key=lambda pair: pair[1].value), steps


def _levels(
    problem: BesideTotal, p: float, buffers: int | None, u: Array, w: Array, clock: Clock
) -> list[Level]:
    """Steps towards level columns, at least one; as many nodes as LOSS asks for by default."""
    low, high = problem.spectrum(u, w)
    count = buffers or nodes_for(high / low, 2.0 * math.sqrt(LOSS))
    points = []
    levels = partial(fit, problem, p, count, 1.0, u, w)
    for point in islice(clock.begun(levels), LEVELLING[p == 2]):
        points.append(point)
        if point.slope <= LEVEL or clock.over:
            break
    return points


def _interval_weights(
    problems: list[RunningSums], weights: IntervalWeights, p: float, clock: Clock
) -> tuple[IntervalWeights, int]:
    """Weights for the lower bound, from the coarsest open sums on, and steps on all of them."""
    steps = 0
    for problem in problems:
        weights = weights.refined(problem.cells)
        if not clock.over:
            low, high = problem.spectrum(*weights.for_streams())
            count, most = nodes_for(high / low, ROUGH), EACH if steps else COARSEST
            weights, taken = improved(problem, weights, p, count, most, clock)
            steps += taken
    return weights.rounded(), steps


def _lower_bound(problem: RunningSums, weights: IntervalWeights, p: float) -> float:
    low, high = problem.spectrum(*weights.for_streams())
    nodes = zolotarev(low, high, nodes_for(high / low, 1e-7))
    return lower_bound(problem, weights, p, nodes)
