"""Searches for strategies of people whose steps are at least b apart: banded ones, and with poles.

Both descend F times the squared sensitivity (`pmldesign_solvers.participation`), until the limit of
time or Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmldesign.designs.participation.watch import Watch
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign_solvers.participation import banded, poles
from pmldesign_solvers.streams.chain import RunningSums

BANDED_CELLS = 2048
"""Steps up to which banded strategies are searched: O(n^2) a step, 10 s for 1024."""
POLES_CELLS = 512
"""Likewise with poles: O(n^3) a step, 5 s for 365."""
RANGE = 300.0
"""Logarithm of what rates may multiply to: the search multiplies and divides by it."""


def searched(
    sums: RunningSums, participation: Participation, watch: Watch
) -> Iterator[tuple[str, Strategy]]:
    """The strategies that searches find, with what they are.

    Args:
        sums: the running sums.
        participation: min-sep.
        watch: ends the searches.
    """
    times, apart = participation.times, participation.apart
    widest = float(np.abs(np.cumsum(np.log(sums.rates))).max())
    if apart < 2 or sums.cells > BANDED_CELLS or widest > RANGE:
        return
    point = banded.solve(sums, times, apart, watch.reached)
    yield "banded, rows and columns scaled", Strategy("design", point.matrix)
    if sums.cells <= POLES_CELLS and times * apart <= sums.cells:
        point = poles.solve(sums, times, apart, watch.reached)
        yield f"{poles.POLES} poles, rows and columns scaled", Strategy("design", point.matrix)
