"""The pieces of work of a comparison, and what they have yielded so far.

In the first round every strategy is put on every workload: its pseudo-inverse and variances are
computed once, for all p and guarantees. In the second there is one design for every workload, p and
relation of neighbours, however many guarantees, and a search for each of them. What cannot be
compared is refused in the first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Literal

from pmldesign.comparison.parallel import Workers, run_all
from pmldesign.comparison.rows import OwnMechanism, Row, as_row
from pmldesign.designs.best_noise import improve, with_time
from pmldesign.designs.dispatch import solve
from pmldesign.designs.estimates import limit_of
from pmldesign.designs.options import LEAST_TIME, DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.rivals import require_quick
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.mechanisms import (
    NoiseChoice,
    admissible,
    calibrated,
    on_own_grid,
    require_feasible,
    smallest_error,
)
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy, baseline
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.solution import Status

DESIGN = "design"
LEAST_NORM = "least-norm"
DESIGNED = (DESIGN, LEAST_NORM)
"""Names that stand for what is found for the workload."""

Entry = str | Strategy | OwnMechanism
"""What a row is asked of."""
Rows = dict[tuple[int, float], Row]
"""By the index of the guarantee, and p."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every workload; small, as every process gets it.

    `leave_out` is about strategies that cannot answer a workload ("impossible") or that take long
    besides (True); otherwise they are an error.
    """

    values: tuple[float, ...]
    guarantees: tuple[Guarantee | None, ...]
    noise: NoiseChoice
    leave_out: bool | Literal["impossible"]
    search_time: float | None
    options: DesignOptions

    def relation(self, guarantee: Guarantee | None) -> Neighbours:
        """The neighbours that a guarantee speaks of."""
        return self.options.neighbours if guarantee is None else guarantee.neighbours

    def relations(self) -> dict[Neighbours, list[int]]:
        """The guarantees, by index, of every relation that one of them speaks of."""
        indices: dict[Neighbours, list[int]] = {}
        for index, guarantee in enumerate(self.guarantees):
            indices.setdefault(self.relation(guarantee), []).append(index)
        return indices

    def rows(self, name: str, factorization: Factorization, values: Sequence[float]) -> Rows:
        """One strategy at these p, under every guarantee of one relation."""
        rows: Rows = {}
        own_grid = self.options.own_grid
        for index in self.relations()[factorization.neighbours]:
            guarantee = self.guarantees[index]
            drawn = factorization.strategy.sampling is not None
            kinds = {p: admissible(guarantee, self.noise, p, sampled=drawn) for p in values}
            candidates = {
                kind: calibrated(factorization, guarantee, kind)
                for kind in dict.fromkeys(itertools.chain(*kinds.values()))
            }
            for p in values:
                noisy = [on_own_grid(candidates[kind], p, own_grid) for kind in kinds[p]]
                best = smallest_error(noisy, p)
                rows[index, p] = as_row(name, p, best)
        return rows

    def known(self, entry: Entry, workload: Workload) -> Rows | str:
        """The rows of a strategy that needs no design, or why it is left out."""
        try:
            if isinstance(entry, OwnMechanism):
                return self.own(entry, workload)
            if self.leave_out is True and isinstance(entry, str):
                for guarantee in self.guarantees:
                    require_quick(entry, workload, guarantee, self.relation(guarantee))
            strategy = (
                baseline(entry, workload, others=DESIGNED) if isinstance(entry, str) else entry
            )
            if self.options.schema is not None:
                strategy = with_participation(strategy, self.options.schema)
            factorizations = [answer(strategy, workload, relation) for relation in self.relations()]
        except InvalidInputError as error:
            if not self.leave_out:
                raise
            return str(error)
        rows: Rows = {}
        for factorization in factorizations:
            rows |= self.rows(strategy.name, factorization, self.values)
        return rows

    def own(self, entry: OwnMechanism, workload: Workload) -> Rows:
        """The rows of a mechanism that is not ours."""
        if self.options.schema is not None:
            raise InvalidInputError(f"{entry.name}: a mechanism of your own has no participation")
        return {
            (index, p): entry.row(workload, relation, self.guarantees[index], p)
            for relation, indices in self.relations().items()
            for index in indices
            for p in self.values
        }

    def designed(
        self,
        names: Sequence[str],
        rivals: Sequence[str],
        workload: Workload,
        p: float,
        relation: Neighbours,
    ) -> Designed:
        """The strategy of least norm at one p, and the rows of it and of the best mechanisms."""
        options = replace(self.options, neighbours=relation)
        guarantees = [self.guarantees[index] for index in self.relations()[relation]]
        times = [with_time(options, workload, asked, self.noise, p) for asked in guarantees]
        # that of least norm may be only a start, unless it has a row of its own
        own = LEAST_NORM not in names
        limited = [(timed, first)[own] for timed, first, _ in times]
        first = max(limited, key=lambda timed: limit_of(timed) or math.inf)
        design = solve(workload, p, first)
        interrupted = design.status is Status.INTERRUPTED
        rows: dict[str, Rows] = {name: {} for name in names}
        if LEAST_NORM in names:
            least = answer(design.strategy, workload, relation)
            rows[LEAST_NORM] = self.rows(LEAST_NORM, least, [p])
        if DESIGN in names:
            for index, (timed, _, coarse) in zip(self.relations()[relation], times, strict=True):
                measured = design.strategy.coarse() if coarse else design.strategy
                best = improve(
                    replace(design, strategy=measured),
                    timed,
                    guarantee=self.guarantees[index],
                    noise=self.noise,
                    search_time=LEAST_TIME if interrupted else self.search_time,
                    rivals=rivals,
                )
                interrupted |= best.interrupted
                rows[DESIGN][index, p] = as_row(DESIGN, p, best.mechanisms[best.best])
        return Designed(design, rows, interrupted)


@dataclass(frozen=True, slots=True)
class Designed:
    """What was found at one p: the strategy of least norm, rows by name, and if Ctrl-C came."""

    design: Design
    rows: dict[str, Rows]
    interrupted: bool


@dataclass(slots=True)
class Work:
    """What is done so far; workloads and strategies by index."""

    task: Task
    workloads: list[Workload]
    asked: list[Entry]
    announce: Callable[[str], None] | None
    rows: dict[tuple[int, int], Rows] = field(default_factory=dict)
    left_out: dict[tuple[int, int], str] = field(default_factory=dict)
    designs: dict[tuple[int, float, Neighbours], Design] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def names(self) -> list[str]:
        """Which of DESIGNED are asked for."""
        return [name for name in DESIGNED if name in self.asked]

    def do(self, workers: Workers) -> None:
        """Both rounds, or as much as Ctrl-C allows."""
        if self.names:
            everything = product(self.workloads, self.task.guarantees, self.task.values)
            for workload, guarantee, p in everything:
                require_feasible(guarantee, workload.shape[1], noise=self.task.noise, p=p)
        try:
            self._answer(workers)
            if self.names:
                self._design(workers)
        except KeyboardInterrupt:
            self.interrupted = True

    def _answer(self, workers: Workers) -> None:
        keys = [
            (w, s)
            for w in range(len(self.workloads))
            for s, entry in enumerate(self.asked)
            if not isinstance(entry, str) or entry not in DESIGNED
        ]
        tasks: list[Callable[[], Rows | str]] = [
            partial(self.task.known, self.asked[s], self.workloads[w]) for w, s in keys
        ]
        with closing(run_all(tasks, workers)) as results:
            for done, (index, outcome) in enumerate(results, start=1):
                w, s = keys[index]
                if isinstance(outcome, str):
                    self.left_out[w, s] = outcome
                else:
                    self.rows[w, s] = outcome
                self._say(f"strategy {done} of {len(keys)} is done")

    def _design(self, workers: Workers) -> None:
        relations = self.task.relations()
        keys = list(product(range(len(self.workloads)), self.task.values, relations))
        tasks = [
            partial(self.task.designed, self.names, self._rivals(w), self.workloads[w], p, relation)
            for w, p, relation in keys
        ]
        with closing(run_all(tasks, workers)) as results:
            for done, (index, designed) in enumerate(results, start=1):
                key = keys[index]
                self.designs[key] = replace(designed.design, workload=self.workloads[key[0]])
                for s, entry in enumerate(self.asked):
                    if isinstance(entry, str) and entry in DESIGNED:
                        earlier = self.rows.get((key[0], s), {})
                        self.rows[key[0], s] = earlier | designed.rows[entry]
                self._say(f"design {done} of {len(keys)} is done")
                if designed.interrupted:
                    self.interrupted = True
                    return

    def _rivals(self, w: int) -> list[str]:
        """The baselines that have a row for a workload."""
        return [
            entry
            for s, entry in enumerate(self.asked)
            if isinstance(entry, str) and entry not in DESIGNED and (w, s) not in self.left_out
        ]

    def _say(self, text: str) -> None:
        if self.announce is not None:
            self.announce(text)
