r"""What is known exactly and is not protected: nothing, the number of records, or more than that.

If K x is public, records that K counts alike, K e_i = K e_j, form groups of cells. Neighbours then
replace a record by one of its group, x' = x + e_i - e_j, which leaves K x as it is. What a strategy
is to measure are differences within groups: with the numbers N_g of records in them,

    x = sum_g N_g / n_g 1_g + P x,      P x = x less its mean in each group,

and the first part is public. A workload A counts as A P, and every strategy R as R P, which has the
same distances, as R (e_i - e_j) = R P (e_i - e_j); a query within K is a zero row of A P.

    records     one group: the number of records, public under the replace relation
    table       a table that counts some attributes C of a product of any number of cells: a group
                for each combination of their values, the open attributes all others
    groups      any partition of few cells
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.dense import without_offsets
from pmldesign_solvers.operators.operator import EPS, Array, Indices


@dataclass(frozen=True, eq=False)
class Public:
    """What is public.

    Attributes:
        kind: which of the forms above.
        name: of the queries that tell it; "" for nothing and for the number of records.
        groups: the number of the group of each cell, from 0 without gaps, shape (n,).
        sizes: of a table, number of values of each attribute.
        counted: whether the table counts an attribute, rather than to sum over it; those with one
            value count as counted.
    """

    kind: Literal["nothing", "records", "table", "groups"]
    name: str = ""
    groups: Indices | None = None
    sizes: tuple[int, ...] = ()
    counted: tuple[bool, ...] = ()

    def __bool__(self) -> bool:
        return self.kind != "nothing"

    def agrees(self, other: Public) -> bool:
        """Whether both are the same, whatever their names."""
        same = (self.kind, self.sizes, self.counted) == (other.kind, other.sizes, other.counted)
        return same and np.array_equal(self.groups, other.groups)  # type: ignore[arg-type]

    @property
    def members(self) -> tuple[Indices | slice, ...]:
        """The cells of each group; those of a table are not listed."""
        if self.groups is None:
            return (slice(None),) if self.kind == "records" else ()
        order = np.argsort(self.groups, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(self.groups))[:-1]))

    @property
    def attributes(self) -> frozenset[int] | None:
        """Those that are counted, none for the number of records; None where nothing is public."""
        counted = frozenset(i for i, counts in enumerate(self.counted) if counts)
        return counted if self.kind in ("records", "table") else None

    @property
    def open(self) -> slice | None:
        """The open attributes of a table; None where counted ones are between them."""
        places = [i for i, counted in enumerate(self.counted) if not counted]
        together = slice(places[0], places[-1] + 1) if places else slice(0)
        return together if places and not any(self.counted[together]) else None

    def within(self, x: Array) -> Array:
        """P x, for x of shape (n,) or (n, c)."""
        if self.kind == "table":
            tensor = x.reshape(*self.sizes, *x.shape[1:])
            axes = tuple(i for i, counted in enumerate(self.counted) if not counted)
            return np.asarray((tensor - tensor.mean(axis=axes, keepdims=True)).reshape(x.shape))
        if self.groups is None:
            return np.asarray(x - x.mean(axis=0)) if self else np.array(x, dtype=np.float64)
        columns = x.reshape(len(x), -1).T
        sums = np.array([np.bincount(self.groups, column) for column in columns])
        means = sums / np.bincount(self.groups)
        return np.asarray((columns - means[:, self.groups]).T.reshape(x.shape))

    def relative(self, matrix: Array) -> Array:
        """The same on P x, but for constants within groups that would leave rounding behind."""
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
        if self.kind == "table":
            return np.asarray(self.within(moved.T).T)
        centred = np.array(moved)
        for cells in self.members:
            centred[:, cells] -= moved[:, cells].mean(axis=1, keepdims=True)
        return centred


NOTHING, RECORDS = Public("nothing"), Public("records")


def beside_records(name: str) -> InvalidInputError:
    """Why named answers go with replaced records alone."""
    return InvalidInputError(
        f"adding or removing a record changes the known answers {name!r}; take neighbours 'replace'"
    )
