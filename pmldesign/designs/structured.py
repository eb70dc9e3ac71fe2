"""The strategy of least norm from structure: products, marginals, unions of products or streams.

The design of a product is that of its factors: norms, bounds and strategies multiply.

Where the number of records is public, a strategy for products of attributes is the one that was
found for add-remove neighbours. Neighbours under replace differ by two of its columns, and its
estimates use the known total (`strategies.beside`): that is the upper bound. Lower bounds weigh
pairs of cells by the products w_i w_j of dual weights of cells
(`pmldesign_solvers.certificate.pairs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import SUM_ROUNDING, Design, as_design, as_invalid_input, evaluated
from pmldesign.designs.tables import question, solve_counts, solve_tables
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.elementary import product_strategy
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.streams import AllRangesStrategy, StreamStrategy
from pmldesign.workloads import (
    TermsWorkload,
    Workload,
)
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.running import MOST_ARRAYS, lists_queries
from pmldesign.workloads.terms.over import attribute_queries, products_over
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.pairs import best_duals, lower_of_weights
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import AllRanges
from pmldesign_solvers.unions import solve as unions
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.product_basis import Basis, ProductDesign, residual

LOOSE = 0.01
"""Gap of tables from which on a product basis is tried: below, it has gained at most 0.1% in ten
times as long."""
FACTOR_GAP = 1e-4
"""Of the factors of a product, at most, for bounds under replace that need not meet."""
EQUAL_COLUMNS = 1e-9
"""Relative squared distance of columns that count as equal."""

Parts = Sequence[Sequence[Workload]]
"""For every part of a union its factors, one for each attribute."""
Dual = tuple[Array, Array]
"""Weights u of queries and w of cells."""
Solve = Callable[[Workload, float, DesignOptions], Design]
"""`dispatch.solve`."""


def solve_product(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The product of the factors' designs, evaluated for the requested neighbours.

    Raises:
        InvalidInputError: nothing but the total under replace.
    """
    if not options.replace:
        return _by_factor(workload, p, options, solve)
    if all(is_total(factor) for factor in workload.factors):
        raise InvalidInputError(
            f"workload {workload.name!r}: it asks for nothing but the total, which is public under "
            "replace; take add-remove neighbours to protect the total"
        )
    close = min(options.rel_gap, FACTOR_GAP)
    single = replace(options, neighbours=Neighbours.ADD_REMOVE, rel_gap=close)
    design = _by_factor(workload, p, single, solve)
    duals = [
        (factor, u, w) for factor, (u, w) in zip(workload.factors, design.dual_factors, strict=True)
    ]
    lower, best = best_duals(duals, p)
    design = replace(design, dual_factors=tuple((u, w) for _, u, w in best))
    return as_pairs(workload, [workload.factors], design, lower, p, options)


