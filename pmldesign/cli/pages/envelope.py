"""The report of `pmldesign envelope`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmldesign.cli.pages.parts import command_words, records
from pmldesign.cli.reports.envelope import records_of
from pmldesign.plots.page import Picture, Section, write_page
from pmldesign.plots.privacy import envelope_figure


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
