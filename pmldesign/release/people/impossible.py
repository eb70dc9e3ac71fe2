"""Combinations of values that cannot be: structural zeros, which are no cells.

    "impossible": [{"age": "0-14", "married": "yes"}, {"sex": "M", "pregnant": ["yes", "unknown"]}]

An entry names attributes, with a value or a list of values for each; what has one of these in all
of them cannot be. Nothing is measured of it, workloads, strategies and bounds are about the other
cells, and a query of impossible cells alone is answered by exactly 0. Rows of the data that have
such values are refused, or dropped where "outside" of the whole schema is "drop".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.attribute import Attribute, key_of, text_of
from pmldesign.release.people.numbers import Number
from pmldesign.strategies.whole.integers import Integers
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import WRITTEN_CELLS, check_entries
from pmldesign.workloads.display import count_text
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS, union_of
from pmldesign.workloads.union import stacked
from pmldesign_solvers.operators.operator import Indices

Combination = tuple[tuple[int, tuple[int, ...]], ...]
"""The numbers of attributes, and of values of each."""


def as_impossible(entries: Any, attributes: Sequence[Attribute]) -> tuple[Combination, ...]:
    """The combinations that a list names.

    Raises:
        InvalidInputError: it is no such list, or names what the attributes do not have.
    """
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) and e for e in entries):
        raise InvalidInputError(
            "impossible must be a list of combinations, such as"
            f' [{{"age": "0-14", "married": "yes"}}], got {entries!r:.60}'
        )
    names = [attribute.name for attribute in attributes]
    if entries and any(attribute.places for attribute in attributes):
        raise InvalidInputError(
            f"impossible is for attributes without levels, and {names[0]!r} has levels; leave"
            " impossible out, or make its places keys"
        )
    found = []
    for entry in entries:
        unknown = [name for name in entry if name not in names]
        if unknown:
            raise InvalidInputError(
                f"impossible: the schema has no attribute {unknown[0]!r:.60}; it has"
                f" {', '.join(names)}"[:300]
            )
        named = ((names.index(name), values) for name, values in entry.items())
        found.append(tuple(sorted((i, _numbers(attributes[i], values)) for i, values in named)))
    return tuple(found)


def _numbers(attribute: Attribute, values: Any) -> tuple[int, ...]:
    """The numbers of the values of an attribute."""
    if isinstance(attribute, Number):
        raise InvalidInputError(
            f"impossible: {attribute.name!r} has low and high, and what cannot be is about"
            " attributes with keys or cuts; leave it out"
        )
    places = {key_of(label): number for number, label in enumerate(attribute.labels)}
    listed = values if isinstance(values, list) else [values]
    texts = [text_of(value) for value in listed]
    wrong = [text for text in texts if key_of(text) not in places]
    if wrong or not texts:
        raise InvalidInputError(
            f"impossible: {attribute.name!r} has no value {(wrong or [''])[0]!r:.60}; it has"
            f" {', '.join(attribute.labels)}"[:300]
        )
    return tuple(sorted({places[key_of(text)] for text in texts}))


def possible_cells(sizes: Sequence[int], combinations: Sequence[Combination]) -> Indices:
    """The numbers of the cells that can be, in order.

    Raises:
        InvalidInputError: there are none, or too many.
    """
    cells = math.prod(sizes)
    if cells > MAX_PRODUCT_CELLS:
        raise _too_many(cells)
    able = np.ones(sizes, dtype=bool)
    for combination in combinations:
        values = dict(combination)
        able[np.ix_(*(values.get(i, range(size)) for i, size in enumerate(sizes)))] = False
    found = np.flatnonzero(able)
    if not found.size:
        raise InvalidInputError("impossible: no cell is left that can be; name fewer combinations")
    if found.size > WRITTEN_CELLS:
        raise _too_many(found.size)
    return found


def _too_many(cells: int) -> InvalidInputError:
    return InvalidInputError(
        f"impossible is for at most {WRITTEN_CELLS} cells that can be, here are"
        f" {count_text(cells)}; leave attributes out of the schema, or impossible"
    )


def impossible_rows(combinations: Sequence[Combination], codes: Integers) -> NDArray[np.bool_]:
    """Which rows have a combination that cannot be, for numbers of values (attributes, rows)."""
    nowhere = np.zeros(codes.shape[1], dtype=bool)
    hold = (
        reduce(np.logical_and, (np.isin(codes[i], values) for i, values in combination))
        for combination in combinations
    )
    return reduce(np.logical_or, hold, nowhere)


def on_cells(workload: Workload, cells: Indices) -> Workload:
    """The queries of a workload on some of its cells, part by part."""
    parts: list[Workload] = []
    for part in stacked(workload):
        check_entries(part.name, part.shape)
        kept = DenseWorkload(part.to_dense()[:, cells], name=part.name, copy=False)
        kept.label = part.row_label
        parts.append(kept)
    together = union_of(parts, workload.name)
    together.name = workload.name
    return together
