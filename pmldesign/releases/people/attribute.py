"""An attribute of people: its labels, and which of them a value has (`values`).

    {"name": "sex", "keys": ["F", "M"]}        {"name": "age", "cuts": [0, 18, 65, null]}
    {"name": "born", "cuts": [null, "1960-01-01", "2000-01-01"]}
    {"name": "place", "levels": ["state", "county"], "file": "places.csv"}
    {"name": "place", "levels": ["state", "county"], "keys": {"AL": ["Autauga", "Baldwin"]}}

Cuts are the ends of bins [0, 18), [18, 65), [65, ...): numbers or dates, and null at an open end.
With "normalize": true, keys are compared without spaces around them and in lower case (A to Z).

Places nest. Their file has a column for each level and a line for each place of the lowest one;
keys nest, "" for a level that places lack, and an empty list ends at the key. Rows of people name
only the lowest level, in the column of its name, or the replacement of a place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pmldesign.arguments import finite_matrix, number
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import shortest
from pmldesign.releases.people.values import is_time, key_text, normalized, text_of
from pmldesign.workloads.nested.places import Places, places_of, read_levels
from pmldesign_solvers.operators.operator import Indices

RESERVED = set("*+:,=")
PUBLISHED = ("estimate", "standard_deviation", "lower", "upper", "afterwards", "differs")
"""Columns of tables next to the labels."""
CODE = re.compile(r"[+-]?0[0-9]")
Cut = float | str | None
"""A number, a date as text, or an open end."""


@dataclass(frozen=True)
class Attribute:
    """One attribute of a person.

    Attributes:
        name: as in the data.
        labels: of its values, in order.
        cuts: ends of the bins; None if values are keys.
        outside: "refuse", "drop", or the label that takes all other values.
        ordered: whether the labels have an order, which those of cuts always have.
        places: the regions that the labels lie in, level by level; None without regions.
        normalize: whether keys are compared without spaces around them and in lower case.
    """

    name: str
    labels: tuple[str, ...]
    cuts: tuple[Cut, ...] | None
    outside: str
    ordered: bool
    places: Places | None = None
    normalize: bool = False

    @property
    def column(self) -> str:
        """The column of the data: of places that of the lowest level."""
        return self.name if self.places is None else self.places.levels[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """What queries and tables call it: its name, and those of its levels."""
        return (self.name, *(self.places.named if self.places else ()))

    @property
    def dated(self) -> bool:
        """Whether the bins are of dates."""
        return self.cuts is not None and any(isinstance(cut, str) for cut in self.cuts)

    @property
    def bin_count(self) -> int:
        """How many of the labels are bins: the first ones."""
        return 0 if self.cuts is None else len(self.cuts) - 1

    def key(self, text: str) -> str:
        """The text by which a value is compared with keys."""
        return _compared(text, normalize=self.normalize)

    @property
    def denominator(self) -> int:
        """D: a value counts in integer multiples of 1/D in its cells; 1 except for numbers."""
        return 1

    @property
    def facts(self) -> list[Any]:
        """All facts about it in the schema, except places."""
        return [self.name, self.labels, self.cuts, self.outside, self.ordered, self.normalize]

    def require_order(self, what: str) -> None:
        """Refuse requests that depend on the order of the labels, if they have none.

        Raises:
            InvalidInputError: the line that the schema needs.
        """
        if not self.ordered:
            raise InvalidInputError(
                f"{what} need values in order, and the keys of {self.name!r} are in none; write "
                'them in order, and add "ordered": true to this attribute in the schema'
            )

    def together(self, values: Indices) -> str:
        """A common name of some values, in increasing order: for places the region of all."""
        if self.places is not None and len(values) < len(self.labels):
            paths = [self.places.paths[self.places.tree.leaves[value]] for value in values]
            levels = itertools.takewhile(lambda keys: len(set(keys)) == 1, zip(*paths, strict=True))
            return "/".join(filter(None, (keys[0] for keys in levels))) or "several"
        if len(values) < values[-1] - values[0] + 1:
            return "several"
        return self.range_label(int(values[0]), int(values[-1]) + 1)

    def range_label(self, start: int, stop: int) -> str:
        """What the values start ... stop - 1 are called together."""
        if stop - start == 1:
            return self.labels[start]
        if stop - start == len(self.labels):
            return "*"
        if stop == start:
            return "none"
        if self.cuts is not None and stop < len(self.cuts):
            return _bin(self.cuts[start], self.cuts[stop])
        return f"{self.labels[start]}..{self.labels[stop - 1]}"


def require_entry(entry: Any) -> Mapping[str, Any]:
    """The dictionary of an attribute, which has a name.

    Raises:
        InvalidInputError: it is invalid.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise InvalidInputError('every attribute needs a "name"')
    require_name(entry["name"], f"attribute {entry['name']!r}")
    return entry


