"""Strategies for people who take part in several steps, or have several rows.

Proofs: docs/background/streams.md.

Of running sums:

fixed epochs, n <= k b     the certified optimum (`pmldesign_solvers.participation.fixed_epochs`)
drawn at random            `sampled`
other queries in time      also the strategy for running sums whose weights are close to theirs
everything else            the best of the known strategies: the one that goes with the lower
                           bound, the optimum for fixed epochs that cover all steps, for min-sep
                           banded strategies and some with a few poles, which searches find, the
                           square root with the best number of bands, and the best strategy for
                           one participation
K buffers                  the best with up to K poles, and the best for one participation
p > 2                      the same for weighted queries (`largest`)

All are measured with the sensitivity of the participation that was asked for; `bounds` are below.
Of tables in which a person has several rows:

any cells            that of one row: its norm and both bounds are k times as large
different cells      that of one row, with the sensitivity for a person; one row proves the bound
a panel              as above; of a product with a factor for the years also the optimum of that
                     factor for fixed epochs, all years of one class, as the sensitivity of
                     R_Y x R_C is that of R_Y for a person in all years times the longest column
                     of R_C; the better one
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import scipy

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.participation.bounds import (
    PATTERN_CELLS,
    LowerBound,
    StepWatch,
    akin_sums,
    epochs_solution,
    of_akin,
    of_epochs,
    of_once,
    of_patterns,
    solvable,
)
from pmldesign.designs.participation.largest import solve_largest
from pmldesign.designs.participation.sampled import solve_sampled
from pmldesign.designs.results import Design, as_design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy, product_strategy
from pmldesign.strategies.base import renamed
from pmldesign.strategies.baselines.toeplitz import banded_root, toeplitz_rate
from pmldesign.strategies.participation.distances import sensitivity
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.persons import ANY, PersonRows
from pmldesign.strategies.participation.schema import Participation, SampledParticipation
from pmldesign.strategies.participation.strategy import (
    require_steps,
    with_participation,
    without_participation,
)
from pmldesign.strategies.recurrent import FactorStrategy
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation import poles
from pmldesign_solvers.participation.scaled_toeplitz import solve_banded
from pmldesign_solvers.streams.chain import RunningSums

Solve = Callable[[Workload, float, DesignOptions], Design]
ROUNDING = 1e-10
"""Of norms and quotients of sensitivities, relative: they are rounded by far less."""
SEARCHED_CELLS = 2048
"""Steps up to which banded strategies are searched: O(n^2) a step, 10 s for 1024. Also those
with poles, if a number of buffers is requested."""
POLES_CELLS, POLES = 512, 2
"""Steps and poles up to which strategies with poles are searched if no number of buffers is
requested: O(n^3) a step, 6 s for 365. A third pole gains 1e-4 for 365 steps, 4 times 7 apart, and
takes as long again."""
RANGE = 300.0
"""Logarithm of what rates may multiply to: the search multiplies and divides by it."""

Once = Callable[[Workload, float, DesignOptions], Design]
"""The solver for one participation."""


def solve_persons(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The best strategy that is known for the rows of a person, which `options` say."""
    rows, plain = options.schema, replace(options, participation=None)
    assert isinstance(rows, PersonRows)
    design, count = solve(workload, p, plain), rows.reach(workload.shape[1])
    measured, relation = with_participation(design.strategy, rows), options.neighbours
    single = design.strategy.sensitivity_under(relation, "l2")
    apart = measured.sensitivity_under(relation, "l2")
    upper = raised(design.certificate.upper * (apart / single) * (1 + ROUNDING), 4)
    forms = design.forms
    whole = count == 1 or rows.one_per == ANY
    if not whole:
        forms = "upper: the one for one row; lower: one row"
        panel = _panel(workload, plain, rows, solve)
        norm = math.inf if panel is None else _norm(panel, workload, p)
        if panel is not None and norm < upper * (1 - ROUNDING):
            measured, upper, forms = panel, norm, "upper: fixed epochs; lower: one row"
            apart = panel.sensitivity_under(relation, "l2")
    lower = math.nextafter((count if whole else 1) * design.certificate.lower, 0.0)
    certificate = Certificate(lower, max(upper, lower))
    optimum = None if design.optimum is None or not whole else raised(count * design.optimum, 1)
    status = design.status
    proved = status in (Status.OPTIMAL, Status.STRUCTURED)
    if proved and not whole and certificate.gap > options.rel_gap + 2 * ROUNDING:
        status = Status.SEARCHED
    return replace(
        design,
        strategy=measured.scaled(1.0 / apart),
        certificate=certificate,
        optimum=optimum,
        status=status,
        forms=forms,
    )


def _norm(strategy: Strategy, workload: Workload, p: float) -> float:
    """The norm that a strategy attains, rounded upwards."""
    return answer(strategy, workload, Neighbours.ADD_REMOVE).norm(p) * (1 + ROUNDING)


