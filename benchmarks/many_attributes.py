"""Variances of tables of 100 attributes: `python benchmarks/many_attributes.py`.

All 4,950 tables by two attributes have 495,000 queries on 10^100 cells. One line for the residuals
that the design for Gaussian noise measures, and one for tables with weights: processor seconds
from the arrays of the strategy to the variances of all queries, the least of some runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations

import numpy as np

from pmldesign import Strategy, Workload, workload
from pmldesign.strategies import TablesStrategy, WeightedTablesStrategy

SIZES = [10] * 100
PAIRS = [*combinations(range(100), 2)]
RESIDUALS = [(), *((i,) for i in range(100)), *PAIRS]
REPEATS = 3


def seconds(make: Callable[[], Strategy], queries: Workload) -> float:
    """What a strategy and its variances take."""
    taken = []
    for _ in range(REPEATS):
        begin = time.process_time()
        variances = make().variances(queries)
        taken.append(time.process_time() - begin)
        assert variances.shape == queries.shape[:1]
    return min(taken)


def main() -> None:
    queries = workload("marginals:10^100,ways=2")
    for kind, sets in ((TablesStrategy, RESIDUALS), (WeightedTablesStrategy, PAIRS)):
        spent = seconds(lambda k=kind, s=sets: k("s", SIZES, s, np.ones(len(s))), queries)
        print(f"{kind.__name__:24} {spent:.3f} s")


if __name__ == "__main__":
    main()
