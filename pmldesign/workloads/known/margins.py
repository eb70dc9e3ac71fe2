r"""Public answers to one table of some attributes, over a product of any number of cells.

The table counts the attributes C; all others are open. Neighbours then replace a record by one with
the same values of C. For a product A = A_C x A_O, in which the open attributes stand together,

    A (e_a x e_i - e_a x e_j) = A_C e_a x A_O (e_i - e_j),      A P = A_C x A_O P_O,

P_O = I - 1 1^T / n_O. A product of strategies has the add-remove sensitivity on C times the replace
sensitivity on O, and products of dual weights have the product of the nuclear norms: gamma_(p)(A)
is that of A_C for add-remove neighbours times that of A_O under replace.
"""

from __future__ import annotations

import math

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.known.marginals import KnownMarginals, KnownMargins
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.public_total import CentredWorkload
from pmldesign.workloads.tables.base import asks_total
from pmldesign.workloads.union import counts_asked, products_over
from pmldesign.workloads.weighting.rows import without_scale
from pmldesign_solvers.operators.operator import EPS


class KnownProduct(KroneckerWorkload):
    """A P = A_C x A_O P_O, the queries of a product without what a public table tells.

    Attributes:
        asked: A as it was given.
        known: the table.
        factors: those of A, with A_O P_O in place of the open ones.
        place: of the open factor among them.
    """

    def __init__(
        self, asked: Workload, known: KnownMargins, factors: list[Workload], place: int
    ) -> None:
        super().__init__(factors, name=asked.name)
        self.asked, self.known, self.place = asked, known, place
        if asked.unweighted is not None:
            self.unweighted = beside_margins(asked.unweighted, known)

    def row_sizes(self):  # type: ignore[no-untyped-def]
        """Largest absolute entry of every row of A, shape (m,)."""
        return self.asked.row_sizes()

    def longest_difference(self) -> float:
        """Largest squared distance of two columns that the table counts alike, rounded up."""
        longest = [
            factor.longest_difference() if number == self.place else factor.longest_column()
            for number, factor in enumerate(self.factors)
        ]
        return math.prod(longest) * (1 + 4 * len(longest) * EPS)

    def row_label(self, index: int) -> str:
        """How messages and tables call query `index` (from 0)."""
        return self.asked.row_label(index)


def beside_margins(workload: Workload, known: KnownMargins) -> KnownProduct | KnownMarginals:
    """The workload beside a public table.

    Raises:
        InvalidInputError: it is no product over the attributes of the table, nor marginals of
            them; the table answers it; or the open attributes of a product, if it asks for more
            than counts, stand apart or have too many cells.
    """
    products = products_over(workload, known.sizes) or []
    counts = counts_asked(workload)
    together = _open_places(known)
    if len(products) == 1 and together is not None:
        return _product_beside(workload, list(products[0]), together, known)
    if counts is not None and counts.sizes == known.sizes:
        return KnownMarginals(workload, counts, known)
    if len(products) == 1:
        raise InvalidInputError(
            f"beside the known answers {known.name!r} the attributes of {workload.name!r} that"
            f" they leave open have to stand together and to have at most {WRITTEN_CELLS} cells;"
            " put those that are known first or last, or ask for less"
        )
    sizes = " x ".join(map(str, known.sizes))
    raise InvalidInputError(
        f"beside the known answers {known.name!r}, a table of {sizes} cells, the workload has to be"
        " one product over the same attributes or any tables of their counts, got"
        f" {workload.name!r}; with at most {WRITTEN_CELLS} cells it may be any"
    )


def _open_places(known: KnownMargins) -> slice | None:
    """The open attributes, where they stand together and have few cells."""
    places = [i for i, counted in enumerate(known.counted) if not counted]
    together = slice(places[0], places[-1] + 1)
    few = math.prod(known.sizes[together]) <= WRITTEN_CELLS
    return together if few and not any(known.counted[together]) else None


def _product_beside(
    workload: Workload, factors: list[Workload], places: slice, known: KnownMargins
) -> KnownProduct:
    """A product whose open factors become one, without its mean."""
    together = factors[places]
    if all(asks_total(factor) for factor in without_scale(tuple(together))[1]):
        raise InvalidInputError(
            f"the known answers {known.name!r} answer all queries of {workload.name!r}"
        )
    inner = together[0] if len(together) == 1 else KroneckerWorkload(together)
    factors[places] = [CentredWorkload(inner)]
    return KnownProduct(workload, known, factors, places.start)
