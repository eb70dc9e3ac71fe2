r"""Weights of tables under Laplace noise: which tables of a domain to measure, and how much.

The domain has N cells, the table by the attributes S has m_S cells, and R stacks theta_S M_S, M_S
with a single 1 in every column and theta_S >= 0. In the letters of `subsets`,

    R^T R = N sum_T lambda_T P_T,      lambda_T = sum of theta_S^2 / m_S over S containing T,

so that each answer of the table by U, of weight c_U, has the variance

    v_U = c_U^2 / m_U^2 * sum of d_T / lambda_T over T within U,

without the empty T where the total is public. The scale of the noise is (sum theta) / epsilon,
twice that under replace, and under PML the root of Corollary 1, whose distances are 2 sum of
theta_S over the S that meet the set of attributes in which two cells differ. Minimised is

    log scale + 1/2 log (sum_U k_U m_U v_U^(p/2))^(2/p),      k_U how often U is asked,

by L-BFGS in log theta. It does not depend on the size of theta, and is not convex: next to nothing
of a table always costs more than it gains, so every theta_S = 0 is a local matter. Therefore the
descent starts from many places, and tables are put in and taken out one by one until neither gains.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import Array

POWERS = (4.0, 32.0, 1e3)
"""Stages of the power p/2 at p = inf; the last one is within 1 % of the maximum of 10^4 tables."""
STAGE_STEPS = 300
"""Of L-BFGS, at most. Chosen, not measured."""
LITTLE, PUT_IN = 1e-3, (0.01, 0.03, 0.1, 0.3, 1.0)
"""Weight, relative to the largest, below which a table is taken out if that does not cost; weights
at which tables are put in."""
FEW_TABLES, FEW_STARTS = 130, 6
"""Up to so many tables each of them is a start by itself (a descent takes milliseconds); beyond,
so many starts."""

Scale = Callable[[Array], tuple[float, Array]]
"""Logarithm of the noise scale of theta, up to a constant, and its gradient."""


@dataclass(frozen=True, slots=True, eq=False)
class TableWeights:
    """What is asked and what may be measured; T are the residuals that the asked tables need.

    Attributes:
        contains: scipy CSR array, shape (T, S), 1 where T is within S.
        needs: the same for the asked tables, shape (T, U).
        dimensions: d_T, shape (T,).
        cells: m_S, shape (S,).
        asked_cells: m_U, shape (U,).
        weights: c_U^2, shape (U,).
        counts: k_U, shape (U,).
        asked: the number of each U among the S, shape (U,).
        covers: numbers of some S that together contain all U, which are starts.
    """

    contains: Any
    needs: Any
    dimensions: Array
    cells: Array
    asked_cells: Array
    weights: Array
    counts: Array
    asked: Any
    covers: Sequence[Sequence[int]] = ()

    def log_spread(self, theta: Array, power: float) -> tuple[float, Array]:
        """1/2 log of the norm of the variances, and its gradient; inf where T is not measured."""
        levels = self.contains @ (theta**2 / self.cells)
        if not (levels > 0).all():
            return math.inf, np.zeros_like(theta)
        shares = self.weights / self.asked_cells**2
        variances = shares * (self.needs.T @ (self.dimensions / levels))
        often = self.counts * self.asked_cells
        norm = power_mean(variances, power, often)
        pull = often * shares
        if not math.isinf(power):
            pull = pull * (variances / norm) ** (power - 1)
        slopes = self.dimensions * (self.needs @ pull) / levels**2
        return 0.5 * math.log(norm), -theta / self.cells * (self.contains.T @ slopes) / norm


def total_scale(theta: Array) -> tuple[float, Array]:
    """The scale under differential privacy."""
    total = float(theta.sum())
    return math.log(total), np.full_like(theta, 1 / total)


def solve(
    tables: TableWeights,
    p: float,
    *,
    scale: Scale = total_scale,
    seed: int = 0,
    deadline: float = math.inf,
) -> tuple[Array, float]:
    """The best weights that a search finds.

    Args:
        tables: what is asked and what may be measured.
        p: in [2, inf].
        scale: of the noise.
        seed: of the random starts.
        deadline: on the clock of `time.perf_counter`; the best so far is returned then.

    Returns:
        Theta, shape (S,), with sum 1, never worse than the queries themselves; and the logarithm of
        its error, up to a constant.
    """
    powers = (p / 2,) if p < 2 * POWERS[-1] else (*POWERS, math.inf)

    def value(theta: Array) -> float:
        return scale(theta)[0] + tables.log_spread(theta, p / 2)[0]

    def descend(theta: Array) -> Array:
        best = theta
        for power in powers:
            if math.isfinite(power):
                theta = _descend(tables, scale, theta, power)
                best = min(best, theta, key=value)
        return best

    starts = sorted(_starts(tables, np.random.default_rng(seed)), key=value)
    best = starts[0]
    for start in starts:
        if time.perf_counter() > deadline:
            break
        best = min(best, descend(start), key=value)
    while time.perf_counter() < deadline:
        changed = _changed(best, value)
        if value(changed) > value(best) - 1e-9:
            break
        best = min(changed, descend(changed), key=value)
    best = np.where(best < 1e-9 * best.max(), 0.0, best)
    return best / best.sum(), value(best)


def _starts(tables: TableWeights, rng: np.random.Generator) -> Iterator[Array]:
    """The queries themselves, shares that suit tables without overlap, covers, one above all."""
    count = len(tables.cells)
    queries = np.zeros(count)
    squares = np.bincount(tables.asked, tables.weights * tables.counts, count)
    queries[tables.asked] = np.sqrt(squares[tables.asked])
    yield queries
    shares = (squares * tables.cells) ** (1 / 3)
    shares /= shares.max()
    yield np.maximum(shares, 0.03)
    yield np.maximum(shares, 0.3)
    widest = np.zeros(count)
    widest[np.argmax(tables.cells)] = 1.0
    yield np.maximum(widest, 1e-6)
    for cover in tables.covers:
        weights = np.zeros(count)
        weights[cover] = 1.0
        yield weights
    few = count <= FEW_TABLES
    for table in range(count if few else 0):
        weights = np.full(count, 0.05)
        weights[table] = 1.0
        yield np.maximum(weights, 0.3 * shares)
    for _ in range(FEW_STARTS):
        yield np.maximum(shares, 0.03) * np.exp(rng.normal(size=count))


def _descend(tables: TableWeights, scale: Scale, theta: Array, power: float) -> Array:
    """L-BFGS in the logarithms of the positive weights."""
    used = theta > 0

    def value(logs: Array) -> tuple[float, Array]:
        weights = np.zeros_like(theta)
        weights[used] = np.exp(np.clip(logs - logs.max(), -60.0, 0.0))
        log_scale, pull = scale(weights)
        log_spread, push = tables.log_spread(weights, power)
        if not math.isfinite(log_spread):
            return 1e3, np.zeros_like(logs)
        return log_scale + log_spread, ((pull + push) * weights)[used]

    descended = descend(value, np.log(theta[used]), maxiter=STAGE_STEPS, ftol=1e-13, gtol=1e-9)
    logs = descended.unless_stopped()
    weights = np.zeros_like(theta)
    weights[used] = np.exp(np.clip(logs - logs.max(), -60.0, 0.0))
    return weights


def _changed(theta: Array, value: Callable[[Array], float]) -> Array:
    """Weights with little ones taken out, and with the table put in that gains most."""
    top = theta.max()
    for little in np.flatnonzero((theta > 0) & (theta < LITTLE * top)):
        without = theta.copy()
        without[little] = 0.0
        if value(without) <= value(theta):
            theta = without
    best = theta
    for table in range(len(theta)) if len(theta) <= 4 * FEW_TABLES else ():
        for weight in (0.0, *PUT_IN):
            other = theta.copy()
            other[table] = weight * top
            if other.any():
                best = min(best, other, key=value)
    return best
