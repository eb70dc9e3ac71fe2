"""Places that nest, from a table: a column for each level, or the parent of each place.

    state,county,tract            place,parent
    AL,Autauga,0201               US,
    AL,Autauga,0202               AL,US
    DC,,0001                      Autauga,AL

A line of the first form is a leaf, the levels from the outermost on; an empty field is a level that
the place lacks. A root of all is added where the first column has several values.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign_solvers.operators.operator import Indices
from pmldesign_solvers.trees.tree import Tree

EVERYWHERE = "total"
"""The level of a root that is added."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """A tree of named places.

    Attributes:
        tree: its nodes in the order of their depth, then of the file.
        levels: what each depth is called; a place that lacks a level counts at the next one.
        level: the level of each node, an index into `levels`, shape (N,).
        paths: the keys of each node from the outermost level on, "" where it lacks one.
    """

    tree: Tree
    levels: tuple[str, ...]
    level: Indices
    paths: tuple[tuple[str, ...], ...]

    @property
    def named(self) -> tuple[str, ...]:
        """The levels of which places have keys: all but that of a root that was added."""
        return self.levels[len(self.levels) - len(self.paths[0]) :]

    def workload(self, name: str, weights: Mapping[str, float]) -> RegionsWorkload:
        """The count of every place, times the weight of its level (1 where none is given).

        Raises:
            InvalidInputError: a level that is none, or a weight that is negative or not finite.
        """
        unknown = sorted(set(weights) - set(self.levels))
        if unknown:
            raise InvalidInputError(
                f"{name!r} has no level {unknown[0]!r}; its levels are {', '.join(self.levels)}"
            )
        of_level = np.array([weights.get(level, 1.0) for level in self.levels])
        if not (np.isfinite(of_level) & (of_level >= 0)).all():
            raise InvalidInputError(f"{name!r}: the weight of a level is a number from 0 on")
        keys = [next((key for key in reversed(path) if key), EVERYWHERE) for path in self.paths]
        scales = of_level[self.level]
        return RegionsWorkload(name, self.tree, scales, self.levels, self.level, keys)


def counts_of_places(text: str) -> RegionsWorkload:
    """The counts of places, from a text such as "places.csv,county=2,tract=0.5".

    Args:
        text: the file, then weights of levels; 0 for a level that is not asked about.

    Raises:
        FileError, InvalidInputError: as `read_places` and `Places.workload`.
    """
    path, *rest = (part.strip() for part in text.split(","))
    if not path:
        raise InvalidInputError("regions takes a .csv file of places: regions:places.csv")
    weights = {}
    for part in rest:
        level, equals, value = (piece.strip() for piece in part.rpartition("="))
        try:
            weights[level] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InvalidInputError(
                f"regions:{text}: after the file come weights of levels, such as county=2, got"
                f" {part!r}"
            )
    return read_places(path).workload(f"regions:{text}", weights)


def read_places(path: str) -> Places:
    """The places in a .csv file.

    Raises:
        FileError: it cannot be read.
        InvalidInputError: its contents are no places.
    """
    header, body = _read(path)
    if set(header) == {"place", "parent"}:
        body = _from_parents(Path(path).name, [dict(zip(header, row, strict=True)) for row in body])
        header = [f"level {depth}" for depth in range(len(body[0]))]
    return places_of(Path(path).name, header, body)


def read_levels(path: str, levels: Sequence[str]) -> list[list[str]]:
    """The keys of some levels for each place in a .csv file, in which other columns may stand.

    Raises:
        FileError: it cannot be read.
        InvalidInputError: its contents are no places, or it lacks a level.
    """
    header, body = _read(path)
    missing = [level for level in levels if level not in header]
    if missing:
        raise InvalidInputError(
            f"{Path(path).name} has no column {missing[0]!r}; it has {', '.join(header)}"[:300]
        )
    columns = [header.index(level) for level in levels]
    return [[row[column] for column in columns] for row in body]


def _read(path: str) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the lines."""
    name = Path(path).name
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as handle:
            lines = list(csv.reader(handle))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path} is no .csv file of places: {error}") from None
    rows = [[field.strip() for field in line] for line in lines if any(map(str.strip, line))]
    if len(rows) < 2:
        raise InvalidInputError(
            f"{name} has no places: it needs a line with the names of the levels, outermost first, "
            "and one line for each place of the lowest level"
        )
    header, body = rows[0], rows[1:]
    wrong = next((n for n, row in enumerate(body, 2) if len(row) != len(header)), None)
    if wrong is not None or len(set(header)) < len(header) or "" in header:
        problem = (
            f"line {wrong} has {len(body[wrong - 2])} fields instead of {len(header)}"
            if wrong is not None
            else "the names of the levels in the first line are to be different and not empty"
        )
        raise InvalidInputError(f"{name}: {problem}")
    return header, body


