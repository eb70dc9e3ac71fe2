r"""One bound on err_p, and the facts about a problem from which all of them are computed.

kappa(A), the least width of the sensitivity polytope A B_1.

kappa(A) = min over unit theta of 2 norm(A^T theta)_inf, and 2/kappa(A) is the largest norm of a
theta with norm(A^T theta)_inf <= 1: computing it maximises a convex function. What bounds need of
it is a lower bound.

As norm(y)_inf >= norm(y)_2 / sqrt(n), kappa(A) >= 2 sigma_min(A^T) / sqrt(n); 0 if the rows are
dependent, and then kappa(A) = 0. Equality holds for parity queries and for every square A with
orthogonal rows of equal norm.

Prefix sums: with s = A^T theta in the cube, theta_i = s_i - s_{i+1} (s_{n+1} = 0), so the largest
norm(theta)^2 is that of alternating signs, 4 (n - 1) + 1, and kappa = 2/sqrt(4n - 3).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, eq. (3), Lemma 2.5
    and Lemma C.1. Lemma 2.14 (kappa = 2 for prefix sums) does not hold for n >= 2.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import at_least, at_most
from pmldesign.privacy.priors import Shifts
from pmldesign.workloads.base import Workload
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame, html_table
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.certificate.cells import lower_bound
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import EPS

MOST_ENTRIES = 2**21
"""Most entries of a workload that is decomposed."""

LARGEST_NUMBER = float(np.finfo(np.float64).max)
ANY_SIZE = "every mechanism, worst case over data of any size"
VALUE_ROUNDING = 1e-12
"""Relative rounding of a final value, to the side that keeps the bound valid."""


def is_prefix(workload: Workload) -> bool:
    """Whether row t sums the cells 0 ... t, for t = 0 ... n - 1."""
    m, n = workload.shape
    if m != n:
        return False
    if workload.ends is not None:
        return workload.running_sums is not None
    return m * n <= MOST_ENTRIES and np.array_equal(workload.to_dense(), np.tri(n))


def kappa(workload: Workload) -> float:
    """Lower bound on min over unit theta of 2 norm(A^T theta)_inf, rounded down.

    Args:
        workload: m x n. Beyond LARGEST entries only prefix sums are known; others get 0.
    """
    m, n = workload.shape
    if is_prefix(workload):
        return 2 / math.sqrt(4 * n - 3) * (1 - 2 * EPS)
    if m > n or m * n > MOST_ENTRIES:
        return 0.0
    matrix = workload.to_dense()
    exponent = math.frexp(float(np.abs(matrix).max()))[1]  # its largest entry becomes about 1
    singular = np.linalg.svd(np.ldexp(matrix, -exponent), compute_uv=False)
    smallest = max(float(singular[-1] - n * EPS * singular[0]), 0.0)
    with np.errstate(over="ignore"):
        lower = np.ldexp(2 * smallest / math.sqrt(n) * (1 - 4 * EPS), exponent)
    return min(float(np.nextafter(lower, 0.0)), LARGEST_NUMBER)


class Kind(StrEnum):
    """Whether no mechanism of the class is better, or some mechanism is as good."""

    LOWER = "lower"
    UPPER = "upper"


COLUMNS = ("name", "kind", "value", "mechanisms", "holds", "reason", "source")


@dataclass(frozen=True, slots=True, repr=False)
class Bound(Displayed):
    """A bound on err_p = max over x of (E norm(M(x) - A x)_p^p)^(1/p).

    At p = inf, err_p is the largest root mean squared error of a query.

    Attributes:
        name: what tables call it.
        kind: lower bounds are rounded down, upper bounds up.
        value: the bound, at least 0; None if it does not hold.
        mechanisms: the class of mechanisms.
        reason: the conditions and how they are met, or why it does not hold.
        source: paper and statement, or the section of docs/background/lower-bounds.md.
    """

    name: str
    kind: Kind
    value: float | None
    mechanisms: str
    reason: str
    source: str

    @property
    def holds(self) -> bool:
        """Whether the conditions are met."""
        return self.value is not None

    @property
    def for_every_mechanism(self) -> bool:
        """Whether it is below the error of every mechanism for counts of whole records."""
        return self.kind is Kind.LOWER and self.mechanisms.startswith("every mechanism, ")

    @property
    def rounded(self) -> str:
        """The value to six digits, a lower bound rounded down, an upper one up; "" without one."""
        if self.value is None:
            return ""
        return at_most(self.value) if self.kind is Kind.LOWER else at_least(self.value)

    def _display(self) -> tuple[str, Facts]:
        if self.value is None:
            return f"Bound {self.name!r}: does not apply", [("reason", self.reason)]
        side = "at least" if self.kind is Kind.LOWER else "at most"
        return f"Bound {self.name!r}: error {side} {self.rounded}", [("for", self.mechanisms)]


class Bounds(tuple[Bound, ...], Drawn):
    """Bounds on the error, lower ones first; those that do not hold say why."""

    __slots__ = ()

    @property
    def best(self) -> Bound | None:
        """The largest lower bound for every mechanism; None without one."""
        holding = [bound for bound in self if bound.for_every_mechanism and bound.holds]
        return max(holding, key=lambda bound: bound.value or 0.0, default=None)

    def to_records(self) -> list[dict[str, Any]]:
        """A dictionary for every bound: what a data frame is made of."""
        return [{name: getattr(bound, name) for name in COLUMNS} for bound in self]

    def to_frame(self) -> Any:
        """A data frame of all bounds: of pandas if it is installed, else of polars.

        Raises:
            InvalidInputError: neither is installed.
        """
        kinds = {name: {"value": float, "holds": bool}.get(name, str) for name in COLUMNS}
        return data_frame(self.to_records(), kinds)

    def __repr__(self) -> str:
        title = f"{len(self)} bounds on the error, {sum(bound.holds for bound in self)} hold"
        return (
            title if self.best is None else f"{title}\n  largest for every mechanism: {self.best}"
        )

    def _repr_html_(self) -> str:
        rows = [[bound.name, bound.kind, bound.rounded, bound.mechanisms] for bound in self]
        return html_table("Bounds on the error", rows, ["bound", "kind", "value", "mechanisms"])


@dataclass(frozen=True)
class BoundProblem:
    """A workload, an error, a guarantee and the certified bounds on the norm.

    Attributes:
        workload: A, m x n.
        p: in [2, inf].
        guarantee: of the mechanisms.
        shifts: the consequence of the guarantee for additive noise; None without one.
        norm_lower: lower bound on gamma_(p)(A), or its replace version.
        norm_upper: upper bound on it.
    """

    workload: Workload
    p: float
    guarantee: Guarantee
    shifts: Shifts | None
    norm_lower: float
    norm_upper: float

    @property
    def queries(self) -> int:
        """Number of queries m."""
        return self.workload.shape[0]

    @property
    def cells(self) -> int:
        """Number of cells n."""
        return self.workload.shape[1]

    @property
    def add_remove(self) -> bool:
        """Whether neighbours differ in one record added or removed."""
        return self.guarantee.neighbours is Neighbours.ADD_REMOVE

    @cached_property
    def kappa(self) -> float:
        """A lower bound on the least width of A B_1."""
        return kappa(self.workload)

    @cached_property
    def is_prefix(self) -> bool:
        """Whether the queries are the prefix sums."""
        return is_prefix(self.workload)

    @cached_property
    def is_parity(self) -> bool:
        """Whether A has entries 1 and -1 and orthogonal rows, as every set of parities has."""
        m, n = self.workload.shape
        if m > n or m * n > MOST_ENTRIES:
            return False
        matrix = self.workload.to_dense()
        # whole numbers below 2^53: the products are exact
        return bool((np.abs(matrix) == 1).all()) and np.array_equal(
            matrix @ matrix.T, n * np.eye(m)
        )

    @cached_property
    def schatten_norm(self) -> float | None:
        """m^(1/p - 1/2) n^(-1/2) times the sum of singular values; None where A is too large."""
        m, n = self.workload.shape
        if m * n > MOST_ENTRIES:
            return None
        workload, exponent = near_one(self.workload)
        return float(np.ldexp(lower_bound(workload, np.ones(m), np.ones(n), self.p), exponent))

    @cached_property
    def row_norm(self) -> float | None:
        """(sum_i w_i^p)^(1/p), w_i how far a step moves answer i at most; None if out of reach."""
        m, n = self.workload.shape
        if self.add_remove and m <= MAX_ENTRIES:
            sizes = self.workload.row_sizes()
        elif not self.add_remove and m * n <= MOST_ENTRIES:
            sizes = np.ptp(self.workload.to_dense(), axis=1)
        else:
            return None
        largest = float(sizes.max())
        if largest == 0:
            return 0.0
        return largest * math.pow(((sizes / largest) ** self.p).sum(), 1 / self.p)


def bound_below(
    name: str, value: float | None, *, mechanisms: str, reason: str, source: str
) -> Bound:
    """A lower bound, rounded down."""
    # beyond float64 the largest number of it is still a lower bound
    rounded = None if value is None else min(value, sys.float_info.max) * (1 - VALUE_ROUNDING)
    return Bound(name, Kind.LOWER, rounded, mechanisms, reason, source)


def bound_above(
    name: str, value: float | None, *, mechanisms: str, reason: str, source: str
) -> Bound:
    """An upper bound, rounded up."""
    rounded = None if value is None else value * (1 + VALUE_ROUNDING)
    return Bound(name, Kind.UPPER, rounded, mechanisms, reason, source)
