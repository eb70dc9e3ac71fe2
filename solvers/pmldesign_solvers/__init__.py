"""Certified solvers for factorization norms: arrays in, arrays out, nothing about privacy.

A room shows its names on its face, `pmldesign_solvers.norm` or `pmldesign.privacy`, and loads a
module when one of its names is first used.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def face(room: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a room.

    Args:
        room: the package.
        names: for every module in it, those of its names that others use.
    """
    homes = {name: f"{room}.{module}" for module, of in names.items() for name in of.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get
