"""The value of a stream for running sums if the last one, the total of the inputs, is public.

A stream of weights v, w and nodes has X = C^T C = W^(-1/2) r(T) W^(-1/2) and leaves the covariance
S = A X^(-1) A^T = V^(-1/2) g(B^T B) V^(-1/2) on its running sums, g(x) = 1 / (x r(x)). Given their
last one, y_n, that of y_t is the error of y_t - c_t y_n at the best c_t = S_tn / S_nn:

    variance_t = S_tt - S_tn^2 / S_nn.

Any c_t make an upper bound, and g is at most (1 + e') times its computed form (`Nodes.shortfall`),
so that this form may stand for S. Its entries are sums of positive numbers:

    S_tn (v_t v_n)^(1/2) = d [t = n] + e_0 (B^T B)^(-1)_tn + sum_j e_j (B^T B + z_j^2)^(-1)_tn,
    (B^T B + z^2)^(-1)_tn = (B^T B + z^2)^(-1)_nn prod beta_m^(1/2) / delta_m

over the edges m of the path from column t to column n (`streams.chain`). The deltas of a block
begin with an error of `relative_rounding` at most; a product of them has one such error at most for
each block, as a change of delta_m moves delta_{m+1} the other way, and by less.

Moving a record from a step to another changes C x by the distance of two columns, at most 2^(1/2)
times the longest one as X >= 0, and so much where X_ij is close to 0, for steps that are at least
half of the length apart. So the norm given the total is at most 2^(1/2) times the value of the
stream in the sense of `streams.certificate`, with these variances.

The best v q^2 is a shape that depends little on n (`intervals.solve`), times the weights u q^2 of
the open queries over their mean of power 1/2: at p = inf some of them are about 0.

*On line* it is the factor of n - 1 steps with the same distances. Where the total is public a
record moves from step i to step j, and its measurements by C (e_i - e_j). With the columns e_i -
e_n of E these are differences of columns of C E, and of a zero column for j = n. C E has the rows
of C before the last one, and as its last row

    r_j = C_nj - C_nn,      j < n.

So C' with C'^T C' = E^T C^T C E, n - 1 x n - 1, follows from rotations of that row with the others,
from the last one to the first. At row i it is v^T prod_{j < m <= i} diag(lambda(m)) 1 in column j,
with K numbers and one for C_nn, which never fades:

    C'_ii = (C_ii^2 + (1^T v)^2)^(1/2),      c = C_ii / C'_ii,      s = 1^T v / C'_ii,
    g'_i = c g_i + s v,                      v <- diag(lambda(i)) (c v - s g_i).

*Errors.* With differences D = A^-1, D e_t = E (e_t - e_{t+1}) for t < n: the inverse covariance
D^T X D of all sums has as the block of the open ones D'^T C'^T C' D', that of C' alone, and the
inverse of a block of the inverse is a covariance conditional on the rest. So online the answers
have the errors that they have given the total.

*Rounding.* A rotation changes no norm; what its roundings add to the two entries of a column is at
most (K + 16) u (C_ii + sum abs(g_i) + sum abs(v)), as lambda <= 1.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign_solvers.operators.operator import EPS, UNIT, Array
from pmldesign_solvers.streams.certificate import LAST_SUMS
from pmldesign_solvers.streams.chain import BLOCKS, Chain, RunningSums, sides
from pmldesign_solvers.streams.factor import Factor
from pmldesign_solvers.streams.nodes import Nodes


def open_factor(factor: Factor) -> tuple[Factor, float]:
    """C', and how far its columns are from those of exact rotations of C, at most, in l2."""
    n, count = factor.gains.shape
    decays = np.pad(factor.decays, [(0, 0), (0, 1)], constant_values=1.0)
    gains, diagonal = np.pad(factor.gains, [(0, 0), (0, 1)]), np.array(factor.diagonal[:-1])
    row = np.append(gains[-1, :-1], -factor.diagonal[-1]) * decays[-1]
    rows = np.empty((n - 1, count + 1))
    for i in range(n - 2, -1, -1):
        rows[i] = row
        pivot, last = float(diagonal[i]), float(row.sum())
        diagonal[i] = whole = math.hypot(pivot, last)
        turned = (pivot / whole * row - last / whole * gains[i]) * decays[i]
        gains[i] *= pivot / whole
        row *= last / whole
        gains[i] += row
        row = turned
    sizes = float(factor.diagonal[:-1].sum() + factor.gains[:-1].sum() + np.abs(rows).sum())
    moved = math.sqrt(2.0) * (count + 17) * UNIT * sizes * (1.0 + 1e-6)
    decays[0] = 0.0
    return Factor(diagonal, gains[:-1], decays[:-1]), moved


