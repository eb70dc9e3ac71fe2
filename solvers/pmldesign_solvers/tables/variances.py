r"""Exact variances of all answers of a coupled strategy, table by table.

In the letters of `couplings`, a query a on an ordered attribute is phi = a^T (v, Psi_f) on the kept
directions and kappa = norm(a^T Psi off the features)^2 beyond them; a count of a plain attribute
has h = (n - 1)^2 / n^2, t = 1/n^2. The query of table T made of these has the variance

    sum_{Q, Sp} prod_Q h prod_(plain off Q) t prod_Sp kappa phi^T (E_{Q,Sp}^-1 on T) phi,

which is a tensor of small size, one axis for each ordered attribute of T, applied to the numbers
(phi phi^T, kappa) of the queries of each. Sums over all queries need the sums of these numbers
only.

For certified upper bounds phi is taken to be off by delta: phi phi^T counts as
(1 + ETA) phi phi^T + (1 + 1/ETA) d diag(delta^2), which is at least as large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.norms import power_mean
from pmldesign_solvers.operators.operator import EPS, Array, Operator
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.products import Attributes
from pmldesign_solvers.tables.sectors import Sector, subsets

ETA = 1e-11
"""Relative size of what is added to a variance for the rounding of phi."""
BLOCK = 2**22
"""Variances that are formed at once."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The queries of one factor.

    Attributes:
        attribute: which one.
        numbers: shape (m, d^2 + 1): phi phi^T and kappa of each query; of a plain attribute (m, 2),
            t and h.
    """

    attribute: int
    numbers: Array

    @cached_property
    def sums(self) -> Array:
        """The numbers summed over all queries, shape (1, numbers)."""
        return np.asarray(self.numbers.sum(axis=0, keepdims=True))

    @cached_property
    def first_and_last(self) -> tuple[float, float]:
        """The first and the last of the sums: all there are without features."""
        return float(self.sums[0, 0]), float(self.sums[0, -1])


def asked(attribute: int, operator: Operator, basis: Measured, features: int) -> Asked:
    """The numbers of an ordered attribute's queries, upwards."""
    n, d = len(basis.inverse), features + 1
    image = operator.matvec(basis.inverse)
    sizes = np.sqrt(np.maximum(operator.row_norms(np.eye(n)), 1.0))
    delta = (n + 8) * EPS * math.sqrt(n) * np.linalg.norm(basis.inverse, axis=0)
    squares = (1 + 1 / ETA) * np.multiply.outer(sizes**2, delta**2)
    phi = image[:, :d]
    pairs = (1 + ETA) * phi[:, :, None] * phi[:, None, :]
    pairs[:, np.arange(d), np.arange(d)] += d * squares[:, :d]
    kappa = (1 + ETA) * (image[:, d:] ** 2).sum(axis=1) + squares[:, d:].sum(axis=1)
    return Asked(attribute, np.column_stack([pairs.reshape(len(phi), -1), kappa]))


def asked_plain(attribute: int, size: int, operator: Operator | None) -> Asked:
    """Those of a plain attribute; None for its counts."""
    if operator is None:
        squares, sums = np.ones(size), np.ones(size)
    else:
        squares, sums = operator.row_norms(np.eye(size)), operator.matvec(np.ones(size))
    rest = np.maximum(squares - sums**2 / size, 0.0) * (size - 1) / size
    return Asked(attribute, np.column_stack([(sums / size) ** 2, rest]) * (1 + 16 * EPS))


