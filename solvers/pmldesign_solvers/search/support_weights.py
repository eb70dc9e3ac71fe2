"""Weights of given tables under Laplace noise.

The domain has N cells, the table by the attributes S has m_S cells, and R stacks theta_S M_S, M_S
with a single 1 in every column and theta_S >= 0. In the letters of `subsets`,

    R^T R = N sum_T lambda_T P_T,      lambda_T = sum of theta_S^2 / m_S over S containing T,

so that each answer of the table by U, of weight c_U, has the variance

    v_U = c_U^2 / m_U^2 * sum of d_T / lambda_T over T within U,

without the empty T where the total is public. The scale of the noise is (sum theta) / epsilon,
twice that under replace, and under PML the root of Corollary 1, whose distances are 2 sum of
theta_S over the S that meet the set of attributes in which two cells differ. Minimised is

    log scale + 1/2 log (sum_U k_U m_U v_U^(p/2))^(2/p),      k_U how often U is asked,

by L-BFGS in log theta. It does not depend on the size of theta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pmldesign_solvers.operators.deadline import CALL, ENTRY, SPARSE, Work
from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import Array, power_mean
from pmldesign_solvers.structure.subsets import residual_spaces

COMPARED = 2**22
"""Pairs of a residual and a table up to which they are a dense matrix; beyond, a sparse one."""
WRITTEN = 2**14
"""The same for a residual and an asked table: products with sparse arrays take 50 us at least."""
STEPS = 300
"""Of L-BFGS, at most. Chosen, not measured."""
TRIAL_STEPS = 60
"""Of a descent whose value is only compared with others."""
SPAN = 60.0
"""Of the logarithms of weights."""

Scale = Callable[[Array], tuple[float, Array]]
"""Logarithm of the noise scale of theta, up to a constant, and its gradient."""
ScaleOf = Callable[[Array], Scale]
"""The scale that belongs to tables, flags of shape (S, attributes)."""


@dataclass(frozen=True, slots=True, eq=False)
class TableProblem:
    """What is asked; T are the residuals that the asked tables need.

    Attributes:
        sizes: values of each attribute, over 1, shape (attributes,).
        taus: factor of each attribute in m_S: its size if it is measured cell by cell.
        residuals: flags of the attributes of T, shape (T, attributes).
        needs: shape (T, U), not 0 if T is within the asked table U; a sparse array, or one
            with all entries if these are few.
        dimensions: d_T, shape (T,).
        asked: flags of the attributes of U, shape (U, attributes).
        asked_cells: m_U, shape (U,).
        weights: c_U^2, shape (U,).
        counts: k_U, shape (U,).
    """

    sizes: Array
    taus: Array
    residuals: Array
    needs: Any
    dimensions: Array
    asked: Array
    asked_cells: Array
    weights: Array
    counts: Array

    def __post_init__(self) -> None:
        if math.prod(self.needs.shape) <= WRITTEN:
            object.__setattr__(self, "needs", self.needs.toarray())

    def cells(self, tables: Array) -> Array:
        """m_S of tables, flags of shape (S, attributes)."""
        return np.asarray(np.prod(np.where(tables > 0, self.taus, 1.0), axis=1))

    def levels(self, tables: Array) -> Any:
        """What theta_S^2 adds to lambda_T, shape (T, S): 1/m_S where T is within S."""
        if len(self.residuals) * len(tables) <= COMPARED:
            return (self.residuals @ (1 - tables).T == 0) / self.cells(tables)
        spaces = residual_spaces([2] * len(self.sizes), _as_sets(tables))
        number = {residual: row for row, residual in enumerate(spaces.residuals)}
        return spaces.incidence[[number[T] for T in _as_sets(self.residuals)]] / self.cells(tables)

    def work(self, tables: int) -> float:
        """Units of `Work` of an evaluation of `best_weights` for so many tables."""
        T, U = self.needs.shape
        needs = T * U if isinstance(self.needs, np.ndarray) else self.needs.nnz
        return float(CALL + 2 * SPARSE * (T * tables + needs) + ENTRY * (T + U + tables))

    def is_measured_by(self, tables: Array) -> bool:
        """Whether every residual is within a table."""
        return bool((self.residuals @ (1 - tables).T == 0).any(axis=1).all())

    def spreads(self, levels: Array, power: float) -> Array:
        """1/2 log of the norm of the variances for lambda of shape (T, k); inf where one is 0."""
        known = np.all(levels > 0, axis=0)
        values = np.full(levels.shape[1], math.inf)
        shares = (self.weights / self.asked_cells**2)[:, None]
        variances = shares * (self.needs.T @ (self.dimensions[:, None] / levels[:, known]))
        top = variances.max(axis=0)
        values[known] = 0.5 * np.log(top)
        if not math.isinf(power):
            sums = (self.counts * self.asked_cells) @ (variances / top) ** power
            values[known] += 0.5 / power * np.log(sums)
        return values

    def spread(self, levels: Array, power: float) -> tuple[float, Array]:
        """The same for lambda of shape (T,) > 0, and its gradient."""
        shares = self.weights / self.asked_cells**2
        variances = shares * (self.needs.T @ (self.dimensions / levels))
        often = self.counts * self.asked_cells
        norm = power_mean(variances, power, often)
        pull = often * shares
        if not math.isinf(power):
            pull = pull * (variances / norm) ** (power - 1)
        slopes = -0.5 * self.dimensions * (self.needs @ pull) / levels**2 / norm
        return 0.5 * math.log(norm), slopes


def _as_sets(flags: Array) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(row).tolist()) for row in flags]


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Tables with weights.

    Attributes:
        tables: flags of their attributes, shape (S, attributes).
        theta: their weights, largest 1, shape (S,).
        value: the logarithm of the error, up to a constant.
    """

    tables: Array
    theta: Array
    value: float


