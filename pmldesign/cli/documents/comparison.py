"""The document of `pmldesign compare`: a table with a row per strategy and no empty columns.

Other commands show designs next to the rows of the usual strategies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pmldesign.cli.documents import parts
from pmldesign.cli.documents.document import (
    Cell,
    Document,
    Fact,
    Picture,
    Rounded,
    Section,
    Table,
    note,
    records,
)
from pmldesign.cli.options.wording import in_options
from pmldesign.cli.process import interrupted
from pmldesign.designs.optimized import Optimized
from pmldesign.designs.rows import PARAMETERS, Row, parameters
from pmldesign.errors import PmldesignError
from pmldesign.mechanisms.exact_error import INTEGER_LAPLACE
from pmldesign.privacy.outward import at_least, at_most, of_scale, shortest
from pmldesign.strategies.baselines.registry import usual_baselines
from pmldesign_solvers.operators.deadline import Deadline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmldesign.comparison.comparison import Comparison
    from pmldesign.strategies.participation.schema import AnyParticipation

T = TypeVar("T")
Column = tuple[str, Callable[[Row], Cell]]

OPTIONAL = ("sensitivity", "rmse", "over-class", "max std", "scale", "over-any", "unweighted")
"""Columns that a narrow terminal goes without, the least important first."""


def document_of(
    shown: Sequence[Comparison], participation: AnyParticipation | None = None
) -> Document:
    """Comparisons on several workloads, or under several guarantees."""

    def picture() -> Figure:
        from pmldesign.plots import comparisons_figure

        return comparisons_figure(shown)

    rows = [row for comparison in shown for row in comparison.rows]
    names = list(dict.fromkeys(comparison.workload.name for comparison in shown))
    workloads = ("workloads", ", ".join(names))
    about = parts.workload_fact(shown[0].workload) if len(names) == 1 else workloads
    data = [_data(comparison) for comparison in shown]
    reasons = [reason for comparison in shown for reason in comparison.left_out]
    table = table_of(rows)
    return Document(
        data=data[0] if len(data) == 1 else data,
        summary=[
            Section(facts=[about, *_promised(shown, participation)]),
            Section(tables=[table]),
            Section(sentences=[f"left out: {in_options(r)}" for r in dict.fromkeys(reasons)]),
        ],
        table=table,
        picture=picture,
        title="Strategies for " + ", ".join(names),
        page=lambda: [*_page(about, rows, shown, reasons, picture)],
    )


def _data(shown: Comparison) -> dict[str, Any]:
    return {
        **parts.workload_data(shown.workload),
        **parts.guarantee_data(shown.guarantee, shown.workload.shape[1]),
        "strategies": [_record(row) for row in shown.rows],
        "norms": [
            {"p": p, **parts.norm_data(design), "status": design.status.name.lower()}
            for p, design in shown.designs.items()
        ],
        "left_out": list(shown.left_out),
    }


def _record(row: Row) -> dict[str, Any]:
    """A row; under PML with the remaining guarantee if alpha is wrong."""
    wrong = {} if row.fallback is None else {"if_alpha_is_wrong": row.fallback.to_json()}
    return {**row.to_record(), **wrong}


def _promised(shown: Sequence[Comparison], participation: AnyParticipation | None) -> list[Fact]:
    """The guarantee, and the further guarantees of the noise if all rows have one kind."""
    first = shown[0]
    if first.guarantee is None:
        return [] if participation is None else [("record", participation.describe())]
    several = len({comparison.workload.name for comparison in shown}) < len(shown)
    more = "" if participation is None else participation.sentence
    facts = parts.promised(first.guarantee.describe(first.workload.shape[1]) + more)
    if participation is not None and not more:
        facts.insert(0, ("record", participation.describe()))
    if several:
        facts[0] = ("guarantee", f"of the first row: {facts[0][1]}")
    best = min(first.rows, key=lambda row: row.error)
    if best.fallback is not None:
        facts.append(("if wrong", f"{best.strategy}, {best.fallback.describe()}"))
    facts += [("integers", text) for text in _integers(shown)]
    if len(shown) > 1 or first.guarantee.pml:  # under PML it differs from row to row
        return facts
    curves = {row.noise: row.privacy for row in first.rows}
    return facts + [
        (kind, f"noise satisfies {parts.currencies(curve, first.guarantee)}")
        for kind, curve in sorted(curves.items())
        if curve is not None and 0 < curve.ratio < math.inf
    ]


def _integers(shown: Sequence[Comparison]) -> list[str]:
    """How integer-valued noise is released, if a row has it."""
    there = any(row.noise == INTEGER_LAPLACE for one in shown for row in one.rows)
    return [parts.INTEGER_NOISE] if there else []


def _page(
    about: Fact,
    rows: Sequence[Row],
    shown: Sequence[Comparison],
    reasons: Sequence[str],
    picture: Callable[[], Figure],
) -> Iterator[Section]:
    strategies = ", ".join(dict.fromkeys(row.strategy for row in rows))
    values = ", ".join(shortest(p) for p in sorted({row.p for row in rows}))
    asked = [about, ("strategies", strategies), ("error", f"l_p error at p = {values}")]
    yield Section("What was asked", facts=asked)
    none = "None: the scale of the noise is the sensitivity."
    promises = [
        none if one.guarantee is None else one.guarantee.describe(one.workload.shape[1])
        for one in shown
    ]
    yield Section("The guarantee", sentences=[*dict.fromkeys(promises), *_integers(shown)])
    yield Section("Errors", pictures=[Picture(picture, "The error of each strategy.")])
    yield Section("The rows", tables=[records([*map(_record, rows)])], sentences=reasons)
    norms = [
        {
            "workload": one.workload.name,
            "p": p,
            "lower": Rounded(norm.lower, at_most(norm.lower, 9)),
            "upper": Rounded(norm.upper, at_least(norm.upper, 9)),
            "gap": norm.gap,
            "status": design.status.name.lower(),
        }
        for one in shown
        for p, design in one.designs.items()
        for norm in [design.certificate]
    ]
    yield Section(
        "What was certified",
        tables=[records([row for place, row in enumerate(norms) if row not in norms[:place]])],
        sentences=[
            "lower and upper are bounds on the factorization norm that were recomputed from "
            "the workload and the strategy; no Gaussian mechanism has an error below that of "
            "the lower one."
        ],
    )


def table_of(rows: Sequence[Row]) -> Table:
    """The table of rows; columns that are the same in all of them are left out."""
    columns: list[Column] = [("strategy", lambda row: row.strategy)]
    if len({row.workload for row in rows}) > 1:
        columns.append(("workload", lambda row: row.workload))
    told = [parameters(row.guarantee) for row in rows]
    columns += [_parameter(k) for k in PARAMETERS if len({each.get(k) for each in told}) > 1]
    error = f"err_{shortest(rows[0].p)}"
    if len({row.p for row in rows}) > 1:
        columns.append(("p", lambda row: shortest(row.p)))
        error = "error"
    columns += [
        ("noise", lambda row: row.noise),
        ("sensitivity", lambda row: of_scale(row.sensitivity)),
        ("scale", lambda row: of_scale(row.scale)),
        (error, lambda row: row.error),
        ("rmse", lambda row: row.rmse),
        ("max std", lambda row: row.max_std),
        ("ratio", lambda row: f"{row.ratio:.4f}"),
    ]
    if any(row.unweighted_rmse is not None for row in rows):
        columns.append(("unweighted", lambda row: row.unweighted_rmse))
    if any(row.class_bound for row in rows):
        columns.append(("over-class", lambda row: _ratio(row.over_class_bound)))
    if any(row.lower_bound for row in rows):
        columns.append(("over-any", lambda row: _ratio(row.over_lower_bound)))
    return Table(
        [name for name, _ in columns],
        [[cell(row) for _, cell in columns] for row in rows],
        optional=OPTIONAL,
        records=[row.to_record() for row in rows],
    )


def _parameter(key: str) -> Column:
    def text(row: Row) -> str:
        value = parameters(row.guarantee).get(key)
        return "" if value is None else shortest(value)

    return key, text


def _ratio(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def shown_rows(
    names: Sequence[str],
    announce: Callable[[str], None],
    row_of: Callable[[str], T],
    deadline: Deadline,
) -> Iterator[T]:
    """The rows of strategies by name; a note on stderr says why one is missing."""
    for name in names:
        announce(f"comparing with {name!r}")
        try:
            if interrupted():  # before the table
                raise KeyboardInterrupt
            if deadline.over():
                note(f"the table ends before {name!r}: the time limit came first")
                return
            row = row_of(name)
        except PmldesignError as error:
            note(f"the table leaves out {name!r}: {error}")
        except KeyboardInterrupt:
            note(f"the table ends before {name!r}: interrupted")
            return
        else:
            yield row


def usual_rows(result: Optimized, announce: Callable[[str], None]) -> list[Row]:
    """The rows of the usual baselines; a note on stderr says why one is missing."""
    names = usual_baselines(result.question.workload)
    return [*shown_rows(names, announce, result.small_row, result.deadline)]
