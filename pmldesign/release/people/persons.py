"""Which rows of a person are kept, by something that depends on that person's rows alone.

With h a hash under a key that is drawn afresh and kept nowhere, and up to k rows of a person i:

    any rows                  those with the least (r, h(i, cell)), r the equal rows before it
    one for each cell         one of each cell, the k cells of least h(i, cell)
    one for each value y      that of least h(i, cell) of each y, the k values of least h(i, y)

What is kept of some rows is what is kept of what was kept before, and of the rest: rows come in
batches, and memory is k rows for each person. A row of a value that is dropped is none.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import Integers
from pmldesign_solvers.operators.operator import Indices

MERGED = 2**22
"""Rows, at least, that are looked at together with those that were kept."""
MOST_CELLS = 2**62
"""Cells have a number each."""

Columns = tuple[NDArray[Any], ...]
"""Person, hash of the class, hash of the cell, and cell of each row."""


class KeptRows:
    """The rows of people that are kept, batch after batch.

    Args:
        schema: with the columns of a person.
        key: four numbers, for tests alone; they are drawn from the operating system.

    Raises:
        InvalidInputError: the schema has too many cells.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...] | None = None) -> None:
        import polars as pl

        if schema.cells > MOST_CELLS:
            raise InvalidInputError(
                "rows of people with an identifier are kept in at most 2^62 cells; leave attributes"
                " out of the schema"
            )
        self._schema, self._times = schema, schema.rows_per_person
        self._key = key or tuple(secrets.randbits(64) for _ in range(4))
        ids = {f"p{number}": pl.String for number in range(len(schema.person))}
        self._names = list(ids)
        self._people = pl.DataFrame(schema={**ids, "who": pl.UInt32})
        self._kept = self._none()
        self._new: list[Columns] = []

    def add(self, ids: Any, cells: Integers) -> None:
        """Rows: the data frame of what tells people apart, and the numbers of the cells.

        Rows without a cell have a negative number.
        """
        import polars as pl

        rows = ids.with_columns(pl.Series("cell", cells)).filter(pl.col("cell") >= 0)
        names = self._names
        there = self._people.select(names)
        fresh = rows.select(names).unique().join(there, on=names, how="anti")
        begin = len(self._people)
        codes = pl.Series("who", np.arange(begin, begin + len(fresh)), dtype=pl.UInt32)
        self._people = self._people.vstack(fresh.with_columns(codes))
        rows = rows.join(self._people, on=names, how="left", maintain_order="left")
        inside, classes = np.zeros(len(rows), dtype=np.uint64), pl.col("cell")
        hashed = pl.struct([*names, "cell"]).hash(*self._key).alias("hash")
        sizes = self._classes()
        if sizes is not None:
            inside = rows.select(hashed)["hash"].to_numpy()
            classes = pl.col("cell") // sizes[1] % sizes[0]
        order = rows.with_columns(classes.alias("cell")).select(hashed)["hash"].to_numpy()
        columns = rows["who"].to_numpy(), order, inside, rows["cell"].to_numpy()
        self._new.append(columns)
        if sum(len(part[0]) for part in self._new) >= max(MERGED, len(self._kept[0])):
            self._merge()

    def cells(self, *, exactly: bool = False) -> tuple[Integers, Integers]:
        """The cells of the rows that are kept, each once, and how many there are in each.

        Args:
            exactly: whether everybody has to have k rows.

        Raises:
            InvalidInputError: somebody has not.
        """
        self._merge()
        if exactly:
            short = np.bincount(self._kept[0], minlength=len(self._people)) != self._times
            if short.any():
                raise InvalidInputError(
                    f"under replace everybody has exactly {self._times} rows, and {short.sum()}"
                    f" of {len(short)} people have fewer; take add-remove neighbours, for which"
                    f" {self._times} is the most"
                )
        cells, counts = np.unique(self._kept[3], return_counts=True)
        return cells, counts.astype(np.int64)

    def _classes(self) -> tuple[int, int] | None:
        """Y and C where a person has one row for each of Y values; else None."""
        schema = self._schema
        if schema.one_per is None or schema.one_per not in schema.names:
            return None
        place = schema.names.index(schema.one_per)
        after = int(np.prod(schema.sizes[place + 1 :], dtype=object))
        return schema.sizes[place], after

    def _none(self) -> Columns:
        types = (np.uint32, np.uint64, np.uint64, np.int64)
        return tuple(np.zeros(0, dtype=kind) for kind in types)

    def _merge(self) -> None:
        """Keep of all rows what is to be kept."""
        parts = [self._kept, *self._new]
        self._new = []
        kept = tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
        who, order, inside, _ = kept
        kept = _taken(kept, np.lexsort((inside, order, who)))
        who, order, inside, _ = kept
        equal = np.zeros(len(who), dtype=bool)
        equal[1:] = (who[1:] == who[:-1]) & (order[1:] == order[:-1])
        if self._schema.one_per is not None:
            kept = _taken(kept, ~equal)
        else:
            kept = _taken(kept, np.lexsort((order, _places(~equal), who)))
        first = np.ones(len(kept[0]), dtype=bool)
        first[1:] = kept[0][1:] != kept[0][:-1]
        self._kept = _taken(kept, _places(first) < self._times)


def _taken(columns: Columns, which: NDArray[Any]) -> Columns:
    return tuple(column[which] for column in columns)


def _places(first: NDArray[np.bool_]) -> Indices:
    """The place of each row in its run, from 0; `first` is true where a run begins."""
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    return np.arange(len(first)) - np.repeat(starts, lengths)
