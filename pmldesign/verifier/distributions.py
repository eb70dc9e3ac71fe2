r"""The distributions of a record in a guarantee under PML, in ball arithmetic.

    q_j >= alpha_j,    and of a public sample with frequencies f also    |q - f|_1 <= rho.

Without a sample the largest sum_j q_j v_j is sum_j alpha_j v_j + (1 - sum alpha) max v. With
a sample mass m_j is moved from cell j to that of the largest v, at most f_j - alpha_j from each and
rho/2 from all. By the duality of linear programs, for every price c >= 0,

    sum_j m_j (max v - v_j) <= c rho/2 + sum_j (f_j - alpha_j) (max v - v_j - c)_+,

with equality at the right price: whatever c is, the sum is bounded from above.

The limits alpha_j of counts x_j of N records hold together with probability 1 - 0.95 beta, and the
ball with 1 - 0.05 beta, beta = 1 - confidence, if x_j or more records have probability 0.95 beta/k
at q_j = alpha_j, and rho^2 = (2/N) log((2^k - 2)/(0.05 beta)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verifier.balls import below, free_mass, total
from pmldesign.verifier.report import Checks, Header

OF_BALL = arb(1) / 20
"""Part of the probability of failure that is the ball's."""
SAMPLE = {"records", "confidence", "radius", "counts"}
"""Keys of a sample."""
LOWERED = 4e-9
"""Limits and radii may be weaker by this part of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Distances of cells from the first ones, and the known facts about their probabilities.

    Attributes:
        distances: a row for each of these, its own distance of 0 at its own place.
        alpha: least probabilities of all cells in a row, those of equal cells together.
        repeats: how many cells a row stands for.
        frequencies: of a public sample in all cells in a row; None without a sample.
        moved: mass that may be elsewhere than in the sample.
    """

    distances: Sequence[Sequence[Any]]
    alpha: Sequence[Any]
    repeats: int = 1
    frequencies: Sequence[Any] | None = None
    moved: Any = None

    @property
    def own(self) -> list[Any]:
        """The least probability of every cell."""
        if self.frequencies is None:
            return list(self.alpha)
        return [a.max(f - self.moved) for a, f in zip(self.alpha, self.frequencies, strict=True)]

    def largest_mean(self, values: Sequence[Any]) -> Any:
        """The largest sum_j q_j v_j, from above."""
        held = self.alpha if self.frequencies is None else self.frequencies
        top = values[0]
        for value in values:
            top = top.max(value)
        mean = total(q * v for q, v in zip(held, values, strict=True)) + free_mass(held) * top
        if self.frequencies is None:
            return mean
        room = [f - a for f, a in zip(self.frequencies, self.alpha, strict=True)]
        gains = [top - value for value in values]
        price = self._price([float(gain) for gain in gains], [float(part) for part in room])
        dear = [part * (gain - price).max(arb(0)) for part, gain in zip(room, gains, strict=True)]
        return mean + price * self.moved + total(dear)

    def _price(self, gains: list[float], room: list[float]) -> Any:
        """Where the mass that may be moved is used up."""
        order = np.argsort(gains)[::-1]
        full = np.cumsum(np.array(room)[order]) >= float(self.moved)
        return arb(max(gains[order[int(np.argmax(full))]], 0.0)) if full.any() else arb(0)

    def in_floats(self) -> tuple[Any, Any]:
        """The least probability of each row's own cell, and its worst masses of all cells."""
        own = np.array([float(a) for a in self.own])[: len(self.distances)]
        alpha = np.array([float(a) for a in self.alpha])
        if self.frequencies is None:
            return own, np.broadcast_to(alpha, (len(own), len(alpha)))
        frequencies = np.array([float(f) for f in self.frequencies])
        far = np.array([[float(d) for d in row] for row in self.distances])
        order = np.argsort(far, axis=1)
        most = np.minimum(np.cumsum((frequencies - alpha)[order], axis=1), float(self.moved))
        masses = np.empty_like(far)
        taken = np.diff(most, axis=1, prepend=0.0)
        np.put_along_axis(masses, order, frequencies[order] - taken, axis=1)
        return own, masses


def rows_of(
    numbers: Header,
    distances: Sequence[Sequence[Any]],
    *,
    cell_of: Sequence[int] | None = None,
    merge: bool = False,
    share: Any = 1,
) -> Rows:
    """All cells with their distances.

    Args:
        numbers: of the guarantee.
        distances: of all pairs of cells, or of columns that some of them share.
        cell_of: which of these columns each cell has; None for its own.
        merge: whether cells with equal columns are to be one, with the sum of their masses.
        share: of the distribution that the guarantee is about; the remainder may be anywhere.
    """
    cells = len(distances) if cell_of is None else len(cell_of)
    vectors = [[share * least for least in alpha_of(numbers, cells)]]
    moved, sample = None, numbers.get("sample")
    if sample is not None:
        counts = sample["counts"]
        if len(counts) != cells or min(counts) < 0:
            raise ValueError("the counts of the sample are no number for each cell")
        vectors.append([share * arb(count) / sum(counts) for count in counts])
        moved = share * arb(sample["radius"]) / 2
    if cell_of is not None:
        vectors = [_sums(masses, cell_of) for masses in vectors]
    if merge:
        first = [next(j for j, value in enumerate(row) if value.is_zero()) for row in distances]
        kept, place = np.unique(first, return_inverse=True)
        distances = [[distances[i][j] for j in kept] for i in kept]
        vectors = [_sums(masses, place.tolist()) for masses in vectors]
    return Rows(distances, vectors[0], 1, vectors[1] if sample else None, moved)


def _sums(masses: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """What cells of the same place have together."""
    sums = [arb(0)] * (max(places) + 1)
    for mass, place in zip(masses, places, strict=True):
        sums[place] += mass
    return sums


def alpha_of(numbers: Header, cells: int) -> list[Any]:
    """The least probability of every cell."""
    alpha = numbers["alpha"]
    values = [arb(value) for value in alpha] if isinstance(alpha, list) else [arb(alpha)] * cells
    if len(values) != cells:
        raise ValueError(f"alpha has {len(values)} entries for {cells} cells")
    return values


def check_sample(numbers: Header, checks: Checks) -> None:
    """Whether alpha and the radius equal those computed from the counts of a public sample."""
    sample = numbers["sample"]
    counts, alpha = sample["counts"], numbers["alpha"]
    counted = all(type(count) is int and count >= 0 for count in counts) and any(counts)
    if not counted or not 0 < sample["confidence"] < 1 or set(sample) != SAMPLE:
        checks.state("records", False, "counts of a public sample, and a confidence in (0, 1)")
        return
    records, cells, failure = sum(counts), len(counts), 1 - arb(sample["confidence"])
    checks.state("records", sample["records"] == records, f"the counts sum to {records}")
    part = (1 - OF_BALL) * failure / cells

    def tail(limit: Any, count: int) -> Any:
        return limit.beta_lower(arb(count), arb(records - count + 1), True)

    fits = [
        limit == 0
        if count == 0
        else bool(tail(arb(limit), count) <= part)
        and bool(tail(arb(limit) * (1 + LOWERED), count) >= part)
        for limit, count in zip(alpha, counts, strict=True)
    ]
    checks.state("alpha", all(fits), "the limits of the counts of the sample")
    square = 2 * ((arb(2) ** cells - 2).log() - (OF_BALL * failure).log()) / records
    least = below(square.sqrt())
    checks.at_most("radius", sample["radius"], least, weaker=LOWERED)
