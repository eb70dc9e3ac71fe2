"""Prefix sums and parity queries: what is reached, what is possible, and how both grow.

    python examples/lp_error/run.py [--largest 1024] [--output DIRECTORY]

For p = 2, 4 and 16, (1, 1e-6)-DP: the certified norm, the error of every strategy with Gaussian
noise, lower and upper bounds, and for prefix sums the growth n^(1/p) log n that [ZLU] Theorem 1.5
states. Writes prefix.csv, parity.csv and growth.png.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Theorems 1.5, 1.6,
    2.11 and 2.12.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

from pmldesign.bounds import Bound, all_bounds
from pmldesign.comparison.comparison import compare
from pmldesign.designs.min_norm import factorize
from pmldesign.privacy.guarantees import ApproxDP
from pmldesign.workloads import as_workload

GUARANTEE = ApproxDP(1.0, 1e-6)
EXPONENTS = (2.0, 4.0, 16.0)
PARITIES = ("parity:4,1", "parity:4,2", "parity:6,2", "parity:6,3", "parity:8,2", "parity:8,4")
LISTED = (
    "Gaussian mechanisms",
    "least variance",
    "total variation",
    "Theorem 2.1 for all",
    "Schatten-1",
    "prefix sums",
    "parity",
    "optimal Gaussian",
    "Gaussian on the answers",
    "Theorem D.1",
    "Theorem 2.12",
)


def row(name: str, p: float, baselines: tuple[str, ...]) -> dict[str, str | float]:
    """One workload at one p: norm, errors, bounds (empty where they do not hold)."""
    workload = as_workload(name)
    m, n = workload.shape
    made = factorize(workload, p=p)
    reached = compare(
        workload, [made.strategy, *baselines], p=p, guarantee=GUARANTEE, noise="gaussian"
    )
    found: dict[str, Bound] = {
        bound.name: bound
        for bound in all_bounds(
            workload,
            norm_lower=made.certificate.lower,
            norm_upper=made.certificate.upper,
            p=p,
            guarantee=GUARANTEE,
        )
    }
    values = {key: found[key].value for key in LISTED}
    return {
        "workload": name,
        "queries": m,
        "cells": n,
        "p": p,
        "norm lower": made.certificate.lower,
        "norm upper": made.certificate.upper,
        "n^(1/p) log n": n ** (1 / p) * math.log(n),
        "m^(1/2 + 1/p)": m ** (0.5 + 1 / p),
        **{f"error of {entry.strategy}": entry.error for entry in reached.rows},
        **{key: "" if value is None else value for key, value in values.items()},
    }


def write(path: Path, rows: list[dict[str, str | float]]) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for entry in rows:
            writer.writerow(
                {k: f"{v:.9g}" if isinstance(v, float) else v for k, v in entry.items()}
            )


def plot(path: Path, rows: list[dict[str, str | float]]) -> None:
    """Everything over n^(1/p) log n: Theorem 1.5 says that these lines stay level."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(EXPONENTS), figsize=(13, 4.2), sharey=True)
    lines = {
        "error of tree": "tree",
        "error of square-root": "square root",
        "error of design": "optimal",
        "Gaussian mechanisms": "bound, Gaussian noise",
        "least variance": "bound, every mechanism",
        "Theorem 2.1 for all": "bound, published constants",
    }
    for axis, p in zip(axes, EXPONENTS, strict=True):
        chosen = [entry for entry in rows if entry["p"] == p]
        for key, label in lines.items():
            points = [
                (float(e["cells"]), float(e[key]) / float(e["n^(1/p) log n"]))
                for e in chosen
                if e[key] != ""
            ]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
        axis.set(xscale="log", yscale="log", title=f"prefix sums, p = {p:g}", xlabel="n")
    axes[0].set_ylabel("error / (n^(1/p) log n)")
    axes[0].legend(fontsize=8, loc="center left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--largest", type=int, default=1024, help="largest n of prefix sums")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    sizes = [2**k for k in range(4, arguments.largest.bit_length())]
    prefixes = [
        row(f"prefix:{n}", p, ("square-root", "tree", "haar", "identity"))
        for p in EXPONENTS
        for n in sizes
    ]
    parities = [row(name, p, ("workload", "identity")) for p in EXPONENTS for name in PARITIES]
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(arguments.output / "prefix.csv", prefixes)
    write(arguments.output / "parity.csv", parities)
    plot(arguments.output / "growth.png", prefixes)


if __name__ == "__main__":
    main()
