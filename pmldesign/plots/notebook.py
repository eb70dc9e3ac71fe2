"""Progress where people wait for a result: in a notebook, or in a shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def progress() -> Callable[[Any], None]:
    """A callback that shows how far a solver, a search or a comparison is, in one line.

    For `callback` of `factorize`, `optimize` and `least_budget`, and `announce` of `compare_all`
    and `sweep`. In a notebook the line is an output of the cell; on a terminal it is on standard
    error; elsewhere nothing is shown.
    """
    handle: Any = None
    shell = _shell()

    def show(step: Any) -> None:
        nonlocal handle
        if shell is None:
            if sys.stderr.isatty():
                print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)
            return
        content = {"text/plain": str(step)}
        if handle is None:
            handle = shell.display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return show


def _shell() -> Any:
    """IPython's module for displays, where this runs in the kernel of a notebook; else None."""
    if "IPython" not in sys.modules:
        return None
    from IPython import display as displays
    from IPython import get_ipython

    return displays if hasattr(get_ipython(), "kernel") else None
