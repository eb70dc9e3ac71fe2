"""Contents of files, and results of a verification: a verdict for every claim, or "unchecked".

The digest of a file shows whether anything in it was changed after it was written: SHA-256 of the
header as JSON with sorted keys, without the digest itself, and of the name, type, shape and bytes
of every array in the order of their names. It guards against damage and slips: a person who changes
a file on purpose can write another digest, but cannot make false numbers hold. A JSON object has
its digest under `sha256`, `object`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Any

import numpy as np

Header = Mapping[str, Any]
Arrays = Mapping[str, Any]
"""The content of a file, or a part of it, by names; and its arrays."""
KEY = "sha256"
"""Of the digest in a header."""
OBJECT = "object"
"""Of the digest of a whole JSON object, among its hashes."""
WEAKER = 1e-6
"""A claimed bound may be weaker than the proved one by this part of it, never stronger."""
WEAKER_LOSS = 1e-5
"""The achieved loss in a file may be above the exact one by this part."""
AGREEMENT = 1e-9
"""A value that is claimed and the value that is computed agree to this part of it."""


class Verdict(StrEnum):
    """The three verdicts about a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """A claim of a file and its verdict.

    Attributes:
        name: of the number or property.
        claimed: as the file has it; None for a property.
        computed: the value from the arrays, rounded outwards if it is a bound; None without one.
        verdict: whether it holds.
        reason: the values compared, or why it fails or was not checked.
    """

    name: str
    claimed: float | None
    computed: float | None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """All that a file claims, checked.

    Attributes:
        file: the name of the file.
        kind: of the file ("strategy", "manifest", "envelope").
        arithmetic: in which the numbers were computed, and the strength of the proof.
        checks: one for each claim.
    """

    file: str
    kind: str
    arithmetic: str
    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        lines = [f"Verification of {self.kind} {self.file!r:.80}: {self.summary}"]
        lines += [f"  {check.name} fails: {check.reason}"[:90] for check in self.failures[:2]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(check.name, check.verdict.value, check.reason) for check in self.checks]
        body = "".join(f"<tr>{''.join(f'<td>{escape(x)}</td>' for x in row)}</tr>" for row in rows)
        caption = escape(f"{self.kind} {self.file!r}: {self.summary}")
        return f"<table><caption>{caption}</caption>{body}</table>"

    @property
    def summary(self) -> str:
        """How many claims hold, fail and are not checked."""
        counts = Counter(check.verdict for check in self.checks)
        return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())

    @property
    def holds(self) -> bool:
        """Whether every claim was checked and holds."""
        return {check.verdict for check in self.checks} == {Verdict.HOLDS}

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.verdict is Verdict.FAILS)

    @property
    def unchecked(self) -> tuple[Check, ...]:
        """The claims that were not checked."""
        return tuple(check for check in self.checks if check.verdict is Verdict.UNCHECKED)


@dataclass(slots=True)
class Checks:
    """The checks of a file, in the order in which they are made."""

    rows: list[Check] = field(default_factory=list)

    def state(self, name: str, holds: bool, reason: str, computed: float | None = None) -> bool:
        """Something that is or is not so, which is returned."""
        return self._add(name, None, computed, holds, reason)

    def unchecked(self, name: str, reason: str, claimed: float | None = None) -> None:
        """A claim that is left alone, and why."""
        self.rows.append(Check(name, claimed, None, Verdict.UNCHECKED, reason))

    def at_most(self, name: str, claimed: Any, proved: float, *, weaker: float = WEAKER) -> None:
        """An upper bound that is claimed: not below the one proved, nor far above it."""
        self._bound(name, claimed, proved, 1.0, weaker)

    def at_least(self, name: str, claimed: Any, proved: float, *, weaker: float = WEAKER) -> None:
        """A lower bound that is claimed: not above the one proved, nor far below it."""
        self._bound(name, claimed, proved, -1.0, weaker)

    def equal(
        self,
        name: str,
        claimed: Any,
        low: float,
        high: float,
        *,
        less: float = AGREEMENT,
        more: float = AGREEMENT,
    ) -> None:
        """A claimed value, and the interval in which it lies, up to parts of it."""
        value, size = as_number(claimed), max(abs(low), abs(high))
        holds = value is not None and low - less * size <= value <= high + more * size
        reason = "" if holds else f"lies in [{low:.12g}, {high:.12g}]"
        self._add(name, value, high, holds, reason)

    def _bound(self, name: str, claimed: Any, proved: float, sign: float, weaker: float) -> None:
        value = as_number(claimed)
        reason = ""
        if value is None:
            reason = "is no finite number"
        elif not math.isfinite(proved):
            reason = "cannot be computed from the arrays"
        elif sign * (value - proved) < 0:
            reason = "claims more than the arrays prove"
        elif abs(value - proved) > weaker * abs(proved):
            reason = "is not what the arrays give"
        self._add(name, value, proved, not reason, reason)

    def _add(
        self, name: str, claimed: float | None, computed: Any, holds: bool, reason: str
    ) -> bool:
        verdict = Verdict.HOLDS if holds else Verdict.FAILS
        self.rows.append(Check(name, claimed, as_number(computed), verdict, reason))
        return holds


def as_number(value: Any) -> float | None:
    """A finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What has these names; ValueError if one comes twice, as readers take different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} comes twice")
    return found


def digest_of_object(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object with sorted keys, without the entry "object" of its hashes."""
    hashes = {key: value for key, value in content.get(KEY, {}).items() if key != OBJECT}
    text = json.dumps({**content, KEY: hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The digest of a header, whose own entry KEY does not count, and of its arrays."""
    rest = {key: value for key, value in header.items() if key != KEY}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
