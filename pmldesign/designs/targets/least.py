"""How much budget do these accuracies need? The least epsilon, rho or mu, and the strategy.

For Gaussian noise the question has a certified answer: the least standard deviation for targets c
is gamma_(inf)(diag(1/c) A), whose bounds become bounds on the budget (`budgets`). For Laplace noise
a search finds a good strategy, and the same norm bounds what any strategy needs; integer-valued
noise can need less, and is covered by the bounds for every mechanism.

The candidates are those of `flow`, on B = diag(1/c) A at p = inf: the strategy of least norm, what
a search finds for Laplace noise, and the baselines of A. Each of them is asked once for its least
budget; the design is the one that needs least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from pmldesign.arguments import positive
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.flow import least_norm
from pmldesign.designs.options import DesignArguments, DesignOptions, takes_options
from pmldesign.designs.questions import Question
from pmldesign.designs.results import Design
from pmldesign.designs.rows import DESIGN, LEAST_NORM
from pmldesign.designs.targets.accuracy import (
    PUBLISHED,
    Targets,
    as_targets,
    gaussian_quantile,
)
from pmldesign.designs.targets.budgets import (
    LEAST_BUDGET,
    Answer,
    budget_name,
    needed,
    none_at_all_below,
    none_below,
    with_budget,
)
from pmldesign.error_bounds.bound import ANY_SIZE, BoundProblem
from pmldesign.errors import InvalidInputError, PmldesignError
from pmldesign.factorization import answer, with_known
from pmldesign.mechanisms import Mechanism, NoiseChoice, admissible, require_cells
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import at_least, at_most
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy, as_strategy
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign.strategies.online import made_for
from pmldesign.strategies.participation.schema import has_fractions
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.workloads import Workload, WorkloadLike, as_workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.display import Displayed, Drawn, Facts
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Deadline

BUDGET_GAP = 1e-5
"""Of the bounds on the budget for Gaussian noise, by default."""
LEAST_GAP = 1e-9
"""Of the norm: rounding keeps bounds further apart than smaller ones."""
TRIES = 4
"""Times that the gap of the norm is narrowed until the budget has its gap."""
PUBLISHED_GAP = 4 * PUBLISHED / gaussian_quantile(0.5)
"""Of the bounds on the budget for half-widths: a budget is at most quadratic in the scale."""
EQUAL = "equal noise"
"""The queries themselves, each measured with the same noise."""


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """The least budget of a strategy for the targets.

    Attributes:
        name: of the strategy.
        noise: the kind that needs less.
        budget: epsilon, rho or mu, rounded up.
    """

    name: str
    noise: str
    budget: float


@dataclass(frozen=True, eq=False)
class TargetQuestion:
    """A question about accuracies: which budget does a candidate need?

    Attributes:
        workload: A.
        targets: c, the largest standard deviation, or half-width, of each query.
        question: about B = diag(1/c) A at p = inf; the budget of its guarantee does not count.
        baselines: of A, evaluated on B.
        deadline: of everything.
    """

    workload: Workload
    targets: Targets
    question: Question
    baselines: Baselines
    deadline: Deadline

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee whose budget is searched."""
        assert self.question.guarantee is not None
        return self.question.guarantee

    def needs(self, strategy: Strategy, kind: Noise) -> Answer:
        """The least budget of a strategy with one kind of noise.

        Raises:
            InvalidInputError: it cannot answer the queries.
            InfeasibleError, VacuousGuaranteeError: no budget is enough.
        """
        factorization = self.baselines.of(strategy)
        grid = self.question.integers
        return needed(factorization, self.guarantee, kind, self.targets.level, grid)

    def baseline(self, name: str) -> Answer:
        """The least budget of a baseline that is small enough to be evaluated unasked.

        Raises:
            InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `needs`.
        """
        self.baselines.require_small(name, self.guarantee)
        strategy = self.baselines.strategy(name)
        answers = [self.needs(strategy, kind) for kind in self.question.kinds]
        return min(answers, key=lambda found: found.budget)

    def gap(self, wanted: float) -> float:
        """How far apart bounds may be if a gap is wanted: published half-widths are rounded."""
        return wanted + (0.0 if self.targets.level is None else PUBLISHED_GAP)

    def problem(self, design: Design) -> BoundProblem:
        """The problem of the bounds on the error."""
        return BoundProblem(
            workload=self.question.workload,
            p=math.inf,
            guarantee=self.guarantee,
            shifts=None,
            norm_lower=design.certificate.lower,
            norm_upper=design.certificate.upper,
        )

    def lower(self, design: Design, noise: Noise) -> float:
        """A budget below which no noise of this kind on any strategy meets the targets."""
        level = self.targets.level
        return none_below(design.certificate.lower, self.problem(design), noise, level)