def _panel(
    workload: Workload, options: DesignOptions, rows: PersonRows, solve: Solve
) -> Strategy | None:
    """The product with the optimum for fixed epochs; None if no factor holds the years."""
    if not isinstance(rows.one_per, tuple) or len(rows.one_per) != 3 or rows.without:
        return None
    if options.replace or options.method != "scaling":
        return None
    before, years, _ = rows.one_per
    factors, place, sizes = workload.factors, 0, 1
    while place < len(factors) and sizes < before:
        sizes *= factors[place].shape[1]
        place += 1
    found = place < len(factors) and (sizes, factors[place].shape[1]) == (before, years)
    if not found or rows.times < years:
        return None
    epochs = replace(options, participation=Participation(years, 1, fixed=True))
    strategies = [
        without_participation(solve(factor, 2.0, asked).strategy)
        for number, factor in enumerate(factors)
        for asked in [epochs if number == place else options]
    ]
    strategies[place] = Strategy("years", strategies[place].matrix)
    return with_participation(product_strategy(strategies), rows)


def solve_participation(workload: Workload, p: float, options: DesignOptions, once: Once) -> Design:
    """The best strategy that is known for several participations.

    Raises:
        InvalidInputError: a product, replace neighbours, a method other than "scaling", or p above
            2 for steps that are drawn.
    """
    participation = options.schema
    if isinstance(participation, PersonRows):
        return solve_persons(workload, p, options, once)
    assert participation is not None
    require_steps(workload, participation)
    if options.replace:
        raise InvalidInputError(
            "participations are for add-remove neighbours: a person takes part in steps of a"
            " stream; remove `neighbours`"
        )
    few = options.buffers == 1 and participation.reach(workload.shape[1]) > 1
    if options.method != "scaling":
        raise InvalidInputError(
            "designs for several participations are for method 'scaling'; remove `method`"
        )
    plain = replace(options, participation=None, buffers=None if few else options.buffers)
    if isinstance(participation, SampledParticipation):
        if participation.rate == 1 and not participation.open:
            steps = participation.reach(workload.shape[1])
            fixed = Participation(steps, participation.apart, fixed=True)
            return solve_participation(workload, p, replace(options, participation=fixed), once)
        if p > 2:
            raise InvalidInputError(
                f"designs for steps that are drawn are for p = 2, got {p:g}; remove `p`"
            )
        return solve_sampled(workload, options, once(workload, p, plain))
    if participation.reach(workload.shape[1]) == 1:
        design = once(workload, p, plain)
        return replace(design, strategy=with_participation(design.strategy, participation))
    if p > 2:
        return solve_largest(
            workload,
            p,
            options,
            lambda queries, limits: solve_participation(queries, 2.0, limits, once),
            partial(value, p=p),
        )
    sums = workload.running_sums
    if options.buffers is None and sums is not None and _exact(sums, participation):
        return _fixed(workload, sums, participation, options)
    watch = StepWatch(options)
    return _best(workload, participation, once(workload, p, plain), watch, once)


def _exact(sums: RunningSums, participation: Participation) -> bool:
    """Whether the solver for fixed epochs answers the question."""
    return (
        participation.fixed
        and participation.reach(sums.cells) * participation.apart >= sums.cells
        and solvable(sums.cells, participation.apart)
    )


def _fixed(
    workload: Workload, sums: RunningSums, participation: Participation, options: DesignOptions
) -> Design:
    """The certified optimum for fixed epochs."""
    solution = epochs_solution(sums, participation.apart, options)
    strategy = EpochStrategy("design", sums, participation, solution.weights, solution.nodes)
    measured = with_participation(strategy, participation)
    return as_design(workload, 2.0, options, measured, solution)


def _best(
    workload: Workload, participation: Participation, single: Design, watch: StepWatch, once: Once
) -> Design:
    """The best of some strategies, with the best of some lower bounds."""
    options = watch.options
    strategies: dict[str, Strategy] = {}
    bounds, sums = [of_once(single)], workload.running_sums
    status = single.status
    try:
        watch.follow(single)
        if options.buffers is None:
            strategies = _root(workload, participation, watch)
        akin = _akin(workload, watch, once, bounds)
        for name, strategy in _stages(sums, participation, watch, bounds) if sums else akin:
            strategies[name] = strategy
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if watch.over and status is not Status.INTERRUPTED:
        status = Status.TIME_LIMIT
    late = watch.over and workload.shape[1] > PATTERN_CELLS
    if options.buffers != 1 and not (strategies and late):
        strategies["the one for one participation"] = single.strategy
    if not strategies and status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if not strategies:
        raise InvalidInputError(
            f"strategies with 1 buffer are for running sums of up to {SEARCHED_CELLS} steps, got"
            f" {workload.name!r}; take more buffers"
        )
    measured = {name: with_participation(one, participation) for name, one in strategies.items()}
    values = {name: value(workload, strategy) for name, strategy in measured.items()}
    best = min(values, key=values.__getitem__)
    lower = max(bounds, key=lambda bound: bound.value)
    certificate = Certificate(lower.value, max(values[best], lower.value))
    if status is Status.OPTIMAL:
        optimal = certificate.gap <= options.rel_gap
        status = Status.OPTIMAL if optimal else Status.SEARCHED
    return replace(
        single,
        strategy=measured[best].normalised(),
        certificate=certificate,
        dual_factors=lower.dual,
        dual_steps=lower.steps,
        status=status,
        seconds=watch.seconds,
        forms=f"upper: {best}; lower: {lower.source}",
    )


