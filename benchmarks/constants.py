"""What the constants of the solvers of a norm cost if they were others: `python constants.py`.

One line for every value of a constant: eigendecompositions, steps and processor seconds of all
solutions of its set: 10 small matrices at 5 exponents for cells or pairs, 3 collections of
marginals at 5 exponents for both. All of them end within a gap of 1e-6; about 20 seconds.
"""

from __future__ import annotations

import time
from importlib import import_module
from itertools import combinations

import numpy as np

from pmldesign_solvers.norm.marginals import solve_marginals
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Relation
from pmldesign_solvers.operators.operator import Array

EXPONENTS = (2.0, 2.5, 4.0, 16.0, np.inf)
TRIED: tuple[tuple[str, str, str, tuple[object, ...]], ...] = (
    ("cells", "fixed_point", "MEMORY", (3, 5, 10, 20)),
    ("cells", "solve", "CRAWL", (4, 6, 12, 24)),
    ("cells", "solve", "FIXED_POINT_STEPS", (15, 30, 60)),
    ("cells", "interior_point", "MIXED", (0.001, 0.01, 0.1)),
    ("pairs", "interior_point", "TOWARDS_THE_BOUNDARY", ((0.99, 0.7, 0.4), (0.99,), (0.9, 0.6))),
    ("pairs", "interior_point", "LONGEST", (1.0, 2.0, 10.0)),
    ("pairs", "interior_point", "PREDICTED", (0.003, 0.03, 0.3)),
    ("pairs", "interior_point", "CORRECTED", (0.0002, 0.002, 0.02)),
    ("pairs", "dual_function", "RATIO", (2.0, 8.0, 64.0)),
    ("pairs", "dual_function", "FEW", (0, 4, 100)),
    ("pairs", "dual_function", "SMALL", (1e-6, 1e-4, 1e-2)),
    ("marginals", "marginals_newton", "CHANGE", (1.0, 5.0, 20.0)),
    ("marginals", "marginals_newton", "TOLERANCE", (1e-5, 1e-3, 1e-1)),
    ("marginals", "marginals_newton", "STEPS", ((1.0, 0.5, 0.25, 0.1, 0.03, 0.01), (1.0,))),
    ("marginals", "marginals_pairs", "INNER", (0.01, 0.1, 0.5)),
)


def matrices() -> list[Array]:
    """Running sums, ranges, random and nearly singular queries."""
    rng = np.random.default_rng(11)
    ranges = [[float(i <= k <= j) for k in range(14)] for i in range(14) for j in range(i, 14)]
    return [
        np.tri(24),
        np.tri(60),
        np.array(ranges),
        rng.standard_normal((40, 20)),
        rng.standard_normal((10, 24)),
        rng.integers(0, 2, (30, 12)).astype(float),
        rng.integers(0, 3, (12, 9)).astype(float),
        np.kron(np.tri(4), np.tri(5)),
        rng.standard_normal((20, 4)) @ rng.standard_normal((4, 12)),
        np.exp(2 * rng.standard_normal((18, 10))),
    ]


def solve(what: str) -> tuple[int, int, int]:
    """Eigendecompositions, steps and failures of the solutions of a set."""
    solutions = []
    if what == "marginals":
        pairs = [*combinations(range(6), 2), (0,), ()]
        collections = [
            ([4, 3, 2, 5], [(0, 1), (1, 2), (0, 2), (3,)]),
            ([2] * 6, pairs),
            ([10, 7, 3], [(0,), (0, 1), (1, 2)]),
        ]
        for sizes, subsets in collections:
            weights = np.arange(1.0, len(subsets) + 1)
            for p in EXPONENTS:
                solutions.append(solve_marginals(sizes, subsets, weights, p, relation="add-remove"))
                solutions.append(solve_marginals(sizes, subsets, weights, p, relation="replace"))
    else:
        relation: Relation = "add-remove" if what == "cells" else "replace"
        for matrix in matrices():
            operator = DenseOperator(matrix)
            solutions += [solve_norm(operator, p, relation=relation) for p in EXPONENTS]
    return (
        sum(solution.eigendecompositions for solution in solutions),
        sum(solution.steps for solution in solutions),
        sum(solution.status is not Status.OPTIMAL for solution in solutions),
    )


def main() -> None:
    """Print a line for every value."""
    for what, module_name, name, values in TRIED:
        module = import_module(f"pmldesign_solvers.norm.{module_name}")
        usual = getattr(module, name)
        for value in values:
            setattr(module, name, value)
            start = time.process_time()
            decompositions, steps, failures = solve(what)
            seconds = time.process_time() - start
            mark = "*" if value == usual else " "
            print(
                f"{what:9} {name:20} {mark} {value!s:36} {decompositions:5} eigendecompositions"
                f" {steps:4} steps {seconds:5.2f} s {failures} failed"
            )
        setattr(module, name, usual)


if __name__ == "__main__":
    main()
