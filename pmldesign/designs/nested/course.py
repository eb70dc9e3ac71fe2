"""The design for counts and tables of regions that nest, each with a weight of its own.

The lower bound is that of the dual (`pmldesign_solvers.trees`), found together with a matrix that
attains it (`Design.optimum`), which is not returned: the strategy returned measures every region by
a count of its own, in whole numbers, and is within 0.01 to 0.6 % of the bound at p up to 4 where
the regions of a level weigh the same. Ordered attributes are measured in coordinates of their own
(`ordered`), and bounds need not meet.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from pmldesign.designs.large_replace import evaluated
from pmldesign.designs.nested.ordered import ordered_attributes
from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.nested import (
    cells_alone,
    known_places,
    of_weights,
)
from pmldesign.strategies.baselines.orbits import OrbitCounts
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.operators.operator import EPS

STEPS = 60
"""Of the descent of weights: on 324,000 regions all but 0.002 % is gained in as many."""


def solve_regions(
    workload: NestedWorkload, p: float, options: DesignOptions, public: Public = NOTHING
) -> Design:
    """Weights of all counts, and both bounds.

    Args:
        workload: the queries.
        p: in [2, inf].
        options: what was asked for.
        public: what is, for neighbours under replace.

    Raises:
        InvalidInputError: buffers, a method other than scaling, or nothing but what is public.
    """
    from pmldesign_solvers.streams.solve import solve

    begin, limit = time.perf_counter(), options.time_limit
    public = RECORDS if options.replace and not public else public
    known = known_places(workload, public)
    if not workload.open_scales(known).any():
        raise InvalidInputError(
            f"workload {workload.name!r}: the known answers {public.name or 'total'!r} answer all"
            " of its queries; ask for places below, or give known answers that tell less"
        )
    found = ordered_attributes(workload, p, options, known)
    counts = OrbitCounts(workload, known)
    problem = counts.problem(p, found.numbers)
    with as_invalid_input(workload):
        solution = solve(problem, p, options=options.stopping)
    lower = solution.certificate.lower * found.trusted
    if public:
        concentration = math.prod(float(cells @ cells) for cells in found.of_cells(workload))
        pairs = problem.pairs(solution.dual_w / solution.dual_w.sum(), concentration)
        lower /= math.sqrt(pairs) * (1 + 4 * EPS)

    def proceed() -> bool:
        return limit is None or time.perf_counter() - begin < limit

    shares = counts.shares(p, ordered=found.measured).best(proceed, steps=STEPS)
    weights = counts.weights(shares)
    candidates = [of_weights("design", workload, weights, found.measured, public)]
    if found.measured:
        candidates.append(cells_alone(workload, public))
    normalised = [strategy.normalised() for strategy in candidates]
    duals = problem, solution.dual_u, solution.dual_w
    u, w = counts.duals(p, *duals, queries=found.queries, cells=found.cells)
    upper, strategy = min(
        ((_value(workload, tried, p, public), tried) for tried in normalised),
        key=lambda pair: pair[0],
    )
    asked = workload.beside(public) if public.name else workload
    design = replace(as_design(asked, p, options, strategy, solution), dual_factors=((u, w),))
    design = replace(design, seconds=time.perf_counter() - begin)
    if not public and not found.numbers and solution.certificate.upper < upper:
        design = replace(design, optimum=solution.certificate.upper)
    return evaluated(design, strategy, Certificate(lower, upper), options)


def _value(workload: NestedWorkload, strategy: Strategy, p: float, public: Public) -> float:
    """What a strategy is worth; its variances are sums of positive numbers."""
    relation = Neighbours.REPLACE if public else Neighbours.ADD_REMOVE
    pair = Factorization(workload.beside(public), strategy.beside(public), relation)
    rows, cells = workload.shape
    return raised(pair.norm(p), 64 + 24 * math.ceil(math.log2(rows + cells + 2)) ** 2)