@dataclass(frozen=True, eq=False, repr=False)
class LeastBudget(Drawn, Displayed):
    """The least budget for some targets, and the mechanism that meets them with it.

    Attributes:
        asked: the question.
        design: the strategy of least norm for B at p = inf, with its certificate.
        answer: of the candidate that needs least, on B.
        origin: "least-norm", "laplace-search", or a baseline by name.
        mechanism: on A.
        at_least: no noise of this kind on any strategy does with less; no mechanism does, if the
            noise is integer-valued.
        known: answers of baselines that are computed so far.
    """

    asked: TargetQuestion
    design: Design
    answer: Answer
    origin: str
    mechanism: Mechanism
    at_least: float
    known: dict[str, Answer] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """A, given the invariants."""
        return self.asked.workload

    @property
    def targets(self) -> Targets:
        """The largest standard deviation, or half-width, of each query."""
        return self.asked.targets

    @property
    def strategy(self) -> Strategy:
        """R of the mechanism."""
        return self.mechanism.strategy

    @property
    def name(self) -> str:
        """Of the budget: "epsilon", "rho" or "mu"."""
        return budget_name(self.asked.guarantee)

    @property
    def enough(self) -> float:
        """The budget of the mechanism, which is private with it and meets every target."""
        return self.answer.budget

    @property
    def deadline(self) -> Deadline:
        """After which no further row is computed."""
        return self.asked.deadline

    @property
    def bounded(self) -> str:
        """The mechanisms that the lower bound is about."""
        if self.mechanism.own_grid:
            return ANY_SIZE
        return f"{self.mechanism.noise.value} noise on any strategy"

    @property
    def gap(self) -> float:
        """Enough / at_least - 1; inf if the lower bound is 0."""
        return self.enough / self.at_least - 1 if self.at_least > 0 else math.inf

    @property
    def tightest(self) -> float:
        """Largest standard deviation (or half-width) over its target: at most 1."""
        if self.mechanism.own_grid:
            return replace(self.mechanism, factorization=self.answer.factorization).max_std
        return self.mechanism.scale * self.answer.largest

    def budget_of(self, strategy: Any, noise: NoiseChoice = "auto") -> tuple[float, str]:
        """The budget that another strategy needs for these targets, and the noise that needs less.

        Raises:
            InvalidInputError: it cannot answer the queries.
            InfeasibleError, VacuousGuaranteeError: no budget does.
        """
        strategy = as_strategy(strategy, self.workload)
        kinds = admissible(self.asked.guarantee, noise)
        answers = [self.asked.needs(strategy, kind) for kind in kinds]
        best = min(answers, key=lambda found: found.budget)
        return best.budget, best.noise_name

    def row(self, name: str) -> BudgetRow:
        """The row of a baseline; EQUAL stands for the queries themselves.

        Raises:
            InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `budget_of`; or the
                baseline is too large.
        """
        called = "workload" if name == EQUAL else name
        if called not in self.known:
            self.known[called] = self.asked.baseline(called)
        found = self.known[called]
        return BudgetRow(name, found.noise_name, found.budget)

    @property
    def usual(self) -> tuple[str, ...]:
        """Names of the rows other than the design."""
        names = usual_baselines(self.workload)
        return EQUAL, *(name for name in names if name != "workload")

    def table(self, rows: list[BudgetRow]) -> list[BudgetRow]:
        """The design, then these rows by their budgets."""
        design = BudgetRow(DESIGN, self.mechanism.noise_name, self.enough)
        return [design, *sorted(rows, key=lambda row: row.budget)]

    def _display(self) -> tuple[str, Facts]:
        title = f"{self.name} for {self.workload.name!r}: {at_least(self.enough, 10)} is enough"
        return title, [
            ("targets", self.targets.describe()),
            (f"{self.bounded} needs", at_most(self.at_least, 10)),
        ]


