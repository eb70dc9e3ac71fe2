"""Which solver takes which workload.

product, add-remove         factor by factor: gamma_(p)(A x B) = gamma_(p)(A) gamma_(p)(B), since
                            the product of feasible factorizations is feasible for A x B, and so
                            is the product of dual points
product, replace            as one matrix up to DENSE_CELLS different cells; beyond, the strategy
                            for add-remove, with bounds that need not meet (`product_replace`)
marginals                   by their residual spaces, exactly, over domains of any size
union of products           as one matrix up to DENSE_CELLS cells, or if its queries are few;
                            else by blocks of one attribute, exactly where the others are asked
                            by histograms and totals (add-remove); or a strategy in a product
                            basis, with bounds that need not meet
anything else, and          as one matrix
semidefinite programs
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.limits import Limits, Solved
from pmldesign.product_replace import (
    Parts,
    as_pairs,
    is_total,
    lower_of_parts,
    lower_of_weights,
)
from pmldesign.strategies import (
    BlockStrategy,
    MarginalsStrategy,
    ProductStrategy,
    Strategy,
    kronecker,
)
from pmldesign.workloads import KroneckerWorkload, MarginalsWorkload, UnionWorkload, Workload
from pmldesign.workloads.base import MAX_ENTRIES, check_entries
from pmldesign.workloads.union import by_attribute, products_over
from pmldesign_solvers import gamma, product_pairs, unions
from pmldesign_solvers.block_design import BlockDesign
from pmldesign_solvers.certificate import Certificate, Kind
from pmldesign_solvers.product_basis import ProductDesign
from pmldesign_solvers.solution import Solution, Status
from pmldesign_solvers.unions import UnionSolution

DENSE_CELLS = 2048
"""Largest number of cells of a union of products that is solved as one matrix.

