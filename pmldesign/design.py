"""From a workload and p to the optimal strategy, with a certificate.

For Gaussian noise the exact error of a strategy R with reconstruction L, L R = A, is proportional
to tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2, whose minimum is the factorization norm
gamma_(p)(A): the strategy that attains it is optimal for every (epsilon, delta).

Products, marginals and unions of products are designed from their structure (`solving`).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pmldesign._arguments import exponent, positive, usable_device
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.limits import METHODS, Limits, Method, Solved
from pmldesign.neighbours import Neighbours
from pmldesign.solving import solve
from pmldesign.workloads import Workload, as_workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.centred import CentredWorkload
from pmldesign_solvers import mode_products
from pmldesign_solvers.certificate import Kind
from pmldesign_solvers.operators import Array
from pmldesign_solvers.solution import Callback, Status

__all__ = ["METHODS", "Design", "Method", "design"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Design(Solved):
    """The best strategy that a solver found for a workload, and how good it is.

    Attributes:
        workload: what it answers.
        p: of the l_p^p error, in [2, inf].
        neighbours: the relation that the sensitivity speaks of.
        strategy: R, scaled to l2 sensitivity 1.
        certificate: both bounds on gamma_(p)(A); the strategy attains the upper one.
        dual_factors: the weights of the lower bound, u and w for each factor of a product, one pair
            for any other workload; see `dual_u`, `dual_w`.
        status: why the solver stopped.
        steps: iterations of the solver.
        eigendecompositions: that it took.
        seconds: that it took.
    """

    workload: Workload
    p: float
    neighbours: Neighbours

    @property
    def dual_u(self) -> Array:
        """Weights of the queries in the lower bound, shape (m,), norm(u)_q = 1, q = p/(p-2).

        One for each marginal where the workload is made of marginals. Those of a union of products
        beyond dense size may prove a little less than `certificate.lower`, which may come from the
        norms of its parts.

        Raises:
            InvalidInputError: a product with too many queries for a vector.
        """
        check_entries("dual_u", (math.prod(u.size for u, _ in self.dual_factors), 1))
        return _outer([u for u, _ in self.dual_factors])

    @property
    def dual_w(self) -> Array:
        """Weights of the cells in the lower bound, shape (n,), sum 1.

        A single 1 for marginals, whose cells weigh the same. For replace neighbours a symmetric
        matrix of weights of pairs of cells.
        """
        return _outer([w for _, w in self.dual_factors])

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
            remedy = "allow more steps or time, or a wider gap"
            if self.status is Status.STRUCTURED:
                remedy = "allow a wider gap"
            raise NotConvergedError(
                f"the gap is {self.certificate.gap:.1e}: {self.status.value}; {remedy}"
            )
        return self


def _outer(factors: Sequence[Array]) -> Array:
    return factors[0] if len(factors) == 1 else mode_products.outer(factors)


def design(
    workload: Any,
    *,
    p: float = 2.0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    device: str = "cpu",
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
        device: of method "scaling" with add-remove neighbours: "cpu" for NumPy, or a device of
            PyTorch (the gpu extra) such as "cuda". NumPy certifies the bounds in any case.
        method: "scaling" is the fast certified solver; "primal" and "dual" are semidefinite
            programs for CVXPY, small workloads only.
        solver: "SCS" or "CLARABEL", for the semidefinite programs.
        callback: called with every `Step` of the "scaling" method. Ctrl-C while it runs returns
            the best strategy so far with its true gap.

    Returns:
        The design, whatever the status; `require_optimal` insists.

    Raises:
        InvalidInputError: an argument out of range, or a workload that is zero or too large.
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
    usable_device(device, method=method, kind=kind)
    limits = Limits(rel_gap, max_steps, time_limit, device, method, solver, callback, kind)
    found = solve(workload, p, limits)
    known = {field.name: getattr(found, field.name) for field in fields(found)}
    return Design(workload=workload, p=p, neighbours=relation, **known)
