"""The searches from the strategy of least norm that a question calls for, by kind of noise.

    Gaussian    under PML with a delta: the scale depends on all distances of cells
    cube        if there are few queries
    Laplace     unless a search would need matrices of very many cells, or a plain strategy has the
                least error that a certified norm allows any strategy with Laplace noise

With bounded contributions a search assumes one row per person, and the strategy found gets the
noise for several rows.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pmldesign.designs.baselines import Baselines
from pmldesign.designs.questions import Question
from pmldesign.designs.results import Design, Searched
from pmldesign.designs.rows import CLOSE
from pmldesign.errors import InvalidInputError, PmldesignError
from pmldesign.factorization import Factorization, answer
from pmldesign.mechanisms import Mechanism, calibrated
from pmldesign.privacy.guarantees import PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy
from pmldesign.strategies.online import buffers_of
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Deadline, Effort, Work


@dataclass(eq=False)
class Searches:
    """The searches of one question, one after the other.

    Attributes:
        question: the question to answer.
        design: the strategy of least norm, where all of them begin.
        baselines: of the workload.
        deadline: of everything.
        found: the result of each search.
        kinds: of noise to try on the strategy of least norm itself: a search begins there, and
            finds nothing worse for its noise.
    """

    question: Question
    design: Design
    baselines: Baselines
    deadline: Deadline
    found: dict[Noise, Searched] = field(default_factory=dict)
    kinds: tuple[Noise, ...] = ()

    def __post_init__(self) -> None:
        self.kinds = self.question.kinds
        if self.large:
            self._leave_to_search()

    def run(self) -> dict[Noise, Searched]:
        """All searches, until Ctrl-C comes."""
        for noise, search in (
            (Noise.GAUSSIAN, self._gaussian),
            (Noise.CUBE, self._cube),
            (Noise.LAPLACE, self._laplace),
        ):
            if self.interrupted or self.question.streaming:
                break
            with self.deadline.catching():  # between its steps; earlier results are kept
                result = search()
                if result is not None:
                    self.found[noise] = result
        return self.found

    def _leave_to_search(self) -> None:
        """Try only Gaussian noise on the strategy of least norm, if it is admissible."""
        if Noise.GAUSSIAN in self.kinds:
            self.kinds = (Noise.GAUSSIAN,)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended a search, or the design."""
        statuses = [self.design.status, *(searched.status for searched in self.found.values())]
        return self.deadline.interrupted or Status.INTERRUPTED in statuses

    @property
    def large(self) -> bool:
        """Whether a search would form matrices of very many cells, or of patterns of steps."""
        streamed = buffers_of(self.design.strategy) is not None
        long = streamed and self.design.workload.shape[1] > WRITTEN_CELLS
        return long or self.question.repeated or self.question.options.buffers is not None

    def _gaussian(self) -> Searched | None:
        """The descent under PML, where the scale depends on more than the largest distance."""
        guarantee = self.question.guarantee
        if (
            not isinstance(guarantee, OnPriors)
            or Noise.GAUSSIAN not in self.question.kinds
            or self.design.strategy.distance_profile("l2") is not None
        ):
            return None
        from pmldesign.designs.gaussian_pml_search import gaussian_design

        self._leave_to_search()
        return gaussian_design(self.design, guarantee, baselines=self.baselines, **self._limits)

    def _cube(self) -> Searched | None:
        """The search for cube noise; None if there are many queries, unless it is asked for."""
        question, guarantee = self.question, self.question.guarantee
        asked = question.noise == "cube"
        tried = question.noise == "auto" and guarantee is not None and guarantee.admits(Noise.CUBE)
        if self.large or not (asked or tried):
            return None
        from pmldesign.designs.cubes import cube_design, is_small

        small = is_small(question.workload) and Noise.CUBE.has_error(question.p)
        if not (asked or small):
            return None
        searched = cube_design(
            question.workload,
            guarantee,
            question.p,
            question.relation,
            starts=self._starts if small else (),
            seed=question.seed,
            work=Work(Effort(question.options.effort).work / 4, self.deadline),
            callback=question.options.callback,
        )
        return self._with_noise(searched, Noise.CUBE) if question.options.schema else searched

    def _laplace(self) -> Searched | None:
        """The search for Laplace noise; None if it finds no strategy with an error.

        Raises:
            InvalidInputError: it finds none, and no other noise is admissible.
        """
        question, gaussian = self.question, Noise.GAUSSIAN in self.question.kinds
        if Noise.LAPLACE not in question.kinds or (self.large and gaussian):
            return None
        if self._laplace_settled():
            return None
        from pmldesign.designs.laplace.search import laplace_design

        self._leave_to_search()
        promise = question.guarantee or PureDP(1.0, question.relation)
        if question.guarantee is None and question.workload.public:
            promise = promise.beside(question.workload.public)
        try:
            searched = laplace_design(
                question.workload,
                promise,
                p=question.p,
                starts=self._starts,
                seed=question.seed,
                baselines=self.baselines,
                **self._limits,
            )
            if question.guarantee is None or self.design.strategy.participation is not None:
                return self._with_noise(searched, Noise.LAPLACE)
        except InvalidInputError:
            if not gaussian:
                raise
            return None
        return searched

    def _laplace_settled(self) -> bool:
        """Whether Laplace noise on a plain strategy has the least error of all strategies.

        At p = 2 and p = inf that is the norm times the ratio of the l1 and the l2 sensitivity, and
        at least the norm for every strategy (`with_bounds`).
        """
        guarantee, p = self.question.guarantee, self.question.p
        if not isinstance(guarantee, PureDP | None) or p not in (2.0, math.inf):
            return False
        least = self.design.certificate.lower * (1 + CLOSE)
        with suppress(PmldesignError):
            if _laplace_norm(self.baselines.of(self.design.strategy), p) <= least:
                return True
        with suppress(PmldesignError):
            self.baselines.require_small("identity", guarantee)
            return _laplace_norm(self.baselines.factorization("identity"), p) <= least
        return False

    @property
    def _limits(self) -> dict[str, Any]:
        """How much work a search does, when it stops, and who watches it."""
        options = self.question.options
        return {
            "effort": options.effort,
            "time_limit": self.deadline,
            "callback": options.callback,
        }

    @property
    def _starts(self) -> list[Strategy]:
        """The strategy of least norm, and one of the caller, for one participation."""
        starts, start = [self.design.strategy], self.question.options.start
        if start is not None:
            starts.append(answer(start, self.question.workload, self.question.relation).strategy)
        return [without_participation(strategy) for strategy in starts]

    def _with_noise(self, searched: Searched, noise: Noise) -> Searched:
        """The result of a search, with the noise for the requested participation.

        If that takes a matrix that is too large, the identity.
        """
        found = searched.mechanism.strategy
        try:
            return replace(searched, mechanism=self._noisy(found, noise))
        except InvalidInputError:
            if found.shape[1] <= WRITTEN_CELLS:
                raise
            return replace(
                searched, mechanism=self._noisy(self.baselines.strategy("identity"), noise)
            )

    def _noisy(self, strategy: Strategy, noise: Noise) -> Mechanism:
        factorization = self.baselines.of(strategy)
        noisy = calibrated(factorization, self.question.guarantee, noise)
        return replace(noisy, p=self.question.p)


def _laplace_norm(factorization: Factorization, p: float) -> float:
    """The norm of a factorization with the l1 sensitivity instead of the l2 sensitivity."""
    l1, l2 = (factorization.sensitivity(noise) for noise in (Noise.LAPLACE, Noise.GAUSSIAN))
    return factorization.norm(p) * l1 / l2
