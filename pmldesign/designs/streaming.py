"""Which workloads a stream can answer.

Cell j arrives at time j. With a lower-triangular R, measurement i needs no cell after i. Query i is
answered at time i if L, too, is lower triangular; as L = A R^-1, that is so if and only if

    A_ij = 0 for j > i:      query i needs no cell that comes after cell i.

On a product of workloads this is asked of every factor, as R and L are products then.
"""

from __future__ import annotations

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.workloads import Workload, as_terms
from pmldesign_solvers.norm.solution import SolverOptions
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import column_blocks
from pmldesign_solvers.operators.scale import normalised


def require_streaming(workload: Workload, relation: Neighbours, *, full_rank: bool) -> None:
    """Refuse, before the solve, workloads without lower-triangular factors.

    Args:
        workload: A, shape (m, n).
        relation: of neighbours.
        full_rank: whether A has to have rank n, because R will have the rank of A.

    Raises:
        InvalidInputError: replace neighbours, marginals, a query that needs a later cell, or a
            rank below n.
    """
    if relation is Neighbours.REPLACE:
        raise InvalidInputError(
            "`streaming` is for add-remove neighbours: with a public total a strategy has rank"
            " cells - 1 and no lower-triangular form; remove `streaming`"
        )
    asked = as_terms(workload)
    if len(asked.terms) > 1 and len(asked.domain) > 1:
        raise InvalidInputError(
            "`streaming` is for workloads whose cells have an order in time; marginals and tables"
            " have none; remove `streaming`"
        )
    if workload.running_sums is not None:
        return
    factors = workload.factors
    # the programs may return more measurements than the rank of the workload
    if full_rank and any(_rank(factor) < factor.shape[1] for factor in factors):
        raise InvalidInputError(
            f"`streaming` needs a workload of rank {workload.shape[1]}, one for each cell, and"
            f" {workload.name!r} has less: add queries that tell all cells apart, or remove"
            " `streaming`"
        )
    for factor in factors:
        early = first_early(factor)
        if early is not None:
            query, cell = early
            of = "" if factor is workload else f" of the factor {factor.name!r}"
            raise InvalidInputError(
                f"`streaming` answers query i when cell i arrives, but {factor.row_label(query)}"
                f"{of} needs cell {cell}, which comes later: order the queries of"
                f" {workload.name!r} by their last cells, or remove `streaming`"
            )


def _rank(factor: Workload) -> int:
    """The rank of the workload as the solver sees it: scaled, without parts below rounding."""
    return MergedWorkload(normalised(factor, "add-remove", SolverOptions().rel_gap).searched).rank


def first_early(workload: Workload) -> tuple[int, int] | None:
    """The first query i that needs a cell j > i, and the last such cell; None if no query does."""
    m, n = workload.shape
    last = np.full(m, -1)
    if workload.ends is not None:
        starts, stops = workload.ends
        last = np.where(stops > starts, stops - 1, -1)
    else:
        for columns in column_blocks(m, n):
            unit = np.zeros((n, columns.stop - columns.start))
            np.fill_diagonal(unit[columns], 1.0)
            used = workload.matvec(unit) != 0
            final = columns.stop - 1 - used[:, ::-1].argmax(axis=1)
            last = np.where(used.any(axis=1), final, last)
    early = np.flatnonzero(last > np.arange(m))
    return (int(early[0]), int(last[early[0]])) if early.size else None
