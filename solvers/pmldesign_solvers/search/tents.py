r"""Tents: rows added to the identity for ordered cells, under Laplace noise and add-remove.

From random starts the best non-negative rows added to the identity, R = [I; Theta] D of
`tent_problem`, end as overlapping tents in levels: knots about 20 cells apart, a second level 300
to 400 cells apart, and for thousands of cells a third one. So the search begins there: level l has
q_l tents with knots at (k + 1/2) n / q_l, constant beyond the outer ones; the weights of the levels
are fitted first. Which (q_1, q_2, ...) is decided by successive halving. Theta is constant on
blocks at first, and interpolated to smaller ones twice, the last ones single cells.

Nothing proves that no better strategy exists. Neither weighted trees (349 for 1024 running sums,
against 304.6), nor knots that are warped or moved at random, nor more rows have gained anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from pmldesign_solvers.norm.bounds_loop import ended
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.operators.lbfgs import StoppedError, descend
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.search.tent_problem import Gram, TentProblem

WHOLE = 300
"""Up to so many cells every cell is a block of its own; a step takes less than 2 ms."""
SMALL_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Rows of the finest level with few cells, up to half as many as cells."""
HALVED = 2000
"""From so many cells on the third level matters: 206 339 for 16384 cells and all ranges, 217 261
without."""
REACH, FREE_ROWS = 1.5, 4
"""Supports reach so many spacings to either side of a knot; levels of few rows are free everywhere.
Wider supports gained less than 1e-4 on 1024 cells, and take time in proportion."""
LEVEL_STEPS, PROBE_STEPS, KEPT, SOLVE_STEPS = 8, 8, 0.5, 120
"""L-BFGS steps for the weights of levels, of the first round of halving (half as many again in
every other), the part that survives the weights and every round, and steps for the last one. On
running sums, ranges and windows of 700 and 1024 cells one of the best three is always kept."""
FINALISTS = 3
"""How many survive the rounds up to HALVED cells: on 1024 running sums the best comes second then
(304.58 and 305.16). Beyond, a descent of 400 steps takes seconds."""
COMPARING = 0.4
"""Part of the work after which the best system of levels so far is taken."""
REFINED_STEPS = (80, 120)
"""Steps after every refinement: on 1024 cells more gain less than 1e-4."""


@dataclass(frozen=True, slots=True, eq=False)
class Tents:
    """Result of the search: rows to be measured in addition to the identity.

    Attributes:
        rows: Theta, shape (k, n), not negative; R = [I; Theta] with columns divided by their sums.
        before, after: tr G (R^T R)^-1 of the best start and of the result.
        levels: number of rows of each level, the finest first.
        settled: whether the last descent ended by itself, and not by a limit.
        status: why the search stopped.
    """

    rows: Array
    before: float
    after: float
    levels: tuple[int, ...]
    settled: bool
    status: Status

    @property
    def name(self) -> str:
        """What tables of starts call it."""
        return f"identity and {' + '.join(map(str, self.levels))} tents"


@dataclass(slots=True, eq=False)
class _Candidate:
    levels: tuple[int, ...]
    problem: TentProblem
    entries: Array
    value: float
    settled: bool = False

    def descend(self, steps: int, work: Work) -> None:
        """L-BFGS on log f; keeps the best point, also when the work is spent."""
        descended = descend(
            partial(_logarithm, self.problem),
            self.entries,
            proceed=partial(work.step, self.problem.work),
            bounds=[(0.0, None)] * len(self.entries),
            maxiter=steps,
            maxfun=10 * steps,
            maxcor=8,
            ftol=1e-9,
            gtol=1e-12,
        )
        if descended.value < math.log(self.value):
            self.value, self.entries = math.exp(descended.value), descended.point
        self.settled = descended.settled
        descended.unless_stopped()


_Descent = Callable[[_Candidate, int], None]
"""Descends from a candidate for so many steps."""


