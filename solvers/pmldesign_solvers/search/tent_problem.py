r"""The squared error of an identity with non-negative rows, on blocks of cells.

R = [I; Theta] D with Theta >= 0 and D = diag(1/s), s = 1 + Theta^T 1, has columns of l1 norm 1.
Let Theta be constant on blocks J of neighbouring cells, a_J = |J|^(-1/2), T_kJ = Theta_kJ / a_J, so
that s_J = 1 + a_J sum_k T_kJ, and let G be the Gram matrix of the workload,

    G'_IJ = a_I a_J sum of G over I x J,      c_J = sum_{i in J} G_ii - G'_JJ.

Then with K = diag(s) G' diag(s) and C = (I + T T^T)^-1, exactly,

    f = tr G (R^T R)^-1 = sum_J c_J s_J^2 + tr K (I + T^T T)^-1
                        = sum_J (c_J + G'_JJ) s_J^2 - <T, M>,      M = C T K.

The gradient is 2 a_J h_J - 2 (M - C T K T^T C T)_kJ with
h_J = (c_J + G'_JJ) s_J - (sum_k T_kJ M_kJ) / s_J. Row k is free on a run of blocks, its support,
and zero elsewhere: only there T and M are formed.

For running sums and all ranges G_ij = u_min(i,j) v_max(i,j): T K follows from cumulative sums, and
G is never formed.

References:
    McKenna, Miklau, Hay and Machanavajjhala, Optimizing error of high-dimensional statistical
        queries under differential privacy, VLDB 2018: R of this form ("p-Identity").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.deadline import CALL, ENTRY, SOLVED, SPARSE
from pmldesign_solvers.operators.operator import Array, Indices

DENSE_ENTRIES = 2**16
"""Up to so many entries of T whole matrices are faster: 1.0 ms at 75 rows and 256 blocks, by rows
1.6 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class DenseGram:
    """A Gram matrix G, shape (n, n), as an array."""

    matrix: Array

    @property
    def cells(self) -> int:
        """Number of cells n."""
        return len(self.matrix)

    def on_blocks(self, edges: Indices) -> BlockGram:
        """G' and c for the blocks between these edges, 0 first and n last."""
        a = np.diff(edges) ** -0.5
        sums = np.add.reduceat(np.add.reduceat(self.matrix, edges[:-1], 0), edges[:-1], 1)
        sums *= a[:, None] * a
        moments = np.add.reduceat(self.matrix.diagonal(), edges[:-1])
        return BlockGram(edges, a, sums.diagonal().copy(), moments, sums, None)


@dataclass(frozen=True, slots=True, eq=False)
class SeparableGram:
    """G_ij = u_min(i,j) v_max(i,j), both of shape (n,)."""

    first: Array
    last: Array

    @property
    def cells(self) -> int:
        """Number of cells n."""
        return len(self.first)

    def on_blocks(self, edges: Indices) -> BlockGram:
        """G' and c for the blocks between these edges, 0 first and n last."""
        a, starts, u, v = np.diff(edges) ** -0.5, edges[:-1], self.first, self.last
        left, right = np.add.reduceat(u, starts), np.add.reduceat(v, starts)
        moments = np.add.reduceat(u * v, starts)
        before = np.cumsum(u) - u
        pairs = np.add.reduceat(v * before, starts) - right * before[starts]
        diagonal = (moments + 2 * pairs) * a**2
        return BlockGram(edges, a, diagonal, moments, None, (left * a, right * a))


Gram = DenseGram | SeparableGram


@dataclass(frozen=True, slots=True, eq=False)
class BlockGram:
    """The Gram matrix on blocks of neighbouring cells, G'.

    Attributes:
        edges: shape (m + 1,), from 0 to n.
        roots: a, shape (m,).
        diagonal: of G', shape (m,).
        moments: c + diagonal, shape (m,).
        matrix: G', shape (m, m), or None
        separable: u and v of G' off its diagonal, if it has that form.
    """

    edges: Indices
    roots: Array
    diagonal: Array
    moments: Array
    matrix: Array | None
    separable: tuple[Array, Array] | None


