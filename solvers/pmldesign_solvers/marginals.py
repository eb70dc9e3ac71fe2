"""gamma_(p) of a collection of marginals, over a domain of any size.

Attributes have sizes n_1 ... n_d, n = prod n_i cells in all. The marginal of a set S of attributes
has m_S = prod_{i in S} n_i queries, here multiplied by a weight c_S > 0; each sums the cells that
agree on S. Permuting the values of an attribute permutes cells and queries, so that the best
weights w are uniform, and u is one number u_S for each marginal. A^T diag(u) A then acts on the
residual space V_T (`residual_spaces`) as a number, and gamma_(p) is the maximum of

    f(u) = sum_T d_T a_T^(1/2),    a_T = sum_{S >= T} c_S^2 u_S / m_S,

over u >= 0 with (sum_S m_S u_S^q)^(1/q) <= 1, q = p/(p - 2); S >= T stands for inclusion.
A strategy with the Gram matrix n sum_T theta_T P_T, P_T the projector on V_T, gives every cell the
same column norm and all queries of a marginal the same variance:

    norm^2 = sum_T theta_T d_T,    v_S = c_S^2 / m_S^2 sum_{T <= S} d_T / theta_T,

and gamma_(p) is at most (sum_S m_S v_S^(p/2))^(1/p) times the norm. The best theta is proportional
to a^(1/2). None of this mentions n, so that it never overflows. Every sum has positive terms, and
both bounds are moved outwards by more than the rounding of all of them.

References:
    Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions (ResidualPlanner), NeurIPS 2023: the residual basis, p = 2 and p = inf.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.certificate import EPS, Certificate, dual_norm, power_mean
from pmldesign_solvers.marginals_newton import Newton
from pmldesign_solvers.operators import Array
from pmldesign_solvers.residual_spaces import ResidualSpaces, residual_spaces
from pmldesign_solvers.search import Search, final_status
from pmldesign_solvers.solution import Callback, Status

LARGEST_MARGINAL = 1e100
"""Most cells of one marginal."""
LARGEST_SPREAD = 1e60
"""Largest ratio of two c_S / m_S: the squares of both, and what vanishes, stay in range."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginalsSolution:
    """An optimal strategy for a collection of K marginals, with its certificate.

    Attributes:
        residuals: the R sets T of attributes that are measured, by size, then lexicographic. The
            empty one is the total; attributes with one value occur in none.
        precisions: theta_T > 0, shape (R,); sum_T theta_T d_T = 1, so that the l2 sensitivity is 1.
        dual_u: u_S, shape (K,), of each query of a marginal; (sum_S m_S u_S^q)^(1/q) = 1.
        dual_w: a single 1 for the cells, which weigh the same; for pairs, shape (R,), b_T of
            `marginals_pairs`.
        certificate: both bounds on gamma_(p), recomputed from the arrays above.
        status: why the solver stopped.
        steps: of Newton's method, and the start.
        seconds: wall-clock time.
    """

    residuals: tuple[tuple[int, ...], ...]
    precisions: Array
    dual_u: Array
    dual_w: Array
    certificate: Certificate
    status: Status
    steps: int
    seconds: float


def solve_marginals(
    sizes: Sequence[int],
    subsets: Sequence[Sequence[int]],
    weights: Array,
    p: float,
    *,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> MarginalsSolution:
    """Compute gamma_(p) of a collection of marginals with a certificate.

    Args:
        sizes: number of values of each attribute, at least 1.
        subsets: the attributes (from 0, increasing) of each marginal; () is the total.
        weights: c_S > 0, shape (K,).
        p: in [2, inf].
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        time_limit: in seconds; None for none. A step is never cut short.
        callback: called after every step. Ctrl-C during the search returns the best so far.

    Raises:
        ValueError: p outside [2, inf]; too many subsets (`residual_spaces`); a marginal with more
            than LARGEST_MARGINAL cells; weights c_S / m_S that differ by over LARGEST_SPREAD.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    start = time.perf_counter()
    spaces = residual_spaces(sizes, subsets)
    check_range(spaces, weights)
    scale = float((weights / spaces.cells).max())
    search = Search(Newton(spaces, weights / scale, p, rel_gap).points(), callback, start)
    # the certificate rounds outwards, so aim a little closer
    status = search.run(0.9 * rel_gap, max_steps, time_limit)
    u = search.lower.u / dual_norm(search.lower.u, p, spaces.cells)
    root = np.sqrt(search.upper.eigenvalues)
    precisions = root / float(spaces.dimensions @ root)
    certificate = certify_marginals(spaces, weights, u, precisions, p)
    return MarginalsSolution(
        residuals=spaces.residuals,
        precisions=precisions,
        dual_u=u,
        dual_w=np.ones(1),
        certificate=certificate,
        status=final_status(status, certificate, rel_gap),
        steps=search.steps,
        seconds=time.perf_counter() - start,
    )


def certify_marginals(
    spaces: ResidualSpaces, weights: Array, u: Array, precisions: Array, p: float
) -> Certificate:
    """Both bounds on gamma_(p) from any u >= 0 and theta > 0, rounded outwards.

    Args:
        spaces: the residual spaces of the K marginals.
        weights: c_S, shape (K,).
        u: shape (K,), not all zero; scaled here to norm 1.
        precisions: theta_T, shape (R,); scaled here to sensitivity 1.
        p: in [2, inf].
    """
    scale = float((weights / spaces.cells).max())
    ratio = (weights / (scale * spaces.cells)) ** 2  # (c/m)^2
    eigenvalues = spaces.incidence @ (ratio * spaces.cells * u)
    lower = scale * float(
        spaces.dimensions @ np.sqrt(eigenvalues) / np.sqrt(dual_norm(u, p, spaces.cells))
    )
    variances = ratio * (spaces.incidence.T @ (spaces.dimensions / precisions))
    norm = np.sqrt(spaces.dimensions @ precisions)
    upper = scale * float(np.sqrt(power_mean(variances, p / 2, spaces.cells)) * norm)
    # at most R + K terms in a sum, some dozens of products and powers in a term
    rounding = (sum(spaces.incidence.shape) + 200) * EPS
    return Certificate(lower=lower * (1 - rounding), upper=upper * (1 + rounding))


def check_range(spaces: ResidualSpaces, weights: Array) -> None:
    """Refuse numbers whose squares may overflow or vanish, with a ValueError."""
    if not spaces.cells.max() <= LARGEST_MARGINAL:
        raise ValueError(
            f"a marginal may have up to {LARGEST_MARGINAL:g} cells, "
            f"the largest one has {spaces.cells.max():g}"
        )
    ratio = weights / spaces.cells
    if not ratio.max() <= LARGEST_SPREAD * ratio.min():
        raise ValueError(
            "the weights of the marginals, each divided by its number of cells, may differ by a "
            f"factor of up to {LARGEST_SPREAD:g}; they go from {ratio.min():g} to {ratio.max():g}"
        )
