"""From a workload and p to the optimal strategy, with a certificate.

For Gaussian noise the exact error of a strategy R with reconstruction L, L R = A, is proportional
to tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2, whose minimum is the factorization norm
gamma_(p)(A): the strategy that attains it is optimal for every (epsilon, delta).

A product workload is solved factor by factor: gamma_(p)(A x B) = gamma_(p)(A) gamma_(p)(B), since
the product of feasible factorizations is feasible for A x B and so is the product of dual points.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from pmldesign._arguments import exponent, positive
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.neighbours import Neighbours
from pmldesign.strategies import Strategy, kronecker
from pmldesign.workloads import KroneckerWorkload, Workload, as_workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.centred import CentredWorkload
from pmldesign_solvers import gamma, mode_products
from pmldesign_solvers.certificate import Certificate, Kind
from pmldesign_solvers.operators import Array
from pmldesign_solvers.solution import Callback, Solution, Status

Method = Literal["scaling", "primal", "dual"]
METHODS: tuple[Method, ...] = ("scaling", "primal", "dual")


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The best strategy that a solver found for a workload, and how good it is.

    Attributes:
        workload: what it answers.
        p: of the l_p^p error, in [2, inf].
        neighbours: the relation that the sensitivity speaks of.
        strategy: R, scaled to l2 sensitivity 1.
        certificate: both bounds on gamma_(p)(A); the strategy attains the upper one.
        dual_u: shape (m,), norm(u)_q = 1 with q = p/(p-2): the weights of the queries in the
            lower bound.
        dual_w: shape (n,), sum 1: the weights of the cells.
        status: why the solver stopped.
        steps: iterations of the solver.
        eigendecompositions: that it took.
        seconds: that it took.
    """

    workload: Workload
    p: float
    neighbours: Neighbours
    strategy: Strategy
    certificate: Certificate
    dual_u: Array
    dual_w: Array
    status: Status
    steps: int
    eigendecompositions: int
    seconds: float

    def reconstruction(self) -> Array:
        """L = A R^+, shape (m, r): answers are L (R x + noise)."""
        if self.neighbours is Neighbours.REPLACE:
            return self.strategy.reconstruction(CentredWorkload(self.workload))
        return self.strategy.reconstruction(self.workload)

    def require_optimal(self) -> Design:
        """The design itself.

        Raises:
            NotConvergedError: the solver stopped before the requested gap.
        """
        if self.status is not Status.OPTIMAL:
            raise NotConvergedError(
                f"the gap is {self.certificate.gap:.1e}: {self.status.value}; allow more steps or "
                "time, or a wider gap"
            )
        return self


def design(
    workload: Any,
    *,
    p: float = 2.0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    method: Method = "scaling",
    solver: str = "SCS",
    callback: Callback | None = None,
) -> Design:
    """Design the optimal strategy for a workload under Gaussian noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf]; 2 is the total squared error, inf the largest standard deviation.
        neighbours: "add-remove" or "replace"; under replace the number of records is public and
            the strategy measures only what differs between the cells.
        rel_gap: stop when both bounds are this close, relatively; positive.
        max_steps: stop after this many iterations; at least 1.
        time_limit: stop after this many seconds; None for no limit.
        method: "scaling" is the fast certified solver; "primal" and "dual" are semidefinite
            programs for CVXPY, small workloads only.
        solver: "SCS" or "CLARABEL", for the semidefinite programs.
        callback: called with every `Step` of the "scaling" method. Ctrl-C while it runs returns
            the best strategy so far with its true gap.

    Returns:
        The design, whatever the status; `require_optimal` insists.

    Raises:
        InvalidInputError: an argument out of range, a workload that is all zero, or one that is
            too large for the method.
        NotConvergedError: the convex solver returned no point at all.
    """
    workload = as_workload(workload)
    p, rel_gap = exponent(p), positive("rel_gap", rel_gap)
    if time_limit is not None:
        time_limit = positive("time_limit", time_limit)
    if max_steps < 1:
        raise InvalidInputError(f"max_steps must be at least 1, got {max_steps}")
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    relation = Neighbours(neighbours)
    kind: Kind = "cells" if relation is Neighbours.ADD_REMOVE else "pairs"
    factors = (
        workload.factors
        if isinstance(workload, KroneckerWorkload) and kind == "cells"
        else (workload,)
    )
    for factor in factors:
        check_entries("the strategy", (factor.shape[1], factor.shape[1]))
    # (1 + gap/k)^k <= 1 + 1.8 gap for gap <= 1: leave room for the product of the factors' gaps
    share = rel_gap if len(factors) == 1 else math.log1p(rel_gap) / len(factors)
    limits = _Limits(share, max_steps, time_limit, method, solver, callback, kind)
    found = {factor: _solve(factor, p, limits) for factor in dict.fromkeys(factors)}
    solutions = [found[factor] for factor in factors]
    return _combine(workload, p, relation, rel_gap, solutions)


