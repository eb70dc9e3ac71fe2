"""What `pmldesign target` shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.cli.reports.baselines import beside
from pmldesign.cli.reports.designs import norm_json, shares_facts, shares_json
from pmldesign.cli.reports.privacy import fallback_json, guarantee_json, privacy_facts, privacy_json
from pmldesign.cli.terminal.show import facts
from pmldesign.designs.rivals import require_quick
from pmldesign.designs.targets.least import LeastBudget
from pmldesign.factorization import answer
from pmldesign.mechanisms import NoiseChoice
from pmldesign.privacy.digits import at_least, at_most, of_scale
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import baseline
from pmldesign.workloads.base import count_text

EQUAL = "equal noise"
"""Every query measured as often as every other one."""
USUAL = ("tree", "haar", "identity")


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """What a strategy needs for the targets.

    Attributes:
        name: of the strategy.
        noise: the one that needs less.
        budget: epsilon, rho or mu, rounded up.
    """

    name: str
    noise: Noise
    budget: float


def usual_budgets(
    budget: LeastBudget, noise: NoiseChoice, announce: Callable[[str], None]
) -> list[BudgetRow]:
    """The design, and what the usual strategies need; those that cannot are left out with a note.

    "equal noise" measures the queries themselves, all with the same noise.
    """
    queries, guarantee = budget.workload, budget.mechanism.guarantee
    relation = budget.design.neighbours

    def rows_of(name: str) -> list[BudgetRow]:
        called = "workload" if name == EQUAL else name
        require_quick(called, queries, guarantee, relation)
        strategy = baseline(called, queries)
        answer(strategy, queries, relation)
        value, kind = budget.budget_of(strategy, noise)
        return [BudgetRow(name, kind, value)]

    design = BudgetRow("design", budget.mechanism.noise, budget.enough)
    return [design, *beside((EQUAL, *USUAL), announce, rows_of)]


def as_json(budget: LeastBudget, rows: Sequence[BudgetRow], output: Path | None) -> dict[str, Any]:
    """The documented keys."""
    noisy, (m, n) = budget.mechanism, budget.workload.shape
    return {
        "workload": budget.workload.name,
        "queries": m,
        "cells": n,
        "targets": {
            "smallest": budget.targets.smallest,
            "largest": budget.targets.largest,
            "level": budget.targets.level,
        },
        "currency": budget.name,
        budget.name: {"enough": budget.enough, "at_least": budget.at_least},
        **guarantee_json(noisy.guarantee, n),
        "neighbours": noisy.neighbours.value,
        "norm": norm_json(budget.design),
        "status": budget.design.status.name.lower(),
        "seconds": budget.design.seconds,
        "noise": {"kind": noisy.noise.value, "scale": noisy.scale},
        "sensitivity": noisy.sensitivity,
        "tightest": budget.tightest,
        "rmse": noisy.rmse,
        "max_std": noisy.max_std,
        "privacy": privacy_json(noisy),
        "if_alpha_is_wrong": fallback_json(noisy),
        "budget_shares": shares_json(budget.design, noisy.noise),
        "strategies": [
            {"name": row.name, "noise": row.noise.value, budget.name: row.budget} for row in rows
        ],
        "output": output and str(output),
    }


def print_budget(budget: LeastBudget, output: Path | None) -> None:
    """The answer, and the mechanism."""
    noisy, (m, n) = budget.mechanism, budget.workload.shape
    assert noisy.guarantee is not None
    name, kind = budget.name, noisy.noise.value
    noise = f"{kind.capitalize()} noise of scale {of_scale(noisy.scale)}"
    errors = f"rmse {noisy.rmse:.6g}, max std {noisy.max_std:.6g}"
    budget_share = f"{100 * budget.tightest:.4f} %"
    gap = f"; gap {budget.gap:.1e}" if math.isfinite(budget.gap) else ""
    lines = [
        ("workload", f"{budget.workload.name}: {count_text(m)} queries on {count_text(n)} cells"),
        ("targets", budget.targets.describe()),
        (name, f"{at_least(budget.enough, 10)} is enough"),
        ("at least", f"{at_most(budget.at_least, 10)} for {kind} noise on any strategy{gap}"),
        ("guarantee", noisy.guarantee.describe(n)),
        ("design", f"{noise}: {errors}; the tightest query has {budget_share} of its target"),
        *shares_facts(budget.design, noisy.noise),
        *privacy_facts(noisy),
    ]
    if output is not None:
        lines.append(("written", str(output)))
    facts(lines)


def cells_of(budget: LeastBudget, rows: Sequence[BudgetRow]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table: what the usual strategies need."""
    return ["strategy", "noise", budget.name, "ratio"], [
        [row.name, row.noise.value, at_least(row.budget), f"{row.budget / budget.enough:.4f}"]
        for row in rows
    ]
