"""How objects show themselves: one to three lines in a shell, a small table in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape
from importlib.util import find_spec
from typing import Any

from pmldesign.errors import require_extra

Facts = list[tuple[str, str]]
"""Labels and values."""
LONGEST_LINE, LONGEST_TEXT = 180, 400
"""Maximum number of characters of a line, and of the display of an object in a shell."""
MOST_ROWS = 20
"""Rows of a table in a notebook; `to_frame` has all of them."""


class Displayed(ABC):
    """Objects that are displayed by a title and a few facts."""

    __slots__ = ()

    @abstractmethod
    def _display(self) -> tuple[str, Facts]:
        """The title and the facts below it."""

    def __repr__(self) -> str:
        title, facts = self._display()
        line = ", ".join(f"{label} {value}" for label, value in facts)
        return shortened(f"{shortened(title, LONGEST_LINE)}\n  {line}" if line else title)

    def _repr_html_(self) -> str:
        title, facts = self._display()
        return html_table(title, facts)


def shortened(text: str, most: int = LONGEST_TEXT) -> str:
    """A text, or its beginning."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Drawn:
    """Objects that can be plotted."""

    __slots__ = ()

    def plot(self) -> Any:
        """The picture as a matplotlib figure (the plot extra), as `pmldesign.plots.plot` draws it.

        Raises:
            InvalidInputError: it is too large to be drawn.
        """
        import pmldesign

        return pmldesign.plots.plot(self)


def frame_library(data: Any) -> str | None:
    """The library of a data frame: "pandas" or "polars"; None for other data."""
    library = type(data).__module__.partition(".")[0]
    return library if library in ("pandas", "polars") else None


def data_frame(
    records: Iterable[Mapping[str, Any]],
    kinds: Mapping[str, type] | None = None,
    library: str | None = None,
) -> Any:
    """A data frame of the given library; by default of pandas if installed, else of polars.

    Args:
        records: the rows; all have the same keys, with None for a missing value.
        kinds: str, int or float by column; by default inferred from the values.
        library: "pandas" or "polars"; None for the one that is installed.

    Raises:
        InvalidInputError: neither is installed.
    """
    rows, kinds = [*records], kinds or {}
    if library == "pandas" or (library is None and find_spec("pandas") is not None):
        import pandas

        names = {int: "Int64", float: "float64"}
        return pandas.DataFrame(rows, columns=[*kinds] or None).astype(
            {name: names[kind] for name, kind in kinds.items() if kind in names}
        )
    require_extra("a data frame", "polars", "release", ", or install pandas")
    import polars

    return polars.DataFrame(rows, schema=dict(kinds) or None, infer_schema_length=None)


def html_table(title: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """A title and rows of text as an HTML table, everything escaped."""
    lines = ["".join(f"<th>{escape(text)}</th>" for text in header)] if header else []
    lines += ["".join(f"<td>{escape(text)}</td>" for text in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def latex_text(text: str) -> str:
    """The text with the special characters of LaTeX escaped."""
    signs = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}
    signs |= {sign: "\\" + sign for sign in "&%$#_{}"}
    return "".join(signs.get(sign, sign) for sign in text)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a LaTeX table (booktabs): the first column is text, the others numbers."""
    first, *others = [" & ".join(map(latex_text, cells)) + r" \\" for cells in (header, *rows)]
    start = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
    end = [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*start, first, r"\midrule", *others, *end])


def count_text(count: int) -> str:
    """An integer for messages: all its digits if they are few."""
    return str(count) if count < 10**15 else f"{Decimal(count):.3g}"
