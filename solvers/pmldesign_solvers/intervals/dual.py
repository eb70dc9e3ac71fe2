r"""Lower bounds on the norm of running sums whose total is public, from weights of intervals.

Moving a record from step i to step j > i changes the answers of the queries i ... j - 1, each by
its weight q_t. With S the covariance of the n - 1 open answers before these weights, a strategy has

    h_ij = 1_[i,j)^T S^-1 1_[i,j) <= 1.

For weights of intervals of sum at most 1 and weights v of queries, norm(v)_q <= 1, Cauchy and
Schwarz give

    norm(diag(q S q))_(p/2) >= tr q^2 v S . sum w_ij h_ij >= (tr (U^(1/2) Omega U^(1/2))^(1/2))^2,

U = diag(q^2 v), Omega_st the weight of the intervals that hold both s and t. Where w_ij = a_i b_j,

    Omega_st = A_min(s,t) B_max(s,t),     A_t = sum_{i <= t} a_i,     B_t = sum_{j > t} b_j,

so that U^(1/2) Omega U^(1/2) = M M^T is that of a stream with weights B^2 v of queries and of steps

    w_0 = A_0/B_0,     w_t = A_t/B_t - A_{t-1}/B_{t-1} = (a_t B_{t-1} + A_{t-1} b_t)/(B_t B_{t-1}),

b_t belonging to the end t, between the queries t - 1 and t. The sum of the weights is
sum_t A_t b_{t+1}. The logarithm of the bound is not concave in a or b, but smooth: L-BFGS on
their logarithms, and of v at p > 2, from those of every fourth step.

Rounding: a and b are integers of sum below 2^53, so that A and B are exact; the rounding of a few
products remains, which counts as that of edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import EPS, Array, dual_exponent, dual_norm
from pmldesign_solvers.streams.certificate import LAST_SUMS
from pmldesign_solvers.streams.chain import RunningSums, diagonals
from pmldesign_solvers.streams.fixed_point import refined
from pmldesign_solvers.streams.nodes import Nodes, zolotarev

WHOLE = 2.0**52
"""The sum of whole weights, about."""
FAINTEST = 1e-9
"""Weights are at least this part of their mean: they are whole numbers."""
MEMORY = 20
"""Steps that L-BFGS remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalWeights:
    """Weights of intervals and of queries.

    Attributes:
        starts: a, shape (n - 1,), positive integers.
        ends: b of the ends 1 ... n - 1, also positive integers.
        queries: v, shape (n - 1,), positive.
    """

    starts: Array
    ends: Array
    queries: Array

    def refined(self, cells: int) -> IntervalWeights:
        """The weights of about four times as many open queries, or as many."""
        if cells == self.starts.size:
            return self
        parts = (refined(part, cells) for part in (self.starts, self.ends, self.queries))
        return IntervalWeights(*parts)

    def sums(self) -> tuple[Array, Array]:
        """A and B."""
        return np.cumsum(self.starts), np.cumsum(self.ends[::-1])[::-1]

    def for_streams(self) -> tuple[Array, Array]:
        """The weights u of queries and w of steps of a stream with the same M."""
        A, B = self.sums()
        w = A / B
        w[1:] = (self.starts[1:] * B[:-1] + A[:-1] * self.ends[:-1]) / (B[1:] * B[:-1])
        return B**2 * self.queries, w

    def rounded(self) -> IntervalWeights:
        """The same with whole numbers, and sizes that do no harm."""
        starts, ends = (
            np.maximum(np.rint(part * (WHOLE / part.sum())), 1.0)
            for part in (self.starts, self.ends)
        )
        return IntervalWeights(starts, ends, self.queries / self.queries.max())


def open_sums(sums: RunningSums) -> RunningSums:
    """The same running sums without the total."""
    q, h = np.sqrt(sums.query_squares[:-1]), np.sqrt(sums.step_squares[:-1])
    return RunningSums(sums.rates[:-1], q, h)


def first_weights(cells: int) -> IntervalWeights:
    """Weights of so many open queries to start from: starts are early, ends late."""
    fading = 1.0 / np.sqrt(np.arange(1.0, cells + 1.0))
    return IntervalWeights(fading, fading[::-1], np.ones(cells))


