"""gamma_(p) of a collection of marginals, over a domain of any size.

Attributes have sizes n_1 ... n_d, n = prod n_i cells in all. The marginal of a set S of attributes
has m_S = prod_{i in S} n_i queries, here multiplied by a weight c_S > 0; each sums the cells that
agree on S. Permuting the values of an attribute permutes cells and queries, so that the best
weights w are uniform, and u is one number u_S for each marginal. A^T diag(u) A then acts on the
residual space V_T (`subsets`) as a number, and gamma_(p) is the maximum of

    f(u) = sum_T d_T a_T^(1/2),    a_T = sum_{S >= T} c_S^2 u_S / m_S,

over u >= 0 with (sum_S m_S u_S^q)^(1/q) <= 1, q = p/(p - 2); S >= T stands for inclusion.
A strategy with the Gram matrix n sum_T (s_T / d_T) P_T, P_T the projector on V_T, gives every cell
the same column norm and all queries of a marginal the same variance:

    norm^2 = sum_T s_T,    v_S = c_S^2 / m_S^2 sum_{T <= S} d_T^2 / s_T,

and gamma_(p) is at most (sum_S m_S v_S^(p/2))^(1/p) times the norm. The best s_T is proportional to
d_T a_T^(1/2). The bounds are those of `certificate.marginals`.

References:
    Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions (ResidualPlanner), NeurIPS 2023: the residual basis, p = 2 and p = inf.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Sequence

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.marginals import lower_bound, upper_bound
from pmldesign_solvers.norm.bounds_loop import CLOSER, BoundsLoop, final_status
from pmldesign_solvers.norm.marginals_newton import Newton
from pmldesign_solvers.norm.marginals_pairs import PairsProblem, tells
from pmldesign_solvers.norm.solution import MarginalsSolution, SolverOptions, Status
from pmldesign_solvers.operators.differences import ONLY_THE_KNOWN, ONLY_THE_TOTAL, Relation
from pmldesign_solvers.operators.operator import Array, dual_norm
from pmldesign_solvers.structure.subsets import check_range, residual_spaces


def solve_marginals(
    sizes: Sequence[int],
    subsets: Sequence[Sequence[int]],
    weights: Array,
    p: float,
    *,
    relation: Relation = "add-remove",
    known: Sequence[Collection[int]] = ((),),
    options: SolverOptions | None = None,
) -> MarginalsSolution:
    """Compute gamma_(p) of a collection of marginals with a certificate.

    Args:
        sizes: number of values of each attribute, at least 1.
        subsets: the attributes (from 0, increasing) of each marginal; () is the total.
        weights: c_S > 0, shape (K,).
        p: in [2, inf].
        relation: of neighbours, "add-remove" or "replace".
        known: under replace the attributes of each table that is public, none within another one;
            if only the total is public, the empty set of attributes.
        options: when to stop; for pairs both problems take their turn in a step.

    Returns:
        The solution; for pairs without the residuals that are public, of l2 sensitivity 1 under
        replace. Its status is STRUCTURED where the sets U are too many to be listed and the
        bounds differ.

    Raises:
        ValueError: p outside [2, inf]; too many subsets (`subsets`); a marginal with more
            than LARGEST_MARGINAL cells; weights c_S / m_S that differ by over LARGEST_SPREAD;
            only public queries, under replace.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    options = options or SolverOptions()
    if relation == "add-remove":
        return _solve_cells(sizes, subsets, weights, p, options)
    return _solve_pairs(sizes, subsets, weights, p, [*map(frozenset, known)], options)


def _solve_cells(
    sizes: Sequence[int],
    subsets: Sequence[Sequence[int]],
    weights: Array,
    p: float,
    options: SolverOptions,
) -> MarginalsSolution:
    start = time.perf_counter()
    spaces = residual_spaces(sizes, subsets)
    check_range(spaces, weights)
    scale = float((weights / spaces.cells).max())
    points = Newton(spaces, weights / scale, p, options.rel_gap).points()
    search = BoundsLoop(points, options, start)
    status = search.run(CLOSER)
    u = search.lower.u / dual_norm(search.lower.u, p, spaces.cells)
    terms = spaces.dimensions * np.sqrt(search.upper.eigenvalues)
    precisions = terms / terms.sum()
    certificate = Certificate(
        lower_bound(spaces, weights, u, p), upper_bound(spaces, weights, precisions, p)
    )
    return MarginalsSolution(
        dual_u=u,
        dual_w=np.ones(1),
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
        steps=search.steps,
        seconds=time.perf_counter() - start,
        residuals=spaces.residuals,
        precisions=precisions,
    )


def _solve_pairs(
    sizes: Sequence[int],
    subsets: Sequence[Sequence[int]],
    weights: Array,
    p: float,
    known: Sequence[frozenset[int]],
    options: SolverOptions,
) -> MarginalsSolution:
    start = time.perf_counter()
    wide = [tuple(i for i in subset if sizes[i] > 1) for subset in subsets]
    kept = np.array([not tells(known, subset) for subset in wide])
    if not kept.any():
        raise ValueError(ONLY_THE_KNOWN if any(known) else ONLY_THE_TOTAL)
    queries = [*itertools.compress(wide, kept)]
    problem = PairsProblem(sizes, queries, weights[kept], p, options.rel_gap, known)
    search = BoundsLoop(problem.points(), options, start)
    status = search.run(CLOSER)
    if not problem.sets.listed and status is Status.STALLED:
        status = Status.STRUCTURED
    u = np.zeros(len(kept))
    u[kept] = search.lower.u
    certificate = Certificate(search.lower.lower, search.upper.upper)
    return MarginalsSolution(
        dual_u=u / dual_norm(search.lower.u, p, problem.spaces.cells),
        dual_w=search.lower.rho,
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
        steps=search.steps,
        seconds=time.perf_counter() - start,
        residuals=problem.spaces.only(problem.measured).residuals,
        precisions=search.upper.precisions[problem.measured],
    )
