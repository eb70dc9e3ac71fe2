"""A geographic hierarchy from a table: a column for each level, or the parent of each place.

    state,county,tract            place,parent
    AL,Autauga,0201               US,
    AL,Autauga,0202               AL,US
    DC,,0001                      Autauga,AL

A line of the first form is a leaf, the levels from the outermost on; an empty field is a level that
the place lacks. A root is added if the first column has several values. A column that has one value
for each place of the level before, such as its name, is not a level, unless columns are chosen.
Keys become numbers as lines are read, and the places of a level are the different pairs of their
parent and their key: a few arrays for any number of places.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from pmldesign.arguments import as_number
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign_solvers.operators.operator import Flags, Indices
from pmldesign_solvers.trees.tree import Tree

EVERYWHERE = "total"
"""The level of an added root."""
LINES = 2**16
"""Lines of a file that are read together."""
SEPARATORS = {"|": "|", "\t": "tabs", ";": ";"}
"""Column separators in other files, and their names in messages."""


@dataclass(frozen=True, eq=False)
class Places:
    """A tree of named places.

    Attributes:
        tree: its nodes in the order of their depth, then of the file.
        levels: the name of each depth; a place that lacks a level counts at the next one.
        level: the level of each node, an index into `levels`, shape (N,).
        keys: the name of each node; "" for an added root.
    """

    tree: Tree
    levels: tuple[str, ...]
    level: Indices
    keys: tuple[str, ...]

    @property
    def named(self) -> tuple[str, ...]:
        """The levels whose places have keys: all except that of an added root."""
        return self.levels[not self.keys[0] :]

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The keys of each node from the outermost level on, "" for a level that it lacks."""
        added, parents = len(self.levels) - len(self.named), self.tree.parents.tolist()
        paths: list[tuple[str, ...]] = []
        for key, level, parent in zip(self.keys, self.level.tolist(), parents, strict=True):
            path = list(paths[parent]) if parent >= 0 else [""] * len(self.named)
            if level >= added:
                path[level - added] = key
            paths.append(tuple(path))
        return tuple(paths)

    def workload(self, name: str, weights: Mapping[str, float]) -> RegionsWorkload:
        """The count of every place, times the weight of its level (1 by default).

        Raises:
            InvalidInputError: an unknown level, or a weight that is negative or not finite.
        """
        unknown = sorted(set(weights) - set(self.levels))
        if unknown:
            raise InvalidInputError(
                f"{name!r} has no level {unknown[0]!r}; its levels are {', '.join(self.levels)}"
            )
        of_level = np.array([weights.get(level, 1.0) for level in self.levels])
        if not (np.isfinite(of_level) & (of_level >= 0)).all():
            raise InvalidInputError(f"{name!r}: the weight of a level is a number from 0 on")
        keys = (self.keys[0] or EVERYWHERE, *self.keys[1:])
        return RegionsWorkload(name, self.tree, of_level[self.level], self.levels, self.level, keys)


def counts_of_places(text: str) -> RegionsWorkload:
    """The counts of places, from a text such as "places.csv,county=2,tract=0.5".

    Args:
        text: the file, then weights of levels, 0 for a level that is not asked about, and where
            not all columns are levels those that are, levels=state/county.

    Raises:
        FileError, InvalidInputError: as `read_places` and `Places.workload`.
    """
    path, *rest = (part.strip() for part in text.split(","))
    if not path:
        raise InvalidInputError("regions takes a .csv file of places: regions:places.csv")
    weights, chosen = {}, None
    for part in rest:
        level, equals, value = (piece.strip() for piece in part.rpartition("="))
        if level == "levels":
            chosen = [name.strip() for name in value.split("/")]
            continue
        weight = as_number(value)
        if not equals or weight is None:
            raise InvalidInputError(
                f"regions:{text}: after the file come weights of levels, such as county=2, got"
                f" {part!r}"
            )
        weights[level] = weight
    return read_places(path, chosen).workload(f"regions:{text}", weights)


