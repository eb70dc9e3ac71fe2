"""How much budget do these accuracies need? The least epsilon, rho or mu, and the strategy.

For Gaussian noise the question has a certified answer: the least standard deviation for targets c
is gamma_(inf)(diag(1/c) A), whose bounds become bounds on the budget (`budgets`). For Laplace noise
a search finds a good strategy, and the same norm bounds what any strategy needs; on the grid of
whole measurements less may do, of which the bounds for every mechanism speak.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pmldesign.arguments import non_negative, positive
from pmldesign.bounds.bound import ANY_SIZE, BoundProblem
from pmldesign.designs.dispatch import solve
from pmldesign.designs.estimates import BEYOND
from pmldesign.designs.options import LEAST_TIME, DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.rivals import require_quick, row_seconds
from pmldesign.designs.targets.accuracy import Targets, as_targets, largest_size
from pmldesign.designs.targets.budgets import (
    LEAST_BUDGET,
    Answer,
    budget_name,
    least_for,
    needs,
    none_at_all_below,
    none_below,
    with_budget,
)
from pmldesign.designs.targets.clock import Clock
from pmldesign.errors import InvalidInputError, PmldesignError, VacuousGuaranteeError
from pmldesign.factorization import Factorization, answer, with_known
from pmldesign.mechanisms import Mechanism, NoiseChoice, admissible, require_feasible
from pmldesign.mechanisms.exact_error import OWN_GRID
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, at_most
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy, as_strategy, baseline
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload, as_workload
from pmldesign.workloads.display import Displayed, Drawn, Facts
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Effort

BUDGET_GAP = 1e-5
"""Of the bounds on the budget for Gaussian noise, by default."""
LEAST_GAP = 1e-9
"""Of the norm: rounding keeps bounds further apart than smaller ones."""
TRIES = 4
"""Times that the gap of the norm is narrowed until the budget has its gap."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeastBudget(Drawn, Displayed):
    """The least budget for some targets, and the mechanism that meets them with it.

    Attributes:
        workload: A.
        targets: the largest standard deviation, or half-width, of each query.
        name: of the budget: "epsilon", "rho" or "mu".
        enough: the budget of the mechanism, which is private with it and meets every target.
        at_least: no noise of this kind on any strategy does with less; no mechanism does, where
            the noise is on the grid of whole measurements.
        mechanism: on A.
        normalised: diag(1/c) A.
        design: the strategy of least norm for it at p = inf, with its certificate.
        own_grid: of the options: whether noise may be on the grid of whole measurements.
    """

    workload: Workload
    targets: Targets
    name: str
    enough: float
    at_least: float
    mechanism: Mechanism
    normalised: Workload
    design: Design
    own_grid: bool | None = None

    def _display(self) -> tuple[str, Facts]:
        title = f"{self.name} for {self.workload.name!r}: {at_least(self.enough, 10)} is enough"
        return title, [
            ("targets", self.targets.describe()),
            (f"{self.bounded} needs", at_most(self.at_least, 10)),
        ]

    @property
    def bounded(self) -> str:
        """What the lower bound speaks of."""
        if self.mechanism.own_grid:
            return ANY_SIZE
        return f"{self.mechanism.noise.value} noise on any strategy"

    @property
    def gap(self) -> float:
        """Enough / at_least - 1; inf where the lower bound is 0."""
        return self.enough / self.at_least - 1 if self.at_least > 0 else math.inf

    @property
    def tightest(self) -> float:
        """Largest standard deviation (or half-width) over its target: at most 1."""
        factorization = _on(self.mechanism.strategy, self)
        if self.mechanism.own_grid:
            return replace(self.mechanism, factorization=factorization).max_std
        return self.mechanism.scale * largest_size(
            factorization, self.mechanism.noise, self.targets.level
        )

    def budget_of(self, strategy: Strategy, noise: NoiseChoice = "auto") -> tuple[float, str]:
        """What another strategy needs for these targets, and the noise that needs less.

        Raises:
            InvalidInputError: it cannot answer the queries.
            InfeasibleError, VacuousGuaranteeError: no budget does.
        """
        guarantee = self.mechanism.guarantee
        assert guarantee is not None
        strategy = as_strategy(strategy, self.workload)
        factorization, kinds = _on(strategy, self), admissible(guarantee, noise)
        level = self.targets.level
        best = min(
            needs(strategy, factorization, guarantee, kinds, level, self.own_grid),
            key=lambda entry: entry.budget,
        )
        return best.budget, best.noise.value + OWN_GRID * best.own_grid


