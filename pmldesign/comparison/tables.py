"""The rows of one workload at one p, for all guarantees of one relation of neighbours.

They share the strategy of least norm and its certificate, so they are computed together, in one
process: first the rows of strategies that are given or named, so that strategies that cannot be
compared are refused before a solver runs, then those of designs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pmldesign.comparison.own import OwnMechanism
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.flow import ask, least_norm
from pmldesign.designs.questions import Question
from pmldesign.designs.results import Design
from pmldesign.designs.rows import DESIGN, LEAST_NORM, Row, row_of, with_bounds, with_ratios
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Deadline

DESIGNED = (DESIGN, LEAST_NORM)
"""Names that stand for strategies designed for the workload."""

Entry = str | Strategy | OwnMechanism
"""What a row is about: a name, a strategy, or a mechanism of the caller."""


@dataclass(slots=True, eq=False)
class Filled:
    """The rows of a table that are computed so far.

    Attributes:
        rows: by the index of the question and of the entry.
        left_out: why entries have no rows, by their index.
        design: the strategy of least norm; None if no entry needs it.
        interrupted: whether Ctrl-C ended a design or a search.
    """

    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    design: Design | None = None
    interrupted: bool = False

    def group(self, index: int, entries: int, workload: Workload) -> tuple[Row, ...]:
        """The rows of one question with ratios and bounds; none if one of them is missing.

        Args:
            index: of the question.
            entries: how many are asked for.
            workload: of the question.
        """
        present = [s for s in range(entries) if s not in self.left_out]
        rows = [self.rows[index, s] for s in present if (index, s) in self.rows]
        if not rows or len(rows) < len(present):
            return ()
        if self.design is not None:
            rows = [*with_bounds(rows, workload, self.design.certificate)]
        return with_ratios(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows to be computed; calling it does so.

    Attributes:
        questions: that differ in the guarantee only, which all have the same neighbours.
        entries: the subjects of the rows.
        baselines: of the workload, shared with the tables of other p in the same process.
        leave_out: whether an entry that cannot answer the workload is left out; otherwise it is an
            error.
        limited: whether baselines that are too large to be shown unasked are left out as well.
        last: whether this is the last table that uses the baselines.
    """

    questions: tuple[Question, ...]
    entries: tuple[Entry, ...]
    baselines: Baselines
    leave_out: bool = False
    limited: bool = False
    last: bool = True

    def __call__(self) -> Filled:
        """The rows, or as many as Ctrl-C allows."""
        filled = Filled()
        for s, entry in enumerate(self.entries):
            if isinstance(entry, str) and entry in DESIGNED:
                continue
            try:
                for g, row in enumerate(self._rows(entry)):
                    filled.rows[g, s] = row
            except InvalidInputError as error:
                if not self.leave_out:
                    raise
                filled.left_out[s] = str(error)
                filled.rows = {key: row for key, row in filled.rows.items() if key[1] != s}
        if any(name in self.entries for name in DESIGNED):
            self._design(filled)
        if self.last:
            self.baselines.clear()
        filled.rows = {key: replace(row, mechanism=None) for key, row in filled.rows.items()}
        return filled

    def _rows(self, entry: Entry) -> list[Row]:
        """The rows of an entry that needs no design, under every guarantee.

        Raises:
            InvalidInputError: it cannot answer the workload, or is too large.
        """
        if isinstance(entry, OwnMechanism):
            return [entry.row(question) for question in self.questions]
        if isinstance(entry, str):
            for question in self.questions if self.limited else ():
                self.baselines.require_small(entry, question.guarantee)
            name, factorization = entry, self.baselines.factorization(entry)
        else:
            name, factorization = entry.name, self.baselines.of(entry)
        return [row_of(name, factorization, question) for question in self.questions]

    def _design(self, filled: Filled) -> None:
        """The strategy of least norm, and the rows of it and of the best mechanisms."""
        first = self.questions[0]
        start_only = LEAST_NORM not in self.entries
        deadline = Deadline.of(first.options.time_limit)
        filled.design = design = least_norm(first, deadline, start_only=start_only)
        for g, question in enumerate(self.questions):
            for s, entry in enumerate(self.entries):
                if entry == LEAST_NORM:
                    factorization = self.baselines.of(design.strategy)
                    filled.rows[g, s] = row_of(LEAST_NORM, factorization, question)
                elif entry == DESIGN:
                    if filled.interrupted and design.status is not Status.INTERRUPTED:
                        return
                    rows = {
                        name: filled.rows[g, k]
                        for k, name in enumerate(self.entries)
                        if isinstance(name, str) and name not in DESIGNED and (g, k) in filled.rows
                    }
                    result = ask(question, rows=rows, design=design, baselines=self.baselines)
                    filled.rows[g, s] = replace(result.candidates[0], strategy=DESIGN)
                    filled.interrupted |= result.interrupted
        filled.interrupted |= design.status is Status.INTERRUPTED
