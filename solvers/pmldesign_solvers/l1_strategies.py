"""Strategies for Laplace noise: l1 sensitivity, and pointwise maximal leakage.

With Laplace noise of scale b(R) (see `l1_scales`) the error of a strategy R is

    err_p = b(R) * (E norm(A R^+ z)_p^p)^(1/p),      z with i.i.d. Laplace(1) entries,

not a convex function of R in any parametrisation. It is minimised by L-BFGS from many starts, with
absolute values and maxima smoothed less and less; the exact value of every start and of every
result decides, so the answer is never worse than a start. For p > 2 the standard deviations of the
answers stand for their moments, and at even p the best is polished with the moments themselves.

References:
    McKenna, Miklau, Hay and Machanavajjhala, Optimizing error of high-dimensional statistical
        queries under differential privacy, VLDB 2018: the identity with a few more rows.
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries: the
        design for PML is named as future work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import minimize

from pmldesign_solvers import l1_starts
from pmldesign_solvers.l1_moments import is_exact
from pmldesign_solvers.l1_objective import (
    Blocks,
    ColumnObjective,
    Objective,
    PairObjective,
    Smoothing,
)
from pmldesign_solvers.l1_problem import Problem
from pmldesign_solvers.l1_scales import AddRemoveL1, ScaleRule
from pmldesign_solvers.operators import Array, Operator

WIDTHS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
"""Smoothing of the stages of a descent."""
STAGE_STEPS = 200
"""L-BFGS steps of one stage."""
HOPEFUL_WIDTH, HOPELESS = 1e-3, 1.01
"""From this width on, a descent that is worse than the best by this factor is given up."""
SMOOTH_BELOW = 20
"""Below this p, the p-norm of the variances needs no smoothing."""
UNSTRUCTURED_COLUMNS = 32
"""With more cells, random rows have gained nothing under add-remove."""
POLISH_ENTRIES = 2**22
"""Largest product of queries and measurements for which L is written out to be polished."""


class L1Status(Enum):
    """Why the search stopped; the value is the sentence that a user reads."""

    COMPLETED = "every start was followed to a local optimum; this is the best of them"
    TIME_LIMIT = "the time limit came first; this is the best so far"
    INTERRUPTED = "interrupted; this is the best so far"


@dataclass(frozen=True, slots=True)
class Start:
    """One start and what became of it.

    Attributes:
        name: where the search began.
        before, after: error of the start and of the strategy found from it.
    """

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class L1Step:
    """The search after one start, as a callback sees it.

    Attributes:
        number: starts followed so far.
        error: of the best strategy so far.
        seconds: since the beginning.
    """

    number: int
    error: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class L1Solution:
    """The best strategy found, and the noise that it needs.

    Attributes:
        strategy: R, shape (r, n); the noise scale is 1/epsilon per unit sensitivity, see `scale`.
        basis: B, shape (n, r): the reconstruction is L = A B. Where the total N is public, the
            answers are A (N/n) 1 + L R' x, R' = R with the mean of every row taken off.
        error: the l_p norm of the answers' standard deviations, which is err_p at p = 2; at other
            even p up to 64, err_p itself.
        scale: b, the scale of the Laplace noise on R x.
        status: why the search stopped.
        starts: every start, in the order in which they were followed.
        seconds: wall-clock time.
    """

    strategy: Array
    basis: Array
    error: float
    scale: float
    status: L1Status
    starts: tuple[Start, ...]
    seconds: float


class _TimeUpError(Exception):
    """The time limit came during a descent."""


class _Search:
    """The best strategy so far, and the descent from a start."""

    def __init__(self, problem: Problem, rule: ScaleRule, deadline: float) -> None:
        self.problem, self.rule, self.deadline = problem, rule, deadline
        self.best: tuple[float, Array] = (math.inf, np.zeros((0, problem.cells)))
        self.best_form: tuple[Objective, Blocks] | None = None
        self.table: list[Start] = []
        self._reached = np.zeros(0)

    def offer(self, strategy: Array) -> float:
        """The exact error of a strategy, which is kept if it is the best."""
        scale = self.rule.scale(strategy)
        if not scale > 0:
            return math.inf
        error = scale * self.problem.unit_error(strategy)
        if error < self.best[0]:
            self.best, self.best_form = (error, strategy), None
        return error

    def follow(
        self, name: str, objective: Objective, start: Blocks, stages: list[Smoothing]
    ) -> float:
        """Descend from a start; returns the best error on the way."""
        x = objective.variables(start)
        before = after = self._offer_point(objective, x)
        try:
            for stage in stages:
                x = self._descend(objective, objective.variables(objective.form(x)), stage)
                after = min(after, self._offer_point(objective, x))
                if stage.width <= HOPEFUL_WIDTH and after > HOPELESS * self.best[0]:
                    break
        except (_TimeUpError, KeyboardInterrupt):
            after = min(after, self._offer_point(objective, self._reached))
            raise
        finally:
            self.table.append(Start(name, before, after))
        return after

    def _offer_point(self, objective: Objective, x: Array) -> float:
        best = self.best[0]
        error = self.offer(objective.strategy(x))
        if error < best:
            self.best_form = (objective, objective.form(x))
        return error

    def _descend(self, objective: Objective, x: Array, stage: Smoothing) -> Array:
        self._reached, lowest = x, math.inf

        def value(x: Array) -> tuple[float, Array]:
            nonlocal lowest
            if time.perf_counter() > self.deadline:
                raise _TimeUpError
            result, gradient = objective.evaluate(x, stage)
            if result < lowest:
                lowest, self._reached = result, x.copy()
            return result, gradient

        minimize(
            value,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds(x.size),
            options={"maxiter": STAGE_STEPS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )
        return self._reached


def solve(
    operator: Operator,
    p: float,
    *,
    scale: ScaleRule,
    signed: bool = True,
    starts: Mapping[str, Array] | None = None,
    restarts: int = 12,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[L1Step], None] | None = None,
) -> L1Solution:
    """Search for the strategy with the smallest error under Laplace noise.

    Args:
        operator: the m x n workload, not all zero.
        p: in [2, inf].
        scale: what is promised; decides whether the total is public.
        signed: whether the strategy may have negative entries. Where the total is public this
            restricts nothing: a constant is added to every row.
        starts: further strategies to begin from, by name, each of shape (r, n). The answer is at
            least as good as every one of them that determines the workload.
        restarts: how many random starts, and how many perturbations of the best.
        seed: of the random starts; the same seed gives the same answer unless time runs out.
        time_limit: in seconds; None for none.
        callback: called after every start. Ctrl-C during the search returns the best so far.

    Raises:
        ValueError: p outside [2, inf], a workload that needs no measurement, or a start of the
            wrong shape or sign.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    begin = time.perf_counter()
    deadline = math.inf if time_limit is None else begin + time_limit
    problem = Problem(operator, p, public_total=not isinstance(scale, AddRemoveL1))
    given = _checked_starts(starts or {}, operator.shape[1], scale, signed)
    rule = scale if isinstance(scale, AddRemoveL1) else scale.on_cells(problem.cell_of)
    search = _Search(problem, rule, deadline)
    plan = _Plan(search, signed, restarts, seed)
    folded = {name: problem.fold(matrix) for name, matrix in given.items()}
    search.offer(np.eye(problem.cells))
    try:
        for matrix in folded.values():
            search.offer(matrix)
        for number, _ in enumerate(plan.run(folded), 1):
            if callback is not None:
                callback(L1Step(number, search.best[0], time.perf_counter() - begin))
        status = L1Status.COMPLETED
    except _TimeUpError:
        status = L1Status.TIME_LIMIT
    except KeyboardInterrupt:
        status = L1Status.INTERRUPTED
    return _solution(search, scale, signed, status, begin)


