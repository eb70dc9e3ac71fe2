"""What the search for l1 strategies returns and reports on the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pmldesign_solvers.operators import Array


class L1Status(Enum):
    """Why the search stopped; the value is the sentence that a user reads."""

    COMPLETED = "every start was followed to a local optimum; this is the best of them"
    UNSEARCHED = "too many cells for a search; this is the best of the starts"
    TIME_LIMIT = "the time limit came first; this is the best so far"
    INTERRUPTED = "interrupted; this is the best so far"


@dataclass(frozen=True, slots=True)
class Start:
    """One start and what became of it.

    Attributes:
        name: where the search began.
        before, after: error of the start and of the strategy found from it.
    """

    name: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class L1Step:
    """The search after one start, as a callback sees it.

    Attributes:
        number: starts followed so far.
        error: of the best strategy so far.
        seconds: since the beginning.
    """

    number: int
    error: float
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class L1Solution:
    """The best strategy found, and the noise that it needs.

    Attributes:
        strategy: R, shape (r, n); the noise scale is 1/epsilon per unit sensitivity, see `scale`.
        basis: B, shape (n, r): the reconstruction is L = A B. Where the total N is public, the
            answers are A (N/n) 1 + L R' x, R' = R with the mean of every row taken off.
        error: the l_p norm of the answers' standard deviations, which is err_p at p = 2; at other
            even p up to 64, err_p itself.
        scale: b, the scale of the Laplace noise on R x, to a relative 1e-12; a release should
            round it up.
        status: why the search stopped.
        starts: every start, in the order in which they were followed.
        seconds: wall-clock time.
    """

    strategy: Array
    basis: Array
    error: float
    scale: float
    status: L1Status
    starts: tuple[Start, ...]
    seconds: float