def as_attribute(entry: Mapping[str, Any], outside: Any, folder: Path) -> Attribute:
    """The attribute with labels that a dictionary describes.

    Args:
        entry: with "keys" or "cuts", or "levels".
        outside: the treatment of other values.
        folder: of files of places.

    Raises:
        FileError: a file of places cannot be read.
        InvalidInputError: with the mistake and the allowed values.
    """
    name, what = entry["name"], f"attribute {entry['name']!r}"
    if "levels" in entry:
        return _as_places(entry, outside, folder)
    only_known(entry, {"name", "keys", "cuts", "outside", "ordered", "normalize"}, what)
    if ("keys" in entry) == ("cuts" in entry):
        raise InvalidInputError(f'{what} needs either "keys" or "cuts"')
    _require_outside(outside, what)
    normalize = _normalize(entry, what)
    cuts = None
    if "cuts" in entry:
        cuts = _cuts(name, entry["cuts"])
        labels = list(itertools.starmap(_bin, itertools.pairwise(cuts)))
    else:
        labels = _keys(name, entry["keys"], normalize=normalize)
    attribute = Attribute(name, tuple(labels), cuts, outside, cuts is not None, None, normalize)
    if outside not in ("refuse", "drop"):
        keys = {*map(attribute.key, labels)}
        if attribute.key(outside) not in keys:
            attribute = replace(attribute, labels=(*labels, outside))
    ordered = entry.get("ordered", cuts is not None)
    if not isinstance(ordered, bool) or (cuts is not None and not ordered):
        raise InvalidInputError(
            f"{what}: ordered must be true or false, and true for cuts, got {ordered!r:.60}"
        )
    return replace(attribute, ordered=ordered)


def require_name(name: str, what: str) -> None:
    """Refuse a name that queries cannot hold.

    Raises:
        InvalidInputError: it is invalid.
    """
    if not is_name(name):
        raise InvalidInputError(
            f"{what}: a name is printable text without * + : , = and without blanks at its ends,"
            f" and no column of the published table ({', '.join(PUBLISHED)}); rename the column"
        )


def is_name(name: Any) -> bool:
    """Whether an attribute may be called so; columns of pandas may be called by numbers."""
    if not isinstance(name, str):
        return False
    plain = name == name.strip() != "" and name.isprintable() and not RESERVED & set(name)
    return plain and name not in PUBLISHED


def is_key(text: str) -> bool:
    """Whether a value may be a key: in tables * stands for all."""
    return text not in ("", "*") and text.isprintable()


def is_code(text: str) -> bool:
    """Whether digits are a code rather than a number, as in 007."""
    return CODE.match(text) is not None


def _compared(text: str, *, normalize: bool) -> str:
    """The text by which a value is compared with keys."""
    return key_text(normalized(text) if normalize else text)


def _normalize(entry: Mapping[str, Any], what: str) -> bool:
    """Whether keys are compared without spaces and case."""
    normalize = entry.get("normalize", False)
    if not isinstance(normalize, bool) or (normalize and "keys" not in entry):
        raise InvalidInputError(
            f"{what}: normalize must be true or false, and is for keys, got {normalize!r:.60}"
        )
    return normalize


def _keys(name: str, keys: Any, *, normalize: bool) -> list[str]:
    if not isinstance(keys, list) or not keys:
        raise InvalidInputError(f"attribute {name!r}: keys must be a list of at least one key")
    labels = [text_of(key) for key in keys if isinstance(key, str | int | float)]
    same = {_compared(label, normalize=normalize) for label in labels}
    wrong = len(labels) < len(keys) or len(same) < len(labels)
    if wrong or not all(map(is_key, labels)):
        raise InvalidInputError(
            f"attribute {name!r}: keys must be different printable texts or numbers, not '*'; "
            "2 and 2.0 are the same, so are true and True"
            f"{', and F and f if normalize is true' if normalize else ''}"
        )
    return labels


def _cuts(name: str, cuts: Any) -> tuple[Cut, ...]:
    if not isinstance(cuts, list) or len(cuts) < 2 or None in cuts[1:-1]:
        raise InvalidInputError(
            f"attribute {name!r}: cuts must be a list of at least two numbers or dates; the first"
            " or the last may be null, for a bin without that end"
        )
    given = [cut for cut in cuts if cut is not None]
    values: list[Any] = []
    if all(isinstance(cut, str) and is_time(cut) for cut in given):
        values = [key_text(cut) for cut in given]
    elif all(type(cut) in (int, float) for cut in given):
        doubles = [number("cuts", cut) for cut in given]
        values = finite_matrix(f"cuts of {name!r}", doubles)[0].tolist()
    if not values:
        raise InvalidInputError(
            f'attribute {name!r}: cuts must be numbers, or dates such as "2020-01-31" or'
            f' "2020-01-31 12:00", got {given!r:.60}'
        )
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise InvalidInputError(f"attribute {name!r}: cuts must increase, got {values}"[:200])
    return (*[None] * (cuts[0] is None), *values, *[None] * (cuts[-1] is None))


