r"""Tables of plain attributes at the nodes of a tree: as many trees as there are kinds of spaces.

At a node nu the table over a set T of plain attributes is asked for, of m_T answers that are sums
of c_T of the N = m_T c_T plain cells: rows 1_nu x e_t x 1. With S a set of attributes, V_S its
residual space (`structure.subsets`), d_S the dimension and P_S the projection,

    sum over t of (e_t x 1)(e_t x 1)^T = c_T sum_{S in T} P_S = N / m_T sum_{S in T} P_S,
    a row has the squared length c_T d_S / m_T = N d_S / m_T^2 in V_S, if S is in T.

So weights of nodes and tables form a tree for every S, with sums over the tables that contain S
instead of weights of nodes. Spaces within the same tables have the same tree: they are one here,
and their dimensions add up. Weights w of cells are uniform over the plain cells, which divides by
N; so is everything here.

The m_T answers of a node and a table are alike, and count as one query of m_T^(1/p) times the
scale, (m_T^(2/p) var)^(p/2) = m_T var^(p/2), whose weight in the dual is u m_T^(1 - 2/p).

An ordered attribute has queries of its own, with numbers t and h: a query of a table has the parts
t off S and h on S instead of 1 and n_i - 1 for a plain one, which count only in N and m_T
(`ordered_spaces`). The measured part of a table is the rest without its total, and counts only for
those S that have all of its ordered attributes. With t and h of a strategy, `told` has the weights
of variances in answers, and with those of a lower bound `within` is the tree of every S.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import Array, Flags, Indices
from pmldesign_solvers.structure.kronecker import outer
from pmldesign_solvers.structure.subsets import residual_spaces


@dataclass(frozen=True, slots=True, eq=False)
class Spaces:
    """Kinds of residual spaces, and the tables that see them.

    Attributes:
        dimensions: d_S, shape (S,).
        within: 1 where a table sees the spaces, else 0, shape (S, K).
        answers: m_T, shape (K,).
        residuals: the sets of attributes of each kind.
        told: how the variances of the spaces add up in answers, shape (S, A); A = K unless
            answers of a table differ.
        owner: the table of each of these, in increasing order, shape (A,).
    """

    dimensions: Array
    within: Array
    answers: Array
    residuals: tuple[tuple[tuple[int, ...], ...], ...]
    told: Array
    owner: Indices

    @property
    def total(self) -> int:
        """The kind that holds the sums over all values."""
        return next(kind for kind, sets in enumerate(self.residuals) if () in sets)

    def known(self, public: Flags) -> Flags:
        """The places and kinds whose sums are known, (S, P), from those places where sums are."""
        kinds = np.arange(len(self.residuals)) == self.total
        return np.asarray(kinds[:, None] & public)

    def as_one(self, scales: Array, p: float) -> Array:
        """a^2 of one query for each node and answer, (A, N), from the scales of tables, (K, N)."""
        squares = scales**2 * self.answers[:, None] ** (2.0 / p - 2.0)
        return np.asarray(squares[self.owner])

    def dual_of_answers(self, u: Array, p: float) -> Array:
        """The weight of every answer, (K, N), from that of the query that stands for them."""
        return np.asarray(u / self.answers[:, None] ** (1.0 - 2.0 / p))


def spaces_of(
    sizes: Sequence[int], tables: Sequence[Sequence[int]], *, apart: bool = False
) -> Spaces:
    """The spaces that some tables over plain attributes see.

    Args:
        sizes: number of values of each attribute.
        tables: the attributes of each table, in increasing order.
        apart: whether the sums over all values are a kind of their own.
    """
    found = residual_spaces(sizes, tables)
    own = [[apart and not S] for S in found.residuals]
    seen = np.hstack([found.incidence.toarray(), own])
    kinds, numbers = np.unique(seen, axis=0, return_inverse=True)
    kinds = kinds[:, :-1]
    residuals: list[list[tuple[int, ...]]] = [[] for _ in kinds]
    for number, residual in zip(numbers.ravel().tolist(), found.residuals, strict=True):
        residuals[number].append(residual)
    dimensions = np.asarray(np.bincount(numbers.ravel(), found.dimensions), dtype=np.float64)
    told, owner = dimensions[:, None] * kinds, np.arange(len(tables))
    return Spaces(dimensions, kinds, found.cells, tuple(map(tuple, residuals)), told, owner)


def ordered_spaces(
    sizes: Sequence[int],
    tables: Sequence[Sequence[int]],
    numbers: Mapping[int, tuple[Array, Array]],
    measured: Collection[int] | None = None,
) -> Spaces:
    """The spaces of tables with ordered attributes, one of a kind.

    Args:
        sizes: number of values of each attribute.
        tables: the attributes of each table, in increasing order.
        numbers: (t, h) of the queries on each ordered attribute.
        measured: those with coordinates of their own, where the tables are measured; for a lower
            bound None, with one t and h for each, and `within` is what its trees are made of.
    """
    found, own = residual_spaces(sizes, tables), numbers if measured is None else measured
    holds = found.incidence.toarray()
    parts = [[i for i in T if i in numbers] for T in tables]
    told = np.hstack(
        [
            holds[:, [column]]
            * np.array([outer([numbers[i][i in S] for i in inner]) for S in found.residuals])
            for column, inner in enumerate(parts)
        ]
    )
    counts = [math.prod(len(numbers[i][0]) for i in inner) for inner in parts]
    seen = [[all(i in S for i in T if i in own) for T in tables] for S in found.residuals]
    plain = [math.prod(sizes[i] - 1 for i in S if i not in numbers) for S in found.residuals]
    alike = np.array(plain, dtype=np.float64)
    answers = [math.prod(sizes[i] for i in T if i not in own) for T in tables]
    return Spaces(
        alike if measured is None else found.dimensions,
        told if measured is None else holds * np.array(seen),
        np.array(answers, dtype=np.float64),
        tuple((S,) for S in found.residuals),
        alike[:, None] * told,
        np.repeat(np.arange(len(tables)), counts),
    )


PLAIN = Spaces(np.ones(1), np.ones((1, 1)), np.ones(1), (((),),), np.ones((1, 1)), np.zeros(1, int))
"""Nothing but the count of each node."""
