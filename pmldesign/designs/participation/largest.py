"""Several participations at p > 2, by designs at p = 2 for weighted queries.

With 1/q = 1 - 2/p the squared norm is the largest sum of u_t var_t over u >= 0 with norm(u)_q = 1.
So for any u > 0 the queries times u^(1/2) have a norm at p = 2 of at most norm(u)_q^(1/2) times the
one at p: its lower bound over that root is one at p, and its strategy is measured at p. At the best
weights u is proportional to (u var)^(1/q). That is the step from one u to the next, and a part of
it farther.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.participation.bounds import StepWatch
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import UNIT
from pmldesign.strategies import Strategy
from pmldesign.strategies.online import factor_of
from pmldesign.strategies.participation.strategy import with_participation, without_participation
from pmldesign.strategies.recurrent import FactorStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.weighting import weighted
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import final_status
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array

MOST_CELLS = 2048
"""Maximum number of steps for which the strategy is materialized as a matrix."""
ROUNDS = {True: 20, False: 3}
"""Number of weights that are tried: for fixed epochs, and for min-sep or with buffers, which need
searches that take long."""
FARTHER = 2.0
"""At p = inf; 12 steps of 64 queries end with a gap of 1e-3 instead of 2e-2."""
LEAST_WEIGHT = 1e-6
"""Of the largest one."""

Solve = Callable[[Workload, DesignOptions], Design]
"""The design at p = 2."""
Value = Callable[[Workload, Strategy], float]
"""The norm at p that a strategy attains, rounded upwards."""


def solve_largest(
    workload: Workload, p: float, options: DesignOptions, solve: Solve, value: Value
) -> Design:
    """The best of the strategies, with the best of the lower bounds.

    Raises:
        InvalidInputError: more than MOST_CELLS steps.
    """
    queries, cells = workload.shape
    if cells > MOST_CELLS:
        raise InvalidInputError(
            f"designs for several participations at p = {p:g} are for up to {MOST_CELLS} steps,"
            f" got {cells}; take p = 2"
        )
    watch = StepWatch(options)
    fixed = bool(getattr(options.schema, "fixed", False)) and options.buffers is None
    u, best, bound = np.ones(queries), None, None
    upper, lower = math.inf, 0.0
    status = Status.SEARCHED
    try:
        for _ in range(ROUNDS[fixed]):
            found = solve(weighted(workload, np.sqrt(u)), watch.options)
            whole = _for_sums(without_participation(found.strategy), workload)
            strategy = with_participation(whole, options.schema).normalised()
            reached = value(workload, strategy)
            if reached < upper:
                best, upper = strategy, reached
            proved = found.certificate.lower / math.sqrt(_dual_norm(u, p)) * (1.0 - 8 * UNIT)
            if proved > lower:
                ((v, w),) = found.dual_factors
                bound, lower = replace(found, dual_factors=((v * u[: v.size], w),)), proved
            watch.follow(found)
            if watch.reached(upper) or upper <= lower * (1 + options.rel_gap):
                break
            share = 1.0 - 2.0 / p
            ratios = (u * strategy.variances(workload)) ** share / u
            u = u * ratios ** (1.0 + FARTHER * share)
            u = np.maximum(u / u.max(), LEAST_WEIGHT)
    except KeyboardInterrupt:
        if bound is None:
            raise
        status = Status.INTERRUPTED
    assert best is not None
    assert bound is not None
    certificate = Certificate(lower, max(upper, lower))
    return replace(
        bound,
        workload=workload,
        p=p,
        strategy=best,
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
        seconds=watch.seconds,
    )


def _for_sums(strategy: Strategy, workload: Workload) -> Strategy:
    """C as a strategy for other weights of the queries, by its recurrence if it has one."""
    factor, sums = factor_of(strategy), workload.running_sums
    if factor is None or sums is None or factor.decays.max() > 1.0:
        return Strategy("design", strategy.matrix)
    return FactorStrategy("design", sums, factor.diagonal, factor.gains, factor.decays)


def _dual_norm(u: Array, p: float) -> float:
    """norm(u)_q, rounded upwards."""
    q = 1.0 if math.isinf(p) else p / (p - 2.0)
    return float(math.fsum(u**q) ** (1.0 / q)) * (1.0 + 64 * UNIT)
