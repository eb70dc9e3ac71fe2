"""gamma_(p) of queries on tables that may overlap: a matrix for each table, and both bounds.

Every table that lies in no other is measured by a matrix of its own (`descent`); tables within it
are asked of it. The weights of cells and queries that the descent ends with prove a lower bound
(see below). The bounds come close, but need not meet.

Lower bound. For weights w = (x)_i w_i of the cells, sum 1, and u of the queries the norm is at
least the nuclear norm of U^(1/2) A W^(1/2) over norm(u)_q^(1/2), q = p/(p - 2). With an orthogonal
matrix whose first column is w_i^(1/2) for each attribute, table T sees the products of these on its
own attributes alone, B_T = U^(1/2) A_T (x) W_i^(1/2) (w_i^(1/2), Q_i): coordinates as those of
`spaces`. The nuclear norm is that of all B_T one below the other, exactly, from A W A^T or from the
coordinates, the smaller of the two. If both are large, B_T becomes N_T = (B_T^T B_T)^(1/2), which
turns its rows, and is cut by orthogonal projectors on both sides into the part shared with other
tables and the part of T only, which loses little:

    gamma >= tr (sum_T J_T^T (N_T)_cc^2 J_T)^(1/2) + sum_T tr (N_T)_ll.

Where records are replaced, pairs of cells with the weights w w^T have a Laplacian that leaves the
total out, W^(1/2) (1 - r r^T) W^(1/2), r = w^(1/2). With equal cells not counted the bound is
(2/m)^(1/2) times the same without the coordinate of the empty set, m = 1 - prod_i sum w_i^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.joint.descent import POWERS, Descent, Measured
from pmldesign_solvers.joint.spaces import Attributes, Spaces, frame
from pmldesign_solvers.limits import JOINT_CELLS
from pmldesign_solvers.norm.bounds_loop import Stages
from pmldesign_solvers.norm.solution import Outcome, SolverOptions
from pmldesign_solvers.operators.operator import EPS, Array, Indices, dual_norm, power_mean

MOST_ROWS = 2500
"""Of a matrix that is decomposed, a few seconds."""


def lower_bound(
    spaces: Spaces, asked: Sequence[Array], cells: Sequence[Array], u: Array, p: float
) -> float:
    """The certified bound of these weights, for replaced records where `spaces` has no total.

    Args:
        spaces: the tables.
        asked: the queries of each, shape (m_T, n_T).
        cells: w_i > 0 of each attribute, sum 1.
        u: of the queries, positive.
        p: in [2, inf].
    """
    roots = [np.sqrt(w) / math.sqrt(float(w.sum())) for w in cells]
    bases = spaces.bases([r[:, None] * frame(r) for r in roots])
    parts = np.split(np.sqrt(u), np.cumsum([len(A) for A in asked])[:-1])
    blocks = [scale[:, None] * (A @ V) for scale, A, V in zip(parts, asked, bases, strict=True)]
    own = sum(B.shape[1] - len(places) for B, places in zip(blocks, spaces.places, strict=True))
    small = min(sum(map(len, blocks)), spaces.shared + own) <= MOST_ROWS
    value = _whole(spaces, blocks) if small else _in_parts(spaces, blocks)
    norm = 1.0 if p == 2 else math.sqrt(dual_norm(u, p))
    rounding = 1 - 1e-12 - (len(u) + 40) * EPS
    return value / norm * rounding * _of_pairs(spaces, roots)


def _of_pairs(spaces: Spaces, roots: Sequence[Array]) -> float:
    """(2/m)^(1/2) where the total is left out, 1 elsewhere."""
    if spaces.has_total:
        return 1.0
    used = set().union(*spaces.tables)
    equal = math.prod(float((roots[i] ** 4).sum()) for i in used)
    return math.sqrt(2 / (1 - equal * (1 - 1e-12))) if equal < 1 else 0.0


def _whole(spaces: Spaces, blocks: Sequence[Array]) -> float:
    """The nuclear norm of all blocks."""
    first, stacked = spaces.shared, []
    for B, places in zip(blocks, spaces.places, strict=True):
        own = B.shape[1] - len(places)
        columns = np.concatenate([places, first + np.arange(own)])
        rows = np.repeat(np.arange(len(B)), len(columns))
        entries = B.ravel(), (rows, np.tile(columns, len(B)))
        stacked.append((entries, len(B)))
        first += own
    matrix = scipy.sparse.vstack(
        [scipy.sparse.csr_array(entries, shape=(count, first)) for entries, count in stacked]
    ).tocsr()
    smaller = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    return _trace_of_root((smaller @ smaller.T).toarray())


def _in_parts(spaces: Spaces, blocks: Sequence[Array]) -> float:
    """The sum of the nuclear norms of the shared part and of the parts of single tables."""
    core, total = np.zeros((spaces.shared, spaces.shared)), 0.0
    for B, places in zip(blocks, spaces.places, strict=True):
        _, values, vectors = np.linalg.svd(B, full_matrices=False)
        N, c = (vectors.T * values) @ vectors, len(places)
        core[np.ix_(places, places)] += N[:c, :c] @ N[:c, :c]
        total += float(np.trace(N[c:, c:])) - 32 * len(N) ** 1.5 * EPS * float(values[0])
    return total + _trace_of_root(core)


def _trace_of_root(matrix: Array) -> float:
    """Tr K^(1/2), rounded down."""
    if not matrix.size:
        return 0.0
    values = np.linalg.eigvalsh(matrix)
    off = 8 * len(matrix) * EPS * float(values[-1])
    return math.fsum(np.sqrt(np.maximum(values - off, 0.0)))


STEPS, MOST_ROUNDS = 40, 10
"""Of L-BFGS before both bounds are looked at, and how often for each power."""
SETTLED = 1e-3
"""Gain of such a round, relative, that ends it."""
MOST_SHARED, MOST_ENTRIES = 2048, 2**23
"""Of the coordinates that tables share, and of all matrices: a step takes seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class JointQuestion:
    """Queries on tables.

    Attributes:
        sizes: n_i of all attributes.
        tables: the sets of attributes that are in no other.
        asked: the queries on each, shape (m_T, n_T).
        order: the number of each of these, one table after the other, among the queries asked.
        grams: of all queries within each table; shared queries count in equal parts.
    """

    sizes: tuple[int, ...]
    tables: tuple[Attributes, ...]
    asked: tuple[Array, ...]
    order: Indices
    grams: tuple[Array, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], listed: Sequence[tuple[Attributes, Array]]) -> JointQuestion:
        """The question of queries on the cells of sets of attributes, each within a table.

        Attributes with one value are in no table, which changes nothing.
        """
        listed = [(tuple(i for i in T if sizes[i] > 1), A) for T, A in listed]
        tables = maximal([T for T, _ in listed])
        parts: list[list[Array]] = [[] for _ in tables]
        numbers: list[list[Indices]] = [[] for _ in tables]
        grams = [np.zeros((n, n)) for n in _cells(sizes, tables)]
        first = 0
        for T, A in listed:
            within = [k for k, other in enumerate(tables) if set(T) <= set(other)]
            for k in within:
                B = _lifted(A, T, tables[k], sizes)
                grams[k] += B.T @ B / len(within)
            parts[within[0]].append(_lifted(A, T, tables[within[0]], sizes))
            numbers[within[0]].append(first + np.arange(len(A)))
            first += len(A)
        order = np.concatenate([part for of_table in numbers for part in of_table])
        asked = tuple(map(np.concatenate, parts))
        return cls(tuple(sizes), tuple(tables), asked, order, tuple(grams))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JointSolution(Outcome):
    """Matrices of tables, whose columns are of length 1 together, with weights of a lower bound.

    The weights u are those of all queries; w those of the values of each attribute, one attribute
    after the other. The upper bound is that of the columns, for added records.

    Attributes:
        rows: R_T of each table.
    """

    rows: list[Array]


