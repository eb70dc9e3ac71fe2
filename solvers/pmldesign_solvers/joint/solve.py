r"""gamma_(p) of queries on tables that may overlap: a matrix for each table, and both bounds.

Every table that lies in no other is measured by a matrix of its own (`descent`); tables within it
are asked of it. The weights of cells and queries that the descent ends with prove a lower bound
(`lower`). The bounds come close, but need not meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.joint.descent import POWERS, Descent, Measured
from pmldesign_solvers.joint.lower import lower_bound
from pmldesign_solvers.joint.spaces import MOST_CELLS, Attributes, Spaces
from pmldesign_solvers.norm.bounds_loop import Stages
from pmldesign_solvers.norm.options import DEFAULTS, SolverOptions
from pmldesign_solvers.norm.solution import Outcome
from pmldesign_solvers.operators.norms import dual_norm, power_mean
from pmldesign_solvers.operators.operator import EPS, Array, Indices

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
        grams: of all that is asked within each table, what several tables tell in equal parts.
    """

    sizes: tuple[int, ...]
    tables: tuple[Attributes, ...]
    asked: tuple[Array, ...]
    order: Indices
    grams: tuple[Array, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], listed: Sequence[tuple[Attributes, Array]]) -> JointQuestion:
        """Of queries on the cells of sets of attributes, each within a table.

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
    """Those that are in no other, the largest first."""
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
    if max(cells) > MOST_CELLS or sum(n * n for n in cells) > MOST_ENTRIES:
        return False
    return Spaces(sizes, tables).shared <= MOST_SHARED


def solve(
    question: JointQuestion, p: float, *, total: bool = True, options: SolverOptions = DEFAULTS
) -> JointSolution:
    """Compute bounds on gamma_(p), and matrices that attain the upper one.

    Args:
        question: what is asked.
        p: in [2, inf].
        total: whether the total is measured; if not, records are replaced.
        options: when to stop.
    """
    spaces = Spaces(question.sizes, question.tables, total=total)
    best = Stages[Measured](options)
    weights: list[tuple[list[Array], Array]] = []
    measured, status = best.run(_rounds(best, question, spaces, p, weights))
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
