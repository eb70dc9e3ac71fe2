"""The report of `pmldesign release`: what was published, and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmldesign.cli.documents.document import Cell, Picture, Rounded, Section, Table, records
from pmldesign.cli.documents.mechanisms import Said
from pmldesign.cli.documents.page import write_page
from pmldesign.mechanisms import Mechanism
from pmldesign.plots.designs import intervals_figure
from pmldesign.privacy.digits import of_scale
from pmldesign.release.result import Release, manifest_path
from pmldesign.release.tables import ReleasedTable

MOST_ROWS = 1000
"""Of a table that a page shows; a megabyte of them."""


def release_page(path: Path, published: Release, chosen: Mechanism, output: Path) -> None:
    """The report of `release`, from the table and the manifest that it wrote."""
    manifest = published.manifest
    intervals, noise = manifest["intervals"], manifest["noise"]
    promise = {key: n for key, n in manifest["guarantee"].items() if key != "words" and n != ""}
    said = Said(chosen)
    scale = noise["parameter"] * manifest["lattice"]["unit"]
    rows = len(published.table.estimate)
    cut = f"The first {MOST_ROWS} of {rows} rows; all of them are in {output.name}."
    together = "all of them together" if intervals["simultaneous"] else "each"
    sections = [
        Section(
            "What was published",
            facts=[
                ("workload", manifest["workload"]),
                ("queries", str(manifest["queries"])),
                ("intervals", f"hold with probability {intervals['level']:g}, {together}"),
                ("afterwards", ", ".join(manifest["post_processing"]) or "nothing was changed"),
            ],
        ),
        said.guarantee_section(promise),
        Section(
            "The table",
            tables=[_table(published.table)],
            pictures=[
                Picture(
                    lambda: intervals_figure(published.table), "Every estimate, and its interval."
                )
            ],
            sentences=[cut] if rows > MOST_ROWS else [],
        ),
        *_beside("Quantiles", published.quantiles),
        *_beside("Public answers, without noise", published.known),
        said.measured(f"{noise['law']} of scale {of_scale(scale, 9)}"),
        Section(
            "How to check it",
            facts=[
                ("manifest", manifest_path(output).name),
                ("noise drawn by", noise["sampler"]),
                *(
                    (f"sha256 of the {name}", text)
                    for name, text in manifest["sha256"].items()
                    if text is not None
                ),
                ("to check it", f"pmldesign verify {output}"),
            ],
            sentences=["The same command draws other noise, and costs the guarantee once more."],
        ),
    ]
    title = f"Private answers to {manifest['workload']}"
    write_page(path, title, sections)


def _table(table: ReleasedTable) -> Table:
    """With as many digits as were published."""
    columns = table.columns()
    rows = [
        [_cell(name, value, table.decimals) for name, value in zip(columns, row, strict=True)]
        for row in zip(*(values[:MOST_ROWS] for values in columns.values()), strict=True)
    ]
    return Table([*columns], rows)


def _cell(name: str, value: Any, decimals: int) -> Cell:
    if isinstance(value, str) or name == "standard_deviation":
        return value  # type: ignore[no-any-return]
    return Rounded(value, f"{value:.{decimals}f}")


def _beside(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    return [Section(title, tables=[records(rows[:MOST_ROWS])])] if rows else []
