"""Which baselines are worth their time beside a design that keeps the workload's structure."""

from __future__ import annotations

from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import ApproxPML, EnvelopePML, Guarantee
from pmldesign.neighbours import Neighbours
from pmldesign.workloads import KroneckerWorkload, Workload
from pmldesign.workloads.base import MAX_ENTRIES, WRITTEN_CELLS, count_text
from pmldesign.workloads.union import by_attribute


def require_quick(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> None:
    """Refuse a baseline that is a matrix so large that its row takes minutes.

    Its inverse costs r n min(r, n) for r measurements of n > WRITTEN_CELLS cells, its distances
    under replace r n^2. Under PML with a delta the scale asks for all distances again and again.

    Raises:
        InvalidInputError: it is.
    """
    if name != "workload":
        parts = by_attribute(workload)
    else:
        parts = workload.factors if isinstance(workload, KroneckerWorkload) else (workload,)
    for part in parts:
        m, n = part.shape
        rows = m if name == "workload" else n
        cost = rows * n * (n if relation is Neighbours.REPLACE else min(rows, n))
        often = isinstance(guarantee, ApproxPML | EnvelopePML)
        slow = often or cost > WRITTEN_CELLS**3
        if n > WRITTEN_CELLS and slow and rows * n <= MAX_ENTRIES:  # beyond, it is refused anyway
            raise InvalidInputError(
                f"strategy {name!r} as a matrix of {count_text(rows)} x {count_text(n)} takes"
                " minutes; name it in `pmldesign compare --strategies` if you can wait"
            )
