r"""Tables of plain attributes at the nodes of a tree: as many trees as there are kinds of spaces.

At a node nu the table over a set T of plain attributes is asked for, of m_T answers that are sums
of c_T of the N = m_T c_T plain cells: rows 1_nu x e_t x 1. With S a set of attributes, V_S its
residual space (`structure.subsets`), d_S the dimension and P_S the projection,

    sum over t of (e_t x 1)(e_t x 1)^T = c_T sum_{S in T} P_S = N / m_T sum_{S in T} P_S,
    a row has the squared length c_T d_S / m_T = N d_S / m_T^2 in V_S, if S is in T.

So what weights of nodes and tables make is a tree for every S, with sums over the tables that hold
S in place of weights of nodes. Spaces within the same tables have the same tree: they are one here,
and their dimensions add up. Weights w of cells are uniform over the plain cells, which divides by
N; so is everything here.

The m_T answers of a node and a table are alike, and count as one query of m_T^(1/p) times the
scale, (m_T^(2/p) var)^(p/2) = m_T var^(p/2), whose weight in the dual is u m_T^(1 - 2/p).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.subsets import residual_spaces


@dataclass(frozen=True, slots=True, eq=False)
class Spaces:
    """Kinds of residual spaces, and the tables that see them.

    Attributes:
        dimensions: d_S, shape (S,).
        within: 1 where a table sees the spaces, else 0, shape (S, K).
        answers: m_T, shape (K,).
        residuals: the sets of attributes of each kind.
    """

    dimensions: Array
    within: Array
    answers: Array
    residuals: tuple[tuple[tuple[int, ...], ...], ...]

    def as_one(self, scales: Array, p: float) -> Array:
        """a^2 of one query for each node and table, shape (K, N), from the scales of answers."""
        return np.asarray(scales**2 * self.answers[:, None] ** (2.0 / p - 2.0))

    def dual_of_answers(self, u: Array, p: float) -> Array:
        """The weight of every answer, (K, N), from that of the query that stands for them."""
        return np.asarray(u / self.answers[:, None] ** (1.0 - 2.0 / p))


def spaces_of(sizes: Sequence[int], tables: Sequence[Sequence[int]]) -> Spaces:
    """The spaces that some tables over plain attributes see.

    Args:
        sizes: number of values of each attribute.
        tables: the attributes of each table, in increasing order.
    """
    found = residual_spaces(sizes, tables)
    seen = found.incidence.toarray()
    kinds, numbers = np.unique(seen, axis=0, return_inverse=True)
    residuals: list[list[tuple[int, ...]]] = [[] for _ in kinds]
    for number, residual in zip(numbers.ravel().tolist(), found.residuals, strict=True):
        residuals[number].append(residual)
    return Spaces(
        np.asarray(np.bincount(numbers.ravel(), found.dimensions), dtype=np.float64),
        kinds,
        found.cells,
        tuple(map(tuple, residuals)),
    )


PLAIN = Spaces(np.ones(1), np.ones((1, 1)), np.ones(1), (((),),))
"""Nothing but the count of each node."""
