"""gamma_(p) of a union of products that is too large for one matrix: a strategy and both bounds.

Upper bound: a strategy in a product basis (`product_basis`). For each attribute the eigenvectors of
the best Gram matrix for all that is asked about it are one candidate; the total and the
eigenvectors for what differs between the cells are another. The better ones are improved by descent
(`basis_descent`). Lower bound: the best of those that need no matrix of all cells
(`product_bounds`), and up to DENSE_CELLS cells the nuclear norm for the dual weights that go with
the strategy. The bounds do not meet in general.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pmldesign_solvers import basis_descent, diagonal_scaling, gamma
from pmldesign_solvers.certificate import EPS, Certificate, Kind, lower_bound, power_mean
from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.product_basis import (
    Basis,
    BasisPoint,
    BasisProblem,
    Parts,
    eigenbasis,
    residual_basis,
)
from pmldesign_solvers.product_bounds import BlockProblem, free_attribute
from pmldesign_solvers.solution import Callback, Solution, Status, Step

DENSE_CELLS = 4096
"""Largest number of cells for one eigendecomposition of that size."""
FACTOR_GAP = 1e-3
"""Of the designs for single attributes, which are only a start."""
WEIGHTS_GAP, WEIGHTS_STEPS = 1e-4, 150
"""Of the weights in a product basis."""
BLOCK_GAP, BLOCK_STEPS = 1e-4, 40
"""Of the dual weights on one attribute."""
EVALUATIONS = 150
"""Of the objective of the descent, for each sharpness."""


@dataclass(frozen=True, slots=True, eq=False)
class UnionSolution:
    """A strategy R = diag(weights)^(1/2) (R_1 x ... x R_k), with its certificate.

    Attributes:
        bases: R_i and R_i^+.
        weights: shape (r,), positive; the sensitivity of R is 1.
        dual_u: shape (m,), norm(u)_q = 1.
        dual_w: shape (n,), sum 1; their bound is `certificate.lower`, or below it where the norms
            of the parts give a better one.
        certificate: both bounds on gamma_(p)(A).
        status: why the solver stopped.
        steps: of the fixed points.
        eigendecompositions: of the single attributes, as `gamma.solve` counts them.
        seconds: wall-clock time.
    """

    bases: tuple[Basis, ...]
    weights: Array
    dual_u: Array
    dual_w: Array
    certificate: Certificate
    status: Status
    steps: int
    eigendecompositions: int
    seconds: float


class _LimitReachedError(Exception):
    """The time or the steps are used up."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass(slots=True)
class _Search:
    """The best of either side so far, and when to stop."""

    rel_gap: float
    max_steps: int
    time_limit: float | None
    callback: Callback | None
    start: float = field(default_factory=time.perf_counter)
    lower: float = 0.0
    upper: float = math.inf
    steps: int = 0
    eigendecompositions: int = 0
    problem: BasisProblem | None = None
    point: BasisPoint | None = None
    duals: tuple[float, Array, Array] = (0.0, np.ones(1), np.ones(1))

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.start

    @property
    def done(self) -> bool:
        """Whether the bounds are close enough."""
        return self.upper <= self.lower * (1 + self.rel_gap)

    def proceed(self) -> bool:
        """Report the bounds; whether there is time left."""
        if self.callback is not None and self.problem is not None:
            self.callback(Step(self.steps, self.lower, self.upper, self.seconds))
        return self.time_limit is None or self.seconds < self.time_limit

    def step(self) -> None:
        """Count a step; stop if there is nothing left to be spent on the next."""
        self.steps += 1
        if not self.proceed():
            raise _LimitReachedError(Status.TIME_LIMIT)
        if self.steps >= self.max_steps:
            raise _LimitReachedError(Status.ITERATION_LIMIT)

    def factor(self, operator: Operator, p: float, kind: Kind = "cells") -> Solution:
        """The design for one attribute of one part, or of all of them."""
        found = gamma.solve(operator, p, kind=kind, rel_gap=FACTOR_GAP, max_steps=self.max_steps)
        self.eigendecompositions += found.eigendecompositions
        return found

    def weigh(self, problem: BasisProblem) -> float:
        """The best weights for these bases; what they reach."""
        best: BasisPoint | None = None
        try:
            for point in problem.points(WEIGHTS_GAP, WEIGHTS_STEPS):
                if best is None or point.upper < best.upper:
                    best = point
                self.step()
        finally:
            if best is not None and best.upper < self.upper:
                upper = problem.upper_bound(best.weights)
                if upper < self.upper:
                    self.upper, self.problem, self.point = upper, problem, best
        return math.inf if best is None else best.upper

    def below(self, value: float, u: Array, w: Array) -> None:
        """A certified lower bound with its dual weights."""
        self.lower = max(self.lower, value)
        if value > self.duals[0]:
            self.duals = (value, u, w)


