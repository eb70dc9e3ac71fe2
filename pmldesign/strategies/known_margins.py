r"""Strategies beside a public table of some attributes C, over a domain of any size.

Of a product R_C x R_O P_O (`workloads.known.margins`) the sensitivity is the add-remove sensitivity
of the factors for C, times the largest distance of two columns of the factor for all others, O.

Of residuals of marginals it tells those of T within C. The others measure what two records with the
same values of C differ by: in the letters of `marginals.strategy`, with O the open attributes,

    norm(R (e_x - e_y))^2 = 2 sum_{T in O} theta'_T (d_T - n_O (P_T)_xy),
    theta'_T = sum over the T' that have T in O of theta_T' d_(T' in C),

the distance of two cells of the open attributes alone, for the precisions theta'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.elementary import product_strategy
from pmldesign.strategies.known import (
    KNOWN_ROWS,
    BesideAnswers,
    answers_of,
    beside_known,
    within_groups,
)
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.marginals.distances import MarginalDistances
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.workloads import DenseWorkload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign.workloads.known.marginals import KnownMarginals, KnownMargins
from pmldesign.workloads.known.margins import KnownProduct, beside_margins
from pmldesign.workloads.known.workload import KnownWorkload, given_answers, table_of
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.public_total import centre
from pmldesign.workloads.tables.base import counts_of
from pmldesign_solvers.structure.cell_pairs import OpenParts


class KnownProductStrategy(BesideAnswers, ProductStrategy):
    """A product of strategies beside a public table.

    Args:
        name: how tables and messages call it.
        factors: one for each attribute, or for several that are open together.
        margins: the table.
        place: of the open factor.
    """

    def __init__(
        self, name: str, factors: Sequence[Strategy], margins: KnownMargins, place: int
    ) -> None:
        super().__init__(name, factors)
        self.margins, self.place, self.known = margins, place, margins.name

    def _apart(self, norm: Norm) -> float:
        distance = 1.0
        for number, factor in enumerate(self.factors):
            relation = Neighbours.REPLACE if number == self.place else Neighbours.ADD_REMOVE
            distance = math.nextafter(distance * factor.sensitivity_under(relation, norm), math.inf)
        return distance

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        first, *others = self.factors
        return KnownProductStrategy(
            self.name, [first.scaled(factor), *others], self.margins, self.place
        )


class KnownMarginalsStrategy(BesideAnswers, MarginalsStrategy):
    """Residuals of marginals that a public table does not tell.

    Args:
        strategy: with residuals outside the table alone.
        margins: the table.
    """

    def __init__(self, strategy: MarginalsStrategy, margins: KnownMargins) -> None:
        super().__init__(strategy.name, strategy.sizes, strategy.residuals, strategy.precisions)
        self.margins, self.known = margins, margins.name

    def _apart(self, norm: Norm) -> float:
        return (self._distances if norm == "l1" else self._within).farthest(norm)

    def scaled(self, factor: float) -> MarginalsStrategy:
        """R times a positive number."""
        precisions = self.precisions * factor**2
        plain = MarginalsStrategy(self.name, self.sizes, self.residuals, precisions)
        return KnownMarginalsStrategy(plain, self.margins)

    @cached_property
    def _within(self) -> MarginalDistances:
        """Those of the open attributes alone."""
        parts = OpenParts(self.sizes, self.residuals, self.margins.attributes)
        return MarginalDistances(self.sizes, parts.sets, parts.totals(self.precisions))


MADE_FOR_TABLES = (KnownProductStrategy, KnownMarginalsStrategy)
"""Strategies that were made for a public table."""


def called(strategy: Strategy, known: str) -> Strategy:
    """The strategy, with what its public table is called."""
    if isinstance(strategy, MADE_FOR_TABLES):
        strategy.margins, strategy.known = replace(strategy.margins, name=known), known
    return strategy


def beside_table(strategy: Strategy, workload: KnownProduct | KnownMarginals) -> Strategy:
    """What a strategy tells beside a public table.

    Raises:
        InvalidInputError: it is no product over the attributes and measures no residuals of their
            marginals, or is for another table.
    """
    margins = workload.known
    if isinstance(strategy, MADE_FOR_TABLES) and strategy.margins.counted == margins.counted:
        return strategy
    if strategy.known or getattr(strategy, "sizes", None) != margins.sizes:
        raise _no_such_strategy(strategy, margins)
    if isinstance(strategy, MarginalsStrategy):
        nothing = f"measures nothing but the known answers {margins.name!r}"
        refusal = InvalidInputError(f"strategy {strategy.name!r} {nothing}")
        return KnownMarginalsStrategy(strategy.outside(margins.attributes, refusal), margins)
    if (
        not isinstance(strategy, ProductStrategy)
        or strategy.weights is not None
        or not isinstance(workload, KnownProduct)
    ):
        raise _no_such_strategy(strategy, margins)
    place = workload.place
    after = place + 1 + len(margins.sizes) - len(workload.factors)
    centred = centre(product_strategy(strategy.factors[place:after]).matrix)
    kept = np.abs(centred).max(axis=1) > KNOWN_ROWS * np.abs(centred).max()
    free = Strategy(strategy.name, centred[kept])
    factors = [*strategy.factors[:place], free, *strategy.factors[after:]]
    return KnownProductStrategy(strategy.name, factors, margins, place)


def _no_such_strategy(strategy: Strategy, margins: KnownMargins) -> InvalidInputError:
    return InvalidInputError(
        f"beside the known answers {margins.name!r} a strategy on more than {WRITTEN_CELLS} cells"
        " is a product for a product, consists of residuals of marginals, or was made for them;"
        f" {strategy.name!r} is not"
    )


def strategy_beside(
    strategy: Strategy, guarantee: Guarantee, known: Any
) -> tuple[Strategy, Guarantee]:
    """What a strategy tells beside public answers, and the guarantee; as `with_known`."""
    if known is None:
        return strategy, guarantee
    table = table_of(known)
    if table is not None:
        cells = KroneckerWorkload([counts_of(size) for size in table.sizes])
        measured = beside_table(strategy, beside_margins(cells, table))
        return measured, beside_known(guarantee, table.name)
    probe = given_answers(DenseWorkload(np.ones((1, strategy.cells))), known)
    guarantee = beside_known(guarantee, answers_of(probe))
    if not isinstance(probe, KnownWorkload):
        return strategy, guarantee
    return within_groups(strategy, probe.known), guarantee
