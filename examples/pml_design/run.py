"""What changes when no cell is rare: strategies for Laplace noise under PML, and their error.

    python examples/pml_design/run.py [--effort normal] [--output DIRECTORY]

For prefix:8 and haar:8 at epsilon = 1: heat maps of the strategies found for DP (alpha = 0, one
record replaced) and for PML at alpha = 1/16 and 1/8, and the error against alpha beside that of the
DP design with its noise calibrated to PML. Writes strategies.png, error.png and error.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pmldesign.designs.laplace.search import laplace_design
from pmldesign.designs.results import Searched
from pmldesign.mechanisms import mechanism
from pmldesign.privacy.guarantees import PML, PureDP
from pmldesign.workloads import as_workload
from pmldesign_solvers.operators.deadline import Effort

WORKLOADS = ("prefix:8", "haar:8")
SHOWN = (0.0, 1 / 16, 1 / 8)
ALPHAS = (1 / 64, 1 / 32, 1 / 16, 3 / 32, 1 / 8)


def found(name: str, alpha: float, effort: str) -> Searched:
    """The best strategy for one record replaced, alpha = 0 being DP."""
    guarantee = PML(1.0, alpha) if alpha else PureDP(1.0, "replace")
    return laplace_design(name, guarantee, effort=effort)


def rows(name: str, designs: dict[float, Searched]) -> list[dict[str, Any]]:
    """The error at every alpha, designed for PML and designed for DP."""
    plain = designs[0.0].mechanism.strategy
    return [
        {
            "workload": name,
            "alpha": alpha,
            "error": designs[alpha].mechanism.error(2),
            "dp_design": mechanism(plain, as_workload(name), guarantee=PML(1.0, alpha)).error(2),
            "dp_noise": designs[0.0].mechanism.error(2),
        }
        for alpha in ALPHAS
    ]


def main() -> None:
    """Search, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--effort", choices=[*Effort], default="normal", help="of each search")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    designs = {
        name: {alpha: found(name, alpha, options.effort) for alpha in (0.0, *ALPHAS)}
        for name in WORKLOADS
    }
    errors = [row for name in WORKLOADS for row in rows(name, designs[name])]
    with (options.output / "error.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(errors[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(errors)
    draw_strategies(designs, options.output / "strategies.png")
    draw_errors(errors, options.output / "error.png")


def draw_strategies(designs: dict[str, dict[float, Searched]], path: Path) -> None:
    """One heat map a design: a row for each measurement, the strongest first."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(len(WORKLOADS), len(SHOWN))
    for line, name in zip(axes, WORKLOADS, strict=True):
        for ax, alpha in zip(line, SHOWN, strict=True):
            matrix = designs[name][alpha].mechanism.strategy.matrix
            matrix = matrix[np.argsort(-np.abs(matrix).sum(axis=1))]
            limit = np.abs(matrix).max()
            image = ax.imshow(matrix, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
            label = "DP" if not alpha else f"PML, alpha = 1/{round(1 / alpha)}"
            ax.set_title(f"{name}, {label}")
            ax.set_xlabel("cell")
            ax.set_ylabel("measurement")
            figure.colorbar(image, ax=ax)
    figure.savefig(path, dpi=110)


def draw_errors(errors: list[dict[str, Any]], path: Path) -> None:
    """Error against alpha."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(WORKLOADS)), WORKLOADS, strict=True):
        own = [row for row in errors if row["workload"] == name]
        alphas = [row["alpha"] for row in own]
        ax.plot(alphas, [row["dp_noise"] for row in own], "k--", label="DP (replace)")
        ax.plot(alphas, [row["dp_design"] for row in own], "s-", label="DP design, PML noise")
        ax.plot(alphas, [row["error"] for row in own], "o-", label="designed for PML")
        ax.set_title(name)
        ax.set_xlabel("alpha")
        ax.set_ylabel("root of the total squared error")
        ax.grid(alpha=0.3)
        ax.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
