r"""A certified interval for the norm under replace, from a design for the same workload.

gamma_(p)^replace(A) = gamma_(p)(A V), V the differences e_i - e_j. With equal weights on all pairs,
V diag(w) V^T = 2/(n - 1) P, P = I - 1 1^T/n, so any u with norm(u)_q <= 1 gives

    gamma_(p)(A V) >= sqrt(2/(n - 1)) nuclear_norm( diag(u)^(1/2) A P ),

and any strategy that answers A P is a factorization: its error per unit of sensitivity is above.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.design import Design
from pmldesign.mechanism import mechanism
from pmldesign.neighbours import Neighbours
from pmldesign.noise import gaussian_moment_root
from pmldesign.workloads.centred import CentredWorkload
from pmldesign_solvers.certificate import Certificate, lower_bound

ROUNDING = 1e-9
"""Relative: the error of a strategy comes from its pseudo-inverse, the centring is not exact."""


def replace_norm(made: Design) -> Certificate:
    """Both bounds on gamma_(p)(A V), from the weights of the queries and the strategy of a design.

    Args:
        made: a design for A under either relation.
    """
    n = made.workload.shape[1]
    if n == 1:
        return Certificate(0.0, 0.0)
    nuclear = lower_bound(CentredWorkload(made.workload), made.dual_u, np.ones(n), made.p)
    measured = mechanism(
        made.strategy, made.workload, noise="gaussian", p=made.p, neighbours=Neighbours.REPLACE
    )
    upper = measured.error(made.p) / gaussian_moment_root(made.p) * (1 + ROUNDING)
    lower = nuclear * math.sqrt(2 * n / (n - 1)) * (1 - ROUNDING)
    return Certificate(lower=min(lower, upper), upper=upper)
