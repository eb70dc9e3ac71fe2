"""The strategy of least norm for a workload as one matrix, by the certified solver or a program."""

from __future__ import annotations

import math

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design, as_design, as_invalid_input
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.strategies import Strategy
from pmldesign.strategies.base import spare_answers
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.limits import MAX_PROGRAM_SIZE
from pmldesign_solvers.norm.solution import Solution
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.operator import power_mean


def solve_matrix(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm for a workload of any form, taken as one matrix.

    Raises:
        InvalidInputError: a workload that is all zero, or too large for the method.
        NotConvergedError: the convex solver returned no point at all.
    """
    remedy = "take a smaller workload"
    if options.method != "scaling" and workload.domain:
        remedy += ", or method 'scaling', for which a workload of this form keeps its structure"
    m, n = workload.shape
    wide = options.method == "scaling" and not options.replace and m < n
    check_entries("the strategy", (m if wide else n, n), remedy=remedy)
    with as_invalid_input(workload):
        if options.method == "scaling":
            solution = solve_norm(workload, p, relation=options.relation, options=options.stopping)
        else:
            solution = _solve_program(workload, p, options)
    strategy = Strategy("design", solution.strategy, inverse=solution.right_inverse)
    if wide:
        spare_answers(strategy, workload, _missed(workload, solution, p))
    return as_design(workload, p, options, strategy, solution)


def _missed(workload: Workload, solution: Solution, p: float) -> float:
    """The upper bound of a wide strategy minus the value of L: the contribution of A - L R."""
    size = float(np.sqrt(np.einsum("ij,ij->j", solution.strategy, solution.strategy).max()))
    variances = workload.row_norms(solution.right_inverse)
    return solution.certificate.upper - size * math.sqrt(power_mean(variances, p / 2))


def _solve_program(workload: Workload, p: float, options: DesignOptions) -> Solution:
    from pmldesign_solvers.oracle import programs

    solver, (m, n) = options.solver.upper(), workload.shape
    if m + n > MAX_PROGRAM_SIZE.get(solver, m + n):
        raise InvalidInputError(
            f"method {options.method!r} with solver {solver} is for workloads with at most "
            f"{MAX_PROGRAM_SIZE[solver]} queries and cells together, got {m} + {n}; use method "
            "'scaling'"
        )
    try:
        return programs.solve(
            workload.to_dense(),
            p,
            relation=options.relation,
            form="primal" if options.method == "primal" else "dual",
            solver=solver,
            rel_gap=options.rel_gap,
            time_limit=options.stopping.deadline.left(),
        )
    except programs.ProgramError as error:
        raise NotConvergedError(str(error)) from error
