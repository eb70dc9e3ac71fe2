"""Options and results of every solver of gamma_(p).

The options say when to stop and whom to call; the results are factors, dual weights, both bounds,
and the reason of the stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import Array


class Status(Enum):
    """Why a solver stopped; the value is the sentence that a user reads."""

    OPTIMAL = "optimal: both bounds meet within the requested gap"
    ITERATION_LIMIT = "the iteration limit came first; the bounds still hold"
    TIME_LIMIT = "the time limit came first; this is the best so far"
    INTERRUPTED = "interrupted; this is the best so far"
    STALLED = "no more progress at this precision; the bounds still hold"
    STRUCTURED = "the best that was found of this form; at this size the bounds need not meet"
    BUFFERS = "the best that was found with so many buffers; with more the bounds come closer"
    SEARCHED = "the best that was found of several forms; here the bounds do not meet"
    INACCURATE = "the solver called its answer inaccurate; the bounds still hold"
    COMPLETED = "this is the best of them; nothing proves that there is no better strategy"
    DIMINISHING = "it ended where it hardly gained any more; a longer search may be a little better"
    EFFORT = "the work of this effort is done; with more effort it may be a little better"
    UNSEARCHED = "too many cells for a descent; this is the best of the starts"


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
        """Relative gap, upper / lower - 1; 0 where rounding makes the bounds cross."""
        return max(self.upper / self.lower - 1.0, 0.0)

    def __str__(self) -> str:
        return (
            f"step {self.number}: between {self.lower:.8g} and {self.upper:.8g},"
            f" gap {self.gap:.1e}, {self.seconds:.1f} s"
        )


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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """Results of every solver other than the strategy.

    Attributes:
        dual_u: weights of the queries, non-negative, norm(u)_q = 1.
        dual_w: weights of the differences between neighbours, non-negative, of sum 1.
        certificate: both bounds on gamma_(p)(A), recomputed from the strategy and these weights.
        status: why the solver stopped.
        steps: iterations.
        eigendecompositions: of matrices of the size of the merged workload.
        seconds: wall-clock time.
    """

    dual_u: Array
    dual_w: Array
    certificate: Certificate
    status: Status
    steps: int
    eigendecompositions: int = 0
    seconds: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Solution(Outcome):
    """A factorization A = L R, L = A B, with its certificate.

    The weights u have shape (m,); w has shape (n,) for cells and is a symmetric matrix of shape
    (n, n) for pairs, with sum 1 over i < j.

    Attributes:
        strategy: R, shape (r, n); its sensitivity is 1.
        right_inverse: B, shape (n, r), so that the reconstruction is L = A B.
    """

    strategy: Array
    right_inverse: Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalsSolution(Outcome):
    """An optimal strategy for a collection of K marginals, with its certificate.

    The weights u_S have shape (K,), one for each query of a marginal. The weights w are a single 1
    for cells, which weigh the same; for pairs those of `marginals_pairs`, by the
    attributes in which two cells differ.

    Attributes:
        residuals: the R sets T of attributes that are measured, by size, then lexicographic. The
            empty one is the total, absent for pairs; attributes with one value occur in none.
        precisions: s_T > 0, shape (R,), the part of T in the squared length of a column; of l2
            sensitivity 1.
    """

    residuals: tuple[tuple[int, ...], ...]
    precisions: Array


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """Options of every solver.

    Attributes:
        rel_gap: stop when upper / lower - 1 is at most this.
        max_steps: stop after this many steps.
        deadline: asked once per step; a first step is always taken.
        callback: called after every step. Ctrl-C during the search returns the best so far.
    """

    rel_gap: float = 1e-6
    max_steps: int = 1000
    deadline: Deadline = field(default_factory=Deadline)
    callback: Callback | None = None
