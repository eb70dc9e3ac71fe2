"""The schema: the attributes of people, their values, and the treatment of all others.

    {"attributes": [{"name": "sex", "keys": ["F", "M"]},
                    {"name": "age", "cuts": [0, 18, 35, 50, 65, 120]}],
     "outside": "refuse", "rows_per_person": 1}

A cell of the histogram is a combination of values, the last attribute fastest. `cuts` are bins [0,
18), [18, 35) ...; `outside` is "refuse", "drop", or a key that takes all other values, for all
attributes or in one of them. Keys are in order if "ordered" is true; codes that are numbers need
not be. An attribute with "low" and "high" has values whose sums are asked (`numbers`). An attribute
with "levels" is a geographic hierarchy (`attribute`), and stands first. "suppress":
{"relative_error": 0.3} leaves out estimates that are less certain than that. "person": "id" names
the columns that identify a person. At most `rows_per_person` rows of each are kept; with "one_per":
"cell" or the name of an attribute, one for each cell or value (`persons`). Drafts (`draft_schema`)
have labels from the data in them: they are marked "reviewed": false, and refused until a reviewer
has removed the mark.

"impossible": [{"sex": "M", "pregnant": ["yes", "unknown"]}] names structural zeros: a combination
with one of the values in all of the attributes of an entry cannot occur. It is not a cell: it is
not measured, workloads, strategies and bounds are about the other cells, and a query of impossible
cells only is answered by exactly 0. Rows with such values are refused, or dropped if the schema
contains "drop".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files.atomic import PathName, as_path
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.releases.people.attribute import (
    Attribute,
    as_attribute,
    only_known,
    require_entry,
)
from pmldesign.releases.people.numbers import Number, as_numbers
from pmldesign.releases.people.values import text_of
from pmldesign.strategies.participation.persons import ANY, CELL, PersonRows
from pmldesign.workloads import Workload
from pmldesign.workloads.display import Displayed, Facts, count_text
from pmldesign.workloads.nested.places import Places
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Indices

if TYPE_CHECKING:
    from pmldesign.privacy.guarantees import ApproxDP

Combination = tuple[tuple[int, tuple[int, ...]], ...]
"""The numbers of attributes, and of values of each."""


@dataclass(frozen=True, repr=False)
class Schema(Displayed):
    """What a table of people looks like.

    Attributes:
        attributes: the columns that count, in the order of the cells.
        rows_per_person: how many rows belong to one person.
        reviewed: whether a person has reviewed it.
        suppress: the largest standard deviation over the estimate with which one is published.
        person: the columns that identify a person; none if every person is known to have no more
            rows.
        one_per: "cell", or the attribute with at most one row of a person for each value.
        impossible: combinations of values that cannot be.
        drops: whether rows that have them are dropped, rather than refused.
    """

    attributes: tuple[Attribute, ...]
    rows_per_person: int = 1
    reviewed: bool = True
    suppress: float | None = None
    person: tuple[str, ...] = ()
    one_per: str | None = None
    impossible: tuple[Combination, ...] = ()
    drops: bool = False

    def _display(self) -> tuple[str, Facts]:
        sizes = (f"{n} ({count_text(k)})" for n, k in zip(self.names, self.sizes, strict=True))
        facts = [("attributes", ", ".join(sizes))]
        if self.rows_per_person > 1:
            facts.append(("rows of a person", f"up to {self.rows_per_person}"))
        draft = "" if self.reviewed else ", a draft"
        return f"Schema of {count_text(self.cells)} cells{draft}", facts

    @staticmethod
    def draft(
        data: Any, guarantee: ApproxDP | None = None, *, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """A schema drafted from a file of people, for review.

        Args:
            data: a path, or a data frame.
            guarantee: of the draft, for add-remove neighbours; without one it has values that a
                single person may be recognized by, and is confidential.
            columns: that are looked at with a guarantee; None for all.

        Returns:
            The content of a JSON file, marked "reviewed": false; without the mark `Schema.of` and
            `pmldesign.workload` take it.

        Raises:
            FileError: the file cannot be read.
            InvalidInputError: no column can be an attribute, or columns without a guarantee.
        """
        from pmldesign.releases.people.drafts import draft_schema
        from pmldesign.releases.private_schema import private_draft

        if guarantee is not None:
            return private_draft(data, guarantee, columns=columns)
        if columns is not None:
            raise InvalidInputError("columns are for a draft with a guarantee; leave them out")
        return draft_schema(data)

    @staticmethod
    def of(content: SchemaLike) -> Schema:
        """The schema that a dictionary or a file (.json) holds.

        Raises:
            FileError: a path that cannot be read.
            InvalidInputError: with the mistake and the allowed values.
        """
        return as_schema(content)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each attribute."""
        return tuple(len(attribute.labels) for attribute in self.attributes)

    @property
    def cells(self) -> int:
        """Number of cells of the histogram, those that can be."""
        return math.prod(self.sizes) if self.possible is None else len(self.possible)

    @cached_property
    def possible(self) -> Indices | None:
        """The numbers of the possible cells, among all combinations; None if all are possible."""
        return possible_cells(self.sizes, self.impossible) if self.impossible else None

    @property
    def denominator(self) -> int:
        """D: a record adds whole multiples of 1/D to cells, together 1; 1 without numbers."""
        return math.prod(attribute.denominator for attribute in self.attributes)

    @property
    def has_numbers(self) -> bool:
        """Whether records are divided among cells."""
        return any(isinstance(attribute, Number) for attribute in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data."""
        return tuple(attribute.column for attribute in self.attributes)

    @property
    def places(self) -> Places | None:
        """The places of the attribute with levels, the first one; None without levels."""
        return self.attributes[0].places

    @cached_property
    def participation(self) -> PersonRows | None:
        """The rows of a person in the cells; None for a single one."""
        if self.rows_per_person == 1:
            return None
        tells = self.telling
        if self.one_per is None or (self.one_per == CELL and all(tells)):
            return PersonRows(self.rows_per_person, self.one_per or ANY)
        sizes = [1]
        for size, tell in zip(self.sizes, tells, strict=True):
            if (len(sizes) % 2 == 0) != tell:
                sizes.append(1)
            sizes[-1] *= size
        sizes = [1, 1, *sizes] if len(sizes) == 1 else sizes + [1] * (1 - len(sizes) % 2)
        without: Indices = np.arange(0)
        if self.possible is not None:
            without = np.setdiff1d(np.arange(math.prod(self.sizes)), self.possible)
        return PersonRows(self.rows_per_person, tuple(sizes), tuple(without.tolist()))

    @property
    def telling(self) -> tuple[bool, ...]:
        """Whether a person has at most one row for each value of an attribute, for each of these.

        Numbers have no cells of their own, so that "cell" is about all other attributes.
        """
        if self.one_per == CELL:
            return tuple(not isinstance(attribute, Number) for attribute in self.attributes)
        return tuple(name == self.one_per for name in self.names)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its whole content."""
        parts: list[Any] = [attribute.facts for attribute in self.attributes]
        if self.places is not None:
            parts.append([self.places.levels, self.places.paths])
        if self.suppress is not None:
            parts.append(["suppress", self.suppress])
        if self.person or self.one_per:
            parts.append([self.person, self.one_per])
        if self.impossible:
            parts.append(["impossible", self.impossible, self.drops])
        text = json.dumps([parts, self.rows_per_person], ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def require_release(self, neighbours: Neighbours) -> None:
        """Refuse a schema that is not reviewed, or does not fit the relation.

        Raises:
            InvalidInputError: a draft, or "drop" although the number of records is public.
        """
        if not self.reviewed:
            raise InvalidInputError(
                "the schema is a draft with labels from the data: check keys and cuts, which are "
                'published, then take "reviewed": false out of it'
            )
        dropping = [f" of attribute {a.name!r}" for a in self.attributes if a.outside == "drop"]
        dropping += [""] * bool(self.impossible and self.drops)
        if dropping and neighbours is Neighbours.REPLACE:
            raise InvalidInputError(
                f'outside "drop"{dropping[0]} is for add-remove neighbours: where '
                "the number of records is public, how many are kept would depend on the data; "
                'take "refuse" or a key for all other values'
            )


SchemaLike: TypeAlias = Schema | Mapping[str, Any] | str | Path
"""A schema, the content of its file, or the file."""


def schema_of(workload: Any) -> Schema | None:
    """The schema that a workload was made with; None without one, or if it is not a workload."""
    schema = workload.whole.schema if isinstance(workload, Workload) else None
    return schema if isinstance(schema, Schema) else None


def read_schema(path: PathName) -> Schema:
    """The schema in a JSON file.

    Raises:
        FileError: missing, unreadable, or not JSON.
        InvalidInputError: it is not a schema.
    """
    path = as_path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or f"not JSON: {error}"
        raise FileError(f"cannot read the schema {str(path)!r}: {why}") from None
    try:
        return as_schema(content, path.parent)
    except InvalidInputError as error:
        raise InvalidInputError(f"schema {str(path)!r}: {error}") from None


def as_schema(content: Any, folder: Path = Path()) -> Schema:
    """The schema that a dictionary or a file holds.

    Args:
        content: a path, or a dictionary.
        folder: of files of places.

    Raises:
        FileError: a path that cannot be read.
        InvalidInputError: with the mistake and the allowed values.
    """
    if isinstance(content, Schema):
        return content
    if isinstance(content, str | Path):
        return read_schema(content)
    allowed = {"attributes", "outside", "rows_per_person", "reviewed", "notes", "suppress"}
    allowed |= {"person", "one_per", "impossible"}
    if not isinstance(content, Mapping) or not isinstance(content.get("attributes"), list):
        raise InvalidInputError('it needs "attributes", a list; see docs/guides/releases.md')
    only_known(content, allowed, "the schema")
    outside = content.get("outside", "refuse")
    attributes = [_attribute(entry, outside, folder) for entry in content["attributes"]]
    names = [name for attribute in attributes for name in attribute.names]
    repeated = [f"{name!r} occurs twice or is a level" for name in names if names.count(name) > 1]
    if not attributes or repeated:
        raise InvalidInputError((repeated or ["no attributes"])[0])
    nested = [attribute.name for attribute in attributes if attribute.places]
    if len(nested) > 1:
        raise InvalidInputError(
            f"attributes {nested[0]!r} and {nested[1]!r} both have levels; one may, so make the"
            " lowest level of the other one an attribute with keys"
        )
    numbers = [attribute.name for attribute in attributes if isinstance(attribute, Number)]
    if nested and numbers:
        raise InvalidInputError(
            f"attribute {nested[0]!r} has levels, beside which {numbers[0]!r} may have cuts or "
            "keys but no sums; make the places keys of an attribute without levels"
        )
    attributes.sort(key=lambda attribute: attribute.places is None)
    rows, one_per = _rows(content, attributes)
    schema = Schema(
        tuple(attributes),
        rows,
        content.get("reviewed", True) is True,
        _suppress(content.get("suppress")),
        _person(content),
        one_per,
        as_impossible(content.get("impossible", []), attributes),
        outside == "drop",
    )
    if schema.impossible:
        _ = schema.cells  # refused if they are too many
    return schema


def _attribute(entry: Any, outside: Any, folder: Path) -> Attribute:
    """An attribute of any kind: numbers, whose sums are asked, or labels."""
    named = require_entry(entry)
    if {"low", "high", "unit", "knots"} & set(named):
        return as_numbers(named, named.get("outside", outside))
    return as_attribute(named, named.get("outside", outside), folder)


def _suppress(rule: Any) -> float | None:
    """The largest relative error that is published; None without a rule."""
    if rule is None:
        return None
    named = isinstance(rule, Mapping) and set(rule) == {"relative_error"}
    largest = rule["relative_error"] if named else 0
    if type(largest) not in (int, float) or not 0 < largest < math.inf:
        raise InvalidInputError(
            'suppress must be a relative error above 0, such as {"relative_error": 0.3}, got '
            f"{rule!r:.60}"
        )
    return float(largest)


def _person(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns that identify a person."""
    names = content.get("person", [])
    names = [names] if isinstance(names, str) else names
    texts = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not texts or len(set(names)) < len(names) or ("person" in content and not names):
        raise InvalidInputError(
            f'person must be the column that tells people apart, such as "id", or a list of'
            f" columns, got {content['person']!r}"[:200]
        )
    return tuple(names)


def _rows(content: Mapping[str, Any], attributes: list[Attribute]) -> tuple[int, str | None]:
    """How many rows a person has, and the value with at most one row, if any."""
    sizes: dict[Any, int] = {a.name: len(a.labels) for a in attributes if not isinstance(a, Number)}
    one_per = content.get("one_per")
    if one_per is not None and one_per not in [CELL, *sizes]:
        raise InvalidInputError(
            f'one_per must be "{CELL}" or an attribute with keys or cuts, of which a person has one'
            f" row for each value at most ({', '.join(sizes)}), got {one_per!r}"[:300]
        )
    rows = content.get("rows_per_person", sizes.get(one_per, 1))
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= 10**6:
        raise InvalidInputError(f"rows_per_person must be a whole number from 1, got {rows!r:.60}")
    return min(rows, sizes.get(one_per, rows)), one_per


def as_impossible(entries: Any, attributes: Sequence[Attribute]) -> tuple[Combination, ...]:
    """The combinations that a list names.

    Raises:
        InvalidInputError: it is not such a list, or has names or values that the attributes lack.
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
    places = {attribute.key(label): number for number, label in enumerate(attribute.labels)}
    listed = values if isinstance(values, list) else [values]
    texts = [text_of(value) for value in listed]
    wrong = [text for text in texts if attribute.key(text) not in places]
    if wrong or not texts:
        raise InvalidInputError(
            f"impossible: {attribute.name!r} has no value {(wrong or [''])[0]!r:.60}; it has"
            f" {', '.join(attribute.labels)}"[:300]
        )
    return tuple(sorted({places[attribute.key(text)] for text in texts}))


def possible_cells(sizes: Sequence[int], combinations: Sequence[Combination]) -> Indices:
    """The numbers of the cells that can be, in order.

    Raises:
        InvalidInputError: no cells, or too many.
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
