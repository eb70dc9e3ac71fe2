"""From people to the histogram: how many rows fall into each cell of the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.workloads import read_matrix_file
from pmldesign.release.noise.integers import Integers
from pmldesign.release.people.people import Batch, batches
from pmldesign.release.people.schema import Schema

MOST_PEOPLE = 2**53
"""Sums of counts up to here are exact in floating point."""


def count_people(data: Any, schema: Schema) -> Integers:
    """The histogram of people, shape (cells,), whole numbers.

    Args:
        data: a path (.csv, .parquet, .arrow) or a data frame.
        schema: its attributes.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: a missing column, or a value outside in the row and column named.
    """
    histogram = np.zeros(schema.cells, dtype=np.int64)
    codes: list[dict[Any, int]] = [{} for _ in schema.attributes]
    cuts = {a.name: a.cuts for a in schema.attributes if a.cuts is not None}
    for batch in batches(data, schema.names, cuts):
        _add(histogram, batch, schema, codes)
    return histogram


def _add(histogram: Integers, batch: Batch, schema: Schema, codes: list[dict[Any, int]]) -> None:
    problems: list[tuple[int, str]] = []
    for *values, count, first in batch.rows:
        cell = 0
        for attribute, known, value in zip(schema.attributes, codes, values, strict=True):
            try:
                code = known.get(value)
                if code is None:
                    code = known[value] = attribute.code(value)
            except (InvalidInputError, TypeError) as error:
                kind = f"a {type(value).__name__} is neither text nor a number"
                why = kind if isinstance(error, TypeError) else error  # lists have no hash
                problems.append((first, f"row {first}, column {attribute.name!r}: {why}"))
                break
            if code < 0:
                break
            cell = cell * len(attribute.labels) + code
        else:
            histogram[cell] += count
    if problems:
        raise InvalidInputError(min(problems)[1])
    for known in codes:
        if len(known) > 10**6:  # a column of measured values: do not remember them all
            known.clear()


def read_histogram(data: Any, cells: int) -> Integers:
    """The counts in a file (.npy, .npz, .csv, .mtx) or an array: one row, one column or a vector.

    Raises:
        FileError: the file cannot be read.
        InvalidInputError: other than `cells` whole numbers from 0, or over 2^53 people.
    """
    if isinstance(data, str | Path):
        return read_matrix_file(data, lambda found, _name: _counts(found, "the histogram", cells))
    return _counts(data, "the histogram", cells)


def _counts(found: Any, name: str, cells: int) -> Integers:
    if hasattr(found, "toarray"):
        found = found.toarray()
    try:
        values = np.asarray(found)
    except ValueError:
        raise InvalidInputError(
            f"{name} must be a vector of counts, got rows of several lengths"
        ) from None
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must hold counts, got entries of type {values.dtype}")
    if values.ndim > 2 or (values.ndim == 2 and 1 not in values.shape) or values.size != cells:
        raise InvalidInputError(
            f"{name} must be one row or column of {cells} counts, one for each cell, got shape "
            f"{values.shape}; for a table of people give --schema"
        )
    values = values.ravel()
    whole = (values >= 0) & (values < MOST_PEOPLE) & (values == np.floor(values))
    if not whole.all():
        cell = int(whole.argmin())
        raise InvalidInputError(
            f"{name}: cell {cell} (from 0) has {values[cell]:g}; counts are whole numbers from 0, "
            "together below 2^53"
        )
    if float(values.sum(dtype=np.float64)) >= MOST_PEOPLE:
        raise InvalidInputError(f"{name} counts more than the 2^53 people that fit")
    return values.astype(np.int64)
