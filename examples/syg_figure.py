"""Figure 1 of [SYG]: how far a private histogram is from the true one, under DP and under PML.

    python examples/syg_figure.py [DIRECTORY]

writes syg_figure_1a.csv, syg_figure_1b.csv and a PNG of both, to examples/output by default.
1000 records are drawn uniformly from k cells; Laplace noise is added to the counts, which are then
clipped at 0 and rounded; the distance is the total variation between the two distributions
(1 if no count is left). Every point is a mean over 10,000 repetitions with its standard error.

References:
    [SYG] Saeidian, Yavuzyilmaz, Grosse, Schuppe and Oechtering, A tight context-aware privacy
        bound for histogram publication, Sec. III-B.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = 1000
REPETITIONS = 10_000
Rows = list[dict[str, Any]]


def distance(
    cells: int, scale: float, repetitions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean total variation distance at a noise scale, and its standard error."""
    counts = rng.multinomial(RECORDS, np.full(cells, 1 / cells), size=repetitions)
    noisy = np.round(np.maximum(counts + rng.laplace(scale=scale, size=counts.shape), 0))
    totals = noisy.sum(axis=1, keepdims=True)
    shares = noisy / np.maximum(totals, 1)
    distances = np.abs(shares - counts / RECORDS).sum(axis=1) / 2
    distances[totals[:, 0] == 0] = 1
    return float(distances.mean()), float(distances.std() / math.sqrt(repetitions))


def compare(
    cells: int, epsilon: float, alpha: float, repetitions: int, rng: np.random.Generator
) -> dict[str, Any]:
    """One point: both scales for the same epsilon, and the distance at each."""
    raised = epsilon + math.log((1 - alpha) / (1 - alpha * math.exp(epsilon)))
    dp, pml = 2 / epsilon, 2 / raised  # raised-DP implies epsilon-PML on Q_alpha
    dp_mean, dp_error = distance(cells, dp, repetitions, rng)
    pml_mean, pml_error = distance(cells, pml, repetitions, rng)
    return {
        "cells": cells,
        "alpha": alpha,
        "epsilon": epsilon,
        "DP scale": dp,
        "DP distance": dp_mean,
        "DP standard error": dp_error,
        "PML scale": pml,
        "PML distance": pml_mean,
        "PML standard error": pml_error,
    }


def figure_1a(repetitions: int = REPETITIONS) -> Rows:
    """Distance against epsilon, for several numbers of cells and alpha."""
    rng = np.random.default_rng(1)
    return [
        compare(cells, epsilon, alpha, repetitions, rng)
        for cells, alpha in ((5, 0.05), (5, 0.15), (10, 0.05), (10, 0.1))
        for epsilon in np.geomspace(0.01, 1, 9)
    ]


def figure_1b(repetitions: int = REPETITIONS) -> Rows:
    """Distance against the number of cells at alpha 0.05, for several epsilon."""
    rng = np.random.default_rng(2)
    return [
        compare(cells, epsilon, 0.05, repetitions, rng)
        for epsilon in (0.05, 0.1, 0.5)
        for cells in range(2, 21, 2)
    ]


def plot(panels: list[tuple[Rows, str, list[str]]], file: Path) -> None:
    """One panel for each figure, a line for each group of rows and for DP and PML."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, (rows, across, groups) in zip(figure.subplots(1, 2), panels, strict=True):
        for key in dict.fromkeys(tuple(row[g] for g in groups) for row in rows):
            chosen = [row for row in rows if tuple(row[g] for g in groups) == key]
            text = ", ".join(f"{g} {v:g}" for g, v in zip(groups, key, strict=True))
            for kind, style in (("DP", "--"), ("PML", "-")):
                axes.errorbar(
                    [row[across] for row in chosen],
                    [row[f"{kind} distance"] for row in chosen],
                    yerr=[1.96 * row[f"{kind} standard error"] for row in chosen],
                    linestyle=style,
                    label=f"{kind}, {text}",
                )
        axes.set(xlabel=across, ylabel="total variation distance")
        axes.legend(fontsize="small")
    figure.axes[0].set_xscale("log")
    figure.savefig(file)


def main(directory: Path, repetitions: int = REPETITIONS) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    first, second = figure_1a(repetitions), figure_1b(repetitions)
    for name, rows in (("syg_figure_1a", first), ("syg_figure_1b", second)):
        with (directory / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    panels = [(first, "epsilon", ["cells", "alpha"]), (second, "cells", ["epsilon"])]
    plot(panels, directory / "syg_figure_1.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "output"))
