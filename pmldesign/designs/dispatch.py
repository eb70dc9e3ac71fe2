"""From a workload and p to the strategy of least norm: which solver takes which workload.

product, add-remove         factor by factor: gamma_(p)(A x B) = gamma_(p)(A) gamma_(p)(B), since
                            the product of feasible factorizations is feasible for A x B, and so
                            is the product of dual points
product, replace            as one matrix up to DENSE_CELLS different cells; beyond, the strategy
                            for add-remove, with bounds that need not meet (`structured`)
marginals                   by their residual spaces, exactly, over domains of any size
tables, union of products   as one matrix up to DENSE_CELLS cells, or if that costs no more;
                            else by blocks of one attribute, exactly where the others are asked
                            by histograms and totals (add-remove); else, with bounds that need not
                            meet, where each attribute has one relation of queries beside totals
                            through its coordinates, over domains of any size (`tables`);
                            or a strategy in a product basis
tables that overlap         beyond DENSE_CELLS cells each by a matrix of its own, over domains of
                            any size, with bounds that need not meet (`tables`)
all ranges, p = 2           beyond STREAM_CELLS cells in O(n K), without arrays of queries
running sums                beyond STREAM_CELLS steps in O(n K), as a stream with K buffers; under
                            replace beyond PUBLIC_CELLS, with bounds 0.3 to 0.6 % apart
public answers              of a table a product, its open attributes under replace, or marginals;
                            of groups one matrix, by pairs of cells within them (`beside`)
regions that nest,          beyond REGION_CELLS cells in O(n K): bounds from the tree, a count or
with tables or without      tables for each region, with weights of their own; counts also as one
                            matrix up to DENSE_CELLS cells where these are far from the bound
more than DENSE_CELLS       under replace the best of strategies that are known, with bounds that
different cells             need not meet (`large_matrix`); of very many cells, fewer of which
                            differ, these alone as one matrix
several participations      as fixed epochs, or the best of several forms (`participation`)
anything else, and          as one matrix
semidefinite programs

For Gaussian noise the exact error of a strategy R with reconstruction L, L R = A, is proportional
to tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2, whose minimum is the factorization norm
gamma_(p)(A) [ZLU, Definition A.3]: the strategy that attains it is optimal for every
(epsilon, delta).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

from pmldesign.arguments import exponent
from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignArguments, DesignOptions, takes_options
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.workloads import (
    JoinedWorkload,
    KroneckerWorkload,
    MarginalsWorkload,
    RangeWorkload,
    TablesWorkload,
    UnionWorkload,
    Workload,
    WorkloadLike,
)
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.limits import (
    DENSE_CELLS,
    DENSE_ENTRIES,
    LEAST_CELLS,
    MAX_ENTRIES,
    PUBLIC_CELLS,
    REGION_CELLS,
    REGION_CELLS_AT_INF,
    ROUGH_CELLS,
    STREAM_CELLS,
)

LOOSE = 0.01
"""Gap of counts or tables of regions from which on one matrix of up to DENSE_CELLS cells is tried:
trees of ten levels and more, weights that differ from place to place, many tables, and p = inf."""
FACTOR_GAP = 1e-4
"""Of the factors of a product, at most, for bounds under replace that need not meet."""


@dataclass(frozen=True, slots=True)
class Route:
    """A form of workloads, and who solves it.

    Attributes:
        name: in a word or two.
        accepts: whether it is for this workload with these options.
        solve: the strategy of least norm, with its certificate.
        buffers: whether its strategies may be given a number of buffers.
    """

    name: str
    accepts: Callable[[Any, DesignOptions], bool]
    solve: Callable[[Any, float, DesignOptions], Design]
    buffers: bool = False


def route(workload: Workload, options: DesignOptions) -> Route:
    """The first of the ROUTES that is for this workload."""
    return next(way for way in ROUTES if way.accepts(workload, options))


def solve(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm that the right solver finds.

    Raises:
        InvalidInputError: a workload that is all zero, or too large for the method, or buffers for
            what has none.
        NotConvergedError: the convex solver returned no point at all.
    """
    options = options.begun
    if options.schema is not None:
        from pmldesign.designs.participation.course import solve_participation

        return solve_participation(workload, p, options, solve)
    chosen = route(workload, options)
    if options.buffers is not None and not chosen.buffers:
        raise InvalidInputError(
            "buffers are for running sums and method 'scaling', under replace for running sums of"
            f" more than {LEAST_CELLS} steps in which nothing fades, and {workload.name!r} is none;"
            " leave them out"
        )
    return chosen.solve(workload, p, options)


