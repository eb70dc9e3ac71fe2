"""A workload that is too large to be solved as one matrix in the time that there is.

One step on a matrix cannot be stopped. If it would take longer than the limit, consecutive cells
J_1 ... J_K are taken together, and a strategy is found for each A_k, the columns J_k of A:

    R = R_1 + ... + R_K (direct sum),   L = (A_1 R_1^+, ..., A_K R_K^+),

of sensitivity 1 if all R_k have it, and with the variances v = v_1 + ... + v_K. That is good where
queries ask for cells that are near each other, and true anywhere.

Lower bound. I_k are the queries with more of their squares in J_k than elsewhere. Blocks off the
diagonal only add to a nuclear norm, so with s_k a lower bound on gamma_(p)(A[I_k, J_k]) at weights
u_k, w_k, and the best factors t_k and c_k of those,

    gamma_(p)(A) >= sum_k (t_k c_k)^(1/2) s_k = norm(s)_p,    t_k = (s_k / norm(s)_p)^(p - 2),
                                                              c_k in proportion to t_k s_k^2.

Replace. A strategy for add-remove neighbours is evaluated where a record is replaced by another.
The total is public: what counts of R are the distances of its columns, and of A the vectors that
sum to zero. With P = 1 - 1 1^T / n, d the largest distance, z = R^+^T 1 and v = R^+ z,

    R' = R P / d,    B' = d (R^+ - v (1^T R^+) / (1^T v)),    R' B' = 1 - z z^T / norm(z)^2,

if R determines the total; a reflection that takes z to a multiple of e_1 makes the first row of R'
and the first column of B' zero, and they are left out. If R does not, e = 1 - R^+ R 1 takes the
place of v, and R' B' = 1.

A pair of cells weighs the product of their weights, equal cells being one
(`certificate.pairs`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate, lower_bound
from pmldesign_solvers.certificate.factors import factor_sizes
from pmldesign_solvers.certificate.pairs import lower_of_weights, upper_bound_of_pairs
from pmldesign_solvers.norm.bounds_loop import final_status, in_units_of
from pmldesign_solvers.norm.solution import DEFAULTS, Solution, SolverOptions, Status, step_seconds
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Relation, diameter
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import (
    COMPLETE,
    EPS,
    TINY,
    Array,
    Indices,
    Operator,
    dual_norm,
    power_mean,
)
from pmldesign_solvers.operators.scale import normalised


def under_replace(
    merged: MergedWorkload, p: float, solution: Solution, options: SolverOptions
) -> Solution:
    """The solution for add-remove neighbours, as one for neighbours that replace a record.

    Args:
        merged: the workload.
        p: in [2, inf].
        solution: with R^+ as its right inverse.
        options: of the search that had no time for pairs.
    """
    operator = merged.original
    strategy, inverse = _beside_the_total(solution.strategy, solution.right_inverse)
    _, first, classes = np.unique(merged.column_of, return_index=True, return_inverse=True)
    w = np.zeros(operator.shape[1])
    w[first] = np.bincount(classes, weights=solution.dual_w)
    certificate = Certificate(
        lower_of_weights(operator, solution.certificate.lower, solution.dual_u, w),
        upper_bound_of_pairs(operator, strategy, inverse, p),
    )
    status = solution.status if solution.status is not Status.OPTIMAL else Status.TIME_LIMIT
    some = np.flatnonzero(w)
    weights = np.outer(w[some], w[some])
    np.fill_diagonal(weights, 0.0)
    pairs = np.zeros((len(w), len(w)))  # zeros that nobody writes take no memory
    pairs[np.ix_(some, some)] = weights
    return replace(
        solution,
        strategy=strategy,
        right_inverse=inverse,
        dual_w=pairs,
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
    )


def _beside_the_total(strategy: Array, inverse: Array) -> tuple[Array, Array]:
    """R' and B', of full row rank."""
    size = diameter(strategy)
    centred = (strategy - strategy.mean(axis=1, keepdims=True)) / size
    total = inverse.sum(axis=0)
    missed = 1.0 - inverse @ strategy.sum(axis=1)
    complete = float(np.abs(missed).max()) <= COMPLETE
    free = inverse @ total if complete else missed
    beside = size * (inverse - np.outer(free, total / free.sum()))
    if not complete:
        return centred, beside
    normal = total / np.linalg.norm(total)
    normal[0] += np.copysign(1.0, normal[0])
    normal *= np.sqrt(2.0) / np.linalg.norm(normal)
    centred -= np.outer(normal, normal @ centred)
    beside -= np.outer(beside @ normal, normal)
    return np.ascontiguousarray(centred[1:]), np.ascontiguousarray(beside[:, 1:])


PAIRS = 4
"""How many times as long a step for pairs of cells takes as one for cells."""
STEPS, LEAST = 6, 0.5
"""Steps that a block should have time for, and seconds of all blocks: many small ones take more."""
PAIRED = 4e-10
"""Seconds for each triple of cells under replace: of centring, its bounds and the noise."""
ASSEMBLED, ANSWERED = 1e-7, 1e-10
"""Seconds for each entry of a strategy that is put together of blocks and gets its noise; and for
each entry and query, to see that L R = A."""
INVERTED = 1.2e9
"""Of n m^2 a second, m < n, that the inverse of a wide strategy and its certificate take."""


def solve_in_time(
    operator: Operator, p: float, *, relation: Relation, options: SolverOptions = DEFAULTS
) -> Solution:
    """As `solve_norm`, in blocks of cells where one step is estimated to take all of the time.

    Under replace a step takes longer; the strategy for add-remove comes before blocks, and what
    follows with all pairs of cells is taken off the limit.

    Raises:
        ValueError: that alone would end far too late, or the strategy would be too large.
    """
    before = options.before(_inverted(operator))
    if before.allows(_first_step(operator, relation)):
        return solve_norm(operator, p, relation=relation, options=before)
    normal = normalised(operator, "add-remove", options.rel_gap)
    callback = in_units_of(normal.exponent, options.callback)
    solution = _solve_merged(normal.operator, p, relation, replace(options, callback=callback))
    certificate = solution.certificate.times_power_of_two(normal.exponent)
    return replace(solution, certificate=certificate)


def _solve_merged(
    operator: Operator, p: float, relation: Relation, options: SolverOptions
) -> Solution:
    """The same without repeated cells, of entries near 1, so that their squares are in range."""
    merged = MergedWorkload(operator)
    # the strategy is inverted for cells that differ; the certificate is about all of them
    before = options.before((_inverted(merged.operator) + _inverted(operator)) / 2)
    if before.allows(_first_step(merged.operator, relation)):
        return solve_norm(operator, p, relation=relation, options=before)
    if relation == "add-remove":
        return solve_in_blocks(merged, p, options)
    after = PAIRED * operator.shape[1] ** 3
    what = f"neighbours that replace a record on {operator.shape[1]} cells take"
    options.require(after, what, "take fewer cells or add-remove neighbours")
    if options.time_limit is not None:
        left = max(options.time_limit - after, LEAST)
        options = replace(options, time_limit=left)
    if options.allows(_first_step(merged.operator, "add-remove")):
        return under_replace(merged, p, solve_norm(operator, p, options=options), options)
    return under_replace(merged, p, solve_in_blocks(merged, p, options), options)


def _first_step(operator: Operator, relation: Relation) -> float:
    """About how long one takes; the certificate of pairs takes the matrix itself."""
    if relation == "add-remove":
        return step_seconds(*operator.work)
    return PAIRS * step_seconds(*operator.shape)


def _inverted(operator: Operator) -> float:
    """About how long it takes to invert a wide strategy, and to see what its factors lack of A."""
    m, n = operator.shape
    return n * m**2 / INVERTED if m < n else 0.0


@dataclass(slots=True)
class _Block:
    """Consecutive cells J_k and what was found for them."""

    cells: slice
    rows: Indices
    operator: DenseOperator
    solution: Solution

    @classmethod
    def of(cls, matrix: Array, cells: slice, p: float, options: SolverOptions) -> _Block:
        rows = np.flatnonzero(matrix[:, cells].any(axis=1))
        operator = DenseOperator(np.ascontiguousarray(matrix[rows, cells]))
        return cls(cells, rows, operator, solve_norm(operator, p, options=options))


def solve_in_blocks(merged: MergedWorkload, p: float, options: SolverOptions) -> Solution:
    """A strategy that measures blocks of cells apart, and both bounds; see above."""
    begin = time.perf_counter()
    limit = math.inf if options.time_limit is None else options.time_limit
    _, first = np.unique(merged.column_of, return_index=True)
    matrix = merged.original.to_dense()[:, first[-merged.shape[1] :]]
    blocks: list[_Block] = []
    parts, after = _parts(matrix, len(merged.column_of), options)
    limit = max(limit - after, limit / 4)
    for number, cells in enumerate(parts):
        left = limit - (time.perf_counter() - begin)
        share = max(left, limit / 10) / (len(parts) - number)
        alone = replace(options, time_limit=share, callback=None)
        blocks.append(_Block.of(matrix, cells, p, alone))
    strategy, inverse = _direct_sum(blocks)
    lower, u, w = _lower(matrix, blocks, p)
    strategy, inverse = merged.original_factors(strategy, inverse)
    shared = np.where(merged.column_of >= 0, (w / merged.column_copies)[merged.column_of], 0.0)
    certificate = Certificate(lower, _upper(matrix, blocks, p))
    met = certificate.gap <= options.rel_gap
    return Solution(
        strategy=strategy,
        right_inverse=inverse,
        dual_u=u,
        dual_w=shared,
        certificate=certificate,
        status=Status.OPTIMAL if met else Status.TIME_LIMIT,
        steps=sum(block.solution.steps for block in blocks),
        eigendecompositions=sum(block.solution.eigendecompositions for block in blocks),
        seconds=time.perf_counter() - begin,
    )


def _parts(matrix: Array, cells: int, options: SolverOptions) -> tuple[list[slice], float]:
    """As few slices of cells as can be solved in time, and the seconds that follow.

    Args:
        matrix: A without repetitions.
        cells: as many as the strategy is written out for.
        options: with a time limit.

    Raises:
        ValueError: what follows would end far too late.
    """
    m, n = matrix.shape
    limit = math.inf if options.time_limit is None else options.time_limit
    for count in (2**k for k in range(n.bit_length())):
        parts = [slice(n * k // count, n * (k + 1) // count) for k in range(count)]
        sizes = [
            (int(np.count_nonzero(matrix[:, part].any(axis=1))), part.stop - part.start)
            for part in parts
        ]
        after = cells * sum(min(size) for size in sizes) * (ASSEMBLED + ANSWERED * m)
        if STEPS * sum(step_seconds(*size) for size in sizes) <= max(
            limit - after, limit / 4, LEAST
        ):
            break
    what = f"a step on it takes about {step_seconds(m, n):.2g} s, and that of a shorter search"
    whole = step_seconds(m, n) + cells * min(m, n) * (ASSEMBLED + ANSWERED * m)
    options.require(after, what, "take a smaller workload", enough=whole)
    return parts, after


def _direct_sum(blocks: list[_Block]) -> tuple[Array, Array]:
    """R and R^+."""
    n = blocks[-1].cells.stop
    strategy = np.zeros((sum(len(block.solution.strategy) for block in blocks), n))
    inverse = np.zeros((n, len(strategy)))
    start = 0
    for block in blocks:
        rows = slice(start, start + len(block.solution.strategy))
        strategy[rows, block.cells] = block.solution.strategy
        inverse[block.cells, rows] = block.solution.right_inverse
        start = rows.stop
    return strategy, inverse


def _upper(matrix: Array, blocks: list[_Block], p: float) -> float:
    """Certified as in `certificate.cells`, from the variances of all blocks together."""
    variances, rest, size = np.full(len(matrix), TINY), 0.0, TINY
    for block in blocks:
        found = block.solution
        variances[block.rows] += block.operator.row_norms(found.right_inverse)
        rest += factor_sizes(block.operator, found.strategy, found.right_inverse, p)[1]
        size = max(size, float(np.einsum("ij,ij->j", found.strategy, found.strategy).max()))
    value = math.sqrt(power_mean(variances, p / 2) * size)
    return (value + rest) * (1 + (sum(matrix.shape) + len(blocks)) * EPS)


def _lower(matrix: Array, blocks: list[_Block], p: float) -> tuple[float, Array, Array]:
    """The bound of the blocks on the diagonal, and its weights of all queries and cells."""
    home = np.stack([(matrix[:, block.cells] ** 2).sum(axis=1) for block in blocks]).argmax(axis=0)
    norms, own = np.zeros(len(blocks)), []
    for number, block in enumerate(blocks):
        mine = home[block.rows] == number
        weights = np.where(mine, block.solution.dual_u, 0.0)
        own.append(weights / (dual_norm(weights, p) or 1.0))
        if weights.any():
            norms[number] = lower_bound(block.operator, weights, block.solution.dual_w, p)
    total = power_mean(norms, p)
    u, w = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    largest = norms == norms.max()
    shares = largest / largest.sum() if math.isinf(p) else (norms / total) ** (p - 2)
    cells = shares * norms**2 / float(shares @ norms**2)
    for block, weights, share, part in zip(blocks, own, shares, cells, strict=True):
        u[block.rows] += share * weights
        w[block.cells] = part * block.solution.dual_w
    return float(total * (1 - (sum(matrix.shape) + len(blocks)) * EPS)), u, w