def least_budget(
    workload: Any,
    targets: Any,
    guarantee: Guarantee,
    *,
    noise: NoiseChoice = "auto",
    search_time: float | None = None,
    budget_gap: float = BUDGET_GAP,
    known: Any = None,
    **options: Any,
) -> LeastBudget:
    """The least budget at which every query meets its target, and the mechanism that does.

    Args:
        workload: A, shape (m, n): a Workload, a name such as "prefix:64", or a matrix.
        targets: the largest standard deviation of a query: one number, one for each query, or
            `Targets`, also of half-widths of intervals: Targets(10, level=0.95).
        guarantee: what is promised; its epsilon, rho or mu is what is looked for, and the one that
            it has does not count. ApproxDP(1, 1e-6) asks for the epsilon at delta 1e-6.
        noise: "gaussian", "laplace", or "auto" for the one that needs less.
        search_time: in seconds, for the search of a strategy for Laplace noise; None ends it where
            it hardly gains any more.
        budget_gap: for Gaussian noise, stop when both bounds on the budget are this close.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        **options: of the design, see `DesignOptions`; the time limit is for the design and the
            search together.

    Returns:
        The budget, both bounds rounded to the safe side, and the mechanism.

    Raises:
        InvalidInputError: an argument out of range.
        InfeasibleError: no noise that is asked for meets such a guarantee.
        VacuousGuaranteeError: only a guarantee that protects nobody would do.
    """
    begin = time.perf_counter()
    require_guarantee(guarantee)
    budget_gap, plain = positive("budget_gap", budget_gap), as_workload(workload)
    if search_time is not None:
        search_time = non_negative("search_time", search_time)
    checked = as_targets(targets, plain)
    queries, asked = with_known(plain, guarantee, known)
    assert asked is not None
    guarantee, level = asked, checked.level
    normalised = checked.normalised(plain).beside(queries.public)
    relation = guarantee.neighbours
    if isinstance(noise, str) and noise == "cube":
        raise InvalidInputError("targets are for noise 'gaussian' and 'laplace'; take one of them")
    small = with_budget(guarantee, LEAST_BUDGET)
    require_feasible(small, queries.shape[1], noise=noise, p=math.inf)
    gap = options.pop("rel_gap", 0.7 * budget_gap)
    # refuses what is out of range, before the solve
    wanted = DesignOptions(**{**options, "neighbours": relation, "rel_gap": gap})
    clock = Clock(begin, wanted, normalised, guarantee, level)
    if guarantee.pml and wanted.schema is not None:
        raise wanted.schema.refusal()
    kinds = admissible(guarantee, noise)
    design = _certified(clock, guarantee, budget_gap, kinds)
    answers: list[Answer] = []
    refusal: PmldesignError | None = None
    for kind in kinds:
        try:
            for found in _with_noise(kind, design, clock, search_time, needed=not answers):
                answers.append(found)
        except PmldesignError as error:
            refusal = error
    if design.status is not Status.INTERRUPTED:
        answers += _rivals(queries, answers, clock)
    if not answers:
        raise refusal or InvalidInputError("no noise meets such a guarantee")
    best = min(answers, key=lambda entry: entry.budget)
    name, least = budget_name(guarantee), _at_least(best, normalised, guarantee, design, level)
    noisy = _mechanism_of(best, queries, relation)
    return LeastBudget(
        queries, checked, name, best.budget, least, noisy, normalised, design, wanted.own_grid
    )


def _certified(
    clock: Clock, guarantee: Guarantee, budget_gap: float, kinds: Sequence[Noise]
) -> Design:
    """The strategy of least norm, close enough for the gap of the budget; noise has time after."""
    options, normalised, level = clock.options, clock.normalised, clock.level
    gap, after = options.rel_gap, clock.after_design(kinds)
    for _ in range(TRIES):
        design = solve(
            normalised, math.inf, replace(options, rel_gap=gap, time_limit=clock.left(None, after))
        )
        stopped = design.status is Status.INTERRUPTED
        if stopped or isinstance(guarantee, OnPriors) or not guarantee.admits(Noise.GAUSSIAN):
            break
        relation = guarantee.neighbours
        factorization = answer(design.strategy, normalised, relation)
        enough = least_for(factorization, guarantee, Noise.GAUSSIAN, level)
        lower = _lower(normalised, guarantee, design, Noise.GAUSSIAN, level)
        reached = enough / lower - 1 if lower > 0 else math.inf
        if reached <= budget_gap or gap <= LEAST_GAP or design.certificate.gap > gap:
            break
        gap = max(LEAST_GAP, gap * min(0.1, budget_gap / reached / 4))
    return design


def _lower(
    normalised: Workload, guarantee: Guarantee, design: Design, noise: Noise, level: float | None
) -> float:
    """What no noise of this kind goes below."""
    problem = _problem(normalised, guarantee, design)
    return none_below(design.certificate.lower, problem, noise, level)


