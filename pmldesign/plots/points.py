"""What a picture of comparisons shows: rows, where they lie, and words about them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pmldesign.comparison.comparison import Comparison, Row
from pmldesign.comparison.rows import parameters
from pmldesign.privacy.guarantees import (
    PML,
    ZCDP,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    GaussianDP,
    Guarantee,
    PureDP,
    RenyiDP,
)

LABELS = {
    "cells": "cells n",
    "epsilon": r"$\varepsilon$",
    "alpha": r"$\alpha$",
    "delta": r"$\delta$",
    "p": "p",
}
KINDS: Mapping[type[Guarantee], str] = {
    PureDP: "differential privacy",
    ZCDP: "zCDP",
    GaussianDP: "Gaussian DP",
    RenyiDP: "Renyi DP",
    ApproxDP: "differential privacy",
    PML: "pointwise maximal leakage",
    ApproxPML: "pointwise maximal leakage (slack)",
    EnvelopePML: "pointwise maximal leakage (envelope)",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A row, where it lies, and the error of one query at it."""

    where: dict[str, Any]
    row: Row
    queries: int

    def per_query(self, error: float) -> float:
        """An l_p^p error of all queries as that of one."""
        p = self.row.p
        size = 1.0 if math.isinf(p) else math.pow(self.queries, 1 / p)
        return error / size


def points_of(comparisons: Sequence[Comparison]) -> list[Point]:
    """Every row with its coordinates; the members of a family share one name."""
    sizes = {comparison.workload.name: comparison.workload.shape[1] for comparison in comparisons}
    patterns = {re.sub(r"\d+", "#", name) for name in sizes}
    family = len(sizes) > 1 and len(patterns) == 1 and len(set(sizes.values())) == len(sizes)
    points = []
    for comparison in comparisons:
        m, n = comparison.workload.shape
        name = comparison.workload.name
        place = {"workload": _family_name([*sizes]), "cells": n} if family else {"workload": name}
        for row in comparison.rows:
            where = {**place, **parameters(comparison.guarantee), "p": row.p}
            points.append(Point(where, row, m))
    return points


def _family_name(names: Sequence[str]) -> str:
    """The first name, with the numbers that others have differently written as n."""
    split = [re.split(r"(\d+)", name) for name in names]
    return "".join(parts[0] if len(set(parts)) == 1 else "n" for parts in zip(*split, strict=True))


def noises_of(points: Sequence[Point]) -> dict[str, str]:
    """The kinds of noise of every strategy, over all points."""
    kinds: dict[str, dict[str, None]] = {}
    for point in points:
        kinds.setdefault(point.row.strategy, {})[point.row.noise] = None
    return {name: " or ".join(of) for name, of in kinds.items()}


def guarantee_text(points: Sequence[Point], varying: Sequence[str]) -> str:
    """The kind of the guarantee, and those of its numbers that all panels and points share."""
    guarantees = [point.row.guarantee for point in points]
    if all(guarantee is None for guarantee in guarantees):
        return "no guarantee: noise of scale equal to the sensitivity"
    kinds = sorted({KINDS[type(guarantee)] for guarantee in guarantees if guarantee is not None})
    shared = [key for key in ("epsilon", "delta", "alpha") if key not in varying]
    numbers = [
        f"{LABELS[key]} = {text_of(points[0].where[key])}"
        for key in shared
        if points[0].where[key] is not None
    ]
    relations = sorted(
        {guarantee.neighbours.value for guarantee in guarantees if guarantee is not None}
    )
    return ", ".join([" and ".join(kinds), *numbers, f"{' and '.join(relations)} neighbours"])


def text_of(value: float | None) -> str:
    """A number in a picture."""
    if value is None:
        return "none"
    return "\u221e" if math.isinf(value) else f"{value:g}"