class Variances:
    """Of all queries on some attributes, for the small matrices of a strategy.

    Args:
        sectors: the small matrices. Where no sector holds the total, the empty set, it is known
            without noise.
        features: the number of features of each ordered attribute.
    """

    def __init__(self, sectors: Sequence[Sector], features: Mapping[int, int]) -> None:
        self._dims = {i: count + 1 for i, count in features.items()}
        self._left = {i for sector in sectors for i in sector.spectators}
        self._inverses: dict[
            tuple[Attributes, Attributes], tuple[Array, dict[Attributes, int]]
        ] = {}
        for sector in sectors:
            only_total = not sector.plain and not sector.spectators and () not in sector.sets
            offsets: dict[Attributes, int] = {(): 0} if only_total else {}
            place = int(only_total)
            for s in sector.sets:
                offsets[s] = place
                place += math.prod(self._dims[i] - 1 for i in s)
            matrix = np.zeros((place, place))
            matrix[int(only_total) :, int(only_total) :] = inverse(sector.matrix)
            self._inverses[sector.plain, sector.spectators] = matrix, offsets
        self._inverses.setdefault(((), ()), (np.zeros((1, 1)), {(): 0}))
        self._coupled = any(dim > 1 for dim in self._dims.values())

    def core(self, asked: Sequence[Asked]) -> Array:
        """The small tensor of a table, one axis for each of its factors.

        Raises:
            KeyError: the strategy does not determine the table.
        """
        ordered = [query for query in asked if query.attribute in self._dims]
        plain = [query.attribute for query in asked if query.attribute not in self._dims]
        varied = [  # attributes with one value have no contrasts
            query.attribute
            for query in asked
            if query.attribute in plain and query.numbers[:, 1].any()
        ]
        attributes = [query.attribute for query in ordered]
        shape = [2 if query.attribute in plain else query.numbers.shape[1] for query in asked]
        core = np.zeros(shape)
        for sp in subsets(attributes):
            if not self._left.issuperset(sp):  # all directions of one of them are features
                continue
            free = tuple(i for i in attributes if i not in sp)
            for q in subsets(varied):
                place = tuple(
                    (1 if query.attribute in q else 0)
                    if query.attribute in plain
                    else (-1 if query.attribute in sp else slice(0, -1))
                    for query in asked
                )
                core[place] = self._block(q, sp, free)
        return core

    def _block(self, q: Attributes, sp: Attributes, free: Attributes) -> Array:
        matrix, offsets = self._inverses[q, sp]
        if not free:
            return np.asarray(matrix[offsets[()], offsets[()]])
        dims = [self._dims[i] for i in free]
        places = np.zeros(dims, dtype=np.intp)
        for members in subsets(free):
            shape = [self._dims[i] - 1 if i in members else 1 for i in free]
            where = tuple(slice(1, None) if i in members else slice(0, 1) for i in free)
            count = math.prod(shape)
            if count:
                places[where] = offsets[members] + np.arange(count).reshape(shape)
        rows = places.ravel()
        block = matrix[rows[:, None], rows].reshape([*dims, *dims])
        count = len(dims)
        order = [axis for j in range(count) for axis in (j, count + j)]
        return np.asarray(block.transpose(order).reshape([d * d for d in dims]))

    def total(self, asked: Sequence[Asked]) -> float:
        """Sum of the variances of a table."""
        if not self._coupled:
            return self._uncoupled_total(asked)
        core = self.core(asked)
        return float(mode_products.multiply([query.sums for query in asked], core.ravel())[0])

    def _uncoupled_total(self, asked: Sequence[Asked]) -> float:
        """The same without features, where all small matrices are numbers.

        Raises:
            KeyError: the strategy does not determine the table.
        """
        terms: list[tuple[Attributes, Attributes, float]] = [((), (), 1.0)]
        for query in asked:
            inside, beyond = query.first_and_last
            i, ordered = query.attribute, query.attribute in self._dims
            more = []
            if ordered and i in self._left:
                more = [(q, (*sp, i), beyond * value) for q, sp, value in terms]
            elif not ordered and beyond:
                more = [((*q, i), sp, beyond * value) for q, sp, value in terms]
            terms = [(q, sp, inside * value) for q, sp, value in terms] + more
        return math.fsum(value * self._inverses[q, sp][0][0, 0] for q, sp, value in terms)

    def blocks(self, asked: Sequence[Asked]) -> Iterator[Array]:
        """The variances of a table's queries, block by block in their order."""
        core = self.core(asked)
        if not asked:
            yield core.reshape(1)
            return
        first, others = asked[0], asked[1:]
        rest = math.prod(len(query.numbers) for query in others)
        length = max(1, BLOCK // rest)
        partly = core
        for start in range(0, len(first.numbers), length):
            rows = [first.numbers[start : start + length], *(query.numbers for query in others)]
            yield mode_products.multiply(rows, partly.ravel())

    def norm(self, asked: Sequence[Asked], power: float) -> float:
        """(sum v^power)^(1/power) over the queries of a table."""
        if power == 1:
            return self.total(asked)
        return power_mean(
            np.array([power_mean(np.maximum(v, 0), power) for v in self.blocks(asked)]), power
        )


def inverse(matrix: Array) -> Array:
    """Of a positive matrix, scaled to diagonal 1 before."""
    if len(matrix) == 1:  # most of the many without features
        return np.asarray(1 / matrix)
    root = np.sqrt(matrix.diagonal())
    inverse_of_scaled = np.linalg.inv(matrix / np.outer(root, root))
    return np.asarray((inverse_of_scaled + inverse_of_scaled.T) / 2 / np.outer(root, root))
