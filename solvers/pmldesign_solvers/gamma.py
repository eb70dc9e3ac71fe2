"""gamma_(p)(A) with a certificate: the entry point, which chooses the method.

For neighbours that differ in one cell the accelerated fixed point comes first: a step costs one
eigendecomposition, and most workloads need 3 to 25. Duals that vanish make it crawl; then the
interior point method takes over. For pairs, where most duals vanish, that one comes first.

Both methods yield feasible points on both sides. The best of each side is kept, whoever found it,
and the certificate is recomputed from those two alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import numpy as np

from pmldesign_solvers import coarse, diagonal_scaling
from pmldesign_solvers.certificate import Kind, certify, dual_norm
from pmldesign_solvers.differences import Cells, Differences
from pmldesign_solvers.dual_function import DualFunction, Iterate
from pmldesign_solvers.grounded import GroundedWorkload
from pmldesign_solvers.interior_point import InteriorPoint
from pmldesign_solvers.kernels import NUMPY, check_device
from pmldesign_solvers.merged import MergedWorkload, right_inverse
from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.row_space import RowSpaceWorkload, Spreading
from pmldesign_solvers.scaling_problem import Point, ScalingProblem
from pmldesign_solvers.search import Search, final_status
from pmldesign_solvers.solution import Callback, Candidate, Solution, Status

FIXED_POINT_STEPS = 30
"""Steps that cost about a third of what the interior point method takes."""
MAX_PAIRS = 2**21
"""Largest number of pairs of distinct cells."""
INTERIOR_STEPS = 60
CLOSER = 0.9
"""Part of the gap to aim at, for the certificate rounds outwards."""
EXHAUSTED = 0.1
"""Bounds that are so close, in parts of the gap, but for their rounding come no closer."""
CORRECTIONS = 20
"""How often a search goes on that believed its bounds to be closer than they are."""
LARGEST_ROW_SPACE = 2**24
"""Largest number of entries of a workload in coordinates of its row space, which is dense."""
CRAWL = 12
"""Steps without a visible change of the gap before the fixed point gives way."""


def solve(
    operator: Operator,
    p: float,
    *,
    kind: Kind = "cells",
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    device: str = NUMPY,
) -> Solution:
    """Compute gamma_(p)(A) with a certificate, and the factorization that attains it.

    Args:
        operator: the m x n workload, not all zero.
        p: in [2, inf].
        kind: what neighbours differ by: "cells" (add-remove) or "pairs" (replace).
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        time_limit: in seconds; None for none. A step is never cut short.
        callback: called after every step. Ctrl-C during the search returns the best so far.
        device: where the fixed point decomposes its matrices: "cpu" for NumPy, or a device of
            PyTorch. Everything else, certificates included, is computed with NumPy.

    Returns:
        The best factorization and dual weights found, with their true gap, whatever the status.

    Raises:
        ValueError: p outside [2, inf], a workload that is zero (on vectors that sum to zero, for
            pairs), one with too many pairs, or a device that cannot be used (for pairs: any but
            "cpu").
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    check_device(device)
    if kind == "pairs" and device != NUMPY:
        raise ValueError(f"device {device!r} is for add-remove neighbours; leave it at {NUMPY!r}")
    start = time.perf_counter()
    merged = MergedWorkload(operator)
    if 0 in merged.shape:
        raise ValueError("the workload is zero: every answer is known without measuring anything")
    candidates = _cells(merged, p, device, rel_gap) if kind == "cells" else _pairs(merged, p)
    search = Search(candidates, callback, start)
    for _ in range(CORRECTIONS):
        status = search.run(CLOSER * rel_gap, max_steps, time_limit)
        strategy, basis = search.upper.factors()
        u, w = _normalised(*search.lower.weights(), p)
        certificate = certify(merged.original, strategy, basis, u, w, p, kind=kind)
        if certificate.gap <= rel_gap or status is not Status.OPTIMAL:
            break
        search.correct(certificate)
    return Solution(
        strategy=strategy,
        basis=basis,
        dual_u=u,
        dual_w=w,
        certificate=certificate,
        status=final_status(status, certificate, rel_gap),
        steps=search.steps,
        eigendecompositions=merged.decompositions + 1,
        seconds=time.perf_counter() - start,
    )


