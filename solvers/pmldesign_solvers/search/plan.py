"""Which starts a search for l1 strategies follows, in which order, and with which objective.

Under add-remove tents come first, with perturbations of the best so far, which are cheap there: on
256 running sums they gain 3e-4 in 3 s, the starts that follow nothing in 45 s. Otherwise ramps come
first, then the strategy for Gaussian noise, and perturbations last. The starts between are followed
in the order of the errors that they begin with; PATIENCE in a row that gain nothing end the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.norm.solution import SolverOptions
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.deadline import DECOMPOSED, Work
from pmldesign_solvers.operators.lbfgs import StoppedError
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.search import tents
from pmldesign_solvers.search.descent import WIDTHS, Descent
from pmldesign_solvers.search.laplace_noise import AddRemoveL1, is_exact
from pmldesign_solvers.search.objectives import (
    ColumnObjective,
    Objective,
    PairObjective,
    Smoothing,
    Stacked,
)
from pmldesign_solvers.search.problem import SMALL
from pmldesign_solvers.search.solution import Start
from pmldesign_solvers.search.tent_problem import DenseGram

UNSTRUCTURED_CELLS = 64
"""With more cells, n x n unstructured rows cost too much."""
KICKS = (0.03, 0.1, 0.3)
"""Sizes of the perturbations, relative to the row that varies most."""
NEGLIGIBLE_ROW = 1e-4
"""Rows that vary by less than this, relative to the one that varies most, are dropped."""
SMOOTH_BELOW = 20
"""Below this p, the p-norm of the variances needs no smoothing."""
UNSTRUCTURED_COLUMNS = 32
"""With more cells, random rows have gained nothing under add-remove."""
MOST_ROWS = 8
"""A start with more than this many times as many rows as cells is not followed."""
FOLLOWED = 512
"""Beyond, a descent takes a minute, and gains 1e-4 on tents for ranges."""
POLISH_ENTRIES = 2**22
"""Largest product of queries and measurements for which L is materialized to be polished."""
PATIENCE = 6
"""Starts followed in a row without a gain after which no more are; the running sums, ranges and
random workloads looked at (5 to 64 cells) had their best from one of the first four. Twice as many
where the total is public: prefix:8 has its best from the eleventh."""
GAIN = 1e-7
"""Relative; less is what descents to the same strategy differ by."""
GAUSSIAN = "optimal for Gaussian noise"
GAUSSIAN_GAP, GAUSSIAN_STEPS = 1e-3, 100
"""Of its solver: it is a start."""
FREE_TENTS, SIGNED_TENTS = "tents, free", "tents, signed"
NEARLY_FREE = 1e-3
"""d of the non-negative strategies that begin from a given one: keeps every column measured."""

NamedStart = tuple[str, Stacked]


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A start that is not yet followed, with its error."""

    name: str
    objective: Objective
    blocks: Stacked
    before: float

    def repeats(self, other: Waiting) -> bool:
        """Whether the other begins there too, up to rounding."""
        rows, others = self.blocks.rows, other.blocks.rows
        alike = self.objective is other.objective and rows.shape == others.shape
        return alike and np.allclose(rows, others, atol=1e-9)


