"""Errors by level of a nation, 51 states and 3,143 counties: best weights against equal shares.

    python examples/regions/run.py [FOLDER]

writes places.csv (invented, as uneven as states are) and errors.png, and the numbers of the picture
on standard output. Where every level counts alike, a level with k regions has the weight 1/sqrt(k).
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

STATES, COUNTIES = 51, 3143
STRATEGIES = ("design", "level-shares", "equal-shares", "identity")
LABELS = {
    "design": "a weight for each region",
    "level-shares": "best weights of levels",
    "equal-shares": "equal shares",
    "identity": "counties alone",
}


def write_places(path, seed=1):
    """A county for each state, the others where chance has it, more in some states."""
    draw = random.Random(seed)
    chances = [math.exp(0.9 * draw.gauss(0, 1)) for _ in range(STATES)]
    states = [*range(STATES), *draw.choices(range(STATES), chances, k=COUNTIES - STATES)]
    lines = [f"S{state:02},C{number:04}" for number, state in enumerate(sorted(states))]
    path.write_text("state,county\n" + "\n".join(lines) + "\n")


def mechanisms(workload):
    import pmldesign as pml

    promise = pml.ApproxDP(1.0, 1e-6)
    design = pml.factorize(workload, rel_gap=1e-4)
    for name in STRATEGIES:
        strategy = design if name == "design" else name
        yield name, pml.mechanism(strategy, workload, guarantee=promise, noise="gaussian")


def errors(workload):
    """For each strategy the root mean square deviation at every level, in records."""
    import numpy as np

    level, scales = workload.level[workload.asked], workload.scales[workload.asked]
    found = {}
    for name, noisy in mechanisms(workload):
        squares = (noisy.standard_deviations / scales) ** 2
        found[name] = [float(np.sqrt(squares[level == k].mean())) for k in range(3)]
    return found


def panel(axes, found):
    from pmldesign.plots.pictures import COLOURS

    for colour, marker, (name, deviations) in zip(COLOURS, "osD^", found.items(), strict=False):
        print(f"{LABELS[name]:26}" + "".join(f"{value:9.2f}" for value in deviations))
        line = "-" if name == "design" else "--"
        axes.plot(range(3), deviations, marker + line, color=colour, label=LABELS[name])
    axes.margins(x=0.15)
    axes.set_xticks(range(3), ["nation", f"{STATES} states", f"{COUNTIES} counties"])


def main(folder):
    from matplotlib.figure import Figure

    import pmldesign as pml

    write_places(folder / "places.csv")
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    alike = f",state={STATES**-0.5!r},county={COUNTIES**-0.5!r}"
    for axes, weights, title in ((left, "", "every count"), (right, alike, "every level")):
        print(f"{title + ' counts alike':26}   nation    state   county")
        panel(axes, errors(pml.workload(f"regions:{folder / 'places.csv'}{weights}")))
        axes.set_title(f"{title} counts alike")
    left.set_yscale("log")
    left.set_ylabel("standard deviation, records")
    right.legend()
    figure.savefig(folder / "errors.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
