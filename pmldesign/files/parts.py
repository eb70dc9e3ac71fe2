"""The parts of strategies in files: each part makes its arrays, and reads them back.

Numbers of things are whole numbers. Sets, such as the attributes of tables, are rows that are
filled up with -1; a list of matrices is `name_0`, `name_1` ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.strategies import Strategy
from pmldesign.workloads.running import sums_of
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import Nodes
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import Attributes

Arrays = dict[str, Any]


class Part(NamedTuple):
    """One argument of a strategy.

    Attributes:
        write: the arrays that a strategy has for it.
        read: makes the object from the arrays of a file, whose name comes first.
    """

    write: Callable[[Any], Arrays]
    read: Callable[[str, Archive], Any]


def plain(key: str, attribute: str = "") -> Part:
    """An array as it is, called as the attribute of the strategy or otherwise."""
    of = attrgetter(attribute or key)
    return Part(lambda strategy: {key: of(strategy)}, lambda _, arrays: arrays[key])


def whole(key: str, *attributes: str) -> Part:
    """Whole numbers, of an attribute or several, as a list."""
    of = attrgetter(*attributes or (key,))
    return Part(
        lambda strategy: {key: np.array(of(strategy), dtype=np.int64)},
        lambda _, arrays: whole_numbers(key, arrays[key]),
    )


def sets(key: str, attribute: str = "") -> Part:
    """Sets of numbers."""
    of = attrgetter(attribute or key)
    return Part(
        lambda strategy: {key: padded(of(strategy))}, lambda _, arrays: unpadded(key, arrays)
    )


def listed(key: str, attribute: str) -> Part:
    """A list of arrays."""
    of = attrgetter(attribute)
    return Part(
        lambda strategy: {f"{key}_{i}": array for i, array in enumerate(of(strategy))},
        lambda _, arrays: _numbered(key, arrays),
    )


def matrices(key: str, attribute: str) -> Part:
    """The matrices of strategies."""
    of, arrays = attrgetter(attribute), listed(key, attribute)
    return Part(
        lambda strategy: {f"{key}_{i}": part.matrix for i, part in enumerate(of(strategy))},
        lambda name, file: [Strategy(name, matrix) for matrix in arrays.read(name, file)],
    )


def _numbered(key: str, arrays: Archive) -> list[Array]:
    """The arrays `key_0`, `key_1` ...; ValueError if one of them is missing."""
    present = {text for text in arrays.names if re.fullmatch(rf"{key}_[0-9]+", text)}
    wanted = [f"{key}_{i}" for i in range(len(present))]
    missing = next((text for text in wanted if text not in present), None)
    if missing is not None:
        raise ValueError(f"there is no array {missing!r}, but others of that kind")
    return [arrays[text] for text in wanted]


def padded(rows: Sequence[Attributes]) -> Any:
    """Sets as rows of a matrix."""
    matrix = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int64)
    for row, members in zip(matrix, rows, strict=True):
        row[: len(members)] = members
    return matrix


def unpadded(key: str, arrays: Archive) -> list[Attributes]:
    """The sets in the rows of a matrix; ValueError if the entries are not integers."""
    matrix = arrays[key]
    whole_numbers(key, matrix)
    return [tuple(row[row >= 0].tolist()) for row in matrix]


def shortened(values: Array) -> Array:
    """A single number for equal ones: a file for a million steps has 8 to 32 MB."""
    return values[:1] if values.size and (values == values[0]).all() else values


def _sums_arrays(strategy: Any) -> Arrays:
    sums: RunningSums = strategy.sums
    return {
        "rates": shortened(sums.rates),
        "query_weights": shortened(np.sqrt(sums.query_squares)),
        "step_weights": shortened(np.sqrt(sums.step_squares)),
    }


def _read_sums(_name: str, arrays: Archive) -> RunningSums:
    names = ("epochs", "coefficients", "diagonal", "w")
    along = next((name for name in names if name in arrays), "w")
    n = whole_numbers(along, arrays[along])[0] if along == "epochs" else len(arrays[along])
    rates = np.broadcast_to(arrays["rates"], n - 1) if n > 1 else np.zeros(0)
    queries, steps = (
        np.broadcast_to(arrays[key], n).astype(float) for key in ("query_weights", "step_weights")
    )
    return sums_of(rates, queries, steps)


def _read_nodes(_name: str, arrays: Archive) -> Nodes:
    poles, weights = arrays["poles"], arrays["weights_of_poles"]
    order = np.argsort(poles)  # a sum over poles that increase
    return Nodes(poles[order], weights[order])


SUMS = Part(_sums_arrays, _read_sums)
"""The running sums that a stream is for."""
NODES = Part(
    lambda strategy: {"poles": strategy.nodes.poles, "weights_of_poles": strategy.nodes.weights},
    _read_nodes,
)


def coordinates_arrays(ordered: Mapping[int, Measured]) -> Arrays:
    """What is measured of ordered attributes."""
    attributes = sorted(ordered)
    rows = {f"coordinates_{k}": ordered[i].rows for k, i in enumerate(attributes)}
    return {"ordered": np.array(attributes, dtype=np.int64), **rows}


def read_coordinates(name: str, arrays: Archive, sizes: Sequence[int]) -> dict[int, Measured]:
    """The same from arrays.

    Raises:
        InvalidInputError: they do not fit the numbers of values.
    """
    coordinates = {}
    for k, i in enumerate(whole_numbers("ordered", arrays["ordered"])):
        rows = np.array(arrays[f"coordinates_{k}"], dtype=np.float64)
        if not 0 <= i < len(sizes) or rows.shape != (sizes[i] - 1, sizes[i]):
            raise InvalidInputError(
                f"strategy {name!r}: the coordinates of attribute {i} do not fit"
            )
        coordinates[i] = Measured(rows, np.linalg.inv(np.vstack([np.ones(sizes[i]), rows])))
    return coordinates
