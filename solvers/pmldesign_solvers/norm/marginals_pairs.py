"""gamma_(p) of a collection of marginals where neighbours differ in two cells.

The letters are those of `marginals`. The total is public, so the residual of the empty set counts
for nothing: sums over T leave it out. If the table by a set C of attributes is public too, cells of
a pair agree on C, and the T within C count for nothing: below, U has attributes O outside C alone,
and T stands in all products for its part in O, d_T = d_{T in O} d_{T in C}. Where several
tables are public, cells of a pair may be any, O is all attributes, and the T within one of the
tables count for nothing. Permuting the
values of an attribute changes neither the workload nor the pairs, so that the best weight of a pair
depends on the set U of attributes in which its cells differ alone. With rho_U, sum 1, for all pairs
of U together, their Laplacian is (2/n) b_T on V_T, b_T = sum_U rho_U (1 - prod_{i in T and U}
-1/(n_i - 1)), and gamma_(p) is the maximum of

    f(u, rho) = sum_T d_T (2 a_T b_T)^(1/2).

A strategy sum_T n (s_T / d_T) P_T has the variances v_S of `marginals` and the squared distances

    D_U = 2 sum_T s_T (1 - prod_{i in T and U} -1/(n_i - 1)),

and gamma_(p) is at most (sum_S m_S v_S^(p/2) max_U D_U)^(1/2) with the p-norm of v; the best s_T
is proportional to d_T (a/b)^(1/2). For given rho, u is found as for add-remove neighbours, with
d_T (2 b_T)^(1/2) instead of d_T; for given u, rho is found as below. f is concave, and
they take turns. Exchangeable attributes leave few types of sets U (`cell_pairs`); if they are
more than MAX_TYPES, only two kinds of weights are tried, and D_U is bounded for all U at once by
2 sum_T s_T (1 + max_{i in T} 1/(n_i - 1)).

The best rho. With D_T = d_T (2 a_T)^(1/2) for given a, the dual function is
concave in the weights x of some sets U,

    F(x) = sum_T D_T b_T^(1/2),     b = C^T x,     C_UT = 1 - prod_{i in T, U} -1/(n_i - 1),

and its maximum over sum(x) = 1 has the direction of that of 2 F(x) - sum(x). There the derivatives
g_U = sum_T D_T C_UT b_T^(-1/2) are at most 1. With a barrier mu sum log x_U they are 1 - mu / x_U,
below 1; Newton's method follows the path as mu falls. Only a few of the sets have a weight: they
are found one after the other, as those whose g_U, a squared distance of two cells, is the largest
for the weights of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.certificate.marginals import lower_bound, upper_bound
from pmldesign_solvers.norm.bounds_loop import best_lower
from pmldesign_solvers.norm.marginals_newton import Newton
from pmldesign_solvers.norm.solution import Bounds
from pmldesign_solvers.operators.deadline import NEVER
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.structure.cell_pairs import OpenParts, differing_sets
from pmldesign_solvers.structure.subsets import ResidualSpaces, check_range, residual_spaces

NEWTON_STEPS = 60
"""For one mu, at most. Chosen, not measured."""
FALL = 0.1
"""By which mu falls from one problem to the next. Chosen, not measured."""
CLOSE, SHORTEST = 1e-4, 1e-8
"""Newton's method ends at a gain of this part of the barrier, or at a step as short as this."""
ROUNDS = 200
"""Most sets that are added. Chosen, not measured."""


def best_weights(
    columns: Array,
    sizes: Array,
    start: Array,
    farthest: Callable[[Array], Array | None],
    tolerance: float,
) -> tuple[Array, Array]:
    """Weights of sets, all with g_U <= 1 + tolerance.

    Args:
        columns: C for the sets to begin with, shape (sets, T); every T has a positive entry.
        sizes: D_T, shape (T,).
        start: positive, shape (sets,).
        farthest: b -> the C_U of the largest g_U of all; None if there is nothing to choose from.
        tolerance: relative.

    Returns:
        C of the sets that were needed, shape (sets, T), and their weights of sum 1.
    """
    weights = start
    for _ in range(ROUNDS):
        weights = _path(columns, sizes, weights, tolerance / 4)
        b = columns.T @ weights
        column = farthest(b)
        if column is None:
            break
        slopes = sizes / np.sqrt(b)
        if column @ slopes <= (1 + tolerance) * (weights @ (columns @ slopes)) / weights.sum():
            break
        if (np.abs(columns - column).max(axis=1) <= 1e-14).any():
            break
        columns = np.vstack([columns, column])
        weights = np.append(weights, 1e-3 * weights.sum())
    return columns, np.asarray(weights / weights.sum())


