"""The reports of `pmldesign compare`, `bounds` and `envelope`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmldesign.bounds import Bound
from pmldesign.cli.pages.parts import command_words, records, workload
from pmldesign.cli.reports.envelope import records_of
from pmldesign.comparison.comparison import Comparison
from pmldesign.plots.comparisons import comparisons_figure
from pmldesign.plots.designs import bounds_figure
from pmldesign.plots.page import Picture, Rounded, Section, write_page
from pmldesign.plots.privacy import envelope_figure
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


def bounds_page(path: Path, facts: Sequence[tuple[str, str]], bounds: Sequence[Bound]) -> None:
    """The report of `bounds`, from what it prints as text."""
    picture = bounds_figure(bounds)
    holding = sorted((bound for bound in bounds if bound.holds), key=lambda b: b.value or 0.0)
    sections = [
        Section("What was asked", facts=facts),
        Section(
            "How small the error can be",
            pictures=[Picture(picture, "Every bound on the error.")] if picture else [],
            tables=[records([*map(_bound, holding)])],
            sentences=["Lower bounds are rounded down, upper bounds up."],
        ),
        *(
            Section(title, facts=[(b.name, b.reason) for b in bounds if b.holds is holds])
            for title, holds in (("Why they hold", True), ("Not applicable", False))
        ),
    ]
    write_page(path, "Bounds on the error", sections, command=command_words())


def _bound(bound: Bound) -> dict[str, Any]:
    """The bound with its number rounded outwards."""
    record = asdict(bound) | {"value": Rounded(bound.value or 0.0, bound.rounded)}
    return {key: value for key, value in record.items() if key != "reason"}


def envelope_page(path: Path, document: Mapping[str, Any], curves: Mapping[str, Any]) -> None:
    """The report of `envelope`, from what it prints as JSON."""
    single = {key: value for key, value in document.items() if not isinstance(value, dict | list)}
    sections = [
        Section(
            "What was asked",
            facts=[("channel", document["channel"])],
            sentences=[
                "The envelope at delta is the smallest leakage, in nats, that is exceeded with "
                "probability at most delta, whatever is computed from the output."
            ],
        ),
        Section("Numbers", tables=[records([single])]),
    ]
    if "curve" in document:
        figure = envelope_figure("", document["curve"]["delta"], curves)
        sections += [
            Section(
                "The curve",
                pictures=[Picture(figure, "Bounds on the leakage at every delta.")],
                tables=[records(records_of(document))],
            ),
            Section("Where it is constant", tables=[records(document["curve"]["plateaus"])]),
        ]
    title = f"Leakage envelope of {document['channel']}"
    write_page(path, title, sections, command=command_words())
