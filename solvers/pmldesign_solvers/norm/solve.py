"""gamma_(p)(A) with a certificate: the entry point, which chooses the method.

For neighbours that differ in one cell the accelerated fixed point comes first: a step costs one
eigendecomposition, and most workloads need 3 to 25. Duals that vanish make it crawl; then the
interior point method takes over. For pairs, where most duals vanish, that one comes first.

Both methods yield feasible points on both sides. The best of each side of both is kept,
and the certificate is recomputed from those two alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate, certify
from pmldesign_solvers.limits import LARGEST_ROW_SPACE, MAX_PAIRS
from pmldesign_solvers.norm import fixed_point, warm_start
from pmldesign_solvers.norm.bounds_loop import CLOSER, BoundsLoop, final_status, in_units_of
from pmldesign_solvers.norm.dense_dual import DensePoint, ScalingProblem
from pmldesign_solvers.norm.dual_function import FACTORED, DualFunction, Iterate
from pmldesign_solvers.norm.interior_point import InteriorPoint
from pmldesign_solvers.norm.solution import Candidate, Solution, SolverOptions, Status
from pmldesign_solvers.operators.coordinates import (
    ColumnSpaceWorkload,
    GroundedWorkload,
    RowSpaceWorkload,
    Spreading,
)
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.differences import ONLY_THE_TOTAL, Relation
from pmldesign_solvers.operators.merge import MergedWorkload, right_inverse_of
from pmldesign_solvers.operators.operator import Array, Indices, Operator, dual_norm
from pmldesign_solvers.operators.scale import normalised

FIXED_POINT_STEPS = 30
"""Steps that cost about a third of the interior point method: on small matrices 688
eigendecompositions; 590 with 15 and 721 with 60, for as much time (benchmarks/constants.py)."""
WIDE_STEPS = 5
"""The same with fewer queries than cells: 200 x 100,000 takes 12 steps and 5 s at p = 2, 16 and 7 s
after 10, 35 and 13 s after 30."""
FEW_STEPS, STARTED_STEPS = 4, 12
"""The same at p = inf if the system of the interior point method is materialized, from equal
weights and from given ones: prefix:256 with weights over two orders of magnitude takes 15 steps and
0.9 s; 1.2 s after 12 steps. From weights after 30 steps the method ends at a gap of 6e-6."""
INTERIOR_STEPS = 60
"""Chosen, not measured: 50 solutions for pairs take 368 together."""
EXHAUSTED = 0.1
"""Bounds so close without their rounding, in parts of the gap, come no closer. Chosen, not
measured."""
CORRECTIONS = 20
"""How often a search goes on that believed its bounds to be closer than they are. Chosen, not
measured."""
ZERO = "the workload is zero: every answer is known without measuring anything"
CRAWL = 12
"""Steps without a visible change of the gap before the fixed point gives way: 688
eigendecompositions; 605, 651, 687 with 4, 6, 24, for as much time (benchmarks/constants.py)."""


def solve_norm(
    operator: Operator,
    p: float,
    *,
    relation: Relation = "add-remove",
    groups: Indices | None = None,
    options: SolverOptions | None = None,
) -> Solution:
    """Compute gamma_(p)(A) with a certificate, and the factorization that attains it.

    Args:
        operator: the m x n workload, not all zero.
        p: in [2, inf].
        relation: of neighbours, "add-remove" or "replace".
        groups: under replace the number of the group of each cell, shape (n,), where the number of
            records in each group is public.
        options: when to stop.

    Returns:
        The best factorization and dual weights found, with their true gap, whatever the status.

    Raises:
        ValueError: p outside [2, inf], a workload that is zero (on vectors that sum to zero, for
            pairs), one with too many pairs, or one whose norm is no float64.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    if groups is None and not operator.row_sizes().any():
        raise ValueError(ZERO)
    options = options or SolverOptions()
    start, rel_gap, deadline = time.perf_counter(), options.rel_gap, options.deadline
    normal = normalised(operator, relation, rel_gap)
    exact, problem = normal.operator, _problem(normal.searched, relation, groups)
    steps: Callable[[], Iterator[Candidate]]
    if isinstance(problem, MergedWorkload):
        exact = problem.original if normal.searched is exact else exact
        steps = partial(_cells, problem, p, rel_gap, deadline)
    else:
        steps = partial(_interior_candidates, problem, p, None, deadline)
    callback = in_units_of(normal.exponent, options.callback)
    options = replace(options, callback=callback)
    search = BoundsLoop(deadline.begun(steps), options, start)

    def certified(strategy: Array, right_inverse: Array, u: Array, w: Array) -> Certificate:
        certificate = certify(
            exact, strategy, right_inverse, u, w, p, relation=relation, groups=groups
        )
        return replace(certificate, upper=certificate.upper + normal.allowance(p))

    solution = _certified_solution(search, certified, p, normal.exponent, options)
    return replace(solution, eigendecompositions=problem.decompositions + 1)


