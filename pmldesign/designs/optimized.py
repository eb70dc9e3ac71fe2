"""The result of a question: the rows of its candidates, the certificate, and the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pmldesign.designs.results import Design, Searched
from pmldesign.designs.rows import DESIGN, LEAST_NORM, Row, ranked, row_of
from pmldesign.error_bounds import Bound, Bounds, all_bounds
from pmldesign.errors import PmldesignError
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import shortest
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign.workloads.display import Displayed, Drawn, Facts, data_frame
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.operators.deadline import NEVER, Deadline

if TYPE_CHECKING:
    from pmldesign.designs.baselines import Baselines
    from pmldesign.designs.questions import Question


@dataclass(frozen=True, eq=False, repr=False)
class Optimized(Drawn, Displayed):
    """The best mechanism that was found for a question, and the rows of all candidates.

    Attributes:
        question: the question that was answered.
        design: the strategy of least norm, with its certificate.
        searches: the results of searches, by the noise that they were for.
        candidates: rows of the strategy of least norm, of searches that gained on it, and of a
            baseline that is better than both; the best one first.
        interrupted: whether Ctrl-C ended any part of the work, even one that found nothing better.
        deadline: after which no further row is computed.
        known: rows of baselines that are computed so far.
    """

    question: Question
    design: Design
    searches: Mapping[Noise, Searched]
    candidates: tuple[Row, ...]
    baselines: Baselines
    interrupted: bool = False
    deadline: Deadline = NEVER
    known: dict[str, Row] = field(default_factory=dict)

    @property
    def best(self) -> Mechanism:
        """The mechanism with the smallest error at p."""
        mechanism = self.candidates[0].mechanism
        assert mechanism is not None
        return mechanism

    @property
    def origin(self) -> str:
        """Where the best mechanism comes from: "least-norm", a search, or a baseline by name."""
        return self.candidates[0].strategy

    @property
    def stored(self) -> Design | Mechanism:
        """What a file holds: the strategy of least norm with its certificate, or the best one."""
        return self.design if self.origin == LEAST_NORM else self.best

    @property
    def guarantee(self) -> Guarantee | None:
        """The promise of every row; None for noise of a scale equal to the sensitivity."""
        return self.question.guarantee

    @property
    def strategy(self) -> Strategy:
        """R of the best mechanism."""
        return self.best.strategy

    def to_frame(self) -> Any:
        """A data frame of all rows: of pandas if it is installed, else of polars.

        Raises:
            InvalidInputError: neither is installed.
        """
        return data_frame(row.to_record() for row in self.rows)

    @property
    def certificate(self) -> Certificate:
        """Both bounds on the factorization norm; the strategy of least norm attains the upper."""
        return self.design.certificate

    @property
    def rows(self) -> tuple[Row, ...]:
        """The best row, called "design", then the other candidates by their errors.

        Rows of the usual baselines are computed when they are asked for, those that are too large
        or cannot answer the workload excepted.
        """
        names = usual_baselines(self.question.workload)
        return self.table(filter(None, map(self._row_or_none, names)))

    def table(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """The best row, called "design", then the other candidates and these rows by error."""
        best, *others = self.candidates
        return ranked(replace(best, strategy=DESIGN), [*others, *rows])

    def row(self, name: str) -> Row:
        """The row of a baseline, computed once.

        Raises:
            InvalidInputError: the name is unknown, or the baseline cannot answer the workload.
            InfeasibleError, VacuousGuaranteeError: as `mechanism`.
        """
        if name not in self.known:
            self.known[name] = row_of(name, self.baselines.factorization(name), self.question)
        return self.known[name]

    def small_row(self, name: str) -> Row:
        """The row of a baseline that is small enough to be computed unasked.

        Raises:
            InvalidInputError: it is too large, or as `row`.
        """
        if name not in self.known:
            self.baselines.require_small(name, self.guarantee)
        return self.row(name)

    def _row_or_none(self, name: str) -> Row | None:
        with suppress(PmldesignError):
            return None if self.deadline.over() else self.small_row(name)
        return None

    @cached_property
    def bound(self) -> Bound | None:
        """The largest lower bound for every mechanism; None without one, or if steps are drawn."""
        if self.guarantee is None or self.design.strategy.sampling is not None:
            return None
        listed = all_bounds(
            self.design.workload,
            norm_lower=self.certificate.lower,
            norm_upper=self.certificate.upper,
            p=self.question.p,
            guarantee=self.guarantee,
            norm_alone=bool(self.guarantee.public_answers),
        )
        return Bounds(listed).best

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def _display(self) -> tuple[str, Facts]:
        p = shortest(self.question.p)
        title = f"Design for {self.question.workload.name!r} of smallest err_{p}"
        facts = [
            (f"{row.strategy} with {row.noise} noise", f"{row.error:.6g}")
            for row in self.candidates
        ]
        promise = "no guarantee" if self.guarantee is None else repr(self.guarantee)
        return title, [*facts, ("for", promise)]
