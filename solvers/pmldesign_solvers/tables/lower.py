"""Lower bounds from weights of cells that are products over the attributes.

For weights w_i of the cells of attribute i, sum 1, uniform for plain ones, gamma_(2) is at least
the nuclear norm of the tables times (x) W_i^(1/2). The rows of each factor are turned so that
A_k W^(1/2) becomes N_k = (W^(1/2) G_k W^(1/2))^(1/2), and the sum over attribute i becomes r_i^T,
r_i = w_i^(1/2). Cutting a matrix into blocks by orthogonal projectors on both sides does not raise
the nuclear norm. With an orthonormal frame L_i (first column r_i) of d_i columns,

    gamma >= sum_{Q,Sp} tr K_{Q,Sp}^(1/2),  H_k = (L^T N_k L)^2,  rho_k = (tr N_k - tr L^T N_k L)^2,

K as in `sectors`, since norm(stack (M_T x B_T))_* >= norm(stack (tr M_T) B_T)_* for M_T >= 0. With
d_i = 1 this is the closed form of `problem` at h_k = (tr N_k - nu_k)^2, t_k = nu_k^2, nu = r^T N r.

Any w gives a bound; those of the fixed point of the strategy (`free_vector`) lose 1e-5 to 1.4e-4.

Rounding. N_k is V S V^T for the computed eigenvectors V and values s^2 of W^(1/2) G_k W^(1/2),
which are off by delta. Rows are turned by A_k W^(1/2) V S^-1 V^T, of norm at most (1 + e)^(1/2),
e = delta / min s^2 over the s > 0 that are kept, and the result differs from N_k by at most
e N_k. Coefficients that are alike (`sectors`) are off by ALIKE. So the bound is lowered by
sum_T c_T^(1/2) prod_T tr N_k times the sum of the e_k, and divided by the norms of the turns.

Replace. Weights rho >= 0 of pairs of different cells, sum m over ordered pairs, and their Laplacian
give

    gamma_(p) >= (2/m)^(1/2) norm(U^(1/2) A (diag(rho 1) - rho)^(1/2))_*.

Let rho be a product of rho_i = W^(1/2) C_i W^(1/2) >= 0 of each attribute with C_i r = r, r and W
as above. Pairs of equal cells do not count: m = 1 - prod tr rho_i. The Laplacian is
W^(1/2) (1 - (x) C_i) W^(1/2), so that the total r is free. With

    plain     C_i = r r^T - theta/(n - 1) (1 - r r^T),     theta in [0, 1],
    ordered   C_i = r r^T - lambda y y^T,

y constant times r on the lower half of the cells and on the upper one, orthogonal to r, pairs that
agree in an attribute or a half count less, or not at all. lambda is at most the ratio of the
halves, for rho_i >= 0. In a frame that begins with r, y the C_i are diagonal, and 0 on spectators:
the matrices K_{Q,Sp} of `sectors` are those from above if Sp is not empty, and become
D^(1/2) K_Q D^(1/2) if it is, D = 1 - prod_{i in Q} (-theta/(n_i - 1)) prod c_i, c_i = 1, -lambda,
0, ... for the kept directions of the ordered attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array, sum_of_roots
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.frames import LEAST_SQUARABLE, Frame, Root, frame, root_of
from pmldesign_solvers.tables.problem import Attributes, Factors, Tables
from pmldesign_solvers.tables.sectors import COEFFICIENT_ERROR, Space


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """Weights of the cells of every ordered attribute: a point of the dual problem.

    Attributes:
        r: w^(1/2) of each ordered attribute, of norm at most 1.
        roots: N_k of its factors.
    """

    r: dict[int, Array]
    roots: dict[int, list[Root]]

    @classmethod
    def of(cls, problem: Tables, cells: dict[int, Array]) -> DualPoint:
        """The point of these weights, with a decomposition for each factor."""
        r = {i: _unit(w) for i, w in cells.items()}
        roots = {
            i: [root_of(np.asarray(problem.grams[k]), r[i]) for k in problem.factors[i]] for i in r
        }
        return cls(r, roots)


class SectorBound:
    """The lower bound for some numbers d_i of kept directions.

    Args:
        problem: the workload.
        dims: d_i.
        ask: called before every space; raises an error to give up the bound.
        directions: kept for some attributes in addition to r, d_i - 1 columns.
    """

    def __init__(
        self,
        problem: Tables,
        dims: Mapping[int, int],
        ask: Callable[[], None] = lambda: None,
        directions: Mapping[int, Array] = MappingProxyType({}),
    ) -> None:
        self.problem, self.dims, self._ask = problem, dims, ask
        self._directions = directions
        h, t = problem.plain_numbers()
        self._spaces = sectors.spaces(problem, dims)
        self._plain = np.sqrt(h) + np.sqrt(t)  # tr N_k of plain factors

    @property
    def largest(self) -> int:
        """The size of the largest matrix."""
        return max(space.size for space in self._spaces)

    def frames(self, point: DualPoint) -> dict[int, Frame]:
        """For each ordered attribute the directions that the bound keeps."""
        return {
            i: frame(point.roots[i], r, self.dims[i], self._directions.get(i))
            for i, r in point.r.items()
        }

    def certified(self, point: DualPoint) -> float:
        """The lower bound on the norm that these weights prove, rounded down."""
        frames = self.frames(point)
        total, count = 0.0, 0
        for space, matrices in self.matrices(frames):
            total += roots(space, matrices, space.batch.weights)
            count += matrices.shape[0] * matrices.shape[1]
        return self.lowered(total, count, frames)

    def matrices(self, frames: Mapping[int, Frame]) -> Iterator[tuple[Space, Array]]:
        """K_{Q,Sp} of all spaces, shape (B, size, size)."""
        inner, rest = self._numbers(frames)
        products: dict[Factors, Array] = {}
        for space in self._spaces:
            self._ask()
            yield space, space.assemble(inner, rest, products)

    def lowered(self, total: float, count: int, frames: Mapping[int, Frame]) -> float:
        """A sum of roots of so many eigenvalues, less a bound on the rounding."""
        total *= 1 - COEFFICIENT_ERROR - (count + len(self.problem.tables) + 100) * EPS
        problem, traces, off = self.problem, self._plain.copy(), np.zeros(len(self._plain))
        for i, kept in frames.items():
            for k, root in zip(problem.factors[i], kept.roots, strict=True):
                traces[k], off[k] = float(root.values.sum()), root.off
        traces, off = np.append(traces, 1.0), np.append(off, 0.0)
        tables = problem.padded_tables
        terms = np.sqrt(problem.weights) * traces[tables].prod(axis=1) * off[tables].sum(axis=1)
        turns = math.pow(1 + float(off.max()), tables.shape[1] / 2)
        return max(0.0, float(total - 2 * terms.sum()) / turns)

    def _numbers(self, frames: Mapping[int, Frame]) -> tuple[list[Array], Array]:
        matrices = [np.ones((1, 1))] * len(self.problem.grams)
        rest = np.full(len(matrices), LEAST_SQUARABLE)
        for i, kept in frames.items():
            for k, inner, left in zip(self.problem.factors[i], kept.inner, kept.rest, strict=True):
                matrices[k], rest[k] = inner @ inner, max(left**2, LEAST_SQUARABLE)
        return matrices, rest


def roots(space: Space, matrices: Array, weights: Array) -> float:
    """Sum of weights times tr M^(1/2), rounded down, of matrices made from those of a space."""
    rounding = (8 + 8 * len(space.entries)) * EPS
    traces = np.trace(matrices, axis1=1, axis2=2).tolist()
    every = zip(weights.tolist(), np.linalg.eigvalsh(matrices), traces, strict=True)
    return math.fsum(w * sum_of_roots(values, trace, rounding) for w, values, trace in every)


def _unit(w: Array) -> Array:
    """W^(1/2) of norm at most 1."""
    root = np.sqrt(w)
    return np.asarray(root / (np.linalg.norm(root) * (1 + (len(w) + 8) * EPS)))


DIRECTIONS = 4
"""Kept in addition to r for the certified bound, if the work allows; 2 lose 5e-3, 6 gain 6e-5."""
WORK = 4e9
"""Most cubes of sizes of one evaluation, about a second."""
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of lambda and of theta that are tried; half as many lose 2e-3 on tables of four attributes."""
BELOW = 1 - 1e-9
"""Part of the largest lambda: rho stays above 0 whatever the rounding."""


