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

import numpy as np

from pmldesign_solvers import gamma, l1_starts, threads
from pmldesign_solvers.l1_moments import is_exact
from pmldesign_solvers.l1_objective import (
    Blocks,
    ColumnObjective,
    Objective,
    PairObjective,
    Smoothing,
)
from pmldesign_solvers.l1_problem import RANK_CUTOFF, Problem
from pmldesign_solvers.l1_scales import AddRemoveL1, ScaleRule
from pmldesign_solvers.l1_search import WIDTHS, Search, TimeUpError
from pmldesign_solvers.l1_solution import L1Solution, L1Status, L1Step
from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.solution import Status

SMOOTH_BELOW = 20
"""Below this p, the p-norm of the variances needs no smoothing."""
UNSTRUCTURED_COLUMNS = 32
"""With more cells, random rows have gained nothing under add-remove."""
POLISH_ENTRIES = 2**22
"""Largest product of queries and measurements for which L is written out to be polished."""
NEARLY_FREE = 1e-3
"""d of the non-negative strategies that begin from a given one: keeps every column measured."""


@threads.single()
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
            least as good as every one of them that determines the workload. For `Leakage`, name
            the design for `ReplaceL1` here to be sure of improving on it.
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
    search = Search(problem, rule, deadline)
    plan = _Plan(operator, search, signed, restarts, seed)
    folded = {name: problem.fold(matrix) for name, matrix in given.items()}
    search.offer(np.eye(problem.cells))
    try:
        for matrix in folded.values():
            search.offer(matrix)
        for number, _ in enumerate(plan.run(folded), 1):
            if callback is not None:
                callback(L1Step(number, search.best[0], time.perf_counter() - begin))
        if problem.public_total:
            search.level()
        status = L1Status.COMPLETED
    except TimeUpError:
        status = L1Status.TIME_LIMIT
    except KeyboardInterrupt:
        status = L1Status.INTERRUPTED
    return _solution(search, scale, signed, status, begin)


class _Plan:
    """Which starts are followed, and with which objective."""

    def __init__(
        self, operator: Operator, search: Search, signed: bool, restarts: int, seed: int
    ) -> None:
        self._operator = operator
        self.search, self.signed, self.restarts, self.seed = search, signed, restarts, seed
        self._number = 0
        problem, rule = search.problem, search.rule
        ones, zeros = np.ones(problem.cells), np.zeros(problem.cells)
        self._polishes = problem.p > 2 and is_exact(problem.p)
        if isinstance(rule, AddRemoveL1):
            self._largest_unstructured = UNSTRUCTURED_COLUMNS if signed else 0
            constant = zeros if signed else np.full(problem.cells, NEARLY_FREE)
            self.free: Objective = ColumnObjective(problem, constant, signed)
            self._beside_identity: list[ColumnObjective] = [ColumnObjective(problem, ones, False)]
            if signed:
                self._beside_identity.append(ColumnObjective(problem, ones, True))
        else:
            self._largest_unstructured = l1_starts.UNSTRUCTURED_CELLS
            self.free = PairObjective(problem, rule)
            self._beside_identity = []

    def run(self, given: dict[str, Array]) -> Iterator[float]:
        """Follow every start; yields the error found from each."""
        n = self.search.problem.cells
        yield from self._structured(n)
        if n <= l1_starts.UNSTRUCTURED_CELLS and (self.signed or self.search.problem.public_total):
            given = given | {"optimal for Gaussian noise": self._gaussian()}
        for name, matrix in given.items():
            rows = matrix / np.abs(matrix).sum(axis=0).max()
            yield self._follow(name, self.free, Blocks(np.zeros(n), rows))
        if n <= self._largest_unstructured:
            for number in range(self.restarts):
                name, start = l1_starts.unstructured(n, number, self._rng())
                yield self._follow(name, self.free, start)
        for number in range(self.restarts):
            objective, best = self._best()
            signed = isinstance(objective, PairObjective) or objective.signed
            start = l1_starts.perturbed(best, number, self._rng(), signed=signed)
            yield self._follow("perturbation of the best", objective, start)
        entries = len(self.search.best[1]) * self.search.problem.counts.size
        if self._polishes and entries <= POLISH_ENTRIES:
            stages = [Smoothing(width, exact_moment=True) for width in WIDTHS[3:]]
            yield self.search.follow("polish", *self._best(), stages)

    def _best(self) -> tuple[Objective, Blocks]:
        form = self.search.best_form
        return form or (self.free, Blocks(np.zeros(self.search.problem.cells), self.search.best[1]))

    def _gaussian(self) -> Array:
        """The strategy that attains gamma_(p), in the rotation in which its solver finds it."""
        problem = self.search.problem
        left = self.search.deadline - time.perf_counter()
        solution = gamma.solve(
            self._operator,
            problem.p,
            kind="pairs" if problem.public_total else "cells",
            rel_gap=1e-3,
            max_steps=100,
            time_limit=left,
        )
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return problem.fold(solution.strategy)

    def _rng(self) -> np.random.Generator:
        self._number += 1
        return np.random.default_rng([self.seed, self._number])

    def _structured(self, n: int) -> Iterator[float]:
        if isinstance(self.free, PairObjective):
            for name, start in l1_starts.identity_and_ramps(n, self._rng()):
                yield self._follow(name, self.free, start)
            return
        for objective in self._beside_identity:
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
    search: Search, scale: ScaleRule, signed: bool, status: L1Status, begin: float
) -> L1Solution:
    problem = search.problem
    error, merged = search.best
    strategy = problem.unfold(merged)
    if problem.public_total:
        strategy -= strategy.mean(axis=1, keepdims=True)
    noise = scale.scale(strategy)
    strategy = strategy / (noise * scale.epsilon)
    basis = np.asarray(np.linalg.pinv(strategy, rcond=RANK_CUTOFF), dtype=np.float64)
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
