"""Strategies for cube noise: the largest entry as sensitivity.

Cube noise on R of k rows has standard deviations in proportion to the largest entry of R, or under
replace to the largest difference within a row. With A = U W, W of shape (r, n) of full rank and
orthonormal columns of U, searched are R = B W, B of k >= r rows (every strategy of r rows that
answers A is one), and at p = 2

    err = c_k |B W|_max norm(U B^+)_F,     c_k^2 = (k + 1)(k + 2)/3.

One row more than r gains up to 5% if r is small: the cube then meets the space of A in a hexagon or
a similar body, closer to the hull of the columns. Two more gained nothing on 36 workloads of rank 2
to 8. The logarithm is minimised over B by L-BFGS from many starts, the maximum smoothed to a norm
of the entries of order 8, 32, 128, 512 in turn. At p = inf the norms of the rows of U B^+ enter by
their norm of that order, at 2 < p < inf by the exact moments (`cube_moments`), which are smaller if
these rows are sparse. Under replace an offset for each row is subtracted, whose best is the middle
of its range.

Starts: W itself, the rows of A (r independent ones, and all if they are r + 1),
these as signs (2 a - 1, if 1 is a combination of rows), the result at p = 2 for
2 < p < inf, the given strategies, the cells if they are at most r + 1, random rotations
of r and of r + 1 rows, every other one with B W replaced by its signs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from pmldesign_solvers.norm.bounds_loop import ended
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import CALL, DECOMPOSED, ENTRY, Work
from pmldesign_solvers.operators.lbfgs import StoppedError, descend
from pmldesign_solvers.operators.operator import RANK_CUTOFF, Array
from pmldesign_solvers.search.cube_moments import log_moments, unit_error
from pmldesign_solvers.search.solution import SearchSolution, SearchStep, Start

ORDERS = (8, 32, 128, 512)
"""Of the norms that stand for the maximum, one after the other."""
STEPS = 400
"""Of L-BFGS for each order."""
TIE = 1e-12
"""Relative: with no more to gain, fewer rows are kept, as for a single query."""
ROTATIONS = 24
"""Random starts."""
PATIENCE, GAIN = 8, 1e-3
"""Starts in a row without such a gain after which no more are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class CubeProblem:
    """What is to be answered.

    Attributes:
        left: U, shape (m, r), with orthonormal columns.
        basis: W, shape (r, n).
        distinct: columns of W that are different, up to sign under add-remove, shape (r, k).
        p: of the error, in [2, inf].
        replace: whether the largest difference within a row counts.
    """

    left: Array
    basis: Array
    distinct: Array
    p: float
    replace: bool

    @classmethod
    def of(cls, matrix: Array, p: float, *, replace: bool) -> CubeProblem:
        """The problem of A, shape (m, n)."""
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
        rank = _rank(values)
        basis = values[:rank, None] * right[:rank]
        columns = matrix.T
        if not replace:  # a column and its negative have the same norms
            first = columns[np.arange(len(columns)), (columns != 0).argmax(axis=1)]
            columns = columns * np.where(first < 0, -1.0, 1.0)[:, None]
        distinct = np.unique(columns, axis=0)
        if not replace:
            distinct = distinct[distinct.any(axis=1)]
        return cls(left[:, :rank], basis, left[:, :rank].T @ distinct.T, p, replace)

    @property
    def rank(self) -> int:
        """The number r of measurements that are needed."""
        return len(self.basis)

    def error(self, mixing: Array) -> float:
        """Err_p at epsilon 1; inf for B that is not of full rank."""
        if np.linalg.cond(mixing) > 1 / RANK_CUTOFF:
            return math.inf
        values = mixing @ self.distinct
        spread = np.ptp(values, axis=1) if self.replace else np.abs(values).max(axis=1)
        return float(spread.max()) * unit_error(self.left @ np.linalg.pinv(mixing), self.p)

    def parts(self, x: Array) -> tuple[Array, Array]:
        """B, and an offset for each of its rows: 0 under add-remove."""
        rows = x.size // (self.rank + self.replace)
        mixing, offsets = x[: rows * self.rank], x[rows * self.rank :]
        return mixing.reshape(rows, -1), offsets if self.replace else np.zeros(rows)

    def log_error(self, x: Array, order: int) -> tuple[float, Array]:
        """Logarithm of the smoothed error of B and the offsets, and its gradient."""
        mixing, offsets = self.parts(x)
        values = mixing @ self.distinct - offsets[:, None]
        top = float(np.abs(values).max())
        sizes = np.abs(values) / top
        total = float((sizes**order).sum())
        slope = sizes ** (order - 1) * np.sign(values) / (top * total)
        try:
            inverse = np.linalg.pinv(mixing)
        except np.linalg.LinAlgError:
            return math.inf, np.zeros_like(x)
        rows = self.left @ inverse
        spread, pull = self._log_spread(rows, order)
        beside = pull.T - mixing @ (inverse @ pull.T)  # what B does not reach: 0 where B is square
        gradient = slope @ self.distinct.T + (beside @ rows - rows.T @ pull) @ inverse.T
        value = math.log(top) + math.log(total) / order + spread
        back = -slope.sum(axis=1) if self.replace else np.zeros(0)
        return value, np.concatenate([gradient.ravel(), back])

    def work(self, size: int) -> float:
        """Units of `Work` of `log_error`, for so many variables."""
        (m, r), cells = self.left.shape, self.distinct.shape[1]
        rows = size / (r + self.replace)
        moments = self.p * ENTRY * m * rows if 2 < self.p < math.inf else ENTRY * m
        return float(CALL + DECOMPOSED * rows * r**2 + 4 * ENTRY * rows * cells + moments)

    def _log_spread(self, rows: Array, order: int) -> tuple[float, Array]:
        """Logarithm of the error of L at a fixed scale up to a constant, and its gradient."""
        norms = np.linalg.norm(rows, axis=1)
        if 2 < self.p < math.inf:
            asked = norms > RANK_CUTOFF * norms.max()
            logs, slopes = log_moments(rows[asked], self.p)
            shares, gradient = np.exp(logs - logs.max()), np.zeros_like(rows)
            total = float(shares.sum())
            gradient[asked] = slopes * (shares / (total * self.p))[:, None]
            return (float(logs.max()) + math.log(total)) / self.p, gradient
        largest, power = float(norms.max()), min(self.p, order)
        shares = (norms / largest) ** (power - 2)
        mean = float((shares * (norms / largest) ** 2).sum())
        value = math.log(largest) + math.log(mean) / power
        return value, rows * (shares / (mean * largest**2))[:, None]


