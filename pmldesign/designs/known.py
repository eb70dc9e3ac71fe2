"""The strategy of least norm beside public answers: for neighbours within groups of cells."""

from __future__ import annotations

from collections.abc import Callable

from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.products import as_product, solve_factors
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import without_total
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies.known import KnownStrategy, known_refusal
from pmldesign.strategies.known_margins import KnownMarginalsStrategy, KnownProductStrategy
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.known.marginals import KnownMarginals
from pmldesign.workloads.known.margins import KnownProduct
from pmldesign.workloads.known.workload import KnownWorkload
from pmldesign.workloads.public_total import CentredWorkload
from pmldesign_solvers.norm.marginals import solve_marginals
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator

Solve = Callable[[Workload, float, DesignOptions], Design]
"""`dispatch.solve`."""


def solve_known_product(
    workload: KnownProduct, p: float, options: DesignOptions, solve: Solve
) -> Design:
    """The product of least norm beside a public table: its open factor under replace.

    Raises:
        InvalidInputError: as `solve_known`.
    """
    _check_options(workload.known.name, options)
    factors: list[tuple[Workload, Neighbours]] = [
        (factor.asked, Neighbours.REPLACE)
        if isinstance(factor, CentredWorkload)
        else (factor, Neighbours.ADD_REMOVE)
        for factor in workload.factors
    ]
    designs = solve_factors(factors, p, options, solve)
    strategies = [
        without_total(design.strategy) if number == workload.place else design.strategy
        for number, design in enumerate(designs)
    ]
    strategy = KnownProductStrategy("design", strategies, workload.known, workload.place)
    return as_product(workload, p, options, designs, strategy)


def solve_known_marginals(workload: KnownMarginals, p: float, options: DesignOptions) -> Design:
    """The residuals of least norm beside a public table, over a domain of any size.

    Raises:
        InvalidInputError: as `solve_known`.
    """
    _check_options(workload.known.name, options)
    counts, known = workload.counts, workload.known
    with as_invalid_input(workload):
        solution = solve_marginals(
            counts.sizes,
            counts.subsets,
            counts.weights,
            p,
            relation="replace",
            known=known.attributes,
            options=options.stopping,
        )
    residuals = MarginalsStrategy("design", counts.sizes, solution.residuals, solution.precisions)
    strategy = KnownMarginalsStrategy(residuals, known)
    return as_design(workload, p, options, strategy, solution)


def solve_known(workload: KnownWorkload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm for neighbours that leave the known answers as they are.

    Raises:
        InvalidInputError: add-remove neighbours, another method, or a workload that the known
            answers tell or that is too large.
    """
    known = workload.known
    _check_options(known.name, options)
    matrix = known.relative(workload.asked.to_dense())
    with as_invalid_input(workload):
        solution = solve_norm(
            DenseOperator(matrix),
            p,
            relation="replace",
            groups=known.groups,
            options=options.stopping,
        )
    strategy = KnownStrategy("design", solution.strategy, known, solution.right_inverse)
    return as_design(workload, p, options, strategy, solution)


def _check_options(known: str, options: DesignOptions) -> None:
    """Refuse add-remove neighbours and methods for matrices."""
    if not options.replace:
        raise known_refusal(known)
    if options.method != "scaling":
        raise InvalidInputError("known answers are for method 'scaling'; leave the method out")