class SearchPlan:
    """Which starts are followed, and with which objective.

    Attributes:
        waiting: the starts that are yet to be followed, the best first.
        gave_up: whether starts were left because they gained little.
    """

    def __init__(
        self,
        operator: Operator,
        search: Descent,
        signed: bool,
        restarts: int,
        seed: int,
        for_dp: Callable[[Work], Array] | None = None,
    ) -> None:
        self._operator, self._for_dp = operator, for_dp
        self.search, self.signed, self.restarts, self.seed = search, signed, restarts, seed
        self.waiting: list[Waiting] = []
        self.gave_up = False
        self._rows: Array | None = None
        self._number = 0
        problem, rule = search.problem, search.rule
        self._polishes = problem.p > 2 and is_exact(problem.p)
        if isinstance(rule, AddRemoveL1):
            self._largest_unstructured = UNSTRUCTURED_COLUMNS if signed else 0
            level = 0.0 if signed else NEARLY_FREE
            constant = np.full(problem.cells, level)
            self.free: Objective = ColumnObjective(problem, constant, signed)
        else:
            self._largest_unstructured = UNSTRUCTURED_CELLS
            self.free = PairObjective(problem, rule)

    def run(self, given: dict[str, Array]) -> Iterator[float]:
        """Follow the starts while that pays; yields the error of the strategy from each."""
        for error in self._follow_starts(given):
            yield error
            if not self.search.pays():
                self.gave_up = True
                break
        entries = len(self.search.best[1]) * self.search.problem.counts.size
        if self._polishes and entries <= POLISH_ENTRIES:
            stages = [Smoothing(width, exact_moment=True) for width in WIDTHS[3:]]
            yield self.search.follow("polish", *self._best(), stages)

    def _follow_starts(self, given: dict[str, Array]) -> Iterator[float]:
        """Follow all starts, the best first."""
        n = self.search.problem.cells
        tents_alone = math.inf
        if n <= SMALL:
            self._compare(given)
        if isinstance(self.free, ColumnObjective):
            tents_alone = self._tents()
            yield tents_alone
        else:
            for name, blocks in identity_and_ramps(n, self._rng()):
                yield self._follow(name, self.free, blocks)
        if n > SMALL:
            self._compare(given)
            if n > FOLLOWED and tents_alone <= self.search.best[0]:
                return
        if self._for_dp is not None:
            given["for DP"] = self._for_dp(self.search.work.part(1 / 3))
            self.search.offer(given["for DP"])
        for name, objective, blocks in self._starts(given):
            start = Waiting(name, objective, blocks, math.inf)
            if any(start.repeats(other) for other in self.waiting):
                continue  # as the tree of two children may be the best tree
            before = self.search.offer_point(objective, objective.variables(blocks))
            self.waiting.append(replace(start, before=before))
        columns = isinstance(self.free, ColumnObjective)
        self.waiting.sort(
            key=lambda start: (
                start.name == SIGNED_TENTS,  # prefix:64 at p = inf: its 113,000 steps gain nothing
                columns or start.name != GAUSSIAN,
                start.before,
            )
        )
        if columns:
            yield from self._follow_likely()
            yield from self._until_stalled(self._perturb())
        before = self.search.best[0]
        yield from self._until_stalled(self._follow_waiting())
        if not columns or self.search.best[0] < before * (1 - GAIN):
            yield from self._until_stalled(self._perturb())

    def _until_stalled(
        self, starts: Iterator[float], patience: int | None = None
    ) -> Iterator[float]:
        """Follow starts until so many in a row gain nothing."""
        patience = patience or PATIENCE * (1 + self.search.problem.public_total)
        stalled, before = 0, self.search.best[0]
        for error in starts:
            yield error
            stalled = 0 if self.search.best[0] < before * (1 - GAIN) else stalled + 1
            before = self.search.best[0]
            if stalled == patience:
                return

    def _follow_likely(self) -> Iterator[float]:
        """Follow tents, and of few cells other starts until two gain nothing.

        On 256 running sums any other takes 10 s, and ends 5% behind tents.
        """
        if self.search.problem.cells <= SMALL:
            yield from self._until_stalled(self._follow_waiting(), 2)
            return
        names = [start.name for start in self.waiting]
        for name in (FREE_TENTS, SIGNED_TENTS):
            if name in names:
                start = self.waiting.pop(names.index(name))
                names.remove(name)
                yield self._follow(start.name, start.objective, start.blocks)

    def _follow_waiting(self) -> Iterator[float]:
        """Follow the starts that were put off as less likely."""
        while self.waiting:
            start = self.waiting.pop(0)
            yield self._follow(start.name, start.objective, start.blocks)

    def _perturb(self) -> Iterator[float]:
        """Follow perturbations of the best."""
        for number in range(self.restarts):
            objective, best = self._best()
            signed = isinstance(objective, PairObjective) or objective.signed
            blocks = perturbed(best, number, self._rng(), signed=signed)
            yield self._follow("perturbation of the best", objective, blocks)

    def _starts(self, given: dict[str, Array]) -> Iterator[tuple[str, Objective, Stacked]]:
        """Names and points of all starts but perturbations of the best."""
        n = self.search.problem.cells
        if self._rows is not None:
            for signed in (False, True)[: 1 + self.signed]:
                objective = ColumnObjective(self.search.problem, np.ones(n), signed)
                name = SIGNED_TENTS if signed else FREE_TENTS
                yield name, objective, Stacked(np.ones(n), self._rows)
        if n <= UNSTRUCTURED_CELLS and (self.signed or self.search.problem.public_total):
            given = given | {GAUSSIAN: self._gaussian()}
        for name, matrix in given.items():
            if len(matrix) > MOST_ROWS * n:
                continue  # a descent would take long, and it counts as it is
            rows = matrix / np.abs(matrix).sum(axis=0).max()
            yield name, self.free, Stacked(np.zeros(n), rows)
        if n <= self._largest_unstructured:
            for number in range(self.restarts):
                name, blocks = unstructured(n, number, self._rng())
                yield name, self.free, blocks

    def _compare(self, given: dict[str, Array]) -> None:
        """Offer strategies as they are, likely ones first: err_p >= c b(R) / norm(R)_F."""
        rule = self.search.rule

        def unlikely(matrix: Array) -> float:
            size = float(np.linalg.norm(self.search.problem.centred(matrix)))
            return rule.scale(matrix) / size if size else math.inf

        for matrix in sorted(given.values(), key=unlikely):
            if len(matrix.T) > SMALL and self.search.work.over():
                raise StoppedError
            self.search.offer(matrix)

    def _tents(self) -> float:
        """The error of the identity with tents, which are kept.

        Tents can be far off if the order of the cells is unknown: half the work at most.
        """
        search, n = self.search, self.search.problem.cells
        work = search.work.part(1.0 if search.problem.ordered else 0.5)
        solution = tents.design(DenseGram(search.problem.weighted_gram), work=work)
        self._rows = solution.rows
        objective = ColumnObjective(search.problem, np.ones(n), False)
        error = search.offer_point(objective, solution.rows.ravel())
        before = error * math.sqrt(solution.before / solution.after)
        search.table.append(Start(solution.name, before, error, solution.settled))
        if search.work.over():
            raise StoppedError
        return error

    def _best(self) -> tuple[Objective, Stacked]:
        form = self.search.best_form
        return form or (
            self.free,
            Stacked(np.zeros(self.search.problem.cells), self.search.best[1]),
        )

    def _gaussian(self) -> Array:
        """The strategy that attains gamma_(p), in the rotation in which its solver finds it."""
        problem = self.search.problem
        solution = solve_norm(
            self._operator,
            problem.p,
            relation="replace" if problem.public_total else "add-remove",
            options=SolverOptions(GAUSSIAN_GAP, GAUSSIAN_STEPS, self.search.work.deadline),
        )
        self.search.work.spend(DECOMPOSED * problem.cells**3 * solution.steps)
        return problem.fold(solution.strategy)

    def _rng(self) -> np.random.Generator:
        self._number += 1
        return np.random.default_rng([self.seed, self._number])

    def _follow(self, name: str, objective: Objective, start: Stacked) -> float:
        stages = [Smoothing(width) for width in WIDTHS]
        if isinstance(objective, ColumnObjective) and not objective.signed:
            # nothing to smooth but the largest of the variances
            stages = stages[-1:] * len(WIDTHS) if self.search.problem.p < SMOOTH_BELOW else stages
        return self.search.follow(name, objective, start, stages)


