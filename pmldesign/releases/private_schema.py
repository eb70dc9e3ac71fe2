r"""A draft of a schema that is private: its keys and cuts come from noisy counts above a threshold.

Of each of C columns the counts c_v of all values that occur are looked at, and those of all ranges
of numbers [2^i, 2^(i+1)), their negatives, and 0: 2 C histograms; a record changes one count of
each. With the discrete Laplace noise Z of parameter b, q = e^(-1/b), a value is published if

    c_v + Z >= t,     P(1 + Z >= t) = q^(t - 1) / (1 + q) <= delta / (2 C),

so that a value of one record alone is published with at most that probability. One more record
changes the counts of other values by 1: each histogram is (1/b, delta / (2 C))-private, all of them
(epsilon, delta) for b >= 2 C / epsilon [1]. Everything else is made of the published values: keys
if these have most of the records, else cuts over the published ranges, and "other" takes the rest.
Equal values have one label (`people.values`), so that no record's spelling is published.

References:
    [1] Korolova, Kenthapadi, Mishra and Ntoulas, Releasing search queries and clicks privately,
    2009; Wilson and others, Differentially private SQL with bounded user contribution, 2020.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.arguments import as_number
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.files.atomic import PathName, atomic_write
from pmldesign.privacy.guarantees import ApproxDP
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import as_written
from pmldesign.releases.costs.budget import Charge, Cost
from pmldesign.releases.costs.ledger import Ledger
from pmldesign.releases.costs.unit import Unit
from pmldesign.releases.noise import laplace_parameter
from pmldesign.releases.people.attribute import is_code, is_key, is_name
from pmldesign.releases.people.drafts import (
    MOST_KEYS,
    UNORDERED,
    loaded,
    round_cuts,
    value_counts,
)
from pmldesign.releases.people.relation import Source, opened
from pmldesign.releases.people.sources import source_of
from pmldesign.releases.people.values import label_of
from pmldesign.releases.sampler import Sampler, draw

OTHER = "other"
Counts = tuple[Counter[str], Counter[tuple[float, float]]]
"""How many records have each value of a column, and each range of numbers."""
MOST_COVERED = 0.5
"""Keys are drafted if their counts are at least this part of those of the ranges."""


@dataclass(frozen=True)
class Thresholds:
    """The noise of all counts, and the threshold from which they are published.

    Attributes:
        scale: b.
        least: t.
    """

    scale: float
    least: int

    @classmethod
    def of(cls, promise: ApproxDP, columns: int) -> Thresholds:
        """The noise and threshold with which so many columns keep a guarantee."""
        scale = laplace_parameter(2 * columns, promise.epsilon)
        logarithm = math.log(2 * columns / promise.delta) - math.log1p(math.exp(-1 / scale))
        return cls(scale, 2 + max(0, math.ceil(scale * logarithm * (1 + 1e-12))))

    def published(self, counts: Mapping[Any, int], sampler: Sampler) -> dict[Any, int]:
        """The noisy counts that are published."""
        if not counts:
            return {}
        noisy = np.array([*counts.values()]) + sampler(Noise.LAPLACE, self.scale, len(counts))
        pairs = zip(counts, noisy.tolist(), strict=True)
        return {value: count for value, count in pairs if count >= self.least}


def private_draft(
    data: Any,
    promise: ApproxDP,
    *,
    columns: Sequence[str] | None = None,
    ledger: Ledger | None = None,
    output: PathName | None = None,
    sampler: Sampler = draw,
) -> dict[str, Any]:
    """A schema that depends on a single record only as far as the guarantee allows.

    Args:
        data: a path, or a data frame.
        promise: epsilon and delta of all of it, for add-remove neighbours.
        columns: that are looked at; None for all. Their names count as public.
        ledger: that pays.
        output: path of the draft, in JSON.
        sampler: another one is for tests alone, and gives no privacy.

    Raises:
        FileError: a file cannot be read or written.
        InvalidInputError: columns that are not there, replace neighbours, or no file for a ledger.
        InfeasibleError: the budget has no room.
    """
    if promise.neighbours is not Neighbours.ADD_REMOVE:
        raise InvalidInputError("a private draft is for add-remove neighbours; leave replace out")
    if sampler is draw:
        require_extra("noise for publication", "opendp", "release")
    source = source_of(data)
    asked = _columns(source.columns, columns)

    def counted() -> list[Counts]:
        return _counted(source, asked)

    def drawn(counts: list[Counts]) -> dict[str, Any]:
        return _drawn(counts, asked, promise, sampler, output)

    if ledger is None:
        return drawn(counted())
    cost = Cost(as_written(promise.epsilon), delta=as_written(promise.delta))
    charge = Charge(f"draft of a schema for {', '.join(asked)}", Unit(), cost)
    return ledger.pay(charge, data, counted, drawn)


def _columns(present: Sequence[Any], columns: Sequence[str] | None) -> list[str]:
    """The columns that are looked at."""
    asked = [*filter(is_name, present)] if columns is None else columns
    wrong = [name for name in asked if name not in present or not is_name(name)]
    if wrong or not asked or len(set(asked)) < len(asked):
        got, there = (", ".join(map(str, names)) or "none" for names in (asked, present))
        raise InvalidInputError(
            "columns must be different ones of the data, with names that an attribute can have,"
            f" such as none with * + : , =, got {got}; there are {there}"[:300]
        )
    return list(asked)


def _counted(source: Source, names: Sequence[str]) -> list[Counts]:
    """For each column, how many records have each value, and each range of numbers."""
    source.require(names)
    with opened(source, names, nested=True) as relation:
        found = value_counts(loaded(relation, names))
    counts: list[Counts] = []
    for name in names:
        values: Counter[str] = Counter()
        ranges: Counter[tuple[float, float]] = Counter()
        for key, count in found.get(name, {}).items():
            number = _number(key)
            if not is_key(key) or not (number is None or math.isfinite(number)):
                continue
            values[key] += count
            if number is not None:
                ranges[_range_of(number)] += count
        counts.append((values, ranges))
    return counts


def _number(key: str) -> float | None:
    """The number that a key is; None if it is a text or a code."""
    return None if is_code(key) else as_number(key)


def _range_of(number: float) -> tuple[float, float]:
    """The power of two below a number, and that above it; (0, 0) for 0."""
    if number == 0:
        return 0.0, 0.0
    top = math.ldexp(1.0, min(math.frexp(abs(number))[1], 1023))
    return (top / 2, top) if number > 0 else (-top, -top / 2)


def _drawn(
    counted: Iterable[Counts],
    names: Sequence[str],
    promise: ApproxDP,
    sampler: Sampler,
    output: PathName | None,
) -> dict[str, Any]:
    """The draft, from counts that were paid for."""
    limits = Thresholds.of(promise, len(names))
    attributes, left_out = [], []
    for name, histograms in zip(names, counted, strict=True):
        values, ranges = (limits.published(counts, sampler) for counts in histograms)
        entry = _entry(values, ranges)
        if entry is None:
            left_out.append(name)
        else:
            attributes.append({"name": name, **entry})
    notes = [
        f"keys and cuts are from noisy counts: epsilon {promise.epsilon:g} and delta"
        f" {promise.delta:g} were spent on {len(names)} columns, for one record added or removed;"
        f" values of fewer than about {limits.least} records are in {OTHER!r}"
    ]
    if left_out:
        notes.append(
            f"no value or range is frequent enough in {', '.join(left_out)}: declare these columns"
            " from what is known, or leave them out"
        )
    if any("keys" in entry for entry in attributes):
        notes.append(UNORDERED)
    draft = {"notes": notes, "attributes": attributes, "outside": OTHER, "rows_per_person": 1}
    if output is not None:
        with atomic_write(output, "w") as handle:
            handle.write(json.dumps(draft, indent=2) + "\n")
    return draft


def _entry(
    values: Mapping[str, int], ranges: Mapping[tuple[float, float], int]
) -> dict[str, Any] | None:
    """The keys or cuts of an attribute, made only of published values; None without any."""
    numbers = [number for number in map(_number, values) if number is not None]
    known = sum(values.values()) >= MOST_COVERED * sum(ranges.values())
    if ranges and not (values and known and len(values) <= MOST_KEYS):
        within = known and len(numbers) > 1
        low = min(numbers) if within else min(low for low, _ in ranges)
        high = max(numbers) if within else max(high for _, high in ranges)
        if low < high:
            return {"cuts": round_cuts(low, high)}
    if not values:
        return None
    frequent = sorted(values, key=lambda key: (-values[key], label_of(key)))[:MOST_KEYS]
    labels = [*map(label_of, frequent)]
    return {"keys": sorted(labels, key=float if len(numbers) == len(values) else str)}
