r"""Exact numbers in a release: the numbers of records that the guarantee declares public.

Under replace that is N, the number of all records. Given invariants (`workloads.public`) it is the
number N_g of records in each group of cells that the invariants count equally, and so the
invariants themselves. With n_g cells in group g

    x = sum_g c_g N_g / n_g 1_g + P x,

and the noisy measurements are of P x only. Groups of a partition have c_g = 1; several public
tables have the cells of each as groups, and the cells of their common tables as groups with other
c_g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmldesign.mechanisms.integers import Integers
from pmldesign.releases.people.schema import Schema
from pmldesign.workloads import Workload
from pmldesign.workloads.nested.regions import tops_of
from pmldesign.workloads.nested.tables import as_regions
from pmldesign.workloads.public import Public
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Flags, Indices
from pmldesign_solvers.trees.tree import Tree

if TYPE_CHECKING:
    from pmldesign.workloads.nested.regions import RegionsWorkload

FITTING_ROUNDS = 1000
"""Of iterative proportional fitting, at most."""
FITTED = 1e-9
"""Records by which fitted sums may be off."""
LEAST_CELL = 1e-6
"""Records in a cell before it is fitted to several tables."""
SAME = 1e-12
"""Differences of coefficients, relative to the largest, that are rounding."""


@dataclass(frozen=True, eq=False)
class PublicCounts:
    """Groups of cells with public numbers of records.

    Attributes:
        groups: the cells of each group; together all cells, each once for every public table.
        counts: N_g, shape (groups,).
        shares: c_g, shape (groups,); none for those of a partition.
    """

    groups: tuple[Indices | slice, ...]
    counts: tuple[int, ...]
    shares: tuple[int, ...] = ()

    @property
    def partition(self) -> bool:
        """Whether every cell is in one group."""
        return not self.shares

    @property
    def total(self) -> int:
        """N."""
        return sum(map(math.prod, zip(self.counts, self._shares, strict=True)))

    @property
    def _shares(self) -> tuple[int, ...]:
        return self.shares or (1,) * len(self.groups)

    def spread_out(self, cells: int) -> tuple[Integers, int]:
        """D sum_g c_g N_g / n_g 1_g in whole numbers, shape (cells,), and D."""
        sizes = [len(range(cells)[g]) if isinstance(g, slice) else len(g) for g in self.groups]
        common = math.lcm(*sizes)
        sums = np.zeros(cells, dtype=object)
        for group, n, size, c in zip(self.groups, self.counts, sizes, self._shares, strict=True):
            sums[group] += c * n * (common // size)
        return sums, common

    def completed(self, cells: Array) -> Array:
        """Cells with these sums, for an estimate of P x."""
        whole = np.array(cells, dtype=np.float64)
        for group, count, c in zip(self.groups, self.counts, self._shares, strict=True):
            whole[group] += c * (count - cells[group].sum()) / cells[group].size
        return whole

    def scaled(self, cells: Array) -> Array:
        """Cells of at least 0 with these sums, in proportion to the given ones.

        Several tables take their turns (iterative proportional fitting).
        """
        whole = np.array(cells, dtype=np.float64)
        if not self.partition:
            whole += LEAST_CELL  # a table without a cell of some sum would have none
        for _ in range(1 if self.partition else FITTING_ROUNDS):
            for group, count in zip(self.groups, self.counts, strict=True):
                mass, size = float(whole[group].sum()), whole[group].size
                whole[group] = whole[group] * (count / mass) if mass > 0 else count / size
            if np.abs(self.excess(whole)).max() <= FITTED:
                break
        return whole

    def excess(self, cells: Array) -> Array:
        """By how much sums of cells are above N_g, shape (groups,)."""
        sums = [
            float(cells[group].sum()) - n for group, n in zip(self.groups, self.counts, strict=True)
        ]
        return np.array(sums)

    def in_cells(self, values: Array, cells: int) -> Array:
        """The value of each group in all of its cells, added up, shape (cells,)."""
        spread = np.zeros(cells)
        for group, value in zip(self.groups, values, strict=True):
            spread[group] += value
        return spread

    def answers(self, matrix: Array) -> NDArray[np.bool_]:
        """Which rows have a single coefficient in each group, shape (m,): these are public.

        Or are sums of such, of several tables.
        """
        means = np.zeros_like(matrix, dtype=np.float64)
        for group, c in zip(self.groups, self._shares, strict=True):
            means[:, group] += c * matrix[:, group].mean(axis=1, keepdims=True)
        close = SAME * np.abs(matrix).max(axis=1, initial=0.0, keepdims=True)
        return np.asarray((np.abs(matrix - means) <= close).all(axis=1))

    def largest(self, queries: Workload) -> Array:
        """The largest possible value of every answer, if no coefficient is negative; shape (m,)."""
        if len(self.groups) == 1 or queries.shape[1] > WRITTEN_CELLS or not self.partition:
            return queries.row_sizes() * self.total
        matrix = queries.to_dense()
        most = [matrix[:, group].max(axis=1) for group in self.groups]
        return np.stack(most, axis=1) @ np.array(self.counts, dtype=np.float64)

    def tops(self, tree: Tree) -> Flags | None:
        """The places whose sums are public, shape (P,); None if groups are not places."""
        if not self.partition:
            return None
        groups = self.in_cells(np.arange(float(len(self.groups))), tree.cells).astype(np.intp)
        return tops_of(tree, Public("groups", groups=groups))

    def rows(self, schema: Schema | None) -> list[dict[str, str | int]]:
        """The public table of the invariants: labels, cells (from 0) and records of groups."""
        listed = [
            (group, count)
            for group, count in zip(self.groups, self.counts, strict=True)
            if not isinstance(group, slice)
        ]
        return [
            _beside(_labels(schema, group), cells=_ranges(group), records=count)
            for group, count in sorted(listed, key=lambda entry: int(entry[0][0]))
        ]


def _beside(labels: dict[str, str], **numbers: str | int) -> dict[str, str | int]:
    """Labels and numbers; a name that an attribute already has gets a mark behind it."""
    return {**labels, **{name + "_" * (name in labels): n for name, n in numbers.items()}}


def groups_of(public: Public) -> tuple[tuple[Indices | slice, ...], tuple[int, ...]]:
    """The groups whose numbers of records are public, and c_g; both empty without any."""
    if not public.several:
        return public.members, ()
    groups: list[Indices | slice] = []
    shares: list[int] = []
    numbers = np.arange(math.prod(public.sizes)).reshape(public.sizes)
    for attributes, c in public.terms:
        first = [i in attributes for i in range(len(public.sizes))]
        order = np.argsort(np.logical_not(first), kind="stable")
        cells = math.prod(public.sizes[i] for i in attributes)
        groups += list(numbers.transpose(order).reshape(cells, -1))
        shares += [c] * cells
    return tuple(groups), tuple(shares)


def counted(public: Public, counts: Integers) -> PublicCounts | None:
    """The public numbers in a histogram; None if nothing is public."""
    groups, shares = groups_of(public)
    if not groups:
        return None
    return PublicCounts(groups, tuple(int(counts[group].sum()) for group in groups), shares)


def regions_of(workload: Workload, public: PublicCounts | None) -> RegionsWorkload | None:
    """The workload if it counts regions and the invariants are sums of regions; else None."""
    regions = as_regions(workload)
    if regions is None or (public is not None and public.tops(regions.tree) is None):
        return None
    return regions


def _labels(schema: Schema | None, group: Indices) -> dict[str, str]:
    """What the values of each attribute in a group are called together."""
    if schema is None:
        return {}
    labels = {}
    cells = group if schema.possible is None else schema.possible[group]
    places = np.unravel_index(cells, schema.sizes)
    for attribute, values in zip(schema.attributes, places, strict=True):
        present = np.unique(values)
        labels[attribute.name] = attribute.together(present)
    return labels


def _ranges(group: Indices) -> str:
    """Numbers of cells, "0-3 8-11"."""
    runs = np.split(group, np.flatnonzero(np.diff(group) > 1) + 1)
    ends = ((int(run[0]), int(run[-1])) for run in runs)
    return " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ends)