def places_of(name: str, levels: Sequence[str], rows: Iterable[Sequence[str]]) -> Places:
    """The tree of places, from the keys of each leaf.

    Args:
        name: for messages.
        levels: what they are called, outermost first.
        rows: a key for each level, "" for one that the place lacks.

    Raises:
        InvalidInputError: a place twice, without any key, or at the lowest level and above others.
    """
    leaves: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows):
        path = tuple(row)
        if not any(path) or path in leaves:
            what = "names no place" if not any(path) else f"has {_shown(path)} for the second time"
            raise InvalidInputError(f"{name}: line {number + 2} {what}")
        leaves[path] = number
    ancestors: list[dict[tuple[str, ...], int]] = [{} for _ in levels]  # by level, in file order
    for path in leaves:
        for depth, key in enumerate(path):
            if key:
                ancestors[depth].setdefault(_cut(path, depth), 0)
    single = len(ancestors[0]) == 1 and all(path[0] for path in leaves)
    named = tuple(levels) if single else (EVERYWHERE, *levels)
    paths: list[tuple[str, ...]] = [] if single else [("",) * len(levels)]
    level = [0] * len(paths)
    numbers: dict[tuple[str, ...], int] = {}
    for depth, members in enumerate(ancestors):
        for path in members:
            numbers[path] = len(paths)
            paths.append(path)
            level.append(depth + (not single))
    parents = np.zeros(len(paths), dtype=np.intp)
    parents[0] = -1
    for path, number in numbers.items():
        if number:
            above = (numbers.get(_cut(path, depth)) for depth in reversed(range(_depth(path))))
            parents[number] = next((n for n in above if n is not None), 0)
    inner = set(parents.tolist())
    clash = next((path for path in leaves if numbers[path] in inner), None)
    if clash is not None:
        raise InvalidInputError(
            f"{name}: line {leaves[clash] + 2} ends at {_shown(clash)}, which has places below it"
            " in other lines; give what is left of it a name at the lowest level"
        )
    return Places(Tree(parents), named, np.array(level, dtype=np.intp), tuple(paths))


def _from_parents(name: str, rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The path of every leaf, from a parent for each place; "" fills short ones at the end."""
    parents = {row["place"]: row["parent"] for row in rows}
    if len(parents) < len(rows) or "" in parents:
        raise InvalidInputError(f"{name}: every place stands in one line, with its name")
    missing = next(
        (parent for parent in parents.values() if parent and parent not in parents), None
    )
    if missing is not None:
        raise InvalidInputError(f"{name}: the parent {missing!r} has no line of its own")
    paths = []
    for leaf in parents.keys() - set(parents.values()):
        path = [leaf]
        while parents[path[-1]] and len(path) <= len(parents):
            path.append(parents[path[-1]])
        if len(path) > len(parents):
            raise InvalidInputError(f"{name}: {leaf!r} lies within itself")
        paths.append(path[::-1])
    if not paths:
        raise InvalidInputError(f"{name}: every place lies within itself")
    order = {place: number for number, place in enumerate(parents)}
    paths.sort(key=lambda path: order[path[-1]])
    longest = max(map(len, paths))
    return [path + [""] * (longest - len(path)) for path in paths]


def _cut(path: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """The place at a level above or at that of a path."""
    return path[: depth + 1] + ("",) * (len(path) - depth - 1)


def _depth(path: tuple[str, ...]) -> int:
    """The level of the last key."""
    return max(depth for depth, key in enumerate(path) if key)


def _shown(path: Sequence[str]) -> str:
    return repr("/".join(key for key in path if key))
