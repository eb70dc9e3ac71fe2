"""How commands print: tables, facts, JSON, notes, and progress.

Progress is a line on standard error, only where that is a terminal; whatever is printed clears it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pmldesign.cli.terminal.process import complain
from pmldesign.cli.terminal.text import terminal_width, wrapped
from pmldesign.errors import PmldesignError
from pmldesign_solvers.norm.solution import Step
from pmldesign_solvers.search.solution import SearchStep

if TYPE_CHECKING:
    from rich.status import Status

    from pmldesign.cli.documents.document import Section

WIDTH = 500
"""Of a table where there is no terminal: no line of it wraps."""


class _Progress:
    """The line of progress: at most one, on a terminal."""

    status: Status | None = None

    def show(self, step: Step | SearchStep | str) -> None:
        """Replace the line."""
        if self.status is None:
            from rich.console import Console

            self.status = Console(stderr=True).status(str(step))
            self.status.start()
        self.status.update(str(step))

    def clear(self) -> None:
        """Remove the line until the next step."""
        if self.status is not None:
            self.status.stop()
            self.status = None


_PROGRESS = _Progress()


@contextmanager
def progress() -> Iterator[Callable[[Step | SearchStep | str], None]]:
    """A callback that shows steps of a solver, or lines of text, on a terminal."""
    try:
        yield _PROGRESS.show if sys.stderr.isatty() else _ignore
    finally:
        _PROGRESS.clear()


def _ignore(step: Step | SearchStep | str) -> None:
    """Show nothing."""


def note(text: str) -> None:
    """Print a note on standard error."""
    _PROGRESS.clear()
    complain(f"note: {text}")


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal; the first column is text, the others are numbers.

    Args:
        headers: of the columns.
        rows: a cell for each of them.
        optional: columns that are left out, the first one first, where the terminal is too narrow.
        texts: columns that wrap at words there.
    """
    _PROGRESS.clear()
    width = terminal_width(sys.stdout)
    shown, dropped = [*headers], []
    text = _rendered(headers, rows, shown, texts, width)
    for name in optional:
        if width is None or max(map(len, click.unstyle(text).splitlines())) <= width:
            break
        if name in shown:
            shown.remove(name)
            dropped.append(name)
            text = _rendered(headers, rows, shown, texts, width)
    _PROGRESS.clear()
    click.echo(text)
    if dropped:
        left_out = f"left out in {width} columns: {', '.join(dropped)} (--json has all)"
        click.echo("\n" + wrapped(left_out, width))


def _rendered(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[str],
    texts: Sequence[str],
    width: int | None,
) -> str:
    """The columns `shown`; wider than the terminal where the words and numbers are."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # either way two spaces between columns: the lines of a box take one
    look = (None, (0, 2, 0, 0)) if width is None else (box.SIMPLE_HEAD, (0, 1, 0, 0))
    grid = Table(box=look[0], pad_edge=False, padding=look[1])
    places = [headers.index(name) for name in shown]
    least = 0
    for place in places:
        cells = [headers[place], *(row[place] for row in rows)]
        wraps = headers[place] in texts
        parts = [word for cell in cells for word in cell.split()] if wraps else cells
        longest = max(map(len, parts), default=1)
        left = wraps or place == 0
        grid.add_column(
            headers[place],
            justify="left" if left else "right",
            no_wrap=not wraps,
            min_width=longest,
        )
        least += longest + 2
    for row in rows:
        grid.add_row(*(row[place] for place in places))
    console = Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        width=max(width, least + 1) if width is not None and texts else WIDTH,
    )
    with console.capture() as capture:
        console.print(grid)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def print_sections(sections: Iterable[Section], *, begun: bool = False) -> None:
    """Print sections, an empty line between their parts; a title stands above its facts.

    Args:
        sections: from above to below.
        begun: whether something was printed before.
    """
    for section in sections:
        for part in _parts(section):
            if begun:
                click.echo()
            part()
            begun = True


def _parts(section: Section) -> Iterator[Callable[[], None]]:
    for sentence in section.sentences:
        yield partial(click.echo, sentence)
    if section.facts:
        yield partial(_facts, section)
    for shown in section.tables:
        yield partial(table, shown.header, shown.cells, optional=shown.optional, texts=shown.texts)


def _facts(section: Section) -> None:
    indent = ""
    if section.title:
        click.echo(f"{section.title.lower()}:")
        indent = "  "
    facts([(indent + name, text) for name, text in section.facts], column=section.column)


def facts(pairs: Sequence[tuple[str, str]], *, column: int = 0) -> None:
    """Print what is known, one fact a line, with the values from this column on or a later one."""
    _PROGRESS.clear()
    column = max(column, *(len(name) + 2 for name, _ in pairs))
    for name, value in pairs:
        line = f"{name:<{column}}{value}"
        click.echo(wrapped(line, terminal_width(sys.stdout), hanging=column))


def number(value: float) -> str:
    """Six significant digits."""
    return f"{value:.6g}"


def print_json(value: Any) -> None:
    """Print JSON; infinity, which JSON does not have, is the text "inf".

    Raises:
        PmldesignError: a value is not a number.
    """
    try:
        text = json.dumps(_finite(value), indent=2, allow_nan=False)
    except ValueError:
        raise PmldesignError(
            "a result is not a number in double precision; take numbers that are less extreme"
        ) from None
    _PROGRESS.clear()
    click.echo(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value
