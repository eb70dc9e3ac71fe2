"""Errors of streams against the certified lower bound: over n, and over the number of buffers.

    python examples/streams/figures.py [DIRECTORY]

Draws streams.svg from errors.csv, which measure.py wrote, and buffers.svg from gaps.csv: what
`pmldesign optimize prefix:N --p P --buffers K --rel-gap 1e-8` proves.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from matplotlib.figure import Figure

from pmldesign.plots.pictures import BOUND, save, styled

HERE = Path(__file__).parent
FORMS = ("o-", "s-", "D-", "^-", "v-", "P-")
BOUND_NAME = "lower bound"


def read(name: str) -> list[dict[str, str]]:
    """The rows of a file."""
    with (HERE / name).open(newline="") as handle:
        return list(csv.DictReader(handle))


@styled
def errors_figure(rows: list[dict[str, str]]) -> Figure:
    """Errors over n, and by how much they exceed the lower bound."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        lines.setdefault(row["strategy"], {})[int(row["n"])] = float(row["rmse"])
    bound = lines.pop(BOUND_NAME)
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    errors, excess = figure.subplots(1, 2)
    sizes = sorted(bound)
    errors.fill_between(sizes, 0, [bound[n] for n in sizes], color=BOUND, alpha=0.2, linewidth=0)
    for (name, line), form in zip(lines.items(), FORMS, strict=False):
        errors.plot(sizes, [line[n] for n in sizes], form, label=name)
        excess.plot(sizes, [line[n] / bound[n] - 1 for n in sizes], form)
    errors.set(xscale="log", xlabel="steps n", ylabel="rmse at sensitivity 1", ylim=(1, None))
    excess.set(xscale="log", yscale="log", xlabel="steps n", ylabel="excess over the lower bound")
    for axes in (errors, excess):
        axes.grid(alpha=0.3)
    errors.legend()
    return figure


@styled
def buffers_figure(rows: list[dict[str, str]]) -> Figure:
    """Proved gaps over the number of buffers."""
    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    axes = figure.subplots()
    settings = list(dict.fromkeys((row["n"], row["p"]) for row in rows))
    for (n, p), form in zip(settings, FORMS, strict=False):
        points = [row for row in rows if (row["n"], row["p"]) == (n, p)]
        buffers = [int(row["buffers"]) for row in points]
        axes.plot(buffers, [float(row["gap"]) for row in points], form, label=f"n = {n}, p = {p}")
    axes.set(yscale="log", xlabel="buffers K", ylabel="gap to the lower bound")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main(folder: Path) -> None:
    """Write both pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    save(errors_figure(read("errors.csv")), folder / "streams.svg")
    save(buffers_figure(read("gaps.csv")), folder / "buffers.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
