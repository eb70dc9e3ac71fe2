"""Both bounds on the norm of running sums, only from weights and nodes.

**Lower bound.** For any u, w > 0 the dual is f(u, w) = tr T^(-1/2) / (norm(u)_q sum w)^(1/2), and
tr T^(-1/2) >= tr r(T) / (1 + e) wherever r(x) x^(1/2) <= 1 + e for all x > 0 (`Nodes.excess`).

**Upper bound.** X = W^(-1/2) r(T) W^(-1/2) is positive definite: the strategy with X = C^T C has

    sensitivity^2  max_i r(T)_ii / w_i,
    variances      diag(A X^-1 A^T) = U^-1 diag(g(B^T B)),    g(x) = 1 / (x r(x)),

and their sum is tr g(T) where U = 1. g is a function of the same form (`Nodes.reciprocal`), to a
relative error which `Nodes.shortfall` bounds. No interval that contains the spectrum is needed.

Where the columns are level the two meet to second order: with r(x) x^(1/2) = 1 + eta(x),

    tr r(T) tr g(T) = s^2 (1 + Var(eta) + ...),    s = tr T^(-1/2), eta weighted by T^(-1/2).

Every diagonal is a sum of positive numbers with a relative rounding that `relative_rounding`
bounds.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.operators.operator import EPS, Array, dual_norm, power_mean
from pmldesign_solvers.streams.chain import DualProblem
from pmldesign_solvers.streams.nodes import Nodes

LAST_SUMS = 128
"""Roundings of norms, powers and last sums, in units of eps: pairwise sums and pow."""


def lower_bound(problem: DualProblem, u: Array, w: Array, p: float, nodes: Nodes) -> float:
    """Certified lower bound on the norm from any positive weights and nodes.

    Args:
        problem: the workload.
        u: shape (m,), positive; scaled here to norm(u)_q = 1. Not used without them.
        w: shape (n,), positive; scaled here to sum 1.
        p: in [2, inf].
        nodes: K nodes without constant or origin.
    """
    total = problem.trace(u, w, nodes)
    scale = math.sqrt((dual_norm(u, p) if problem.queries else 1.0) * math.fsum(w))
    rounding = problem.rounding(nodes) + LAST_SUMS * EPS
    return total / scale / (1.0 + nodes.excess()) * (1.0 - rounding)


def variances(problem: DualProblem, u: Array, w: Array, nodes: Nodes) -> Array:
    """diag(A X^-1 A^T), shape (m,), to `variance_rounding`; where queries have weights."""
    return np.asarray(problem.spread(u, w, nodes.reciprocal()) / u)


def variance_norm(
    problem: DualProblem, u: Array, w: Array, p: float, nodes: Nodes
) -> tuple[float, float]:
    """norm(diag(A X^-1 A^T))_(p/2), and by how much it may be too small, relatively."""
    reciprocal = nodes.reciprocal()
    spread = problem.spread(u, w, reciprocal)
    plain = not problem.queries or (p == 2 and (u == 1.0).all())
    value = math.fsum(spread) if plain else power_mean(spread / u, p / 2)
    rounding = problem.rounding(reciprocal) + (LAST_SUMS + 4 * problem.cells) * EPS
    return value, rounding + nodes.shortfall(reciprocal)


def longest_column(problem: DualProblem, u: Array, w: Array, nodes: Nodes) -> tuple[float, float]:
    """Max diag(X), and by how much it may be too small, relatively."""
    longest = float((problem.measured(u, w, nodes) / w).max())
    return longest, problem.rounding(nodes) + 4 * EPS


def upper_bound(problem: DualProblem, u: Array, w: Array, p: float, nodes: Nodes) -> float:
    """Certified upper bound on the norm: the value of the strategy of weights and nodes."""
    value, off = variance_norm(problem, u, w, p, nodes)
    longest, rounding = longest_column(problem, u, w, nodes)
    return math.sqrt(value * longest) * (1.0 + off + rounding + LAST_SUMS * EPS)


def certify(
    problem: DualProblem,
    dual: tuple[Array, Array],
    strategy: tuple[Array, Array],
    p: float,
    *,
    fine: Nodes,
    nodes: Nodes,
) -> Certificate:
    """Both bounds: of the dual weights by fine nodes, and of the strategy of some nodes."""
    return Certificate(
        lower=lower_bound(problem, *dual, p, fine),
        upper=upper_bound(problem, *strategy, p, nodes),
    )