def identity_and_ramps(cells: int, rng: np.random.Generator) -> Iterator[NamedStart]:
    """The identity with a few ramps; in full, with noise, if there are few enough cells."""
    place = np.linspace(-1.0, 1.0, cells)
    for count in (1, 2, 4, 8, 16):
        if count > cells:
            return
        centres, widths = rng.uniform(-1, 1, (count, 1)), rng.uniform(0.2, 2, (count, 1))
        rows = 0.5 * np.clip((place - centres) / widths, -1, 1)
        rows += 0.02 * rng.standard_normal(rows.shape)
        diagonal = np.ones(cells)
        if cells <= UNSTRUCTURED_CELLS:
            full = np.eye(cells) + 0.1 * rng.standard_normal((cells, cells))
            diagonal, rows = np.zeros(cells), np.vstack([rows, full])
        yield f"identity and {count} ramps", Stacked(diagonal, rows)


def unstructured(cells: int, number: int, rng: np.random.Generator) -> NamedStart:
    """The number-th of an endless series of random rows, without and with the identity."""
    zero = np.zeros(cells)
    kind = number % 4
    if kind < 2:
        rows = rng.standard_normal(((kind + 1) * cells, cells))
        return f"{len(rows)} random rows", Stacked(zero, rows)
    extra = 2 * (kind - 1)
    rows = np.vstack(
        [
            np.eye(cells) + 0.1 * rng.standard_normal((cells, cells)),
            0.5 * rng.standard_normal((extra, cells)),
        ]
    )
    return f"identity and {extra} random rows", Stacked(zero, rows)


def perturbed(best: Stacked, number: int, rng: np.random.Generator, *, signed: bool) -> Stacked:
    """The number-th perturbation of the best so far, with one more row."""
    size = KICKS[number % len(KICKS)]
    spread = np.ptp(best.rows, axis=1)
    top = max(float(spread.max(initial=0.0)), float(best.diagonal.max())) or 1.0
    kept = best.rows[spread > NEGLIGIBLE_ROW * top]
    rows = np.vstack([kept, np.zeros(kept.shape[1])])
    rows += 0.3 * size * top * rng.standard_normal(rows.shape)
    return Stacked(best.diagonal, rows if signed else np.maximum(rows, 0.0))