def _normalised(u: Array, w: Array, p: float) -> tuple[Array, Array]:
    """Dual weights of unit norms; a matrix of pairs counts every pair once."""
    return np.asarray(u / dual_norm(u, p)), np.asarray(w / (w.sum() / w.ndim))


def _cells(merged: MergedWorkload, p: float, device: str, rel_gap: float) -> Iterator[Candidate]:
    """The fixed point, then the interior point method, then the fixed point again."""
    problem = ScalingProblem(merged, p, device)
    best: Point | None = None
    exhausted = False

    def offer(point: Point) -> Candidate:
        nonlocal best, exhausted
        exhausted = point.upper <= (1.0 + EXHAUSTED * rel_gap) * float(point.values.sum())
        if best is None or point.lower > best.lower:
            best = point
        lower, w = point.lower, point.w
        if point.expects(CLOSER * rel_gap):
            lower, w = point.expected, point.ahead_w
        return Candidate(
            lower,
            point.upper,
            lambda: problem.weights(point.u, w),
            lambda: problem.factors(point),
        )

    fixed_point = map(offer, diagonal_scaling.points(problem, coarse.start(problem, rel_gap)))
    for candidate in _until_it_crawls(fixed_point):
        yield candidate
        if exhausted:
            return
    assert best is not None
    u, w = problem.turn(best.u, best.w)
    start = (u * merged.row_copies, w)
    yield from _interior(merged, merged, Cells(merged.shape[1]), p, start)
    yield from fixed_point


def _until_it_crawls(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """FIXED_POINT_STEPS candidates, none after CRAWL without a visible change of the gap."""
    lower, upper, visible, since = 0.0, np.inf, np.inf, 0
    for number, candidate in enumerate(islice(candidates, FIXED_POINT_STEPS)):
        yield candidate
        lower, upper = max(lower, candidate.lower), min(upper, candidate.upper)
        if upper / lower - 1.0 < 0.9 * visible:
            visible, since = upper / lower - 1.0, number
        if number - since >= CRAWL:
            return


def _pairs(merged: MergedWorkload, p: float) -> Iterator[Candidate]:
    grounded = GroundedWorkload(merged)
    if grounded.pairs.count > MAX_PAIRS:
        raise ValueError(
            f"under replace it has {grounded.pairs.count} pairs of distinct cells, more than the"
            f" {MAX_PAIRS} that can be weighed; take fewer cells, or add-remove neighbours"
        )
    return _interior(merged, grounded, grounded.pairs, p)


def _interior(
    merged: MergedWorkload,
    problem: Spreading,
    differences: Differences,
    p: float,
    start: tuple[Array, Array] | None = None,
) -> Iterator[Candidate]:
    """The interior point method, as long as it gets anywhere; in the row space of A if need be."""
    rows, cells = problem.operator.shape
    if problem.rank < cells and min(rows, cells) * rows <= LARGEST_ROW_SPACE:
        problem = RowSpaceWorkload(problem, differences)
        differences = problem.differences
        merged.decompositions += 1
    function = DualFunction(problem, differences, p)
    method = InteriorPoint(function, start)

    def offer(iterate: Iterate) -> Candidate:
        merged.decompositions += function.decompositions
        function.decompositions = 0
        return Candidate(
            iterate.lower,
            iterate.upper,
            lambda: problem.original_weights(iterate.each, iterate.w),
            lambda: problem.original_factors(iterate.strategy, right_inverse(iterate.strategy)),
        )

    return map(offer, islice(method.iterates(), INTERIOR_STEPS))
