"""The report of `pmldesign bounds`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pmldesign.bounds import Bound
from pmldesign.cli.pages.parts import command_words, records
from pmldesign.plots.designs import bounds_figure
from pmldesign.plots.page import Picture, Rounded, Section, write_page
from pmldesign.privacy.digits import at_least, at_most


def bounds_page(
    path: Path, facts: Sequence[tuple[str, str]], bounds: Sequence[Bound], documents: Any
) -> None:
    """The report of `bounds`, from what it prints as text and as JSON."""
    picture = bounds_figure(bounds)
    columns = ("name", "kind", "value", "mechanisms", "source")
    holding = [_rounded({key: d[key] for key in columns}) for d in documents if d["holds"]]
    sections = [
        Section("What was asked", facts=facts),
        Section(
            "How small the error can be",
            pictures=[Picture(picture, "Every bound on the error.")] if picture else [],
            tables=[records(sorted(holding, key=lambda entry: entry["value"].value))],
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


def _rounded(document: dict[str, Any]) -> dict[str, Any]:
    """The bound with its number rounded outwards."""
    value = document["value"]
    text = at_most(value) if document["kind"] == "lower" else at_least(value)
    return document | {"value": Rounded(value, text)}