def dense(workload: Workload, options: DesignOptions) -> bool:
    """Whether a union is solved as one matrix: few cells, or as much work as a step on so many."""
    m, n = workload.shape
    few = m < n and 4 * n * m**2 <= DENSE_CELLS**3 and m * n <= DENSE_ENTRIES
    return n <= DENSE_CELLS or (few and not options.replace)


def _solve_product(workload: KroneckerWorkload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.structured import as_product, solve_factors
    from pmldesign.strategies.baselines.elementary import product_strategy

    for factor in workload.factors:
        if isinstance(factor, AllRangesWorkload):
            raise factor.refusal()
    factors = [(factor, options.neighbours) for factor in workload.factors]
    designs = solve_factors(factors, p, options, solve)
    strategy = product_strategy([design.strategy for design in designs])
    return as_product(workload, p, options, designs, strategy)


def _is_dense(workload: KroneckerWorkload) -> bool:
    """Whether a product under replace is solved as one matrix: few distinct cells."""
    queries, cells = workload.shape
    if cells > DENSE_CELLS and workload.distinct_shape[1] > DENSE_CELLS:
        return False
    return max(queries, cells) * cells <= MAX_ENTRIES


def _solve_product_pairs(workload: KroneckerWorkload, p: float, options: DesignOptions) -> Design:
    """The best product for add-remove neighbours, as what it is worth under replace."""
    from pmldesign.designs.structured import as_pairs, is_total
    from pmldesign_solvers.certificate import pairs

    if all(is_total(factor) for factor in workload.factors):
        raise InvalidInputError(
            f"workload {workload.name!r}: it asks for nothing but the total, which is public under "
            "replace; take add-remove neighbours to protect the total"
        )
    close = min(options.rel_gap, FACTOR_GAP)
    design = _solve_product(
        workload, p, replace(options, neighbours=Neighbours.ADD_REMOVE, rel_gap=close)
    )
    duals = [
        (factor, u, w) for factor, (u, w) in zip(workload.factors, design.dual_factors, strict=True)
    ]
    lower, best = pairs.best_duals(duals, p)
    design = replace(design, dual_factors=tuple((u, w) for _, u, w in best))
    return as_pairs(workload, [workload.factors], design, lower, p, options)


def _is_large_union(workload: Workload, options: DesignOptions) -> bool:
    """Whether a union of products is too large to be solved as one matrix."""
    if not isinstance(workload, UnionWorkload | TablesWorkload) or dense(workload, options):
        return False
    from pmldesign.designs.tables import question

    return question(workload) is not None


def _is_large_joined(workload: Workload, _: DesignOptions) -> bool:
    """Whether queries on overlapping tables are too many cells to be solved as one matrix."""
    return isinstance(workload, JoinedWorkload) and workload.shape[1] > DENSE_CELLS


def _solve_joined(workload: JoinedWorkload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.tables import solve_joined

    return solve_joined(workload, p, options)


def _is_stream(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is running sums that are solved as a stream."""
    few = options.buffers is None and workload.shape[1] <= PUBLIC_CELLS
    sums = None if few else workload.running_sums
    if sums is None:
        return False
    if options.replace:
        shortest = PUBLIC_CELLS if sums.smooth else DENSE_CELLS
        shortest = LEAST_CELLS if options.buffers else shortest
        return sums.tells_total and options.method == "scaling" and sums.cells > shortest
    shortest = STREAM_CELLS if sums.smooth else ROUGH_CELLS
    return options.buffers is not None or sums.cells > shortest


def _is_large_regions(workload: Workload, _: DesignOptions) -> bool:
    """Whether it is counts that nest of more cells than are solved as one matrix."""
    return isinstance(workload, NestedWorkload) and workload.shape[1] > REGION_CELLS


def _solve_regions(workload: NestedWorkload, p: float, options: DesignOptions) -> Design:
    """A count for each region, or one matrix where that is far from its bound."""
    from pmldesign.designs.nested import solve_regions

    design = solve_regions(workload, p, options)
    small = workload.shape[1] <= (REGION_CELLS_AT_INF if math.isinf(p) else DENSE_CELLS)
    close = design.certificate.gap <= max(LOOSE, options.rel_gap)
    if close or not small or options.replace or options.stopping.deadline.over():
        return design
    matrix = solve_matrix(workload, p, options)
    return design.join(matrix, options)


def _is_large_matrix(workload: Workload, options: DesignOptions) -> bool:
    """Whether it has more pairs of different cells than are weighed."""
    if not options.replace or workload.shape[1] <= DENSE_CELLS:
        return False
    return workload.different_cells > DENSE_CELLS


def _is_repeated(workload: Workload, options: DesignOptions) -> bool:
    """Whether few cells differ of so many that weights of all pairs take much memory."""
    m, n = workload.shape
    return options.replace and n > DENSE_CELLS and m * n <= MAX_ENTRIES


def _solve_repeated(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.large_matrix import solve_repeated

    return solve_repeated(workload, p, options)


def _solve_large_matrix(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.large_matrix import solve_large

    return solve_large(workload, p, options)


def _is_all_ranges(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is all ranges that are solved as a chain."""
    if isinstance(workload, AllRangesWorkload):
        return True
    if not isinstance(workload, RangeWorkload) or options.replace or options.method != "scaling":
        return False
    long = options.buffers is not None or workload.shape[1] > STREAM_CELLS
    return long and workload.is_complete


def _is_single_table(workload: Workload, _: DesignOptions) -> bool:
    """Whether tables are a single one, over several attributes."""
    if not isinstance(workload, TablesWorkload):
        return False
    return len(workload.subsets) == 1 and len(workload.sizes) > 1


def _solve_single_table(workload: TablesWorkload, p: float, options: DesignOptions) -> Design:
    """As the product that it is."""
    product = KroneckerWorkload(workload.products()[0])
    return replace(solve(product, p, options), workload=workload)


def _solve_plain_tables(workload: TablesWorkload, p: float, options: DesignOptions) -> Design:
    """As the marginals that they are."""
    solve_marginals = _structured("solve_marginals")
    return replace(solve_marginals(workload.as_marginals(), p, options), workload=workload)


def _solve_beside(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.beside import solve_beside

    return solve_beside(workload, p, options, solve=solve)


def _structured(name: str) -> Callable[[Any, float, DesignOptions], Design]:
    """The solver of that name in `structured`, a module that loads when it is used."""

    def solve_structured(workload: Any, p: float, options: DesignOptions) -> Design:
        from pmldesign.designs import structured

        solver: Callable[[Any, float, DesignOptions], Design] = getattr(structured, name)
        return solver(workload, p, options)

    return solve_structured


def _is(form: type) -> Callable[[Any, DesignOptions], bool]:
    return lambda workload, _: isinstance(workload, form)


ROUTES = [
    Route("public answers", lambda workload, _: bool(workload.public), _solve_beside),
    Route("all ranges", _is_all_ranges, _structured("solve_all_ranges"), buffers=True),
    Route("semidefinite program", lambda _, options: options.method != "scaling", solve_matrix),
    Route("marginals", _is(MarginalsWorkload), _structured("solve_marginals")),
    Route(
        "product, factor by factor",
        lambda workload, options: isinstance(workload, KroneckerWorkload) and not options.replace,
        _solve_product,
        buffers=True,
    ),
    Route(
        "large product under replace",
        lambda workload, _: isinstance(workload, KroneckerWorkload) and not _is_dense(workload),
        _solve_product_pairs,
    ),
    Route(
        "tables of plain attributes",
        lambda workload, _: isinstance(workload, TablesWorkload) and workload.is_plain,
        _solve_plain_tables,
    ),
    Route("tables that overlap", _is_large_joined, _solve_joined),
    Route("single table", _is_single_table, _solve_single_table),
    Route("large union of products", _is_large_union, _structured("solve_union")),
    Route("regions", _is_large_regions, _solve_regions),
    Route("stream", _is_stream, _structured("solve_stream"), buffers=True),
    Route("large matrix under replace", _is_large_matrix, _solve_large_matrix),
    Route("few of very many cells under replace", _is_repeated, _solve_repeated),
    Route("one matrix", lambda workload, options: True, solve_matrix),  # noqa: ARG005
]
"""In order of preference; the first that accepts a workload solves it."""


@takes_options
def factorize(
    workload: WorkloadLike,
    *,
    p: float = 2.0,
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> Design:
    """Design the optimal strategy for a workload under Gaussian noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf]; 2 is the total squared error, inf the largest standard deviation.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: neighbours, rel_gap, max_steps, time_limit, method, solver, buffers, callback: the
            attributes of `DesignOptions`.

    Returns:
        The design, whatever the status; `require_optimal` insists.

    Raises:
        InvalidInputError: an argument out of range, or a workload that is zero or too large.
        NotConvergedError: the convex solver returned no point at all.
    """
    queries, _ = with_known(workload, None, known)
    if known is not None:
        options["neighbours"] = "replace"
    return solve(queries, exponent(p), DesignOptions.of(options).about(queries))
