"""From a workload and p to the strategy of least norm: which solver takes which workload.

public answers     of a table a product, its open attributes under replace, or marginals; of groups
                   one matrix, by pairs of cells within them (`beside`)
tables of counts   by their residual spaces, exactly, over domains of any size (`tables`)
product            factor by factor: gamma_(p)(A x B) = gamma_(p)(A) gamma_(p)(B), since the product
                   of feasible factorizations is feasible for A x B, and so is the product of dual
                   points; under replace, beyond DENSE_CELLS different cells, the strategy for
                   add-remove, with bounds that need not meet (`structured`)
overlapping        beyond DENSE_CELLS cells: a matrix for each table, over domains of any size, with
tables             bounds that need not meet (`tables`)
union of           beyond DENSE_CELLS cells, unless one matrix costs no more: by blocks of one
products           attribute, exactly if the others are asked by histograms and totals
                   (add-remove); else, with bounds that need not meet, by coordinates where each
                   attribute has one relation of queries and totals, over domains of any size
                   (`tables`), or in a product basis (`structured`)
regions that       beyond REGION_CELLS cells in O(n K): bounds from the tree, a count or tables for
nest               each region, with weights of their own; counts also as one matrix up to
                   DENSE_CELLS cells if these are far from the bound (`nested`)
running sums       beyond STREAM_CELLS steps in O(n K), as a stream with K buffers; under replace
and all ranges     beyond PUBLIC_CELLS, with bounds 0.3 to 0.6% apart (`structured`)
one matrix         anything else, and semidefinite programs; under replace beyond DENSE_CELLS
                   different cells the best of known strategies, with bounds that need not meet
                   (`large_matrix`)

Several participations come before all of these: fixed epochs, or the best of several forms
(`participation`).

For Gaussian noise the exact error of a strategy R with reconstruction L, L R = A, is proportional
to tr_{p/2}(L L^T)^(1/2) * max_j norm(R e_j)_2, whose minimum is the factorization norm
gamma_(p)(A) [ZLU, Definition A.3]: the strategy that attains it is optimal for every
(epsilon, delta).

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

from pmldesign.arguments import exponent
from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignArguments, DesignOptions, takes_options
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.workloads import RangeWorkload, TermsWorkload, Workload, WorkloadLike
from pmldesign.workloads.base import different_cells, distinct_shape
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.limits import (
    DENSE_CELLS,
    DENSE_ENTRIES,
    LEAST_CELLS,
    MAX_ENTRIES,
    PUBLIC_CELLS,
    REGION_CELLS,
    ROUGH_CELLS,
    STREAM_CELLS,
)


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


def choose(workload: Workload, options: DesignOptions) -> Route:
    """The first of the ROUTES that is for this workload; programs take one matrix."""
    if options.method != "scaling" and not workload.public:
        return ROUTES[-1]
    return next(way for way in ROUTES if way.accepts(workload, options))


def solve(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm that the right solver finds.

    Raises:
        InvalidInputError: a workload that is all zero, or too large for the method, or buffers for
            a workload that has none.
        NotConvergedError: the convex solver returned no point at all.
    """
    options = options.begun
    if options.schema is not None:
        from pmldesign.designs.participation.course import solve_participation

        return solve_participation(workload, p, options, solve)
    chosen = choose(workload, options)
    if options.buffers is not None and not chosen.buffers:
        raise InvalidInputError(
            "buffers are for running sums and method 'scaling', under replace for running sums of"
            f" more than {LEAST_CELLS} steps in which nothing fades, and {workload.name!r} is none;"
            " leave them out"
        )
    return chosen.solve(workload, p, options)


