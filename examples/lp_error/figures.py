"""Running sums and parities beside the theorems: what is reached, what is possible, how both grow.

    python examples/lp_error/figures.py [DIRECTORY]

Draws prefix.svg and parity.svg from study.csv and streams.csv, which `pmldesign sweep` wrote of
study.toml and streams.toml: (1, 1e-6)-DP, Gaussian noise. The bounds are computed here, from the
certified norms of the rows.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Theorems 1.5, 1.6,
    2.11, 2.12 and D.1, with the constants and conditions of docs/background/lower-bounds.md.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pmldesign.error_bounds import all_bounds
from pmldesign.plots.pictures import BOUND, COLOURS, save, styled
from pmldesign.privacy.guarantees import ApproxDP
from pmldesign.workloads import as_workload

HERE = Path(__file__).parent
GUARANTEE = ApproxDP(1.0, 1e-6)
EXPONENTS = (2.0, 4.0, 16.0)
STRATEGIES = {"least-norm": "least norm", "square-root": "square root", "identity": "identity"}
FORMS = ("o-", "s-", "D-")

Row = dict[str, str]
Growth = Callable[[int, float], float]


def read(*names: str) -> list[Row]:
    """The rows of sweeps."""
    rows: list[Row] = []
    for name in names:
        with (HERE / name).open(newline="") as handle:
            rows += csv.DictReader(handle)
    return rows


def theorems(row: Row) -> dict[str, float | None]:
    """The bounds on the error that a norm gives, by name; None where one does not hold."""
    bounds = all_bounds(
        as_workload(row["workload"]),
        norm_lower=float(row["norm_lower"]),
        norm_upper=float(row["norm_upper"]),
        p=float(row["p"]),
        guarantee=GUARANTEE,
    )
    return {bound.name: bound.value for bound in bounds}


def draw(axes: Axes, rows: list[Row], growth: Growth, size: str, names: dict[str, str]) -> None:
    """Errors and bounds of one p over what the theorem says they grow like.

    Args:
        axes: where to draw.
        rows: of one p.
        growth: of the size and p.
        size: the column that is drawn over.
        names: of the bounds, and what the legend calls them.
    """
    p = float(rows[0]["p"])

    def line(points: list[tuple[int, float]], form: str, label: str, colour: str) -> None:
        points = sorted(points)
        heights = [value / growth(n, p) for n, value in points]
        axes.plot([n for n, _ in points], heights, form, label=label, color=colour)

    for (name, label), colour, form in zip(STRATEGIES.items(), COLOURS, FORMS, strict=False):
        chosen = [row for row in rows if row["strategy"] == name and row["error"]]
        errors = [(int(row[size]), float(row["error"])) for row in chosen]
        line(errors, form, label, colour)
    designs = [row for row in rows if row["strategy"] == "least-norm"]
    certified = [(int(row[size]), theorems(row)) for row in designs]
    reach = sorted((n, bounds["least variance"] or 0.0) for n, bounds in certified)
    heights = [value / growth(n, p) for n, value in reach]
    axes.fill_between([n for n, _ in reach], 0, heights, color=BOUND, alpha=0.2, linewidth=0)
    line(reach, "--", "no mechanism is below, worst case", BOUND)
    for (name, label), form in zip(names.items(), ("^:", "v:"), strict=True):
        points = [(n, value) for n, bounds in certified if (value := bounds[name]) is not None]
        line(points, form, label, COLOURS[6])
    axes.set(xscale="log", yscale="log", title=f"p = {p:g}")
    sizes = sorted({int(row[size]) for row in rows})
    if sizes[-1] < 100:
        axes.set_xticks(sizes, list(map(str, sizes)))
        axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)


@styled
def picture(
    rows: list[Row], growth: Growth, size: str, names: dict[str, str], label: str
) -> Figure:
    """A panel for every p, with one scale and one legend."""
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    panels = figure.subplots(1, len(EXPONENTS), sharey=True)
    for axes, p in zip(panels, EXPONENTS, strict=True):
        draw(axes, [row for row in rows if float(row["p"]) == p], growth, size, names)
        axes.set_xlabel(f"{size} {'n' if size == 'cells' else 'm'}")
    panels[0].set_ylabel(label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def main(folder: Path) -> None:
    """Write both pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = read("study.csv", "streams.csv")
    prefix = picture(
        [row for row in rows if row["workload"].startswith("prefix")],
        lambda n, p: n ** (1 / p) * math.log(n),
        "cells",
        {"Theorem 2.12": "Theorem 2.12, from above", "prefix sums": "Theorem 2.11, from below"},
        r"$\ell_p$ error / ($n^{1/p} \log n$)",
    )
    save(prefix, folder / "prefix.svg")
    parity = picture(
        [row for row in rows if row["workload"].startswith("parity")],
        lambda m, p: m ** (1 / 2 + 1 / p),
        "queries",
        {"Theorem D.1": "Theorem D.1, from above", "parity": "Theorem 1.6, from below"},
        r"$\ell_p$ error / $m^{1/2 + 1/p}$",
    )
    save(parity, folder / "parity.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
