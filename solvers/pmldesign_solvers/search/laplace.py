"""Strategies for Laplace noise: l1 sensitivity, and pointwise maximal leakage.

With Laplace noise of scale b(R) (see `laplace_noise`) the error of a strategy R is

    err_p = b(R) * (E norm(A R^+ z)_p^p)^(1/p),      z with i.i.d. Laplace(1) entries,

not a convex function of R in any parametrisation. It is minimised by L-BFGS from many starts, with
absolute values and maxima smoothed less and less; the exact value of every start and of every
result decides, so the answer is never worse than a start. For p > 2 the standard deviations of the
answers stand for their moments, and at even p the best is polished with the moments themselves.

References:
    McKenna, Miklau, Hay and Machanavajjhala, Optimizing error of high-dimensional statistical
        queries under differential privacy, VLDB 2018: the identity with a few more rows.
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries: the
        design for PML is named as future work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from pmldesign_solvers.norm.bounds_loop import ended
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.operators.lbfgs import StoppedError
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.operators.scale import LARGEST_GAP, normalised
from pmldesign_solvers.search.descent import Descent, single_thread
from pmldesign_solvers.search.laplace_noise import AddRemoveL1, Leakage, ReplaceL1, ScaleRule
from pmldesign_solvers.search.plan import SearchPlan
from pmldesign_solvers.search.problem import SearchProblem
from pmldesign_solvers.search.solution import SearchSolution, SearchStep, Start


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How long a search goes on, and from where.

    Attributes:
        restarts: how many random starts, and how many perturbations of the best.
        dp_restarts: for `Leakage`, the restarts of a search for `ReplaceL1` whose strategy is one
            more start, so that the prior is never a loss; None for no such search.
        seed: of the random starts; the same seed gives the same answer before the deadline.
        work: when the search stops.
        least_gain: the search ends where the later half of its work has made the error less by a
            smaller part than this; 0 goes on while anything is gained.
        callback: called after every start. Ctrl-C during the search returns the best so far.
    """

    restarts: int = 12
    dp_restarts: int | None = None
    seed: int = 0
    work: Work = field(default_factory=Work)
    least_gain: float = 0.0
    callback: Callable[[SearchStep], None] | None = None


@single_thread()
def solve(
    operator: Operator,
    p: float,
    *,
    scale: ScaleRule,
    signed: bool = True,
    starts: Mapping[str, Array] | None = None,
    ordered: bool = False,
    options: SearchOptions | None = None,
) -> SearchSolution:
    """Search for the strategy with the smallest error under Laplace noise.

    Args:
        operator: the m x n workload, not all zero.
        p: in [2, inf].
        scale: of the guarantee; decides whether the total is public.
        signed: whether the strategy may have negative entries. Where the total is public this
            restricts nothing: a constant is added to every row.
        starts: further strategies to begin from, by name, each of shape (r, n). The answer is at
            least as good as every one of them that determines the workload; with more than SMALL
            cells, as those that the work is enough to evaluate, likely ones first.
        ordered: whether the cells come in an order in which neighbours are alike; otherwise such an
            order is looked for.
        options: how long it goes on, and from where.

    Raises:
        ValueError: p outside [2, inf], a workload that needs no measurement, or a start of the
            wrong shape or sign.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    options = options or SearchOptions()
    begin, work = time.perf_counter(), options.work
    add_remove = isinstance(scale, AddRemoveL1)
    normal = normalised(operator, "add-remove" if add_remove else "replace", LARGEST_GAP)
    operator, unit = normal.searched, 2.0**normal.exponent
    problem = SearchProblem(operator, p, public_total=not add_remove, ordered=ordered)
    given = _checked_starts(starts or {}, operator.shape[1], scale, signed)
    rule = scale if isinstance(scale, AddRemoveL1) else scale.on_cells(problem.cell_of)
    search = Descent(problem, rule, work, options.least_gain)

    def for_dp(part: Work) -> Array:
        assert options.dp_restarts is not None
        assert isinstance(scale, Leakage)
        solution = solve(
            operator,
            p,
            scale=ReplaceL1(scale.epsilon),
            signed=signed,
            starts=given,
            ordered=ordered,
            options=SearchOptions(
                options.dp_restarts, None, options.seed, part, options.least_gain
            ),
        )
        return problem.fold(solution.strategy)

    first = None if options.dp_restarts is None else for_dp
    plan = SearchPlan(operator, search, signed, options.restarts, options.seed, first)
    folded = {name: problem.fold(matrix) for name, matrix in given.items()}
    search.offer(np.eye(problem.cells))
    status = Status.COMPLETED
    with work.deadline.catching(), suppress(StoppedError):
        for number, _ in enumerate(plan.run(folded), 1):
            if options.callback is not None:
                step = SearchStep(number, search.best[0] * unit, time.perf_counter() - begin)
                options.callback(step)
        if problem.public_total:
            search.level()
        status = Status.DIMINISHING if plan.gave_up else Status.COMPLETED
    status = ended(work) or status
    search.table += [Start(start.name, start.before, start.before) for start in plan.waiting]
    strategy = _strategy(search, scale, signed)
    return SearchSolution(
        strategy=strategy,
        error=search.best[0] * unit,
        scale=scale.scale(strategy),
        status=status,
        starts=tuple(
            replace(start, before=unit * start.before, after=unit * start.after)
            for start in search.table
        ),
        seconds=time.perf_counter() - begin,
    )


def _checked_starts(
    starts: Mapping[str, Array], cells: int, scale: ScaleRule, signed: bool
) -> dict[str, Array]:
    for name, matrix in starts.items():
        if matrix.ndim != 2 or matrix.shape[1] != cells:
            raise ValueError(f"start {name!r} must have {cells} columns, got shape {matrix.shape}")
        if not signed and isinstance(scale, AddRemoveL1) and matrix.min() < 0:
            raise ValueError(f"start {name!r} has negative entries; leave it out or allow signs")
    return dict(starts)


def _strategy(search: Descent, scale: ScaleRule, signed: bool) -> Array:
    """The best strategy on the original cells, whose noise has the scale 1/epsilon."""
    public = search.problem.public_total
    strategy = search.problem.unfold(search.best[1])
    if public:
        strategy -= strategy.mean(axis=1, keepdims=True)
    strategy = strategy / (scale.scale(strategy) * scale.epsilon)
    if public and not signed:
        strategy = strategy - strategy.min(axis=1, keepdims=True)
    return strategy
