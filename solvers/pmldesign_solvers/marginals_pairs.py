r"""gamma_(p) of a collection of marginals where neighbours differ in two cells.

The letters are those of `marginals`. The total is public, so the residual of the empty set counts
for nothing: sums over T leave it out. Permuting the values of an attribute changes neither the
workload nor the pairs, so that the best weight of a pair depends on the set U of attributes in
which its cells differ alone. With rho_U, sum 1, for all pairs of U together, their Laplacian is
(2/n) b_T on V_T, b_T = sum_U rho_U (1 - prod_{i in T and U} -1/(n_i - 1)), and gamma_(p) is the
maximum of

    f(u, rho) = sum_T d_T (2 a_T b_T)^(1/2).

A strategy sum_T n theta_T P_T has the variances v_S of `marginals` and the squared distances

    D_U = 2 sum_T theta_T (d_T - prod_{i in T} (-1 if i in U, else n_i - 1)),

and gamma_(p) is at most (sum_S m_S v_S^(p/2) max_U D_U)^(1/2) with the p-norm of v; the best theta
is proportional to (a/b)^(1/2). For given rho, u is found as for add-remove neighbours, with
d_T (2 b_T)^(1/2) in place of d_T; for given u, rho is found by `pair_weights`. f is concave, and
they take turns. Exchangeable attributes leave few types of sets U (`differing_sets`); if they are
more than MAX_TYPES, only two kinds of weights are tried, and D_U is bounded for all U at once by
2 sum_T theta_T d_T (1 + max_{i in T} 1/(n_i - 1)).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.certificate import EPS, Certificate, dual_norm, power_mean
from pmldesign_solvers.differing_sets import differing_sets
from pmldesign_solvers.marginals import MarginalsSolution, check_range
from pmldesign_solvers.marginals_newton import Newton
from pmldesign_solvers.operators import Array, Indices
from pmldesign_solvers.pair_weights import best_weights
from pmldesign_solvers.residual_spaces import ResidualSpaces, residual_spaces
from pmldesign_solvers.search import Search, final_status
from pmldesign_solvers.solution import Bounds, Callback, Status

MOST_STEPS = 200
"""Of Newton's method for u at given rho."""
INNER = 0.1
"""Part of the gap that is asked of u for given rho, and of rho for given u."""
CANCELLED = 1e-13
"""More than the rounding of b_T, whose terms are at most 2."""


@dataclass(frozen=True, slots=True, eq=False)
class PairsPoint(Bounds):
    """Both bounds at one u and rho.

    Attributes:
        u: shape (K,).
        b: shape (R,), zero for the total.
        precisions: theta, shape (R,), that of the total being 0; the largest D_U is 1.
    """

    u: Array
    b: Array
    precisions: Array


