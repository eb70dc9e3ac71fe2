"""From a workload and p to the optimal strategy, with a certificate.

For Gaussian noise the exact error of a strategy R with reconstruction L, L R = A, is proportional
to tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2, whose minimum is the factorization norm
gamma_(p)(A): the strategy that attains it is optimal for every (epsilon, delta).

Products, marginals and unions of products are designed from their structure (`dispatch`).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3.
"""

from __future__ import annotations

from typing import Any

from pmldesign.arguments import exponent
from pmldesign.designs.dispatch import solve
from pmldesign.designs.options import METHODS, DesignOptions, Method
from pmldesign.designs.results import Design
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.workloads import as_workload
from pmldesign_solvers.norm.solution import Callback

__all__ = ["METHODS", "Design", "Method", "factorize"]


def factorize(
    workload: Any,
    *,
    p: float = 2.0,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    method: Method = "scaling",
    solver: str = "SCS",
    buffers: int | None = None,
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
        buffers: how many numbers the strategy of running sums may keep on a stream, from 2 to 128;
            None for as many as the gap asks for.
        callback: called with every `Step` of the "scaling" method. Ctrl-C while it runs returns
            the best strategy so far with its true gap.

    Returns:
        The design, whatever the status; `require_optimal` insists.

    Raises:
        InvalidInputError: an argument out of range, or a workload that is zero or too large.
        NotConvergedError: the convex solver returned no point at all.
    """
    options = DesignOptions(
        neighbours=Neighbours(neighbours),
        rel_gap=rel_gap,
        max_steps=max_steps,
        time_limit=time_limit,
        method=method,
        solver=solver,
        buffers=buffers,
        callback=callback,
    )
    return solve(as_workload(workload), exponent(p), options)