def lower_bound(problem: Tables, cells: Mapping[int, Array]) -> float:
    """Certified lower bound on gamma_(p) under replace.

    Args:
        problem: the workload, with the weights of its queries.
        cells: w of each ordered attribute.
    """
    point = DualPoint.of(problem, dict(cells))
    few = PairBound(problem, point, 1)
    share, theta = max(itertools.product(SHARES, SHARES), key=lambda x: few.certified(*x))
    return PairBound(problem, point, DIRECTIONS).certified(share, theta)


@dataclass(frozen=True, slots=True)
class _Halves:
    """The two halves of an attribute.

    Attributes:
        y: constant times r on either half, norm 1.
        largest: the largest lambda.
        equal: sum of w y^2: tr rho_i is lower by lambda times it.
    """

    y: Array
    largest: float
    equal: float

    @classmethod
    def of(cls, r: Array) -> _Halves:
        """Halves as even as the cells allow."""
        w = r**2 / (r @ r)
        sums = np.cumsum(w)[:-1]
        last = int(np.abs(sums - 0.5).argmin())
        share = min(max(float(sums[last]), EPS), 1 - EPS)
        ratio = math.sqrt((1 - share) / share)
        y = np.sqrt(w) * np.where(np.arange(len(w)) <= last, ratio, -1 / ratio)
        return cls(y, BELOW * min(ratio, 1 / ratio) ** 2, float(w @ y**2))


