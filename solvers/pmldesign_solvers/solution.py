"""What a solver returns: factors, dual weights, both bounds, and why it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pmldesign_solvers.certificate import Certificate
from pmldesign_solvers.operators import Array


class Status(Enum):
    """Why a solver stopped; the value is the sentence that a user reads."""

    OPTIMAL = "optimal: both bounds meet within the requested gap"
    ITERATION_LIMIT = "the iteration limit came first; the bounds still hold"
    TIME_LIMIT = "the time limit came first; the bounds still hold"
    INTERRUPTED = "interrupted; this is the best so far and the bounds still hold"
    STALLED = "no more progress at this precision; the bounds still hold"
    STRUCTURED = "the best strategy found in a product basis; at this size the bounds need not meet"
    INACCURATE = "the solver called its answer inaccurate; the bounds still hold"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a solver, as its callback sees it.

    Attributes:
        number: from 1.
        lower: best lower bound so far.
        upper: best upper bound so far.
        seconds: since the start.
    """

    number: int
    lower: float
    upper: float
    seconds: float

    @property
    def gap(self) -> float:
        """Relative gap, upper / lower - 1."""
        return self.upper / self.lower - 1.0


Callback = Callable[[Step], None]


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What one step of a method offers.

    Attributes:
        lower: of the dual weights.
        upper: of the factorization; inf if it does not answer the whole workload.
    """

    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class Candidate(Bounds):
    """Bounds with their arrays, which are made when they are wanted.

    Attributes:
        weights: u and w of the original workload.
        factors: R and B of the original workload.
    """

    weights: Callable[[], tuple[Array, Array]]
    factors: Callable[[], tuple[Array, Array]]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A factorization A = L R, L = A B, with its certificate.

    Attributes:
        strategy: R, shape (r, n); its sensitivity is 1.
        basis: B, shape (n, r), so that the reconstruction is L = A B.
        dual_u: shape (m,), non-negative, norm(u)_q = 1.
        dual_w: non-negative; shape (n,) and sum 1 for cells, a symmetric matrix of shape (n, n)
            with sum 1 over i < j for pairs.
        certificate: both bounds on gamma_(p)(A), recomputed from the arrays above.
        status: why the solver stopped.
        steps: iterations.
        eigendecompositions: of matrices of the size of the merged workload.
        seconds: wall-clock time.
    """

    strategy: Array
    basis: Array
    dual_u: Array
    dual_w: Array
    certificate: Certificate
    status: Status
    steps: int
    eigendecompositions: int
    seconds: float