def _path(columns: Array, sizes: Array, weights: Array, tolerance: float) -> Array:
    """The best weights of these sets, with F(x) = sum(x) up to the tolerance."""
    total = float(sizes @ np.sqrt(columns.T @ weights))
    x: Array = weights * (total / weights.sum()) ** 2
    if len(columns) == 1:
        return x
    barrier = FALL * float(x.sum()) / len(x)
    while True:
        x = _centre(columns, sizes, x, barrier)
        if barrier <= tolerance * x.sum() / len(x):
            return x
        barrier *= FALL


def _centre(columns: Array, sizes: Array, x: Array, barrier: float) -> Array:
    """The maximum of 2 F(x) - sum(x) + barrier sum log x."""

    def value(x: Array) -> float:
        return float(2 * sizes @ np.sqrt(columns.T @ x) - x.sum() + barrier * np.log(x).sum())

    for _ in range(NEWTON_STEPS):
        b = columns.T @ x
        slope = columns @ (sizes / np.sqrt(b)) - 1 + barrier / x
        curvature = (columns * (0.5 * sizes * b**-1.5)) @ columns.T + np.diag(barrier / x**2)
        scaled = curvature * np.outer(x, x)
        change = x * np.linalg.solve(scaled, slope * x)
        gain = float(slope @ change)
        if gain <= CLOSE * barrier:
            break
        step = min(1.0, 0.9 / max(float((-change / x).max()), 1e-300))
        here = value(x)
        while step > SHORTEST and value(x + step * change) < here + 0.1 * step * gain:
            step /= 2
        if step <= SHORTEST:  # nothing but rounding is left
            break
        x = x + step * change
    return x


MOST_STEPS = 201
"""Of Newton's method for u at given rho. Chosen, not measured."""
INNER = 0.1
"""Part of the gap that is asked of u for given rho, and of rho for given u: 193 steps, as with 0.01
and one less than with 0.5 (benchmarks/constants.py)."""


def tells(known: Sequence[Collection[int]], attributes: Collection[int]) -> bool:
    """Whether the table by some attributes follows from one that is public."""
    return any(set(attributes).issubset(table) for table in known)


@dataclass(frozen=True, slots=True, eq=False)
class PairsPoint(Bounds):
    """Both bounds at one u and rho.

    Attributes:
        u: shape (K,).
        rho: weights of pairs, shape (1 + types, 1 + attributes): the weight of all pairs alike and
            the number of the class of each attribute, from 1, or 0 where cells of a pair agree or
            which nothing is asked about; below, the weight of each type of U, and in how many
            attributes of the class of each one its cells differ. The weights have the sum 1.
        precisions: s, shape (R,), 0 for public residuals; the largest D_U is 1.
    """

    u: Array
    rho: Array
    precisions: Array