def _certified_solution(
    search: BoundsLoop[Candidate],
    certify: Callable[[Array, Array, Array, Array], Certificate],
    p: float,
    exponent: int,
    options: SolverOptions,
) -> Solution:
    """The result of a search for gamma_(p)(2^-exponent A), on until its certificate has the gap.

    Args:
        search: with the best factors and weights.
        certify: both bounds from R, B, u and w.
        p: in [2, inf].
        exponent: of the power of two that was taken out of A.
        options: of the search.

    Returns:
        The solution, the number of eigendecompositions left at 0 for the caller.
    """

    def best() -> tuple[Array, Array, Array, Array, Certificate]:
        arrays = (*search.upper.factors(), *_normalised(*search.lower.weights(), p))
        return *arrays, certify(*arrays)

    rel_gap, deadline = options.rel_gap, options.deadline
    for _ in range(CORRECTIONS):
        status = search.run(CLOSER)
        strategy, right_inverse, u, w, certificate = deadline.completed(best)
        if deadline.interrupted:
            status = Status.INTERRUPTED
        if certificate.gap <= rel_gap or status is not Status.OPTIMAL:
            break
        search.correct(certificate)
    return Solution(
        strategy=strategy,
        right_inverse=right_inverse,
        dual_u=u,
        dual_w=w,
        certificate=certificate.times_power_of_two(exponent),
        status=final_status(status, certificate, rel_gap),
        steps=search.steps,
        eigendecompositions=0,
        seconds=search.seconds,
    )


def _normalised(u: Array, w: Array, p: float) -> tuple[Array, Array]:
    """Dual weights of unit norms; a matrix of pairs counts every pair once.

    Of cells that are alike only one has weights, and memory holds no others.
    """
    scaled, weighted = np.zeros(w.shape), np.asarray(w.any(axis=-1, keepdims=True))
    np.divide(w, w.sum() / w.ndim, out=scaled, where=weighted)
    return np.asarray(u / dual_norm(u, p)), scaled


def _cells(
    merged: MergedWorkload, p: float, rel_gap: float, deadline: Deadline
) -> Iterator[Candidate]:
    """The fixed point, then the interior point method, then the fixed point again."""
    problem = ScalingProblem(merged, p)
    best: DensePoint | None = None
    exhausted = False

    def offer(point: DensePoint) -> Candidate:
        nonlocal best, exhausted
        exhausted = point.upper <= (1.0 + EXHAUSTED * rel_gap) * float(point.values.sum())
        if best is None or point.lower > best.lower:
            best = point
        ahead = point.looking_ahead(CLOSER * rel_gap)
        return Candidate(
            ahead.lower,
            point.upper,
            lambda: problem.weights(ahead.u, ahead.w),
            lambda: problem.factors(point),
        )

    given = warm_start.start(problem, rel_gap, deadline)
    points = map(offer, fixed_point.points(problem, given))
    written = np.isinf(p) and sum(merged.shape) <= FACTORED
    most = WIDE_STEPS if merged.wide else FIXED_POINT_STEPS
    if written:
        most = FEW_STEPS if given is None else STARTED_STEPS
    for candidate in _until_it_crawls(points, most):
        yield candidate
        if exhausted:
            return
    assert best is not None
    u, w = problem.turn(best.u, best.w)
    # weights that the fixed point has brought near zero are far from the central path
    start = None if written else (u * merged.row_copies, w)
    yield from _interior_candidates(merged, p, start, deadline)
    if not deadline.over():
        yield from points


def _until_it_crawls(candidates: Iterator[Candidate], most: int) -> Iterator[Candidate]:
    """So many candidates at most, none after CRAWL without a visible change of the gap."""
    lower, upper, visible, since = 0.0, np.inf, np.inf, 0
    for number, candidate in enumerate(islice(candidates, most)):
        yield candidate
        lower, upper = max(lower, candidate.lower), min(upper, candidate.upper)
        if upper / lower - 1.0 < 0.9 * visible:
            visible, since = upper / lower - 1.0, number
        if number - since >= CRAWL:
            return


def _problem(
    operator: Operator, relation: Relation, groups: Indices | None
) -> MergedWorkload | GroundedWorkload:
    """The workload in coordinates of the differences between neighbours."""
    if groups is None:
        merged = MergedWorkload(operator)
        if 0 in merged.shape:
            raise ValueError(ONLY_THE_TOTAL)
        if relation == "add-remove":
            return merged
        grounded = GroundedWorkload.of(merged)
    else:
        grounded = GroundedWorkload.in_groups(operator.to_dense(), groups)
    if grounded.differences.count > MAX_PAIRS:
        other = "add-remove neighbours" if groups is None else "more known answers"
        raise ValueError(
            f"under replace it has {grounded.differences.count} pairs of distinct cells, more than"
            f" the {MAX_PAIRS} that can be weighed; take fewer cells, or {other}"
        )
    return grounded


def _interior_candidates(
    problem: Spreading,
    p: float,
    start: tuple[Array, Array] | None,
    deadline: Deadline,
) -> Iterator[Candidate]:
    """The interior point method, as long as it gets anywhere; in the row space of A if need be.

    Args:
        problem: the workload in the coordinates of the differences.
        p: in [2, inf].
        start: weights u of rows, their copies together, and w of differences; None for equal ones.
        deadline: asked within a step.
    """
    counter, (rows, cells) = problem, problem.operator.shape
    if problem.rank < cells and min(rows, cells) * rows <= LARGEST_ROW_SPACE:
        problem = ColumnSpaceWorkload.of(problem) or RowSpaceWorkload(problem)
        counter.decompositions += 1
    function = DualFunction(problem, p)
    method = InteriorPoint(function, start, deadline)

    def offer(iterate: Iterate) -> Candidate:
        counter.decompositions += function.decompositions
        function.decompositions = 0
        return Candidate(
            iterate.lower,
            iterate.upper,
            lambda: problem.original_weights(iterate.each, iterate.w),
            lambda: problem.original_factors(iterate.strategy, right_inverse_of(iterate.strategy)),
        )

    return map(offer, islice(method.iterates(), INTERIOR_STEPS))
