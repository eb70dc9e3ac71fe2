"""Which tables to measure: steepest moves over supports.

Next to nothing of a table always costs more than it gains, so that every theta_S = 0 is a local
matter, and supports are searched as such: moves lead from one to others, and the weights of each
are fitted (`support_weights`), beginning from those before. Of the first few that gain the best is
taken. A support where nothing gains is left for the next start.

Random starts over all sets of up to five attributes, 40 for each problem, found nothing that was
2e-4 better for random sizes and tables, and were up to 3% worse.

Moves. A table is dropped; another one W is put in, and those within it leave, or none, or a single
one that is part of W or contains it. W is any set of few attributes; of many it is a union of two
tables that share attributes, or a table with one attribute more or less.

Before weights are fitted to the result of a move, moves are ordered by their errors at the present
weights: tables that leave give their weight to W, or half or twice as much.

The search begins at larger tables that together contain those asked for (`covers`). One table by
four attributes of 4 values answers the six tables by two of them, at a sixth of the sensitivity,
with sixteen cells for each of theirs. For every limit on the number of cells, each twice the one
before, the asked tables are covered one by one: a table grows by the attribute that completes the
most of them, or brings the most of them nearer, while it has no more cells than that (a greedy
covering design). Twelve attributes of 2 values have all tables by two within 27, 15, 10, 6, 5, 3
tables by 3 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign_solvers.operators.deadline import CALL, ENTRY, Work
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.search.support_weights import (
    COMPARED,
    ScaleOf,
    TableProblem,
    Weighted,
    best_weights,
    thinned,
    total_scale,
)

LARGEST_TABLE = 2.0**22
"""Cells of a table that is not asked for and may be measured."""
MOST_ATTRIBUTES = 16
"""Of such a table: it has 2^16 residuals."""
MOST_COVERED = 1500
"""Tables asked for beyond which no larger ones are looked for; a second at 1140 tables."""
FEW_ATTRIBUTES = 5
"""Up to so many, all tables are looked at."""
MOST_ENTERING = 4000
"""Tables that are looked at in a round, those with the fewest cells."""
FACTORS = (0.5, 1.0, 2.0)
"""Weights of a table that is put in, times those of the tables that leave."""
NEW = 0.3
"""Its weight, relative to the largest, where none leaves."""
HOPELESS = 0.05
"""Relative, by how much the error grows at once in moves that are not looked at: of 45 moves that
gained the most was 0.023, and four in five of those that did not were above."""
AT_ONCE = 2**20
"""Numbers in an array of moves by residuals."""


def covers(sizes: Array, asked: Array) -> Iterator[Array]:
    """Tables that together contain all asked ones, for every limit on their cells.

    Args:
        sizes: values of each attribute, over 1.
        asked: flags of the attributes of tables, shape (U, attributes).
    """
    inside = asked[asked.any(axis=1)] > 0
    if not 1 < len(inside) <= MOST_COVERED:
        return
    cells = np.prod(np.where(inside, sizes, 1.0), axis=1)
    limit, most = float(cells.max()), min(LARGEST_TABLE, float(np.prod(sizes)))
    before = inside
    while limit < most:
        limit = min(2 * limit, most)
        cover = np.array(list(_cover(inside, sizes, cells, limit)))
        if not np.array_equal(cover, before):
            yield cover.astype(float)
        before = cover


def _cover(inside: Any, sizes: Array, cells: Array, limit: float) -> Iterator[Any]:
    """Flags of the attributes of tables of at most `limit` cells, unless more are asked for."""
    while len(inside):
        table = inside[cells.argmax()].copy()
        size = float(np.prod(sizes[table]))
        while True:
            lacking = inside & ~table
            missing = lacking.sum(axis=1)
            nearest = missing == missing[missing > 0].min(initial=len(table) + 1)
            fits = (sizes * size <= limit) & (table.sum() < MOST_ATTRIBUTES)
            gains = lacking[nearest].sum(axis=0) * fits / np.log(sizes)
            if not gains.any():
                break
            table[gains.argmax()] = True
            size *= sizes[gains.argmax()]
        left = (inside & ~table).any(axis=1)
        inside, cells = inside[left], cells[left]
        yield table


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """K moves.

    Attributes:
        leave: whether each table leaves, shape (K, S).
        enter: the number of the table that is put in, -1 for none, shape (K,).
        tables: those that are put in, flags of shape (W, attributes).
    """

    leave: NDArray[np.bool_]
    enter: Indices
    tables: Array

    def work(self, problem: TableProblem) -> float:
        """Units of `Work` of putting them in order."""
        (T, U), (K, S) = problem.needs.shape, self.leave.shape
        return float(CALL + K * (T * (S + len(FACTORS) * U) + len(FACTORS) * ENTRY * (T + U)))

    def after(self, measured: Weighted, number: int, weight: float) -> tuple[Array, Array]:
        """The tables after a move, and weights to begin from."""
        stay = ~self.leave[number]
        tables, theta = measured.tables[stay], measured.theta[stay]
        if self.enter[number] < 0:
            return tables, theta
        return np.vstack([tables, self.tables[self.enter[number]]]), np.append(theta, weight)


def all_moves(problem: TableProblem, tables: Array, *, public: bool) -> Moves:
    """All moves that are tried, without one that measures a public total."""
    entering = _entering(problem, tables, public=public)
    missing = (tables @ (1 - entering).T).T  # attributes of S that are not in W
    beyond = entering @ (1 - tables).T
    nested = (missing == 0) | (beyond == 0)
    if tables.shape[1] > FEW_ATTRIBUTES:
        nested &= missing + beyond == 1
    single = np.eye(len(tables), dtype=bool)
    instead, of = np.nonzero(nested)
    numbers = np.arange(len(entering))
    leave = [single, np.zeros_like(missing, dtype=bool), missing == 0, single[of]]
    enter = [np.full(len(tables), -1), numbers, numbers, instead]
    return Moves(np.vstack(leave), np.concatenate(enter), entering)


def _entering(problem: TableProblem, tables: Array, *, public: bool) -> Array:
    """Tables that may be put in, flags of shape (W, attributes)."""
    attributes = tables.shape[1]
    if attributes <= FEW_ATTRIBUTES:
        wanted = all_tables(attributes)
    else:
        first, second = np.nonzero(np.triu(tables @ tables.T, 1))
        changed = np.abs(tables[:, None] - np.eye(attributes)).reshape(-1, attributes)
        unions = np.maximum(tables[first], tables[second])
        wanted = np.unique(np.vstack([unions, changed]), axis=0)
    new = ~_among(wanted, tables) & allowed(problem, wanted, public=public)
    wanted = wanted[new]
    most = min(MOST_ENTERING, COMPARED // len(problem.residuals))
    fewest = np.argsort(_cells(problem, wanted), kind="stable")[:most]
    return wanted[np.sort(fewest)]


def all_tables(attributes: int) -> Array:
    """Flags of all sets of attributes, shape (2^attributes, attributes)."""
    return (np.arange(2**attributes)[:, None] >> np.arange(attributes) & 1).astype(float)


def allowed(problem: TableProblem, tables: Array, *, public: bool) -> NDArray[np.bool_]:
    """Whether each table may be measured."""
    small = _cells(problem, tables) <= LARGEST_TABLE
    small &= tables.sum(axis=1) <= MOST_ATTRIBUTES
    return (small | _among(tables, problem.asked)) & (tables.any(axis=1) | (not public))


def _cells(problem: TableProblem, tables: Array) -> Array:
    return np.asarray(np.prod(np.where(tables > 0, problem.sizes, 1.0), axis=1))


def _among(tables: Array, others: Array) -> NDArray[np.bool_]:
    known = {row.tobytes() for row in others}
    return np.array([row.tobytes() in known for row in tables], dtype=bool)


def in_order(
    problem: TableProblem, measured: Weighted, moves: Moves, power: float
) -> list[tuple[int, float]]:
    """Moves and the weights of added tables, the most promising first.

    By the error under differential privacy at the present weights.

    Returns:
        Numbers and weights of moves that are not HOPELESS.
    """
    levels, entering = problem.levels(measured.tables), problem.levels(moves.tables)
    squares = measured.theta**2
    weights = np.where(moves.leave.any(axis=1), moves.leave @ measured.theta, NEW)
    best, chosen = np.full(len(weights), math.inf), np.zeros(len(weights))
    step = max(1, AT_ONCE // len(problem.residuals))
    for start in range(0, len(weights), step):
        part = np.arange(start, min(start + step, len(weights)))
        stay = ~moves.leave[part]
        kept, rest = levels @ (stay * squares).T, stay @ measured.theta
        enters = moves.enter[part] >= 0
        added = np.zeros_like(kept)
        added[:, enters] = entering[:, moves.enter[part][enters]]
        for factor in FACTORS:
            weight = factor * weights[part] * enters
            with np.errstate(divide="ignore", invalid="ignore"):  # where nothing is left
                values = problem.spreads(kept + added * weight**2, power) + np.log(rest + weight)
            better = values < best[part]
            best[part[better]], chosen[part[better]] = values[better], weight[better]
    now = math.log(measured.theta.sum()) + problem.spread(levels @ squares, power)[0]
    order = np.argsort(best, kind="stable")
    return [(int(k), float(chosen[k])) for k in order if best[k] < now + HOPELESS]


POWERS = (4.0, 32.0, 1e3)
"""Stages of the power p/2 at p = inf; the last one is within 1% of the maximum of 10^4 tables."""
LEAST_SHARE = 0.03
"""Of the largest weight, to begin from."""
FAINT = 1e-6
"""Weight, relative to the largest, below which a table is dropped."""
GAIN = 1e-7
"""Relative, of a move that is made."""
DRAWN, STARTS = 40, 6
"""Random starts where attributes are few, and how many of all starts, the best, are moved: only
one is up to 7% worse with seven attributes."""
MOST_MOVED = 512
"""Tables of a support whose moves are looked at."""
TOGETHER, TRIED = 8, 60
"""Of moves in order: how many compete for being made, and how many are tried at most."""


def solve(
    problem: TableProblem,
    p: float,
    *,
    scale_of: ScaleOf = total_scale,
    public: bool = False,
    work: Work | None = None,
) -> Weighted:
    """The best tables and weights that the search finds.

    Args:
        problem: the workload.
        p: in [2, inf].
        scale_of: of the noise.
        public: whether the total is public, so that no table by no attributes is measured.
        work: ends the search with the best so far; None for all that gains.
    """
    work = work or Work()
    search = _Search(problem, p, scale_of, public, work)
    few = len(problem.sizes) <= FEW_ATTRIBUTES
    starts = chain(_starts(problem), _thinned(problem, search) if few else ())
    first = next(starts)
    found = [work.deadline.completed(lambda: search.fitted(*first))]
    with work.deadline.catching():
        for tables, theta in starts:
            if work.over():
                break
            found.append(search.fitted(tables, theta))
    found.sort(key=_value)
    best = found[0]
    with work.deadline.catching():
        for start in found[:STARTS]:
            best = min(best, search.moved(start), key=_value)
    return best


def _starts(problem: TableProblem) -> Iterator[tuple[Array, Array]]:
    """The asked tables, with shares that suit tables without overlap too, and their covers."""
    asked, place = np.unique(problem.asked, axis=0, return_inverse=True)
    squares = np.bincount(place.ravel(), problem.weights * problem.counts)
    yield asked, np.sqrt(squares)
    shares = (squares * problem.cells(asked)) ** (1 / 3)
    yield asked, np.maximum(shares / shares.max(), LEAST_SHARE)
    for cover in covers(problem.sizes, asked):
        yield cover, np.ones(len(cover))


def _thinned(problem: TableProblem, search: _Search) -> Iterator[tuple[Array, Array]]:
    """What descents from random weights of all tables by few attributes leave, always the same."""
    every = all_tables(len(problem.sizes))
    every = every[allowed(problem, every, public=search.public)]
    rng = np.random.default_rng(0)
    for _ in range(DRAWN):
        yield thinned(
            problem,
            every,
            rng.uniform(size=len(every)),
            search.powers[0],
            search.scale_of,
            search.work,
        )


class _Search:
    """Supports and their results."""

    def __init__(
        self,
        problem: TableProblem,
        p: float,
        scale_of: ScaleOf,
        public: bool,
        work: Work,
    ) -> None:
        self._problem, self.scale_of = problem, scale_of
        self.public, self.work = public, work
        self.powers = (p / 2,) if p < 2 * POWERS[-1] else (*POWERS, math.inf)
        self._seen: set[frozenset[bytes]] = set()

    def fitted(self, tables: Array, theta: Array, *, rough: bool = False) -> Weighted:
        """The best weights of tables, without those that count for nothing."""
        problem = self._problem
        fit = partial(
            best_weights,
            problem,
            powers=self.powers,
            scale_of=self.scale_of,
            work=self.work,
            rough=rough,
        )
        found = fit(tables, theta)
        kept = found.theta > FAINT
        if kept.all() or not problem.is_measured_by(tables[kept]):
            return found
        return fit(tables[kept], found.theta[kept])

    def moved(self, best: Weighted) -> Weighted:
        """Where moves lead; the start itself if they come to where others have been."""
        while len(best.tables) <= MOST_MOVED:
            support = frozenset(row.tobytes() for row in best.tables)
            better = None if support in self._seen else self._step(best)
            self._seen.add(support)
            if better is None:
                break
            best = self.fitted(better.tables, better.theta)
        return best

    def _step(self, measured: Weighted) -> Weighted | None:
        """The best of the first moves that gain; None if none does."""
        moves = all_moves(self._problem, measured.tables, public=self.public)
        ordered = in_order(self._problem, measured, moves, self.powers[-1])
        self.work.spend(moves.work(self._problem))
        better = measured
        for tried, (number, weight) in enumerate(ordered):
            if self.work.over() or tried == TRIED:
                break
            if tried % TOGETHER == 0 and better is not measured:
                break
            found = self.fitted(*moves.after(measured, number, weight), rough=True)
            if found.value < better.value - GAIN:
                better = found
        return None if better is measured else better


def _value(found: Weighted) -> float:
    return found.value
