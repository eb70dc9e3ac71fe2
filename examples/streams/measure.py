"""Errors of running sums over n, for figures.py: writes errors.csv; five minutes.

    python examples/streams/measure.py

rmse of Gaussian noise of scale equal to the sensitivity, and the certified lower bound.
"""

from __future__ import annotations

import csv
from pathlib import Path

from pmldesign.designs import factorize
from pmldesign.mechanisms import mechanism

HERE = Path(__file__).parent
SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1000000)
OTHERS = ("square-root", "blt:6", "blt:12", "tree")
BUFFERS = 8
CLOSE, LONG = 1e-6, 10**5
"""Gap of the lower bound; a hundred times that beyond so many steps, for the sake of time."""


def main() -> None:
    """Write errors.csv."""
    with (HERE / "errors.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["n", "strategy", "rmse"])
        for n in SIZES:
            best = factorize(
                f"prefix:{n}", buffers=BUFFERS, rel_gap=CLOSE * (100 if n > LONG else 1)
            )
            writer.writerow([n, "lower bound", best.certificate.lower / n**0.5])
            writer.writerow([n, f"{BUFFERS} buffers", best.certificate.upper / n**0.5])
            for name in OTHERS:
                noisy = mechanism(name, best.workload, noise="gaussian")
                writer.writerow([n, name, noisy.rmse])
            handle.flush()


if __name__ == "__main__":
    main()
