r"""Lower bounds from weights of cells that are products over the attributes.

For weights w_i of the cells of attribute i, sum 1, uniform for plain ones, gamma_(2) is at least
the nuclear norm of the tables times (x) W_i^(1/2). The rows of each factor are turned so that
A_k W^(1/2) becomes N_k = (W^(1/2) G_k W^(1/2))^(1/2), and the sum over attribute i becomes r_i^T,
r_i = w_i^(1/2). Cutting a matrix into blocks by orthogonal projectors on both sides does not raise
the nuclear norm. With an orthonormal frame L_i (first column r_i) of d_i columns,

    gamma >= sum_{Q,Sp} tr K_{Q,Sp}^(1/2),  H_k = (L^T N_k L)^2,  rho_k = (tr N_k - tr L^T N_k L)^2,

K as in `sectors`, since norm(stack (M_T x B_T))_* >= norm(stack (tr M_T) B_T)_* for M_T >= 0. With
d_i = 1 this is the closed form of `problem` at h_k = (tr N_k - nu_k)^2, t_k = nu_k^2, nu = r^T N r.

Any w gives a bound; the best are found by L-BFGS on log w with exact slopes at a fixed frame.

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

import numpy as np

from pmldesign_solvers.certificate.cells import sum_of_roots
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.batches import ALIKE
from pmldesign_solvers.tables.descent import descend
from pmldesign_solvers.tables.lower.frames import SMALLEST, Frame, Root, frame, root_of, slope_by_r
from pmldesign_solvers.tables.problem import Tables
from pmldesign_solvers.tables.products import Products
from pmldesign_solvers.tables.sectors import Space


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Weights of the cells of every ordered attribute: a point of the dual problem.

    Attributes:
        cells: w of each ordered attribute.
        r: w^(1/2), of norm at most 1.
        roots: N_k of its factors.
    """

    cells: dict[int, Array]
    r: dict[int, Array]
    roots: dict[int, list[Root]]

    @classmethod
    def of(cls, problem: Tables, cells: dict[int, Array]) -> Point:
        """The point of these weights, with a decomposition for each factor."""
        r = {i: _unit(w) for i, w in cells.items()}
        return cls(cells, r, {i: [root_of(g, r[i]) for g in _grams(problem, i)] for i in r})


class SectorBound:
    """The lower bound for some numbers d_i of kept directions."""

    def __init__(self, problem: Tables, dims: Mapping[int, int]) -> None:
        self.problem, self.dims = problem, dims
        h, t = problem.plain_numbers()
        self._spaces = sectors.spaces(problem, dims)
        self._plain = np.sqrt(h) + np.sqrt(t)  # tr N_k of plain factors

    def frames(self, point: Point) -> dict[int, Frame]:
        """For each ordered attribute the directions that the bound keeps."""
        return {i: frame(point.roots[i], r, self.dims[i]) for i, r in point.r.items()}

    def certified(self, point: Point) -> float:
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
        products = Products()
        for space in self._spaces:
            yield space, space.assemble(inner, rest, products)

    def lowered(self, total: float, count: int, frames: Mapping[int, Frame]) -> float:
        """A sum of roots of so many eigenvalues, less what rounding may have added."""
        total *= 1 - ALIKE - (count + len(self.problem.tables) + 100) * EPS
        problem, traces, off = self.problem, self._plain.copy(), np.zeros(len(self._plain))
        for i, kept in frames.items():
            for k, root in zip(problem.factors[i], kept.roots, strict=True):
                traces[k], off[k] = float(root.values.sum()), root.off
        traces, off = np.append(traces, 1.0), np.append(off, 0.0)
        tables = problem.padded_tables
        terms = np.sqrt(problem.weights) * traces[tables].prod(axis=1) * off[tables].sum(axis=1)
        turns = math.pow(1 + float(off.max()), tables.shape[1] / 2)
        return max(0.0, float(total - 2 * terms.sum()) / turns)

    def slope(self, frames: Mapping[int, Frame]) -> tuple[float, dict[int, Array]]:
        """The bound, and its slopes by r_i where the kept directions beside r_i stay."""
        matrices, rest = self._numbers(frames)
        products = Products()
        total, by_rest = 0.0, np.zeros(len(rest))
        for space in self._spaces:
            values, vectors = np.linalg.eigh(space.assemble(matrices, rest, products))
            cut = 1e-13 * values[:, -1:]
            roots = np.sqrt(np.maximum(values, 0.0))
            weights = space.batch.weights
            total += float(weights @ roots.sum(axis=1))
            inverse = np.where(values > cut, 0.5 / np.maximum(roots, np.sqrt(cut)), 0.0)
            slopes = (vectors * (weights[:, None] * inverse)[:, None, :]) @ vectors.swapaxes(1, 2)
            by_rest += space.pull_back(slopes, matrices, rest, products)
        by_matrix = products.slopes(matrices)
        by_root = {}
        for i, kept in frames.items():
            by_root[i] = np.zeros(len(kept.r))
            for number, k in enumerate(self.problem.factors[i]):
                by_trace = 2 * math.sqrt(rest[k]) * by_rest[k]
                gram = np.asarray(self.problem.grams[k])
                by_root[i] += slope_by_r(kept, number, gram, by_matrix[k], by_trace)
            by_root[i] -= kept.r * (kept.r @ by_root[i])
        return total, by_root

    def _numbers(self, frames: Mapping[int, Frame]) -> tuple[list[Array], Array]:
        matrices = [np.ones((1, 1))] * len(self.problem.grams)
        rest = np.full(len(matrices), SMALLEST)
        for i, kept in frames.items():
            for k, inner, left in zip(self.problem.factors[i], kept.inner, kept.rest, strict=True):
                matrices[k], rest[k] = inner @ inner, max(left**2, SMALLEST)
        return matrices, rest