def _at_least(
    best: Answer, normalised: Workload, guarantee: Guarantee, design: Design, level: float | None
) -> float:
    """What no noise of its kind goes below, or no mechanism, and not above its budget."""
    if best.own_grid:
        return none_at_all_below(_problem(normalised, guarantee, design), best.budget)
    return min(_lower(normalised, guarantee, design, best.noise, level), best.budget)


def _mechanism_of(best: Answer, queries: Workload, relation: Neighbours) -> Mechanism:
    """The mechanism on the queries themselves, which a stream answers as well."""
    strategy, noise, calibration = best.strategy.made_for(queries), best.noise, best.calibration
    factorization = answer(strategy, queries, relation)
    if strategy is not best.strategy:  # by rounding other noise
        promise, near = calibration.guarantee, calibration.scale
        measured = factorization.strategy
        calibration = calibrate(measured, promise, noise=noise, allow_vacuous=True, near=near)
    return Mechanism(
        factorization,
        noise,
        factorization.sensitivity(noise),
        calibration.scale,
        calibration,
        math.inf,
        best.own_grid,
    )


def _problem(normalised: Workload, guarantee: Guarantee, design: Design) -> BoundProblem:
    """What bounds on the error are about."""
    return BoundProblem(
        workload=normalised,
        p=math.inf,
        guarantee=guarantee,
        shifts=None,
        norm_lower=design.certificate.lower,
        norm_upper=design.certificate.upper,
    )


def _with_noise(
    kind: Noise, design: Design, clock: Clock, search_time: float | None, *, needed: bool
) -> Iterator[Answer]:
    """What the strategy of least norm needs, and for Laplace noise what a search finds.

    Args:
        kind: of noise.
        design: of least norm.
        clock: with the guarantee.
        search_time: as for `least_budget`.
        needed: whether there is to be an answer, however little time there is.
    """
    after = clock.half_widths(design.strategy, kind)
    if after > BEYOND:
        clock.require_half_widths(after, kind)
    first = clock.in_time(design.strategy, kind, needed=needed)
    begun = [] if first is None else [*_needs(first, kind, clock)]
    yield from begun
    promise = clock.guarantee
    if kind is Noise.GAUSSIAN or design.status is Status.INTERRUPTED:
        return
    if isinstance(promise, OnPriors):
        # the best strategy depends on epsilon: search at the one that the first strategy needs
        if not begun:
            return
        promise = with_budget(promise, begun[0].budget)
    from pmldesign.designs.laplace.search import laplace_design

    searched = laplace_design(
        clock.normalised,
        promise,
        p=math.inf,
        starts=[design.strategy.once],
        effort=Effort.NORMAL if search_time is None else Effort.THOROUGH,
        time_limit=clock.left(search_time or (None if search_time is None else LEAST_TIME), after),
    )
    found = with_participation(searched.mechanism.strategy, design.strategy.participation)
    measured = clock.in_time(found, kind)
    if measured is not None:
        yield from _needs(measured, kind, clock)


def _rivals(queries: Workload, answers: Sequence[Answer], clock: Clock) -> Iterator[Answer]:
    """What baselines need with Laplace noise, or under PML, where no bound rules them out.

    A search goes by standard deviations: sums of several noises have narrower intervals than one of
    the same deviation.
    """
    guarantee = clock.guarantee
    relation = guarantee.neighbours
    kinds = {one.noise for one in answers if one.noise is Noise.LAPLACE or guarantee.pml}
    participation = answers[0].strategy.participation if answers else None
    for name in usual_baselines(queries) if kinds else ():
        with suppress(PmldesignError):
            require_quick(name, queries, guarantee, relation)
            rest, asked = clock.left(None), (queries, guarantee, relation)
            if rest is not None and row_seconds(name, *asked, None, math.inf, clock.level) > rest:
                continue
            strategy = with_participation(baseline(name, queries), participation)
            for kind in kinds:
                measured = clock.in_time(strategy, kind)
                if measured is not None:
                    yield from _needs(measured, kind, clock)


def _needs(strategy: Strategy, kind: Noise, clock: Clock) -> Iterator[Answer]:
    """What a strategy needs with one noise."""
    guarantee = clock.guarantee
    factorization = answer(strategy, clock.normalised, guarantee.neighbours)
    asked = strategy, factorization, guarantee, [kind], clock.level, clock.options.own_grid
    try:
        yield from needs(*asked)
    except VacuousGuaranteeError:
        if not strategy.by_diameter:
            raise
        raise InvalidInputError(
            "no budget below log(1/min alpha) meets the targets by the largest distance of two"
            " cells, and there is no time for all distances; allow more time, or larger targets"
        ) from None


def _on(strategy: Strategy, budget: LeastBudget) -> Factorization:
    """A strategy on the normalised queries, for the participation of the budget."""
    strategy = with_participation(strategy, budget.mechanism.strategy.participation)
    return answer(strategy, budget.normalised, budget.mechanism.neighbours)
