"""The tables and the plot of `solvers.csv`: `python benchmarks/report.py [FOLDER]`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

SOLVERS = ("own", "fixed-point", "l-bfgs", "jax-privacy", "scs", "clarabel")
GOALS = (1e-2, 1e-4, 1e-6)
GROWTH_FROM = 256
"""Smallest n from which exponents are fitted; below it, overheads count."""
PANELS = (("2", 1e-2), ("2", 1e-4), ("2", 1e-6), ("inf", 1e-2))
COLOURS = dict(zip(SOLVERS, ("C3", "C0", "C2", "C1", "C4", "C7"), strict=True))
LABELS = {"own": "pmldesign", "scs": "CVXPY + SCS", "clarabel": "CVXPY + Clarabel"}
MARKERS = dict(zip(SOLVERS, "osD^vx", strict=True))
Row = dict[str, str]
Key = tuple[str, int, str, float, str]


def read(path: Path) -> dict[Key, Row]:
    """Rows by (workload, n, p, goal, solver)."""
    with path.open() as file:
        return {
            (row["workload"], int(row["n"]), row["p"], float(row["goal"]), row["solver"]): row
            for row in csv.DictReader(file)
        }


def seconds(rows: dict[Key, Row], key: Key) -> float:
    """NaN where it did not get there."""
    row = rows.get(key)
    return float(row["seconds"]) if row and row["met"] == "True" else np.nan


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row["met"] == "True":
        return f"{float(row['seconds']):.3g}"
    if row["certified_gap"]:
        return f"{row['note']} at {float(row['certified_gap']):.1e}"
    return row["note"]


def times(rows: dict[Key, Row]) -> list[str]:
    """One line for each (p, workload, n, goal): seconds of everyone, and who wins.

    The first ratio is that of the best peer to the own solver, the second counts for the peer what
    a certificate of its strategy would take.
    """
    heads = ["p", "workload", "n", "gap", *SOLVERS, "best peer / own", "certificate"]
    heads += ["certified peer / own", "own steps", "own decompositions"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for p, workload, n in dict.fromkeys((key[2], key[0], key[1]) for key in rows):
        for goal in GOALS:
            found = [rows.get((workload, n, p, goal, solver)) for solver in SOLVERS]
            own, *others = [seconds(rows, (workload, n, p, goal, solver)) for solver in SOLVERS]
            mine = found[0] or {"certificate": "", "steps": "", "decompositions": ""}
            best = np.inf if np.isnan(others).all() else np.nanmin(others)
            judged = best + float(mine["certificate"] or "nan")
            ratios = [
                f"{ratio:.2g}" if ratio < np.inf else "" for ratio in (best / own, judged / own)
            ]
            fields = [p, workload, n, f"{goal:.0e}", *map(cell, found), ratios[0]]
            fields += [mine["certificate"], ratios[1], mine["steps"], mine["decompositions"]]
            lines.append("| " + " | ".join(map(str, fields)) + " |")
    return lines


def where_others_ended(rows: dict[Key, Row]) -> list[str]:
    """Own time to the gap that a peer had when it was stopped."""
    lines = [
        "| p | workload | n | solver | ended | gap | seconds | own to that gap | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    seen = set()
    for (workload, n, p, _, solver), row in rows.items():
        case = (p, workload, n, solver)
        if solver == "own" or row["met"] == "True" or not row["certified_gap"] or case in seen:
            continue
        seen.add(case)
        gap, spent = float(row["certified_gap"]), float(row["seconds"])
        own = seconds(rows, (workload, n, p, gap, "own"))
        fields = [*case, row["note"], f"{gap:.1e}", f"{spent:.3g}", f"{own:.3g}"]
        lines.append("| " + " | ".join(map(str, [*fields, f"{spent / own:.2g}"])) + " |")
    return lines


def growth(rows: dict[Key, Row]) -> list[str]:
    """Exponents e of seconds ~ n^e, by least squares on logarithms."""
    lines = [f"| p | workload | gap | {' | '.join(SOLVERS)} |", "|" + "---|" * (len(SOLVERS) + 3)]
    for p, workload in dict.fromkeys((key[2], key[0]) for key in rows):
        for goal in GOALS:
            fields = [_exponent(rows, workload, p, goal, solver) for solver in SOLVERS]
            if any(fields):
                lines.append("| " + " | ".join([p, workload, f"{goal:.0e}", *fields]) + " |")
    return lines


def _exponent(rows: dict[Key, Row], workload: str, p: str, goal: float, solver: str) -> str:
    sizes = np.array(_sizes(rows, workload, p))
    found = np.array([seconds(rows, (workload, n, p, goal, solver)) for n in sizes])
    use = (sizes >= GROWTH_FROM) & ~np.isnan(found)
    if use.sum() < 2:
        return ""
    return f"{np.polyfit(np.log(sizes[use]), np.log(found[use]), 1)[0]:.1f} ({use.sum()})"


def _sizes(rows: dict[Key, Row], workload: str, p: str) -> list[int]:
    return sorted({key[1] for key in rows if key[0] == workload and key[2] == p})


def plot(rows: dict[Key, Row], path: Path) -> None:
    """Seconds against n: a column for each workload, a row for each (p, gap)."""
    from matplotlib.figure import Figure

    workloads = ("prefix", "all-range", "random")
    figure = Figure(figsize=(11, 2.9 * len(PANELS)), layout="constrained")
    axes = figure.subplots(len(PANELS), len(workloads), sharex=True, sharey="row")
    for (p, goal), line in zip(PANELS, axes, strict=True):
        for workload, panel in zip(workloads, line, strict=True):
            sizes = _sizes(rows, workload, p)
            for solver in SOLVERS:
                found = [seconds(rows, (workload, n, p, goal, solver)) for n in sizes]
                style = {"color": COLOURS[solver], "marker": MARKERS[solver], "markersize": 5}
                width = 2.2 if solver == "own" else 1.2
                panel.loglog(
                    sizes, found, label=LABELS.get(solver, solver), linewidth=width, **style
                )
            panel.set_title(f"{workload}, p = {p}, gap {goal:.0e}", fontsize=10)
            panel.grid(alpha=0.3)
        line[0].set_ylabel("seconds (processor)")
    for panel in axes[-1]:
        panel.set_xlabel("n, cells")
        panel.set_xticks([16, 64, 256, 1024], ["16", "64", "256", "1024"])
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(SOLVERS), frameon=False)
    figure.savefig(path, dpi=130)


def write(folder: Path) -> None:
    rows = read(folder / "solvers.csv")
    sections = {
        "Seconds to a certified gap": times(rows),
        "Where a peer was stopped": where_others_ended(rows),
        f"Growth: exponents of n, fitted from n = {GROWTH_FROM} (number of sizes)": growth(rows),
    }
    text = "\n\n".join(f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items())
    (folder / "table.md").write_text(f"# Results of benchmarks/run.py\n\n{text}\n")
    plot(rows, folder / "solvers.png")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results")
