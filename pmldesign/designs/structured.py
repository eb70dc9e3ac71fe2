"""The strategy of least norm from the structure of marginals, unions of products or streams."""

from __future__ import annotations

import math
from dataclasses import replace

from pmldesign.designs.large_replace import SUM_ROUNDING, Parts, as_pairs, evaluated
from pmldesign.designs.one_matrix import as_design, as_invalid_input, solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.tables.course import question, solve_tables
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.strategies.streams import AllRangesStrategy, StreamStrategy
from pmldesign.workloads import (
    MarginalsWorkload,
    RangeWorkload,
    TablesWorkload,
    UnionWorkload,
    Workload,
)
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.running import MOST_ARRAYS, AllRangesWorkload
from pmldesign.workloads.union import by_attribute, products_over
from pmldesign_solvers.certificate.product_pairs import lower_of_weights
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.streams.chain import AllRanges
from pmldesign_solvers.unions import solve as unions
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.product_basis import ProductDesign

TABLES_PART = 0.25
"""Of the time for tables, which take little, where a product basis is tried as well."""


def solve_marginals(workload: MarginalsWorkload, p: float, options: DesignOptions) -> Design:
    """The optimal residuals of marginals, over a domain of any size."""
    from pmldesign_solvers.norm.marginals import solve_marginals

    with as_invalid_input(workload):
        solution = solve_marginals(
            workload.sizes,
            workload.subsets,
            workload.weights,
            p,
            relation=options.relation,
            options=options.stopping,
        )
    strategy = MarginalsStrategy("design", workload.sizes, solution.residuals, solution.precisions)
    return as_design(workload, p, options, strategy, solution)


def solve_union(
    workload: UnionWorkload | TablesWorkload, p: float, options: DesignOptions
) -> Design:
    """For a large union of products: blocks of one attribute, tables, or a product basis.

    Where attributes are asked in several ways tables and a product basis are both tried.
    """
    asked = question(workload)
    assert asked is not None
    blocks = len(asked.ordered) < 2 and not options.replace
    parts = None
    if workload.shape[1] <= MAX_PRODUCT_CELLS and (blocks or not asked.uniform):
        parts = products_over(workload, asked.sizes)
    if parts is None:
        return solve_tables(workload, asked, p, options)
    if blocks:
        return _solve_products(workload, parts, p, options)
    limit = options.time_limit
    half = replace(options, time_limit=None if limit is None else limit * TABLES_PART)
    tables = solve_tables(workload, asked, p, half)
    left = None if limit is None else limit - tables.seconds
    over = tables.status is Status.INTERRUPTED or (left is not None and left <= 0)
    if over or tables.certificate.gap <= options.rel_gap:
        return tables
    products = _solve_products(workload, parts, p, replace(options, time_limit=left))
    best = min(tables, products, key=lambda design: design.certificate.upper)
    return replace(best, seconds=tables.seconds + products.seconds)


def _solve_products(
    workload: UnionWorkload | TablesWorkload, parts: Parts, p: float, options: DesignOptions
) -> Design:
    """By blocks of one attribute, or a product basis."""
    with as_invalid_input(workload):
        solution = unions.solve(
            workload,
            parts,
            by_attribute(workload),
            p,
            product=options.replace,
            options=options.stopping,
        )
    design = as_design(workload, p, options, _union_strategy(solution.strategy), solution)
    if not options.replace:
        return design
    lower = lower_of_weights(workload, solution.certificate.lower, solution.dual_u, solution.dual_w)
    return as_pairs(workload, parts, design, lower, p, options)


def solve_stream(workload: Workload, p: float, options: DesignOptions) -> Design:
    """For running sums: a stream with few buffers; under replace beside the total."""
    from pmldesign_solvers.intervals.solve import solve_intervals
    from pmldesign_solvers.streams.solve import solve

    sums = workload.running_sums
    assert sums is not None
    solver = solve_intervals if options.replace else solve
    solution = solver(sums, p, buffers=options.buffers, options=options.stopping)
    strategy = StreamStrategy("design", sums, solution.u, solution.w, solution.nodes)
    design = as_design(workload, p, options, strategy.normalised(), solution)
    if not options.replace:
        return design
    apart = design.strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    value = apart / math.sqrt(2.0) * design.certificate.upper * (1.0 + SUM_ROUNDING)
    upper = min(value, design.certificate.upper)
    certificate = replace(design.certificate, upper=upper)
    return evaluated(design, design.strategy.scaled(1.0 / apart), certificate, options)


def solve_all_ranges(
    workload: RangeWorkload | AllRangesWorkload, p: float, options: DesignOptions
) -> Design:
    """For all intervals, without arrays of them at p = 2.

    Raises:
        InvalidInputError: p above 2, replace neighbours, or another method.
    """
    from pmldesign_solvers.streams.solve import solve

    if p > 2 and workload.listed:
        return solve_matrix(workload, p, options)
    if p > 2 or options.replace or options.method != "scaling":
        raise InvalidInputError(
            f"{workload.name!r} is designed at p = 2, for add-remove neighbours and by method"
            f" 'scaling' alone; up to all-range:{MOST_ARRAYS} everything is"
        )
    ranges = AllRanges(workload.shape[1])
    solution = solve(ranges, p, buffers=options.buffers, options=options.stopping)
    strategy = AllRangesStrategy("design", solution.w, solution.nodes)
    return as_design(workload, p, options, strategy.normalised(), solution)


def _union_strategy(solution: ProductDesign | BlockDesign) -> Strategy:
    of_attributes = solution.bases if isinstance(solution, ProductDesign) else solution.blocks
    measured = [Strategy("design", part.matrix, inverse=part.inverse) for part in of_attributes]
    if isinstance(solution, ProductDesign):
        return ProductStrategy("design", measured, weights=solution.weights)
    return BlockStrategy("design", solution.index, solution.bases, solution.combinations, measured)