def _by_factor(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    factors = [(factor, options.neighbours) for factor in workload.factors]
    designs = solve_factors(factors, p, options, solve)
    strategy = product_strategy([design.strategy for design in designs])
    return as_product(workload, p, options, designs, strategy)


def solve_factors(
    factors: Sequence[tuple[Workload, Neighbours]],
    p: float,
    options: DesignOptions,
    solve: Solve,
) -> list[Design]:
    """The design of every factor, each for its own neighbours; equal ones are solved once."""
    # (1 + gap/k)^k <= 1 + 1.8 gap for gap <= 1: leave room for the product of the factors' gaps
    share = replace(options, rel_gap=math.log1p(options.rel_gap) / len(factors))
    solved: dict[tuple[Workload, Neighbours], Design] = {}
    for factor, neighbours in dict.fromkeys(factors):
        solved[factor, neighbours] = solve(factor, p, replace(share, neighbours=neighbours))
    return [solved[entry] for entry in factors]


def as_product(
    workload: Workload,
    p: float,
    options: DesignOptions,
    designs: Sequence[Design],
    strategy: Strategy,
) -> Design:
    """The designs of the factors as the design of the product.

    Args:
        workload: the product.
        p: in [2, inf].
        options: of the design.
        designs: one for each factor.
        strategy: the product of theirs.
    """
    certificate = Certificate(
        lower=_product([design.certificate.lower for design in designs], towards=0.0),
        upper=_product([design.certificate.upper for design in designs], towards=math.inf),
    )
    solved = list(dict.fromkeys(designs))
    stopped = [design.status for design in solved if design.status is not Status.OPTIMAL]
    met = certificate.gap <= options.rel_gap and not stopped
    return Design(
        workload=workload,
        p=p,
        neighbours=options.neighbours,
        strategy=strategy,
        certificate=certificate,
        dual_factors=tuple(pair for design in designs for pair in _expanded(design)),
        status=Status.OPTIMAL if met else (stopped or [Status.STALLED])[0],
        steps=sum(design.steps for design in solved),
        eigendecompositions=sum(design.eigendecompositions for design in solved),
        seconds=sum(design.seconds for design in solved),
    )


def _expanded(design: Design) -> list[Dual]:
    """Weights of queries and cells; those of tables have one number for each table."""
    rows, n = [m for _, m in design.workload.part_rows], design.workload.shape[1]
    if any(len(u) != len(rows) or len(w) == n for u, w in design.dual_factors):
        return list(design.dual_factors)
    return [(np.repeat(u, rows), np.full(n, 1.0 / n)) for u, _ in design.dual_factors]


def _product(values: Sequence[float], *, towards: float) -> float:
    """The product, every rounding in one direction."""
    return reduce(lambda total, value: math.nextafter(total * value, towards), values)


def solve_marginals(workload: TermsWorkload, p: float, options: DesignOptions) -> Design:
    """The optimal contrasts of marginals, over a domain of any size."""
    return solve_counts(workload, workload.domain, workload.subsets, workload.weights, p, options)


def solve_union(workload: TermsWorkload, p: float, options: DesignOptions) -> Design:
    """Solve a large union of products: blocks of one attribute, tables, or a product basis.

    If the bounds of the first of these are LOOSE, another one is tried as well, and the better
    bounds of both are joined.
    """
    asked = question(workload)
    assert asked is not None
    blocks = len(asked.ordered) < 2 and not options.replace
    parts = None
    if workload.shape[1] <= MAX_PRODUCT_CELLS and (blocks or not asked.uniform):
        parts = products_over(workload, asked.sizes)
    if parts is None:
        return solve_tables(workload, asked, p, options)
    products = partial(_solve_products, workload, parts, p, options)
    tables = partial(solve_tables, workload, asked, p, options)
    first, second = (products, tables) if blocks else (tables, products)
    design = first()
    if design.certificate.gap <= max(options.rel_gap, LOOSE) or options.stopping.deadline.over():
        return design
    return design.join(second(), options)


def _solve_products(
    workload: TermsWorkload, parts: Parts, p: float, options: DesignOptions
) -> Design:
    """Blocks of one attribute, or a product basis."""
    attributes = attribute_queries(workload)
    for factor in attributes:
        check_entries(f"the Gram matrix of {factor.name}", (factor.shape[1], factor.shape[1]))
    with as_invalid_input(workload):
        solution = unions.solve(
            workload,
            parts,
            attributes,
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
    """Solve running sums: a stream with few buffers; under replace given the total."""
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


def solve_all_ranges(workload: Workload, p: float, options: DesignOptions) -> Design:
    """Solve all intervals, without arrays of them at p = 2.

    Raises:
        InvalidInputError: p above 2, replace neighbours, or another method.
    """
    from pmldesign_solvers.streams.solve import solve

    if p > 2 and lists_queries(workload):
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


def as_pairs(
    workload: Workload, parts: Parts, design: Design, lower: float, p: float, options: DesignOptions
) -> Design:
    """A design for add-remove neighbours, evaluated under replace.

    Args:
        workload: A, a product or a union of products.
        parts: of the workload.
        design: for add-remove neighbours, with a product strategy.
        lower: a certified lower bound on gamma_(p) under replace.
        p: in [2, inf].
        options: of the design.
    """
    if len(design.strategy.factors) != len(parts[0]):
        raise TypeError(f"a strategy for {workload.name!r} is a product")
    strategy, upper = _under_replace(workload, parts, design.strategy, design.certificate.upper, p)
    return evaluated(design, strategy, Certificate(lower, upper), options)


def is_total(factor: Workload) -> bool:
    """Whether all queries give every cell the same weight."""
    return factor.longest_difference() <= EQUAL_COLUMNS * factor.longest_column()


def _under_replace(
    workload: Workload, parts: Parts, strategy: Strategy, upper: float, p: float
) -> tuple[Strategy, float]:
    """The strategy scaled to l2 sensitivity 1 under replace, and its value there.

    Args:
        workload: A, a product or a union of products.
        parts: of the workload.
        strategy: R, of l2 sensitivity 1 under add-remove.
        upper: its certified value under add-remove.
        p: in [2, inf].

    Returns:
        The strategy, and a certified upper bound on gamma_(p) under replace.
    """
    centred = strategy.beside(RECORDS)
    sensitivity = centred.sensitivity_under(Neighbours.REPLACE, "l2")
    spread = math.sqrt(centred.variance_norm(given_invariants(workload, RECORDS), p / 2))
    bases = [Basis(factor.matrix, factor.pseudo_inverse) for factor in strategy.factors]
    rest = math.sqrt(2 * math.fsum(residual(part, bases) ** 2 for part in parts))
    value = spread * sensitivity * (1 + SUM_ROUNDING) + rest + SUM_ROUNDING * upper
    return strategy.scaled(1 / sensitivity), value
