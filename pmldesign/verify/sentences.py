"""The words of a guarantee: whether the numbers in them are those of the guarantee."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pmldesign.verify.report import Checks

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ALWAYS = {"zcdp": {1.0}, "gaussian-dp": {0.0, 1.0}}
"""Numbers in the words of a kind: orders above 1, a draw from N(0, 1)."""


def check_sentence(words: str, kind: str, numbers: Any, checks: Checks) -> None:
    """Add whether every number in the words is one of those.

    Args:
        words: what is promised.
        kind: of the guarantee.
        numbers: of the guarantee, the cells and the records of one person, nested as they are.
        checks: to which it is added.
    """
    allowed = set(_numbers(numbers)) | ALWAYS.get(kind, set())
    spoken = NUMBER.findall(words.replace("e^", " "))
    other = [word for word in spoken if float(word) not in allowed]
    reason = f"{other[0]} is no number of it" if other else "its numbers are those of the guarantee"
    checks.state("sentence", not other, reason)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, list) and value and all(isinstance(x, int | float) for x in value):
        value = [min(value), max(value)]  # of a vector alpha the words have both ends
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
