"""What a picture of comparisons shows: errors, where they lie, and words about them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pmldesign.comparison.comparison import Comparison
from pmldesign.comparison.rows import PARAMETERS
from pmldesign.errors import InvalidInputError

LABELS = {
    "cells": "cells n",
    "epsilon": r"$\varepsilon$",
    "alpha": r"$\alpha$",
    "delta": r"$\delta$",
    "rho": r"$\rho$",
    "mu": r"$\mu$",
    "order": "order",
    "p": "p",
    "weights": "weights",
    "participation": "participation",
}
KINDS: Mapping[tuple[str, str | None], str] = {
    ("dp", None): "differential privacy",
    ("zcdp", None): "zCDP",
    ("gaussian-dp", None): "Gaussian DP",
    ("renyi", None): "Renyi DP",
    ("pml", None): "pointwise maximal leakage",
    ("pml", "slack"): "pointwise maximal leakage (slack)",
    ("pml", "envelope"): "pointwise maximal leakage (envelope)",
}
"""By the kind of a guarantee and what its delta is."""


@dataclass(frozen=True, slots=True)
class PlottedRow:
    """The error of a strategy with its noise, and where it lies.

    Attributes:
        where: by the names in LABELS, and the workload.
        strategy: its name.
        noise: its kind.
        error: l_p^p error of all queries.
        lower_bound: on that of every mechanism; None where none is known.
        queries: their number.
        promise: what the guarantee is called; empty without one.
        neighbours: the relation that it speaks of.
    """

    where: dict[str, Any]
    strategy: str
    noise: str
    error: float
    lower_bound: float | None
    queries: int
    promise: str
    neighbours: str

    def per_query(self, error: float) -> float:
        """An l_p^p error of all queries as that of one."""
        p = self.where["p"]
        size = 1.0 if math.isinf(p) else math.pow(self.queries, 1 / p)
        return error / size


def points_of(comparisons: Sequence[Comparison]) -> list[PlottedRow]:
    """Every row with its coordinates; the members of a family share one name."""
    records = []
    for comparison in comparisons:
        m, n = comparison.workload.shape
        promise = {} if comparison.guarantee is None else comparison.guarantee.to_json()
        shared = promise | {"workload": comparison.workload.name, "queries": m, "cells": n}
        records += [
            row.to_record() | shared | {"strategy": row.strategy} for row in comparison.rows
        ]
    return points_of_records(records)


def points_of_records(records: Sequence[Mapping[str, Any]]) -> list[PlottedRow]:
    """Every row of a comparison or a sweep that has an error.

    Raises:
        InvalidInputError: none has one.
    """
    done = [record for record in records if record["error"] is not None]
    if not done:
        raise InvalidInputError("there is nothing to draw: no row has an error")
    families = _families({record["workload"]: record["cells"] for record in done})
    return [_point(record, families) for record in done]


def _families(sizes: Mapping[str, int]) -> dict[str, str]:
    """The name of the family of every workload; empty if one of them is in none.

    A family has several members that differ in a number of their names, and in their cells.
    """
    patterns: dict[str, list[str]] = {}
    for name in sizes:
        patterns.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    for names in patterns.values():
        if len(names) == 1 or len({sizes[name] for name in names}) < len(names):
            return {}
    return {name: _family_name(names) for names in patterns.values() for name in names}


def _point(record: Mapping[str, Any], families: Mapping[str, str]) -> PlottedRow:
    name = record["workload"]
    where = {"workload": families.get(name, name)}
    where |= {"cells": record["cells"]} if families else {}
    where |= {key: record.get(key) for key in PARAMETERS}
    if record.get("alpha_file") or isinstance(where["alpha"], list):
        where["alpha"] = record.get("alpha_file") or "one for each cell"
    where |= {key: record.get(key) or "none" for key in ("weights", "participation")}
    kind = record.get("kind")
    return PlottedRow(
        where=where | {"p": record["p"]},
        strategy=record["strategy"],
        noise=record["noise"],
        error=record["error"],
        lower_bound=record["lower_bound"],
        queries=record["queries"],
        promise=KINDS[kind, record.get("failure") or None] if kind else "",
        neighbours=record.get("neighbours") or "",
    )


def _family_name(names: Sequence[str]) -> str:
    """The first name, with the numbers that others have differently written as n."""
    split = [re.split(r"(\d+)", name) for name in names]
    return "".join(parts[0] if len(set(parts)) == 1 else "n" for parts in zip(*split, strict=True))


def noises_of(points: Sequence[PlottedRow]) -> dict[str, str]:
    """The kinds of noise of every strategy, over all points."""
    kinds: dict[str, dict[str, None]] = {}
    for point in points:
        kinds.setdefault(point.strategy, {})[point.noise] = None
    return {name: " or ".join(of) for name, of in kinds.items()}


def guarantee_text(points: Sequence[PlottedRow], varying: Sequence[str]) -> str:
    """The kind of the guarantee, and those of its numbers that all panels and points share."""
    promises = sorted({point.promise for point in points} - {""})
    if not promises:
        return "no guarantee: noise of scale equal to the sensitivity"
    numbers = [
        f"{LABELS[key]} = {text_of(points[0].where[key])}"
        for key in PARAMETERS
        if key not in varying and points[0].where[key] is not None
    ]
    relations = sorted({point.neighbours for point in points if point.promise})
    return ", ".join([" and ".join(promises), *numbers, f"{' and '.join(relations)} neighbours"])


def text_of(value: float | str | None) -> str:
    """A value in a picture."""
    if isinstance(value, float | int):
        return "\u221e" if math.isinf(value) else f"{value:g}"
    return value or "none"
