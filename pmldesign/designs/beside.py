"""The strategy of least norm beside public answers: for neighbours within groups of cells."""

from __future__ import annotations

from collections.abc import Callable

from pmldesign.designs.nested.course import solve_regions
from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.products import as_product, solve_factors
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.nested import nested_of
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.public import beside_records
from pmldesign.workloads.union import counts_asked
from pmldesign_solvers.norm.marginals import solve_marginals
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator

Solve = Callable[[Workload, float, DesignOptions], Design]
"""`dispatch.solve`."""


def solve_beside(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The strategy of least norm for neighbours that leave the public answers as they are.

    Raises:
        InvalidInputError: add-remove neighbours, another method, or a workload that the public
            answers tell or that is too large.
    """
    if not options.replace:
        raise beside_records(workload.public.name)
    if options.method != "scaling":
        raise InvalidInputError("known answers are for method 'scaling'; leave the method out")
    if workload.public.groups is not None:
        nested = nested_of(workload)
        if nested is None or workload.inner is not nested:
            return _solve_groups(workload, p, options)
        return solve_regions(nested, p, options, workload.public)
    if len(workload.factors) > 1:
        return _solve_product(workload, p, options, solve)
    return _solve_marginals(workload, p, options)


def _solve_product(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The product of least norm beside a public table: its open factor under replace."""
    factors = [
        (factor.whole, Neighbours.REPLACE if factor.public else Neighbours.ADD_REMOVE)
        for factor in workload.factors
    ]
    designs = solve_factors(factors, p, options, solve)
    pairs = zip(designs, workload.factors, strict=True)
    strategies = [design.strategy.beside(factor.public) for design, factor in pairs]
    strategy = ProductStrategy("design", strategies, public=workload.public)
    return as_product(workload, p, options, designs, strategy)


def _solve_marginals(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The residuals of least norm beside a public table, over a domain of any size."""
    counts = counts_asked(workload.whole)
    assert counts is not None
    with as_invalid_input(workload):
        solution = solve_marginals(
            counts.sizes,
            counts.subsets,
            counts.weights,
            p,
            relation="replace",
            known=workload.public.attributes or frozenset(),
            options=options.stopping,
        )
    residuals, precisions = solution.residuals, solution.precisions
    strategy = MarginalsStrategy(
        "design", counts.sizes, residuals, precisions, public=workload.public
    )
    return as_design(workload, p, options, strategy, solution)


def _solve_groups(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The matrix of least norm, by pairs of cells within groups."""
    with as_invalid_input(workload):
        solution = solve_norm(
            DenseOperator(workload.inner.to_dense()),
            p,
            relation="replace",
            groups=workload.public.groups,
            options=options.stopping,
        )
    strategy = Strategy("design", solution.strategy, solution.right_inverse, public=workload.public)
    return as_design(workload, p, options, strategy, solution)