def solve(
    matrix: Array,
    p: float,
    *,
    replace: bool,
    starts: Sequence[Array] = (),
    seed: int = 0,
    work: Work | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> SearchSolution:
    """Search for the strategy with the smallest error under cube noise.

    Args:
        matrix: A, shape (m, n), not zero; under replace without the public part.
        p: in [2, inf].
        replace: whether the largest difference within a row counts.
        starts: strategies with rows in the row space of A.
        seed: of the random starts.
        work: ends the search with the best so far; None for all starts.
        callback: called after every start at p. Ctrl-C returns the best so far.
    """
    begin, work = time.perf_counter(), work or Work()
    problem = CubeProblem.of(matrix, p, replace=replace)
    best = np.eye(problem.rank)
    error = problem.error(best)
    given = [(f"given {number}", strategy) for number, strategy in enumerate(starts)]
    stalled = 0
    if 2 < p < math.inf:
        half = work.part(0.5)
        first = solve(matrix, 2.0, replace=replace, starts=starts, seed=seed, work=half)
        given.insert(0, ("the best at p = 2", first.strategy))
    named = [
        (problem.error(start), name, start) for name, start in _starts(problem, matrix, given, seed)
    ]
    table = [Start(name, before, before) for before, name, _ in named]
    with work.deadline.catching():
        for number, (before, name, start) in enumerate(named, 1):
            if work.over():
                break
            found, settled = _descended(problem, start, work)
            after = min((problem.error(found), found), (before, start), key=lambda pair: pair[0])
            table[number - 1] = Start(name, before, after[0], settled)
            stalled = 0 if after[0] < error * (1 - GAIN) else stalled + 1
            if after[0] < error * (1 - TIE):
                error, best = after
            if callback is not None:
                callback(SearchStep(number, error, time.perf_counter() - begin))
            if stalled == PATIENCE:
                break
    status = ended(work) or Status.COMPLETED
    plain, _, start = min(named, key=lambda one: one[0])  # where the work was for few descents
    if plain < error * (1 - TIE):
        error, best = plain, start
    values = best @ problem.distinct
    spread = float((np.ptp(values, axis=1) if replace else np.abs(values).max(axis=1)).max())
    return SearchSolution(
        strategy=best @ problem.basis / spread,
        error=error,
        scale=1.0,
        status=status,
        starts=tuple(sorted(table, key=lambda start: start.after)),
        seconds=time.perf_counter() - begin,
    )


def rank_of(matrix: Array) -> int:
    """The rank of A; 0 where A is 0."""
    return _rank(np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64))


