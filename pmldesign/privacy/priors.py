"""Q_alpha: independent records, each in cell j of k with probability at least alpha_j.

A scalar alpha means the same for every cell, so it is at most 1/k; a vector has a sum of at most
1, and a sum of 1 is a known prior. Of a public sample the limit of a cell may be 0, which says
nothing about it: it counts as UNSEEN, far below the rounding of every loss.

A guarantee limits additive noise by the (epsilon, delta) of one step (`Shifts`): noise z
is private with one step v = A (x - x') if the laws of z and z + v satisfy P(E) <= e^eps Q(E) +
delta both ways. DP means this directly, with the neighbours' steps. PML assumes records drawn from
Q_alpha, and with many records the randomness of the others does part of the hiding: for a given
number of records it implies no such thing (docs/background/lower-bounds.md). It does for noise
that serves every number of records, one included. With one record let M = max_r P_r(E), s the class
with the smallest P_s(E) and b = sum of alpha without its smallest entry. The prior with alpha on
every class but s gives M <= e^eps ((1 - b) P_s(E) + b M) + delta,

    e^eps' = e^eps (1 - b)/(1 - b e^eps),    delta' = delta/(1 - b e^eps),    if b e^eps < 1.

An envelope bounds P(E) <= delta for every event with P_r(E) > e^eps P(E), so that
P_r(E) - e^eps P(E) <= delta (1/alpha_r - e^eps): slack.

The worst member of Q_alpha about every cell. What is lost about cell r grows with the distances of
the other records' cells from it: the leakage of Laplace noise is -log of the least sum_j q_j
e^(-D_jr/b), the bound on Gaussian noise a largest sum_j q_j h_j with h_j growing in d_jr, over all
q in the set, which for a public sample (`public_sample`) is

    q_j >= L_j,     |q - f|_1 <= rho,     f = x/N.

Moving mass from cell j to the farthest cell changes the sum by the difference of two terms, so that
the worst q moves it from the nearest cells first, from r itself and down to L_j, until rho/2 is
moved. It depends on the order of the distances, not on the noise. In the bound on Gaussian noise
q_r is also a factor of the sum and in h_j, and both fall with it: there, too, mass moves from r
first. Cells with equal columns are one cell, whose L, f and q are sums.

References:
    Grosse, Saeidian, Oechtering and Skoglund (2025), Privacy mechanism design based on empirical
        distributions, arXiv 2509.22428: leakage over sets around an estimate.
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Sec. III.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pmldesign.arguments import number, parameter, probability, whole
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import UNIT, shortest
from pmldesign.privacy.promises import Promise
from pmldesign.privacy.public_sample import SampledAlpha
from pmldesign.workloads.display import count_text
from pmldesign_solvers.operators.operator import EPS, Array, Indices
from pmldesign_solvers.search.laplace_noise import worst_masses

ALPHA_ROUNDING = 1e-12
"""By how much the sum of alpha may exceed 1, so that 1/3 + 1/3 + 1/3 and 0.1 * 10 are accepted."""

UNSEEN = 1e-300
"""Stands for an alpha of 0, whose logarithm would not be finite."""


@dataclass(frozen=True, slots=True)
class Shifts:
    """epsilon and delta of one step of the neighbouring relation, rounded up.

    Attributes:
        epsilon: positive.
        delta: in [0, 1).
    """

    epsilon: float
    delta: float


class OnPriors(Promise):
    """Common part of the guarantees on Q_alpha."""

    __slots__ = ()
    if TYPE_CHECKING:
        alpha: float | tuple[float, ...]

    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE
    known: ClassVar[str] = ""
    published: ClassVar[str] = ""
    kind: ClassVar[str] = "pml"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parameter("epsilon", self.epsilon))
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))
        if self.failure is not None:
            object.__setattr__(self, "delta", probability("delta", self.delta))

    def class_probabilities(self, cells: int) -> Array:
        """Least probability of each cell, shape (cells,); see `class_probabilities`."""
        return class_probabilities(self.alpha, cells)

    def least_probability(self, cells: int) -> float:
        """Least probability of any cell; see `least_probability`."""
        return least_probability(self.alpha, cells)

    def is_vacuous(self, cells: int) -> bool:
        """Whether every mechanism satisfies it: epsilon >= log(1/min alpha)."""
        return self.epsilon >= -math.log(self.least_probability(cells))

    def vacuous(self, cells: int) -> VacuousGuaranteeError:
        """The refusal of a vacuous guarantee, or of one that needs no noise here."""
        least = self.least_probability(cells)
        if self.epsilon >= -math.log(least):
            return VacuousGuaranteeError(
                f"epsilon must be below log(1/min alpha) = {-math.log(least):.6g}, got "
                f"{shortest(self.epsilon)}: every mechanism satisfies that, nobody is protected; "
                "lower epsilon"
            )
        delta = f" and delta {shortest(self.delta)}" if self.delta > 0 else ""
        return VacuousGuaranteeError(
            f"epsilon {shortest(self.epsilon)}{delta} with min alpha {shortest(least)} are met by "
            "this strategy without any noise, nobody is protected; lower them"
        )

    def shifts(self, cells: int) -> Shifts | None:
        """The (epsilon, delta) of one step, if the guarantee holds for every number of records.

        Returns:
            None if it implies none.

        Raises:
            InvalidInputError: alpha does not fit the number of cells.
        """
        least = self.least_probability(cells)
        if self.epsilon >= -math.log(least):
            return None
        growth = math.exp(self.epsilon)
        if isinstance(self.alpha, float):
            others, terms = least * (cells - 1), 1
        else:
            others, terms = float(self.class_probabilities(cells).sum() - least), cells
            if isinstance(self.alpha, SampledAlpha):  # no more than rho/2 is moved to class s
                rarest = min(self.alpha.counts) / self.alpha.records
                others = max(others, 1 - rarest - self.alpha.radius / 2)
        room = 1 - others * growth * (1 + (terms + 8) * EPS)
        if room <= 0:
            return None
        delta = self.delta
        if self.failure == "envelope":
            delta *= (1 / least - growth) * (1 + 8 * EPS)
        delta *= (1 + 8 * EPS) / room
        epsilon = self.epsilon + math.log1p(-others) - math.log(room)
        return Shifts(epsilon * (1 + 8 * EPS) + 8 * EPS, delta) if delta < 1 else None

    def about(self, cells: int) -> str:
        """About whom the promise is made, in words."""
        if isinstance(self.alpha, float):
            least = least_probability(self.alpha, cells)
            each = (
                f"falls in each of the {count_text(cells)} cells with probability at least "
                f"{shortest(least)}"
            )
        else:
            class_probabilities(self.alpha, cells)  # refuses another number of cells
            each = (
                f"falls in cell j of {cells} with probability at least alpha_j, "
                f"from {shortest(min(self.alpha))} to {shortest(max(self.alpha))}"
            )
        source = ""
        if isinstance(self.alpha, SampledAlpha):
            each += (
                ", and these probabilities are within an l1 distance of "
                f"{shortest(self.alpha.radius)} of the frequencies in a public sample"
            )
            source = (
                f"; these limits hold together with confidence {shortest(self.alpha.confidence)}, "
                f"from a public sample of {self.alpha.records} independent records of the same "
                "population"
            )
        each += f", and their number is public{source}"
        return f"provided that records are independent, each {each}"


def class_probabilities(alpha: float | Iterable[float], cells: int) -> Array:
    """Turn alpha into the vector of least probabilities, one for each of k cells.

    Args:
        alpha: in (0, 1/k], or k numbers in (0, 1) whose sum is at most 1, or a `SampledAlpha`.
        cells: k, at least 1.

    Returns:
        Shape (cells,), with a sum of at most 1 up to one rounding; UNSEEN instead of 0.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    alpha = checked_alpha(alpha)
    if isinstance(alpha, float):
        return np.full(cells, least_probability(alpha, cells))
    if cells < 1:
        raise InvalidInputError(f"cells must be at least 1, got {cells}")
    if len(alpha) != cells:
        raise InvalidInputError(
            f"alpha must be one number or one for each of the k = {cells} cells, got {len(alpha)}"
        )
    vector: Array = np.maximum(np.array(alpha), UNSEEN)
    return vector / max(1.0, float(vector.sum()))


