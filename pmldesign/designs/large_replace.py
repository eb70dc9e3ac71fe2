"""A strategy for products of attributes, evaluated where the number of records is public.

The strategy is the one that was found for add-remove neighbours. What neighbours under replace
differ by are two of its columns, and its estimates know the total (`strategies.beside`): that is
the upper bound. Lower bounds weigh pairs of cells by the products w_i w_j of dual weights of cells
(`pmldesign_solvers.certificate.product_pairs`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.public import RECORDS
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.unions.product_basis import Basis, residual

EQUAL_COLUMNS = 1e-9
"""Relative squared distance of columns that count as equal."""
SUM_ROUNDING = 1e-8
"""Relative, upwards, of all sums in the value of a strategy."""

Parts = Sequence[Sequence[Workload]]
"""For every part of a union its factors, one for each attribute."""


def as_pairs(
    workload: Workload,
    parts: Parts,
    design: Design,
    lower: float,
    p: float,
    options: DesignOptions,
) -> Design:
    """A design for add-remove neighbours, evaluated under replace.

    Args:
        workload: A, a product or a union of products.
        parts: of the workload.
        design: for add-remove neighbours, with a product strategy.
        lower: a certified lower bound on gamma_(p) under replace.
        p: in [2, inf].
        options: what was asked for.
    """
    if len(design.strategy.factors) != len(parts[0]):
        raise TypeError(f"a strategy for {workload.name!r} is a product")
    strategy, upper = _under_replace(workload, parts, design.strategy, design.certificate.upper, p)
    return evaluated(design, strategy, Certificate(lower, upper), options)


def evaluated(
    design: Design, strategy: Strategy, certificate: Certificate, options: DesignOptions
) -> Design:
    """A design with its strategy and the bounds that hold for the neighbours that are asked for.

    Bounds that met in the search for it need not meet.
    """
    status = design.status
    if certificate.gap <= options.rel_gap and status is not Status.INTERRUPTED:
        status = Status.OPTIMAL
    elif status in (Status.OPTIMAL, Status.STALLED):
        status = Status.STRUCTURED
    return replace(
        design,
        neighbours=options.neighbours,
        strategy=strategy,
        certificate=certificate,
        status=status,
    )


def is_total(factor: Workload) -> bool:
    """Whether all queries count every cell alike."""
    return factor.longest_difference() <= EQUAL_COLUMNS * factor.longest_column()


def _under_replace(
    workload: Workload, parts: Parts, strategy: Strategy, upper: float, p: float
) -> tuple[Strategy, float]:
    """The strategy scaled to l2 sensitivity 1 under replace, and its value there.

    Args:
        workload: A, a product or a union of products.
        parts: of the workload.
        strategy: R, of l2 sensitivity 1 under add-remove.
        upper: its certified value under add-remove.
        p: in [2, inf].

    Returns:
        The strategy, and a certified upper bound on gamma_(p) under replace.
    """
    centred = strategy.beside(RECORDS)
    sensitivity = centred.sensitivity_under(Neighbours.REPLACE, "l2")
    spread = math.sqrt(centred.variance_norm(workload.beside(RECORDS), p / 2))
    bases = [Basis(factor.matrix, factor.pseudo_inverse) for factor in strategy.factors]
    rest = math.sqrt(2 * math.fsum(residual(part, bases) ** 2 for part in parts))
    value = spread * sensitivity * (1 + SUM_ROUNDING) + rest + SUM_ROUNDING * upper
    return strategy.scaled(1 / sensitivity), value