class _Plan:
    """Which starts are followed, and with which objective."""

    def __init__(self, search: _Search, signed: bool, restarts: int, seed: int) -> None:
        self.search, self.signed, self.restarts, self.seed = search, signed, restarts, seed
        self._number = 0
        problem, rule = search.problem, search.rule
        ones, zeros = np.ones(problem.cells), np.zeros(problem.cells)
        self._polishes = problem.p > 2 and is_exact(problem.p)
        if isinstance(rule, AddRemoveL1):
            self._largest_unstructured = UNSTRUCTURED_COLUMNS if signed else 0
            self.free: Objective = ColumnObjective(problem, zeros, signed)
            self.beside_identity: list[Objective] = [ColumnObjective(problem, ones, False)]
            if signed:
                self.beside_identity.append(ColumnObjective(problem, ones, True))
        else:
            self._largest_unstructured = l1_starts.UNSTRUCTURED_CELLS
            self.free = PairObjective(problem, rule)
            self.beside_identity = [self.free]

    def run(self, given: dict[str, Array]) -> Iterator[float]:
        """Follow every start; yields the error found from each."""
        n = self.search.problem.cells
        yield from self._structured(n)
        for name, matrix in given.items():
            yield self._follow(name, self.free, Blocks(np.zeros(n), matrix))
        if n <= self._largest_unstructured:
            for number in range(self.restarts):
                name, start = l1_starts.unstructured(n, number, self._rng())
                yield self._follow(name, self.free, start)
        for number in range(self.restarts):
            objective, best = self._best()
            signed = not isinstance(objective, ColumnObjective) or objective.signed
            start = l1_starts.perturbed(best, number, self._rng(), signed=signed)
            yield self._follow("perturbation of the best", objective, start)
        entries = len(self.search.best[1]) * self.search.problem.counts.size
        if self._polishes and entries <= POLISH_ENTRIES:
            stages = [Smoothing(width, exact_moment=True) for width in WIDTHS[3:]]
            yield self.search.follow("polish", *self._best(), stages)

    def _best(self) -> tuple[Objective, Blocks]:
        form = self.search.best_form
        return form or (self.free, Blocks(np.zeros(self.search.problem.cells), self.search.best[1]))

    def _rng(self) -> np.random.Generator:
        self._number += 1
        return np.random.default_rng([self.seed, self._number])

    def _structured(self, n: int) -> Iterator[float]:
        if isinstance(self.free, PairObjective):
            for name, start in l1_starts.identity_and_ramps(n, self._rng()):
                yield self._follow(name, self.free, start)
            return
        for objective in self.beside_identity:
            for make in (l1_starts.identity_and_bumps, l1_starts.nested_bumps):
                for name, start in make(n, self._rng()):
                    label = f"{name}, signed" if objective.signed else name
                    yield self._follow(label, objective, start)

    def _follow(self, name: str, objective: Objective, start: Blocks) -> float:
        stages = [Smoothing(width) for width in WIDTHS]
        if isinstance(objective, ColumnObjective) and not objective.signed:
            # nothing to smooth but the largest of the variances
            stages = stages[-1:] * len(WIDTHS) if self.search.problem.p < SMOOTH_BELOW else stages
        return self.search.follow(name, objective, start, stages)


