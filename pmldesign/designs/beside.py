"""The strategy of least norm given the invariants: for neighbours within groups of cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmldesign.designs.nested import solve_regions
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design, as_design, as_invalid_input, evaluated
from pmldesign.designs.structured import Solve, as_product, solve_factors
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.nested import nested_of
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.public import beside_records
from pmldesign.workloads.terms.over import as_terms
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.pairs import lower_bound
from pmldesign_solvers.norm.marginals import solve_marginals
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator


def solve_beside(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The strategy of least norm for neighbours that agree on the public answers.

    Raises:
        InvalidInputError: add-remove neighbours, another method, or a workload that the public
            answers determine or that is too large.
    """
    if not options.replace:
        raise beside_records(workload.public.name)
    if options.method != "scaling":
        raise InvalidInputError("known answers are for method 'scaling'; remove `method`")
    if workload.public.groups is not None:
        nested = nested_of(workload)
        if nested is None or workload.inner is not nested:
            return _solve_groups(workload, p, options)
        return solve_regions(nested, p, options, workload.public)
    if len(workload.factors) > 1:
        return _solve_product(workload, p, options, solve)
    return _solve_marginals(workload, p, options)


def _solve_product(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The product of least norm given a public table: its open factor under replace."""
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
    """The residuals of least norm given public tables, over a domain of any size."""
    counts = as_terms(workload.whole)
    if not counts.counts or counts.repeats:
        return _solve_few(workload, p, options)
    with as_invalid_input(workload):
        solution = solve_marginals(
            counts.domain,
            counts.subsets,
            counts.weights,
            p,
            relation="replace",
            known=workload.public.known_tables or ((),),
            options=options.stopping,
        )
    residuals, precisions = solution.residuals, solution.precisions
    strategy = TablesStrategy(
        "design", counts.domain, residuals, precisions, public=workload.public
    )
    return as_design(workload, p, options, strategy, solution)


def _solve_few(workload: Workload, p: float, options: DesignOptions) -> Design:
    """A matrix for few cells given several public tables: the best one that measures A P.

    Other matrices also measure public answers, which may bring cells closer: bounds need not meet.
    """
    design = _solve_groups(workload, p, options)
    n = workload.shape[1]
    values, vectors = np.linalg.eigh(workload.public.centre(np.eye(n)))
    queries, basis = workload.to_dense(), vectors[:, values > 0.5]
    weights = (design.dual_w, 1 - np.eye(n))
    bounds = [lower_bound(queries, basis, design.dual_u, w, p) for w in weights]
    best = int(np.argmax(bounds))
    design = replace(design, dual_factors=((design.dual_u, weights[best]),))
    certificate = Certificate(bounds[best], design.certificate.upper)
    return evaluated(design, design.strategy, certificate, options)


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
    public = workload.public
    if public.several:
        strategy = Strategy("design", solution.strategy, solution.right_inverse).beside(public)
    else:
        strategy = Strategy("design", solution.strategy, solution.right_inverse, public=public)
    return as_design(workload, p, options, strategy, solution)
