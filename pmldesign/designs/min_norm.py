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
from pmldesign.designs.options import DesignOptions, takes_options
from pmldesign.designs.results import Design as Design
from pmldesign.factorization import with_known


@takes_options
def factorize(workload: Any, *, p: float = 2.0, known: Any = None, **options: Any) -> Design:
    """Design the optimal strategy for a workload under Gaussian noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf]; 2 is the total squared error, inf the largest standard deviation.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: neighbours, rel_gap, max_steps, time_limit, method, solver, buffers, callback: the
            attributes of `DesignOptions`.

    Returns:
        The design, whatever the status; `require_optimal` insists.

    Raises:
        InvalidInputError: an argument out of range, or a workload that is zero or too large.
        NotConvergedError: the convex solver returned no point at all.
    """
    queries, _ = with_known(workload, None, known)
    if known is not None:
        options["neighbours"] = "replace"
    return solve(queries, exponent(p), DesignOptions(**options))
