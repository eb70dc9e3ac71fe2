"""What the search for l1 strategies returns and reports on the way."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, slots=True)
class Start:
    """One start and its result.

    Attributes:
        name: where the search began.
        before, after: error of the start and of the strategy found from it.
        settled: whether the descent ended at a point from which no small step gains, rather than
            being given up, cut short, or never begun.
    """

    name: str
    before: float
    after: float
    settled: bool = False


@dataclass(frozen=True, slots=True)
class SearchStep:
    """The search after one start, as a callback sees it.

    Attributes:
        number: starts followed so far.
        error: of the best strategy so far.
        seconds: since the beginning.
    """

    number: int
    error: float
    seconds: float

    def __str__(self) -> str:
        return f"start {self.number}: error {self.error:.8g}, {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True, eq=False)
class SearchSolution:
    """The best strategy found, and the noise that it needs.

    Attributes:
        strategy: R, shape (r, n); the noise scale is 1/epsilon per unit sensitivity, see `scale`.
        error: the l_p norm of the answers' standard deviations, which is err_p at p = 2; at other
            even p up to 64, err_p itself.
        scale: b, the scale of the Laplace noise on R x, to a relative 1e-12; a release should
            round it up.
        status: why the search stopped.
        starts: every start, in the order in which they were followed, the best first.
        seconds: wall-clock time.
    """

    strategy: Array
    error: float
    scale: float
    status: Status
    starts: tuple[Start, ...]
    seconds: float
