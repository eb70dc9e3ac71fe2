"""Private mechanisms for linear queries by optimization, with certified bounds.

    import pmldesign as pml

    queries = pml.workload("prefix:64")
    best = pml.factorize(queries, p=4)                  # least norm, both bounds certified
    noisy = pml.optimize(queries, guarantee=pml.ApproxDP(1, 1e-6))      # and its noise

Every function takes a workload as a name, a matrix, a data frame or a Workload, and a strategy as a
name, a matrix, a factorization or a Strategy. docs/python.md is the manual.

Names are loaded when they are first used, so that `import pmldesign` takes no time; the stub beside
this file lists them with their homes.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOME = {
    alias.name: statement.module or ""
    for statement in _STUB.body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pmldesign")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value  # the next use finds it at once
        return value
    raise AttributeError(f"module 'pmldesign' has no attribute {name!r}; see dir(pmldesign)")


def __dir__() -> list[str]:
    return [*__all__]
