"""Queries of ordered and of joined attributes beside QuerySmasher, both in one run.

    git clone https://github.com/cmla-psu/QuerySmasherMatrixMechanism peer
    python benchmarks/joined.py --peer peer       # in an environment that has PyTorch too

Writes results/joined.csv and results/joined.md: the root of the total variance of Gaussian noise
of scale 1 at sensitivity 1, processor seconds of both, and our lower bound. QuerySmasher
(arXiv 2604.00868) runs as its README says, with its solver "convex"; the total is its statement.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from tables import ADULT, ALL_PAIRS, JOINED, ORDERED, certified, write

from pmldesign_solvers.operators.operator import Array

TEN = [10] * 10
Queries = list[tuple[tuple[int, ...], list[Array]]]
"""Attributes and the matrix that is asked of each, or one matrix that joins them."""


@dataclass(frozen=True)
class Row:
    """Roots of total variances, and processor seconds."""

    workload: str
    peer: float
    peer_seconds: float
    ours: float
    bound: float
    seconds: float


def sums(n: int) -> Array:
    """Running sums."""
    return np.tril(np.ones((n, n)))


def ranges(n: int) -> Array:
    """All ranges."""
    ends = [(i, j) for i in range(n) for j in range(i, n)]
    return np.array([[float(i <= cell <= j) for cell in range(n)] for i, j in ends])


def at_most(n: int, m: int) -> Array:
    """All thresholds of i + j."""
    total = np.add.outer(np.arange(n), np.arange(m)).ravel()
    return (total <= np.arange(n + m - 1)[:, None]).astype(float)


def pairs(factors: list[Array]) -> Queries:
    """Tables by two attributes."""
    return [((i, j), [factors[i], factors[j]]) for i, j in combinations(range(len(factors)), 2)]


def questions() -> Iterator[tuple[str, list[int], Queries]]:
    """The name of each workload, its attributes' sizes, and its tables as the peer takes them."""
    ten = pairs([sums(10)] * 10)
    one_way: Queries = [((i,), [sums(10)]) for i in range(10)]
    adult = pairs([sums(n) if n in ORDERED else np.eye(n) for n in ADULT])
    yield "prefix:64", [64], [((0,), [sums(64)])]
    yield "marginals:prefix10^10,ways=1+marginals:prefix10^10,ways=2", TEN, one_way + ten
    all_ranges: Queries = [((i,), [ranges(10)]) for i in range(10)]
    yield "marginals:all-range10^10,ways=1+marginals:prefix10^10,ways=2", TEN, all_ranges + ten
    joint: Queries = [(pair, [at_most(10, 10)]) for pair in combinations(range(10), 2)]
    yield "marginals:prefix10^10,ways=1+at-most:10^10,ways=2", TEN, one_way + joint
    yield f"{ALL_PAIRS}+{JOINED}", list(ADULT), [*adult, ((3, 4), [at_most(16, 16)])]


def of_peer(sizes: list[int], queries: Queries, query: Any, smasher: Any) -> tuple[float, float]:
    """The root of the total variance that QuerySmasher states, and processor seconds."""
    begin = time.process_time()
    mechanism = smasher.Smasher(sizes, privacy_cost=1.0, default_solver="convex", verbose=False)
    for attributes, factors in queries:
        if len(factors) == len(attributes) > 1:
            asked = query.KronQuery(sizes, attributes, factors)
        else:
            asked = query.MatrixQuery(sizes, attributes, factors[0])
        mechanism.add_queries_to_workload([asked])
    mechanism.optimize()
    return float(mechanism.workload_variance() ** 0.5), time.process_time() - begin


def line(row: Row) -> str:
    """A line of the table."""
    name = row.workload.replace(JOINED, "at-most:16,16 (others summed over)")
    return (
        f"| `{name}` | {row.peer:.2f} | {row.peer_seconds:.1f} | {row.ours:.2f} | {row.bound:.2f} "
        f"({row.ours / row.bound - 1:.2%}) | {row.seconds:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--peer", type=Path, required=True, help="QuerySmasher's folder")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each workload")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(options.peer.resolve()))
    import query
    import smasher

    header = [
        "| workload | QuerySmasher | seconds | ours | lower bound | seconds |",
        "|---|---|---|---|---|---|",
    ]
    found = (
        Row(name, *of_peer(sizes, queries, query, smasher), *certified(name, options.limit))
        for name, sizes, queries in questions()
    )
    write(options.output / "joined", header, found, line, Row)


if __name__ == "__main__":
    main()
