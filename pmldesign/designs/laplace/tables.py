"""Weighted tables for marginals and unions of tables: how much of each is measured.

Which ones may be measured says `measured`; the search is that of
`pmldesign_solvers.search.table_weights`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pmldesign.designs.laplace.measured import ALL_SUBSETS, Subset, measured_tables
from pmldesign.privacy.guarantees import Guarantee, PMLGuarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import WeightedTablesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.union import tables_asked
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search import table_weights
from pmldesign_solvers.search.table_weights import Scale, TableWeights, total_scale
from pmldesign_solvers.structure.subsets import residual_spaces

NEWTON_STEPS = 100
"""A stop that is not reached: digits double with every step near the solution."""


def weighted_tables(
    workload: Workload,
    guarantee: Guarantee,
    p: float,
    *,
    seed: int = 0,
    deadline: float = math.inf,
) -> WeightedTablesStrategy | None:
    """The best weighted tables that a search finds for Laplace noise; None for no tables.

    Args:
        workload: marginals, or a union of tables.
        guarantee: what the noise is to meet.
        p: in [2, inf].
        seed: of the random starts.
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
    queries = list(counts)
    measured = measured_tables(sizes, [subset for subset, _ in queries], public=public)
    family = measured.tables
    if not family:
        return None
    place = {subset: number for number, subset in enumerate(family)}
    within = measured.within
    spaces = residual_spaces(sizes, [*within, *(subset for subset, _ in queries)])
    needs = spaces.incidence[:, len(within) :]
    used = np.asarray(needs.sum(axis=1)).ravel() > 0
    kept = [number for number, subset in enumerate(queries) if subset[0] or not public]
    if public:
        used[0] = False
    tables = TableWeights(
        contains=measured.contains(spaces)[used],
        needs=needs[used][:, kept],
        dimensions=spaces.dimensions[used],
        cells=np.array([math.prod(sizes[i] for i in subset) for subset in family], float),
        asked_cells=spaces.cells[len(within) :][kept],
        weights=np.array([queries[k][1] ** 2 for k in kept]),
        counts=np.array([float(counts[queries[k]]) for k in kept]),
        asked=np.array([place[queries[k][0]] for k in kept]),
        covers=measured.covers,
    )
    scale: Scale = total_scale
    if isinstance(guarantee, OnPriors):
        scale = _leakage_scale(workload, guarantee, family, sizes)
    theta, _ = table_weights.solve(tables, p, scale=scale, seed=seed, deadline=deadline)
    chosen = np.flatnonzero(theta)
    return WeightedTablesStrategy(
        "weighted-tables", sizes, [family[k] for k in chosen.tolist()], theta[chosen]
    )


def _leakage_scale(
    workload: Workload, guarantee: PMLGuarantee, family: Sequence[Subset], sizes: Sequence[int]
) -> Scale:
    """The root of Corollary 1, every cell as likely as the least likely; DP for many attributes."""
    used = sorted(set().union(*family))
    seen = math.prod(sizes[i] for i in used)
    if len(used) > ALL_SUBSETS:
        return total_scale
    differing = [set(D) for k in range(1, len(used) + 1) for D in combinations(used, k)]
    meets = 2.0 * np.array([[bool(D & set(S)) for S in family] for D in differing])
    alpha = guarantee.least_probability(workload.shape[1]) * (workload.shape[1] // seen)
    least = alpha * np.array([math.prod(sizes[i] - 1 for i in D) for D in differing])
    rest = max(0.0, 1 - alpha - float(least.sum()))

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
