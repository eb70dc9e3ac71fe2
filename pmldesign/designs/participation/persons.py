"""Strategies for tables in which a person has several rows.

any cells            that of one row: its norm and both bounds are k times as large
different cells      that of one row, with the sensitivity for a person; one row proves the bound
a panel              likewise; of a product with a factor for the years also the optimum of that
                     factor for fixed epochs, all years of one class, as the sensitivity of
                     R_Y x R_C is that of R_Y for a person in all years times the longest column
                     of R_C; the better one
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.factorization import answer
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.strategies import Strategy, product_strategy
from pmldesign.strategies.participation.persons import ANY, PersonRows
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status

Solve = Callable[[Workload, float, DesignOptions], Design]
ROUNDING = 1e-10
"""Of norms and quotients of sensitivities, relative: they are rounded by far less."""


def solve_persons(workload: Workload, p: float, options: DesignOptions, solve: Solve) -> Design:
    """The best strategy that is known for the rows of a person, which `options` say."""
    rows, plain = options.schema, replace(options, participation=None)
    assert isinstance(rows, PersonRows)
    design, count = solve(workload, p, plain), rows.reach(workload.shape[1])
    measured, relation = with_participation(design.strategy, rows), options.neighbours
    single = design.strategy.sensitivity_under(relation, "l2")
    apart = measured.sensitivity_under(relation, "l2")
    upper = raised(design.certificate.upper * (apart / single) * (1 + ROUNDING), 4)
    forms = design.forms
    whole = count == 1 or rows.one_per == ANY
    if not whole:
        forms = "upper: the one for one row; lower: one row"
        panel = _panel(workload, plain, rows, solve)
        norm = math.inf if panel is None else _norm(panel, workload, p)
        if panel is not None and norm < upper * (1 - ROUNDING):
            measured, upper, forms = panel, norm, "upper: fixed epochs; lower: one row"
            apart = panel.sensitivity_under(relation, "l2")
    lower = math.nextafter((count if whole else 1) * design.certificate.lower, 0.0)
    certificate = Certificate(lower, max(upper, lower))
    optimum = None if design.optimum is None or not whole else raised(count * design.optimum, 1)
    status = design.status
    proved = status in (Status.OPTIMAL, Status.STRUCTURED)
    if proved and not whole and certificate.gap > options.rel_gap + 2 * ROUNDING:
        status = Status.SEARCHED
    return replace(
        design,
        strategy=measured.scaled(1.0 / apart),
        certificate=certificate,
        optimum=optimum,
        status=status,
        forms=forms,
    )


def _norm(strategy: Strategy, workload: Workload, p: float) -> float:
    """What a strategy makes of the norm, rounded upwards."""
    return answer(strategy, workload, Neighbours.ADD_REMOVE).norm(p) * (1 + ROUNDING)


def _panel(
    workload: Workload, options: DesignOptions, rows: PersonRows, solve: Solve
) -> Strategy | None:
    """The product with the optimum for fixed epochs; None where no factor has the years."""
    if not isinstance(rows.one_per, tuple) or len(rows.one_per) != 3 or rows.without:
        return None
    if options.replace or options.method != "scaling":
        return None
    before, years, _ = rows.one_per
    factors, place, sizes = workload.factors, 0, 1
    while place < len(factors) and sizes < before:
        sizes *= factors[place].shape[1]
        place += 1
    found = place < len(factors) and (sizes, factors[place].shape[1]) == (before, years)
    if not found or rows.times < years:
        return None
    epochs = replace(options, participation=Participation(years, 1, fixed=True))
    strategies = [
        with_participation(solve(factor, 2.0, asked).strategy, None)
        for number, factor in enumerate(factors)
        for asked in [epochs if number == place else options]
    ]
    strategies[place] = Strategy("years", strategies[place].matrix)
    return with_participation(product_strategy(strategies), rows)
