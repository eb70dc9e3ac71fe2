"""Calibrates thousands of strategies of hostile scale and checks every one in exact arithmetic.

    python benchmarks/exact_calibrations.py [--count 4000] [--seed 0]

Laplace noise under DP is checked in rational numbers, the other losses with 60 digits (mpmath), for
the entries as they are. Prints how often a scale is not private, how often it is refused, and how
much of the guarantee is left over at most.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from pmldesign.errors import PmldesignError
from pmldesign.privacy.calibration import calibrate
from pmldesign.privacy.guarantees import PML, ApproxDP, ApproxPML, PureDP
from pmldesign.strategies import ProductStrategy, Strategy

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "privacy"))
import exact_calibration as oracle


def guarantee_of(rng, cells):
    """A random guarantee and its noise."""
    epsilon = oracle.hostile_epsilon(rng)
    relation = ("add-remove", "replace")[int(rng.integers(2))]
    delta = float(10.0 ** rng.uniform(-12, -1))
    kind = int(rng.integers(8))
    if kind <= 3:
        return PureDP(epsilon, relation), "laplace"
    if kind <= 5:
        return ApproxDP(epsilon, delta, relation), "gaussian"
    alpha = float(rng.uniform(0.05, 1)) / cells
    if kind == 6:
        return PML(epsilon, alpha), "laplace"
    return ApproxPML(epsilon, delta, alpha), "gaussian"


def strategy_of(rng):
    """A bare matrix, a strategy or a product, and its rational entries."""
    matrix = oracle.hostile_matrix(rng)
    kind = int(rng.integers(3))
    if kind == 0:
        return matrix, oracle.exact(matrix)
    matrix = within_range(matrix)
    if kind == 1:
        return Strategy("R", matrix), oracle.exact(matrix)
    factors = [matrix, within_range(oracle.hostile_matrix(rng)[:2, :3])]
    product = ProductStrategy("R", [Strategy("R", factor) for factor in factors])
    return product, oracle.kronecker(factors)


def within_range(matrix):
    """The matrix times a power of two that a `Strategy` takes: 1e-100 to 1e100."""
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    return np.ldexp(matrix, int(np.clip(exponent, -320, 320)) - exponent)


def attempt(rng):
    """What came of one calibration: its kind, and loss over target minus 1."""
    try:
        strategy, rows = strategy_of(rng)
        guarantee, noise = guarantee_of(rng, len(rows[0]))
        scale = calibrate(strategy, guarantee, noise=noise).scale
    except PmldesignError as error:
        return f"refused: {type(error).__name__}", None
    name = f"{type(guarantee).__name__}, {noise}"
    if scale == 0:
        return ("no noise, rightly" if oracle.is_nothing(rows, guarantee) else "NO NOISE"), None
    over = oracle.over_target(rows, guarantee, noise, scale)
    return (f"NOT PRIVATE: {name}" if over > 0 else name), float(over)


def main():
    """Run and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    start, counts, slack = time.process_time(), Counter(), {}
    for _ in range(arguments.count):
        kind, over = attempt(rng)
        counts[kind] += 1
        if over is not None:
            slack[kind] = min(slack.get(kind, 0.0), over)
    for kind in sorted(counts):
        print(f"{counts[kind]:6d}  {kind:34s} {slack.get(kind, 0.0):.2e}")
    print(f"{time.process_time() - start:.0f} s")


if __name__ == "__main__":
    main()