One with fewer queries is, if a step on it costs no more.
"""
DENSE_ENTRIES = 2**26
"""Largest number of entries of such a union (512 MiB)."""
STRUCTURED = (KroneckerWorkload, MarginalsWorkload, UnionWorkload)
"""Workloads that are not solved as one matrix, or not always."""
FACTOR_GAP = 1e-4
"""Of the factors of products, at most, for bounds under replace that need not meet."""
MAX_PROGRAM_SIZE = 400
"""Rows and columns of the matrix variable of a semidefinite program, together."""


def solve(workload: Workload, p: float, limits: Limits) -> Solved:
    """The strategy of least norm that the right solver finds.

    Raises:
        InvalidInputError: a workload that is all zero, or too large for the method.
        NotConvergedError: the convex solver returned no point at all.
    """
    structured = limits.method == "scaling"
    if structured and isinstance(workload, MarginalsWorkload):
        return _solve_marginals(workload, p, limits)
    if structured and isinstance(workload, KroneckerWorkload):
        if limits.kind == "cells":
            return _solve_product(workload, p, limits)
        if not _is_dense(workload):
            return _solve_product_pairs(workload, p, limits)
    if structured and isinstance(workload, UnionWorkload) and not dense(workload, limits.kind):
        sizes = tuple(one.shape[1] for one in by_attribute(workload))
        parts = products_over(workload, sizes)
        if len(sizes) > 1 and parts is not None:
            return _solve_union(workload, parts, p, limits)
    remedy = "take a smaller workload"
    if limits.method != "scaling" and isinstance(workload, STRUCTURED):
        remedy += ", or method 'scaling', for which a workload of this form keeps its structure"
    m, n = workload.shape
    wide = limits.method == "scaling" and limits.kind == "cells" and m < n
    check_entries("the strategy", (m if wide else n, n), remedy=remedy)
    return _solve_matrix(workload, p, limits)


def dense(workload: UnionWorkload, kind: Kind = "cells") -> bool:
    """Whether a union is solved as one matrix."""
    m, n = workload.shape
    few = m * m * n <= DENSE_CELLS**3 and m * n <= DENSE_ENTRIES
    return n <= DENSE_CELLS or (kind == "cells" and few)


def _solve_product(workload: KroneckerWorkload, p: float, limits: Limits) -> Solved:
    factors = workload.factors
    # (1 + gap/k)^k <= 1 + 1.8 gap for gap <= 1: leave room for the product of the factors' gaps
    share = replace(limits, rel_gap=math.log1p(limits.rel_gap) / len(factors))
    found = {factor: solve(factor, p, share) for factor in dict.fromkeys(factors)}
    all_found = [found[factor] for factor in factors]
    certificate = Certificate(
        lower=_product([one.certificate.lower for one in all_found], towards=0.0),
        upper=_product([one.certificate.upper for one in all_found], towards=math.inf),
    )
    stopped = [one.status for one in found.values() if one.status is not Status.OPTIMAL]
    met = certificate.gap <= limits.rel_gap and not stopped
    return Solved(
        strategy=kronecker([one.strategy for one in all_found]),
        certificate=certificate,
        dual_factors=tuple(pair for one in all_found for pair in one.dual_factors),
        status=Status.OPTIMAL if met else (stopped or [Status.STALLED])[0],
        steps=sum(one.steps for one in found.values()),
        eigendecompositions=sum(one.eigendecompositions for one in found.values()),
        seconds=sum(one.seconds for one in found.values()),
    )


def _is_dense(workload: KroneckerWorkload) -> bool:
    """Whether a product under replace is solved as one matrix: few distinct cells."""
    queries, cells = workload.shape
    if cells > DENSE_CELLS and workload.distinct_shape[1] > DENSE_CELLS:
        return False
    return max(queries, cells) * cells <= MAX_ENTRIES


def _solve_product_pairs(workload: KroneckerWorkload, p: float, limits: Limits) -> Solved:
    """The best product for add-remove neighbours, as what it is worth under replace."""
    if all(is_total(factor) for factor in workload.factors):
        raise InvalidInputError(
            f"workload {workload.name!r}: it asks for nothing but the total, which is public under "
            "replace; take add-remove neighbours to protect the total"
        )
    close = min(limits.rel_gap, FACTOR_GAP)
    found = _solve_product(workload, p, replace(limits, kind="cells", rel_gap=close))
    duals = [
        (factor, u, w) for factor, (u, w) in zip(workload.factors, found.dual_factors, strict=True)
    ]
    lower, best = product_pairs.best_duals(duals, p)
    found = replace(found, dual_factors=tuple((u, w) for _, u, w in best))
    return as_pairs(workload, [workload.factors], found, lower, p, limits)


def _solve_marginals(workload: MarginalsWorkload, p: float, limits: Limits) -> Solved:
    from pmldesign_solvers.marginals import solve_marginals
    from pmldesign_solvers.marginals_pairs import solve_marginal_pairs

    solver = solve_marginals if limits.kind == "cells" else solve_marginal_pairs
    with _as_invalid_input(workload):
        found = solver(
            workload.sizes,
            workload.subsets,
            workload.weights,
            p,
            rel_gap=limits.rel_gap,
            max_steps=limits.max_steps,
            time_limit=limits.time_limit,
            callback=limits.callback,
        )
    return Solved(
        strategy=MarginalsStrategy("design", workload.sizes, found.residuals, found.precisions),
        certificate=found.certificate,
        dual_factors=((found.dual_u, found.dual_w),),
        status=found.status,
        steps=found.steps,
        eigendecompositions=0,
        seconds=found.seconds,
    )


def _solve_union(workload: UnionWorkload, parts: Parts, p: float, limits: Limits) -> Solved:
    with _as_invalid_input(workload):
        found = unions.solve(
            workload,
            parts,
            by_attribute(workload),
            p,
            product=limits.kind == "pairs",
            rel_gap=limits.rel_gap,
            max_steps=limits.max_steps,
            time_limit=limits.time_limit,
            callback=limits.callback,
        )
    solved = _solved(_union_strategy(found.strategy), found)
    if limits.kind == "cells":
        return solved
    lower = max(
        lower_of_parts(parts, p, rel_gap=FACTOR_GAP),
        lower_of_weights(workload, found.dual_lower, found.dual_u, found.dual_w),
    )
    return as_pairs(workload, parts, solved, lower, p, limits)


def _union_strategy(found: ProductDesign | BlockDesign) -> Strategy:
    of_attributes = found.bases if isinstance(found, ProductDesign) else found.blocks
    measured = [Strategy("design", one.matrix, inverse=one.inverse) for one in of_attributes]
    if isinstance(found, ProductDesign):
        return ProductStrategy("design", measured, weights=found.weights)
    return BlockStrategy("design", found.index, found.bases, found.combinations, measured)


def _solve_matrix(workload: Workload, p: float, limits: Limits) -> Solved:
    with _as_invalid_input(workload):
        if limits.method == "scaling":
            found = gamma.solve(
                workload,
                p,
                kind=limits.kind,
                rel_gap=limits.rel_gap,
                max_steps=limits.max_steps,
                time_limit=limits.time_limit,
                device=limits.device,
                callback=limits.callback,
            )
        else:
            found = _solve_program(workload, p, limits)
    return _solved(Strategy("design", found.strategy, inverse=found.basis), found)


def _solved(strategy: Strategy, found: Solution | UnionSolution) -> Solved:
    return Solved(
        strategy=strategy,
        certificate=found.certificate,
        dual_factors=((found.dual_u, found.dual_w),),
        status=found.status,
        steps=found.steps,
        eigendecompositions=found.eigendecompositions,
        seconds=found.seconds,
    )


def _solve_program(workload: Workload, p: float, limits: Limits) -> Solution:
    from pmldesign_solvers import programs, semidefinite

    if sum(workload.shape) > MAX_PROGRAM_SIZE:
        m, n = workload.shape
        raise InvalidInputError(
            f"method {limits.method!r} is for workloads with at most {MAX_PROGRAM_SIZE} queries "
            f"and cells together, got {m} + {n}; use method 'scaling'"
        )
    try:
        return programs.solve(
            workload.to_dense(),
            p,
            kind=limits.kind,
            form="primal" if limits.method == "primal" else "dual",
            solver=limits.solver.upper(),
            rel_gap=limits.rel_gap,
            time_limit=limits.time_limit,
        )
    except semidefinite.ProgramError as error:
        raise NotConvergedError(str(error)) from error


@contextmanager
def _as_invalid_input(workload: Workload) -> Iterator[None]:
    """What a solver refuses is the workload's fault."""
    try:
        yield
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error


def _product(values: Sequence[float], *, towards: float) -> float:
    """The product, every rounding in one direction."""
    return reduce(lambda total, value: math.nextafter(total * value, towards), values)
