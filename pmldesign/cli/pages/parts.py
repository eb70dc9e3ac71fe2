"""What the reports of several commands have: records as tables, the guarantee, the certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from pmldesign.mechanisms import Mechanism
from pmldesign.plots.designs import deviations_figure, strategy_figure
from pmldesign.plots.page import Cell, Grid, Picture, Rounded, Section
from pmldesign.privacy.digits import at_least, at_most, of_scale
from pmldesign.workloads.base import count_text

WORST = 10
"""Queries that are listed by name."""
MANY_QUERIES = 2**20
"""Beyond, the errors of queries are not drawn."""


def command_words() -> list[str]:
    """The command line as it was given."""
    context = click.get_current_context()
    words = ["pmldesign", context.info_name or ""]
    options: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        name = parameter.name or ""
        value = (
            context.params[name] if parameter.expose_value else context.meta[f"pmldesign.{name}"]
        )
        if isinstance(parameter, click.Argument):
            words += map(str, value) if isinstance(value, tuple) else [str(value)]
        else:
            options += [parameter.opts[-1]] + ([] if value is True else [str(value)])
    return words + options


def records(rows: Sequence[Mapping[str, Any]]) -> Grid:
    """A table of dictionaries; what none of them has is left out."""
    rows = [_flat(row) for row in rows]
    header = [*dict.fromkeys(key for row in rows for key in row if row[key] is not None)]
    return Grid(header, [[_plain(row.get(key)) for key in header] for row in rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a column for every entry of a dictionary in it."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        entries = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{key} {name}".strip(): entry for name, entry in entries.items()}
    return flat


def _plain(value: Any) -> Cell:
    plain = value is None or isinstance(value, int | float | str | Rounded)
    return value if plain else str(value)


def workload(document: Mapping[str, Any]) -> tuple[str, str]:
    """Its name and size."""
    queries, cells = count_text(document["queries"]), count_text(document["cells"])
    return "workload", f"{document['workload']}: {queries} queries on {cells} cells"


def noise(document: Mapping[str, Any]) -> str:
    """Its kind and scale."""
    kind, scale = document["noise"]["kind"], document["noise"]["scale"]
    return f"{kind} of scale {of_scale(scale, 9)} on every measurement"


def guarantee(words: str | None, numbers: Mapping[str, Any] | None, best: Mechanism) -> Section:
    """In words and numbers, under PML with what is left if alpha is wrong."""
    if words is None or numbers is None:
        none = "None was asked for: the scale of the noise is the sensitivity of the strategy."
        return Section("The guarantee", sentences=[none])
    facts = [(key, str(value)) for key, value in numbers.items() if value is not None]
    if best.fallback is not None:
        facts.append(("if alpha is wrong", best.fallback.describe()))
    return Section("The guarantee", sentences=[words], facts=facts)


def privacy(document: Mapping[str, Any]) -> Section | None:
    """The other currencies; None where nothing is promised."""
    numbers = document["privacy"]
    if not numbers:
        return None
    single = [(key, str(n)) for key, n in numbers.items() if n and not isinstance(n, list)]
    listed = [part for part in numbers.values() if isinstance(part, list)]
    tables = [
        records([row | {"epsilon": _upper(row["epsilon"])} for row in rows]) for rows in listed
    ]
    return Section("The same noise in other currencies", facts=single, tables=tables)


def _upper(value: float) -> Rounded:
    return Rounded(value, at_least(value))


def queries(best: Mechanism) -> Section | None:
    """The standard deviation of every query, and the worst ones by name."""
    if best.workload.shape[0] > MANY_QUERIES:
        return None
    deviations = best.standard_deviations
    order = deviations.argsort(kind="stable")[::-1][:WORST]
    rows: list[list[Cell]] = [
        [best.workload.row_label(int(row)), float(deviations[row])] for row in order
    ]
    return Section(
        "The error of every query",
        sentences=[f"The {len(rows)} queries with the largest errors:"],
        tables=[Grid(("query", "standard deviation"), rows)],
        pictures=[Picture(deviations_figure({"design": deviations}), "All queries.")],
    )


def measured(best: Mechanism, noise_text: str) -> Section:
    """The strategy, as a heat map where it is written out."""
    figure = strategy_figure(best.strategy)
    drawn = [Picture(figure, "What is measured: every row is a measurement.")] if figure else []
    facts = [("strategy", repr(best.strategy)), ("noise", noise_text)]
    return Section("The strategy", facts=facts, pictures=drawn)


def certificate(
    document: Mapping[str, Any], sentence: str, facts: Sequence[tuple[str, str]]
) -> Section:
    """The bounds on the norm, what follows from them, and how to check them again."""
    norm = document["norm"]
    bounds = (
        f"between {at_most(norm['lower'], 12)} and {at_least(norm['upper'], 12)}, "
        f"gap {norm['gap']:.2e}"
    )
    check = "write the strategy with -o FILE.npz, then pmldesign verify FILE.npz"
    if document["output"]:
        check = (
            f"pmldesign verify {document['output']}: recomputes every number in the file from its"
            " arrays, without the solvers"
        )
    return Section(
        "What was certified",
        facts=[("norm", bounds), *facts, ("to check it", check)],
        sentences=[sentence],
    )
