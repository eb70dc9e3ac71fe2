"""Text on a terminal: long lines wrap at words; where there is no terminal nothing is wrapped."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from typing import IO


def terminal_width(stream: IO[str]) -> int | None:
    """Columns of the terminal that the stream is; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, width: int | None, *, hanging: int = 0) -> str:
    """The text in lines of this width, broken at spaces only, all but the first indented."""
    if width is None or len(text) <= width:
        return text
    return textwrap.fill(
        text,
        max(width, hanging + 1),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for a mistyped word; empty where none is like it."""
    by_lower = {word.lower(): word for word in words}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