def read_places(path: str, levels: Sequence[str] | None = None) -> Places:
    """The places in a .csv file.

    Args:
        path: of the file.
        levels: the columns that are levels, outermost first; None for all but those that have one
            value for each place of the level before.

    Raises:
        FileError: it cannot be read.
        InvalidInputError: its contents are not places, or it lacks a level.
    """
    name = Path(path).name
    if levels is not None:
        return places_of(name, levels, read_levels(path, levels))
    with _opened(path) as (header, lines):
        if set(header) == {"place", "parent"}:
            return _from_parents(name, [dict(zip(header, row, strict=True)) for row in lines])
        return places_of(name, header, lines, given=False)


def read_levels(path: str, levels: Sequence[str]) -> list[list[str]]:
    """The keys of some levels for each place in a .csv file, which can have other columns.

    Raises:
        FileError: it cannot be read.
        InvalidInputError: its contents are not places, or it lacks a level.
    """
    with _opened(path) as (header, lines):
        if len(set(levels)) < len(levels):
            raise InvalidInputError(f"levels {'/'.join(levels)} of {Path(path).name} must differ")
        missing = [level for level in levels if level not in header]
        if missing:
            raise InvalidInputError(
                f"{Path(path).name} has no column {missing[0]!r}; it has {', '.join(header)}"[:300]
            )
        columns = [header.index(level) for level in levels]
        return [[row[column] for column in columns] for row in lines]