def improved(
    problem: RunningSums,
    weights: IntervalWeights,
    p: float,
    nodes: int,
    most: int,
    deadline: Deadline,
) -> tuple[IntervalWeights, int]:
    """Better weights, by so many steps of L-BFGS at most, and how many were taken.

    Args:
        problem: the open running sums.
        weights: to start from.
        p: in [2, inf].
        nodes: number of nodes for the trace.
        most: number of steps.
        deadline: ends the steps.
    """
    m = problem.cells

    def loss(z: Array) -> tuple[float, Array]:
        weights = _from_logs(z, m)
        value, gradient = _log_bound(problem, weights, p, nodes)
        parts = (weights.starts, weights.ends, weights.queries)
        held = np.concatenate([part <= _faintest(part) for part in parts])
        return -value, np.where(held, 0.0, -gradient)[: z.size]

    start = np.log(np.concatenate([weights.starts, weights.ends, weights.queries]))
    last, taken = start[: 2 * m if p == 2 else 3 * m], 0

    def moved(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        nonlocal last, taken
        last, taken = np.array(intermediate_result.x), taken + 1
        if deadline.over():
            raise StopIteration

    with deadline.catching():
        scipy.optimize.minimize(
            loss,
            last,
            jac=True,
            method="L-BFGS-B",
            callback=moved,
            options={"maxiter": most, "maxfun": 2 * most, "maxcor": MEMORY},
        )
    return _from_logs(last, m), taken


def lower_bound(problem: RunningSums, weights: IntervalWeights, p: float, nodes: Nodes) -> float:
    """Certified lower bound on the norm from whole weights and any nodes.

    Args:
        problem: the open running sums.
        weights: rounded.
        p: in [2, inf].
        nodes: K nodes without constant or origin.
    """
    trace = problem.trace(*weights.for_streams(), nodes)
    scale = math.sqrt(_total(weights) * dual_norm(weights.queries, p))
    rounding = 2.0 * problem.rounding(nodes) + LAST_SUMS * EPS
    return trace / scale / (1.0 + nodes.excess()) * (1.0 - rounding)


def _total(weights: IntervalWeights) -> float:
    A, _ = weights.sums()
    return math.fsum(A * weights.ends)


def _from_logs(z: Array, m: int) -> IntervalWeights:
    """Weights of bounded size; those of queries are constant if they are left out."""
    parts = [np.exp(part - part.max()) for part in z.reshape(-1, m)]
    starts, ends, *queries = (np.maximum(part, _faintest(part)) for part in parts)
    return IntervalWeights(starts, ends, queries[0] if queries else np.ones(m))


def _faintest(weights: Array) -> float:
    """What is kept where less is asked for: there the bound does not change with the weight."""
    return FAINTEST * float(weights.mean())


def _log_bound(
    problem: RunningSums, weights: IntervalWeights, p: float, count: int
) -> tuple[float, Array]:
    """The logarithm of the bound, and its gradient for those of starts, ends and queries."""
    u, w = weights.for_streams()
    nodes = zolotarev(*problem.spectrum(u, w), count)
    chain = problem.chain(u, w)
    values = diagonals(chain, nodes)
    rows, columns = chain.rows(values), chain.columns(values)
    trace, total = float(rows.sum()), _total(weights)
    (A, B), a, b = weights.sums(), weights.starts, weights.ends
    of_w, of_u = 0.5 * rows / (w * trace), 0.5 * columns / trace  # of w, and of log u
    ratio = of_w - np.append(of_w[1:], 0.0)  # of A/B
    of_starts = np.cumsum((ratio / B - 0.5 * b / total)[::-1])[::-1]
    of_ends = np.cumsum(2.0 * of_u / B - ratio * A / B**2) - 0.5 * A / total
    exponent = dual_exponent(p)
    shares = 0.0 if exponent == 0.0 else weights.queries ** (1.0 / exponent)
    of_queries = of_u - 0.5 * shares / np.sum(shares) if exponent else np.zeros(len(a))
    value = math.log(trace) - 0.5 * math.log(total * dual_norm(weights.queries, p))
    return value, np.concatenate([of_starts * a, of_ends * b, of_queries])
