"""The report of `pmldesign bounds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmldesign.bounds import Bound
from pmldesign.cli.pages.parts import command_words, records
from pmldesign.plots.designs import bounds_figure
from pmldesign.plots.page import Picture, Rounded, Section, write_page


def bounds_page(path: Path, facts: Sequence[tuple[str, str]], bounds: Sequence[Bound]) -> None:
    """The report of `bounds`, from what it prints as text."""
    picture = bounds_figure(bounds)
    holding = sorted((bound for bound in bounds if bound.holds), key=lambda b: b.value or 0.0)
    sections = [
        Section("What was asked", facts=facts),
        Section(
            "How small the error can be",
            pictures=[Picture(picture, "Every bound on the error.")] if picture else [],
            tables=[records([*map(_record, holding)])],
            sentences=["Lower bounds are rounded down, upper bounds up."],
        ),
        *(
            Section(title, facts=[(b.name, b.reason) for b in bounds if b.holds is holds])
            for title, holds in (("Why they hold", True), ("Not applicable", False))
        ),
    ]
    write_page(path, "Bounds on the error", sections, command=command_words())


def _record(bound: Bound) -> dict[str, Any]:
    """The bound with its number rounded outwards."""
    record = asdict(bound) | {"value": Rounded(bound.value or 0.0, bound.rounded)}
    return {key: value for key, value in record.items() if key != "reason"}