@takes_options
def least_budget(
    workload: WorkloadLike,
    guarantee: Guarantee,
    *,
    targets: float | Sequence[float] | np.ndarray[Any, Any] | Targets,
    noise: NoiseChoice = "auto",
    budget_gap: float = BUDGET_GAP,
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> LeastBudget:
    """The least budget at which every query meets its target, and the mechanism that does.

    Args:
        workload: A, shape (m, n): a Workload, a name such as "prefix:64", or a matrix.
        guarantee: the promise; its epsilon, rho or mu is searched, and the one that it has does not
            count. ApproxDP(1, 1e-6) asks for the epsilon at delta 1e-6.
        targets: the largest standard deviation of a query: one number, one for each query, or
            `Targets`, also of half-widths of intervals: Targets(10, level=0.95).
        noise: "gaussian", "laplace", "integer-laplace", or "auto" for the one that needs less.
        budget_gap: for Gaussian noise, stop when both bounds on the budget are this close.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        **options: of the design, see `DesignOptions`; the time limit is for everything.

    Returns:
        The budget, both bounds rounded to the safe side, and the mechanism.

    Raises:
        InvalidInputError: an argument out of range.
        InfeasibleError: no noise that is asked for can satisfy such a guarantee.
        VacuousGuaranteeError: only a guarantee that protects no one would be enough.
    """
    require_guarantee(guarantee)
    budget_gap = positive("budget_gap", budget_gap)
    options.setdefault("rel_gap", 0.7 * budget_gap)
    asked = _asked(workload, targets, guarantee, noise, known, options)
    design, certified = _certified(asked, budget_gap)
    answers: dict[tuple[str, Noise], Answer] = {}
    refusal: PmldesignError | None = None
    for kind in asked.question.kinds:
        try:
            for name, found in _of_designs(asked, design, kind, certified):
                answers[name, kind] = found
        except PmldesignError as error:
            refusal = error
    baselines: dict[str, Answer] = {}
    proved = asked.question.kinds == (Noise.GAUSSIAN,) and not asked.guarantee.pml
    if not proved and design.status is not Status.INTERRUPTED:
        baselines = dict(_of_baselines(asked))
    candidates = [(name, found) for (name, _), found in answers.items()]
    candidates += baselines.items()
    if not candidates:
        raise refusal or InvalidInputError("no noise satisfies such a guarantee")
    origin, best = min(candidates, key=lambda pair: pair[1].budget)
    return LeastBudget(
        asked,
        design,
        best,
        origin,
        _mechanism_of(best, asked.workload),
        _at_least(asked, design, best),
        baselines,
    )


def _asked(
    workload: Any,
    targets: Any,
    guarantee: Guarantee,
    noise: NoiseChoice,
    known: WorkloadLike | None,
    options: DesignArguments,
) -> TargetQuestion:
    """The question, validated before the first solve."""
    plain = as_workload(workload)
    checked = as_targets(targets, plain)
    queries, promise = with_known(plain, guarantee, known)
    assert promise is not None
    if isinstance(noise, str) and noise == "cube":
        raise InvalidInputError(
            "targets are for Gaussian and Laplace noise; use `noise='gaussian'` or"
            " `noise='laplace'`"
        )
    normalised = given_invariants(checked.normalised(plain), queries.public)
    limits = DesignOptions.of({**options, "neighbours": promise.neighbours}).about(queries)
    require_cells(promise, fractions=has_fractions(queries))
    small = with_budget(promise, LEAST_BUDGET)
    question = Question(normalised, math.inf, small, noise, limits)
    limits = question.options
    baselines = Baselines(queries, question.relation, limits.schema, answered=normalised)
    return TargetQuestion(queries, checked, question, baselines, Deadline.of(limits.time_limit))


def _certified(asked: TargetQuestion, budget_gap: float) -> tuple[Design, Answer | None]:
    """The strategy of least norm, close enough for the gap of the budget.

    Returns:
        The design, and the budget that it needs with Gaussian noise if that was compared with the
        bound; else None.
    """
    question, guarantee = asked.question, asked.guarantee
    compared = not isinstance(guarantee, OnPriors) and guarantee.admits(Noise.GAUSSIAN)
    gap = question.options.rel_gap
    for _ in range(TRIES):
        narrowed = replace(question, options=replace(question.options, rel_gap=gap))
        design = least_norm(narrowed, asked.deadline, start_only=False)
        if design.status is Status.INTERRUPTED or not compared:
            return design, None
        found = asked.needs(design.strategy, Noise.GAUSSIAN)
        lower = asked.lower(design, Noise.GAUSSIAN)
        reached = found.budget / lower - 1 if lower > 0 else math.inf
        if reached <= asked.gap(budget_gap) or gap <= LEAST_GAP or design.certificate.gap > gap:
            break
        gap = max(LEAST_GAP, gap * min(0.1, budget_gap / reached / 4))
    return design, found


def _of_designs(
    asked: TargetQuestion, design: Design, kind: Noise, certified: Answer | None
) -> Iterator[tuple[str, Answer]]:
    """The budget of the strategy of least norm, and for Laplace noise of the search results.

    Args:
        asked: the question.
        design: of least norm.
        kind: of noise.
        certified: the budget of the design with Gaussian noise, if it is known already.
    """
    if kind is Noise.GAUSSIAN:
        yield LEAST_NORM, certified or asked.needs(design.strategy, kind)
        return
    first = asked.needs(design.strategy, kind)
    yield LEAST_NORM, first
    late = asked.deadline.over() and Noise.GAUSSIAN in asked.question.kinds
    if design.status is Status.INTERRUPTED or late:
        return
    promise = asked.guarantee
    if isinstance(promise, OnPriors):
        # the best strategy depends on epsilon: search at the one that the first strategy needs
        promise = with_budget(promise, first.budget)
    from pmldesign.designs.laplace.search import laplace_design

    options = asked.question.options
    searched = laplace_design(
        asked.question.workload,
        promise,
        p=math.inf,
        starts=[without_participation(design.strategy)],
        effort=options.effort,
        time_limit=asked.deadline,
        callback=options.callback,
    )
    yield "laplace-search", asked.needs(searched.mechanism.strategy, kind)


def _of_baselines(asked: TargetQuestion) -> Iterator[tuple[str, Answer]]:
    """The budgets of the usual baselines, as long as there is time."""
    for name in usual_baselines(asked.workload):
        if asked.deadline.over():
            return
        with suppress(PmldesignError):
            yield name, asked.baseline(name)


def _at_least(asked: TargetQuestion, design: Design, best: Answer) -> float:
    """The bound for noise of its kind, or for every mechanism, at most its budget."""
    if best.own_grid:
        return none_at_all_below(asked.problem(design), best.budget)
    return min(asked.lower(design, best.noise), best.budget)


def _mechanism_of(best: Answer, queries: Workload) -> Mechanism:
    """The mechanism on the queries themselves, which a stream answers as well."""
    measured = best.factorization.strategy
    strategy, noise, calibration = made_for(measured, queries), best.noise, best.calibration
    factorization = answer(strategy, queries, best.factorization.neighbours)
    if strategy is not measured:  # by rounding other noise
        promise, near = calibration.guarantee, calibration.scale
        calibration = calibrate(
            factorization.strategy, promise, noise=noise, allow_vacuous=True, near=near
        )
    return Mechanism(
        factorization,
        noise,
        factorization.sensitivity(noise),
        calibration.scale,
        calibration,
        math.inf,
        best.own_grid,
    )
