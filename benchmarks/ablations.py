"""What each capability gains: `python benchmarks/ablations.py [--only TEXT]`.

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
from dataclasses import dataclass

from pmldesign.designs import DesignOptions, factorize, question
from pmldesign.workloads import as_workload


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
        gain = 100 * (self.without_it / self.with_it - 1)
        words = f"{self.capability}: {self.workload}: {self.number} {self.with_it:.6g} with,"
        removed = f", removed after {self.commit}" if self.commit else ""
        return f"{words} {self.without_it:.6g} without, {gain:+.2f}%{removed}"


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


KEPT: list[Callable[[], Iterator[Row]]] = [solver_of_marginals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="capabilities whose name holds this text")
    only = parser.parse_args().only
    for row in REMOVED:
        if only in row.capability:
            print(row)
    for measure in KEPT:
        for row in measure():
            if only in row.capability:
                print(row, flush=True)


if __name__ == "__main__":
    main()