def design(
    gram: Gram,
    *,
    work: Work | None = None,
    most_rows: float = math.inf,
    callback: Callable[[float], None] | None = None,
) -> Tents:
    """The best tents that a search finds.

    Args:
        gram: A^T A, the cells in an order in which neighbours are alike.
        work: ends the search with the best so far; None for all that gains.
        most_rows: of a level, at least 1.
        callback: called after every descent with the least f so far. Ctrl-C during a descent
            returns the best so far.
    """
    n = gram.cells
    blocks = n if n <= WHOLE else max(256, -(-n // 4))
    work = work or Work()
    most = work.spent + COMPARING * work.left

    def compared() -> bool:
        return work.spent > most or work.over()

    pool = work.deadline.completed(lambda: list(_starts(gram, blocks, work, compared, most_rows)))
    before = min(map(_value, pool))

    def descend(candidate: _Candidate, steps: int) -> None:
        candidate.descend(steps, work)
        if callback is not None:
            callback(min(map(_value, pool)))

    with work.deadline.catching(), suppress(StoppedError):
        _halve(pool, n > HALVED, compared, descend)
        _refine(pool, gram, blocks, descend)
    status = ended(work) or Status.COMPLETED
    best = min(pool, key=_value)
    widths = np.diff(best.problem.gram.edges)
    rows = np.repeat(best.problem.rows(best.entries), widths, axis=1)
    return Tents(rows, before, best.value, best.levels, best.settled, status)


def _halve(
    pool: list[_Candidate], wide: bool, compared: Callable[[], bool], descend: _Descent
) -> None:
    """Leave the best of the pool, or the best so far once enough work has gone into it.

    Over many cells all take part in the first round: the weights alone say little about a third
    level (4096 running sums: 836 with it and 827 without, in the end 766 and 786).
    """
    finalists = 1 if wide else FINALISTS
    steps, kept = PROBE_STEPS, 1.0 if wide else KEPT
    while len(pool) > finalists:
        pool[:] = sorted(pool, key=_value)[: max(finalists, int(len(pool) * kept))]
        kept = KEPT
        for candidate in list(pool):
            if compared():
                pool[:] = [min(pool, key=_value)]
                return
            descend(candidate, steps)
        steps = steps * 3 // 2


def _refine(pool: list[_Candidate], gram: Gram, blocks: int, descend: _Descent) -> None:
    """Descend on blocks, and on smaller ones down to single cells, with the best in the end."""
    n = gram.cells
    for stage, steps in enumerate((SOLVE_STEPS, *REFINED_STEPS)):
        for candidate in pool:
            descend(candidate, steps)
        if stage or blocks == n:
            pool[:] = [min(pool, key=_value)]
        if blocks < n:
            blocks = 2 * blocks if 2 * blocks < 0.8 * n else n
            pool[:] = [_refined(candidate, gram, blocks) for candidate in pool]


def _value(candidate: _Candidate) -> float:
    return candidate.value


def _edges(cells: int, blocks: int) -> Indices:
    return np.arange(blocks + 1) * cells // blocks


def _starts(
    gram: Gram, blocks: int, work: Work, compared: Callable[[], bool], most: float
) -> Iterator[_Candidate]:
    """Every system of levels with fitted weights; at least one whatever work is left."""
    on_blocks = gram.on_blocks(_edges(gram.cells, blocks))
    for levels in systems_of_levels(gram.cells, most):
        lower, upper, heights = tents_in_levels(on_blocks.edges, levels)
        problem = TentProblem(on_blocks, lower, upper)
        level = np.repeat(np.arange(len(levels)), levels)[problem.row]
        heights = heights / on_blocks.roots[problem.place]
        yield _fitted(levels, problem, heights, level, work)
        if compared():
            return


def _logarithm(problem: TentProblem, entries: Array) -> tuple[float, Array]:
    """Log f and its gradient."""
    value, gradient = problem.evaluate(entries)
    if not value > 0:
        return 1e3, np.zeros_like(entries)
    return math.log(value), gradient / value


def systems_of_levels(cells: int, most: float = math.inf) -> list[tuple[int, ...]]:
    """Numbers of rows of the levels that are compared, finest level first; likely ones first.

    Args:
        cells: how many.
        most: rows of a level; all together are at most a quarter more.
    """
    wide = cells > HALVED
    spacings = (20,) if wide else (15, 18, 22)
    finest = {max(1, int(min(round(cells / spacing), most))) for spacing in spacings}
    if cells <= WHOLE:
        finest |= {count for count in SMALL_COUNTS if count <= max(1, cells // 2)}
    systems: set[tuple[int, ...]] = {(count,) for count in finest}
    third = max(1, round(cells / 4000))
    for count in finest:
        for spacing in (400, 300, 200) if wide else (500, 340, 250, 160):
            second = max(1, round(cells / spacing))
            if second < count:
                systems.add((count, second))
            if 6 * third <= second < count:
                systems.add((count, second, third))

    def unlikely(system: tuple[int, ...]) -> float:
        """Distance from the best values for running sums: 18 and 340 cells apart."""
        second = abs(math.log(system[1] * 340 / cells)) if len(system) > 1 else 1.0
        return abs(math.log(system[0] * 18 / cells)) + second

    fewer = [system for system in systems if sum(system) <= max(1.25 * most, min(finest))]
    return sorted(sorted(fewer), key=unlikely)


def tents_in_levels(edges: Indices, levels: Sequence[int]) -> tuple[Indices, Indices, Array]:
    """Supports of the rows of all levels, and Theta on them, row by row."""
    n, m = int(edges[-1]), len(edges) - 1
    centres = (edges[:-1] + edges[1:]) / 2
    lower, upper, heights = [], [], []
    for count in levels:
        spacing = n / count
        for row in range(count):
            knot = (row + 0.5) * spacing
            tent = np.maximum(0.0, 1 - np.abs(centres - knot) / spacing)
            if row == 0:
                tent[centres < knot] = 1.0
            if row == count - 1:
                tent[centres > knot] = 1.0
            start, stop = 0, m
            if count > FREE_ROWS:
                start = int(np.searchsorted(edges, knot - REACH * spacing, "right")) - 1
                stop = int(np.searchsorted(edges, knot + REACH * spacing))
                positive = np.flatnonzero(tent)
                start = max(0, min(start, int(positive[0])))
                stop = min(m, max(stop, int(positive[-1]) + 1))
            lower.append(start)
            upper.append(stop)
            heights.append(tent[start:stop])
    return np.array(lower), np.array(upper), np.concatenate(heights)


def _fitted(
    levels: tuple[int, ...], problem: TentProblem, heights: Array, level: Indices, work: Work
) -> _Candidate:
    """The candidate whose levels have the best weights, after a few steps."""

    def objective(logs: Array) -> tuple[float, Array]:
        work.spend(problem.work)
        entries = heights * np.exp(logs)[level]
        value, gradient = _logarithm(problem, entries)
        return value, np.asarray(
            np.bincount(level, gradient * entries, len(logs)), dtype=np.float64
        )

    start, bounds = np.full(len(levels), 0.5), [(-6.0, 3.0)] * len(levels)
    best = descend(objective, start, bounds=bounds, maxiter=LEVEL_STEPS)
    entries = heights * np.exp(best.unless_stopped())[level]
    return _Candidate(levels, problem, entries, problem.evaluate(entries)[0])


def _refined(candidate: _Candidate, gram: Gram, blocks: int) -> _Candidate:
    """The same rows on smaller blocks, interpolated linearly between the centres of blocks."""
    old = candidate.problem
    on_blocks = gram.on_blocks(_edges(gram.cells, blocks))
    edges, finer = old.gram.edges, on_blocks.edges
    centres, targets = (edges[:-1] + edges[1:]) / 2, (finer[:-1] + finer[1:]) / 2
    lower = np.searchsorted(finer, edges[old.lower])
    upper = np.searchsorted(finer, edges[old.upper])
    rows, entries = old.rows(candidate.entries), []
    for row, (a, b) in enumerate(zip(lower, upper, strict=True)):
        entries.append(np.interp(targets[a:b], centres, rows[row]))
    problem = TentProblem(on_blocks, lower, upper)
    values = np.concatenate(entries) / on_blocks.roots[problem.place]
    return _Candidate(candidate.levels, problem, values, problem.evaluate(values)[0])