def maximal(sets: Sequence[Attributes]) -> list[Attributes]:
    """The sets that are in no other, the largest first."""
    kept: list[Attributes] = []
    for T in sorted(set(sets), key=lambda s: (-len(s), s)):
        if not any(set(T) <= set(other) for other in kept):
            kept.append(T)
    return kept


def _cells(sizes: Sequence[int], tables: Sequence[Attributes]) -> list[int]:
    return [math.prod(sizes[i] for i in T) for T in tables]


def _lifted(A: Array, inner: Attributes, T: Attributes, sizes: Sequence[int]) -> Array:
    """Queries on the table over some attributes, as queries on that over more."""
    shape = [sizes[i] if i in inner else 1 for i in T]
    wide = np.broadcast_to(A.reshape(len(A), *shape), (len(A), *(sizes[i] for i in T)))
    return wide.reshape(len(A), -1)


def affordable(sizes: Sequence[int], sets: Sequence[Attributes]) -> bool:
    """Whether the tables are small enough to be measured by matrices of their own."""
    tables = maximal(sets)
    cells = _cells(sizes, tables)
    if max(cells) > JOINT_CELLS or sum(n * n for n in cells) > MOST_ENTRIES:
        return False
    return Spaces(sizes, tables).shared <= MOST_SHARED


