"""Figures 1 and 2 of [ZSO]: what Laplace noise leaks, and how much of it a guarantee takes.

    python examples/zso_figures.py [DIRECTORY]

writes zso_figure_1.csv, zso_figure_2.csv and a PNG of each, to examples/output by default.
Theorem 2 of the paper is drawn as what it is, the leakage at extreme outputs: a lower bound on the
worst case (see docs/background/errata.md). Calibrate with Corollary 1.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries, Sec. III.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.privacy.calibration import calibrate, laplace_scale
from pmldesign.privacy.guarantees import PML
from pmldesign.privacy.laplace_leakage import extreme_output_leakage
from pmldesign.privacy.loss import leakage_at
from pmldesign.privacy.neighbours import Neighbours, sensitivity_above
from pmldesign.privacy.outward import private_end
from pmldesign_solvers.operators.operator import Array

CELLS = 8
Rows = list[dict[str, Any]]


def workloads() -> dict[str, Array]:
    """The three kinds of queries of the paper on 8 cells; its ranges are random, these seeded."""
    rng = np.random.default_rng(8)
    ranges = np.zeros((CELLS, CELLS))
    for row in ranges:
        first = rng.integers(CELLS)
        row[first : rng.integers(first, CELLS) + 1] = 1
    h = np.array([[1.0, -1.0]])
    differences = np.vstack(
        [
            np.ones((1, 8)),
            np.kron(h, np.ones((1, 4))),
            np.kron(np.eye(2), np.kron(h, np.ones((1, 2)))),
            np.kron(np.eye(4), h),
        ]
    )
    return {"histogram": np.eye(CELLS), "ranges": ranges, "differences": differences}


def figure_1(points: int = 40) -> Rows:
    """Leakage against alpha at scale 1, for every workload."""
    rows: Rows = []
    for name, W in workloads().items():
        dp = sensitivity_above(W, Neighbours.REPLACE, "l1")
        rows += [
            {
                "workload": name,
                "alpha": alpha,
                "extreme outputs (Theorem 2)": extreme_output_leakage(W, scale=1, alpha=alpha),
                "Corollary 1": leakage_at(W, PML(1.0, alpha), noise="laplace", scale=1),
                "DP": dp,
            }
            for alpha in np.geomspace(1e-4, 1 / CELLS, points)
        ]
    return rows


def figure_2(points: int = 40) -> Rows:
    """Smallest scale against epsilon for the difference queries, at several alpha."""
    W, rows = workloads()["differences"], []
    sensitivity = sensitivity_above(W, Neighbours.REPLACE, "l1")
    for alpha in (0.01, 0.05, 0.1):
        ceiling = math.log(1 / alpha)
        for epsilon in [*np.linspace(0.1, 0.999 * ceiling, points), ceiling]:
            found = calibrate(W, PML(epsilon, alpha), noise="laplace", allow_vacuous=True)
            extreme = 0.0
            if found.scale > 0:
                extreme = private_end(
                    lambda scale, alpha=alpha: extreme_output_leakage(W, scale=scale, alpha=alpha),
                    epsilon,
                    start=found.scale,
                )
            rows.append(
                {
                    "alpha": alpha,
                    "epsilon": epsilon,
                    "extreme outputs (Theorem 2)": extreme,
                    "Corollary 1": found.scale,
                    "DP": laplace_scale(sensitivity, epsilon=epsilon),
                }
            )
    return rows


def plot(rows: Rows, *, panel: str, across: str, label: str, file: Path) -> None:
    """One panel for each value of `panel`, the last three columns as lines."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(row[panel] for row in rows))
    figure = Figure(figsize=(4 * len(panels), 3.2), layout="constrained")
    for axes, value in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        chosen = [row for row in rows if row[panel] == value]
        for name, style in zip(list(rows[0])[-3:], ("-", "--", "-."), strict=True):
            axes.plot([r[across] for r in chosen], [r[name] for r in chosen], style, label=name)
        axes.set(title=f"{panel} {value}", xlabel=across, ylabel=label)
    axes.legend()
    figure.savefig(file)


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows, panel, across, label in (
        ("zso_figure_1", figure_1(), "workload", "alpha", "leakage at b = 1"),
        ("zso_figure_2", figure_2(), "alpha", "epsilon", "noise scale b"),
    ):
        with (directory / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        plot(rows, panel=panel, across=across, label=label, file=directory / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "output"))
