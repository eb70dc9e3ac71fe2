"""Values of a study, as TOML has them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError


def listed(value: Any) -> list[Any]:
    """A list as it is, another value as a list of one, nothing as an empty one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def texts(key: str, table: Mapping[str, Any]) -> list[str]:
    """The texts under a key.

    Raises:
        InvalidInputError: there is something else among them.
    """
    values = listed(table.get(key))
    for text in values:
        if not isinstance(text, str):
            raise InvalidInputError(f"{key} must be texts, got {text!r}")
    return values


def number(key: str, value: Any) -> float:
    """A number, also "inf".

    Raises:
        InvalidInputError: it is none.
    """
    if isinstance(value, str) and value == "inf":
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{key} must be a number, got {value!r}")
    return float(value)


def choice(key: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> Any:
    """The value under a key, the first of the allowed ones by default.

    Raises:
        InvalidInputError: it is not allowed.
    """
    value = table.get(key, allowed[0])
    if value not in allowed:
        raise InvalidInputError(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def sizes(value: Any) -> list[int]:
    """The numbers that stand for {n}: a list, or `count` of them with equal ratios.

    Raises:
        InvalidInputError: they are no whole numbers, or the keys are others.
    """
    if isinstance(value, Mapping):
        if set(value) != {"from", "to", "count"}:
            raise InvalidInputError(
                "n must be whole numbers, or { from = 10, to = 1000, count = 7 }, got the keys "
                + ", ".join(value)
            )
        first, last, count = (whole(f"{key} of n", value[key]) for key in ("from", "to", "count"))
        if last < first:
            raise InvalidInputError(f"n goes from {first} to {last}: from must not be above to")
        return sorted({round(size) for size in np.geomspace(first, last, count)})
    return [whole("n", size) for size in listed(value)]