class PairsProblem:
    """The two problems that take turns, and both bounds.

    Attributes:
        spaces: the residual spaces.
        sets: the types of U.
        types: of the U that have a weight, shape (types, classes).
        measured: the numbers of the T that are not public.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        subsets: Sequence[tuple[int, ...]],
        weights: Array,
        p: float,
        rel_gap: float,
        known: Sequence[frozenset[int]] = (frozenset(),),
    ) -> None:
        self.spaces = residual_spaces(sizes, subsets)
        check_range(self.spaces, weights)
        self._p, self._rel_gap = p, rel_gap
        self._given = weights
        self._weights = weights / float((weights / self.spaces.cells).max())
        values: dict[tuple[int, ...], float] = {}
        for subset, weight in zip(subsets, self._weights.tolist(), strict=True):
            values[subset] = values.get(subset, 0.0) + weight
        agreed = known[0] if len(known) == 1 else frozenset()
        told = np.array([tells(known, T) for T in self.spaces.residuals])
        used = frozenset(itertools.chain.from_iterable(subsets))
        marks = {(*sorted(table & used), len(sizes)): 1.0 for table in known}  # as one more
        self.sets = differing_sets([*sizes, 1], values | marks).without(agreed)
        self._open = OpenParts(self.spaces.residuals, agreed)
        self._types, type_of = np.unique(
            self.sets.types_of(self._open.sets), axis=0, return_inverse=True
        )
        self._open_type: Indices = type_of.ravel()
        self._type_of: Indices = self._open_type[self._open.place]
        self.measured = np.flatnonzero(~told)
        self._sizes = np.where(told, 0.0, self.spaces.dimensions)
        cells = math.prod(sizes[i] for members in self.sets.classes for i in members)
        self._uniform = np.append(0.0, np.full(len(self._types) - 1, cells / (cells - 1)))
        self.types = np.array([[len(members) for members in self.sets.classes]])
        self._class_of = np.zeros(len(sizes), dtype=np.int64)
        for number, members in enumerate(self.sets.classes):
            self._class_of[[*members]] = number + 1

    def points(self) -> Iterator[PairsPoint]:
        """Better and better points; without end for p > 2."""
        columns = np.vstack([self._uniform, self._columns(self.types)])
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
        size = self._sizes * np.sqrt(2 * b[self._type_of])
        spaces: ResidualSpaces = replace(self.spaces, dimensions=size)
        goal = INNER * self._rel_gap
        points = Newton(spaces, self._weights, self._p, goal).points(u)
        return best_lower(points, goal, MOST_STEPS, NEVER).u

    def _best_rho(self, u: Array, columns: Array, rho: Array) -> tuple[Array, Array]:
        """The best rho for u, with the columns of C that it needs."""
        each = self._sizes * np.sqrt(2 * self._eigenvalues(u))
        sizes = np.bincount(self._type_of, weights=each)[1:].astype(np.float64)
        tried = [*self.types]

        def farthest(b: Array) -> Array | None:
            if not self.sets.listed:
                return None
            inner = self.sets.sums(self._types, np.append(0.0, sizes / np.sqrt(b)))
            differing = np.array([np.unravel_index(np.argmin(inner), inner.shape)])
            tried.append(differing[0])
            return np.asarray(self._columns(differing)[0, 1:])

        goal = INNER * self._rel_gap
        needed, rho = best_weights(columns[:, 1:], sizes, rho, farthest, goal)
        self.types = np.array(tried[: len(needed) - 1])
        return np.insert(needed, 0, 0.0, axis=1), rho

    def _evaluate(self, u: Array, columns: Array, rho: Array) -> PairsPoint:
        """Both bounds, rounded outwards."""
        spaces, measured = self.spaces.only(self.measured), self.measured
        b = (columns.T @ (rho / rho.sum()))[self._type_of]
        precisions = np.zeros(len(b))
        roots = np.sqrt(self._eigenvalues(u)[measured] / b[measured])
        precisions[measured] = spaces.dimensions * roots
        precisions /= self._largest(precisions)
        return PairsPoint(
            lower=lower_bound(spaces, self._given, u, self._p, b=b[measured]),
            upper=upper_bound(
                spaces,
                self._given,
                precisions[measured],
                self._p,
                squared_sensitivity=self._largest(precisions),
            ),
            u=u,
            rho=self._written(rho / rho.sum()),
            precisions=precisions,
        )

    def _written(self, rho: Array) -> Array:
        """`PairsPoint.rho`."""
        counts = np.insert(self.types, 0, 0, axis=1)[:, self._class_of]
        return np.column_stack([rho, np.vstack([self._class_of, counts])]).astype(np.float64)

    def _largest(self, precisions: Array) -> float:
        """max_U D_U, rounded up."""
        totals = self._open.totals(precisions)
        return self.sets.largest_distance(self._types, self._open_type, totals)
