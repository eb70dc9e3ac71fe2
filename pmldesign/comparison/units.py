"""A unit of a sweep: the rows of one workload, one p and one relation of neighbours.

They share the certified norm, from which the strategies, the ratios and the bounds of all of them
follow, so they are computed together, in one process, with one thread: then they are the same
wherever that is. A row that cannot be computed has the reason in its status.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pmldesign._version import FORMAT, version
from pmldesign.comparison.tables import DESIGNED, Filled, Table
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.questions import Question
from pmldesign.designs.rows import BOUNDS, SHOWN, UNWEIGHTED, Row
from pmldesign.errors import PmldesignError
from pmldesign.mechanisms import NoiseChoice
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload, as_workload
from pmldesign_solvers.norm.solution import Status

DONE = "done"
"""The status of a row that has all its numbers."""
FINISHED = (Status.OPTIMAL, Status.SEARCHED)
"""How a norm ends that no limit cut short."""
STOPPED = tuple(status.name.lower() for status in Status if status not in FINISHED)
"""The status of a row whose norm was not found to the gap that was asked for."""

TEXTS = (
    "workload", "weights", "participation", "kind", "alpha_file", "failure", "neighbours",
    "strategy", "noise", "status", "unit",
)  # fmt: skip
COUNTS = ("queries", "cells")
ROW_NUMBERS = (*SHOWN[2:], *BOUNDS, *UNWEIGHTED)
COLUMNS = (
    "workload", "queries", "cells", "weights", "participation", "p", "kind", "epsilon", "delta",
    "alpha", "alpha_file", "rho", "mu", "order", "failure", "neighbours", "strategy", "noise",
    *ROW_NUMBERS, "norm_lower", "norm_upper", "status", "seconds", "unit",
)  # fmt: skip
"""Columns of a row: the question, the answer, and the status of the computation."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A guarantee that a study asks for.

    Attributes:
        guarantee: None for a scale equal to the sensitivity.
        alpha_file: name of the file of its alpha; empty without.
    """

    guarantee: Guarantee | None
    alpha_file: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings common to all rows; the attributes are those of `compare_all`.

    A limit of time makes rows depend on the speed of the machine: without one they do not.
    """

    noise: NoiseChoice = "auto"
    options: DesignOptions = field(default_factory=DesignOptions)


