r"""Strategies of tables as strategies of whole numbers; the tables are all that they need.

    weighted      the tables by S, each multiplied by c_S = round(2^k theta_S)
    residuals     the contrasts (1, ..., 1, -k, 0, ...) along every axis of T, each multiplied by
                  c = round(2^k g), g the factor that makes it a row of R

The rows are those of R, with units that differ by 2^-k. Cells that differ in all attributes are the
farthest in weighted tables: of two such columns every entry differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.whole.integers import Integers, contrasts, multiples, scaled
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign_solvers.structure import kronecker

if TYPE_CHECKING:
    from pmldesign.strategies.tables.strategy import TablesStrategy
    from pmldesign.strategies.tables.weighted import WeightedTablesStrategy

Sets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class TableCounts:
    """The tables of people, where the histogram would be too large.

    Attributes:
        tables: for each set of attributes the counts, the last attribute fastest.
        total: of each of them: the number of records, times D where counts are parts of 1/D.
    """

    tables: list[Integers]
    total: int


def weighted_lattice(strategy: WeightedTablesStrategy, bits: int) -> Lattice:
    """c_S times the table by S, for every S of the strategy."""
    factors, units = multiples(strategy.weights, bits)
    cells = MarginalsWorkload(strategy.sizes, strategy.subsets).table_queries
    repeated = np.repeat(factors, cells)

    def of_tables(tables: Sequence[Integers]) -> Integers:
        return scaled(np.concatenate(tables), repeated)

    numbers = [int(factor) for factor in factors]
    wide = [
        number
        for number, subset in zip(numbers, strategy.subsets, strict=True)
        if any(strategy.sizes[i] > 1 for i in subset)
    ]
    lengths = {
        (Neighbours.ADD_REMOVE, Noise.LAPLACE): sum(numbers),
        (Neighbours.ADD_REMOVE, Noise.GAUSSIAN): sum(number**2 for number in numbers),
        (Neighbours.REPLACE, Noise.LAPLACE): 2 * sum(wide),
        (Neighbours.REPLACE, Noise.GAUSSIAN): 2 * sum(number**2 for number in wide),
    }
    tables = by_tables(strategy.sizes, strategy.subsets, of_tables)
    return Lattice(strategy, strategy, np.repeat(units, cells), lengths=lengths, **tables)


def residual_lattice(strategy: TablesStrategy, bits: int) -> Lattice:
    """Multiples of the contrasts of the table by T, for every T of a strategy of contrasts."""
    roots = []
    for residual, precision in zip(strategy.residuals, strategy.precisions, strict=True):
        k = [np.arange(1.0, strategy.sizes[i]) for i in residual]
        lengths = [np.sqrt((len(j) + 1) / len(j)) / np.sqrt(j * (j + 1)) for j in k]
        roots.append(math.sqrt(precision) * kronecker.outer(lengths))
    factors, units = multiples(np.concatenate(roots), bits)

    def of_tables(tables: Sequence[Integers]) -> Integers:
        parts = []
        for residual, table in zip(strategy.residuals, tables, strict=True):
            shape = [strategy.sizes[i] for i in residual]
            parts.append(kronecker.apply([contrasts] * len(shape), shape, table))
        return scaled(np.concatenate(parts), factors)

    tables = by_tables(strategy.sizes, strategy.residuals, of_tables)
    return Lattice(strategy, strategy, units, **tables)


def by_tables(
    sizes: Sequence[int], subsets: Sets, of_tables: Callable[[Sequence[Integers]], Integers]
) -> dict[str, Any]:
    """What a `Lattice` has of which tables are all that is measured."""
    image = partial(table_counts, sizes, subsets)
    tables = {"sizes": sizes, "subsets": subsets, "of_tables": of_tables}
    return {"image": lambda x: of_tables(image(x)), **tables}


def table_counts(sizes: Sequence[int], subsets: Sets, x: Integers) -> list[Integers]:
    """The tables of a histogram of fewer than 2^53 people, whose sums are exact."""
    tables = MarginalsWorkload(sizes, subsets)
    counts = tables.split(tables.matvec(x.astype(np.float64)))
    return [np.rint(table).astype(np.int64) for table in counts]


def table_of_ones(sizes: Sequence[int], subset: Sequence[int]) -> Integers:
    """The table of a histogram of ones, whose numbers may have any number of digits."""
    cells = math.prod(sizes[i] for i in subset)
    return np.full(cells, math.prod(sizes) // cells, dtype=object)
