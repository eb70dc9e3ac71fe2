r"""Lower bounds from weights of cells that are products over the attributes.

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
e = delta / min s^2 over the s > 0 that are kept, and what they become differs from N_k by at most
e N_k. Coefficients that are alike (`batches`) are off by ALIKE. So the bound is lowered by
sum_T c_T^(1/2) prod_T tr N_k times the sum of the e_k, and divided by the norms of the turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pmldesign_solvers.certificate.cells import sum_of_roots
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.batches import COEFFICIENT_ERROR
from pmldesign_solvers.tables.lower.frames import LEAST_SQUARABLE, Frame, Root, frame, root_of
from pmldesign_solvers.tables.problem import Factors, Tables
from pmldesign_solvers.tables.sectors import Space


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
        problem: what is asked.
        dims: d_i.
        ask: called before every space; raises an error where the bound is to be given up.
        directions: what is kept of some attributes beside r, d_i - 1 columns.
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
        """A sum of roots of so many eigenvalues, less what rounding may have added."""
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
