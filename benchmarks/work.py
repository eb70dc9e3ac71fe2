"""How many units of work a second the searches do: what `Work` counts against processor time.

    python benchmarks/work.py

Units are multiplications of a product of matrices; the other operations count as many of these as
take as long. Where the figures of different searches are alike, an effort is as long everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from pmldesign.designs.laplace.course import LaplaceSearch
from pmldesign.privacy.guarantees import PML, Guarantee, PureDP
from pmldesign.workloads import as_workload
from pmldesign_solvers.operators import Work
from pmldesign_solvers.search import cubes

SIZE, LIMIT = 1024, 1e11
"""Of the product that is the unit; units for each search."""
QUESTIONS: tuple[tuple[str, float, Guarantee], ...] = (
    ("prefix:64", 2.0, PureDP(1)),
    ("prefix:64", np.inf, PureDP(1)),
    ("prefix:64", 4.0, PureDP(1)),
    ("prefix:256", 2.0, PureDP(1)),
    ("prefix:1024", 2.0, PureDP(1)),
    ("prefix:8192", 2.0, PureDP(1)),
    ("all-range:64", 2.0, PureDP(1)),
    ("all-range:64", np.inf, PureDP(1)),
    ("prefix:48", 2.0, PureDP(1, "replace")),
    ("prefix:300", 2.0, PureDP(1, "replace")),
    ("prefix:32", 2.0, PML(1, 0.001)),
    ("prefix:8*prefix:8", 2.0, PureDP(1)),
    ("marginals:50,100,7,4,2,ways=2", 2.0, PureDP(1)),
    ("marginals:4^10,ways=2", 2.0, PureDP(1)),
    ("marginals:10^20,ways=2", 2.0, PureDP(1)),
    ("prefix:64*histogram:64+histogram:64*prefix:64", 2.0, PureDP(1)),
)


def rate(search: Callable[[Work], object]) -> tuple[float, float]:
    """Units that a search does, and processor seconds."""
    work, begin = Work(LIMIT), time.process_time()
    search(work)
    return work.spent, time.process_time() - begin


def main() -> None:
    matrix = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    begin = time.process_time()
    matrix @ matrix
    print(f"product: {SIZE**3 / (time.process_time() - begin):.2g} units a second")
    for name, p, guarantee in QUESTIONS:
        workload = as_workload(name)

        def search(work: Work, p: float = p) -> object:
            return LaplaceSearch(workload, guarantee, p, work, 0, 1e-3, None).run([])  # noqa: B023

        units, seconds = rate(search)
        print(
            f"{name}, p = {p:g}, {guarantee}: {units:.2g} in {seconds:.1f} s, {units / seconds:.2g}"
        )
    for name in ("parity:5,1", "all-range:8"):
        asked = as_workload(name).to_dense()
        units, seconds = rate(lambda work: cubes.solve(asked, 2.0, replace=False, work=work))  # noqa: B023
        print(f"cubes {name}: {units:.2g} in {seconds:.1f} s, {units / seconds:.2g}")


if __name__ == "__main__":
    main()