@dataclass(frozen=True, slots=True)
class StudiedWorkload:
    """A workload that a study asks about.

    Attributes:
        value: a name, or a workload.
        told: text that identifies the workload.
        weights: name of its weights; empty without.
    """

    value: str | Workload
    told: str
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows to be computed; calling it does so.

    Attributes:
        workload: the queries.
        p: of the error.
        guarantees: all of one relation of neighbours.
        strategies: names, or strategies, each with the text that identifies it.
        settings: of the study.
        key: identifies all of this, and the version of pmldesign, in 16 digits.
    """

    workload: StudiedWorkload
    p: float
    guarantees: tuple[Demand, ...]
    strategies: tuple[tuple[str | Strategy, str], ...]
    settings: Settings
    key: str = field(init=False)

    def __post_init__(self) -> None:
        told = (
            (FORMAT, version("pmldesign")),
            self.workload.told,
            self.p,
            [
                (demand.guarantee and demand.guarantee.to_json(), demand.alpha_file)
                for demand in self.guarantees
            ],
            [text for _, text in self.strategies],
            self.settings,
        )
        object.__setattr__(self, "key", hashlib.sha256(repr(told).encode()).hexdigest()[:16])

    @property
    def size(self) -> int:
        """How many rows it has."""
        return len(self.guarantees) * len(self.strategies)

    def __call__(self) -> list[dict[str, Any]] | None:
        """The rows, guarantee by guarantee; None if Ctrl-C came."""
        from threadpoolctl import threadpool_limits

        start = time.perf_counter()
        with threadpool_limits(limits=1):
            try:
                rows = self._rows()
            except KeyboardInterrupt:
                return None
            except Exception as error:  # one setting must not end a study of thousands
                rows = self._refused(_reason(error))
        if rows is None:
            return None
        seconds = round((time.perf_counter() - start) / self.size, 3)
        return [row | {"seconds": seconds, "unit": self.key} for row in rows]

    def _rows(self) -> list[dict[str, Any]] | None:
        workload = as_workload(self.workload.value)
        questions: dict[Demand, Question] = {}
        refusals: dict[Demand, str] = {}
        for demand in self.guarantees:
            try:
                questions[demand] = self._question(workload, demand)
            except PmldesignError as error:
                refusals[demand] = _reason(error)
        asked = tuple(questions.values())
        filled = Filled()
        if asked:
            baselines = Baselines(workload, asked[0].relation, asked[0].options.schema)
            entries = tuple(strategy for strategy, _ in self.strategies)
            filled = Table(asked, entries, baselines, leave_out=True)()
        if filled.interrupted:
            return None
        rows: list[dict[str, Any]] = []
        for demand in self.guarantees:
            if demand in refusals:
                reasons = [refusals[demand]] * len(self.strategies)
                rows += self._records(demand, workload, [None] * len(reasons), reasons, {})
            else:
                rows += self._done(filled, workload, demand, [*questions].index(demand))
        return rows

    def _question(self, workload: Workload, demand: Demand) -> Question:
        settings = self.settings
        return Question(workload, self.p, demand.guarantee, settings.noise, settings.options)

    def _done(
        self, filled: Filled, workload: Workload, demand: Demand, index: int
    ) -> list[dict[str, Any]]:
        """The rows of one guarantee, those that could not be computed with the reason."""
        count = len(self.strategies)
        present = [s for s in range(count) if s not in filled.left_out]
        reasons = [filled.left_out.get(s, DONE) for s in range(count)]
        rows: list[Row | None] = [None] * count
        for s, row in zip(present, filled.group(index, count, workload), strict=True):
            rows[s] = row
        norms: dict[str, Any] = {}
        design = filled.design
        if design is not None:
            norms = {"norm_lower": design.certificate.lower, "norm_upper": design.certificate.upper}
            for s in present:
                if self.strategies[s][0] in DESIGNED and design.status not in FINISHED:
                    reasons[s] = design.status.name.lower()
        return self._records(demand, workload, rows, reasons, norms)

    def _records(
        self,
        demand: Demand,
        workload: Workload | None,
        rows: Sequence[Row | None],
        reasons: Sequence[str],
        norms: dict[str, Any],
    ) -> list[dict[str, Any]]:
        value, schema = self.workload.value, self.settings.options.schema
        name = value if isinstance(value, str) else value.name
        m, n = (None, None) if workload is None else workload.shape
        promise: dict[str, Any] = {"neighbours": self.settings.options.neighbours.value}
        if demand.guarantee is not None:
            promise = demand.guarantee.to_json()
        if demand.alpha_file:
            promise |= {"alpha": None, "alpha_file": demand.alpha_file}
        return [
            dict.fromkeys(COLUMNS)
            | {"workload": name, "queries": m, "cells": n, "p": self.p}
            | {"weights": self.workload.weights, "participation": str(schema or "")}
            | promise
            | {"strategy": strategy if isinstance(strategy, str) else strategy.name}
            | ({} if row is None else _numbers(row))
            | norms
            | {"status": reason}
            for (strategy, _), row, reason in zip(self.strategies, rows, reasons, strict=True)
        ]

    def _refused(self, reason: str) -> list[dict[str, Any]]:
        count = len(self.strategies)
        return [
            record
            for demand in self.guarantees
            for record in self._records(demand, None, [None] * count, [reason] * count, {})
        ]


def _numbers(row: Row) -> dict[str, Any]:
    return {"noise": row.noise} | {name: getattr(row, name) for name in ROW_NUMBERS}


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PmldesignError) else f"{type(error).__name__}: {text}"
