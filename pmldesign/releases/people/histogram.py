"""From people to counts: how many rows fall into each cell of the schema, or of its tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.files.workloads import read_matrix_file
from pmldesign.mechanisms.integers import Integers
from pmldesign.mechanisms.lattice import TableCounts
from pmldesign.releases.people.answers import MOST_PEOPLE, answer_of
from pmldesign.releases.people.schema import Schema, read_schema
from pmldesign.releases.people.sources import is_people, source_of
from pmldesign.workloads.display import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS


def count_people(
    data: Any, schema: Schema, *, exactly: bool = False, key: str | None = None
) -> Integers:
    """The histogram of people, shape (cells,), in whole multiples of 1/D (`Schema.denominator`).

    Args:
        data: a path, a data frame, a table of DuckDB, or people who were counted (`source_of`).
        schema: its attributes; with the columns of a person at most k rows of each are counted.
        exactly: whether each person has to have k rows.
        key: of the hash that selects rows of a person; None for a random one.

    Raises:
        FileError: the data cannot be read.
        InvalidInputError: a missing column, or a value outside in the row and column named.
    """
    every = [range(len(schema.sizes))]
    (histogram,) = count_tables(data, schema, every, exactly=exactly, key=key).tables
    return histogram if schema.possible is None else histogram[schema.possible]


def counted_sample(path: Path, schema: Path) -> Integers | None:
    """The people of a public sample in each cell; None for a file without the columns of any.

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: as `count_people`; or the schema has numbers, or too many cells.
    """
    form = read_schema(schema)
    if not is_people(path):
        return None
    source = source_of(path)
    if not {*form.columns} & {*source.columns}:
        return None
    if form.denominator > 1 or form.cells > MAX_PRODUCT_CELLS:
        why = "has numbers" if form.denominator > 1 else f"has {count_text(form.cells)} cells"
        raise InvalidInputError(
            f"a sample is counted by cells, and the schema {why}; take cuts in place of low and"
            " high, or leave attributes out"
        )
    return count_people(source, form)


def count_tables(
    data: Any,
    schema: Schema,
    subsets: Iterable[Sequence[int]],
    *,
    exactly: bool = False,
    key: str | None = None,
) -> TableCounts:
    """The tables of people by some sets of attributes; arguments and errors as `count_people`."""
    answer = answer_of(data, schema, exactly=exactly, key=key)
    total = int(answer.counts.sum())
    tables = []
    for subset in subsets:
        table = np.zeros(math.prod(schema.sizes[i] for i in subset), dtype=np.int64)
        places = np.zeros(len(answer.counts), dtype=np.int64)
        for i in subset:
            places = places * schema.sizes[i] + answer.codes[i]
        np.add.at(table, places, answer.counts)
        tables.append(table)
    return TableCounts(tables, total)


def read_histogram(data: Any, cells: int) -> Integers:
    """The counts in a file (.npy, .npz, .csv, .mtx) or an array: one row, one column or a vector.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: other than `cells` whole numbers from 0, or over 2^53 people.
    """
    if isinstance(data, str | Path):
        return read_matrix_file(
            data, lambda content, _name: _counts(content, "the histogram", cells)
        )
    return _counts(data, "the histogram", cells)


def _counts(content: Any, name: str, cells: int) -> Integers:
    if hasattr(content, "toarray"):
        content = content.toarray()
    values = real_numbers(name, content)
    if values.ndim > 2 or (values.ndim == 2 and 1 not in values.shape) or values.size != cells:
        raise InvalidInputError(
            f"{name} must be one row or column of {cells} counts, one for each cell, got shape "
            f"{values.shape}; for a table of people pass `schema`"
        )
    lines, values = values.shape, values.ravel()
    whole = (values >= 0) & (values < MOST_PEOPLE) & (values == np.floor(values))
    if not whole.all():
        cell = int(whole.argmin())
        raise InvalidInputError(
            f"{name}: cell {cell} (from 0{_place(lines, cell)}) has {values[cell]:g}; counts are "
            "whole numbers from 0, together below 2^53"
        )
    if float(values.sum(dtype=np.float64)) >= MOST_PEOPLE:
        raise InvalidInputError(f"{name} counts more than the 2^53 people that fit")
    return values.astype(np.int64)


def _place(shape: tuple[int, ...], cell: int) -> str:
    """Row and column of a cell in a file of one row or one column."""
    if len(shape) < 2:
        return ""
    row, column = divmod(cell, shape[1])
    return f": row {row + 1}, column {column + 1}"
