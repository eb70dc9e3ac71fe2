"""Which baselines are worth their time beside a design that keeps the workload's structure.

The cost of the row of a strategy of r measurements on n cells, in multiplications and the like:

    trees, Haar, identity            n^2, or r n under PML for each cell: all distances of cells
    ranges themselves                n^3: the Gram matrix and its inverse
    any other queries, add-remove    r n min(r, n): the pseudo-inverse
    under replace                    r n^2: the distances of cells
"""

from __future__ import annotations

from collections.abc import Iterator

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies.baselines.registry import long_baseline
from pmldesign.workloads import KroneckerWorkload, Workload
from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, count_text
from pmldesign.workloads.union import by_attribute

CHEAP = ("tree", "haar", "identity")
SPEED = 3e8
"""Of these a second, at least, in the pseudo-inverse of a wide matrix, the slowest of them."""


def require_quick(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> None:
    """Refuse a baseline whose row takes minutes.

    Raises:
        InvalidInputError: it does.
    """
    for rows, n, cost in _costs(name, workload, guarantee, relation):
        loose = guarantee is not None and guarantee.pml and guarantee.delta > 0
        often = n > WRITTEN_CELLS and loose
        slow = often or cost > WRITTEN_CELLS**3
        if n <= WRITTEN_CELLS:
            slow = cost > WRITTEN_CELLS**3 and name == "workload"
        if slow and rows * n <= MAX_ENTRIES:  # beyond, it is refused anyway
            raise InvalidInputError(
                f"strategy {name!r} as a matrix of {count_text(rows)} x {count_text(n)} takes"
                " minutes; name it in `pmldesign compare --strategies` if you can wait"
            )


def row_seconds(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> float:
    """About how long the row of a baseline takes, rather more than less."""
    return sum(cost for _, _, cost in _costs(name, workload, guarantee, relation)) / SPEED


def _costs(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> Iterator[tuple[int, int, int]]:
    """Measurements, cells and cost of the row, for every attribute."""
    if long_baseline(name, workload) is not None and relation is Neighbours.ADD_REMOVE:
        return
    if name != "workload":
        parts = by_attribute(workload)
    else:
        parts = workload.factors if isinstance(workload, KroneckerWorkload) else (workload,)
    for part in parts:
        m, n = part.shape
        rows = m if name == "workload" else n
        cost = rows * n * (n if relation is Neighbours.REPLACE else min(rows, n))
        if n <= WRITTEN_CELLS and not (guarantee is not None and guarantee.pml):
            if name in CHEAP:
                cost = n**2
            elif name == "workload" and part.binary and m >= n:
                cost = n**3
        yield rows, n, cost
