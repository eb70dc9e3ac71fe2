"""What `pmldesign bounds` says: bounds that hold, lower ones first, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pmldesign.bounds import Bound, Kind
from pmldesign.cli.documents.document import (
    Document,
    Fact,
    Picture,
    Rounded,
    Section,
    Table,
    records,
)
from pmldesign.cli.documents.mechanisms import between, workload_fact
from pmldesign.designs.results import Design
from pmldesign.privacy.digits import shortest
from pmldesign.privacy.guarantees import Guarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def document_of(design: Design, guarantee: Guarantee, bounds: Sequence[Bound]) -> Document:
    """Bounds on the error of mechanisms for the workload of a design."""
    about = [
        workload_fact(design.workload),
        ("norm", f"gamma_({shortest(design.p)}) {between(design.certificate)}"),
        ("guarantee", guarantee.describe(design.workload.shape[1])),
    ]
    found = [asdict(bound) | {"holds": bound.holds} for bound in bounds]
    table = Table(
        ("bound", "kind", "value", "mechanisms"),
        _cells(bounds),
        texts=["bound", "mechanisms"],
        records=found,
    )
    missing = _reasons("Not applicable", bounds, holds=False)
    return Document(
        data=[record | {"guarantee_numbers": guarantee.to_json()} for record in found],
        summary=[Section(facts=about), Section(tables=[table]), missing],
        table=table,
        title="Bounds on the error",
        page=lambda: [*_page(about, bounds), missing],
    )


def _cells(bounds: Sequence[Bound]) -> list[list[str]]:
    """The bounds that hold by the size that is shown, lower ones first."""
    shown = sorted((bound for bound in bounds if bound.holds), key=lambda b: float(b.rounded))
    return [
        [bound.name, kind.value, bound.rounded, bound.mechanisms]
        for kind in Kind
        for bound in shown
        if bound.kind is kind
    ]


def _reasons(title: str, bounds: Sequence[Bound], *, holds: bool) -> Section:
    return Section(title, facts=[(b.name, b.reason) for b in bounds if b.holds is holds])


def _page(about: Sequence[Fact], bounds: Sequence[Bound]) -> Iterator[Section]:
    def picture() -> Figure | None:
        from pmldesign.plots.designs import bounds_figure

        return bounds_figure(bounds)

    yield Section("What was asked", facts=about)
    holding = sorted((bound for bound in bounds if bound.holds), key=lambda b: b.value or 0.0)
    yield Section(
        "How small the error can be",
        pictures=[Picture(picture, "Every bound on the error.")],
        tables=[records([*map(_record, holding)])],
        sentences=["Lower bounds are rounded down, upper bounds up."],
    )
    yield _reasons("Why they hold", bounds, holds=True)


def _record(bound: Bound) -> dict[str, Any]:
    """The bound with its number rounded outwards."""
    record = asdict(bound) | {"value": Rounded(bound.value or 0.0, bound.rounded)}
    return {key: value for key, value in record.items() if key != "reason"}
