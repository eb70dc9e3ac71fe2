"""What `pmldesign optimize` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pmldesign.bounds import Bound
from pmldesign.cli.reports.privacy import fallback_json, guarantee_json, privacy_facts, privacy_json
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

STREAMS = (StreamStrategy, AllRangesStrategy)
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
        "norm": norm_json(design),
        "status": design.status.name.lower(),
        "message": _message(design),
        "steps": design.steps,
        "buffers": stream.buffers if isinstance(stream, STREAMS) else None,
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
        "sensitivity": best.sensitivity,
        "noise": {"kind": best.noise.value, "scale": best.scale},
        **guarantee_json(designs.guarantee, n),
        "privacy": privacy_json(best),
        "budget_shares": shares_json(design, best.noise),
        "if_alpha_is_wrong": fallback_json(best),
        "lower_bound": lower and lower.value,
        "strategies": [row.to_json() for row in rows],
        "output": output and str(output),
    } | ({} if schema is None else {"participation": str(schema)})


def norm_json(design: Design) -> dict[str, float]:
    """Both bounds on the norm."""
    return {name: getattr(design.certificate, name) for name in ("lower", "upper", "gap")}


def print_design(designs: Optimized, output: Path | None) -> None:
    """What was asked for, before it is compared with anything."""
    design, best = designs.norm_design, designs.mechanisms[designs.best]
    m, n = design.workload.shape
    norm = design.certificate
    between = f"between {at_most(norm.lower, 9)} and {at_least(norm.upper, 9)}, gap {norm.gap:.1e}"
    steps = _counted(design.steps, "step")
    solved = _counted(design.eigendecompositions, "eigendecomposition")
    lines = [
        ("workload", f"{design.workload.name}: {count_text(m)} queries on {count_text(n)} cells"),
        ("norm", f"gamma_({shortest(design.p)}) {between} ({design.neighbours.value} neighbours)"),
        ("status", _message(design)),
        ("effort", f"{steps}, {solved}, {design.seconds:.2f} s"),
        *_kind(design.strategy),
        *shares_facts(design, best.noise),
    ]
    if (polished := designs.gaussian_design) is not None:
        start, ended = polished.starts[0], _STOPPED[polished.status]
        descent = f"from {start.before:.6g} to {start.after:.6g} for Gaussian noise"
        lines.append(("descent", f"{descent}, {polished.seconds:.1f} s{ended}"))
    if (searched := designs.laplace_design) is not None:
        starts = f"{_counted(len(searched.starts), 'start')} for Laplace noise"
        settled = f"{searched.settled} followed to a stationary point"
        ended = f"{searched.seconds:.1f} s; {searched.status.value}"
        lines.append(("search", f"{starts}, {settled}, {ended}"))
    if designs.guarantee is None:
        lines.append(("noise", "scale equal to the sensitivity (give --epsilon to calibrate it)"))
    else:
        lines.append(("guarantee", designs.guarantee.describe(n)))
    noise = f"{best.noise.value.capitalize()} noise of scale {of_scale(best.scale)}"
    lines += [("design", f"{noise}: {_errors(best, design.p)}")]
    if best.unweighted is not None:
        plain = _errors(best.unweighted, design.p)
        lines.append(("unweighted", f"{plain}: the queries without their weights"))
    lines += privacy_facts(best)
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


def _kind(strategy: Strategy) -> list[tuple[str, str]]:
    """What a record is where a person takes part several times, and the buffers of a stream."""
    schema, stream = participation_of(strategy), with_participation(strategy, None)
    lines = [] if schema is None else [("record", schema.describe())]
    if isinstance(stream, STREAMS):
        lines.append(("stream", f"{stream.buffers} buffers, a step in O(buffers)"))
    return lines


def _errors(mechanism: Mechanism, p: float) -> str:
    """Its errors, the largest standard deviation where it is known."""
    largest = mechanism.known_max_std
    errors = f"err_{shortest(p)} {mechanism.error(p):.6g}, rmse {mechanism.rmse:.6g}"
    return errors if largest is None else f"{errors}, max std {largest:.6g}"


def _message(design: Design) -> str:
    """How the solver ended."""
    return f"{design.status.value}{design.forms and '; ' + design.forms}"


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
