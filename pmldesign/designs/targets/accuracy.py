r"""Targets: the largest standard deviation, or half-width of an interval, that each query may have.

A mechanism for A meets the targets c if and only if the one for diag(1/c) A has no standard
deviation, or half-width, above 1.

The error of an answer under noise of scale 1 is V = sum_j l_j eta_j, l a row of L. Gaussian: the
half-width at a level is z times the standard deviation, z the (1 + level)/2 quantile. Laplace: the
law of V is inverted (`laplace_sums`).

V, a sum of Laplace numbers, has a symmetric log-concave density. Let h be its half-width, m =
1 - level and S(x) = P(V > x). S is convex on x > 0, so that S(x) <= 1/2 - level x / (2 h) up to h;
-log S is convex too, so that beyond h it grows at least as fast as on average before, by
log(1/m) / h for each unit. Hence

    Var V = 4 int x S(x) dx <= h^2 (1 - 2 level/3 + 2 m (1/k + 1/k^2)),      k = log(1/m),

a half-width that no Laplace noise of a standard deviation goes below: 1.56 times that at level
0.95, where Gaussian noise has 1.96 times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from pmldesign.arguments import doubles, flags, probability, real_numbers, shown
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy
from pmldesign.strategies.base import inverse_known
from pmldesign.strategies.row_kinds import rows_by_kind
from pmldesign.workloads import Workload
from pmldesign.workloads.display import Displayed, Facts, count_text
from pmldesign.workloads.weighting import LARGEST_WEIGHT, weighted, weighted_parts
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_sums import MOST_ENTRIES, laplace_half_widths, moment_bound

if TYPE_CHECKING:
    from pmldesign.strategies.row_kinds import RowKinds

LARGEST_LABELS = 10**5
"""Queries whose labels are compared with the names of targets."""
KINDS_AT_ONCE = 2**22
"""Entries of kinds of rows that are formed at a time."""
WIDTH_ROUNDING = 1e-7
"""Relative, of a half-width of Laplace noise: its law is inverted to 1e-9 or better."""
PUBLISHED = 2e-4
"""Part of a standard deviation by which published intervals may be wider: a release rounds its
estimates by half of 1e-4, and the ends of intervals outwards."""


@dataclass(frozen=True, repr=False)
class Targets(Displayed):
    """The largest standard deviation, or half-width of an interval, of each query.

    Attributes:
        values: c, shape (m,), or one number for all; or one for each part.
        by_part: whether there is one for each part of a union, or for each table.
        level: of the intervals whose half-widths they are, in (0, 1); None for standard deviations.

    Raises:
        InvalidInputError: a level out of range.
    """

    values: Array | float
    by_part: bool = False
    level: float | None = None

    def __post_init__(self) -> None:
        flags(by_part=self.by_part)
        if self.level is not None:
            object.__setattr__(self, "level", probability("level", self.level))

    def _display(self) -> tuple[str, Facts]:
        return f"Targets for the {self.what}: {shown(self.values)}", []

    @property
    def what(self) -> str:
        """Which measure of accuracy the targets bound, in words."""
        if self.level is None:
            return "standard deviation"
        return f"half-width at level {self.level:g}"

    @property
    def smallest(self) -> float:
        """The smallest target: the strictest one."""
        return float(np.min(self.values))

    @property
    def largest(self) -> float:
        """The largest target: the loosest one."""
        return float(np.max(self.values))

    def describe(self) -> str:
        """The targets in words, for reports."""
        if self.smallest == self.largest:
            return f"{self.what} at most {self.smallest:.6g} for every query"
        count = "each part" if self.by_part else "each query"
        return (
            f"{self.what} at most {self.smallest:.6g} to {self.largest:.6g}, a target for {count}"
        )

    def normalised(self, workload: Workload) -> Workload:
        """diag(1/c) A: its standard deviations, or half-widths, are to be 1 or less."""
        weights = 1.0 / np.asarray(self.values)
        if self.by_part:
            scaled = weighted_parts(workload, weights.tolist())
        else:
            scaled = weighted(workload, weights, name=workload.name)
        scaled.name = workload.name
        return scaled


def as_targets(value: Any, workload: Workload) -> Targets:
    """Targets from a number, one number for each query, or themselves.

    Raises:
        InvalidInputError: another number of targets, or one that is not positive.
    """
    targets = value if isinstance(value, Targets) else _of_numbers(value)
    values = np.ravel(targets.values)
    wrong = ~((values >= 1 / LARGEST_WEIGHT) & (values <= LARGEST_WEIGHT))
    if wrong.any():
        index = int(wrong.argmax())
        place = f" (number {index}, from 0)" if len(values) > 1 else ""
        raise InvalidInputError(
            f"a target must be positive, from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, got"
            f" {values[index]:g}{place}"
        )
    needed = len(workload.part_rows) if targets.by_part else workload.shape[0]
    if np.ndim(targets.values) and len(values) != needed:
        kind = "parts" if targets.by_part else "queries"
        raise InvalidInputError(
            f"targets must be one number for each of the {count_text(needed)} {kind}, got"
            f" {len(values)}"
        )
    return targets


def _of_numbers(value: Any) -> Targets:
    numbers = doubles(real_numbers("targets", value))
    if numbers.ndim > 1:
        raise InvalidInputError(f"targets must be one row of numbers, got shape {numbers.shape}")
    return Targets(float(numbers) if numbers.ndim == 0 else numbers)


def named_targets(workload: Workload, named: Mapping[str, float], default: float | None) -> Targets:
    """Targets for some parts or queries by name, and one for all others.

    Args:
        workload: A.
        named: the largest standard deviation by the name of a part (as in the text of the workload,
            its factors in any order), its number from 1, or the label of a query.
        default: for all that have no name; None if all need one.

    Raises:
        InvalidInputError: an unknown name, or a part without a target.
    """
    names = [name for name, _ in workload.part_rows]
    by_part: list[float | None] = [default] * len(names)
    left = {}
    for key, target in named.items():
        found = [i for i, name in enumerate(names) if key in (name, str(i + 1))]
        found = found or [i for i, name in enumerate(names) if _factors(name) == _factors(key)]
        for i in found:
            by_part[i] = target
        if not found:
            left[key] = target
    if not left:
        missing = next((n for n, target in zip(names, by_part, strict=True) if target is None), "")
        if missing:
            raise InvalidInputError(
                f"there is no target for {missing!r}; add one, or a first number for all others"
            )
        values = np.array([target or math.nan for target in by_part])
        return Targets(values, by_part=True) if len(names) > 1 else Targets(float(values[0]))
    return _of_labels(workload, left, by_part)


def _factors(name: str) -> list[str]:
    """The factors of a product, in any order: sex*age is age*sex."""
    return sorted(factor.strip() for factor in name.split("*"))


def _of_labels(
    workload: Workload, named: Mapping[str, float], by_part: Sequence[float | None]
) -> Targets:
    """Targets for queries by their labels."""
    m = workload.shape[0]
    labels = {workload.row_label(i): i for i in range(m)} if m <= LARGEST_LABELS else {}
    unknown = next((name for name in named if name not in labels), None)
    if unknown is not None:
        known = ", ".join(repr(name) for name, _ in workload.part_rows[:5])
        close = get_close_matches(unknown.lower(), labels, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InvalidInputError(
            f"no part or query is called {unknown!r}; parts are {known}, or their "
            f"numbers from 1{hint}"
        )
    if None in by_part:
        raise InvalidInputError(
            "targets for labels of queries need a first number for all others: 20,label=5"
        )
    values = np.repeat(
        np.array(by_part, dtype=np.float64), [rows for _, rows in workload.part_rows]
    )
    for name, target in named.items():
        values[labels[name]] = target
    return Targets(values)


def largest_size(factorization: Factorization, noise: Noise, level: float | None) -> float:
    """Largest half-width of a published answer under noise of scale 1, rounded up.

    Args:
        factorization: of the queries.
        noise: Gaussian or Laplace.
        level: of the intervals; None for the largest standard deviation.
    """
    spread = factorization.unit_error(noise, math.inf)
    if level is None:
        return spread
    if noise is Noise.GAUSSIAN:
        return spread * (gaussian_quantile(level) + PUBLISHED) * (1 + 1e-14)
    return _laplace_width(factorization, level) + PUBLISHED * spread


def _laplace_width(factorization: Factorization, level: float) -> float:
    """Largest half-width of an answer under Laplace noise of scale 1, rounded up."""
    strategy, workload, miss = factorization.strategy, factorization.workload, 1 - level
    if not is_inverted(strategy, workload):
        spreads = math.sqrt(2) * factorization.deviations
        return float(moment_bound(spreads, miss).max()) * (1 + WIDTH_ROUNDING)
    kinds = kinds_of_rows(strategy, workload)
    if kinds is None:
        widths = [laplace_half_widths(np.abs(strategy.reconstruction(workload)), miss)]
    else:
        chunks = chain.from_iterable(part.chunks for part in kinds)
        widths = [laplace_half_widths(rows, miss, counts) for rows, counts in chunks]
    return float(max(part.max() for part in widths)) * (1 + WIDTH_ROUNDING)


def kinds_of_rows(strategy: Strategy, workload: Workload) -> Sequence[RowKinds] | None:
    """The rows of L by kinds, if the structure determines these and no inverse is known."""
    return None if inverse_known(strategy) else rows_by_kind(strategy, workload, KINDS_AT_ONCE)


def is_inverted(strategy: Strategy, workload: Workload) -> bool:
    """Whether L is small enough that half-widths of Laplace noise invert the laws of its rows."""
    return workload.shape[0] * max(strategy.shape) <= MOST_ENTRIES


def least_share(noise: Noise, level: float | None) -> float:
    """The least half-width of an answer over its standard deviation, rounded down."""
    if level is None:
        return 1.0
    if noise is Noise.GAUSSIAN:
        return gaussian_quantile(level) * (1 - 1e-14)
    miss = 1 - level
    rate = -math.log(miss)
    return (1 - 1e-14) / math.sqrt(1 - 2 * level / 3 + 2 * miss * (1 / rate + 1 / rate**2))


def gaussian_quantile(level: float) -> float:
    """The half-width of N(0, 1) at a level."""
    return float(scipy.special.ndtri((1 + level) / 2))