def least_probability(alpha: float | Iterable[float], cells: int) -> float:
    """The smallest entry of `class_probabilities`, for any number of cells.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    cells, alpha = whole("cells", cells), checked_alpha(alpha)
    if not isinstance(alpha, float):
        return float(class_probabilities(alpha, cells).min())
    if not alpha <= (1 + ALPHA_ROUNDING) * (1 / cells):
        raise InvalidInputError(
            f"alpha must be in (0, 1/k] = (0, {1 / cells:.6g}] for k = {count_text(cells)} "
            f"cells, got {alpha:g}"
        )
    return min(alpha, 1 / cells)


def free_mass(least: Array) -> float:
    """What alpha leaves free, 1 - sum alpha, rounded to nearest once; 0 for a known prior."""
    return max(0.0, math.fsum([1.0, *(-least).tolist()]))


def worst_mean(values: Array, least: Array, farthest: Array) -> Array:
    """sum_j q_j v_j for every row of v, the mass that q leaves free being on the farthest cell.

    Args:
        values: v, shape (c, k).
        least: q for all rows, shape (k,), or for each of them, shape (c, k).
        farthest: v of the farthest cell, shape (c,).
    """
    if least.ndim == 1:
        return np.asarray(values @ least + free_mass(least) * farthest)
    free = np.maximum(1.0 - least.sum(axis=1), 0.0) + 4 * EPS
    return np.asarray(np.einsum("ij,ij->i", values, least) + free * farthest)


def checked_alpha(alpha: float | Iterable[float]) -> float | tuple[float, ...]:
    """Alpha as a float or a tuple, as far as it can be checked before k is known.

    Raises:
        InvalidInputError: not in (0, 1] (one number), or a vector with an entry outside (0, 1)
            or a sum above 1.
    """
    if not isinstance(alpha, Iterable) or getattr(alpha, "ndim", 1) == 0:
        found = number("alpha", alpha)
        if not 0 < found <= 1:
            raise InvalidInputError(f"alpha must be in (0, 1/k] for k cells, got {alpha}")
        return probability("alpha", found) if found < 1 else 1.0
    if isinstance(alpha, SampledAlpha):
        return alpha
    vector = tuple(number(f"alpha of cell {cell}", value) for cell, value in enumerate(alpha))
    for cell, value in enumerate(vector):
        if not 0 < value < 1:
            raise InvalidInputError(
                f"alpha must be in (0, 1) for every cell, got {value} for cell {cell}"
            )
        probability(f"alpha of cell {cell}", value)
    if not 0 < math.fsum(vector) <= 1 + ALPHA_ROUNDING:
        raise InvalidInputError(
            f"alpha must have a positive sum of at most 1, got {math.fsum(vector):.9g}"
        )
    return vector


SPARE = 2.0**-40
"""Mass that is moved beyond rho/2, for the rounding of sums of up to 8,000 cells."""


def least_masses(
    alpha: float | Iterable[float], distances: Array, cell_of: Indices | None = None
) -> Array:
    """What every cell has at least, in the worst distribution about each of some cells.

    Args:
        alpha: of a guarantee.
        distances: of all k' cells from some of them, shape (c, k').
        cell_of: which of them each of the k cells is, shape (k,); None if they are the same.

    Returns:
        alpha as a vector, shape (k',); for a sample a row for each of these cells, shape (c, k').
        What is left to a sum of 1 is on the farthest cell.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    least = class_probabilities(alpha, distances.shape[1] if cell_of is None else cell_of.size)
    limits = merged(least, cell_of)
    if not isinstance(alpha, SampledAlpha):
        return limits
    room, most = room_of(alpha)
    masses = worst_masses(distances, limits, merged(room, cell_of), most + SPARE)
    return masses * (1 - 8 * limits.size * UNIT)


def room_of(alpha: SampledAlpha) -> tuple[Array, float]:
    """What every cell of a sample has beyond its limit, shape (k,), and rho/2."""
    frequencies = alpha.share * np.array(alpha.counts, np.float64) / alpha.records
    room = np.maximum(frequencies - np.array(alpha), 0.0)
    return room, alpha.share * alpha.radius / 2


def merged(least: Array, cell_of: Indices | None) -> Array:
    """Sums over the cells with equal columns, rounded downwards."""
    if cell_of is None:
        return least
    return np.asarray(np.bincount(cell_of, weights=least) * (1 - least.size * UNIT), np.float64)
