"""The parts of a workload: those of a union, or the tables of marginals."""

from __future__ import annotations

from collections.abc import Sequence

from pmldesign.workloads import UnionWorkload, Workload
from pmldesign.workloads.tables.base import AttributeTables


def parts_of(workload: Workload) -> Sequence[str]:
    """What the parts of a union are called, or the tables of marginals: by their attributes."""
    if isinstance(workload, UnionWorkload):
        return [part.name for part in workload.parts]
    if isinstance(workload, AttributeTables):
        names = workload.name.split("+")
        if len(names) == len(workload.subsets):
            return [name.strip() for name in names]
        return ["*".join(map(str, subset)) or "total" for subset in workload.subsets]
    return [workload.name]


def part_queries(workload: Workload) -> Sequence[int]:
    """How many queries each of `parts_of` has, in the order of the queries."""
    if isinstance(workload, UnionWorkload):
        return [part.shape[0] for part in workload.parts]
    if isinstance(workload, AttributeTables):
        return workload.table_queries
    return [workload.shape[0]]
