r"""Which cells public answers tell apart.

If K x is public, records that K counts alike, K e_i = K e_j, form groups of cells. Neighbours then
replace a record by one of its group, x' = x + e_i - e_j, which leaves K x as it is. What a strategy
is to measure are differences within groups: with the numbers N_g of records in them,

    x = sum_g N_g / n_g 1_g + P x,      P x = x less its mean in each group,

and the first part is public if K x tells the N_g: if the distinct columns of K are linearly
independent. Where they are not (two margins of a table), databases with the same answers may differ
by no single record of a group, and there is no such relation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign_solvers.operators.operator import EPS, Array, Indices

DEPENDENT = 1e-9
"""Singular values of the distinct columns, relative to the largest, that count as zero."""


@dataclass(frozen=True, eq=False)
class KnownAnswers:
    """Groups of cells, the number of records in each of which is public.

    Attributes:
        name: of the queries whose answers tell it.
        groups: the number of the group of each cell, from 0 without gaps, shape (n,).
    """

    name: str
    groups: Indices

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    @property
    def members(self) -> list[Indices]:
        """The cells of each group."""
        order = np.argsort(self.groups, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.groups))[:-1])

    def relative(self, matrix: Array) -> Array:
        """Every column less that of one cell of its group; what is mere rounding becomes 0."""
        moved = np.empty_like(matrix)
        for cells in self.members:
            moved[:, cells] = matrix[:, cells] - matrix[:, cells[-1:]]
        moved[np.abs(moved).max(axis=1) <= EPS * np.abs(matrix).max(axis=1)] = 0.0
        return moved

    def centre(self, matrix: Array) -> Array:
        """X P: every row without its mean in each group."""
        moved = self.relative(matrix)
        for cells in self.members:
            moved[:, cells] -= moved[:, cells].mean(axis=1, keepdims=True)
        return moved


def known_answers(queries: Workload) -> KnownAnswers:
    """The groups that public answers tell apart.

    Args:
        queries: K, whose answers are public.

    Raises:
        InvalidInputError: they do not tell how many records there are in each group, tell cells
            apart so far that nothing is left to protect, or have more than WRITTEN_CELLS cells.
    """
    name, n = queries.name, queries.shape[1]
    if n > WRITTEN_CELLS:
        return KnownAnswers(name, _of_total(queries))
    columns, groups = np.unique(queries.to_dense(), axis=1, return_inverse=True)
    if columns.shape[1] == n > 1:
        raise InvalidInputError(
            f"the answers to {name!r} tell all cells apart: replacing a record would change them,"
            " and nothing would be protected; give known answers that tell less"
        )
    values = np.linalg.svd(columns, compute_uv=False)
    rank = int((values > DEPENDENT * values[0]).sum())
    if rank < columns.shape[1]:
        raise InvalidInputError(
            f"the answers to {name!r} do not tell how many records there are in each of the"
            f" {columns.shape[1]} groups of cells that they count alike, so that no replaced"
            " record accounts for what they leave open; give a partition of the cells, such as"
            " 'total' or one table (the table of several attributes, not several tables)"
        )
    return KnownAnswers(name, groups.ravel().astype(np.intp))


def _of_total(queries: Workload) -> Indices:
    """A single group, for a total over many cells."""
    m, n = queries.shape
    try:
        row = queries.rmatvec(np.ones(1)) if m == 1 else np.arange(2.0)
    except MemoryError:
        row = np.arange(2.0)
    if row.min() != row.max() or row[0] == 0:
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells can be the total alone; take"
            " 'total', or fewer cells"
        )
    return np.zeros(n, dtype=np.intp)
