"""The document of `pmldesign release`: the published table and its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.cli.documents.document import (
    Cell,
    Document,
    Fact,
    Picture,
    Rounded,
    Section,
    Table,
    records,
)
from pmldesign.cli.documents.parts import Said, promised, workload_fact
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import of_scale, shortest
from pmldesign.releases.measured.measurements import Answers, Measurements
from pmldesign.releases.measured.several import words_of
from pmldesign.releases.noise import ExactNoise
from pmldesign.releases.result import Release, ReleasedTable, manifest_path

MOST_ROWS = 50
"""Of a table that a page shows: its first lines."""


def document_of(published: Release, drawn: ExactNoise, written: Sequence[str]) -> Document:
    """A release.

    Args:
        published: the table and its manifest.
        drawn: the mechanism, and its noise on a lattice.
        written: files, that of the table first.
    """
    chosen = drawn.mechanism
    output, said = Path(written[0]), Said(chosen)
    letter = "s" if chosen.noise is Noise.GAUSSIAN else "b"
    noise = f"discrete {chosen.noise.value}, {letter} = {of_scale(drawn.noise_scale)}"
    measured = f"{chosen.strategy.shape[0]} measurements"
    measured += " of integers" if chosen.own_grid else ""
    moved = f"one person moves them by at most {of_scale(chosen.sensitivity)}"
    facts = [
        workload_fact(chosen.workload),
        *promised(published.manifest["guarantee"]["words"]),
        *said.wrong_alpha,
        ("noise", f"{noise}, on {measured}; {moved}"),
        *_accuracy(published),
        *_cover(published.manifest),
        ("written", f"{', '.join(written)} and {manifest_path(written[0]).name}"),
    ]
    return Document(
        data=published.manifest,
        summary=[Section(facts=facts)],
        title=f"Private answers to {published.manifest['workload']}",
        page=lambda: [*_page(published, said, output)],
    )


def _accuracy(published: Release) -> list[Fact]:
    """The half-widths of the intervals of each table."""
    level = f"{shortest(100 * published.manifest['intervals']['level'])}%"
    facts: list[Fact] = []
    for found in published.table.accuracy:
        typical, largest = f"{found.typical:.3g}", f"{found.largest:.3g}"
        text = f"{found.table}: {level} half-width {typical}"
        text += "" if typical == largest else f" median, {largest} max"
        missing = f"; {found.without} of {found.rows} without an estimate" if found.without else ""
        facts.append(("" if facts else "accuracy", text + missing))
    return facts


def _cover(manifest: Mapping[str, Any]) -> list[Fact]:
    """What intervals cover if only some rows of each person count."""
    cover = manifest["intervals"].get("cover")
    return [("kept rows", cover)] if cover else []


def _page(published: Release, said: Said, output: Path) -> Iterator[Section]:
    from pmldesign.plots.designs import intervals_figure

    manifest, table = published.manifest, published.table
    intervals, noise = manifest["intervals"], manifest["noise"]
    together = "all of them together" if intervals["simultaneous"] else "each"
    yield Section(
        "What was published",
        facts=[
            ("workload", manifest["workload"]),
            ("queries", str(manifest["queries"])),
            *_accuracy(published),
            (
                "for whom",
                "anybody may see this page, the table and the manifest; the data stay secret",
            ),
            ("intervals", f"hold with probability {intervals['level']:g}, {together}"),
            *_cover(manifest),
            ("afterwards", ", ".join(manifest["post_processing"]) or "nothing was changed"),
        ],
    )
    promise = {key: n for key, n in manifest["guarantee"].items() if key != "words" and n != ""}
    yield said.guarantee_section(promise)
    rows = len(table.estimate)
    cut = f"The first {MOST_ROWS} of {rows} rows; all of them are in {output.name}."
    picture = Picture(
        lambda: intervals_figure(table),
        "Every estimate, and its interval where it is wide enough to be seen.",
    )
    yield Section(
        "The table",
        tables=[table_of(table)],
        pictures=[picture],
        sentences=[cut] if rows > MOST_ROWS else [],
    )
    beside: dict[str, Sequence[Mapping[str, Any]]] = {
        "Public answers, without noise": published.known,
    }
    for title, values in beside.items():
        if values:
            yield Section(title, tables=[records(values[:MOST_ROWS])])
    scale = noise["parameter"] * manifest["lattice"]["unit"]
    yield said.measured(f"{noise['law']} of scale {of_scale(scale, 9)}")
    yield Section(
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
    )


def answers_document(measured: Measurements, answers: Answers) -> Document:
    """What was asked of measurements."""
    noise = [manifest["noise"] for manifest in measured.manifests]
    counts = f"{sum(part['measurements'] for part in noise)} measurements"
    releases = "" if len(noise) == 1 else f" of {len(noise)} releases"
    laws = " and ".join(dict.fromkeys(part["law"] for part in noise))
    changed = {
        "nonnegative": "no negative cells, so that estimates are biased",
        "integers": "whole cells",
    }
    done = ", ".join(changed[name] for name in answers.post_processing)
    facts = [
        *promised(words_of(measured.manifests)),
        ("noise", f"{laws}, on {counts}{releases}"),
        ("afterwards", done or "nothing was changed"),
    ]
    rows = len(answers.table.estimate)
    cut = [f"The first {MOST_ROWS} of {rows} rows; -o FILE writes all."] if rows > MOST_ROWS else []
    tables = [table_of(answers.table)]
    data = {
        "manifests": measured.manifests,
        "post_processing": answers.post_processing,
        "table": answers.table.columns(),
    }
    return Document(data, [Section(facts=facts), Section(sentences=cut, tables=tables)])


def table_of(table: ReleasedTable) -> Table:
    """The table, with as many digits as were published."""
    columns = table.columns()
    digits = np.broadcast_to(table.decimals, table.estimate.shape).tolist()
    rows = [
        [_cell(name, value, decimals) for name, value in zip(columns, row, strict=True)]
        for row, decimals in zip(zip(*columns.values(), strict=True), digits, strict=True)
    ][:MOST_ROWS]
    return Table([*columns], rows)


def _cell(name: str, value: Any, decimals: int) -> Cell:
    if value is None:
        return "missing"
    if isinstance(value, str) or name == "standard_deviation":
        return value  # type: ignore[no-any-return]
    return Rounded(value, f"{value:.{decimals}f}")
