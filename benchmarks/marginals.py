"""All marginals of up to 3 of d attributes with 10 values each: `python benchmarks/marginals.py`.

The synthetic cases of Xiao, He, Zhang and Kifer, An optimal and scalable matrix mechanism for noisy
marginals under convex loss functions (ResidualPlanner), NeurIPS 2023: p = 2 is their sum of
variances at sensitivity 1 (gamma is its root), p = inf their largest variance. Seconds are
processor time, the smallest of three runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from pmldesign_solvers.norm.marginals import solve_marginals
from pmldesign_solvers.norm.solution import SolverOptions

VALUES, GAP, REPEATS = 10, 1e-6, 3
CASES = [(d, range(3, 4)) for d in (6, 10, 20)] + [(d, range(4)) for d in (6, 10, 20, 50, 100)]
"""Numbers of attributes, and of attributes in one marginal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "marginals.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["attributes", "ways", "marginals", "p", "gamma", "gap", "steps", "seconds"]
        )
        for d, ways in CASES:
            subsets = [subset for size in ways for subset in combinations(range(d), size)]
            for p in (2.0, math.inf):
                best = math.inf
                for _ in range(REPEATS):
                    start = time.process_time()
                    found = solve_marginals(
                        [VALUES] * d,
                        subsets,
                        np.ones(len(subsets)),
                        p,
                        options=SolverOptions(rel_gap=GAP),
                    )
                    best = min(best, time.process_time() - start)
                bounds = found.certificate
                label = f"{ways[0]}" if len(ways) == 1 else f"{ways[0]} to {ways[-1]}"
                row = [d, label, len(subsets), f"{p:g}", f"{bounds.upper:.2f}"]
                row += [f"{bounds.gap:.1e}", found.steps, f"{best:.3g}"]
                writer.writerow(row)
                print(*row, file=sys.stderr)


if __name__ == "__main__":
    main()
