"""Answers from the estimate of a release, rounded so that they agree in every printed digit.

From a histogram: its cells are rounded to a number of decimals, and queries with whole coefficients
are sums of these cells.

Every count of regions is rounded up or down by less than a unit (`nested_counts`).

From tables, where a histogram would be too large: of every table those cells are rounded in which
no attribute has its last value. The others are differences, a table by one attribute less without
its other cells, and so whole numbers of the same unit. A cell of a table of m cells is a sum of at
most m rounded ones, and so is a range of cells along every axis: of n values of an attribute it
takes those inside, or the sum and those outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.integers import Integers
from pmldesign.releases.nested_counts import rounded_regions
from pmldesign.releases.post_processing import by_group, nearest_whole
from pmldesign.releases.public_counts import PublicCounts, regions_of
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.display import count_text
from pmldesign.workloads.nested.tables import as_regions
from pmldesign.workloads.parsing import MAX_PRODUCT_CELLS
from pmldesign.workloads.terms.constructors import TablesWorkload
from pmldesign.workloads.terms.over import as_terms, attribute_queries
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from pmldesign.workloads.terms.workload import TermsWorkload

Attributes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the measurements say.

    Attributes:
        summed: how many numbers an answer may be a sum of, times the largest coefficient of these.
        size: the largest sum of the absolute values of these.
        answers: from a number of digits after the point to the answers with so many digits, shape
            (m,), and the most that rounding moved them, shape (m,).
        cells: of the histogram, shape (n,); None if it would be too large.
    """

    summed: int
    size: float
    answers: Callable[[int], tuple[Array, Array]]
    cells: Array | None = None


def estimated(
    strategy: Strategy,
    measured: Array,
    queries: Workload,
    public: PublicCounts | None,
    like: Workload | None = None,
) -> Estimate:
    """Answers by the measurements, with the numbers of records that are public.

    Args:
        strategy: whose L makes answers.
        measured: shape (r,).
        queries: A, with the invariants.
        public: numbers of records.
        like: queries whose rounding the cells have; None for that of these.
    """
    if queries.shape[1] <= MAX_PRODUCT_CELLS:
        cells = strategy.estimate(measured)
        if public is not None:
            cells = public.completed(cells)
        answers_of = partial(rounded_answers, queries, cells, public=public, like=like)
        size = float(np.abs(cells).sum())
        if regions_of(queries, public) is not None:
            return Estimate(2, size, answers_of, cells)  # each moves by one
        largest = math.ceil(_largest_whole(queries, _written(queries)) or 1.0)
        return Estimate(len(cells) * largest, size * largest, answers_of, cells)
    asked_tables = as_terms(queries)
    closure = all_within(asked_tables.subsets)
    tables = TablesWorkload(asked_tables.domain, closure)
    check_entries("the tables and all sums of them", (tables.shape[0], 1))
    answers = strategy.answer(given_invariants(tables, strategy.public), measured)
    by_subset = dict(zip(closure, tables.split(answers), strict=True))
    if public is not None:
        total = public.total
        by_subset = {subset: table + total / len(table) for subset, table in by_subset.items()}
    summed = max(len(by_subset[subset]) for subset in asked_tables.subsets)
    size = max(float(np.abs(table).sum()) for table in by_subset.values())
    return Estimate(summed, size, partial(answers_of_tables, asked_tables, by_subset))


def answers_of_tables(
    workload: TermsWorkload, tables: Mapping[Attributes, Array], decimals: int
) -> tuple[Array, Array]:
    """`Estimate.answers` for tables with weight 1, of counts or of ranges.

    Args:
        workload: A.
        tables: the counts for every set of attributes within one that is asked for.
        decimals: digits after the point.
    """
    whole = consistent_tables(workload.domain, tables, 10.0**decimals)
    answers, moved = [], []
    for term in workload.terms:
        table = whole[term.attributes].ravel().astype(np.float64)
        answers.append(np.rint(term.answer(table)))
        moved.append(np.full(term.shape[0], 0.5 / 10.0**decimals * len(table)))
    return np.concatenate(answers) / 10.0**decimals, np.concatenate(moved)


def all_within(subsets: tuple[Attributes, ...]) -> list[Attributes]:
    """All sets of attributes within one of these, smaller ones first."""
    within = chain.from_iterable(
        combinations(subset, count) for subset in subsets for count in range(len(subset) + 1)
    )
    return sorted(set(within), key=lambda subset: (len(subset), subset))


def consistent_tables(
    sizes: tuple[int, ...], tables: Mapping[Attributes, Array], factor: float
) -> dict[Attributes, Integers]:
    """Integers close to factor times the tables, with consistent sums.

    Args:
        sizes: number of values of each attribute.
        tables: for every set of attributes within one of them, smaller ones first.
        factor: of one unit.
    """
    whole: dict[Attributes, Integers] = {}
    for subset, table in tables.items():
        shape = [sizes[i] for i in subset]
        cells = np.rint(np.asarray(table) * factor).astype(np.int64).reshape(shape)
        for axis in reversed(range(len(subset))):
            others = np.delete(cells, -1, axis=axis).sum(axis=axis)
            last = (slice(None),) * axis + (-1,)
            cells[last] = whole[subset[:axis] + subset[axis + 1 :]] - others
        whole[subset] = cells
    return whole


