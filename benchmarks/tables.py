"""Tables and census counts beside the peers' own results, in one run.

    python benchmarks/tables.py [--limit SECONDS] [--only TEXT]

Writes results/tables.csv and results/tables.md. Errors are rmse, per query, of Gaussian noise of
scale 1 at sensitivity 1, or of Laplace noise at epsilon = 2^(1/2), the usual convention. The
values of the peers are those of their own code, with its own stopping rules, or published:

    HDMM   McKenna, Miklau, Hay and Machanavajjhala, PVLDB 2018 (github.com/dpcomp-org/hdmm): the
           best of 20 seeds on tables under Laplace noise, OPT_x on the census
    RP+    Xiao, He, Zhang and Kifer, ResidualPlanner+, with prefix attributes

`census-sf1plus` is HDMM's SF1+. The values of QuerySmasher (arXiv 2604.00868) are those of its code
in joined.py, which runs both.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pmldesign.designs import factorize
from pmldesign.designs.laplace.search import laplace_design
from pmldesign.privacy.guarantees import PureDP
from pmldesign.workloads import as_workload

T = TypeVar("T", bound=Any)
GAP = 1e-3
ADULT = (85, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42)
ORDERED = {85, 99, 100}
"""Values of Adult's attributes; those of which running sums are asked."""
ALL_PAIRS = (
    "marginals:" + ",".join(f"prefix{n}" * (n in ORDERED) or str(n) for n in ADULT) + ",ways=2"
)
JOINED = "*".join(
    [f"total:{n}" for n in ADULT[:3]] + ["at-most:16,16"] + [f"total:{n}" for n in ADULT[5:]]
)
"""A table of which each query joins two attributes."""
GAUSSIAN = [
    ("marginals:prefix50,prefix100,7,4,2,ways=1", "RP+", 3.081),
    ("marginals:" + "prefix10," * 40 + "upto=2", "", None),
    ("marginals:prefix10^10,upto=2", "QuerySmasher", 663.55 / math.sqrt(4601)),
    ("marginals:all-range10^10,ways=1+marginals:prefix10^10,ways=2", "", None),
    (f"{ALL_PAIRS}+{JOINED}", "", None),
    ("prefix:64", "QuerySmasher", 17.555 / math.sqrt(64)),
    ("census-sf1", "HDMM", 2.3519),
    ("census-sf1plus", "HDMM", 2.6120),
]
LAPLACE = [
    ("marginals:50,100,7,4,2,ways=3", "HDMM", 4.663),
    ("marginals:50,100,7,4,2,ways=2", "HDMM", 5.099),
    ("marginals:75,16,5,2,20,ways=3", "HDMM", 5.278),
    ("marginals:75,16,5,2,20,ways=2", "HDMM", 6.197),
    ("prefix:64*histogram:64+histogram:64*prefix:64", "HDMM", 5.701),
    ("prefix:256*histogram:256+histogram:256*prefix:256", "identity", 11.336),
]


@dataclass(frozen=True)
class Row:
    """What is found, beside a peer; nothing proves an error under Laplace noise to be the best."""

    workload: str
    noise: str
    peer: str
    published: float | None
    rmse: float
    bound: float | None
    seconds: float


def rows(limit: float, only: str) -> Iterator[Row]:
    """One after the other, for workloads whose name holds a text."""
    for name, peer, published in GAUSSIAN:
        if only in name:
            yield Row(name, "gaussian", peer, published, *gaussian(name, limit))
    for name, peer, published in LAPLACE:
        if only in name:
            yield Row(name, "laplace", peer, published, *laplace(name))


def gaussian(name: str, limit: float) -> tuple[float, float, float]:
    """The rmse of a design, its lower bound, and processor seconds."""
    upper, lower, seconds = certified(name, limit)
    root = math.sqrt(as_workload(name).shape[0])
    return upper / root, lower / root, seconds


def certified(name: str, limit: float) -> tuple[float, float, float]:
    """The root of the total variance of a design, its lower bound, and processor seconds."""
    begin = time.process_time()
    bounds = factorize(as_workload(name), rel_gap=GAP, time_limit=limit).certificate
    return bounds.upper, bounds.lower, time.process_time() - begin


def laplace(name: str) -> tuple[float, None, float]:
    """The rmse of a search, and processor seconds."""
    begin, workload = time.process_time(), as_workload(name)
    found = laplace_design(workload, PureDP(math.sqrt(2))).mechanism
    return found.error(2) / math.sqrt(workload.shape[0]), None, time.process_time() - begin


def line(row: Row) -> str:
    """A line of the table."""
    beside = "" if row.published is None else f"{row.peer} {row.published:g}"
    bound = "" if row.bound is None else f"{row.bound:.4f} ({row.rmse / row.bound - 1:.1%})"
    name = row.workload.replace("prefix10," * 40, "prefix10 (40 times),")
    name = name.replace(JOINED, "at-most:16,16 (others summed over)")
    return f"| `{name}` | {row.noise} | {beside} | {row.rmse:.4f} | {bound} | {row.seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each workload")
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    header = [
        "| workload | noise | peer | rmse | lower bound | seconds |",
        "|---|---|---|---|---|---|",
    ]
    write(options.output / "tables", header, rows(options.limit, options.only), line, Row)


def write(
    path: Path, header: list[str], found: Iterable[T], line: Callable[[T], str], kind: type[T]
) -> None:
    """A .csv and a .md file of rows, each shown and written as it comes."""
    lines = list(header)
    with path.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)])
        writer.writeheader()
        for row in found:
            writer.writerow(asdict(row))
            lines.append(line(row))
            print(lines[-1], file=sys.stderr, flush=True)
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
