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
from pmldesign.workloads.base import MAX_ENTRIES, Workload
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
            apart so far that nothing is left to protect.
    """
    name, n = queries.name, queries.shape[1]
    if tells_total(queries):
        return KnownAnswers(name, np.zeros(n, dtype=np.intp))
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


def tells_total(queries: Workload) -> bool:
    """Whether the only query sums over all cells, with one weight."""
    m, n = queries.shape
    if m > 1 or n > MAX_ENTRIES:
        return m == 1 and all(map(tells_total, getattr(queries, "factors", ())))
    row = queries.rmatvec(np.ones(1))
    return bool(row[0] != 0 and row.min() == row.max())
