"""The strategy of least norm beside public answers: for neighbours within groups of cells."""

from __future__ import annotations

from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.known import KnownStrategy, known_refusal
from pmldesign.workloads.known.workload import KnownWorkload
from pmldesign_solvers.groups.solve import solve_groups


def solve_known(workload: KnownWorkload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm for neighbours that leave the known answers as they are.

    Raises:
        InvalidInputError: add-remove neighbours, another method, or a workload that the known
            answers tell or that is too large.
    """
    known = workload.known
    if not options.replace:
        raise known_refusal(known.name)
    if options.method != "scaling":
        raise InvalidInputError("known answers are for method 'scaling'; leave the method out")
    matrix = known.relative(workload.asked.to_dense())
    with as_invalid_input(workload):
        solution = solve_groups(matrix, known.groups, p, options=options.stopping)
    strategy = KnownStrategy("design", solution.strategy, known, solution.right_inverse)
    return as_design(workload, p, options, strategy, solution)