def rounded_answers(
    workload: Workload,
    cells: Array,
    decimals: int,
    public: PublicCounts | None = None,
    like: Workload | None = None,
) -> tuple[Array, Array]:
    """Answers from rounded cells, and by how much the rounding moved them at most.

    Args:
        workload: A.
        cells: the estimate of x, shape (n,).
        decimals: digits after the point.
        public: sums of cells that are not to be rounded away. Integer queries that they answer are
            then exact, and cells move by a unit instead of half a unit. Given several tables, whose
            sums rounded cells might not have, every answer is rounded by itself.
        like: queries for which the cells are rounded; None for these.
    """
    factor, half = 10.0**decimals, 0.5 / 10.0**decimals
    rounded_for = workload if like is None else like
    whole = _rounded_cells(rounded_for, cells * factor, public)
    matrix = _written(workload)
    coefficients = _largest_whole(workload, matrix)
    if whole is None or coefficients is None:
        moved = np.full(workload.shape[0], half)
        if public is not None and matrix is not None and not public.partition:
            moved[public.answers(matrix)] = 0.0
        return np.rint(workload.matvec(cells) * factor) / factor, moved
    sums = np.rint(workload.matvec(whole)) / factor
    regions, others = regions_of(workload, public), regions_of(rounded_for, public)
    if regions is not None and others is not None and regions.tree.same(others.tree):
        moved = regions.row_sizes() / factor
        tops = None if public is None else public.tops(regions.tree)
        if tops is not None:
            moved[regions.tree.upward(tops)[regions.tree.place_of_node[regions.asked]]] = 0.0
        return sums, moved
    unit = half if public is None and others is None else 2 * half
    moved = np.full(workload.shape[0], unit * coefficients * len(cells))
    if public is not None and matrix is not None:
        moved[public.answers(matrix)] = 0.0
    moved[workload.row_sizes() == 0] = 0.0
    return sums, moved


def _rounded_cells(workload: Workload, units: Array, public: PublicCounts | None) -> Array | None:
    """Integers close to cells, whose sums are the answers; None if the answers are not integers."""
    regions = regions_of(workload, public)
    together = public is None or public.partition
    if not together or _largest_whole(workload, _written(workload)) is None:
        return None
    if regions is not None:
        return rounded_regions(regions, units, public)
    return np.rint(units) if public is None else by_group(nearest_whole, units, public)


def _written(workload: Workload) -> Any:
    """The matrix, dense or sparse, if it is small or already exists; else None."""
    matrix = getattr(workload, "matrix", None)
    if matrix is None and math.prod(workload.shape) <= 2**22:
        matrix = workload.to_dense()
    return matrix


def _largest_whole(workload: Workload, matrix: Any) -> float | None:
    """Largest coefficient, if all are whole; None if they are not, or unknown."""
    regions = as_regions(workload)
    if regions is not None:
        return float(regions.scales.max()) if _are_whole(regions.scales) else None
    if isinstance(matrix, np.ndarray):
        return float(np.abs(matrix).max()) if _are_whole(matrix) else None
    if workload.binary:
        return 1.0
    asked = as_terms(workload)
    if not _are_whole(asked.weights):
        return None
    parts = attribute_queries(workload)
    if parts[0] is workload:
        return None
    largest = [_largest_whole(part, _written(part)) for part in parts]
    weight = float(asked.weights.max()) if len(asked.terms) > 1 else 1.0  # in a factor
    return None if None in largest else weight * math.prod(value or 0.0 for value in largest)


def _are_whole(values: Array) -> bool:
    return bool((values == np.rint(values)).all())


def require_histogram(queries: Workload, *, whole: bool, tables: bool = True) -> None:
    """Refuse requests that need a histogram if it would be too large.

    Args:
        queries: A, with the invariants.
        whole: whether the histogram is asked for.
        tables: whether tables are all that is measured.

    Raises:
        InvalidInputError: it is needed.
    """
    if queries.shape[1] <= MAX_PRODUCT_CELLS:
        return
    cells = count_text(queries.shape[1])
    if whole:
        raise InvalidInputError(
            "non-negative and whole numbers are of a histogram, and that of "
            f"{cells} cells does not fit into memory; leave attributes out of the schema"
        )
    if not (_is_counted(queries) and tables):
        raise InvalidInputError(
            f"a histogram of {cells} cells does not fit into memory; ask for tables of counts or "
            "ranges, such as sex*age + region*age:prefix, or leave attributes out of the schema"
        )


def _is_counted(queries: Workload) -> bool:
    """Whether these are sums of counts in tables, which have whole answers."""
    terms = as_terms(queries)
    asked = [each for ways in terms.ways.values() for each in ways]
    sums = all(each.binary or each.ends is not None for each in asked)
    return sums and bool((terms.weights == 1).all())