def roots(space: Space, matrices: Array, weights: Array) -> float:
    """Sum of weights times tr M^(1/2), rounded down, of matrices made from those of a space."""
    rounding = (8 + 8 * len(space.entries)) * EPS
    traces = np.trace(matrices, axis1=1, axis2=2).tolist()
    every = zip(weights.tolist(), np.linalg.eigvalsh(matrices), traces, strict=True)
    return math.fsum(w * sum_of_roots(values, trace, rounding) for w, values, trace in every)


def _grams(problem: Tables, attribute: int) -> list[Array]:
    """The Gram matrices of the factors of an attribute."""
    return [np.asarray(problem.grams[k]) for k in problem.factors[attribute]]


def _unit(w: Array) -> Array:
    """W^(1/2) of norm at most 1."""
    root = np.sqrt(w)
    return np.asarray(root / (np.linalg.norm(root) * (1 + (len(w) + 8) * EPS)))


def improve(
    bound: SectorBound,
    point: Point,
    *,
    steps: int,
    proceed: Callable[[], bool] = lambda: True,
) -> dict[int, Array]:
    """Better weights w, on their logarithms; `proceed` as in `descend`."""
    cells = point.cells
    order = list(cells)
    cuts = np.cumsum([len(cells[i]) for i in order])[:-1]
    kept = {i: at_start.columns[:, 1:] for i, at_start in bound.frames(point).items()}

    def roots_of(z: Array) -> dict[int, Array]:
        unit = {}
        for i, logs in zip(order, np.split(z, cuts), strict=True):
            r = np.exp((logs - logs.max()) / 2)
            unit[i] = r / np.linalg.norm(r)
        return unit

    def minus_log(z: Array) -> tuple[float, Array]:
        r = roots_of(z)
        frames = {
            i: frame(
                [root_of(gram, r[i]) for gram in _grams(bound.problem, i)],
                r[i],
                bound.dims[i],
                kept[i],
            )
            for i in order
        }
        total, slopes = bound.slope(frames)
        slope = np.concatenate([slopes[i] * r[i] / 2 for i in order])
        return -math.log(total), -slope / total

    start = np.concatenate([np.log(np.maximum(cells[i], SMALLEST)) for i in order])
    reached = roots_of(descend(minus_log, start, steps=steps, proceed=proceed))
    return {i: r**2 for i, r in reached.items()}
