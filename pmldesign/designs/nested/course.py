"""The design for counts and tables of regions that nest, each with a weight of its own.

The lower bound is that of the dual (`pmldesign_solvers.trees`), found together with a strategy that
attains it, which is not returned: the one returned measures every region by a count of its own, in
whole numbers, and is within 0.01 to 0.6 % of the bound at p up to 4 where the regions of a level
weigh the same. Ordered attributes are measured in coordinates of their own (`ordered`), and bounds
need not meet.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from pmldesign.designs.large_replace import evaluated
from pmldesign.designs.nested.ordered import ordered_attributes
from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.factorization import Factorization
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.nested import (
    cells_alone,
    duals_of,
    of_weights,
    problem_of,
    shares_of,
)
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.public import RECORDS
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.product_pairs import lower_of_weights
from pmldesign_solvers.norm.solution import Status

STEPS = 60
"""Of the descent of weights: on 324,000 regions all but 0.002 % is gained in as many."""


def solve_regions(workload: NestedWorkload, p: float, options: DesignOptions) -> Design:
    """Weights of all counts, and both bounds.

    Raises:
        InvalidInputError: buffers, or a method other than scaling.
    """
    from pmldesign_solvers.streams.solve import solve

    begin, limit = time.perf_counter(), options.time_limit
    regions = workload.as_regions() if options.replace else None
    asked = workload if regions is None else regions.without_total()
    found = ordered_attributes(asked, p, options)
    problem = problem_of(asked, p, found.numbers)
    with as_invalid_input(workload):
        solution = solve(problem, p, options=options.stopping)
    lower = solution.certificate.lower * found.trusted

    def proceed() -> bool:
        return limit is None or time.perf_counter() - begin < limit

    public = asked is not workload
    shares = shares_of(asked, p, public=public, ordered=found.measured).best(proceed, steps=STEPS)
    candidates = [of_weights("design", workload, np.sqrt(shares), found.measured).normalised()]
    if found.measured:
        candidates.append(cells_alone(workload).normalised())
    duals = problem, solution.dual_u, solution.dual_w
    u, w = duals_of(workload, p, *duals, queries=found.queries, cells=found.cells)
    upper, strategy = min(
        ((_value(workload, tried, p, options), tried) for tried in candidates),
        key=lambda pair: pair[0],
    )
    design = replace(as_design(workload, p, options, strategy, solution), dual_factors=((u, w),))
    if options.replace:
        lower = lower_of_weights(workload, lower, u, w)
        return evaluated(design, strategy, Certificate(lower, upper), options)
    certificate = Certificate(lower, upper)
    status = solution.status
    if certificate.gap <= options.rel_gap:
        status = Status.OPTIMAL
    elif status in (Status.OPTIMAL, Status.STALLED):
        status = Status.STRUCTURED
    return replace(
        design, certificate=certificate, status=status, seconds=time.perf_counter() - begin
    )


def _value(workload: NestedWorkload, strategy: Strategy, p: float, options: DesignOptions) -> float:
    """What a strategy of sensitivity 1 is worth; its variances are sums of positive numbers."""
    if options.replace:
        pair = Factorization(workload.beside(RECORDS), strategy.beside(RECORDS), Neighbours.REPLACE)
    else:
        pair = Factorization(workload, strategy, Neighbours.ADD_REMOVE)
    rows, cells = workload.shape
    return raised(pair.norm(p), 64 + 24 * math.ceil(math.log2(rows + cells + 2)) ** 2)