def solve(
    question: JointQuestion,
    p: float,
    *,
    total: bool = True,
    options: SolverOptions | None = None,
) -> JointSolution:
    """Compute bounds on gamma_(p), and matrices that attain the upper one.

    Args:
        question: the workload.
        p: in [2, inf].
        total: whether the total is measured; if not, records are replaced.
        options: when to stop.
    """
    spaces = Spaces(question.sizes, question.tables, total=total)
    best = Stages[Measured](options or SolverOptions())
    weights: list[tuple[list[Array], Array]] = []
    measured, status = best.run(lambda: _rounds(best, question, spaces, p, weights))
    cells, queries = weights[-1]
    u = np.empty(len(queries))
    u[question.order] = queries
    return JointSolution(
        rows=measured.rows,
        dual_u=u,
        dual_w=np.concatenate(cells),
        certificate=Certificate(best.lower, best.upper),
        status=status,
        steps=best.steps,
        seconds=best.seconds,
    )


def _rounds(
    best: Stages[Measured],
    question: JointQuestion,
    spaces: Spaces,
    p: float,
    weights: list[tuple[list[Array], Array]],
) -> Iterator[None]:
    """Better and better bounds; the weights of the best lower one are the last of the list."""
    descent = Descent(spaces, question.asked, question.grams)
    uniform = [np.full(n, 1 / n) for n in question.sizes]
    powers = [q for q in POWERS if q < p / 2] + [p / 2] * math.isfinite(p)
    for power in powers:
        last = math.inf
        for _ in range(MOST_ROUNDS if power == powers[-1] else 1):
            descent.run(power, steps=STEPS, proceed=best.proceed)
            value = math.sqrt(power_mean(descent.variances(), p / 2))
            measured = descent.measured(power)
            best.above(value * descent.length, measured)
            u = _unit(measured.queries, p)
            for cells in (measured.cells, uniform):
                lower = lower_bound(spaces, question.asked, cells, u, p)
                if lower > best.lower or not weights:
                    best.lower = lower
                    weights.append((cells, u))
            yield
            if value > last * (1 - SETTLED):
                break
            last = value


def _unit(u: Array, p: float) -> Array:
    """Weights of norm 1 at most; all 1 where p is 2."""
    if p == 2:
        return np.ones(len(u))
    return np.asarray(u / (dual_norm(u, p) * (1 + (len(u) + 8) * EPS)))