@contextmanager
def _opened(path: str) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The names of the columns, and the lines, at least one."""
    name = Path(path).name
    if Path(path).exists() and not Path(path).is_file():
        raise FileError(f"{path} is no file")
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as handle:
            fields = ([field.strip() for field in line] for line in csv.reader(handle))
            rows = (row for row in fields if any(row))
            header, first = next(rows, []), next(rows, None)
            if first is None:
                raise InvalidInputError(
                    f"{name} has no places: it needs a line with the names of the levels, outermost"
                    " first, and one line for each place of the lowest level"
                )
            _require_commas(name, header)
            if len(set(header)) < len(header) or "" in header:
                raise InvalidInputError(
                    f"{name}: the names of the levels in the first line are to be different and not"
                    " empty"
                )
            yield header, _of_length(name, len(header), chain([first], rows))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path} is no .csv file of places: {error}") from None


def _require_commas(name: str, header: Sequence[str]) -> None:
    """Refuse columns that are separated by something else."""
    other = next((sign for sign in SEPARATORS if sign in header[0]), None)
    if len(header) == 1 and other is not None:
        raise InvalidInputError(
            f"the columns of {name} are separated by {SEPARATORS[other]}; write the file with"
            " commas"
        )


def _of_length(name: str, count: int, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    for number, row in enumerate(rows, 2):
        if len(row) != count:
            problem = f"line {number} has {len(row)} fields instead of {count}"
            raise InvalidInputError(f"{name}: {problem}")
        yield row


def places_of(
    name: str, levels: Sequence[str], rows: Iterable[Sequence[str]], *, given: bool = True
) -> Places:
    """The tree of places, from the keys of each leaf.

    Args:
        name: for messages.
        levels: their names, outermost first.
        rows: a key for each level, "" for one that the place lacks.
        given: whether the levels are given, or are those names in the first line of a file that
            have several places for a place of the level above.

    Raises:
        InvalidInputError: a place twice, without any key, or at the lowest level and above others;
            a first line that holds a place.
    """
    columns, keys = _numbered(len(levels), rows)
    if not given and any(
        as_number(a) is not None or a in b for a, b in zip(levels, keys, strict=True)
    ):
        raise InvalidInputError(
            f"the first line of {name}, {','.join(levels)[:60]!r}, holds a place; put the names of"
            " the levels above it, such as state,county"
        )
    added = not (columns[0].all() and len(keys[0]) == 2)
    parents, level = [np.array([-1])], [np.zeros(1, dtype=np.intp)]
    called, names = ["" if added else keys[0][1]], [EVERYWHERE if added else levels[0]]
    ends = np.zeros(len(columns[0]), dtype=np.intp)  # of each line the lowest node so far
    for depth in range(not added, len(levels)):
        here = np.flatnonzero(columns[depth])
        pairs = ends[here] * len(keys[depth]) + columns[depth][here]
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        order = np.argsort(first)
        lines = here[first[order]]
        above = ends[lines]
        alone = len(np.unique(above)) == len(above) and np.isin(ends, above).sum() == len(here)
        if depth and alone and not given:  # a name or a number of the places above
            continue
        parents.append(above)
        level.append(np.full(len(lines), len(names)))
        names.append(levels[depth])
        ends[here] = len(called) + np.argsort(order)[inverse.ravel()]
        called += [keys[depth][code] for code in columns[depth][lines].tolist()]
    nodes = np.concatenate(parents)
    wrong = _wrong_line(nodes, ends, np.any(columns, axis=0))
    if wrong is not None:
        line, problem = wrong
        path = [of[column[line]] for of, column in zip(keys, columns, strict=True)]
        shown = repr("/".join(filter(None, path))) * any(path)
        raise InvalidInputError(f"{name}: line {line + 2} " + problem.format(shown))
    return Places(Tree(nodes), tuple(names), np.concatenate(level), tuple(called))


def _numbered(count: int, rows: Iterable[Sequence[str]]) -> tuple[list[Indices], list[list[str]]]:
    """For each column the number of the key in every row, 0 for none; and its keys."""
    known, columns = [{"": 0} for _ in range(count)], [array("i") for _ in range(count)]
    rest = iter(rows)
    while lines := list(islice(rest, LINES)):
        for numbers, column, keys in zip(known, columns, zip(*lines, strict=True), strict=True):
            column.extend([numbers.setdefault(key, len(numbers)) for key in keys])
    return [np.array(column, dtype=np.intp) for column in columns], [*map(list, known)]


def _wrong_line(parents: Indices, ends: Indices, named: Flags) -> tuple[int, str] | None:
    """The first line that is not a distinct leaf, and why."""
    again = np.ones(len(ends), dtype=bool)
    again[np.unique(ends, return_index=True)[1]] = False
    inner = np.zeros(len(parents), dtype=bool)
    inner[parents[1:]] = True
    for lines, problem in (
        (~named, "names no place"),
        (again, "has {} for the second time"),
        (
            inner[ends],
            "ends at {}, which has places below it in other lines; give what is left of it a name"
            " at the lowest level",
        ),
    ):
        if lines.any():
            return int(lines.argmax()), problem
    return None


def _from_parents(name: str, rows: Iterable[Mapping[str, str]]) -> Places:
    """The tree of places, from a parent for each of them; levels are called by their depth."""
    parents = list(map(itemgetter("place", "parent"), rows))
    number = {place: i for i, (place, _) in enumerate(parents)}
    if len(number) < len(parents) or "" in number:
        raise InvalidInputError(f"{name}: every place stands in one line, with its name")
    number[""] = -1
    missing = next((parent for _, parent in parents if parent not in number), None)
    if missing is not None:
        raise InvalidInputError(f"{name}: the parent {missing!r} has no line of its own")
    above = np.array([number[parent] for _, parent in parents])
    depths, ancestors = (above >= 0).astype(np.intp), above.copy()
    for _ in range(len(above).bit_length()):  # the distances to ancestors double
        here = np.flatnonzero(ancestors >= 0)
        depths[here] += depths[ancestors[here]]
        ancestors[here] = ancestors[ancestors[here]]
    if (ancestors >= 0).any():
        raise InvalidInputError(f"{name}: {parents[ancestors.argmax()][0]!r} lies within itself")
    first = np.full(len(above), len(above))  # the first leaf below
    leaves = np.setdiff1d(np.arange(len(above)), above)
    first[leaves] = leaves
    for place in np.argsort(-depths)[: (depths > 0).sum()].tolist():
        first[above[place]] = min(first[above[place]], first[place])
    order = np.lexsort((first, depths))
    keys = [parents[i][0] for i in order.tolist()]
    added = int((above < 0).sum() > 1)
    rank = np.append(np.argsort(order) + added, 0 if added else -1)
    root = np.zeros(added, dtype=np.intp)
    levels = [f"level {depth}" for depth in range(int(depths.max()) + 1)]
    return Places(
        Tree(np.concatenate([root - 1, rank[above[order]]])),
        (*[EVERYWHERE] * added, *levels),
        np.concatenate([root, depths[order] + added]),
        (*[""] * added, *keys),
    )