def _checked_starts(
    starts: Mapping[str, Array], cells: int, scale: ScaleRule, signed: bool
) -> dict[str, Array]:
    for name, matrix in starts.items():
        if matrix.ndim != 2 or matrix.shape[1] != cells:
            raise ValueError(f"start {name!r} must have {cells} columns, got shape {matrix.shape}")
        if not signed and isinstance(scale, AddRemoveL1) and matrix.min() < 0:
            raise ValueError(f"start {name!r} has negative entries; leave it out or allow signs")
    return dict(starts)


def _solution(
    search: _Search, scale: ScaleRule, signed: bool, status: L1Status, begin: float
) -> L1Solution:
    problem = search.problem
    error, merged = search.best
    strategy = problem.unfold(merged)
    if problem.public_total:
        strategy -= strategy.mean(axis=1, keepdims=True)
    noise = scale.scale(strategy)
    strategy = strategy / (noise * scale.epsilon)
    basis = np.linalg.pinv(strategy, rcond=1e-10)
    if problem.public_total and not signed:
        strategy = strategy - strategy.min(axis=1, keepdims=True)
    return L1Solution(
        strategy=strategy,
        basis=basis,
        error=error,
        scale=scale.scale(strategy),
        status=status,
        starts=tuple(search.table),
        seconds=time.perf_counter() - begin,
    )
