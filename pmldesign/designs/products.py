"""The design of a product from those of its factors: norms, bounds and strategies multiply."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array

Dual = tuple[Array, Array]
"""Weights u of queries and w of cells."""
LEAST_TIME = 1e-9
"""Seconds for a factor of a product where the time limit, or Ctrl-C, leaves none: one step."""


def solve_factors(
    factors: Sequence[tuple[Workload, Neighbours]],
    p: float,
    options: DesignOptions,
    solve: Callable[[Workload, float, DesignOptions], Design],
) -> list[Design]:
    """The design of every factor, each for its own neighbours; equal ones are solved once."""
    # (1 + gap/k)^k <= 1 + 1.8 gap for gap <= 1: leave room for the product of the factors' gaps
    share = replace(options, rel_gap=math.log1p(options.rel_gap) / len(factors))
    solved: dict[tuple[Workload, Neighbours], Design] = {}
    for factor, neighbours in dict.fromkeys(factors):
        design = solve(factor, p, replace(share, neighbours=neighbours))
        solved[factor, neighbours] = design
        if design.status is Status.INTERRUPTED:
            share = replace(share, time_limit=LEAST_TIME)
        if share.time_limit is not None:
            share = replace(share, time_limit=max(share.time_limit - design.seconds, LEAST_TIME))
    return [solved[entry] for entry in factors]


def as_product(
    workload: Workload,
    p: float,
    options: DesignOptions,
    designs: Sequence[Design],
    strategy: Strategy,
) -> Design:
    """The designs of the factors as the design of the product.

    Args:
        workload: the product.
        p: in [2, inf].
        options: what was asked for.
        designs: one for each factor.
        strategy: the product of theirs.
    """
    certificate = Certificate(
        lower=_product([design.certificate.lower for design in designs], towards=0.0),
        upper=_product([design.certificate.upper for design in designs], towards=math.inf),
    )
    solved = list(dict.fromkeys(designs))
    stopped = [design.status for design in solved if design.status is not Status.OPTIMAL]
    met = certificate.gap <= options.rel_gap and not stopped
    return Design(
        workload=workload,
        p=p,
        neighbours=options.neighbours,
        strategy=strategy,
        certificate=certificate,
        dual_factors=tuple(pair for design in designs for pair in _expanded(design)),
        status=Status.OPTIMAL if met else (stopped or [Status.STALLED])[0],
        steps=sum(design.steps for design in solved),
        eigendecompositions=sum(design.eigendecompositions for design in solved),
        seconds=sum(design.seconds for design in solved),
    )


def _expanded(design: Design) -> list[Dual]:
    """Weights of queries and cells; those of marginals have one number for each marginal."""
    factor, n = design.workload, design.workload.shape[1]
    tables = factor.as_tables()
    if tables is None or any(len(u) != len(tables.subsets) for u, _ in design.dual_factors):
        return list(design.dual_factors)
    return [
        (np.repeat(u, tables.table_queries), np.full(n, 1.0 / n)) for u, _ in design.dual_factors
    ]


def _product(values: Sequence[float], *, towards: float) -> float:
    """The product, every rounding in one direction."""
    return reduce(lambda total, value: math.nextafter(total * value, towards), values)
