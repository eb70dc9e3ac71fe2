"""A P: a workload on what differs between the cells of a group, all else being known."""

from __future__ import annotations

from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import as_workload
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.known.groups import KnownAnswers, known_answers, tells_total
from pmldesign.workloads.known.marginals import KnownMarginals, KnownMargins, known_margins
from pmldesign.workloads.known.margins import KnownProduct, beside_margins
from pmldesign.workloads.public_total import CentredWorkload


class KnownWorkload(DenseWorkload):
    """A P, the queries without what public answers tell, written out.

    Attributes:
        asked: A as it was given.
        known: what is public.

    Raises:
        InvalidInputError: the numbers of cells differ, or are too large.
    """

    def __init__(self, asked: Workload, known: KnownAnswers) -> None:
        cells = asked.shape[1]
        if cells != len(known.groups):
            raise InvalidInputError(
                f"the known answers {known.name!r} are about {len(known.groups)} cells, workload"
                f" {asked.name!r} about {cells}; both must have the same cells"
            )
        if cells > WRITTEN_CELLS:
            raise InvalidInputError(
                f"known answers of this form are for at most {WRITTEN_CELLS} cells, workload"
                f" {asked.name!r} has {cells}; take the total or one table, or fewer cells"
            )
        super().__init__(known.centre(asked.to_dense()), name=asked.name, copy=False)
        self.asked, self.known = asked, known
        self.label = asked.row_label
        plain = asked.unweighted
        self.unweighted = None if plain is None else KnownWorkload(plain, known)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns of a group, rounded up."""
        matrix = self.to_dense()
        groups = [matrix[:, cells] for cells in self.known.members if len(cells) > 1]
        return max(DenseWorkload(block).longest_difference() for block in groups)


BESIDE = (KnownWorkload, KnownProduct, KnownMarginals)
"""Workloads beside more than the number of records."""


def as_asked(workload: Workload) -> Workload:
    """A as it was given, for A P; any other workload itself."""
    return workload.asked if isinstance(workload, (CentredWorkload, *BESIDE)) else workload


def without_public(queries: Workload, workload: Workload) -> Workload:
    """Queries on the cells of a workload, without what is public beside that."""
    if isinstance(workload, BESIDE):
        return given_answers(queries, workload.known)
    return CentredWorkload(queries) if isinstance(workload, CentredWorkload) else queries


def given_answers(workload: Workload, known: Any) -> Workload:
    """The workload beside public answers; itself where these are the number of records alone.

    Args:
        workload: A.
        known: "total", or what `as_workload` takes: K, on the same cells; or their groups.

    Raises:
        InvalidInputError: as `known_answers` and `KnownWorkload`, or `known_margins` and
            `beside_margins`.
    """
    if isinstance(known, str) and known == "total":
        return workload
    table = table_of(known)
    if table is not None:
        return beside_margins(workload, table)
    answers = known if isinstance(known, KnownAnswers) else known_answers(as_workload(known))
    if answers.count == 1 and len(answers.groups) == workload.shape[1]:
        return workload
    return KnownWorkload(workload, answers)


def table_of(known: Any) -> KnownMargins | None:
    """The public table that answers on many cells are; None for the total, and for few cells.

    Raises:
        InvalidInputError: as `known_margins`.
    """
    if isinstance(known, KnownMargins):
        return known
    if isinstance(known, KnownAnswers) or (isinstance(known, str) and known == "total"):
        return None
    queries = as_workload(known)
    if queries.shape[1] <= WRITTEN_CELLS or tells_total(queries):
        return None
    return known_margins(queries)
