"""Strategies for people who take part in several steps of running sums (docs/streams.md), p = 2.

fixed epochs, n <= k b     the certified optimum (`pmldesign_solvers.participation.fixed_epochs`)
everything else            the best of what is known for it: the optimum for fixed epochs that cover
                           all steps, for min-sep banded strategies and some with a few poles
                           (`min_sep`), and the best strategy for one participation

All are measured with the sensitivity of the participation that was asked for. A lower bound for
fewer steps or participations is one for more of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.participation.min_sep import searched
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign.workloads.running import stream_problem
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation import fixed_epochs
from pmldesign_solvers.participation.epochs import Epochs
from pmldesign_solvers.streams.chain import RunningSums

EPOCH_CELLS = 2**17
"""Steps up to which fixed epochs are designed: blocks of all classes and nodes fit into memory."""
MOST_EPOCHS = 128
"""Likewise: a step takes O(n m^2 K) for m epochs."""

Once = Callable[[Workload, float, DesignOptions], Design]
"""The solver for one participation."""


def solve_participation(workload: Workload, p: float, options: DesignOptions, once: Once) -> Design:
    """The best strategy that is known for several participations.

    Raises:
        InvalidInputError: replace neighbours, p above 2, or a method other than "scaling".
    """
    participation = options.schema
    assert participation is not None
    if options.replace:
        raise InvalidInputError(
            "participations are for add-remove neighbours: a person takes part in steps of a"
            " stream; leave neighbours out"
        )
    if p > 2 or options.method != "scaling":
        raise InvalidInputError(
            "designs for several participations are for p = 2 and method 'scaling'; leave --p and"
            " --method out"
        )
    plain = replace(options, participation=None)
    if participation.reach(workload.shape[1]) == 1:
        design = once(workload, p, plain)
        return replace(design, strategy=with_participation(design.strategy, participation))
    sums = stream_problem(workload)
    if options.buffers is None and sums is not None and _exact(sums, participation):
        return _fixed(workload, sums, participation, options)
    return _best(workload, participation, once(workload, p, plain), options)


def _exact(sums: RunningSums, participation: Participation) -> bool:
    """Whether the solver for fixed epochs answers the question."""
    return (
        participation.fixed
        and participation.reach(sums.cells) * participation.apart >= sums.cells
        and _solvable(sums, participation.apart)
    )


def _solvable(sums: RunningSums, every: int) -> bool:
    epochs = -(-sums.cells // every)
    return every >= 2 and 2 <= epochs <= MOST_EPOCHS and sums.cells <= EPOCH_CELLS


def _fixed(
    workload: Workload, sums: RunningSums, participation: Participation, options: DesignOptions
) -> Design:
    """The certified optimum for fixed epochs."""
    solution = fixed_epochs.solve(Epochs(sums, participation.apart), options.stopping)
    strategy = EpochStrategy("design", sums, participation, solution.weights, solution.nodes)
    return Design(
        workload=workload,
        p=2.0,
        neighbours=options.neighbours,
        strategy=with_participation(strategy, participation),
        certificate=solution.certificate,
        dual_factors=((np.ones(sums.cells), solution.dual),),
        status=solution.status,
        steps=solution.steps,
        eigendecompositions=0,
        seconds=solution.seconds,
    )


def _best(
    workload: Workload, participation: Participation, single: Design, options: DesignOptions
) -> Design:
    """The best of some strategies, with the best of some lower bounds."""
    begin = time.perf_counter()
    lower, source = single, "one participation"
    strategies = {"the one for one participation": single.strategy}
    status, sums = single.status, stream_problem(workload)
    if sums is not None and options.buffers is None:
        for part, covering in _coverings(sums, participation):
            design = _fixed(workload, part, covering, options)
            if part.cells == sums.cells and participation.fixed:
                strategies["fixed epochs"] = with_participation(design.strategy, None)
            bounding = participation.reach(part.cells) == covering.times
            if bounding and design.certificate.lower > lower.certificate.lower:
                lower, source = design, f"fixed epochs of {part.cells} steps"
        if not participation.fixed:
            candidates, status = searched(sums, participation, options, lower.certificate.lower)
            strategies |= candidates
    values = {
        name: value(workload, strategy, participation) for name, strategy in strategies.items()
    }
    best = min(values, key=values.__getitem__)
    strategy = with_participation(strategies[best], participation)
    bound = lower.certificate.lower
    certificate = Certificate(bound, max(values[best], bound))
    if status is Status.OPTIMAL:
        optimal = certificate.gap <= options.rel_gap
        status = Status.OPTIMAL if optimal else Status.SEARCHED
    return replace(
        single,
        strategy=strategy.normalised(),
        certificate=certificate,
        dual_factors=lower.dual_factors,
        status=status,
        seconds=single.seconds + time.perf_counter() - begin,
        forms=f"upper: {best}; lower: {source}",
    )


def _coverings(
    sums: RunningSums, participation: Participation
) -> Iterator[tuple[RunningSums, Participation]]:
    """Fixed epochs over all steps, and over as many as a person can take part in."""
    apart, times = participation.apart, participation.reach(sums.cells)
    cells = min(sums.cells, times * apart)
    if not _solvable(sums, apart):
        return
    if participation.fixed and cells < sums.cells:
        yield sums, Participation(-(-sums.cells // apart), apart, fixed=True)
    yield _first(sums, cells), Participation(times, apart, fixed=True)


def _first(sums: RunningSums, cells: int) -> RunningSums:
    """The running sums of the first steps alone."""
    queries, steps = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
    return RunningSums(sums.rates[: cells - 1], queries[:cells], steps[:cells])


def value(workload: Workload, strategy: Strategy, participation: Participation) -> float:
    """What a strategy makes of the norm, rounded upwards."""
    measured = with_participation(strategy, participation)
    norm = Factorization(workload, measured, Neighbours.ADD_REMOVE).norm(2.0)
    units: float | Array = 16.0 * sum(workload.shape)
    return raised(norm, float(units)) if math.isfinite(norm) else math.inf
