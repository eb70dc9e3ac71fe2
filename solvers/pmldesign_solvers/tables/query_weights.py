r"""Dual weights of the queries at p > 2: products within each table.

A query of table T made of the queries q_k of its factors has the weight u_T prod_k u_k(q_k), with
norm(u_k)_q = 1, q = p/(p - 2), for each factor and sum_T u_T^q = 1: then norm(u)_q = 1. With
G_k = A_k^T diag(u_k) A_k and c_T = omega_T^2 u_T the bounds are those of p = 2. At the best weights
u_T^q is in proportion to c_T dF/dc_T, and u_k^q to u_k dF/du_k, by F of `free_vector`;
u <- (u dF/du)^(1/q) is taken together with its steps, from the weights that are best for each
factor alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmldesign_solvers.norm.solution import SolverOptions
from pmldesign_solvers.norm.solve import solve_norm
from pmldesign_solvers.operators.operator import EPS, Array, Operator, dual_exponent, dual_norm
from pmldesign_solvers.tables import free_vector
from pmldesign_solvers.tables.problem import Tables

FACTOR_GAP = 1e-3
"""Of the weights of a single factor, which are a start."""
FIXED_POINT_STEPS = 60
"""Of the fixed point, at most. Chosen, not measured."""
LEAST_WEIGHT = 1e-7
"""Of a weight, as a part of the largest: every query stays in the strategy."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The queries of all tables, and the weight of each table.

    Attributes:
        sizes: n_i of all attributes.
        attribute: of each factor.
        factors: A_k; None stands for the counts of a plain attribute.
        tables: the factors of each table, on increasing attributes.
        scales: omega_T > 0, which multiplies the queries of a table.
    """

    sizes: tuple[int, ...]
    attribute: tuple[int, ...]
    factors: tuple[Operator | None, ...]
    tables: tuple[tuple[int, ...], ...]
    scales: Array

    @property
    def ordered(self) -> set[int]:
        """The attributes that are asked for more than counts."""
        return {
            i
            for i, factor in zip(self.attribute, self.factors, strict=True)
            if factor is not None and self.sizes[i] > 1
        }

    @property
    def uniform(self) -> bool:
        """Whether each attribute has the same queries in all tables."""
        return len(set(self.attribute)) == len(self.attribute)


def weighted(
    question: Question,
    p: float,
    *,
    watch: free_vector.Watch | None = None,
    options: SolverOptions | None = None,
) -> tuple[Tables, Array]:
    """The problem at p = 2 with the best weights of queries, and these weights.

    They are u_T and, at p > 2, then u_k of each factor that asks for more than counts, in the order
    of the attributes; of counts the queries weigh the same.
    """
    ones = np.ones(len(question.tables))
    if p == 2:
        return _problem(question, [None] * len(question.factors), ones), ones
    options = options or SolverOptions()
    single = replace(options, rel_gap=FACTOR_GAP, callback=None)
    queries = [_alone(question, k, p, single) for k in range(len(question.factors))]
    tables = ones / dual_norm(ones, p)
    problem = _problem(question, queries, tables)
    search = free_vector.steps(problem)
    point = next(search)
    for _ in range(FIXED_POINT_STEPS):
        tables = _moved(point.value.by_weights, p)
        for i in problem.ordered:
            for k in problem.factors[i]:
                operator, u = question.factors[k], queries[k]
                assert operator is not None
                assert u is not None
                slopes = free_vector.variances(
                    operator, point.grams[i], float(point.value.by_h[k]), float(point.value.by_t[k])
                )
                queries[k] = _moved(u * slopes, p)
        problem = _problem(question, queries, tables)
        point = search.send(problem)
        if (watch is not None and not watch(point)) or options.deadline.over():
            break
    order = np.argsort(question.attribute, kind="stable").tolist()
    listed = [queries[k] for k in order if question.factors[k] is not None]
    return problem, np.concatenate([tables, *(u for u in listed if u is not None)])


def _moved(shares: Array, p: float) -> Array:
    """Shares to the power 1/q, of norm 1 at most."""
    return _unit((shares / shares.max()) ** dual_exponent(p), p)


def _unit(u: Array, p: float) -> Array:
    """Weights with none far below the largest, of norm 1 at most."""
    u = np.maximum(u / u.max(), LEAST_WEIGHT)
    return np.asarray(u / (dual_norm(u, p) * (1 + (len(u) + 8) * EPS)))


def _alone(question: Question, k: int, p: float, options: SolverOptions) -> Array:
    """The best weights of a single factor."""
    operator = question.factors[k]
    if operator is None:
        return _unit(np.ones(question.sizes[question.attribute[k]]), p)
    return _unit(solve_norm(operator, p, options=options).dual_u, p)


def _problem(question: Question, queries: Sequence[Array | None], tables: Array) -> Tables:
    grams = tuple(_gram(question, k, u) for k, u in enumerate(queries))
    return Tables(
        question.sizes, question.attribute, grams, question.tables, question.scales**2 * tables
    )


def _gram(question: Question, k: int, u: Array | None) -> Array | float:
    operator, n = question.factors[k], question.sizes[question.attribute[k]]
    if operator is None:
        return 1.0 if u is None else float(u[0])
    gram = operator.gram(np.ones(operator.shape[0]) if u is None else u)
    return float(gram[0, 0]) if n == 1 else gram
