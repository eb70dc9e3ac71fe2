"""Lower bounds on the norm for several participations: fewer patterns than there are, proved.

    up to PATTERN_CELLS steps   weights of many patterns (`participation.patterns` in the solvers)
    beyond                      fixed epochs of the first k b steps, a part of the patterns and of
                                the queries; for min-sep also of all steps, n / k apart
    always                      one participation

A pattern of fewer steps, or of steps farther apart, is one of those that are allowed.

A `Watch` goes along with them and with the searches of strategies (`course`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.streaming import first_early
from pmldesign.strategies.participation.schema import Participation
from pmldesign.workloads import Workload
from pmldesign.workloads.running import RunningWorkload
from pmldesign_solvers.norm.solution import Status, Step
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.participation import fixed_epochs, patterns
from pmldesign_solvers.participation.epochs import Epochs
from pmldesign_solvers.participation.fixed_epochs import EpochSolution
from pmldesign_solvers.streams.chain import RunningSums

PATTERN_CELLS = 1024
"""Steps up to which patterns are weighed: 12 s for 1024, 16 times 64 apart."""
MANY_CELLS = 512
DESCENT_STEPS = {False: 40, True: 300}
"""Of the descent for min-sep and for fixed epochs, up to MANY_CELLS; twice as many gain 1e-4 and
1e-5 for 365 and 200 steps."""
FEW_STEPS = 12
LEAST_SHARE, AKIN_ROUNDING = 1e-6, 1e-9
"""Of the largest weight of a step; of nuclear norms, relative."""
EPOCH_CELLS = 2**17
"""Steps up to which fixed epochs are designed: blocks of all classes and nodes fit into memory."""
MOST_EPOCHS = 128
"""Maximum number of epochs of such a design: a step takes O(n m^2 K) for m epochs."""


class StepWatch:
    """Counts steps, reports them, and says when time is over.

    Args:
        options: the limit of time is for all stages together; the callback gets their steps.
    """

    def __init__(self, options: DesignOptions) -> None:
        self._options, self._begin = options, time.perf_counter()
        self.number = 0
        self._lower, self._upper = 0.0, math.inf

    @property
    def options(self) -> DesignOptions:
        """The options of the design."""
        return self._options

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begin

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self._options.stopping.deadline.over()

    def follow(self, design: Design) -> None:
        """Raise KeyboardInterrupt if Ctrl-C ended a stage: it ends those that would follow."""
        if design.status is Status.INTERRUPTED:
            raise KeyboardInterrupt

    def bounded(self, lower: float) -> bool:
        """A step with a lower bound on the norm; True where time is over."""
        self._lower = max(self._lower, lower)
        return self._stepped()

    def reached(self, norm: float) -> bool:
        """A step with a strategy of this norm; True where time is over."""
        self._upper = min(self._upper, norm)
        return self._stepped()

    def _stepped(self) -> bool:
        self.number += 1
        if self._options.callback is not None:
            step = Step(self.number, self._lower, self._upper, self.seconds)
            self._options.callback(step)
        return self.over


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """A lower bound on the norm.

    Attributes:
        value: rounded downwards.
        dual: u and the weights W, in the form of the source.
        steps: of the patterns that the blocks of W are about, shape (N, k); None for other weights.
        source: the origin of the bound, in words.
    """

    value: float
    dual: tuple[tuple[Array, Array], ...]
    steps: Indices | None
    source: str


def of_once(design: Design) -> LowerBound:
    """The bound for one participation, which holds for several."""
    return LowerBound(design.certificate.lower, design.dual_factors, None, "one participation")


def of_patterns(
    sums: RunningSums, participation: Participation, watch: StepWatch
) -> tuple[LowerBound, Array] | None:
    """The bound by weights of patterns, and the Gram matrix; None for too many steps."""
    n, fixed = sums.cells, participation.fixed
    if n > PATTERN_CELLS:
        return None
    steps = patterns.patterns(n, participation.reach(n), participation.apart, fixed=fixed)
    limit = DESCENT_STEPS[fixed] if n <= MANY_CELLS else FEW_STEPS
    bound = patterns.solve(sums, steps, limit, watch.bounded)
    dual = ((np.ones(n), bound.blocks),)
    return LowerBound(bound.lower, dual, bound.steps, f"{len(steps)} patterns"), bound.gram


def akin_sums(workload: Workload, most: int) -> Workload | None:
    """Running sums whose last query is that of the workload, weighted like its queries.

    None for more steps, or if a query needs a later step or the last one leaves steps out.
    """
    m, n = workload.shape
    if m != n or n > most or first_early(workload) is not None:
        return None
    last = workload.rmatvec(np.eye(1, n, n - 1)[0])
    if not (last > LEAST_SHARE * np.abs(last).max()).all():
        return None
    squares = workload.row_norms(np.eye(n)) / np.cumsum(last**2)
    return RunningWorkload(np.ones(n - 1), np.sqrt(squares), last)


def of_akin(workload: Workload, design: Design) -> Iterator[LowerBound]:
    """The bound by the weights of the design for `akin_sums`: they are weights for any A."""
    ((_, blocks),), steps = design.dual_factors, design.dual_steps
    if blocks.ndim != 3:
        return
    n, (count, width) = workload.shape[1], blocks.shape[:2]
    members = np.arange(count)[:, None] + count * np.arange(width) if steps is None else steps
    weights, total = np.zeros((members.max() + 1,) * 2), 0.0
    for block, places in zip(blocks, members, strict=True):
        weights[np.ix_(places, places)] += block
        total += float(block.diagonal()[places < n].max(initial=0.0))
    values, vectors = np.linalg.eigh(weights[:n, :n])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    norm = float(np.linalg.svd(workload.matvec(root), compute_uv=False).sum())
    value = norm / math.sqrt(total) * (1.0 - AKIN_ROUNDING)
    dual = ((np.ones(n), blocks),)
    yield LowerBound(value, dual, steps, f"{len(members)} patterns")


def of_epochs(
    sums: RunningSums, participation: Participation, watch: StepWatch
) -> Iterator[LowerBound]:
    """Bounds by fixed epochs that are a part of the patterns."""
    times, apart = participation.reach(sums.cells), participation.apart
    parts = [(min(sums.cells, times * apart), apart)]
    if not participation.fixed and times * apart < sums.cells:
        parts.append((sums.cells, -(-sums.cells // times)))
    for cells, every in parts:
        if solvable(cells, every):
            solution = epochs_solution(first_steps(sums, cells), every, watch.options)
            dual = ((solution.dual_u, solution.dual_w),)
            words = f"fixed epochs of {cells} steps, {every} apart"
            yield LowerBound(solution.certificate.lower, dual, None, words)


def solvable(cells: int, every: int) -> bool:
    """Whether fixed epochs of so many steps are solved."""
    return every >= 2 and 2 <= -(-cells // every) <= MOST_EPOCHS and cells <= EPOCH_CELLS


def epochs_solution(sums: RunningSums, every: int, options: DesignOptions) -> EpochSolution:
    """The optimum for fixed epochs that cover all steps."""
    return fixed_epochs.solve(Epochs(sums, every), options.stopping)


def first_steps(sums: RunningSums, cells: int) -> RunningSums:
    """The running sums of only the first steps."""
    queries, steps = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
    return RunningSums(sums.rates[: cells - 1], queries[:cells], steps[:cells])