@dataclass(frozen=True, slots=True)
class _Limits:
    rel_gap: float
    max_steps: int
    time_limit: float | None
    method: Method
    solver: str
    callback: Callback | None
    kind: Kind


def _solve(workload: Workload, p: float, limits: _Limits) -> Solution:
    try:
        if limits.method == "scaling":
            return gamma.solve(
                workload,
                p,
                kind=limits.kind,
                rel_gap=limits.rel_gap,
                max_steps=limits.max_steps,
                time_limit=limits.time_limit,
                callback=limits.callback,
            )
        return _solve_program(workload, p, limits)
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error


MAX_PROGRAM_SIZE = 400
"""Rows and columns of the matrix variable of a semidefinite program, together."""


def _solve_program(workload: Workload, p: float, limits: _Limits) -> Solution:
    from pmldesign_solvers import programs

    if sum(workload.shape) > MAX_PROGRAM_SIZE:
        m, n = workload.shape
        raise InvalidInputError(
            f"method {limits.method!r} is for workloads with at most {MAX_PROGRAM_SIZE} queries "
            f"and cells together, got {m} + {n}; use method 'scaling'"
        )
    try:
        return programs.solve(
            workload.to_dense(),
            p,
            kind=limits.kind,
            form="primal" if limits.method == "primal" else "dual",
            solver=limits.solver.upper(),
            rel_gap=limits.rel_gap,
            time_limit=limits.time_limit,
        )
    except programs.ProgramError as error:
        raise NotConvergedError(str(error)) from error


def _combine(
    workload: Workload,
    p: float,
    neighbours: Neighbours,
    rel_gap: float,
    solutions: Sequence[Solution],
) -> Design:
    """The design of a product from those of its factors (of which there may be only one)."""
    certificate = Certificate(
        lower=_product([s.certificate.lower for s in solutions], towards=0.0),
        upper=_product([s.certificate.upper for s in solutions], towards=math.inf),
    )
    stopped = [s.status for s in solutions if s.status is not Status.OPTIMAL]
    met = certificate.gap <= rel_gap
    return Design(
        workload=workload,
        p=p,
        neighbours=neighbours,
        strategy=_product_strategy(solutions),
        certificate=certificate,
        dual_u=_outer([s.dual_u for s in solutions]),
        dual_w=_outer([s.dual_w for s in solutions]),
        status=Status.OPTIMAL if met and not stopped else (stopped or [Status.STALLED])[0],
        steps=sum(s.steps for s in set(solutions)),
        eigendecompositions=sum(s.eigendecompositions for s in set(solutions)),
        seconds=sum(s.seconds for s in set(solutions)),
    )


def _product_strategy(solutions: Sequence[Solution]) -> Strategy:
    factors = [Strategy("design", one.strategy, inverse=one.basis) for one in solutions]
    return factors[0] if len(factors) == 1 else kronecker(factors)


def _outer(vectors: Sequence[Array]) -> Array:
    """Weights of a product; those of pairs, a matrix, belong to a single factor."""
    return vectors[0] if len(vectors) == 1 else mode_products.outer(vectors)


def _product(values: Sequence[float], *, towards: float) -> float:
    """The product, every rounding in one direction."""
    return reduce(lambda total, value: math.nextafter(total * value, towards), values)