class PairBound:
    """The lower bound for some number of kept directions, as a function of lambda and theta."""

    def __init__(self, problem: Tables, point: DualPoint, directions: int) -> None:
        kept = sectors.affordable(problem, directions, WORK)
        self._problem = problem
        self._bound = SectorBound(problem, {i: count + 1 for i, count in kept.items()})
        self._halves = {i: _Halves.of(r) for i, r in point.r.items() if kept[i]}
        self._equal = {i: float(r**2 @ r**2) for i, r in point.r.items()}
        self._frames = self._bound.frames(point)
        for i, halves in self._halves.items():
            others = self._frames[i].columns[:, 1 : kept[i]]
            directions_of = np.column_stack([halves.y, others])
            self._frames[i] = frame(point.roots[i], point.r[i], kept[i] + 1, directions_of)
        self._others, self._count = 0.0, 0
        self._pairs: list[tuple[Space, Array]] = []
        for space, matrices in self._bound.matrices(self._frames):
            self._count += matrices.shape[0] * matrices.shape[1]
            if space.spectators:
                self._others += roots(space, matrices, space.batch.weights)
            else:
                self._pairs.append((space, matrices))

    def certified(self, share: float, theta: float) -> float:
        """The bound for lambda at this share of the largest, rounded down."""
        second = {i: -share * halves.largest for i, halves in self._halves.items()}
        contrasts = {
            i: -theta / (self._problem.sizes[i] - 1)
            for i in self._problem.factors
            if i not in self._equal and self._problem.sizes[i] > 1
        }
        equal = math.prod((1 - theta) / self._problem.sizes[i] for i in contrasts)
        for i, square in self._equal.items():
            equal *= square + (second[i] * self._halves[i].equal if i in second else 0.0)
        total, count = self._others, self._count
        for space, matrices in self._pairs:
            signs = self._signs(space, second)
            for matrix, weight, members in zip(
                matrices, space.batch.weights.tolist(), space.batch.members, strict=True
            ):
                for sign, part in _alike(members, contrasts).items():
                    free = np.sqrt(np.maximum(1 - sign * signs - 8 * signs.ndim * EPS, 0.0))
                    turned = free[:, None] * matrix * free
                    total += roots(space, turned[None], np.array([weight * part]))
                    count += len(matrix)
        if equal >= 1:
            return 0.0  # a single cell
        root = math.sqrt(2.0)  # the largest entry of D, to which rounding is relative
        value = root * self._bound.lowered(total / root, count, self._frames)
        return value * math.sqrt(2 / (1 - equal)) * (1 - 1e-12)

    def _signs(self, space: Space, second: Mapping[int, float]) -> Array:
        """Products of c_i over the directions of a space."""
        parts = []
        for members in space.offsets:
            product = np.ones(1)
            for i in members:
                c = np.zeros(self._bound.dims[i] - 1)
                c[:1] = second.get(i, 0.0)
                product = np.multiply.outer(product, c).ravel()
            parts.append(product)
        return np.concatenate(parts)


def _alike(
    members: Mapping[Attributes, float], contrasts: Mapping[int, float]
) -> dict[float, float]:
    """For each product over Q the shares of these sets."""
    shares: dict[float, float] = {}
    for plain, share in members.items():
        sign = math.prod(contrasts.get(i, 1.0) for i in plain)
        shares[sign] = shares.get(sign, 0.0) + share
    return shares
