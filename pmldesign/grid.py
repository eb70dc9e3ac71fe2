"""The pieces of work of a comparison, and what they have yielded so far.

In the first round every strategy is put on every workload: its pseudo-inverse and variances are
computed once, for all p and guarantees. In the second there is one design for every workload, p and
relation of neighbours, however many guarantees. What cannot be compared is refused in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from pmldesign.answering import Answering, answer
from pmldesign.design import Design, design
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import (
    NoiseChoice,
    admissible,
    calibrated,
    require_feasible,
    smallest_error,
)
from pmldesign.neighbours import Neighbours
from pmldesign.parallel import run
from pmldesign.quick import require_quick
from pmldesign.rows import Row, as_row
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import Workload
from pmldesign_solvers.solution import Callback, Status

OPTIMAL = "optimal"

Rows = dict[tuple[int, float], Row]
"""By the index of the guarantee, and p."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every workload; small, as every process gets it."""

    values: tuple[float, ...]
    guarantees: tuple[Guarantee | None, ...]
    noise: NoiseChoice
    neighbours: Neighbours
    leave_out: bool
    limits: dict[str, Any]

    def relation(self, guarantee: Guarantee | None) -> Neighbours:
        """The neighbours that a guarantee speaks of."""
        return self.neighbours if guarantee is None else guarantee.neighbours

    def relations(self) -> dict[Neighbours, list[int]]:
        """The guarantees, by index, of every relation that one of them speaks of."""
        found: dict[Neighbours, list[int]] = {}
        for index, guarantee in enumerate(self.guarantees):
            found.setdefault(self.relation(guarantee), []).append(index)
        return found

    def rows(self, name: str, answering: Answering, values: Sequence[float]) -> Rows:
        """One strategy at these p, under every guarantee of one relation."""
        rows: Rows = {}
        for index in self.relations()[answering.neighbours]:
            guarantee = self.guarantees[index]
            kinds = admissible(guarantee, self.noise)
            made = [calibrated(answering, guarantee, kind) for kind in kinds]
            for p in values:
                rows[index, p] = as_row(name, p, smallest_error(made, p))
        return rows

    def known(self, entry: str | Strategy, workload: Workload) -> Rows | str:
        """The rows of a strategy that needs no design, or why it is left out."""
        try:
            if self.leave_out and isinstance(entry, str):
                for guarantee in self.guarantees:
                    require_quick(entry, workload, guarantee, self.relation(guarantee))
            strategy = baseline(entry, workload) if isinstance(entry, str) else entry
            answering = [answer(strategy, workload, relation) for relation in self.relations()]
        except InvalidInputError as error:
            if not self.leave_out:
                raise
            return str(error)
        rows: Rows = {}
        for one in answering:
            rows |= self.rows(strategy.name, one, self.values)
        return rows

    def designed(
        self, workload: Workload, p: float, relation: Neighbours, callback: Callback | None
    ) -> tuple[Design, Rows]:
        """The optimal strategy at one p, and its rows."""
        made = design(workload, p=p, neighbours=relation, callback=callback, **self.limits)
        return made, self.rows(OPTIMAL, answer(made.strategy, workload, relation), [p])


@dataclass(slots=True)
class Work:
    """What is done so far; workloads and strategies by index."""

    task: Task
    workloads: list[Workload]
    asked: list[str | Strategy]
    announce: Callable[[str], None] | None
    rows: dict[tuple[int, int], Rows] = field(default_factory=dict)
    left_out: dict[tuple[int, int], str] = field(default_factory=dict)
    designs: dict[tuple[int, float, Neighbours], Design] = field(default_factory=dict)
    interrupted: bool = False

    def do(self, jobs: int, callback: Callback | None) -> None:
        """Both rounds, or as much as Ctrl-C allows."""
        if OPTIMAL in self.asked:
            everything = product(self.workloads, self.task.guarantees, self.task.values)
            for workload, guarantee, p in everything:
                require_feasible(guarantee, workload.shape[1], noise=self.task.noise, p=p)
        try:
            self._answer(jobs)
            if OPTIMAL in self.asked:
                self._design(jobs, callback if jobs == 1 else None)
        except KeyboardInterrupt:
            self.interrupted = True

    def _answer(self, jobs: int) -> None:
        keys = [
            (w, s)
            for w in range(len(self.workloads))
            for s, entry in enumerate(self.asked)
            if entry != OPTIMAL
        ]
        tasks = [partial(self.task.known, self.asked[s], self.workloads[w]) for w, s in keys]
        with closing(run(tasks, jobs=jobs)) as results:
            for done, ((w, s), found) in enumerate(zip(keys, results, strict=True), start=1):
                if isinstance(found, str):
                    self.left_out[w, s] = found
                else:
                    self.rows[w, s] = found
                self._say(f"strategy {done} of {len(keys)} is done")

    def _design(self, jobs: int, callback: Callback | None) -> None:
        relations = self.task.relations()
        keys = list(product(range(len(self.workloads)), self.task.values, relations))
        tasks = [
            partial(self.task.designed, self.workloads[w], p, relation, callback)
            for w, p, relation in keys
        ]
        with closing(run(tasks, jobs=jobs)) as results:
            for done, (key, (made, found)) in enumerate(zip(keys, results, strict=True), start=1):
                self.designs[key] = replace(made, workload=self.workloads[key[0]])
                for s, entry in enumerate(self.asked):
                    if entry == OPTIMAL:
                        self.rows[key[0], s] = self.rows.get((key[0], s), {}) | found
                self._say(f"design {done} of {len(keys)} is done")
                if made.status is Status.INTERRUPTED:
                    self.interrupted = True
                    return

    def _say(self, text: str) -> None:
        if self.announce is not None:
            self.announce(text)
