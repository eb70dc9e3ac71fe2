"""A file, whatever it is: which checks it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pmldesign.errors import FileError, InvalidInputError, PmldesignError
from pmldesign.verify.reading import read_archive
from pmldesign.verify.report import Checks, Verification

FORMATS = (1, 2)
BITS = 192
"""Of ball arithmetic."""


def check_file(path: str | Path, queries: Any = None) -> Verification:
    """Check what a file claims.

    Args:
        path: a strategy file (.npz).
        queries: A, shape (m, n), which a strategy is for; None if nobody knows it.

    Raises:
        FileError: missing, unreadable, or of another kind.
        InvalidInputError: python-flint is not installed.
    """
    try:
        from flint import ctx

        from pmldesign.verify.strategies import check_strategy
    except ImportError:
        raise InvalidInputError(
            "verification needs python-flint; install it with: pip install 'pmldesign[verify]'"
        ) from None
    path, checks, arithmetic = Path(path), Checks(), "none"
    header, arrays = read_archive(path)
    if header.get("format") not in FORMATS:
        raise FileError(
            f"{path.name}: strategy format {header.get('format')!r:.40} is none of {FORMATS}; "
            "verify it with the version of pmldesign that wrote it"
        )
    with ctx.workprec(BITS):
        try:
            arithmetic = check_strategy(header, arrays, queries, checks)
        except (PmldesignError, MemoryError):
            raise
        except Exception as error:  # a claim may be anything
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            checks.state("contents", False, f"cannot be computed with ({reason})")
    return Verification(path.name, "strategy", arithmetic, tuple(checks.rows))