class TentProblem:
    """f and its gradient as functions of the entries of T on their supports.

    Args:
        gram: of the workload, on blocks.
        lower, upper: shape (k,), the support of each row: blocks lower_k ... upper_k - 1.
    """

    def __init__(self, gram: BlockGram, lower: Indices, upper: Indices) -> None:
        self.gram, self.lower, self.upper = gram, lower, upper
        self.stops = np.concatenate([[0], np.cumsum(upper - lower)])
        self.place: Indices = np.concatenate(
            [np.arange(a, b) for a, b in zip(lower, upper, strict=True)]
        )
        self.row: Indices = np.repeat(np.arange(len(lower)), upper - lower)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of blocks."""
        return len(self.lower), len(self.gram.roots)

    @property
    def work(self) -> float:
        """Units of `Work` of `evaluate`."""
        (k, m), entries = self.shape, len(self.place)
        image = SPARSE * entries * m if self.gram.separable is None else ENTRY * k * m / 2
        if k * m <= DENSE_ENTRIES:
            return CALL + image + 4 * k**2 * m + SOLVED * k**3
        return CALL + image + SPARSE * 3 * entries * k + (SOLVED + 2) * k**3 + CALL * k / 8

    def rows(self, entries: Array) -> Array:
        """Theta on the blocks, shape (k, m)."""
        Theta = np.zeros(self.shape)
        Theta[self.row, self.place] = entries * self.gram.roots[self.place]
        return Theta

    def evaluate(self, entries: Array) -> tuple[float, Array]:
        """The value f and its gradient."""
        k, m = self.shape
        place = self.place
        s = 1 + self.gram.roots * np.bincount(place, entries, m)
        image = self._times_gram(entries * s[place], s)
        project = self._dense if k * m <= DENSE_ENTRIES else self._sparse
        M, back = project(entries, image)
        used = np.bincount(place, entries * M, m)
        value = float(self.gram.moments @ s**2 - used.sum())
        h = self.gram.moments * s - used / s
        return value, 2 * ((h * self.gram.roots)[place] - M + back)

    def _dense(self, entries: Array, image: Array) -> tuple[Array, Array]:
        """M and C T K T^T C T on the supports, by whole matrices."""
        T = np.zeros(self.shape)
        T[self.row, self.place] = entries
        C = _inverse(T @ T.T)
        M, back = C @ image, C @ (image @ T.T) @ C @ T
        return M[self.row, self.place], back[self.row, self.place]

    def _sparse(self, entries: Array, image: Array) -> tuple[Array, Array]:
        """M and C T K T^T C T on the supports, by rows."""
        k, m = self.shape
        T = scipy.sparse.csr_array((entries, self.place, self.stops), shape=(k, m))
        C = _inverse((T @ T.T).toarray())
        M, Q = np.empty_like(entries), np.empty((k, k))
        for row, (a, b) in enumerate(zip(self.lower, self.upper, strict=True)):
            part, run = image[:, a:b], slice(self.stops[row], self.stops[row + 1])
            np.dot(C[row], part, out=M[run])
            np.dot(part, entries[run], out=Q[row])
        return M, (T.T.tocsr() @ (C @ Q @ C))[self.place, self.row]

    def _times_gram(self, scaled: Array, s: Array) -> Array:
        """T K, shape (k, m), from the entries of T diag(s)."""
        k, m = self.shape
        if self.gram.matrix is not None:
            return np.asarray(
                (
                    scipy.sparse.csr_array((scaled, self.place, self.stops), shape=(k, m))
                    @ self.gram.matrix
                )
                * s
            )
        assert self.gram.separable is not None
        u, v = self.gram.separable
        place, row = self.place, self.row
        by_u, by_v = scaled * u[place], scaled * v[place]
        sum_u, sum_v = np.cumsum(by_u), np.cumsum(by_v)
        at_u = np.concatenate([[0.0], sum_u])[self.stops]
        at_v = np.concatenate([[0.0], sum_v])[self.stops]
        earlier, later = sum_u - by_u - at_u[row], at_v[row + 1] - sum_v
        inside = v[place] * earlier + u[place] * later + self.gram.diagonal[place] * scaled
        inside *= s[place]
        image = np.empty((k, m))
        left, right = s * u, s * v
        for number, (a, b) in enumerate(zip(self.lower, self.upper, strict=True)):
            line = image[number]
            np.multiply(left[:a], at_v[number + 1] - at_v[number], out=line[:a])
            line[a:b] = inside[self.stops[number] : self.stops[number + 1]]
            np.multiply(right[b:], at_u[number + 1] - at_u[number], out=line[b:])
        return image


def _inverse(system: Array) -> Array:
    """(I + T T^T)^-1 from T T^T, which is overwritten."""
    system.flat[:: len(system) + 1] += 1.0
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), np.eye(len(system))))
