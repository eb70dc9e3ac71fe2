"""The norm of running sums whose total is public, with both bounds and a stream that comes close.

Weights of the strategy start from few steps and level its columns, and at p > 2 its variances, on
every fourth step, then on all of these (`streams.fixed_point`). Weights of intervals for the lower
bound also go from few steps to many (`dual`). The bounds do not meet: product weights are 0.2
to 0.3% short, and this form of strategies loses 0.2 to 0.3%.

If weights of queries jump from step to step, every fourth step is not typical. Then all steps are
levelled from the shape of even weights, along the steps and along the resulting weights of
queries; the search for the lower bound begins at the better one's weights of queries.

*Weights from few steps.* With v weights of queries and w of steps, M = diag(v)^(1/2) A
diag(w)^(1/2),

    X = W^(-1/2) (M^T M)^(1/2) W^(-1/2),      S = A X^(-1) A^T,

a strategy is worth sum_t e_t S'_tt . 2 max X_ii if queries have the weights e, S' = S given the
last sum. The maximum is smoothed to norms of growing power, and descended by L-BFGS along the
logarithms of v and w. With F F = M^T M and X = W^(-1/2) F W^(-1/2), the gradient of F follows by
a division in its eigenbasis.

The shape v / e determines the value for many steps. For even queries it falls by about e^(-8.5)
from the first step to the one before the last, most quickly in the middle, and jumps up at the last
one, by about half of the number of steps. As this depends little on that number, few steps predict
it for many (`stretched`): for 256 steps the shape of 64 is 0.003% worse than their own. If weights
jump from step to step, it is the shape of even weights along the sum of all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import scipy

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.intervals.beside import BesideTotal
from pmldesign_solvers.intervals.dual import (
    IntervalWeights,
    first_weights,
    improved,
    lower_bound,
    open_sums,
)
from pmldesign_solvers.norm.bounds_loop import stopped
from pmldesign_solvers.norm.solution import SolverOptions, Status
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import Array, dual_norm
from pmldesign_solvers.streams.certificate import upper_bound
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.fixed_point import Level, fit, refined
from pmldesign_solvers.streams.nodes import zolotarev
from pmldesign_solvers.streams.solve import StreamSolution, nodes_for

POWERS = (16.0, 64.0, 256.0)
"""In turn, each from where the one before ended."""
MOST = 40
"""Steps of L-BFGS for each."""
FALL, JUMP = 9.0, 0.5
"""The search begins at v = w = exp(-FALL x^2), x = i/n, the last v times JUMP n."""


def shape_of_few(asked: Array) -> tuple[Array, Array]:
    """The best shape and w for few open queries that count by e, shape (n,) each."""
    asked = asked / np.sqrt(asked).mean() ** 2
    n = asked.size + 1
    z = np.tile(-FALL * (np.arange(n) / n) ** 2, 2)
    z[: n - 1] += np.log(asked)
    z[n - 1] += math.log(JUMP * n)
    for power in POWERS:
        z = scipy.optimize.minimize(
            _value, z, (asked, power), jac=True, method="L-BFGS-B", options={"maxiter": MOST}
        ).x
    return np.exp(z[:n]) / np.append(asked, 1.0), np.exp(z[n:])


def stretched(v: Array, asked: Array) -> Array:
    """The shape over more steps, along the sum of their weights; the last weight grows with them.

    Args:
        v: the shape.
        asked: how much each open query counts, shape (n - 1,).
    """
    few, n = len(v), len(asked) + 1
    places = (np.cumsum(asked) - 0.5 * asked) / asked.sum() * (n - 1) / n
    inner = np.interp(places, (np.arange(few - 1) + 0.5) / few, np.log(v[:-1]))
    return np.asarray(np.exp(np.append(inner, math.log(v[-1] * n / few))))


def _value(z: Array, asked: Array, power: float) -> tuple[float, Array]:
    """The logarithm of the smoothed value, and its gradient for log v and log w."""
    v, w = np.exp(z.reshape(2, -1))
    M = np.tril(np.sqrt(np.outer(v, w)))
    _, roots, right = np.linalg.svd(M)
    F = (right.T * roots) @ right
    inverse = np.sqrt(np.outer(w, w)) * ((right.T / roots) @ right)
    half = np.cumsum(inverse, axis=0)  # A X^-1
    S = np.cumsum(half, axis=1)
    part = S[:-1, -1] / S[-1, -1]
    spread = float(asked @ (np.diag(S)[:-1] - part * S[:-1, -1]))
    columns = np.diag(F) / w
    scaled = columns / columns.max()
    total = float((scaled**power).sum())
    longest = columns.max() * total ** (1.0 / power)
    errors = half[:-1] - np.outer(part, half[-1])  # (A - c 1^T) X^-1
    of_X = np.diag(scaled**power / (total * columns)) - (errors.T * asked) @ errors / spread
    of_F = of_X / np.sqrt(np.outer(w, w))
    inner = (right @ of_F @ right.T) / np.add.outer(roots, roots)
    of_M = 2.0 * M * (M @ (right.T @ inner @ right))
    of_w = 0.5 * of_M.sum(axis=0) - (of_F * F).sum(axis=0)
    return math.log(spread * longest), np.concatenate([0.5 * of_M.sum(axis=1), of_w])


FEW = 64
"""Steps of the coarsest problem, at most."""
EVEN = 32
"""Steps of the shape of even weights, for weights that jump."""
LOSS = 1e-4
"""Of the nodes of a strategy, about, if no number of buffers is given."""
ROUGH = 1e-3
"""Relative error of nodes while weights of intervals are improved."""
COARSEST, EACH = 200, 12
"""Steps of L-BFGS for the lower bound, on the coarsest problem and on each finer one."""
ROUGH_NODES = 10
"""Of a strategy that only determines the weights of queries."""
LEVEL = 1e-5
"""By how much a strategy may be worse than one with level columns."""
LEVELLING = {True: 12, False: 40}
"""Steps towards that on each problem, at most, at p = 2 and for larger p."""


def solve_intervals(
    sums: RunningSums,
    p: float,
    *,
    buffers: int | None = None,
    options: SolverOptions | None = None,
) -> StreamSolution:
    """Compute both bounds on gamma_(p) given the total, and a strategy with few buffers.

    The weights u and w of the strategy are those of all queries and steps; `dual_w` are those of
    the starts and the ends of intervals, shape (2, n - 1), and `dual_u` those of the open queries.

    Args:
        sums: running sums with rates and weights of steps of 1, of at least 3 steps.
        p: in [2, inf].
        buffers: number of nodes of the strategy; None for a loss of about LOSS.
        options: when to stop.
    """
    options = options or SolverOptions()
    begin, deadline = time.perf_counter(), options.deadline
    problems = [sums]
    while problems[0].cells > FEW and sums.smooth:
        problems.insert(0, problems[0].coarser())
    form = _level_columns if sums.smooth else _level_rough
    problem, point, steps = form(problems, p, buffers, deadline)
    first = first_weights(problems[0].cells - 1)
    if not sums.smooth:
        first = replace(first, queries=point.u / point.u.max())
    weights, more = _interval_weights([open_sums(part) for part in problems], first, p, deadline)
    certificate = deadline.completed(
        lambda: Certificate(
            lower=_lower_bound(open_sums(sums), weights, p),
            upper=math.sqrt(2.0) * upper_bound(problem, point.u, point.w, p, point.nodes),
        )
    )
    status = Status.STRUCTURED if certificate.gap > options.rel_gap else Status.OPTIMAL
    status = stopped(deadline) or status
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
    problems: list[RunningSums], p: float, buffers: int | None, deadline: Deadline
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
        if deadline.over() and part is not problems[-1]:
            continue
        count = buffers if part is problems[-1] else None
        points = _levels(problem, p, count, u, w, deadline)
        u, w, steps = points[-1].u, points[-1].w, steps + len(points)
    return problem, points[-1], steps


def _level_rough(
    problems: list[RunningSums], p: float, buffers: int | None, deadline: Deadline
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
        points = _levels(problem, p, buffers, u, w, deadline)
        point = min(points, key=lambda point: point.value)
        found.append((problem, point))
        u, w, steps = point.u, point.w, steps + len(points)
        if deadline.over():
            break
    return *min(found, key=lambda pair: pair[1].value), steps


def _levels(
    problem: BesideTotal, p: float, buffers: int | None, u: Array, w: Array, deadline: Deadline
) -> list[Level]:
    """Steps towards level columns, at least one; as many nodes as LOSS asks for by default."""
    low, high = problem.spectrum(u, w)
    count = buffers or nodes_for(high / low, 2.0 * math.sqrt(LOSS))
    points = []
    levels = partial(fit, problem, p, count, 1.0, u, w)
    for point in islice(deadline.begun(levels), LEVELLING[p == 2]):
        points.append(point)
        if point.slope <= LEVEL or deadline.over():
            break
    return points


def _interval_weights(
    problems: list[RunningSums], weights: IntervalWeights, p: float, deadline: Deadline
) -> tuple[IntervalWeights, int]:
    """Weights for the lower bound, from the coarsest open sums on, and steps on all of them."""
    steps = 0
    for problem in problems:
        weights = weights.refined(problem.cells)
        if not deadline.over():
            low, high = problem.spectrum(*weights.for_streams())
            count, most = nodes_for(high / low, ROUGH), EACH if steps else COARSEST
            weights, taken = improved(problem, weights, p, count, most, deadline)
            steps += taken
    return weights.rounded(), steps


def _lower_bound(problem: RunningSums, weights: IntervalWeights, p: float) -> float:
    low, high = problem.spectrum(*weights.for_streams())
    nodes = zolotarev(low, high, nodes_for(high / low, 1e-7))
    return lower_bound(problem, weights, p, nodes)
