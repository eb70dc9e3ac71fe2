"""Weighted tables for marginals and unions of tables: which ones are measured, and how much.

The search is that of `pmldesign_solvers.search.supports`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pmldesign.privacy.guarantees import Guarantee, PMLGuarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies.tables.weighted import WeightedTablesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.union import tables_asked
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.supports import steepest
from pmldesign_solvers.search.supports.weights import (
    Scale,
    ScaleOf,
    TableProblem,
    total_scale,
)
from pmldesign_solvers.structure.subsets import residual_spaces

LISTED = 8
"""Attributes up to which distances under PML are those of all sets in which cells differ."""
NEWTON_STEPS = 100
"""A stop that is not reached: digits double with every step near the solution."""


def weighted_tables(
    workload: Workload, guarantee: Guarantee, p: float, *, deadline: float = math.inf
) -> WeightedTablesStrategy | None:
    """The best weighted tables that a search finds for Laplace noise; None for no tables.

    Args:
        workload: marginals, or a union of tables.
        guarantee: what the noise is to meet.
        p: in [2, inf].
        deadline: on the clock of `time.perf_counter`.

    Raises:
        ValueError: the tables have too many subsets.
    """
    asked = tables_asked(workload)
    if asked is None:
        return None
    sizes = asked[0].sizes
    public = guarantee.neighbours is Neighbours.REPLACE
    counts = Counter(
        (tuple(i for i in subset if sizes[i] > 1), float(weight))
        for part in asked
        for subset, weight in zip(part.subsets, part.weights, strict=True)
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
    found = steepest.solve(problem, p, scale_of=scale_of, public=public, deadline=deadline)
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
    """The attributes of tables that flags tell."""
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
