"""From people to counts: how many rows fall into each cell of the schema, or of its tables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.arguments import real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.files.workloads import read_matrix_file
from pmldesign.release.people.attribute import UNCERTAIN, Attribute
from pmldesign.release.people.numbers import Number
from pmldesign.release.people.people import (
    SCANNERS,
    CountedPeople,
    Rows,
    batches,
    column_names,
    row_batches,
    rows_of,
)
from pmldesign.release.people.persons import KeptRows
from pmldesign.release.people.schema import Schema, impossible_rows, read_schema
from pmldesign.strategies.whole.integers import EXACT_INT64, Integers
from pmldesign.strategies.whole.tables import TableCounts
from pmldesign.workloads.display import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS

MOST_PEOPLE = 2**53
"""Sums of counts up to here are exact in floating point."""

MOST_VALUES = 10**6
"""Of a column of measured values not all are remembered."""

Key = tuple[type, str]
"""A value: its type and its text."""


def count_people(data: Any, schema: Schema, *, exactly: bool = False) -> Integers:
    """The histogram of people, shape (cells,), in whole multiples of 1/D (`Schema.denominator`).

    Args:
        data: a path (.csv, .parquet, .arrow) or a data frame.
        schema: its attributes; with the columns of a person at most k rows of each are counted.
        exactly: whether each person has to have k rows.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: a missing column, or a value outside in the row and column named.
    """
    every = [range(len(schema.sizes))]
    (histogram,) = count_tables(data, schema, every, exactly=exactly).tables
    return histogram if schema.possible is None else histogram[schema.possible]


def counted_sample(path: Path, schema: Path) -> Integers | None:
    """The people of a public sample in each cell; None for a file without the columns of any.

    Raises:
        FileError: a file cannot be read.
        InvalidInputError: as `count_people`; or the schema has numbers, or too many cells.
    """
    form = read_schema(schema)
    if path.suffix.lower() not in SCANNERS or not {*form.columns} & {*column_names(path)}:
        return None
    if form.denominator > 1 or form.cells > MAX_PRODUCT_CELLS:
        why = "has numbers" if form.denominator > 1 else f"has {count_text(form.cells)} cells"
        raise InvalidInputError(
            f"a sample is counted by cells, and the schema {why}; take cuts in place of low and"
            " high, or leave attributes out"
        )
    return count_people(path, form)


def count_tables(
    data: Any, schema: Schema, subsets: Iterable[Sequence[int]], *, exactly: bool = False
) -> TableCounts:
    """The tables of people by some sets of attributes; arguments and errors as `count_people`."""
    if isinstance(data, CountedPeople):
        if exactly and schema.person and schema.rows_per_person > 1:
            raise InvalidInputError(
                "that everybody has exactly so many rows is not seen in counts; take add-remove"
                " neighbours, or release the rows themselves"
            )
        schema = data.schema
    sets = [tuple(subset) for subset in subsets]
    sizes = [math.prod(schema.sizes[i] for i in subset) for subset in sets]
    tables = [np.zeros(size, dtype=np.int64) for size in sizes]
    total = 0
    for codes, counts in _kept(data, schema, exactly) if schema.person else _rows(data, schema):
        total += int(counts.sum()) * schema.denominator
        if total >= EXACT_INT64:
            raise InvalidInputError(
                f"the counts are multiples of 1/{schema.denominator}, and so many of them do not "
                "fit into 64 bits; take a larger unit of the numbers in the schema"
            )
        for table, subset in zip(tables, sets, strict=True):
            for place, parts in _cells(schema, subset, codes, counts):
                np.add.at(table, place, parts)
    return TableCounts(tables, total)


def _cells(
    schema: Schema, subset: Sequence[int], codes: Integers, counts: Integers
) -> list[tuple[Integers, Integers]]:
    """Cells of a table that rows add to, and by how many parts of 1/D: mixtures multiply."""
    summed = math.prod(a.denominator for i, a in enumerate(schema.attributes) if i not in subset)
    cells = [(np.zeros(len(counts), dtype=np.int64), counts * summed)]
    for i in subset:
        attribute = schema.attributes[i]
        cells = [
            (place * len(attribute.labels) + value, parts * share)
            for place, parts in cells
            for value, share in attribute.spread(codes[i])
        ]
    return cells


def _rows(data: Any, schema: Schema) -> Iterator[tuple[Integers, Integers]]:
    """The codes of the values of rows, shape (attributes, rows), and how many there are."""
    codes_of: list[dict[Key, int]] = [{} for _ in schema.attributes]
    if schema.denominator > 1 and isinstance(data, str | Path):
        every = (rows for rows, _ in row_batches(data, schema))  # hardly any are alike
    else:
        counted = batches(data, schema.columns, schema.cuts)
        every = (rows_of(batch) for batch in counted if batch)
    for rows in every:
        coded = _coded(rows, schema, codes_of)
        kept = (coded >= 0).all(axis=0)
        yield coded[:, kept], rows.counts[kept]


def _kept(data: Any, schema: Schema, exactly: bool) -> Iterator[tuple[Integers, Integers]]:
    """The same of the rows that are kept of each person."""
    codes_of: list[dict[Key, int]] = [{} for _ in schema.attributes]
    people = KeptRows(schema)
    sizes = [attribute.code_count for attribute in schema.attributes]
    for rows, ids in row_batches(data, schema):
        coded = _coded(rows, schema, codes_of)
        cells = np.zeros(len(rows.counts), dtype=np.int64)
        for codes, size in zip(coded, sizes, strict=True):
            cells = cells * size + codes
        cells[(coded < 0).any(axis=0)] = -1
        people.add(ids, cells)
    cells, counts = people.cells(exactly=exactly)
    coded = np.zeros((len(sizes), len(cells)), dtype=np.int64)
    for place, size in reversed([*enumerate(sizes)]):
        cells, coded[place] = np.divmod(cells, size)
    yield coded, counts


def _coded(rows: Rows, schema: Schema, codes_of: list[dict[Key, int]]) -> Integers:
    """The codes of the values, shape (attributes, rows), negative where a row is dropped.

    Args:
        rows: at least one.
        schema: its attributes.
        codes_of: for each attribute the codes of values that were seen before.
    """
    problems, codes = [], []
    for attribute, numbers, column in zip(schema.attributes, codes_of, rows.columns, strict=True):
        if len(numbers) > MOST_VALUES:
            numbers.clear()
        found, refused = _codes(attribute, numbers, column.values)
        if refused:
            wrong = np.flatnonzero(np.isin(column.places, [*refused]))
            place = wrong[rows.numbers[wrong].argmin()]
            row, why = int(rows.numbers[place]), refused[int(column.places[place])]
            problems.append((row, f"row {row}, column {attribute.column!r}: {why}"))
        codes.append(found[column.places])
    if not problems:
        coded = np.array(codes)
        never = impossible_rows(schema.impossible, coded)
        if schema.drops or not never.any():
            coded[:, never] = -1
            return coded
        places = np.flatnonzero(never)
        place = places[rows.numbers[places].argmin()]
        row = int(rows.numbers[place])
        pairs = zip(schema.attributes, coded[:, place].tolist(), strict=True)
        told = ", ".join(
            f"{a.name}={a.labels[code]}" for a, code in pairs if not isinstance(a, Number)
        )
        problems.append((row, f"row {row}: {told} has what the schema calls impossible"))
    raise InvalidInputError(min(problems, key=lambda problem: problem[0])[1])


def _codes(
    attribute: Attribute, numbers: dict[Key, int], values: Sequence[Any]
) -> tuple[Integers, dict[int, str]]:
    """The codes of values, and what is wrong with those that have none."""
    codes, refused = attribute.certain_codes(values), {}
    for place in np.flatnonzero(codes == UNCERTAIN).tolist():
        value = values[place]
        key = _key(value)
        if not isinstance(value, Hashable):
            refused[place] = f"a {type(value).__name__} is neither text nor a number"
            continue
        try:
            code = numbers.get(key)
            codes[place] = numbers.setdefault(key, attribute.code(value)) if code is None else code
        except InvalidInputError as error:
            refused[place] = str(error)
    return codes, refused


def _key(value: Any) -> Key:
    """A value as a key of dictionaries: True == 1, and Decimal("1.0") == 1, are others."""
    return type(value), str(value)


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
            f"{values.shape}; for a table of people give --schema"
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
