r"""Weighted tables and weighted products: which ones are measured, and how much of each.

The search is that of `pmldesign_solvers.search.supports`: weighted tables for marginals and unions
of tables, weighted products for unions of products.

There each attribute that is not plain has a design D_i for all of its queries. In the letters of
`strategies.tables.products`, with A of the table U on attribute i,

    t = v^T A^T A v,   h = tr A G^-1 A^T - tau t,
    total variance of U = c_U^2 sum_{T within U} prod_T h_i prod_{U, not T} t_i / lambda_T,

so that the weights are those of `pmldesign_solvers.search.supports`, with tau_i instead of the
number of cells. For p > 2 all answers of a table count as their mean: the exact error decides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from pmldesign.privacy.guarantees import Guarantee, PMLGuarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies.tables.weighted import (
    WeightedTablesStrategy,
    has_full_rank,
    tau_and_coordinates,
)
from pmldesign.workloads import Workload
from pmldesign.workloads.ranges import asks_counts
from pmldesign.workloads.terms.over import as_terms
from pmldesign.workloads.terms.term import Term
from pmldesign.workloads.terms.workload import together
from pmldesign_solvers.limits import DESIGNED_CELLS, MOST_TABLES
from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search import supports
from pmldesign_solvers.search.support_weights import Scale, ScaleOf, TableProblem, total_scale
from pmldesign_solvers.structure.subsets import residual_spaces

LISTED = 8
"""Attributes up to which distances under PML are those of all sets in which cells differ."""
NEWTON_STEPS = 100
"""A stop that is not reached: digits double with every step near the solution."""
SET_ASIDE = 1e-3
"""Part of its columns that a design gives for telling all values apart."""

Design = Callable[[Workload], Array]
"""From the queries of an attribute to D, whose columns have an l1 norm of at most 1."""


def weighted_tables(
    workload: Workload, guarantee: Guarantee, p: float, *, work: Work | None = None
) -> WeightedTablesStrategy | None:
    """The best weighted tables that a search finds for Laplace noise; None for no tables.

    Args:
        workload: marginals, or a union of tables.
        guarantee: the guarantee that the noise has to meet.
        p: in [2, inf].
        work: when the search stops.

    Raises:
        ValueError: the tables have too many subsets.
    """
    asked = as_terms(workload)
    if not asked.counts:
        return None
    sizes = asked.domain
    public = guarantee.neighbours is Neighbours.REPLACE
    counts = Counter(
        (tuple(i for i in term.attributes if sizes[i] > 1), term.weight) for term in asked.terms
    )
    queries = [query for query in counts if query[0] or not public]
    if not queries:
        return None
    subsets = [subset for subset, _ in queries]
    used = sorted(set().union(*subsets))
    spaces = residual_spaces(sizes, subsets)
    kept = slice(1 if public else 0, None)
    values = np.array([sizes[i] for i in used], dtype=float)
    problem = TableProblem(
        sizes=values,
        taus=values,
        residuals=flags(spaces.residuals[kept], used),
        needs=spaces.incidence[kept],
        dimensions=spaces.dimensions[kept],
        asked=flags(subsets, used),
        asked_cells=spaces.cells,
        weights=np.array([weight**2 for _, weight in queries]),
        counts=np.array([float(counts[query]) for query in queries]),
    )
    scale_of: ScaleOf = total_scale
    if isinstance(guarantee, OnPriors) and len(used) <= LISTED:
        scale_of = _leakage_scales(workload, guarantee, values)
    found = supports.solve(problem, p, scale_of=scale_of, public=public, work=work)
    return WeightedTablesStrategy(
        "weighted-tables", sizes, as_sets(found.tables, used), found.theta / found.theta.sum()
    )


def flags(subsets: Sequence[Sequence[int]], used: Sequence[int]) -> Array:
    """Which of the attributes in use are in each set, shape (sets, attributes in use)."""
    column = {i: number for number, i in enumerate(used)}
    table = np.zeros((len(subsets), len(used)))
    for row, subset in zip(table, subsets, strict=True):
        row[[column[i] for i in subset]] = 1.0
    return table


def as_sets(tables: Array, used: Sequence[int]) -> list[tuple[int, ...]]:
    """The attributes of each table, from its row of flags."""
    return [tuple(used[k] for k in np.flatnonzero(row).tolist()) for row in tables]


def _leakage_scales(workload: Workload, guarantee: PMLGuarantee, values: Array) -> ScaleOf:
    """The root of Corollary 1, every cell as likely as the least likely."""
    attributes = range(len(values))
    differing = [list(D) for k in range(len(values)) for D in combinations(attributes, k + 1)]
    alike = workload.shape[1] // math.prod(int(n) for n in values)
    alpha = guarantee.least_probability(workload.shape[1]) * alike
    least = alpha * np.array([math.prod(values[D] - 1) for D in differing])
    rest = max(0.0, 1 - alpha - float(least.sum()))
    among = flags(differing, attributes)

    def scale_of(tables: Array) -> Scale:
        meets = 2.0 * (among @ tables.T > 0)

        def scale(theta: Array) -> tuple[float, Array]:
            distances = meets @ theta
            far, t = distances.max(), 0.0
            for _ in range(NEWTON_STEPS):
                terms = least * np.exp(-distances * t)
                last = rest * math.exp(-far * t)
                total = alpha + float(terms.sum()) + last
                slope = float(terms @ distances) + last * far
                step = (math.log(total) + guarantee.epsilon) * total / slope
                t += step
                if abs(step) <= 1e-13 * t:
                    break
            pull = (terms @ meets + last * meets[int(distances.argmax())]) / slope
            return -math.log(t), np.asarray(pull)

        return scale

    return scale_of


def weighted_products(
    workload: Workload,
    p: float,
    design: Design,
    *,
    public_total: bool,
    work: Work | None = None,
) -> WeightedTablesStrategy | None:
    """The best weights of products of the attributes' designs; None for no union of products.

    Args:
        workload: a union of products, or tables with queries of their own.
        p: in [2, inf].
        design: of an attribute; see DESIGNED_CELLS.
        public_total: whether the number of records is public.
        work: when the search stops.
    """
    asked = as_terms(workload)
    sizes = asked.domain
    if workload.public or not asked.crossed:
        return None
    ordered = {
        i: together(ways)
        for (i,), ways in asked.ways.items()
        if sizes[i] > 1 and not all(map(asks_counts, ways))
    }
    if len(sizes) < 2 or not ordered or max(sizes[i] for i in ordered) > DESIGNED_CELLS:
        return None
    designs = {i: _of_full_rank(design(queries)) for i, queries in ordered.items()}
    every = [(term, tuple(i for i in term.attributes if sizes[i] > 1)) for term in asked.terms]
    kept = [(term, subset) for term, subset in every if subset or not public_total]
    if not kept:
        return None
    terms, subsets = zip(*kept, strict=True)
    used = sorted(set().union(*subsets))
    problem = _problem(sizes, terms, subsets, used, designs, public_total)
    if len(problem.residuals) > MOST_TABLES:
        return None
    found = supports.solve(problem, p, public=public_total, work=work)
    weights = found.theta / found.theta.sum()
    return WeightedTablesStrategy(
        "weighted-products", sizes, as_sets(found.tables, used), weights, designs
    )


def _of_full_rank(D: Array) -> Array:
    """D, with the values themselves at what its columns have left if it has not full rank."""
    if has_full_rank(D):
        return D
    kept = (1 - SET_ASIDE) * D
    return np.vstack([kept, np.diag(1 - np.abs(kept).sum(axis=0))])


def _problem(
    sizes: Sequence[int],
    terms: Sequence[Term],
    subsets: Sequence[tuple[int, ...]],
    used: Sequence[int],
    designs: Mapping[int, Array],
    public_total: bool,
) -> TableProblem:
    """What a search for the weights needs to know."""
    taus = [float(n) for n in sizes]
    inverses: dict[int, Array] = {}
    for i, D in designs.items():
        taus[i] = tau_and_coordinates("design", D)[0]
        inverses[i] = np.asarray(np.linalg.inv(D.T @ D), dtype=np.float64)
    spaces = residual_spaces(sizes, subsets)
    needs = spaces.incidence.tocsc().astype(np.float64)
    numbers: dict[tuple[int, int], tuple[float, float]] = {}
    for U, term in enumerate(terms):
        queries = term.of_attributes
        for i, factor in queries.items():
            if (i, id(factor)) not in numbers:
                numbers[i, id(factor)] = _numbers(sizes[i], factor, inverses.get(i))
        shares = {i: numbers[i, id(factor)] for i, factor in queries.items()}
        for entry in range(needs.indptr[U], needs.indptr[U + 1]):
            T = spaces.residuals[needs.indices[entry]]
            inner = math.prod(shares[i][0] / taus[i] for i in T)
            needs.data[entry] = (
                term.shape[0] * inner * math.prod(shares[i][1] for i in queries if i not in T)
            )
    kept = slice(1 if public_total else 0, None)
    return TableProblem(
        sizes=np.array([sizes[i] for i in used], dtype=float),
        taus=np.array([taus[i] for i in used]),
        residuals=flags(spaces.residuals[kept], used),
        needs=needs.tocsr()[kept],
        dimensions=np.ones(len(spaces.residuals[kept])),
        asked=flags(subsets, used),
        asked_cells=np.array([term.shape[0] for term in terms], dtype=float),
        weights=np.array([term.weight**2 for term in terms]),
        counts=np.ones(len(terms)),
    )


def _numbers(n: int, queries: Workload, inverse: Array | None) -> tuple[float, float]:
    """The numbers h and t of queries of an attribute; its G^-1 is given unless it is plain."""
    if asks_counts(queries):
        gram = np.eye(n) if inverse is not None else None
    else:
        gram = queries.gram(np.ones(queries.shape[0]))
    if gram is None:
        return n - 1.0, 1 / n
    if inverse is None:
        inverse = np.eye(n)
    solution = inverse.sum(axis=1)
    tau = float(solution.sum())
    t = float(solution @ gram @ solution) / tau**2
    return float((gram * inverse).sum()) - tau * t, t
