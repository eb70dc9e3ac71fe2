"""Which tables to measure: steepest moves over supports.

Next to nothing of a table always costs more than it gains, so that every theta_S = 0 is a local
matter, and supports are searched as such: `moves` says which ones follow one, and the weights of
each are fitted (`weights`), beginning from those before. Of the first few that gain the best is
taken. A support where nothing gains is left for the next start.

Random starts over all sets of up to five attributes, 40 for each problem, found nothing that was
2e-4 better for random sizes and tables, and were up to 3 % worse.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import chain

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.supports.moves import (
    FEW_ATTRIBUTES,
    all_moves,
    all_tables,
    allowed,
    covers,
    in_order,
)
from pmldesign_solvers.search.supports.weights import (
    ScaleOf,
    TableProblem,
    Weighted,
    best_weights,
    thinned,
    total_scale,
)

POWERS = (4.0, 32.0, 1e3)
"""Stages of the power p/2 at p = inf; the last one is within 1 % of the maximum of 10^4 tables."""
LEAST_SHARE = 0.03
"""Of the largest weight, to begin from."""
FAINT = 1e-6
"""Weight, relative to the largest, below which a table is dropped."""
GAIN = 1e-7
"""Relative, of a move that is made."""
DRAWN, STARTS = 40, 6
"""Random starts where attributes are few, and how many of all starts, the best, are moved: one
alone is up to 7 % worse with seven attributes."""
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
    deadline: float = math.inf,
) -> Weighted:
    """The best tables and weights that the search finds; the same ones whenever time is enough.

    Args:
        problem: what is asked.
        p: in [2, inf].
        scale_of: of the noise.
        public: whether the total is public, so that no table by no attributes is measured.
        deadline: on the clock of `time.perf_counter`; the best so far is returned then.
    """
    search = _Search(problem, p, scale_of, public, deadline)
    found: list[Weighted] = []
    few = len(problem.sizes) <= FEW_ATTRIBUTES
    for tables, theta in chain(_starts(problem), _thinned(problem, search) if few else ()):
        if found and search.is_late():
            break
        found.append(search.fitted(tables, theta))
    found.sort(key=_value)
    return min([search.moved(start) for start in found[:STARTS]], key=_value)


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
            problem, every, rng.uniform(size=len(every)), search.powers[0], search.scale_of
        )


class _Search:
    """Supports and what is known of them."""

    def __init__(
        self,
        problem: TableProblem,
        p: float,
        scale_of: ScaleOf,
        public: bool,
        deadline: float,
    ) -> None:
        self._problem, self.scale_of = problem, scale_of
        self.public, self._deadline = public, deadline
        self.powers = (p / 2,) if p < 2 * POWERS[-1] else (*POWERS, math.inf)
        self._seen: set[frozenset[bytes]] = set()

    def is_late(self) -> bool:
        return time.perf_counter() > self._deadline

    def fitted(self, tables: Array, theta: Array, *, rough: bool = False) -> Weighted:
        """The best weights of tables, without those that count for nothing."""
        problem, powers = self._problem, self.powers
        found = best_weights(problem, tables, theta, powers, self.scale_of, rough=rough)
        kept = found.theta > FAINT
        if kept.all() or not problem.is_measured_by(tables[kept]):
            return found
        return best_weights(
            problem, tables[kept], found.theta[kept], powers, self.scale_of, rough=rough
        )

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
        better = measured
        for tried, (number, weight) in enumerate(ordered):
            if self.is_late() or tried == TRIED:
                break
            if tried % TOGETHER == 0 and better is not measured:
                break
            found = self.fitted(*moves.after(measured, number, weight), rough=True)
            if found.value < better.value - GAIN:
                better = found
        return None if better is measured else better


def _value(found: Weighted) -> float:
    return found.value