def _root(
    workload: Workload, participation: Participation, watch: StepWatch
) -> dict[str, Strategy]:
    """The square root of b, 2 b, 4 b ... bands that is best, for sums without weights.

    Of those that there is time for, the fewest bands first.
    """
    n, rate = workload.shape[1], toeplitz_rate(workload)
    if rate is None or rate > 1:
        return {}
    doublings = range(math.ceil(math.log2(n / participation.apart)))
    widths = [*(participation.apart * 2**j for j in doublings), n]
    found: dict[int, tuple[float, Strategy]] = {}
    for bands in widths:
        if found and watch.over:
            break
        root = banded_root(workload, bands)
        spread = float(root.variances(workload).sum())
        found[bands] = spread * sensitivity(root, participation, "l2") ** 2, root
    best = min(found, key=lambda bands: found[bands][0])
    return {f"square root, {best} bands": renamed(found[best][1], "design")}


def _stages(
    sums: RunningSums, participation: Participation, watch: StepWatch, bounds: list[LowerBound]
) -> Iterator[tuple[str, Strategy]]:
    """Strategies with their descriptions; lower bounds are added to the list."""
    n, every, buffers = sums.cells, participation.apart, watch.options.buffers
    if watch.over and buffers is None:
        return
    weighed = None if _exact(sums, participation) else of_patterns(sums, participation, watch)
    if weighed is None:
        bounds += of_epochs(sums, participation, watch)
    else:
        bound, gram = weighed
        bounds.append(bound)
        if buffers is None:
            with contextlib.suppress(scipy.linalg.LinAlgError):  # if far from the maximum
                yield "weights of patterns", _of_gram(gram)
    if watch.over and buffers is None:
        return
    yield from _searched(sums, participation, watch)
    if buffers is None and participation.fixed and solvable(n, every):
        covering = Participation(-(-n // every), every, fixed=True)
        solution = epochs_solution(sums, every, watch.options)
        yield (
            f"fixed epochs, {covering.times} of them",
            EpochStrategy("design", sums, covering, solution.weights, solution.nodes),
        )


def _akin(
    workload: Workload, watch: StepWatch, once: Once, bounds: list[LowerBound]
) -> Iterator[tuple[str, Strategy]]:
    """The strategy for `akin_sums`, with any number of buffers; adds lower bounds to the list."""
    akin = akin_sums(workload, SEARCHED_CELLS)
    if akin is None or watch.options.buffers is not None:
        return
    found = solve_participation(akin, 2.0, watch.options, once)
    bounds += of_akin(workload, found)
    yield (
        "the one for running sums",
        Strategy("design", without_participation(found.strategy).matrix),
    )
    watch.follow(found)


def _searched(
    sums: RunningSums, participation: Participation, watch: StepWatch
) -> Iterator[tuple[str, Strategy]]:
    """The strategies that searches find, with their descriptions."""
    n, apart, buffers = sums.cells, participation.apart, watch.options.buffers
    widest = float(np.abs(np.cumsum(np.log(sums.rates))).max())
    if n > SEARCHED_CELLS or widest > RANGE:
        return
    if buffers is None and apart > 1 and not participation.fixed:
        point = solve_banded(sums, participation.times, apart, watch.reached)
        yield "banded, rows and columns scaled", Strategy("design", point.matrix)
        if watch.over:
            return
    few = n <= POLES_CELLS and participation.times * apart <= n and not participation.fixed
    if buffers is None and not (few and apart > 1):
        return
    question = poles.Question(sums, participation.reach(n), apart, participation.fixed)
    found = poles.solve(question, buffers or POLES, watch.reached)
    count = found.gains.shape[1]
    yield (
        f"{count} pole{'s' if count > 1 else ''}, rows and columns scaled",
        FactorStrategy("design", sums, found.diagonal, found.gains, found.decays),
    )


def _of_gram(gram: Array) -> Strategy:
    """The lower triangular strategy C with C^T C = X."""
    upper = scipy.linalg.cholesky(gram[::-1, ::-1], check_finite=False)
    return Strategy("design", np.ascontiguousarray(upper[::-1, ::-1]))


def value(workload: Workload, strategy: Strategy, p: float = 2.0) -> float:
    """The norm that a strategy attains, rounded upwards."""
    norm = Factorization(workload, strategy, Neighbours.ADD_REMOVE).norm(p)
    units: float | Array = 16.0 * sum(workload.shape)
    return raised(norm, float(units)) if math.isfinite(norm) else math.inf