def _is_counts(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is different tables of counts; a single one of few cells is a product first."""
    if not isinstance(workload, TermsWorkload) or not workload.counts or workload.repeats:
        return False
    product = len(workload.factors) > 1 and not options.replace
    return not product or workload.shape[1] > MAX_PRODUCT_CELLS


def _is_product(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is a product, under replace of too many different cells for one matrix."""
    if len(workload.factors) == 1 or not options.replace:
        return len(workload.factors) > 1
    queries, cells = workload.shape
    if cells > DENSE_CELLS and distinct_shape(workload)[1] > DENSE_CELLS:
        return True
    return max(queries, cells) * cells > MAX_ENTRIES


def _is_overlapping(workload: Workload, _: DesignOptions) -> bool:
    """Whether queries join attributes, on too many cells for one matrix."""
    if not isinstance(workload, TermsWorkload) or workload.crossed or workload.factors[1:]:
        return False
    return workload.shape[1] > DENSE_CELLS


def _is_union(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is a union of products that is too large for one matrix."""
    if len(workload.part_rows) == 1 or dense(workload, options):
        return False
    from pmldesign.designs.tables import question

    return question(workload) is not None


def dense(workload: Workload, options: DesignOptions) -> bool:
    """Whether a union is solved as one matrix: few cells, or as much work as a step on so many."""
    m, n = workload.shape
    few = m < n and 4 * n * m**2 <= DENSE_CELLS**3 and m * n <= DENSE_ENTRIES
    return n <= DENSE_CELLS or (few and not options.replace)


def _is_nested(workload: Workload, _: DesignOptions) -> bool:
    """Whether it is counts that nest, of too many cells for one matrix."""
    return isinstance(workload, NestedWorkload) and workload.shape[1] > REGION_CELLS


def _is_chain(workload: Workload, options: DesignOptions) -> bool:
    """Whether it is running sums, or all ranges, that are solved step by step."""
    if isinstance(workload, AllRangesWorkload):
        return True
    cells = workload.shape[1]
    long = options.buffers is not None or cells > STREAM_CELLS
    if long and not options.replace and isinstance(workload, RangeWorkload):
        return workload.is_complete or workload.running_sums is not None
    few = options.buffers is None and cells <= PUBLIC_CELLS
    sums = None if few else workload.running_sums
    if sums is None:
        return False
    if options.replace:
        shortest = PUBLIC_CELLS if sums.smooth else DENSE_CELLS
        return sums.tells_total and cells > (LEAST_CELLS if options.buffers else shortest)
    return long if sums.smooth else options.buffers is not None or cells > ROUGH_CELLS


def _solve_beside(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.beside import solve_beside

    return solve_beside(workload, p, options, solve)


def _solve_counts(workload: Any, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.structured import solve_marginals

    return solve_marginals(workload, p, options)


def _solve_product(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.structured import solve_product

    for factor in workload.factors:
        if isinstance(factor, AllRangesWorkload):
            raise factor.refusal()
    return solve_product(workload, p, options, solve)


def _solve_overlapping(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.tables import solve_joined

    return solve_joined(workload, p, options)


def _solve_union(workload: Any, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.structured import solve_union

    return solve_union(workload, p, options)


def _solve_nested(workload: Any, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.nested import solve_nested

    return solve_nested(workload, p, options)


def _solve_chain(workload: Workload, p: float, options: DesignOptions) -> Design:
    from pmldesign.designs.structured import solve_all_ranges, solve_stream

    if workload.running_sums is None:
        return solve_all_ranges(workload, p, options)
    return solve_stream(workload, p, options)


def _solve_matrix(workload: Workload, p: float, options: DesignOptions) -> Design:
    """As one matrix; of more cells than pairs are weighed, where records are replaced, others."""
    m, n = workload.shape
    if options.method == "scaling" and options.replace and n > DENSE_CELLS:
        from pmldesign.designs.large_matrix import solve_large, solve_repeated

        if different_cells(workload) > DENSE_CELLS:
            return solve_large(workload, p, options)
        if m * n <= MAX_ENTRIES:
            return solve_repeated(workload, p, options)
    return solve_matrix(workload, p, options)


ROUTES = [
    Route("public answers", lambda workload, _: bool(workload.public), _solve_beside),
    Route("tables of counts", _is_counts, _solve_counts),
    Route("product", _is_product, _solve_product, buffers=True),
    Route("overlapping tables", _is_overlapping, _solve_overlapping),
    Route("union of products", _is_union, _solve_union),
    Route("regions that nest", _is_nested, _solve_nested),
    Route("running sums and all ranges", _is_chain, _solve_chain, buffers=True),
    Route("one matrix", lambda *_: True, _solve_matrix),
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
