"""What messages say of files: names and reasons that are safe to print, in one line."""

from __future__ import annotations

from pathlib import Path

from pmldesign.errors import printable

LONGEST_REASON = 200
"""Characters of another library's message: two lines and a half of a terminal."""


def file_name(path: Path) -> str:
    """How messages, tables and files call a file: the last part of its path."""
    return printable(path.name)


def reason(error: BaseException) -> str:
    """Why a parser gave up; never the advice of a library to load a file in an unsafe way."""
    text = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
    if "pickle" in text:
        return "it holds pickled Python objects, which are never loaded; save numbers"
    if "max_header_size" in text or "Header info length" in text:
        return "the header of an array is too long"
    return printable(text)