def solve(
    operator: Operator,
    parts: Parts,
    attributes: Sequence[Operator],
    p: float,
    *,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> UnionSolution:
    """Compute bounds on gamma_(p)(A), and a strategy that attains the upper one.

    Args:
        operator: the union itself, m x n.
        parts: for every part its factors, one for each attribute; none is zero.
        attributes: for every attribute all that is asked about it.
        p: in [2, inf].
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: of the fixed points, all together.
        time_limit: in seconds; None for none. A first strategy is always found.
        callback: called with the bounds so far. Ctrl-C from the first call on returns the best
            strategy so far.

    Returns:
        The best strategy found, with its true gap, whatever the status.
    """
    search = _Search(rel_gap, max_steps, time_limit, callback)
    status = Status.STRUCTURED
    try:
        for _ in _stages(search, operator, parts, attributes, p):
            if search.done or not search.proceed():
                status = Status.TIME_LIMIT
                break
    except _LimitReachedError as limit:
        status = limit.status
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if search.problem is None or search.point is None:
        raise KeyboardInterrupt
    _, u, w = search.duals
    return UnionSolution(
        bases=search.problem.bases,
        weights=search.problem.normalised(search.point.weights),
        dual_u=u,
        dual_w=w,
        certificate=Certificate(search.lower, search.upper),
        status=Status.OPTIMAL if search.done else status,
        steps=search.steps,
        eigendecompositions=search.eigendecompositions,
        seconds=search.seconds,
    )


def _stages(
    search: _Search, operator: Operator, parts: Parts, attributes: Sequence[Operator], p: float
) -> Iterator[None]:
    """Better and better bounds, the cheap ones first."""
    norms = _norms(search, parts, p)
    search.lower = power_mean(norms, p) * (1 - (len(parts) + 8) * EPS)
    bases = [eigenbasis(search.factor(one, p).strategy) for one in attributes]
    reached = search.weigh(BasisProblem(parts, bases, p))
    yield
    for index in range(len(attributes)):
        problem = free_attribute(parts, np.argsort(-norms), index, p)
        if problem is not None:
            _free(search, problem)
            yield
    for index, one in enumerate(attributes):
        tried = [*bases]
        tried[index] = residual_basis(search.factor(one, p, "pairs").strategy)
        value = search.weigh(BasisProblem(parts, tried, p))
        if value < reached:
            reached, bases = value, tried
        yield
    assert search.problem is not None
    assert search.point is not None
    if operator.shape[1] <= DENSE_CELLS:
        u, w = search.problem.dual_weights(operator, search.point)
        search.below(lower_bound(operator, u, w, p), u, w)
        yield
    better = basis_descent.descend(
        parts,
        search.problem.bases,
        search.point.weights,
        p,
        evaluations=EVALUATIONS,
        proceed=search.proceed,
    )
    for improved in better:
        search.weigh(BasisProblem(parts, improved, p))
        yield


def _norms(search: _Search, parts: Parts, p: float) -> Array:
    """A lower bound on gamma_(p) of every part."""
    known: dict[Operator, float] = {}
    for factor in (factor for part in parts for factor in part):
        if factor not in known:
            known[factor] = search.factor(factor, p).certificate.lower
    return np.array([math.prod(known[factor] for factor in part) for part in parts])


def _free(search: _Search, problem: BlockProblem) -> None:
    """The lower bound of one free attribute."""
    best, upper = None, math.inf
    try:
        for number, point in enumerate(diagonal_scaling.points(problem), start=1):
            upper = min(upper, point.upper)
            if best is None or point.lower > best.lower:
                best = point
            if upper <= best.lower * (1 + BLOCK_GAP) or number >= BLOCK_STEPS:
                break
            if upper <= search.lower:  # no weights of this form help
                return
            search.step()
    finally:
        if best is not None and best.lower > search.lower:
            value = problem.lower_bound(best.u, best.w)
            search.below(value, *problem.expand(best.u, best.w))
