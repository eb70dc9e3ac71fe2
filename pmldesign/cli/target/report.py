"""What `pmldesign target` shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.cli.reports.designs import shares_facts, shares_json
from pmldesign.cli.reports.privacy import fallback_json, privacy_facts, privacy_json
from pmldesign.cli.terminal.show import facts, note
from pmldesign.designs.cost import require_quick
from pmldesign.designs.targets.least import LeastBudget
from pmldesign.errors import PmldesignError
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
    rows = [BudgetRow("design", budget.mechanism.noise, budget.enough)]
    queries, guarantee = budget.workload, budget.mechanism.guarantee
    for name in (EQUAL, *USUAL):
        announce(f"comparing with {name!r}")
        try:
            require_quick(
                "workload" if name == EQUAL else name, queries, guarantee, budget.design.neighbours
            )
            strategy = baseline("workload" if name == EQUAL else name, queries)
            answer(strategy, queries, budget.design.neighbours)
            value, kind = budget.budget_of(strategy, noise)
        except PmldesignError as error:
            note(f"the table leaves out {name!r}: {error}")
        except KeyboardInterrupt:
            note(f"the table ends before {name!r}: interrupted")
            break
        else:
            rows.append(BudgetRow(name, kind, value))
    return rows


def as_json(budget: LeastBudget, rows: Sequence[BudgetRow], output: Path | None) -> dict[str, Any]:
    """The documented keys."""
    noisy, (m, n) = budget.mechanism, budget.workload.shape
    guarantee, certificate = noisy.guarantee, budget.design.certificate
    assert guarantee is not None
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
        "guarantee": guarantee.describe(n),
        "guarantee_numbers": guarantee.to_json(),
        "neighbours": noisy.neighbours.value,
        "norm": {
            "lower": certificate.lower,
            "upper": certificate.upper,
            "gap": certificate.gap,
        },
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
        "output": None if output is None else str(output),
    }


def print_budget(budget: LeastBudget, output: Path | None) -> None:
    """The answer, and the mechanism."""
    noisy, (m, n) = budget.mechanism, budget.workload.shape
    assert noisy.guarantee is not None
    name, kind = budget.name, noisy.noise.value
    gap = f"; gap {budget.gap:.1e}" if math.isfinite(budget.gap) else ""
    lines = [
        ("workload", f"{budget.workload.name}: {count_text(m)} queries on {count_text(n)} cells"),
        ("targets", budget.targets.describe()),
        (name, f"{at_least(budget.enough, 10)} is enough"),
        ("at least", f"{at_most(budget.at_least, 10)} for {kind} noise on any strategy{gap}"),
        ("guarantee", noisy.guarantee.describe(n)),
        (
            "design",
            f"{kind.capitalize()} noise of scale {of_scale(noisy.scale)}: rmse {noisy.rmse:.6g},"
            f" max std {noisy.max_std:.6g}; the tightest query has"
            f" {100 * budget.tightest:.4f} % of its target",
        ),
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
