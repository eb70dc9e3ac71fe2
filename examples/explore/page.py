"""A page with sliders for the budget, the accuracy and the size of a workload; it needs no server.

    python examples/explore/page.py [FOLDER]

writes explore.html, which a browser opens from the disk. Errors at any budget follow from a number
for each strategy, its largest standard deviation at noise of scale 1 on a sensitivity of 1:

    Laplace noise     unit / epsilon                         epsilon-DP
    Gaussian noise    unit * scale of (epsilon, DELTA)       (epsilon, DELTA)-DP

so the page holds these numbers, and the scales at the budgets of its slider; it calculates no more.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).parent
DELTA = 1e-6
EPSILONS = [round(10 ** (step / 20 - 1), 4) for step in range(41)]  # 0.1 to 10
SIZES = (8, 16, 32, 64, 128)
WORKLOADS = {
    "running sums": "prefix:{}",
    "all ranges": "all-range:{}",
    "sums of 7 neighbours": "window:{},7",
    "single counts": "histogram:{}",
}
BASELINES = {"laplace": ("identity", "tree", "weighted-tree"), "gaussian": ("identity", "tree")}


def units(name):
    """The largest standard deviation of each strategy at noise of scale 1, by noise."""
    import pmldesign as pml

    found = {
        noise: {
            strategy: pml.mechanism(strategy, name, noise=noise, p=math.inf).max_std
            for strategy in strategies
        }
        for noise, strategies in BASELINES.items()
    }
    found["gaussian"]["design"] = pml.factorize(name, p=math.inf).certificate.upper
    return found


def scales():
    """Of Gaussian noise at every budget, for a sensitivity of 1."""
    import pmldesign as pml

    return [
        pml.mechanism(
            "identity", "histogram:1", guarantee=pml.ApproxDP(epsilon, DELTA), noise="gaussian"
        ).scale
        for epsilon in EPSILONS
    ]


def fragment(sizes=SIZES):
    """What the page shows, for the body of another page."""
    data = {
        "epsilons": EPSILONS,
        "scales": scales(),
        "sizes": list(sizes),
        "units": {
            label: {str(n): units(name.format(n)) for n in sizes}
            for label, name in WORKLOADS.items()
        },
    }
    return (HERE / "page.html").read_text().replace("{{DATA}}", json.dumps(data))


def main(folder, sizes=SIZES):
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Budget and accuracy</title>'
    look = '<meta name="viewport" content="width=device-width">'
    (folder / "explore.html").write_text(f"{head}{look}<body>{fragment(sizes)}</body></html>\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