def _rank(values: Array) -> int:
    return int((values > RANK_CUTOFF * values[0]).sum())


def _descended(problem: CubeProblem, start: Array, work: Work) -> tuple[Array, bool]:
    """Where L-BFGS ends, one order after the other; whether the last one ended by itself."""
    values = start @ problem.distinct
    scale = float(np.abs(values).max())
    offsets = (values.max(axis=1) + values.min(axis=1)) / 2 if problem.replace else np.zeros(0)
    x, settled = np.concatenate([start.ravel(), offsets]) / scale, True
    for order in ORDERS:
        descended = descend(
            partial(problem.log_error, order=order),
            x,
            proceed=partial(work.step, problem.work(x.size)),
            maxiter=STEPS,
        )
        x, settled = descended.point, descended.settled
        if isinstance(descended.stopped, StoppedError):
            break
        descended.unless_stopped()
    return problem.parts(x)[0], settled


def _starts(
    problem: CubeProblem, matrix: Array, given: Sequence[tuple[str, Array]], seed: int
) -> Iterator[tuple[str, Array]]:
    """Names of starts and their B."""
    inverse, rank = np.linalg.pinv(problem.basis), problem.rank
    ones = np.ones(matrix.shape[1])
    whole = np.linalg.norm(ones @ inverse @ problem.basis - ones) < 1e-9 * math.sqrt(ones.size)
    named = [("rows", matrix)]
    if whole and not problem.replace:
        named.append(("signs of rows", np.vstack([ones, 2 * matrix - ones])))
    named += given
    if ones.size <= rank + 1:
        named.append(("cells", np.eye(ones.size)))
    for name, rows in named:
        mixing = _independent(rows @ inverse, rank)
        if mixing is None:
            continue
        yield name, mixing
        if len(rows) == rank + 1:
            yield f"all {name}", rows @ inverse
    yield "basis", np.eye(rank)
    generator = np.random.default_rng(seed)
    for number in range(ROTATIONS):
        count = rank + number // 2 % 2
        rotation = np.linalg.qr(generator.standard_normal((count, count)))[0][:, :rank]
        if number % 2:  # the signs of its rows, within the row space
            signs = np.sign(rotation @ problem.basis) @ inverse
            rotation = signs if np.isfinite(problem.error(signs)) else rotation
        yield f"random {number}", rotation


def _independent(rows: Array, rank: int) -> Array | None:
    """The first of the independent rows, by pivoting."""
    if len(rows) < rank:
        return None
    triangle, order = scipy.linalg.qr(rows.T, mode="r", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    if len(sizes) < rank or sizes[rank - 1] <= RANK_CUTOFF * sizes[0]:
        return None
    return np.asarray(rows[np.sort(order[:rank])])
