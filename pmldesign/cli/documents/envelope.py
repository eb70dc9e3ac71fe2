"""What `pmldesign envelope` says, bounds rounded to the side where they stay bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.cli.documents.document import Document, Picture, Section, Table, records
from pmldesign.privacy.digits import to_places

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("delta", "binary", "exact", "cvar", "theorem3")
LABELS = {
    "theorem3": "Theorem 3, from above",
    "cvar": "CVaR bound, from above",
    "exact": "exact envelope",
    "quantile": "quantile, from below",
    "binary": "binary envelope, from below",
}
CURVES = {
    "theorem3": "Theorem 3",
    "cvar": "CVaR bound",
    "exact": "exact envelope",
    "binary": "binary envelope",
}
"""What a picture calls them."""


def document_of(data: Mapping[str, Any]) -> Document:
    """The numbers at one delta, the curve, or both."""
    facts = [
        ("channel", data["channel"]),
        ("values of the secret", str(data["secrets"])),
        ("outputs", str(data["outputs"])),
        ("maximal leakage", f"{data['maximal_leakage']:.6f} nats"),
        ("largest leakage of an output", f"{data['largest_leakage']:.6f} nats"),
    ]
    if "delta" in data:
        facts.append(("delta", f"{data['delta']:g}"))
        facts += [(label, f"{_bound(name, data[name])} nats") for name, label in LABELS.items()]
    table = _table(data)
    summary = [Section(facts=facts)]
    if "curve" in data:
        summary.append(Section(tables=[table, _plateaus(data["curve"]["plateaus"])]))
    return Document(
        data=data,
        summary=summary,
        table=table,
        picture=lambda: _picture(f"PML envelope of {data['channel']}", data["curve"]),
        title=f"Leakage envelope of {data['channel']}",
        page=lambda: [*_page(data, table)],
    )


def _table(data: Mapping[str, Any]) -> Table:
    """A row for each delta, its bounds rounded outwards."""
    rows: list[dict[str, float]]
    if "curve" in data:
        columns = {name: data["curve"][name] for name in (*COLUMNS, "exact_lower")}
        values = zip(*columns.values(), strict=True)
        rows = [dict(zip(columns, row, strict=True)) for row in values]
    else:
        rows = [{name: data[name] for name in (*COLUMNS, "exact_lower", "quantile")}]
    cells = [
        [f"{row['delta']:.4g}", *(_bound(name, row[name]) for name in COLUMNS[1:])] for row in rows
    ]
    return Table(COLUMNS, cells, records=rows)


def _plateaus(plateaus: list[dict[str, float]]) -> Table:
    cells = [[f"{one[key]:.6f}" for key in ("level", "start", "end")] for one in plateaus]
    return Table(("constant at", "from delta", "to delta"), cells)


def _page(data: Mapping[str, Any], table: Table) -> Iterator[Section]:
    yield Section(
        "What was asked",
        facts=[("channel", data["channel"])],
        sentences=[
            "The envelope at delta is the smallest leakage, in nats, that is exceeded with "
            "probability at most delta, whatever is computed from the output."
        ],
    )
    single = {key: value for key, value in data.items() if not isinstance(value, dict | list)}
    yield Section("Numbers", tables=[records([single])])
    if "curve" in data:
        picture = Picture(
            lambda: _picture("", data["curve"]), "Bounds on the leakage at every delta."
        )
        yield Section("The curve", pictures=[picture], tables=[records(table.records)])
        yield Section("Where it is constant", tables=[records(data["curve"]["plateaus"])])


def _picture(title: str, curve: Mapping[str, Any]) -> Figure:
    from pmldesign.plots import envelope_figure

    curves = {label: np.array(curve[name]) for name, label in CURVES.items()}
    return envelope_figure(title, np.array(curve["delta"]), curves)


def _bound(name: str, value: float) -> str:
    return to_places(value, up=name not in ("quantile", "binary"))
