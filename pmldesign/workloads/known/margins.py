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
from dataclasses import dataclass

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.public_total import CentredWorkload
from pmldesign.workloads.tables.base import asks_counts, asks_total
from pmldesign.workloads.union import products_of, products_over
from pmldesign.workloads.weighting.rows import without_scale


@dataclass(frozen=True)
class KnownMargins:
    """A public table of some attributes of a product.

    Attributes:
        name: of the queries whose answers it is.
        sizes: number of values of each attribute.
        counted: whether the table counts this attribute, rather than to sum over it.
    """

    name: str
    sizes: tuple[int, ...]
    counted: tuple[bool, ...]


class KnownProduct(KroneckerWorkload):
    """A P = A_C x A_O P_O, the queries of a product without what a public table tells.

    Args:
        asked: A.
        known: the table.
        factors: those of A, with A_O P_O in place of the open ones.
        place: of the open factor among them.

    Attributes:
        asked: A as it was given.
        known: the table.
        place: of the open factor.
    """

    def __init__(
        self, asked: Workload, known: KnownMargins, factors: list[Workload], place: int
    ) -> None:
        super().__init__(factors, name=asked.name)
        self.asked, self.known, self.place = asked, known, place
        plain = asked.unweighted
        self.unweighted = None if plain is None else beside_margins(plain, known)

    def row_sizes(self):  # type: ignore[no-untyped-def]
        """Largest absolute entry of every row of A, shape (m,)."""
        return self.asked.row_sizes()

    def row_label(self, index: int) -> str:
        """How messages and tables call query `index` (from 0)."""
        return self.asked.row_label(index)


def known_margins(queries: Workload) -> KnownMargins:
    """The table that public answers on many cells are.

    Raises:
        InvalidInputError: they are no table of some of the attributes, or of all of them.
    """
    products = products_of(queries)
    factors = products[0] if products is not None and len(products) == 1 else ()
    plain = without_scale(factors)[1]
    counted = tuple(asks_counts(factor) for factor in plain)
    if not plain or not all(
        counts or asks_total(factor) for counts, factor in zip(counted, plain, strict=True)
    ):
        raise InvalidInputError(
            f"known answers on more than {WRITTEN_CELLS} cells are the total or one table: a"
            " product of histograms and totals, such as 'histogram:50*total:100'; got"
            f" {queries.name!r}"
        )
    if all(counted):
        raise InvalidInputError(
            f"the answers to {queries.name!r} tell all cells apart: replacing a record would change"
            " them, and nothing would be protected; give known answers that tell less"
        )
    return KnownMargins(queries.name, tuple(factor.shape[1] for factor in plain), counted)


def beside_margins(workload: Workload, known: KnownMargins) -> KnownProduct:
    """The workload beside a public table.

    Raises:
        InvalidInputError: it is no product over the attributes of the table, the table answers
            it, or its open attributes stand apart or have too many cells.
    """
    products = products_over(workload, known.sizes)
    if products is None or len(products) != 1:
        sizes = " x ".join(map(str, known.sizes))
        raise InvalidInputError(
            f"beside the known answers {known.name!r}, a table of {sizes} cells, the workload has"
            f" to be one product over the same attributes, got {workload.name!r}; with at most"
            f" {WRITTEN_CELLS} cells it may be any"
        )
    factors = list(products[0])
    open_places = [i for i, counted in enumerate(known.counted) if not counted]
    first, last = open_places[0], open_places[-1]
    together = factors[first : last + 1]
    cells = math.prod(factor.shape[1] for factor in together)
    if any(known.counted[first : last + 1]) or cells > WRITTEN_CELLS:
        raise InvalidInputError(
            f"beside the known answers {known.name!r} the attributes of {workload.name!r} that"
            f" they leave open have to stand together and to have at most {WRITTEN_CELLS} cells;"
            " put those that are known first or last, or ask for less"
        )
    if all(asks_total(factor) for factor in without_scale(tuple(together))[1]):
        raise InvalidInputError(
            f"the known answers {known.name!r} answer all queries of {workload.name!r}"
        )
    inner = together[0] if len(together) == 1 else KroneckerWorkload(together)
    parts = [*factors[:first], CentredWorkload(inner), *factors[last + 1 :]]
    return KnownProduct(workload, known, parts, first)
