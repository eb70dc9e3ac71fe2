r"""Weighted products for unions of products: the attributes' designs, and how much of each table.

Each attribute that is not plain has a design D_i for all of its queries. In the letters of
`strategies.tables.products`, with A of the table U on attribute i,

    t = v^T A^T A v,   h = tr A G^-1 A^T - tau t,
    total variance of U = c_U^2 sum_{T within U} prod_T h_i prod_{U, not T} t_i / lambda_T,

so that the weights are those of `pmldesign_solvers.search.supports`, tau_i in place of the
number of cells. For p > 2 all answers of a table count as their mean: the exact error decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmldesign.designs.laplace.tables import as_sets, flags
from pmldesign.strategies.tables.coordinates import has_full_rank, tau_and_coordinates
from pmldesign.strategies.tables.products import WeightedProductsStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.tables.base import asks_counts, asks_total
from pmldesign.workloads.tables.same import Table, as_tables_over
from pmldesign.workloads.union import together
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.supports import steepest
from pmldesign_solvers.search.supports.weights import TableProblem
from pmldesign_solvers.structure.subsets import residual_spaces

DESIGNED_CELLS = 1024
"""Most values of an attribute that gets a design of its own: a dense search on them."""
SET_ASIDE = 1e-3
"""Part of its columns that a design gives for telling all values apart."""
MOST_TABLES = 2**12
"""Most tables with their parts whose weights are searched for (a step takes milliseconds)."""

Design = Callable[[Workload], Array]
"""From the queries of an attribute to D, no column of which is longer than 1 in the l1 norm."""


def tables_of(workload: Workload) -> tuple[tuple[int, ...], list[Table]] | None:
    """The sizes of the attributes and the tables of a union of products; None for others."""
    sizes = workload.domain
    tables = as_tables_over(workload, sizes) if len(sizes) > 1 else None
    return None if tables is None else (sizes, tables)


def attribute_queries(sizes: Sequence[int], tables: Sequence[Table]) -> dict[int, Workload]:
    """All queries of each attribute that is not plain."""
    kinds: dict[int, dict[int, Workload]] = {}
    for _, queries in tables:
        for i, factor in queries.items():
            if sizes[i] > 1 and not asks_total(factor):
                kinds.setdefault(i, {})[id(factor)] = factor
    return {
        i: together([*factors.values()])
        for i, factors in kinds.items()
        if not all(asks_counts(factor) for factor in factors.values())
    }


def weighted_products(
    workload: Workload,
    p: float,
    design: Design,
    *,
    public_total: bool,
    deadline: float = math.inf,
) -> WeightedProductsStrategy | None:
    """The best weights of products of the attributes' designs; None for no union of products.

    Args:
        workload: a union of products, or tables with queries of their own.
        p: in [2, inf].
        design: of an attribute; see DESIGNED_CELLS.
        public_total: whether the number of records is public.
        deadline: on the clock of `time.perf_counter`.
    """
    asked = tables_of(workload)
    if asked is None:
        return None
    sizes, tables = asked
    ordered = attribute_queries(sizes, tables)
    if not ordered or max(sizes[i] for i in ordered) > DESIGNED_CELLS:
        return None
    designs = {i: _of_full_rank(design(queries)) for i, queries in ordered.items()}
    subsets = [tuple(i for i in queries if sizes[i] > 1) for _, queries in tables]
    kept = [U for U, subset in enumerate(subsets) if subset or not public_total]
    if not kept:
        return None
    tables, subsets = [tables[U] for U in kept], [subsets[U] for U in kept]
    used = sorted(set().union(*subsets))
    problem = _problem(sizes, tables, subsets, used, designs, public_total)
    if len(problem.residuals) > MOST_TABLES:
        return None
    found = steepest.solve(problem, p, public=public_total, deadline=deadline)
    return WeightedProductsStrategy(
        "weighted-products",
        sizes,
        designs,
        as_sets(found.tables, used),
        found.theta / found.theta.sum(),
    )


def _of_full_rank(D: Array) -> Array:
    """D, with the values themselves at what its columns have left if it has not full rank."""
    if has_full_rank(D):
        return D
    kept = (1 - SET_ASIDE) * D
    return np.vstack([kept, np.diag(1 - np.abs(kept).sum(axis=0))])


def _problem(
    sizes: Sequence[int],
    tables: Sequence[Table],
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
    for U, (_, queries) in enumerate(tables):
        for i, factor in queries.items():
            if (i, id(factor)) not in numbers:
                numbers[i, id(factor)] = _numbers(sizes[i], factor, inverses.get(i))
        shares = {i: numbers[i, id(factor)] for i, factor in queries.items()}
        rows = math.prod(factor.shape[0] for factor in queries.values())
        for entry in range(needs.indptr[U], needs.indptr[U + 1]):
            T = spaces.residuals[needs.indices[entry]]
            inner = math.prod(shares[i][0] / taus[i] for i in T)
            needs.data[entry] = (
                rows * inner * math.prod(shares[i][1] for i in queries if i not in T)
            )
    kept = slice(1 if public_total else 0, None)
    return TableProblem(
        sizes=np.array([sizes[i] for i in used], dtype=float),
        taus=np.array([taus[i] for i in used]),
        residuals=flags(spaces.residuals[kept], used),
        needs=needs.tocsr()[kept],
        dimensions=np.ones(len(spaces.residuals[kept])),
        asked=flags(subsets, used),
        asked_cells=np.array(
            [math.prod(factor.shape[0] for factor in queries.values()) for _, queries in tables],
            dtype=float,
        ),
        weights=np.array([scale**2 for scale, _ in tables]),
        counts=np.ones(len(tables)),
    )


def _numbers(n: int, queries: Workload, inverse: Array | None) -> tuple[float, float]:
    """The numbers h and t of queries of an attribute, of which G^-1 is given unless it is plain."""
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
