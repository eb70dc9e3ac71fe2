"""The certified gamma_(p) solver: a fixed point on the dual weights, accelerated and safeguarded.

Every step decomposes one symmetric matrix and yields a feasible dual point (lower bound) and a
feasible factorization (upper bound); `scaling_problem` has the formulas. The logarithms of the
weights move by Anderson acceleration. A step that loses more than half of the gap is taken back,
and the memory with it. The solver stops when the two best bounds meet.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Lemma 2.10.
"""

from __future__ import annotations

import time

import numpy as np

from pmldesign_solvers.acceleration import Anderson
from pmldesign_solvers.certificate import Certificate, certify
from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.scaling_problem import FLOOR, Point, ScalingProblem
from pmldesign_solvers.solution import Callback, Solution, Status, Step

MEMORY = 10
PATIENCE = 50
"""Steps without a visible change of the gap before the solver calls it a stall."""


class _Search:
    """The best bounds so far, and the moves between points."""

    def __init__(self, problem: ScalingProblem) -> None:
        self.problem = problem
        m, n = problem.shape
        self.point = problem.evaluate(*problem.normalise(np.ones(m), np.ones(n)))
        self.steps = 1
        self.best_lower = self.best_upper = self.point
        self._anderson = Anderson(MEMORY)
        self._stall_gap, self._stall_steps = np.inf, 0

    @property
    def gap(self) -> float:
        return self.best_upper.upper / self.best_lower.lower - 1.0

    def advance(self) -> None:
        """Evaluate the next point and keep what is best."""
        point = self.point
        if point is self.best_lower or self._close_to_best(point):
            u, w = self._accelerated(point)
        else:
            self._anderson.forget()
            u, w = self.best_lower.next_u, self.best_lower.next_w
        self.point = self.problem.evaluate(*self.problem.normalise(u, w))
        self.steps += 1
        if self.point.lower > self.best_lower.lower:
            self.best_lower = self.point
        if self.point.upper < self.best_upper.upper:
            self.best_upper = self.point

    def _close_to_best(self, point: Point) -> bool:
        best = self.best_lower.lower
        return point.lower >= best - 0.5 * (self.best_upper.upper - best)

    def _accelerated(self, point: Point) -> tuple[Array, Array]:
        x = np.log(np.concatenate([point.w, point.u]))
        masses = np.concatenate([point.next_w, point.next_u])
        goal = np.log(np.maximum(masses, np.finfo(float).tiny))
        x = self._anderson.propose(x, goal - x, masses, first_step=2.0)
        w, u = np.split(x, [len(point.w)])
        return _from_logarithm(u), _from_logarithm(w)

    def stalled(self) -> bool:
        """Whether the gap has hardly changed for a long while."""
        if self.gap < 0.99 * self._stall_gap:
            self._stall_gap, self._stall_steps = self.gap, self.steps
        return self.steps - self._stall_steps >= PATIENCE


def _from_logarithm(x: Array) -> Array:
    return np.asarray(np.maximum(np.exp(x - x.max()), FLOOR))


def solve(
    operator: Operator,
    p: float,
    *,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Compute gamma_(p)(A) with a certificate, and the factorization that attains it.

    Args:
        operator: the m x n workload, not all zero.
        p: in [2, inf].
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        time_limit: in seconds; None for none.
        callback: called after every step. Ctrl-C during the search returns the best so far.

    Returns:
        The best factorization and dual weights found, with their true gap, whatever the status.

    Raises:
        ValueError: p outside [2, inf], or a workload that is zero.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    start = time.perf_counter()
    problem = ScalingProblem(operator, p)
    if 0 in problem.shape:
        raise ValueError("the workload is zero: every answer is known without measuring anything")
    search = _Search(problem)
    # the certificate rounds outwards, so aim a little closer
    status = _run(search, 0.9 * rel_gap, max_steps, time_limit, callback, start)
    strategy, basis = problem.factors(search.best_upper)
    u, w = problem.weights(search.best_lower)
    certificate = certify(operator, strategy, basis, u, w, p)
    return Solution(
        strategy=strategy,
        basis=basis,
        dual_u=u,
        dual_w=w,
        certificate=certificate,
        status=_final(status, certificate, rel_gap),
        steps=search.steps,
        eigendecompositions=problem.decompositions + 1,
        seconds=time.perf_counter() - start,
    )


def _run(
    search: _Search,
    rel_gap: float,
    max_steps: int,
    time_limit: float | None,
    callback: Callback | None,
    start: float,
) -> Status:
    try:
        while True:
            seconds = time.perf_counter() - start
            if callback is not None:
                lower, upper = search.best_lower.lower, search.best_upper.upper
                callback(Step(search.steps, lower, upper, seconds))
            if search.gap <= rel_gap:
                return Status.OPTIMAL
            if search.steps >= max_steps:
                return Status.ITERATION_LIMIT
            if time_limit is not None and seconds >= time_limit:
                return Status.TIME_LIMIT
            if search.stalled():
                return Status.STALLED
            search.advance()
    except KeyboardInterrupt:
        return Status.INTERRUPTED


def _final(status: Status, certificate: Certificate, rel_gap: float) -> Status:
    """What the certificate says counts, not what the search believed."""
    if certificate.gap <= rel_gap:
        return Status.OPTIMAL
    return Status.STALLED if status is Status.OPTIMAL else status