def solve_marginal_pairs(
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
    """Compute gamma_(p) of a collection of marginals under replace with a certificate.

    Args:
        sizes: number of values of each attribute, at least 1.
        subsets: the attributes (from 0, increasing) of each marginal; () is the total.
        weights: c_S > 0, shape (K,).
        p: in [2, inf].
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps, in each of which both problems take their turn.
        time_limit: in seconds; None for none. A step is never cut short.
        callback: called after every step. Ctrl-C during the search returns the best so far.

    Returns:
        The solution, without the residual of the total, for the l2 sensitivity 1 under replace.
        Its status is STRUCTURED where the sets U are too many to be listed and the bounds differ.

    Raises:
        ValueError: as `solve_marginals`; or nothing but the total is asked for.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    start = time.perf_counter()
    wide = [tuple(i for i in subset if sizes[i] > 1) for subset in subsets]
    kept = np.array([bool(subset) for subset in wide])
    if not kept.any():
        raise ValueError(
            "it asks for nothing but the total, which is public under replace; take add-remove"
            " neighbours to protect the total"
        )
    problem = _Problem(sizes, [subset for subset in wide if subset], weights[kept], p, rel_gap)
    search = Search(problem.points(), callback, start)
    status = search.run(0.9 * rel_gap, max_steps, time_limit)
    if not problem.sets.listed and status is Status.STALLED:
        status = Status.STRUCTURED
    u = np.zeros(len(kept))
    u[kept] = search.lower.u
    certificate = Certificate(search.lower.lower, search.upper.upper)
    return MarginalsSolution(
        residuals=problem.spaces.residuals[1:],
        precisions=search.upper.precisions[1:],
        dual_u=u / dual_norm(search.lower.u, p, problem.spaces.cells),
        dual_w=search.lower.b[1:],
        certificate=certificate,
        status=final_status(status, certificate, rel_gap),
        steps=search.steps,
        seconds=time.perf_counter() - start,
    )


class _Problem:
    """The two problems that take turns, and both bounds."""

    def __init__(
        self,
        sizes: Sequence[int],
        subsets: Sequence[tuple[int, ...]],
        weights: Array,
        p: float,
        rel_gap: float,
    ) -> None:
        self.spaces = residual_spaces(sizes, subsets)
        check_range(self.spaces, weights)
        self._p, self._rel_gap = p, rel_gap
        self._scale = float((weights / self.spaces.cells).max())
        self._weights = weights / self._scale
        values: dict[tuple[int, ...], float] = {}
        for subset, weight in zip(subsets, self._weights.tolist(), strict=True):
            values[subset] = values.get(subset, 0.0) + weight
        self.sets = differing_sets(sizes, values)
        self._types, type_of = np.unique(
            self.sets.types_of(self.spaces.residuals), axis=0, return_inverse=True
        )
        self._type_of: Indices = type_of.ravel()
        cells = math.prod(sizes[i] for members in self.sets.classes for i in members)
        self._uniform = np.append(0.0, np.full(len(self._types) - 1, cells / (cells - 1)))

    def points(self) -> Iterator[PairsPoint]:
        """Better and better points; without end for p > 2."""
        everything = np.array([[len(members) for members in self.sets.classes]])
        columns = np.vstack([self._uniform, self._columns(everything)])
        rho = np.array([0.5, 0.5])
        u = np.ones_like(self.spaces.cells)
        while True:
            if self._p > 2:
                u = self._best_u(u, columns.T @ rho)
            columns, rho = self._best_rho(u, columns, rho)
            yield self._evaluate(u, columns, rho)
            if self._p == 2:
                return

    def _columns(self, differing: Indices) -> Array:
        """C for some types of U, shape (U types, T types)."""
        return np.asarray(1 - self.sets.means(self._types, differing))

    def _eigenvalues(self, u: Array) -> Array:
        """a_T, shape (R,)."""
        return np.asarray(
            self.spaces.incidence @ (self._weights**2 / self.spaces.cells * u), dtype=np.float64
        )

    def _best_u(self, u: Array, b: Array) -> Array:
        """The best u for the b of each type."""
        size = self.spaces.dimensions * np.sqrt(2 * b[self._type_of])
        spaces: ResidualSpaces = replace(self.spaces, dimensions=size)
        goal = INNER * self._rel_gap
        upper, best = np.inf, None
        for step, point in enumerate(Newton(spaces, self._weights, self._p, goal).points(u)):
            upper = min(upper, point.upper)
            if best is None or point.lower > best.lower:
                best = point
            if upper <= best.lower * (1 + goal) or step >= MOST_STEPS:
                return best.u
        raise AssertionError("the points have no end")

    def _best_rho(self, u: Array, columns: Array, rho: Array) -> tuple[Array, Array]:
        """The best rho for u, with the columns of C that it needs."""
        each = self.spaces.dimensions * np.sqrt(2 * self._eigenvalues(u))
        sizes, numbers = (
            np.bincount(self._type_of, weights=values)[1:].astype(np.float64)
            for values in (each, self.spaces.dimensions)
        )

        def farthest(b: Array) -> Array | None:
            if not self.sets.listed:
                return None
            precisions = np.append(0.0, sizes / (numbers * np.sqrt(b)))
            inner = self.sets.sums(self._types, precisions)
            differing = np.array([np.unravel_index(np.argmin(inner), inner.shape)])
            return np.asarray(self._columns(differing)[0, 1:])

        goal = INNER * self._rel_gap
        found, rho = best_weights(columns[:, 1:], sizes, rho, farthest, goal)
        return np.insert(found, 0, 0.0, axis=1), rho

    def _evaluate(self, u: Array, columns: Array, rho: Array) -> PairsPoint:
        """Both bounds, rounded outwards."""
        spaces = self.spaces
        d = spaces.dimensions[1:]
        b = (columns.T @ (rho / rho.sum()))[self._type_of][1:]
        a = self._eigenvalues(u)[1:]
        low = np.maximum(b - CANCELLED, 0.0)
        lower = float(d @ np.sqrt(2 * a * low)) / math.sqrt(dual_norm(u, self._p, spaces.cells))
        precisions = np.append(0.0, np.sqrt(a / b))
        precisions /= self._largest(precisions)
        ratio = (self._weights / spaces.cells) ** 2
        variances = ratio * (spaces.incidence[1:].T @ (d / precisions[1:]))
        squares = power_mean(variances, self._p / 2, spaces.cells) * self._largest(precisions)
        # at most R + K terms in a sum, some dozens of products and powers in a term
        rounding = (sum(spaces.incidence.shape) + 200) * EPS
        return PairsPoint(
            lower=self._scale * lower * (1 - rounding),
            upper=self._scale * math.sqrt(squares) * (1 + rounding),
            u=u,
            b=np.append(0.0, b),
            precisions=precisions,
        )

    def _largest(self, precisions: Array) -> float:
        """max_U D_U, rounded up."""
        return self.sets.largest_distance(
            self._types, self._type_of, precisions, self.spaces.dimensions
        )
