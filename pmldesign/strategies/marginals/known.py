"""Residuals of marginals beside a public table of some attributes C, over a domain of any size.

The table tells the residuals of T within C. The others measure what two records with the same
values of C differ by: in the letters of `strategy`, with O the open attributes,

    norm(R (e_x - e_y))^2 = 2 sum_{T in O} theta'_T (d_T - n_O (P_T)_xy),
    theta'_T = sum over the T' that have T in O of theta_T' d_(T' in C),

the distance of two cells of the open attributes alone, for the precisions theta'.
"""

from __future__ import annotations

from functools import cached_property

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.strategies.known import BesideAnswers
from pmldesign.strategies.marginals.distances import MarginalDistances
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.workloads.known.table import KnownMargins
from pmldesign_solvers.structure.cell_pairs import OpenParts


class KnownMarginalsStrategy(BesideAnswers, MarginalsStrategy):
    """Residuals of marginals that a public table does not tell.

    Args:
        strategy: with residuals outside the table alone.
        margins: the table.
    """

    def __init__(self, strategy: MarginalsStrategy, margins: KnownMargins) -> None:
        super().__init__(strategy.name, strategy.sizes, strategy.residuals, strategy.precisions)
        self.margins = margins

    @property
    def known(self) -> str:
        """What the public answers are called."""
        return self.margins.name

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


def residuals_beside(strategy: MarginalsStrategy, margins: KnownMargins) -> KnownMarginalsStrategy:
    """What residuals tell beside a public table.

    Raises:
        InvalidInputError: they tell nothing else.
    """
    kept = [k for k, T in enumerate(strategy.residuals) if not margins.attributes.issuperset(T)]
    if not kept:
        raise InvalidInputError(
            f"strategy {strategy.name!r} measures nothing but the known answers {margins.name!r}"
        )
    residuals, precisions = [strategy.residuals[k] for k in kept], strategy.precisions[kept]
    rest = MarginalsStrategy(strategy.name, strategy.sizes, residuals, precisions)
    return KnownMarginalsStrategy(rest, margins)
