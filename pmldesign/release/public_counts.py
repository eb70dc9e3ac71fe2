r"""What a release may say exactly: the numbers of records that the guarantee calls public.

Under replace that is N, the number of all records; beside known answers (`workloads.public`) it is
the number N_g of records in each group of cells that they count alike, and with these the known
answers themselves. With n_g cells in group g

    x = sum_g N_g / n_g 1_g + P x,

and what is measured with noise is of P x alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import Integers
from pmldesign.workloads import Workload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array, Indices


@dataclass(frozen=True, eq=False)
class PublicCounts:
    """Groups of cells with public numbers of records.

    Attributes:
        groups: the cells of each group; together all cells, each once.
        counts: N_g, shape (groups,).
    """

    groups: tuple[Indices | slice, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """N."""
        return sum(self.counts)

    def spread_out(self, cells: int) -> tuple[Integers, int]:
        """D sum_g N_g / n_g 1_g in whole numbers, shape (cells,), and D."""
        sizes = [len(range(cells)[g]) if isinstance(g, slice) else len(g) for g in self.groups]
        common = math.lcm(*sizes)
        shares = np.empty(cells, dtype=object)
        for group, count, size in zip(self.groups, self.counts, sizes, strict=True):
            shares[group] = count * (common // size)
        return shares, common

    def completed(self, cells: Array) -> Array:
        """Cells with these sums, for an estimate of P x."""
        whole = np.array(cells, dtype=np.float64)
        for group, count in zip(self.groups, self.counts, strict=True):
            whole[group] += (count - whole[group].sum()) / whole[group].size
        return whole

    def scaled(self, cells: Array) -> Array:
        """Cells of at least 0 with these sums, in proportion to the given ones."""
        whole = np.array(cells, dtype=np.float64)
        for group, count in zip(self.groups, self.counts, strict=True):
            mass = float(whole[group].sum())
            whole[group] = whole[group] * (count / mass) if mass > 0 else count / whole[group].size
        return whole

    def excess(self, cells: Array) -> Array:
        """By how much sums of cells are above N_g, shape (groups,)."""
        sums = [
            float(cells[group].sum()) - n for group, n in zip(self.groups, self.counts, strict=True)
        ]
        return np.array(sums)

    def in_cells(self, values: Array, cells: int) -> Array:
        """The value of each group in all of its cells, shape (cells,)."""
        spread = np.empty(cells)
        for group, value in zip(self.groups, values, strict=True):
            spread[group] = value
        return spread

    def answers(self, matrix: Array) -> NDArray[np.bool_]:
        """Which rows have a single coefficient in each group, shape (m,): these are public."""
        same = np.ones(len(matrix), dtype=bool)
        for group in self.groups:
            block = matrix[:, group]
            same &= (block == block[:, :1]).all(axis=1)
        return same

    def largest(self, queries: Workload) -> Array:
        """What every answer is at most, where no coefficient is negative; shape (m,)."""
        if len(self.groups) == 1 or queries.shape[1] > WRITTEN_CELLS:
            return queries.row_sizes() * self.total
        matrix = queries.to_dense()
        most = [matrix[:, group].max(axis=1) for group in self.groups]
        return np.stack(most, axis=1) @ np.array(self.counts, dtype=np.float64)

    def rows(self, schema: Schema | None) -> list[dict[str, str | int]]:
        """The public table beside known answers: labels, cells (from 0) and records of groups."""
        listed = [
            (group, count)
            for group, count in zip(self.groups, self.counts, strict=True)
            if not isinstance(group, slice)
        ]
        return [
            {**_labels(schema, group), "cells": _ranges(group), "records": count}
            for group, count in sorted(listed, key=lambda entry: int(entry[0][0]))
        ]


def counted(groups: tuple[Indices | slice, ...], counts: Integers) -> PublicCounts | None:
    """The public numbers in a histogram; None where nothing is public."""
    if not groups:
        return None
    return PublicCounts(groups, tuple(int(counts[group].sum()) for group in groups))


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
