"""The reports of `pmldesign optimize` and `pmldesign target`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmldesign.bounds import ANY_SIZE
from pmldesign.cli.pages.parts import (
    certificate,
    command_words,
    guarantee,
    measured,
    noise,
    privacy,
    queries,
    records,
    workload,
)
from pmldesign.designs.targets.least import LeastBudget
from pmldesign.mechanisms import Mechanism
from pmldesign.plots.designs import bars_figure
from pmldesign.plots.page import Picture, Section, write_page
from pmldesign.privacy.digits import at_least, at_most, shortest


def optimize_page(path: Path, best: Mechanism, document: Mapping[str, Any]) -> None:
    """The report of `optimize`, from what it prints as JSON."""
    asked = [
        workload(document),
        ("error", f"l_p error at p = {shortest(document['p'])}"),
        ("neighbours", document["neighbours"]),
    ]
    rows, bound = document["strategies"], document["lower_bound"]
    errors = [(f"{row['name']} ({row['noise']})", row["error"]) for row in rows]
    sections = [
        Section("What was asked", facts=asked),
        guarantee(document["guarantee"], document["guarantee_numbers"], best),
        Section(
            "Strategies and their errors",
            sentences=[
                "The first row is the design. error is the l_p error of all answers, rmse that of "
                "a typical query, max std that of the worst one; ratio is the error over the "
                "smallest one."
            ],
            tables=[records(rows)],
            pictures=[
                Picture(
                    bars_figure(errors, bound, "error", f"out of reach of {ANY_SIZE}"),
                    "The error of every strategy" + (", and the lower bound." if bound else "."),
                )
            ],
        ),
        privacy(document),
        measured(best, noise(document)),
        queries(best),
        certificate(
            document,
            "The least factorization norm of the workload lies between two bounds, which were "
            "recomputed from the workload and the strategy alone: with Gaussian noise and "
            "differential privacy no strategy has a smaller error than the lower one gives.",
            [
                ("status", document["message"]),
                *_above(ANY_SIZE, "has an error of", bound),
            ],
        ),
    ]
    _write(path, f"A private mechanism for {document['workload']}", sections)


def target_page(path: Path, budget: LeastBudget, document: Mapping[str, Any]) -> None:
    """The report of `target`, from what it prints as JSON."""
    name = budget.name
    bounds, rows = document[name], document["strategies"]
    needs = [(f"{row['name']} ({row['noise']})", row[name]) for row in rows]
    beyond = f"too little for {budget.mechanism.noise.value} noise on any strategy"
    sections = [
        Section(
            "What was asked",
            facts=[
                workload(document),
                ("targets", budget.targets.describe()),
                ("least", name),
                ("neighbours", document["neighbours"]),
            ],
        ),
        Section(
            f"The least {name}",
            facts=[
                ("enough", at_least(bounds["enough"], 10)),
                *_above(f"any {document['noise']['kind']} noise", "needs", bounds["at_least"]),
            ],
            sentences=["With this budget every query is as accurate as was asked for."],
            tables=[records([{"budget": name, **bounds}]), records(rows)],
            pictures=[
                Picture(
                    bars_figure(needs, bounds["at_least"], name, beyond),
                    f"The {name} that every strategy needs for these accuracies.",
                )
            ],
        ),
        guarantee(document["guarantee"], document["guarantee_numbers"], budget.mechanism),
        privacy(document),
        measured(budget.mechanism, noise(document)),
        queries(budget.mechanism),
        certificate(
            document,
            "The norm is that of the queries over their targets at p = inf. Its bounds were "
            "recomputed from the queries and the strategy alone, and the lower one says which "
            "budget is too little.",
            [("tightest query", f"has {100 * document['tightest']:.4f} % of its target")],
        ),
    ]
    _write(path, f"The least {name} for {document['workload']}", sections)


def _above(who: str, what: str, value: float | None) -> list[tuple[str, str]]:
    """A lower bound as a fact, if there is one."""
    return [(who, f"{what} at least {at_most(value, 9)}")] if value else []


def _write(path: Path, title: str, sections: Sequence[Section | None]) -> None:
    write_page(path, title, [part for part in sections if part], command=command_words())
