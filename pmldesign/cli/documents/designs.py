"""The document of `pmldesign optimize`: the design first, then the comparison."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmldesign.cli.documents import parts
from pmldesign.cli.documents.comparison import table_of
from pmldesign.cli.documents.document import Document, Fact, Section
from pmldesign.cli.documents.parts import Said
from pmldesign.designs.optimized import Optimized
from pmldesign.designs.results import Design
from pmldesign.designs.rows import Row
from pmldesign.error_bounds import Bound
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import shortest
from pmldesign.strategies.online import buffers_of
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.workloads.running import lists_queries
from pmldesign_solvers.norm.solution import Status

if TYPE_CHECKING:
    from pmldesign.mechanisms.maxima import ExpectedMaximum

_STOPPED = {
    Status.COMPLETED: "",
    Status.TIME_LIMIT: "; the time limit came first",
    Status.INTERRUPTED: "; interrupted",
}


class Designed:
    """The document of designs, said piece by piece as they are compared.

    Args:
        result: the result.
        output: where the best strategy is written.
        at_alpha: the least probability of --at-alpha.
    """

    def __init__(self, result: Optimized, output: Path | None, at_alpha: float | None) -> None:
        self.result, self.design, self.output = result, result.design, output
        self.best = result.best
        self.said = Said(self.best, at_alpha)
        self.shares = parts.shares_data(self.design, self.best.noise)
        self.column = len("workload" if result.guarantee is None else "guarantee") + 2

    def section(self) -> Section:
        """What was asked for, before it is compared with anything."""
        result, design = self.result, self.design
        norm = f"{parts.between(design.certificate)}, gap {design.certificate.gap:.1e}"
        steps = _counted(design.steps, "step")
        solved = _counted(design.eigendecompositions, "eigendecomposition")
        promise = [("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)")]
        if result.guarantee is not None:
            promise = parts.promised(self.best.words)
        facts = [
            parts.workload_fact(design.workload),
            ("norm", f"gamma_({shortest(design.p)}) {norm} ({design.neighbours.value} neighbours)"),
            *parts.optimum_facts(design),
            ("status", _message(design)),
            ("effort", f"{steps}, {solved}, {design.seconds:.2f} s"),
            *_kind(design, self.best.words),
            *parts.shares_facts(self.shares),
            *_searches(result),
            *promise,
            ("design", f"{self.said.noise_text}: {_errors(self.best, design.p)}"),
        ]
        if self.best.unweighted is not None:
            plain = _errors(self.best.unweighted, design.p)
            facts.append(("unweighted", f"{plain}: the queries without their weights"))
        if (largest := _expected_max(self.best, design.p)) is not None:
            told = f" +- {largest.standard_error:.1g}" if largest.standard_error else ""
            facts.append(
                ("largest", f"expected largest error of all queries {largest.value:.3g}{told}")
            )
        if result.origin in result.known:
            facts.append(("origin", f"the baseline {result.origin!r}, which no search improved"))
        facts += [*self.said.facts(), *parts.written(self.output)]
        return Section(facts=facts, column=self.column)

    def bound(self, lower: Bound | None) -> Section:
        """How much better any mechanism could be, if that is known."""
        if lower is None or not lower.value:
            return Section()
        above = self.best.error(self.design.p) / lower.value
        text = (
            f"{lower.mechanisms}: error at least {lower.rounded},"
            f" the design has {above:.3g} times that"
        )
        return Section(facts=[("bound", text)], column=self.column)

    def document(self, lower: Bound | None, rows: Sequence[Row]) -> Document:
        """The whole document; its summary follows the sections."""
        value = None if lower is None else lower.value
        table = table_of(rows)
        recorded = [replace(row, lower_bound=value).to_record() for row in rows]
        data = self._data(value, rows)
        return Document(
            data=data,
            summary=[Section(tables=[table])],
            table=replace(table, records=recorded),
            picture=self.said.picture,
        )

    def _data(self, lower: float | None, rows: Sequence[Row]) -> dict[str, Any]:
        """The documented keys; the best strategy is the first row."""
        design, searches = self.design, self.result.searches
        polished, searched = searches.get(Noise.GAUSSIAN), searches.get(Noise.LAPLACE)
        schema = design.strategy.participation
        return {
            **parts.workload_data(design.workload),
            "p": design.p,
            "neighbours": design.neighbours.value,
            "norm": parts.norm_data(design),
            "optimum": design.optimum,
            "status": design.status.name.lower(),
            "message": _message(design),
            "steps": design.steps,
            "buffers": _buffers(design),
            "eigendecompositions": design.eigendecompositions,
            "seconds": design.seconds,
            "descent": polished
            and {
                "status": polished.status.name.lower(),
                "before": polished.starts[0].before,
                "after": polished.starts[0].after,
                "seconds": polished.seconds,
            },
            "search": searched
            and {
                "status": searched.status.name.lower(),
                "starts": len(searched.starts),
                "stationary": searched.settled,
                "seconds": searched.seconds,
            },
            "origin": self.result.origin,
            "sensitivity": self.best.sensitivity,
            "noise": {
                "kind": self.best.noise_name,
                "scale": self.best.scale,
            },
            **self.said.data(),
            "budget_shares": self.shares,
            "expected_max": (largest := _expected_max(self.best, design.p)) and largest.value,
            "lower_bound": lower,
            "strategies": [row.to_json() for row in rows],
            "output": self.output and str(self.output),
        } | ({} if schema is None else {"participation": str(schema)})


def _searches(result: Optimized) -> list[Fact]:
    """What became of the searches from the strategy of least norm; none for unused cube noise."""
    facts = []
    if (polished := result.searches.get(Noise.GAUSSIAN)) is not None:
        start, ended = polished.starts[0], _STOPPED[polished.status]
        descent = f"from {start.before:.6g} to {start.after:.6g} for Gaussian noise"
        facts.append(("descent", f"{descent}, {polished.seconds:.1f} s{ended}"))
    for noise in (Noise.LAPLACE, Noise.CUBE):
        searched = result.searches.get(noise)
        if searched is None or (noise is Noise.CUBE and result.best.noise is not noise):
            continue
        kind = "Laplace" if noise is Noise.LAPLACE else "cube"
        starts = f"{_counted(len(searched.starts), 'start')} for {kind} noise"
        settled = f"{searched.settled} followed to a stationary point"
        ended = f"{searched.seconds:.1f} s; {searched.status.value}"
        facts.append(("search", f"{starts}, {settled}, {ended}"))
    return facts


def _buffers(design: Design) -> int | None:
    """The number of buffers of a stream; None for other strategies."""
    return buffers_of(without_participation(design.strategy))


def _kind(design: Design, words: str) -> list[Fact]:
    """The unit of a record if a person takes part several times, and the buffers of a stream."""
    buffers = _buffers(design)
    facts = parts.record_facts(design.strategy.participation, words)
    if buffers is not None:
        facts.append(("stream", f"{_counted(buffers, 'buffer')}, a step in O(buffers)"))
    return facts


def _errors(mechanism: Mechanism, p: float) -> str:
    """Its errors, and the largest standard deviation if known."""
    largest = mechanism.known_max_std
    errors = f"err_{shortest(p)} {mechanism.error(p):.6g}, rmse {mechanism.rmse:.6g}"
    return errors if largest is None else f"{errors}, max std {largest:.6g}"


def _expected_max(mechanism: Mechanism, p: float) -> ExpectedMaximum | None:
    """At p = inf, for as many queries as it is computed for."""
    if p < math.inf or not lists_queries(mechanism.workload):
        return None
    with contextlib.suppress(InvalidInputError):
        return mechanism.expected_max
    return None


def _message(design: Design) -> str:
    """How the solver ended."""
    return f"{design.status.value}{design.forms and '; ' + design.forms}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
