r"""Strategies for more cells than pairs can be weighed, if a record is replaced.

A program over the weights of all pairs of cells ends at 2048 cells that differ. Up to so many, it
is about these, however many cells there are (`solve_repeated`). Beyond, a strategy is evaluated
given the number of records:

    few queries     that of least norm for add-remove neighbours
    many queries    the cells themselves: any two columns are 2^(1/2) apart

The largest distance of two columns is exact, or of very many a bound (`privacy.columns`), so that
this is a valid design with a true upper bound. The lower bound weighs pairs of cells by
products of weights of cells (`certificate.cell_products`): those of the add-remove norm, or equal
ones and squared lengths of columns; of very many cells some, the others weighing nothing. The
bounds need not meet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pmldesign.designs.one_matrix import solve_matrix
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import SUM_ROUNDING, Design, as_invalid_input
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import column_labels
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.elementary import identity
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.sparse import sparse_rows
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.certificate.cell_products import lower_bound_of_cells
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.limits import BOUND_WORK, BOUNDED_CELLS, DENSE_ENTRIES, FEW_WORK
from pmldesign_solvers.norm.bounds_loop import stopped
from pmldesign_solvers.norm.solution import Solution, Status
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import ONLY_THE_TOTAL
from pmldesign_solvers.operators.operator import Array, Indices, dual_norm, power_mean

FEW_GAP = 1e-3
"""Largest gap of the norm for add-remove neighbours: given the total, bounds are farther apart."""


def solve_large(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The strategy for few or for many queries, and both bounds.

    Raises:
        InvalidInputError: queries that ask for nothing but the total.
    """
    begin, given = time.perf_counter(), workload
    workload, exponent = near_one(given)
    asked = workload.without_offsets()[0]
    solution = _least_norm(asked, p, options) if is_few(workload) else None
    strategy = identity(workload.shape[1])
    if solution is not None:
        strategy = Strategy("design", solution.strategy)
    value, variances = _value(strategy, workload, p)
    if math.isinf(value):
        strategy = identity(workload.shape[1])
        value, variances = _value(strategy, workload, p)
    if value == 0:
        raise InvalidInputError(f"workload {workload.name!r}: {ONLY_THE_TOTAL}")
    lower, u, w = _lower(asked, variances, solution, p)
    best = strategy if strategy.regular else strategy.beside(RECORDS)
    longest = best.sensitivity_under(Neighbours.REPLACE, "l2")
    with as_invalid_input(given):
        certificate = Certificate(min(lower, value), value).times_power_of_two(exponent)
    return Design(
        workload=given,
        p=p,
        neighbours=Neighbours.REPLACE,
        strategy=best.scaled(1 / longest),
        certificate=certificate,
        dual_factors=((u, w),),
        status=stopped(options.stopping.deadline) or Status.STRUCTURED,
        steps=0 if solution is None else solution.steps,
        eigendecompositions=0 if solution is None else solution.eigendecompositions,
        seconds=time.perf_counter() - begin,
    )


def solve_repeated(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The strategy of least norm for the cells that differ, few of very many.

    What measures these measures all cells, each as one that it is equal to, and neighbours stay
    neighbours, or become the same; one cell of each kind is a part of the workload: both bounds are
    the same. Weights are those of pairs of different cells, in the order in which they come first.
    """
    matrix = workload.to_dense()
    _, first, labels = np.unique(column_labels(matrix), return_index=True, return_inverse=True)
    order = np.argsort(first)
    distinct = DenseWorkload(matrix[:, first[order]], name=workload.name)
    design = solve_matrix(distinct, p, options)
    measured = RECORDS.centre(design.strategy.matrix[:, np.argsort(order)[labels]])
    return replace(design, workload=workload, strategy=Strategy("design", measured))


def is_few(workload: Workload) -> bool:
    """Whether queries are few enough for a strategy of as many rows."""
    m, n = workload.shape
    return m < n and m * n <= DENSE_ENTRIES and m**2 * n <= FEW_WORK


def _least_norm(workload: Workload, p: float, options: DesignOptions) -> Solution | None:
    """The solution for add-remove neighbours, whose columns are compared; None for no queries."""
    if not workload.row_sizes().any():
        return None
    stopping = replace(options, rel_gap=max(options.rel_gap, FEW_GAP)).stopping
    return solve_norm(DenseOperator(RECORDS.centre(workload.to_dense())), p, options=stopping)


def _value(strategy: Strategy, workload: Workload, p: float) -> tuple[float, Array]:
    """A certified upper bound on gamma_(p) under replace, and the variances."""
    measured, asked = strategy.beside(RECORDS), given_invariants(workload, RECORDS)
    try:
        variances = measured.variances(asked)
    except InvalidInputError:  # queries whose weights are too far apart for its digits
        return math.inf, np.zeros(0)
    longest = strategy.sensitivity_under(Neighbours.REPLACE, "l2")
    value = math.sqrt(power_mean(variances, p / 2)) * longest * (1 + SUM_ROUNDING)
    if not strategy.regular:
        queries = asked.to_dense()
        rest = queries - measured.reconstruction(asked) @ measured.matrix
        left = power_mean(np.einsum("ij,ij->i", rest, rest), p / 2)
        value += math.sqrt(2 * left) * (1 + SUM_ROUNDING)
    return value, variances


def _lower(
    workload: Workload,
    variances: Array,
    solution: Solution | None,
    p: float,
) -> tuple[float, Array, Array]:
    """The largest of a few lower bounds, and its weights of queries and cells."""
    squares = workload.column_squares()
    power = min(p / 2 - 1, 4.0)
    u = (variances / variances.max()) ** power
    pairs = [(u, np.ones(squares.size)), (u, squares)]
    if solution is not None:
        pairs.append((solution.dual_u, solution.dual_w))
    cells, bound = _weighed(workload)
    pairs = [(u, w) for u, w in pairs if w[cells].any()]
    bounds = [(bound(u, w[cells], p), number) for number, (u, w) in enumerate(pairs)]
    best, number = max(bounds)
    u, weights = pairs[number][0], np.zeros(squares.size)
    weights[cells] = pairs[number][1][cells]
    return best, u / dual_norm(u, p), weights / weights.sum()


def _weighed(workload: Workload) -> tuple[Indices, Callable[[Array, Array, float], float]]:
    """The cells that get weights, and the bound from weights of queries and of these.

    All cells where a Gram matrix is small enough, or the squares of M alone are taken; else as many
    as are: the others weigh nothing.
    """
    m, n = workload.shape
    every, dense = np.arange(n), m * n <= DENSE_ENTRIES
    if dense and min(m, n) * m * n <= BOUND_WORK:
        return every, partial(lower_bound_of_cells, workload.to_dense())
    rows = sparse_rows(workload)
    if rows is not None:
        return every, partial(lower_bound_of_cells, rows)
    if n <= BOUNDED_CELLS:
        return every, lambda u, w, p: lower_bound_of_cells(workload.gram(u), u, w, p, gram=True)
    most = BOUND_WORK / m**2 if m**3 <= BOUND_WORK else math.sqrt(BOUND_WORK / m)
    if not dense:  # each column is as much work as all of the queries
        most = min(most, BOUND_WORK / (m * n), DENSE_ENTRIES / n)
    count = max(2, min(int(most), n))
    cells = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    if dense:
        return cells, partial(lower_bound_of_cells, workload.to_dense()[:, cells])
    unit = np.zeros((n, cells.size))
    unit[cells, np.arange(cells.size)] = 1.0
    return cells, partial(lower_bound_of_cells, workload.matvec(unit))
