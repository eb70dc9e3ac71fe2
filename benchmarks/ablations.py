"""What each capability gains: `python benchmarks/ablations.py > benchmarks/results/ablations.md`.

A capability stays if it gains at least 1% of the error, or of a bound, on a workload that users
have. Each line compares a number with and without it. Lines of code that is
still there are measured now, in about a minute; those of code that was removed are recorded, with
the last commit that had it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pmldesign.designs import (
    DesignOptions,
    factorize,
    gaussian_design,
    laplace_design,
    question,
)
from pmldesign.errors import PmldesignError
from pmldesign.factorization import answer
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxPML, Neighbours, PureDP
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import Workload, as_workload


@dataclass(frozen=True)
class Row:
    """A number with and without a capability.

    Attributes:
        capability: what is left out.
        workload: on which it is measured, with p and neighbours if they matter.
        number: "error" of a strategy, "bound" below all errors, or processor "seconds".
        with_it, without_it: the number.
        commit: the last one that had the capability; "" if it is still there.
    """

    capability: str
    workload: str
    number: str
    with_it: float
    without_it: float
    commit: str = ""

    def __str__(self) -> str:
        gain = f"{100 * (self.without_it / self.with_it - 1):+.2f}%"
        kept = f"removed after {self.commit}" if self.commit else "kept"
        numbers = f"{self.number} | {self.with_it:.6g} | {self.without_it:.6g} | {gain}"
        return f"| {self.capability} | `{self.workload}` | {numbers} | {kept} |"


COUPLINGS = "couplings of ordered attributes"
"""Features of ordered attributes that are measured together: p = 2 and 4 under add-remove."""
REMOVED = [
    Row(COUPLINGS, workload, number, with_it, without_it, "3293065d")
    for workload, number, with_it, without_it in (
        ("marginals:prefix30,prefix30,prefix30,ways=2", "error", 1.0, 1.00347),
        ("marginals:prefix30,prefix30,prefix30,ways=2, p = 4", "error", 1.0, 1.00363),
        ("marginals:prefix16^3,ways=2", "error", 1.0, 1.00333),
        ("marginals:prefix100,2,5,prefix20,ways=2", "error", 251.868, 252.332),
        ("marginals:prefix100,2,5,prefix20,ways=2", "bound", 251.684, 251.684),
        ("marginals:prefix10^10,upto=2", "error", 9.41411, 9.41996),
        ("fourteen attributes of a census, upto=3", "error", 218783, 219341),
        ("fourteen attributes of a census, upto=3", "bound", 217121, 217121),
        ("unions in two ways, of 3072 and 4096 cells", "error", 1.0, 1.0),
    )
]
"""Unions in two ways are measured in a product basis, or as one matrix up to 2048 cells."""
TREES, CHARACTERS = "trees over long running sums", "baselines of characters"
REMOVED += [
    Row(TREES, "prefix:100000", "error", 1390.39, 1390.39, "214b47b6"),
    Row(CHARACTERS, "prefix:32", "error", 10.7033, 10.7033, "d0b3101e"),
    Row(CHARACTERS, "prefix:32, p = inf", "error", 1.90545, 1.90545, "d0b3101e"),
]
"""Rows to compare with: Fourier and Hadamard bases have the error of the identity, the roots of
circulant matrices 11.1635 and 1.97345. The design is better than all of them."""


def solver_of_marginals() -> Iterator[Row]:
    """The solver of counts under add-remove beside that of all tables, which has it as a case."""
    for name, p in (
        ("marginals:50^100,ways=2", math.inf),
        ("marginals:10^85,ways=3", 2.0),
        ("marginals:10^85,ways=3", math.inf),
    ):
        workload, options = as_workload(name), DesignOptions()
        begin = time.process_time()
        own = factorize(workload, p=p)
        middle = time.process_time()
        other = _as_tables(workload, p, options)
        end = time.process_time()
        label = f"{name}, p = {p:g}"
        yield Row("solver of counts", label, "seconds", middle - begin, end - middle)
        yield Row("solver of counts", label, "error", own.certificate.upper, other)


def _as_tables(workload: object, p: float, options: DesignOptions) -> float:
    """The error by the solver of tables, which is not asked about counts alone."""
    from pmldesign_solvers.tables.solve import solve

    return solve(question(workload), p, options=options.stopping).certificate.upper


def search_under_pml() -> Iterator[Row]:
    """The descent for Gaussian noise under PML beside the strategy of least norm."""
    for name, p, epsilon, delta, part in (
        ("prefix:64", 2.0, 1.0, 1e-6, 0.5),
        ("prefix:32", 2.0, 0.1, 1e-4, 0.9),
        ("prefix:32", math.inf, 0.1, 1e-4, 0.9),
    ):
        workload = as_workload(name)
        promise = ApproxPML(epsilon, delta, alpha=part / workload.shape[1])
        found = gaussian_design(factorize(workload, p=p, neighbours="replace"), promise)
        label = f"{name}, p = {p:g}, {epsilon:g},{delta:g},{part:g}/n"
        errors = found.mechanism.error(p), found.before.error(p)
        yield Row("search under PML", label, "error", *errors)


def search_for_laplace() -> Iterator[Row]:
    """The search for Laplace noise beside the best of the strategies that it starts from."""
    for name in ("prefix:64", "random-range:200,64", "marginals:50,100,7,4,2,ways=2"):
        workload = as_workload(name)
        found = laplace_design(workload, PureDP(1.0))
        others = [factorize(workload).strategy]
        for known in ("identity", "workload", "tree", "haar", "weighted-tree"):
            with suppress(PmldesignError):
                others.append(baseline(known, workload))
        noisy = [_laplace_error(strategy, workload) for strategy in others]
        yield Row("search for Laplace", name, "error", found.mechanism.error(2.0), min(noisy))


def _laplace_error(strategy: Strategy, workload: Workload) -> float:
    return mechanism(strategy, workload, guarantee=PureDP(1.0), noise="laplace").error(2.0)


def streams() -> Iterator[Row]:
    """The best buffers of running sums beside the square root, which needs all inputs."""
    for name in ("prefix:2048", "decay:4096,0.99"):
        workload = as_workload(name)
        for p in (2.0, math.inf):
            root = answer(baseline("square-root", workload), workload, Neighbours.ADD_REMOVE)
            best = factorize(workload, p=p).certificate.upper
            yield Row("streams", f"{name}, p = {p:g}", "error", best, root.norm(p))


KEPT: list[Callable[[], Iterator[Row]]] = [
    solver_of_marginals,
    search_under_pml,
    search_for_laplace,
    streams,
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="capabilities whose name holds this text")
    only = parser.parse_args().only
    print("| capability | workload | number | with it | without it | gain | |")
    print("|---|---|---|---|---|---|---|")
    for row in REMOVED:
        if only in row.capability:
            print(row)
    for measure in KEPT:
        for row in measure():
            if only in row.capability:
                print(row, flush=True)


if __name__ == "__main__":
    main()
