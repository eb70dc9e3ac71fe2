"""Designs for tables that cross attributes: unions of products, over domains of any size.

Under add-remove the solver's strategy and bounds (`pmldesign_solvers.tables`). Under replace the
strategy without couplings, whose distances are known, without the total, which is public
(`strategies.tables`), or for p > 2 that for add-remove where it is better; and the lower bound that
follows from the dual weights for add-remove. Tables over single attributes are exact (`separate`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate

import numpy as np

from pmldesign.designs.large_replace import evaluated
from pmldesign.designs.one_matrix import as_design, as_invalid_input
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.tables.separate import is_separate, separate_strategy
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.tables.base import asks_counts
from pmldesign.workloads.tables.same import as_tables_over, way_of
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.tables import solve as tables
from pmldesign_solvers.tables.couplings import Coupled
from pmldesign_solvers.tables.lower import replace as pairs
from pmldesign_solvers.tables.query_weights import Question

SUM_ROUNDING = 1e-8
"""Relative, upwards, of all sums in the value of a strategy under replace."""


def question(workload: Workload) -> Question | None:
    """What a solver is asked; None for a union of no products over the same attributes."""
    sizes = workload.domain
    tables = as_tables_over(workload, sizes) if len(sizes) > 1 or workload.as_tables() else None
    if tables is None:
        return None
    ways: dict[int, list[Workload]] = {i: [] for i in range(len(sizes))}
    asked = [{i: way_of(ways[i], factor) for i, factor in of.items()} for _, of in tables]
    first = dict(zip(ways, accumulate(map(len, ways.values()), initial=0), strict=False))
    plain = {i for i, queries in ways.items() if all(map(asks_counts, queries))}
    return Question(
        sizes,
        tuple(i for i, queries in ways.items() for _ in queries),
        tuple(None if i in plain else entry for i, queries in ways.items() for entry in queries),
        tuple(tuple(first[i] + way for i, way in sorted(table.items())) for table in asked),
        np.array([scale for scale, _ in tables]),
    )


def solve_tables(workload: Workload, asked: Question, p: float, options: DesignOptions) -> Design:
    """The best strategy for some tables, and its bounds."""
    if not options.replace:
        with as_invalid_input(workload):
            solution = tables.solve(asked, p, options=options.stopping)
        return as_design(workload, p, options, _strategy(asked, solution.strategy), solution)
    best = _public(workload, asked, p, options)
    left = None if options.time_limit is None else options.time_limit - best.seconds
    if p == 2 or best.certificate.gap <= options.rel_gap or (left is not None and left <= 0):
        return best
    plain = replace(options, neighbours=Neighbours.ADD_REMOVE, time_limit=left)
    single = solve_tables(workload, asked, p, plain)
    measured = single.strategy.beside(RECORDS)
    other = _under_replace(workload, single, measured, best.certificate.lower, p, options)
    if other.certificate.upper >= best.certificate.upper:
        return best
    return replace(best, strategy=other.strategy, certificate=other.certificate)


def _public(workload: Workload, asked: Question, p: float, options: DesignOptions) -> Design:
    """Without couplings, where the total is public."""
    if is_separate(asked):
        separate = separate_strategy(asked, p, options)
        if separate is not None:
            strategy, outcome = separate
            best = as_design(workload, p, options, strategy, outcome)
            return _under_replace(workload, best, strategy, best.certificate.lower, p, options)
    with as_invalid_input(workload):
        solution = tables.solve(asked, p, coupled=False, options=options.stopping)
    strategy = _strategy(asked, solution.strategy)
    solved = as_design(workload, p, options, strategy, solution)
    lower = pairs.lower_bound(solution.problem, solution.cell_weights)
    public = strategy if solution.public is None else _strategy(asked, solution.public)
    return _under_replace(workload, solved, public.beside(RECORDS), lower, p, options)


def _strategy(asked: Question, design: Coupled) -> TablesStrategy:
    return TablesStrategy("design", asked.sizes, design.attributes, design.features, design.sectors)


def _under_replace(
    workload: Workload,
    design: Design,
    public: Strategy,
    lower: float,
    p: float,
    options: DesignOptions,
) -> Design:
    """What a design is worth where the total is public.

    Args:
        workload: what is asked.
        design: with its strategy and bounds for add-remove neighbours, or separate ones.
        public: its strategy without the total.
        lower: a certified lower bound.
        p: in [2, inf].
        options: what was asked for.
    """
    centred = workload.beside(RECORDS)
    sensitivity = public.sensitivity_under(Neighbours.REPLACE, "l2")
    power = public.norm_by_structure(centred, p / 2)
    if power is None:
        raise InvalidInputError(f"workload {workload.name!r} is no union of products")
    rest = design.certificate.upper - design.certificate.lower if not power else 0.0
    upper = math.sqrt(power) * sensitivity * (1 + SUM_ROUNDING) + rest
    certificate = Certificate(lower, upper + SUM_ROUNDING * design.certificate.upper)
    return evaluated(design, public.scaled(1 / sensitivity), certificate, options)
