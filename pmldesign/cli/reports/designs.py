"""What `pmldesign optimize` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pmldesign.bounds import Bound
from pmldesign.cli.reports.privacy import fallback_json, privacy_facts, privacy_json
from pmldesign.cli.terminal.show import facts
from pmldesign.comparison.rows import Row
from pmldesign.designs.results import Design, Optimized
from pmldesign.mechanisms import Mechanism
from pmldesign.privacy.digits import at_least, at_most, of_scale, shortest
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, StreamStrategy
from pmldesign.strategies.participation.strategy import participation_of, with_participation
from pmldesign.strategies.streams import AllRangesStrategy
from pmldesign.workloads.base import count_text
from pmldesign_solvers.norm.solution import Status

MOST_PARTS = 6
"""Whose shares are shown."""
_STOPPED = {
    Status.COMPLETED: "",
    Status.TIME_LIMIT: "; the time limit came first",
    Status.INTERRUPTED: "; interrupted",
}


def as_json(
    designs: Optimized, lower: Bound | None, rows: Sequence[Row], output: Path | None
) -> dict[str, Any]:
    """The documented keys; the best strategy is the first row."""
    design = designs.norm_design
    schema, stream = participation_of(design.strategy), with_participation(design.strategy, None)
    polished, searched = designs.gaussian_design, designs.laplace_design
    best = designs.mechanisms[designs.best]
    m, n = design.workload.shape
    return {
        "workload": design.workload.name,
        "queries": m,
        "cells": n,
        "p": design.p,
        "neighbours": design.neighbours.value,
        "norm": {
            "lower": design.certificate.lower,
            "upper": design.certificate.upper,
            "gap": design.certificate.gap,
        },
        "status": design.status.name.lower(),
        "message": f"{design.status.value}{design.forms and '; ' + design.forms}",
        "steps": design.steps,
        "buffers": stream.buffers
        if isinstance(stream, StreamStrategy | AllRangesStrategy)
        else None,
        "eigendecompositions": design.eigendecompositions,
        "seconds": design.seconds,
        "descent": None
        if polished is None
        else {
            "status": polished.status.name.lower(),
            "before": polished.starts[0].before,
            "after": polished.starts[0].after,
            "seconds": polished.seconds,
        },
        "search": None
        if searched is None
        else {
            "status": searched.status.name.lower(),
            "starts": len(searched.starts),
            "stationary": searched.settled,
            "seconds": searched.seconds,
        },
        "sensitivity": best.sensitivity,
        "noise": {"kind": best.noise.value, "scale": best.scale},
        "guarantee": None if designs.guarantee is None else designs.guarantee.describe(n),
        "guarantee_numbers": None if designs.guarantee is None else designs.guarantee.to_json(),
        "privacy": privacy_json(best),
        "budget_shares": shares_json(design, best.noise),
        "if_alpha_is_wrong": fallback_json(best),
        "lower_bound": None if lower is None else lower.value,
        "strategies": [row.to_json() for row in rows],
        "output": None if output is None else str(output),
    } | ({} if schema is None else {"participation": str(schema)})


def print_design(designs: Optimized, output: Path | None) -> None:
    """What was asked for, before it is compared with anything."""
    design, polished, searched = (
        designs.norm_design,
        designs.gaussian_design,
        designs.laplace_design,
    )
    m, n = design.workload.shape
    certificate = design.certificate
    lines = [
        ("workload", f"{design.workload.name}: {count_text(m)} queries on {count_text(n)} cells"),
        (
            "norm",
            f"gamma_({shortest(design.p)}) between {at_most(certificate.lower, 9)}"
            f" and {at_least(certificate.upper, 9)},"
            f" gap {certificate.gap:.1e} ({design.neighbours.value} neighbours)",
        ),
        ("status", f"{design.status.value}{design.forms and '; ' + design.forms}"),
        (
            "effort",
            f"{_counted(design.steps, 'step')},"
            f" {_counted(design.eigendecompositions, 'eigendecomposition')},"
            f" {design.seconds:.2f} s",
        ),
    ]
    best = designs.mechanisms[designs.best]
    lines += [*_kind(design.strategy), *shares_facts(design, best.noise)]
    if polished is not None:
        start = polished.starts[0]
        lines.append(
            (
                "descent",
                f"from {start.before:.6g} to {start.after:.6g} for Gaussian noise,"
                f" {polished.seconds:.1f} s{_STOPPED[polished.status]}",
            )
        )
    if searched is not None:
        lines.append(
            (
                "search",
                f"{_counted(len(searched.starts), 'start')} for Laplace noise,"
                f" {searched.settled} followed to a stationary point, {searched.seconds:.1f} s;"
                f" {searched.status.value}",
            )
        )
    if designs.guarantee is None:
        lines.append(("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)"))
    else:
        lines.append(("guarantee", designs.guarantee.describe(n)))
    lines.append(
        (
            "design",
            f"{best.noise.value.capitalize()} noise of scale {of_scale(best.scale)}:"
            f" err_{shortest(design.p)} {best.error(design.p):.6g}, rmse {best.rmse:.6g}"
            f"{_largest(best)}",
        )
    )
    lines += [*_unweighted(best, design.p), *privacy_facts(best)]
    if output is not None:
        lines.append(("written", str(output)))
    facts(lines, column=_column(designs))


def shares_json(design: Design, noise: Noise) -> dict[str, float] | None:
    """What part of the budget each part has under Gaussian noise, if there are several."""
    return design.budget_shares if noise is Noise.GAUSSIAN else None


def shares_facts(design: Design, noise: Noise) -> list[tuple[str, str]]:
    """The same in words, where the parts are few."""
    shares = shares_json(design, noise) or {}
    parts = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
    return [("shares", f"of the budget: {parts}")] if 1 < len(shares) <= MOST_PARTS else []


def _unweighted(best: Mechanism, p: float) -> list[tuple[str, str]]:
    """The errors of queries without the weights that they have."""
    plain = best.unweighted
    if plain is None:
        return []
    errors = f"err_{shortest(p)} {plain.error(p):.6g}, rmse {plain.rmse:.6g}{_largest(plain)}"
    return [("unweighted", f"{errors}: the queries without their weights")]


def _kind(strategy: Strategy) -> list[tuple[str, str]]:
    """What a record is where a person takes part several times, and the buffers of a stream."""
    schema, stream = participation_of(strategy), with_participation(strategy, None)
    lines = [] if schema is None else [("record", schema.describe())]
    if isinstance(stream, StreamStrategy | AllRangesStrategy):
        lines.append(("stream", f"{stream.buffers} buffers, a step in O(buffers)"))
    return lines


def _largest(mechanism: Mechanism) -> str:
    """The largest standard deviation, where it is known."""
    largest = mechanism.known_max_std
    return "" if largest is None else f", max std {largest:.6g}"


def print_bound(designs: Optimized, lower: Bound | None) -> None:
    """How much better any mechanism could be, if that is known."""
    if lower is not None and lower.value:
        error = designs.mechanisms[designs.best].error(designs.norm_design.p)
        text = (
            f"{lower.mechanisms}: error at least {lower.rounded},"
            f" the design has {error / lower.value:.3g} times that"
        )
        facts([("bound", text)], column=_column(designs))


def _column(designs: Optimized) -> int:
    """Where the values of the facts begin."""
    return len("workload" if designs.guarantee is None else "guarantee") + 2


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
