r"""Tables that cross attributes, and the closed form that strategies and bounds on them share.

Attribute i has n_i values, factor k is a set of queries A_k on one attribute, G_k = A_k^T A_k. A
table T is a set of factors on different attributes: it asks every combination of their queries,
summed over the other attributes, with the weight c_T (on squares). With numbers t_k, h_k for each
factor,

    F(h, t) = sum_S (sum_T c_T prod_{k in T on S} h_k prod_{k in T off S} t_k)^(1/2),

over the sets S of attributes and the tables T that have a factor on every one of them. A strategy
with the numbers t_k = v^T G_k v and h_k = g_k^2 attains F (`free_vector`); F of other numbers is a
lower bound (`lower`). Attributes with one value are in no S.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from pmldesign_solvers.operators.operator import TINY, Array, Indices
from pmldesign_solvers.structure.subsets import ResidualSpaces, residual_spaces

LEAST_DIVISOR = 1e-30
"""Of h and t: the closed form divides by them."""

Attributes = tuple[int, ...]
Factors = tuple[int, ...]
"""Numbers of attributes, and of factors."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables that are asked for, each a product of factors over some attributes.

    Attributes:
        sizes: n_i.
        attribute: of each factor.
        grams: G_k, shape (n, n); a number a for a factor with the Gram matrix a 1, for which no
            matrix is formed. An attribute has factors of one kind only, numbers if it has one cell.
        tables: the factors of each table, on increasing attributes.
        weights: c_T > 0, shape (K,).
    """

    sizes: tuple[int, ...]
    attribute: tuple[int, ...]
    grams: tuple[Array | float, ...]
    tables: tuple[tuple[int, ...], ...]
    weights: Array

    @cached_property
    def factors(self) -> dict[int, list[int]]:
        """The factors of each attribute that some table asks about."""
        factors: dict[int, list[int]] = {}
        for k in sorted(set().union(*self.tables)):
            factors.setdefault(self.attribute[k], []).append(k)
        return factors

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        """The attributes whose Gram matrices are not multiples of 1."""
        return tuple(
            i for i, ks in sorted(self.factors.items()) if isinstance(self.grams[ks[0]], np.ndarray)
        )

    @cached_property
    def ordered_factors(self) -> frozenset[int]:
        """The factors of the ordered attributes."""
        return frozenset(k for i in self.ordered for k in self.factors[i])

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """The attributes of each table."""
        return [tuple(self.attribute[k] for k in table) for table in self.tables]

    @cached_property
    def padded_tables(self) -> Indices:
        """The factors of each table, filled up with the number of factors there are."""
        return padded(self.tables, len(self.grams))

    @cached_property
    def spaces(self) -> ResidualSpaces:
        """The sets S, and which tables have a factor on all of them.

        Raises:
            ValueError: there are too many.
        """
        return residual_spaces(self.sizes, self.subsets)

    def plain_numbers(self) -> tuple[Array, Array]:
        """h_k and t_k of the factors of plain attributes, 1 for the others."""
        h, t = np.ones(len(self.grams)), np.ones(len(self.grams))
        for k, gram in enumerate(self.grams):
            n = self.sizes[self.attribute[k]]
            if not isinstance(gram, np.ndarray):
                h[k], t[k] = gram * (n - 1) ** 2 / n, gram / n
        return h, t


@dataclass(frozen=True, slots=True)
class Value:
    """F, its derivatives by h, t and log c, and m_S^(1/2), the terms of its sum."""

    total: float
    by_h: Array
    by_t: Array
    by_weights: Array
    roots: Array


class ClosedForm:
    """F of given tables, as a function of h and t.

    Args:
        problem: the workload.
        total: whether the empty set counts; it does not if the total is public.
    """

    def __init__(self, problem: Tables, *, total: bool = True) -> None:
        self._counts = np.ones(len(problem.spaces.residuals))
        self._counts[0] = float(total)
        spaces = problem.spaces
        pairs = spaces.incidence.tocoo()
        self._rows, self._tables = pairs.row, pairs.col
        self._factors = len(problem.grams)  # this number stands for no factor
        of_table = problem.padded_tables
        attribute = np.append(np.array(problem.attribute, dtype=np.intp), len(problem.sizes))
        of_attribute = np.full((len(of_table), len(problem.sizes) + 1), self._factors, np.int32)
        of_attribute[np.arange(len(of_table))[:, None], attribute[of_table]] = of_table
        members = padded(spaces.residuals, len(problem.sizes))  # the last column has no factor
        self._on_set = of_attribute[self._tables[:, None], members[self._rows]]
        self._of_table = of_table

    def __call__(self, h: Array, t: Array, weights: Array, inverses: Array | None = None) -> Value:
        """F at these numbers, h and t for each factor, c for each table.

        Given 1/s_S of all sets, the total is sum_S m_S / s_S instead.
        """
        h, t = (
            np.append(np.maximum(h, LEAST_DIVISOR), 1.0),
            np.append(np.maximum(t, LEAST_DIVISOR), 1.0),
        )
        ratio = h / t
        scaled = weights * t[self._of_table].prod(axis=1)
        terms = scaled[self._tables] * ratio[self._on_set].prod(axis=1)
        roots = self._counts * np.sqrt(np.bincount(self._rows, terms))
        by_square = self._counts / (2 * np.maximum(roots, TINY)) if inverses is None else inverses
        shares = by_square[self._rows] * terms
        on_sets = self._per_factor(shares, self._on_set)
        by_weights: Array = np.asarray(
            np.bincount(self._tables, shares, len(self._of_table)), dtype=np.float64
        )
        in_tables = self._per_factor(by_weights, self._of_table)
        return Value(
            total=math.fsum(roots if inverses is None else inverses * roots**2),
            by_h=on_sets / h[:-1],
            by_t=(in_tables - on_sets) / t[:-1],
            by_weights=by_weights,
            roots=roots,
        )

    def _per_factor(self, shares: Array, numbers: Indices) -> Array:
        """For every factor the sum of the shares of the rows that hold its number."""
        every = np.broadcast_to(shares[:, None], numbers.shape)
        sums = np.bincount(numbers.ravel(), every.ravel(), self._factors + 1)
        return np.asarray(sums[:-1], dtype=np.float64)


def padded(sets: Sequence[Sequence[int]], filler: int) -> Indices:
    """One row for each set, filled up to the longest."""
    lengths = np.fromiter(map(len, sets), dtype=np.intp, count=len(sets))
    rows = np.full((len(sets), max(1, int(lengths.max(initial=0)))), filler, dtype=np.intp)
    members = np.fromiter(chain.from_iterable(sets), dtype=np.intp, count=int(lengths.sum()))
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = members
    return rows
