"""Designs for ranges of many cells under Laplace noise: tents.

`pmldesign_solvers.search.tents` finds the identity with tents at p = 2, which is never written out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import count

import numpy as np

from pmldesign.designs.laplace.candidates import scale_rule
from pmldesign.designs.options import LEAST_TIME
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.search import tents
from pmldesign_solvers.search.descent import single_thread
from pmldesign_solvers.search.plan import FOLLOWED
from pmldesign_solvers.search.solution import SearchStep, Start
from pmldesign_solvers.search.tent_problem import DenseGram, Gram, SeparableGram

TENT_CELLS = 8192
"""Largest number of cells for tents whose Gram matrix is formed (0.5 GiB)."""
SPACING = 20
"""Cells from one row to the next of the finest level, where there is time."""
NOISE_SECONDS, START_SECONDS = 9e-10, 6e-10
"""What the noise and the error of tents take, for each n k^2 of k rows on n cells, and their first
weights for each k^3; both are to be a quarter of the time that is left, with fewer rows."""


def has_order(workload: Workload) -> bool:
    """Whether tents come alone at first, for a workload of this form and size."""
    cells = workload.shape[1]
    if cells <= FOLLOWED:
        return False
    return workload.separable_gram() is not None or (
        workload.ends is not None and cells <= TENT_CELLS
    )


def tents_design(
    workload: Workload,
    guarantee: Guarantee,
    p: float,
    deadline: float,
    callback: Callable[[SearchStep], None] | None = None,
) -> tuple[Mechanism, Start, Status]:
    """The identity with tents for p = 2 under add-remove, its noise and its error at p.

    Args:
        workload: ranges, see `has_order`.
        guarantee: what the noise is to meet.
        p: of the error, in [2, inf].
        deadline: on the clock of `time.perf_counter`; the best so far is returned then.
        callback: called after every descent, with the error at p = 2.

    Returns:
        The mechanism; its start, and why the search for it stopped.
    """
    parts = workload.separable_gram()
    gram: Gram
    if parts is None:
        gram = DenseGram(workload.gram(np.ones(workload.shape[0])))
    else:
        gram = SeparableGram(*parts)
    begin, numbers = time.perf_counter(), count(1)
    epsilon = scale_rule(guarantee, workload.shape[1]).epsilon

    def report(trace: float) -> None:
        if callback is not None:
            error = math.sqrt(2 * trace) / epsilon
            callback(SearchStep(next(numbers), error, time.perf_counter() - begin))

    n, part = workload.shape[1], max(deadline - begin, LEAST_TIME) / 4
    most = min((part / (NOISE_SECONDS * n)) ** (1 / 2), (part / START_SECONDS) ** (1 / 3))
    rows = max(1.0, min(most, n / SPACING))
    end = deadline - NOISE_SECONDS * n * rows**2
    with single_thread():
        solution = tents.design(gram, deadline=end, most_rows=rows, callback=report)
    sums = 1 + solution.rows.sum(axis=0)
    strategy = IdentityAndRows("design", 1 / sums, solution.rows / sums)
    noisy = mechanism(strategy, workload, guarantee=guarantee, noise="laplace", p=p)
    error = noisy.error(p)
    before = error * math.sqrt(solution.before / solution.after)
    return noisy, Start(solution.name, before, error, solution.settled), solution.status
