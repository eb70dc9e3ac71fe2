"""The report of `pmldesign compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmldesign.cli.pages.parts import command_words, records, workload
from pmldesign.comparison.comparison import Comparison
from pmldesign.plots.comparisons import comparisons_figure
from pmldesign.plots.page import Picture, Rounded, Section, write_page
from pmldesign.privacy.digits import at_least, at_most, shortest


def compare_page(path: Path, shown: Sequence[Comparison], documents: Sequence[Any]) -> None:
    """The report of `compare`, from what it prints as JSON."""
    first = documents[0]
    names = dict.fromkeys(document["workload"] for document in documents)
    rows = [row for comparison in shown for row in comparison.rows]
    values = sorted({row.p for row in rows})
    sections = [
        Section(
            "What was asked",
            facts=[
                workload(first) if len(names) == 1 else ("workloads", ", ".join(names)),
                ("strategies", ", ".join(dict.fromkeys(row.strategy for row in rows))),
                ("error", f"l_p error at p = {', '.join(shortest(p) for p in values)}"),
            ],
        ),
        Section(
            "The guarantee",
            sentences=[
                *dict.fromkeys(
                    document["guarantee"] or "None: the scale of the noise is the sensitivity."
                    for document in documents
                )
            ],
        ),
        Section(
            "Errors",
            pictures=[Picture(comparisons_figure(shown), "The error of each strategy.")],
        ),
        Section(
            "The rows",
            tables=[records([row for doc in documents for row in doc["strategies"]])],
            sentences=[reason for doc in documents for reason in doc["left_out"]],
        ),
        Section(
            "What was certified",
            tables=[records(_norms(documents))],
            sentences=[
                "lower and upper are bounds on the factorization norm that were recomputed from "
                "the workload and the strategy; no Gaussian mechanism has an error below that of "
                "the lower one."
            ],
        ),
    ]
    title = "Strategies for " + ", ".join(names)
    write_page(path, title, sections, command=command_words())


def _norms(documents: Sequence[Any]) -> list[dict[str, Any]]:
    """Those of all guarantees of a workload are the same."""
    rows = [_norm(document, norm) for document in documents for norm in document["norms"]]
    return [row for place, row in enumerate(rows) if row not in rows[:place]]


def _norm(document: Mapping[str, Any], norm: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds on a norm, rounded outwards, with the workload that they are of."""
    ends = {
        "lower": Rounded(norm["lower"], at_most(norm["lower"], 9)),
        "upper": Rounded(norm["upper"], at_least(norm["upper"], 9)),
    }
    return {"workload": document["workload"], **norm, **ends}