class BesideTotal(RunningSums):
    """The queries before the last one, given it; rates and weights of steps are 1.

    Args:
        query_weights: q, shape (n,).
        shape: shape (n,).
    """

    def __init__(self, query_weights: Array, shape: Array) -> None:
        n = len(query_weights)
        super().__init__(np.ones(n - 1), query_weights, np.ones(n))
        self.queries = n - 1
        self.whole = RunningSums(np.ones(n - 1), query_weights, np.ones(n))
        self.shape = shape

    def all_weights(self, u: Array) -> Array:
        """The weights v of all queries, shape (n,)."""
        asked = u * self.query_squares[:-1]
        weights = np.append(asked / np.sqrt(asked).mean() ** 2, 1.0)
        return np.asarray(self.shape * weights / self.query_squares)

    def chain(self, u: Array, w: Array) -> Chain:
        """That of the stream."""
        return super().chain(self.all_weights(u), w)

    def gram_diagonal(self, u: Array) -> Array:
        """That of the stream."""
        return super().gram_diagonal(self.all_weights(u))

    def spread(self, u: Array, w: Array, reciprocal: Nodes) -> Array:
        """U times the variances given the total, shape (n - 1,), rounded up."""
        v = self.all_weights(u)
        rounding = self.rounding(reciprocal) + (LAST_SUMS + 8 * self.cells) * EPS
        variances, explained = variances_beside(self.whole, v, w, reciprocal)
        return np.asarray(
            u * (variances * (1.0 + rounding) - explained * (1.0 - (2 * BLOCKS + 4) * rounding))
        )


def variances_beside(
    sums: RunningSums, v: Array, w: Array, reciprocal: Nodes
) -> tuple[Array, Array]:
    """The variances of the open queries, and the parts explained by the last one, (n - 1,) each.

    Args:
        sums: running sums that determine the total.
        v: weights of all queries, shape (n,).
        w: weights of steps, shape (n,).
        reciprocal: of the nodes.
    """
    variances = sums.spread(v, w, reciprocal) / v
    explained = covariances(sums, v, w, reciprocal) ** 2 / variances[-1]
    return variances[:-1], explained[:-1]


def covariances(sums: RunningSums, v: Array, w: Array, reciprocal: Nodes) -> Array:
    """S_tn, shape (n,): covariances with the last one of running sums that contain the total."""
    chain, values = sums.chain(v, w), np.zeros(sums.cells)
    roots = np.sqrt(chain.edges[1:])  # from column 0 on
    for pole, weight in zip(reciprocal.poles, reciprocal.weights, strict=True):
        left, right = sides(chain, float(pole))
        hops = (roots / left[1:-1]).reshape(-1, 2).prod(axis=1)
        last = weight / (pole * (left[-1] + right[-1]))
        values += last * np.append(np.cumprod(hops[::-1])[::-1], 1.0)
    values[-1] += reciprocal.constant
    queries = np.sqrt(sums.query_squares)
    origin = reciprocal.origin * sums.row_norms(w) * queries[-1] / queries
    return np.asarray(values / np.sqrt(v * v[-1]) + origin)
