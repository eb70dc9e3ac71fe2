"""Reports of commands as one HTML file: --report FILE.html.

The numbers are those that --json prints, from the same dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pmldesign.bounds import Bound
from pmldesign.comparison.comparison import Comparison
from pmldesign.designs.best_noise import Optimized
from pmldesign.plots.designs import (
    bounds_figure,
    deviations_figure,
    errors_figure,
    strategy_figure,
)
from pmldesign.plots.page import Cell, Grid, Picture, Section, check_page_path, write_page
from pmldesign.plots.pictures import comparisons_figure, envelope_figure
from pmldesign.privacy.digits import at_least, at_most, shortest
from pmldesign.workloads.base import count_text

report_option: Callable[..., Any] = click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page to keep, send or print: .html (the plot extra).",
)
WORST = 10
"""Queries that are listed by name."""
MANY_QUERIES = 2**20
"""Beyond, the errors of queries are not drawn."""


def check_report(path: Path | None) -> None:
    """Refuse a report that cannot be written, before long work."""
    if path is not None:
        check_page_path(path)


def command_words() -> list[str]:
    """The command line as it was given."""
    context = click.get_current_context()
    words = ["pmldesign", context.info_name or ""]
    options: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[parameter.name or ""]
        if isinstance(parameter, click.Argument):
            words += map(str, value) if isinstance(value, tuple) else [str(value)]
        else:
            options += [parameter.opts[-1]] + ([] if value is True else [str(value)])
    return words + options


def optimize_page(path: Path | None, designs: Optimized, document: Mapping[str, Any]) -> None:
    """The report of `optimize`, if one was asked for, from what it prints as JSON."""
    if path is None:
        return
    best = designs.mechanisms[designs.best]
    asked = [
        _workload(document),
        ("error", f"l_p error at p = {shortest(document['p'])}"),
        ("neighbours", document["neighbours"]),
    ]
    strategy = strategy_figure(best.strategy)
    drawn = [Picture(strategy, "What is measured: every row is a measurement.")] if strategy else []
    sections = [
        Section("What was asked", facts=asked),
        _guarantee(document, designs.guarantee is not None),
        Section(
            "Strategies and their errors",
            sentences=[
                "The first row is the design. error is the l_p error of all answers, rmse that of "
                "a typical query, max_std that of the worst one; ratio is the error over the "
                "smallest one."
            ],
            tables=[_records(document["strategies"])],
            pictures=[_errors(document)],
        ),
        _privacy(document),
        Section(
            "The strategy",
            facts=[("strategy", repr(best.strategy)), ("noise", _noise(document))],
            pictures=drawn,
        ),
        _queries(best),
        _certificate(document),
    ]
    title = f"A private mechanism for {document['workload']}"
    write_page(path, title, [part for part in sections if part], command=command_words())


def compare_page(path: Path, shown: Sequence[Comparison], documents: Sequence[Any]) -> None:
    """The report of `compare`, from what it prints as JSON."""
    first = documents[0]
    names = dict.fromkeys(document["workload"] for document in documents)
    sections = [
        Section(
            "What was asked",
            facts=[_workload(first) if len(names) == 1 else ("workloads", ", ".join(names))],
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
            tables=[_records([row for doc in documents for row in doc["strategies"]])],
            sentences=[reason for doc in documents for reason in doc["left_out"]],
        ),
        Section(
            "What was certified",
            tables=[_records([norm for doc in documents for norm in doc["norms"]])],
            sentences=[
                "lower and upper are bounds on the factorization norm that were recomputed from "
                "the workload and the strategy; no Gaussian mechanism has an error below that of "
                "the lower one."
            ],
        ),
    ]
    title = "Strategies for " + ", ".join(names)
    write_page(path, title, sections, command=command_words())


def bounds_page(
    path: Path, facts: Sequence[tuple[str, str]], bounds: Sequence[Bound], documents: Any
) -> None:
    """The report of `bounds`, from what it prints as text and as JSON."""
    picture = bounds_figure(bounds)
    columns = ("name", "kind", "value", "mechanisms", "source")
    holding = [{key: d[key] for key in columns} for d in documents if d["holds"]]
    sections = [
        Section("What was asked", facts=facts),
        Section(
            "How small the error can be",
            pictures=[Picture(picture, "Every bound on the error.")] if picture else [],
            tables=[_records(sorted(holding, key=lambda entry: entry["value"]))],
            sentences=["Lower bounds are rounded down, upper bounds up."],
        ),
        Section(
            "Why they hold",
            facts=[(bound.name, bound.reason) for bound in bounds if bound.holds],
        ),
        Section(
            "Not applicable",
            facts=[(bound.name, bound.reason) for bound in bounds if not bound.holds],
        ),
    ]
    write_page(path, "Bounds on the error", sections, command=command_words())


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
        Section("Numbers", tables=[_records([single])]),
    ]
    if "curve" in document:
        table = {key: values for key, values in document["curve"].items() if key != "plateaus"}
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        figure = envelope_figure("", table["delta"], curves)
        sections += [
            Section(
                "The curve",
                pictures=[Picture(figure, "Bounds on the leakage at every delta.")],
                tables=[_records(rows)],
            ),
            Section("Where it is constant", tables=[_records(document["curve"]["plateaus"])]),
        ]
    title = f"Leakage envelope of {document['channel']}"
    write_page(path, title, sections, command=command_words())


def _records(records: Sequence[Mapping[str, Any]]) -> Grid:
    """A table of dictionaries with the same keys."""
    header = [*dict.fromkeys(key for record in records for key in record)]
    return Grid(header, [[_plain(record.get(key)) for key in header] for record in records])


def _plain(value: Any) -> Cell:
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _workload(document: Mapping[str, Any]) -> tuple[str, str]:
    queries, cells = count_text(document["queries"]), count_text(document["cells"])
    return "workload", f"{document['workload']}: {queries} queries on {cells} cells"


def _noise(document: Mapping[str, Any]) -> str:
    noise = document["noise"]
    return f"{noise['kind']} of scale {noise['scale']:.9g} on every measurement"


def _guarantee(document: Mapping[str, Any], promised: bool) -> Section:
    if not promised:
        none = "None was asked for: the scale of the noise is the sensitivity of the strategy."
        return Section("The guarantee", sentences=[none])
    numbers = document["guarantee_numbers"]
    facts = [(key, str(value)) for key, value in numbers.items() if value is not None]
    return Section("The guarantee", sentences=[document["guarantee"]], facts=facts)


def _privacy(document: Mapping[str, Any]) -> Section | None:
    numbers = document.get("privacy")
    if not numbers:
        return None
    single = [(key, str(n)) for key, n in numbers.items() if n and not isinstance(n, list)]
    tables = [_records(rows) for rows in numbers.values() if isinstance(rows, list)]
    return Section("The same noise in other currencies", facts=single, tables=tables)


def _errors(document: Mapping[str, Any]) -> Picture:
    rows = document["strategies"]
    figure = errors_figure(
        [(f"{row['name']} ({row['noise']})", row["error"]) for row in rows], document["lower_bound"]
    )
    return Picture(figure, "The error of every strategy, and the lower bound on that of any.")


def _queries(best: Any) -> Section | None:
    """The standard deviation of every query, and the worst ones by name."""
    workload = best.workload
    if workload.shape[0] > MANY_QUERIES:
        return None
    deviations = best.standard_deviations
    order = deviations.argsort(kind="stable")[::-1][:WORST]
    rows = [[workload.row_label(int(row)), float(deviations[row])] for row in order]
    return Section(
        "The error of every query",
        sentences=[f"The {len(rows)} queries with the largest errors:"],
        tables=[Grid(("query", "standard deviation"), rows)],
        pictures=[Picture(deviations_figure({"design": deviations}), "All queries.")],
    )


def _certificate(document: Mapping[str, Any]) -> Section:
    norm, bound = document["norm"], document["lower_bound"]
    facts = [
        (
            "norm",
            f"between {at_most(norm['lower'], 12)} and {at_least(norm['upper'], 12)}, "
            f"gap {norm['gap']:.2e}",
        ),
        ("status", document["message"]),
    ]
    if bound is not None:
        facts.append(("every mechanism", f"has an error of at least {at_most(bound, 9)}"))
    if document["output"]:
        check = f"pmldesign verify {document['output']}"
        how = "recomputes every number in the file from its arrays, without the solvers"
        facts.append(("to check it", f"{check}: {how}"))
    else:
        facts.append(
            ("to check it", "write the strategy with -o FILE.npz, then pmldesign verify FILE.npz")
        )
    sentence = (
        "The least factorization norm of the workload lies between two bounds, which were "
        "recomputed from the workload and the strategy alone: with Gaussian noise and differential "
        "privacy no strategy has a smaller error than the lower one gives."
    )
    return Section("What was certified", facts=facts, sentences=[sentence])