def total_scale(tables: Array) -> Scale:  # noqa: ARG001
    """The scale under differential privacy."""

    def scale(theta: Array) -> tuple[float, Array]:
        total = float(theta.sum())
        return math.log(total), np.full_like(theta, 1 / total)

    return scale


def best_weights(
    problem: TableProblem,
    tables: Array,
    theta: Array,
    powers: Sequence[float],
    scale_of: ScaleOf = total_scale,
    *,
    work: Work,
    rough: bool = False,
) -> Weighted:
    """Descend from weights of tables.

    Args:
        problem: the workload.
        tables: flags, shape (S, attributes), that contain all residuals.
        theta: where to begin, shape (S,), positive.
        powers: p/2; larger and larger ones at p = inf; the last one decides.
        scale_of: of the noise.
        work: ends the descent with the best so far.
        rough: whether the weights are only compared with others.
    """
    levels, scale = problem.levels(tables), scale_of(tables)

    def value(logs: Array, power: float) -> tuple[float, Array]:
        weights = np.exp(np.clip(logs - logs.max(), -SPAN, 0.0))
        log_scale, pull = scale(weights)
        log_spread, push = problem.spread(levels @ weights**2, power)
        return log_scale + log_spread, weights * (pull + 2 * weights * (levels.T @ push))

    steps, ftol = (TRIAL_STEPS, 1e-6) if rough else (STEPS, 1e-13)
    best = np.log(theta)
    least = value(best, powers[-1])[0]
    logs = best
    for power in filter(math.isfinite, powers):
        descended = descend(
            partial(value, power=power),
            logs,
            proceed=partial(work.step, problem.work(len(tables))),
            maxiter=steps,
            ftol=ftol,
            gtol=1e-9,
        )
        logs = descended.unless_interrupted()
        reached = value(logs, powers[-1])[0]
        if reached < least:
            best, least = logs, reached
    return Weighted(tables, np.exp(np.clip(best - best.max(), -SPAN, 0.0)), least)


def thinned(
    problem: TableProblem,
    tables: Array,
    theta: Array,
    power: float,
    scale_of: ScaleOf,
    work: Work,
) -> tuple[Array, Array]:
    """The tables that remain after a descent over theta >= 0, in which most become 0.

    Args:
        problem: the workload.
        tables: flags, shape (S, attributes), that contain all residuals.
        theta: where to begin, shape (S,).
        power: p/2, finite.
        scale_of: of the noise.
        work: ends the descent with the best so far.
    """
    levels, scale = problem.levels(tables), scale_of(tables)

    def value(weights: Array) -> tuple[float, Array]:
        squares = levels @ weights**2
        if not (squares > 0).all():
            return 1e3, np.zeros_like(weights)
        log_scale, pull = scale(weights)
        log_spread, push = problem.spread(squares, power)
        return log_scale + log_spread, pull + 2 * weights * (levels.T @ push)

    bounds = [(0.0, None)] * len(theta)
    proceed = partial(work.step, problem.work(len(tables)))
    descended = descend(value, theta, proceed=proceed, bounds=bounds, maxiter=STEPS)
    found = descended.unless_interrupted()
    return tables[found > 0], found[found > 0]
