"""Designs for queries on tables that may overlap: a matrix for each table, over any domain.

The solver's matrices and lower bound (`pmldesign_solvers.joint`); what the strategy is worth is
recomputed from it, for the neighbours that are asked for.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pmldesign.designs.large_replace import SUM_ROUNDING, evaluated
from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.tables.matrices import TableMatricesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.tables.joined import joined_over
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.joint import solve as joint
from pmldesign_solvers.joint.spaces import MOST_CELLS


def joint_question(workload: Workload) -> joint.JointQuestion | None:
    """What the solver is asked; None for other workloads, or tables that are too large."""
    listed = joined_over(workload, workload.domain)
    if listed is None or not joint.affordable(workload.domain, [T for _, T, _ in listed]):
        return None
    check_entries(f"the queries of {workload.name}", (workload.shape[0], MOST_CELLS))
    return joint.JointQuestion.of(
        workload.domain, [(T, scale * queries.to_dense()) for scale, T, queries in listed]
    )


def solve_joined(workload: Workload, p: float, options: DesignOptions) -> Design:
    """A matrix for each table, and its bounds.

    Raises:
        InvalidInputError: tables that are too large, or nothing but the total under replace.
    """
    question = joint_question(workload)
    if question is None:
        raise InvalidInputError(
            f"{workload.name!r} has tables that overlap or come twice: they may have {MOST_CELLS}"
            " cells each, and together as many as all pairs of 41 attributes of 10 values; ask for"
            " fewer values or attributes together"
        )
    if options.replace and not any(question.tables):
        raise InvalidInputError(
            f"workload {workload.name!r}: it asks for nothing but the total, which is public under "
            "replace; take add-remove neighbours to protect the total"
        )
    with as_invalid_input(workload):
        solution = joint.solve(question, p, total=not options.replace, options=options.stopping)
    strategy = TableMatricesStrategy("design", question.sizes, question.tables, solution.rows)
    design = as_design(workload, p, options, strategy, solution)
    public = RECORDS if options.replace else None
    measured = strategy.beside(RECORDS) if public else strategy
    length = measured.sensitivity_under(options.neighbours, "l2")
    asked = workload.beside(RECORDS) if public else workload
    spread = math.sqrt(measured.variance_norm(asked, p / 2))
    certificate = Certificate(solution.certificate.lower, spread * length * (1 + SUM_ROUNDING))
    return replace(
        evaluated(design, measured.scaled(1 / length), certificate, options),
        dual_factors=design.dual_factors,
    )
