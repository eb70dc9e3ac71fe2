r"""Lower bounds for tables under replace, from weights of pairs of cells that are products.

Weights rho >= 0 of pairs of different cells, sum m over ordered pairs, and their Laplacian give

    gamma_(p) >= (2/m)^(1/2) norm(U^(1/2) A (diag(rho 1) - rho)^(1/2))_*.

Let rho be a product of rho_i = W^(1/2) C_i W^(1/2) >= 0 of each attribute with C_i r = r, r and W
as in `dual_weights`. Pairs of equal cells do not count: m = 1 - prod tr rho_i. The Laplacian is
W^(1/2) (1 - (x) C_i) W^(1/2), so that the total r is free. With

    plain     C_i = r r^T - theta/(n - 1) (1 - r r^T),     theta in [0, 1],
    ordered   C_i = r r^T - lambda y y^T,

y constant times r on the lower half of the cells and on the upper one, orthogonal to r, pairs that
agree in an attribute or a half count less, or not at all. lambda is at most the ratio of the
halves, for rho_i >= 0. In a frame that begins with r, y the C_i are diagonal, and 0 on spectators:
the matrices K_{Q,Sp} of `sectors` are those of `dual_weights` if Sp is not empty, and become
D^(1/2) K_Q D^(1/2) if it is, D = 1 - prod_{i in Q} (-theta/(n_i - 1)) prod c_i, c_i = 1, -lambda,
0, ... for the kept directions of the ordered attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.lower.dual_weights import DualPoint, SectorBound, roots
from pmldesign_solvers.tables.lower.frames import frame
from pmldesign_solvers.tables.problem import Attributes, Tables
from pmldesign_solvers.tables.sectors import Space

DIRECTIONS = 4
"""Kept beside r for the certified bound, if the work allows; 2 lose 5e-3, 6 gain 6e-5."""
WORK = 4e9
"""Most cubes of sizes of one evaluation, about a second."""
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of lambda and of theta that are tried; half as many lose 2e-3 on tables of four attributes."""
BELOW = 1 - 1e-9
"""Part of the largest lambda: rho stays above 0 whatever the rounding."""


def lower_bound(problem: Tables, cells: Mapping[int, Array]) -> float:
    """Certified lower bound on gamma_(p) under replace.

    Args:
        problem: what is asked, with the weights of its queries.
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
        root = math.sqrt(2.0)  # of the largest D, by which rounding grows
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
