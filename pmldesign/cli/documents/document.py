"""What a command found, said once: facts, tables and pictures in sections.

A document is shown in three ways. `data` is the JSON, all numbers with all digits. The `summary` is
the text of a terminal, and the `page` what --report writes as HTML: the same sections where both
say the same. Tables and pictures are also files of their own (--csv, --latex, --plot).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fact = tuple[str, str]
"""A name, and what is known."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A number with the text that shows it, for those that are not rounded to the nearest."""

    value: float
    text: str


Cell = str | float | int | Rounded | None


def text_of(cell: Cell) -> str:
    """A cell as it is shown; numbers that are not whole have six digits."""
    if cell is None:
        return "-"
    if isinstance(cell, Rounded):
        return cell.text
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Texts and numbers; None is shown as a dash.

    Attributes:
        header: of the columns.
        rows: a cell for each of them.
        optional: columns that a narrow terminal goes without, the first one first.
        texts: columns that wrap at words there; they and the first one are text.
        records: the rows with all digits, by column, for --csv.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    optional: Sequence[str] = ()
    texts: Sequence[str] = ()
    records: Sequence[Mapping[str, Any]] = ()

    @property
    def cells(self) -> list[list[str]]:
        """The rows as they are shown."""
        return [[text_of(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Picture:
    """What draws a figure, if there is anything to see, and what it shows in words."""

    draw: Callable[[], Figure | None]
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document: sentences, facts, tables and pictures, in this order.

    A terminal has the values of the facts from `column` on.
    """

    title: str = ""
    sentences: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    column: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """What a command found.

    Attributes:
        data: what --json prints.
        summary: what is printed otherwise.
        table: what --csv and --latex write.
        picture: what --plot draws.
        title: of the page.
        page: its sections, made when they are asked for.
    """

    data: Any
    summary: Sequence[Section]
    table: Table | None = None
    picture: Callable[[], Figure] | None = None
    title: str = ""
    page: Callable[[], Sequence[Section]] | None = None


def records(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of dictionaries with all columns; what none of them has is left out."""
    rows = [_flat(row) for row in rows]
    header = [*dict.fromkeys(key for row in rows for key in row if row[key] is not None)]
    return Table(header, [[_plain(row.get(key)) for key in header] for row in rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a column for every entry of a dictionary in it."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        entries = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{key} {name}".strip(): entry for name, entry in entries.items()}
    return flat


def _plain(value: Any) -> Cell:
    plain = value is None or isinstance(value, int | float | str | Rounded)
    return value if plain else str(value)
