r"""Invariants, known exactly and not protected: none, the number of records, or more than that.

If K x is public, records that K counts equally, K e_i = K e_j, form groups of cells. Neighbours
then replace a record by one of its group, x' = x + e_i - e_j, which leaves K x unchanged. A
strategy measures differences within groups: with the numbers N_g of records in them,

    x = sum_g N_g / n_g 1_g + P x,      P x = x less its mean in each group,

and the first part is public. A workload A becomes A P, and every strategy R becomes R P, which has
equal distances, as R (e_i - e_j) = R P (e_i - e_j); a query within K is a zero row of A P.

    records     one group: the number of records, public under the replace relation
    tables      tables that count some attributes of a product of any number of cells
    groups      any partition of few cells

Given one table, of the attributes C, there is a group for each combination of their values, and
the open attributes are all others. Several tables S_1, S_2, ... do not determine the groups of
their attributes, and replacing a record almost always changes one of them. Neighbours then replace
any record by any other, and the guarantee covers only the measurements R x + noise: the known
answers are published alongside them, and least squares with both answers x - P x exactly,

    x - P x = sum_Q c_Q (the mean of x over all attributes but Q),     A = A P + A (1 - P),

Q over the S_k and the intersections of several S_k, c_Q such that the sum of c_Q over all Q that
contain T is 1 for each T within an S_k. One table, and the number of records (no attribute), are
the case of a single Q.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.dense import without_offsets
from pmldesign_solvers.operators.operator import EPS, Array, Indices

ROUNDING = 1e-12
"""A row of A P below this fraction of its row of A is rounding."""


@dataclass(frozen=True, eq=False)
class Public:
    """The invariants.

    Attributes:
        kind: one of the forms above.
        name: of the queries that determine them; "" for nothing and for the number of records.
        groups: the number of the group of each cell, from 0 without gaps, shape (n,).
        sizes: of tables, number of values of each attribute.
        tables: the attributes that each of them counts, none within another one; attributes with
            one value are in all of them.
    """

    kind: Literal["nothing", "records", "tables", "groups"]
    name: str = ""
    groups: Indices | None = None
    sizes: tuple[int, ...] = ()
    tables: tuple[frozenset[int], ...] = ()

    def __bool__(self) -> bool:
        return self.kind != "nothing"

    def agrees(self, other: Public) -> bool:
        """Whether both are the same, whatever their names."""
        mine, theirs = ((p.kind, p.sizes, frozenset(p.tables)) for p in (self, other))
        return mine == theirs and np.array_equal(self.groups, other.groups)  # type: ignore[arg-type]

    @property
    def members(self) -> tuple[Indices | slice, ...]:
        """The cells of each group of neighbours; those of a single table are not listed."""
        if self.groups is None:
            return (slice(None),) if self.kind == "records" or self.several else ()
        order = np.argsort(self.groups, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.groups))[:-1]))

    @property
    def several(self) -> bool:
        """Whether there are several tables: neighbours then replace any record by any other."""
        return len(self.tables) > 1

    @property
    def known_tables(self) -> tuple[frozenset[int], ...] | None:
        """Sets of attributes counted together, one empty set for the number of records; or None."""
        return (frozenset(),) if self.kind == "records" else self.tables or None

    def tells(self, attributes: Iterable[int]) -> bool:
        """Whether the table by some attributes follows from a public one."""
        return any(map(frozenset(attributes).issubset, self.known_tables or ()))

    @cached_property
    def terms(self) -> tuple[tuple[frozenset[int], int], ...]:
        """Q and c_Q of x - P x, larger Q first."""
        return shared_terms(self.known_tables or ())

    def dimension(self, attributes: Collection[int]) -> int:
        """How many numbers of the table by some attributes the public tables determine."""
        return sum(c * math.prod(self.sizes[i] for i in Q & set(attributes)) for Q, c in self.terms)

    @property
    def open(self) -> slice | None:
        """The open attributes of one table; None if counted ones are between them."""
        if self.several or not self.tables:
            return None
        places = [i for i in range(len(self.sizes)) if i not in self.tables[0]]
        together = slice(places[0], places[-1] + 1)
        return together if len(places) == together.stop - together.start else None

    def within(self, x: Array) -> Array:
        """P x, for x of shape (n,) or (n, c)."""
        if self.kind == "tables":
            tensor = x.reshape(*self.sizes, *x.shape[1:])
            left = np.array(tensor, dtype=np.float64)
            for counted, coefficient in self.terms:
                axes = tuple(i for i in range(len(self.sizes)) if i not in counted)
                left -= coefficient * tensor.mean(axis=axes, keepdims=True)
            return left.reshape(x.shape)
        if self.groups is None:
            return np.asarray(x - x.mean(axis=0)) if self else np.array(x, dtype=np.float64)
        columns = x.reshape(len(x), -1).T
        sums = np.array([np.bincount(self.groups, column) for column in columns])
        means = sums / np.bincount(self.groups)
        return np.asarray((columns - means[:, self.groups]).T.reshape(x.shape))

    def relative(self, matrix: Array) -> Array:
        """A matrix equal on P x, without constants within groups, whose rounding would remain."""
        if self.several:
            moved = np.asarray(self.within(without_offsets(matrix)[0].T).T)
            moved[np.abs(moved).max(axis=1) <= ROUNDING * np.abs(matrix).max(axis=1)] = 0.0
            return moved
        if self.groups is None:
            return without_offsets(matrix)[0] if self else matrix
        moved = np.empty_like(matrix)
        for group in range(int(self.groups.max()) + 1):
            cells = np.flatnonzero(self.groups == group)
            moved[:, cells] = matrix[:, cells] - matrix[:, cells[-1:]]
        moved[np.abs(moved).max(axis=1) <= EPS * np.abs(matrix).max(axis=1)] = 0.0
        return moved

    def centre(self, matrix: Array) -> Array:
        """X P: every row without its mean in each group."""
        moved = self.relative(matrix)
        if self.kind == "tables":
            return np.asarray(self.within(moved.T).T)
        centred = np.array(moved)
        for cells in self.members:
            centred[:, cells] -= moved[:, cells].mean(axis=1, keepdims=True)
        return centred


NOTHING, RECORDS = Public("nothing"), Public("records")


def shared_terms(tables: Sequence[frozenset[int]]) -> tuple[tuple[frozenset[int], int], ...]:
    """Intersections Q of some tables, and c_Q with sum_{Q over T} c_Q = 1 for T within a table."""
    shared = set(tables)
    while more := {Q & S for Q in shared for S in tables} - shared:
        shared |= more
    terms: dict[frozenset[int], int] = {}
    for Q in sorted(shared, key=lambda Q: (-len(Q), sorted(Q))):
        if coefficient := 1 - sum(c for above, c in terms.items() if above > Q):
            terms[Q] = coefficient
    return tuple(terms.items())


def beside_records(name: str) -> InvalidInputError:
    """The error for known answers with neighbours other than replaced records."""
    return InvalidInputError(
        f"adding or removing a record changes the known answers {name!r}; use"
        " `neighbours='replace'`"
    )
