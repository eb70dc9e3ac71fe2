r"""Strategies for more cells than pairs can be weighed, where a record is replaced.

A program over the weights of all pairs of cells ends at 2048 cells that differ. Up to so many, it
is about these, however many cells there are (`solve_repeated`). Beyond, three strategies are
compared by what they are worth where the number of records is public:

    the cells themselves    any two columns are 2^(1/2) apart, and nothing of n x n is made
    the queries themselves  where they are few
    that of least norm      for add-remove neighbours, where queries are few (`designs.dispatch`)

The largest distance of two columns is exact, or of very many a bound (`privacy.columns`), so that
the best of them is a valid design with a true upper bound. The lower bound weighs pairs of cells by
products of weights of cells (`certificate.cell_products`): those of the add-remove norm, or equal
ones and squared lengths of columns; where time is short, of some of the cells, the others weighing
nothing. The bounds need not meet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
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
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.certificate.cell_products import lower_bound_of_cells
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Solution, Status, step_seconds
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import ONLY_THE_TOTAL
from pmldesign_solvers.operators.operator import Array, Indices, dual_norm, power_mean

FEW_ENTRIES = 2**26
"""Of queries that are written out, 512 MiB."""
STEPS = 4
"""Times as long as a step on a tall matrix the design of a wide one takes at least."""
MOST_SECONDS = 15.0
"""For a step, and for Gram matrices; the first strategy is found in some of them."""
MULTIPLIED, SHARE = 5e9, 12.0
"""Multiplications a second in a Gram matrix and its eigenvalues; limits by the time for each."""
BOUNDED_CELLS = 4096
"""Up to so many the bound on structured queries takes their Gram matrix (128 MiB)."""


def solve_large(workload: Workload, p: float, options: DesignOptions) -> Design:
    """The best of the strategies that are known, and both bounds.

    Raises:
        InvalidInputError: queries that ask for nothing but the total.
    """
    begin, given = time.perf_counter(), workload
    workload, exponent = near_one(given)
    asked = workload.without_offsets()[0]
    few = is_few(workload, options)
    solution = _least_norm(asked, p, options) if few else None
    candidates = _candidates(asked, solution, few=few)
    best, value, variances = identity(workload.shape[1]), math.inf, np.zeros(0)
    for strategy in candidates:
        if value < math.inf and options.stopping.over(time.perf_counter() - begin):
            break
        found, squares = _value(strategy, workload, p)
        if found == 0:
            raise InvalidInputError(f"workload {workload.name!r}: {ONLY_THE_TOTAL}")
        if found < value:
            best = strategy if strategy.regular else strategy.beside(RECORDS)
            value, variances = found, squares
    lower, u, w = _lower(asked, variances, solution, p, options)
    longest = best.sensitivity_under(Neighbours.REPLACE, "l2")
    interrupted = solution is not None and solution.status is Status.INTERRUPTED
    with as_invalid_input(given):
        certificate = Certificate(min(lower, value), value).times_power_of_two(exponent)
    return Design(
        workload=given,
        p=p,
        neighbours=Neighbours.REPLACE,
        strategy=best.scaled(1 / longest),
        certificate=certificate,
        dual_factors=((u, w),),
        status=Status.INTERRUPTED if interrupted else Status.STRUCTURED,
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


def is_few(workload: Workload, options: DesignOptions) -> bool:
    """Whether queries are few enough for a strategy of as many rows, in the time that there is."""
    m, n = workload.shape
    seconds = step_seconds(m, n)
    return m < n and m * n <= FEW_ENTRIES and seconds <= MOST_SECONDS and _allows(options, seconds)


def _allows(options: DesignOptions, seconds: float) -> bool:
    """Whether what takes so long leaves time for as much again."""
    return options.time_limit is None or 2 * seconds <= options.time_limit


def _least_norm(workload: Workload, p: float, options: DesignOptions) -> Solution | None:
    """The solution for add-remove neighbours, whose columns are compared; None if it takes long."""
    seconds = STEPS * step_seconds(*workload.shape)
    if seconds > MOST_SECONDS or not _allows(options, seconds) or not workload.row_sizes().any():
        return None
    limit = None if options.time_limit is None else options.time_limit / 2
    stopping = replace(options, time_limit=limit, rel_gap=max(options.rel_gap, 1e-3)).stopping
    return solve_norm(DenseOperator(RECORDS.centre(workload.to_dense())), p, options=stopping)


def _candidates(workload: Workload, solution: Solution | None, *, few: bool) -> Iterator[Strategy]:
    """All that there are, the identity first."""
    yield identity(workload.shape[1])
    if solution is not None:
        yield Strategy("design", solution.strategy)
    if few:
        yield Strategy("design", workload.to_dense())


def _value(strategy: Strategy, workload: Workload, p: float) -> tuple[float, Array]:
    """A certified upper bound on gamma_(p) under replace, and the variances."""
    measured, asked = strategy.beside(RECORDS), workload.beside(RECORDS)
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
    options: DesignOptions,
) -> tuple[float, Array, Array]:
    """The largest of a few lower bounds, and its weights of queries and cells."""
    squares = workload.column_squares()
    power = min(p / 2 - 1, 4.0)
    u = (variances / variances.max()) ** power
    pairs = [(u, np.ones(squares.size)), (u, squares)]
    if solution is not None:
        pairs.append((solution.dual_u, solution.dual_w))
    cells, bound = _weighed(workload, options)
    pairs = [(u, w) for u, w in pairs if w[cells].any()]
    bounds = [(bound(u, w[cells], p), number) for number, (u, w) in enumerate(pairs)]
    best, number = max(bounds)
    u, weights = pairs[number][0], np.zeros(squares.size)
    weights[cells] = pairs[number][1][cells]
    return best, u / dual_norm(u, p), weights / weights.sum()


def _weighed(
    workload: Workload, options: DesignOptions
) -> tuple[Indices, Callable[[Array, Array, float], float]]:
    """The cells that get weights, and the bound from weights of queries and of these.

    All cells where there is time for a Gram matrix, or for the squares of M alone; else as many as
    there is time for: the others weigh nothing.
    """
    (m, n), limit = workload.shape, options.time_limit
    every, dense = np.arange(n), m * n <= FEW_ENTRIES
    room = MULTIPLIED * (MOST_SECONDS if limit is None else min(MOST_SECONDS, limit / SHARE))
    if dense and min(m, n) * m * n <= room:
        return every, partial(lower_bound_of_cells, workload.to_dense())
    if workload.sparse is not None:
        return every, partial(lower_bound_of_cells, workload.sparse)
    if n <= BOUNDED_CELLS and _allows(options, step_seconds(m, n)):
        return every, lambda u, w, p: lower_bound_of_cells(workload.gram(u), u, w, p, gram=True)
    most = room / m**2 if m**3 <= room else math.sqrt(room / m)
    if not dense:  # each column is as much work as all of the queries
        most = min(most, room / (m * n), FEW_ENTRIES / n)
    count = max(2, min(int(most), n))
    cells = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    if dense:
        return cells, partial(lower_bound_of_cells, workload.to_dense()[:, cells])
    unit = np.zeros((n, cells.size))
    unit[cells, np.arange(cells.size)] = 1.0
    return cells, partial(lower_bound_of_cells, workload.matvec(unit))