def _bin(low: Cut, high: Cut) -> str:
    """What a bin is called: [18, 65), <18, 65+; of dates: before and from."""
    first, last = (shortest(cut) if isinstance(cut, float) else cut for cut in (low, high))
    if first is None:
        return f"before {last}" if isinstance(high, str) else f"<{last}"
    if last is None:
        return f"from {first}" if isinstance(low, str) else f"{first}+"
    return f"[{first}, {last})"


def _require_outside(outside: Any, what: str) -> None:
    if not isinstance(outside, str) or not is_key(outside):
        raise InvalidInputError(
            f'{what}: outside must be "refuse", "drop" or a key, got {outside!r:.60}'
        )


def _as_places(entry: Mapping[str, Any], outside: Any, folder: Path) -> Attribute:
    """The attribute with levels; arguments and errors as `as_attribute`."""
    name, levels = entry["name"], entry["levels"]
    what = f"attribute {name!r}"
    only_known(entry, {"name", "levels", "file", "keys", "outside"}, what)
    names = isinstance(levels, list) and all(isinstance(level, str) for level in levels)
    if not names or not levels or len(set(levels)) < len(levels):
        raise InvalidInputError(
            f'{what}: levels must be different names, the outermost first, such as ["state",'
            ' "county"]'
        )
    for level in levels:
        require_name(level, f"{what}, level {level!r}")
    if ("file" in entry) == ("keys" in entry) or not isinstance(entry.get("file", ""), str):
        raise InvalidInputError(
            f'{what} needs either "file", a .csv with a column for each level, or nested "keys"'
        )
    _require_outside(outside, what)
    if "file" in entry:
        source = entry["file"]
        rows = read_levels(str(folder / source), levels)
    else:
        source, rows = what, list(_nested(entry["keys"], len(levels), what))
    return _with_outside(name, levels, source, rows, outside)


def _with_outside(
    name: str, levels: list[str], source: str, rows: list[list[str]], outside: str
) -> Attribute:
    """The attribute of these places, and of one for all others if it is new."""
    keys = [next((key for key in reversed(row) if key), "") for row in rows]
    known = set(map(key_text, keys))
    if outside not in ("refuse", "drop") and key_text(outside) not in known:
        root = {row[0] for row in rows}
        single = len(root) == 1 and len(levels) > 1
        path = [*root, outside] if single else [outside]
        rows = [*rows, path + [""] * (len(levels) - len(path))]
        keys.append(outside)
    places = places_of(source, levels, rows)
    seen: dict[Any, str] = {}
    for key in keys:
        if key_text(key) in seen or not is_key(key):
            raise InvalidInputError(
                f"{source}: {key[:60]!r} cannot be told apart from another place; rows of people"
                f" name the lowest level alone, so give every {levels[-1]} a key of its own, such"
                " as a code, of printable text"
            )
        seen[key_text(key)] = key
    labels = [
        next(key for key in reversed(places.paths[leaf]) if key) for leaf in places.tree.leaves
    ]
    return Attribute(name, tuple(labels), None, outside, False, places)


def _nested(keys: Any, depth: int, what: str) -> Iterator[list[str]]:
    """The path of every place of nested keys."""
    if isinstance(keys, Mapping) and depth > 1:
        for key, below in keys.items():
            rows = list(_nested(below, depth - 1, what)) or [[""] * (depth - 1)]
            yield from ([key, *row] for row in rows)
    elif isinstance(keys, list) and all(isinstance(key, str | int | float) for key in keys):
        yield from ([text_of(key), *[""] * (depth - 1)] for key in keys)
    else:
        raise InvalidInputError(
            f"{what}: keys nest as deep as there are levels, lists at the lowest one, such as"
            ' {"AL": ["Autauga", "Baldwin"]}'
        )


def only_known(entry: Mapping[str, Any], allowed: set[str], what: str) -> None:
    """Refuse keys that nothing is known of.

    Raises:
        InvalidInputError: there is one.
    """
    unknown = sorted(set(entry) - allowed)
    if unknown:
        raise InvalidInputError(
            f"{what} has {str(unknown[0])!r}; known are {', '.join(sorted(allowed))}"
        )
