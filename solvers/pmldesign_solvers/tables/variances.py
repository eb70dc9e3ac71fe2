r"""Exact variances of all answers of a coupled strategy, for all tables alike at once.

In the letters of `couplings`, a query a on an ordered attribute is phi = a^T (v, Psi_f) on the kept
directions and kappa = norm(a^T Psi off the features)^2 beyond them; a count of a plain attribute
has h = (n - 1)^2 / n^2, t = 1/n^2. The query of table T made of these has the variance

    sum_{Q, Sp} prod_Q h prod_(plain off Q) t prod_Sp kappa phi^T (E_{Q,Sp}^-1 on T) phi,

which is a tensor of small size, one axis for each ordered attribute of T, applied to the numbers
(phi phi^T, kappa) of the queries of each. Sums over all queries need the sums of these numbers
only. All counts of a plain attribute have the same two numbers, so that tables of the same ordered
factors and as many such attributes are alike: their tensors are one array.

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
from pmldesign_solvers.operators.operator import EPS, TINY, Array, Indices, Operator
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.products import Attributes
from pmldesign_solvers.tables.sectors import Sector, subsets

ETA = 1e-11
"""Relative size of what is added to a variance for the rounding of phi."""
BLOCK = 2**18
"""Variances that are formed at once: they fit into the caches of a processor."""


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
    def alike(self) -> bool:
        """Whether all queries have the same numbers."""
        return bool((self.numbers == self.numbers[0]).all())


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
        self._inverses: list[tuple[Array, dict[Attributes, int]]] = []
        self._places: dict[
            tuple[Attributes, Attributes], tuple[int, int]
        ] = {}  # which of these, and where in its stack
        same_sets: dict[tuple[Attributes, ...], list[Sector]] = {}
        for sector in sectors:
            only_total = not sector.plain and not sector.spectators and () not in sector.sets
            sets = ((), *sector.sets) if only_total else sector.sets
            same_sets.setdefault(sets, []).append(sector)
        if not any(sector.plain == sector.spectators == () for sector in sectors):
            self._stack([Sector((), (), ((),), np.zeros((0, 0)))], ((),))
        for sets, alike in same_sets.items():
            self._stack([sector for sector in alike if sector.sets == sets], sets)
            self._stack([sector for sector in alike if sector.sets != sets], sets)

    def _stack(self, sectors: Sequence[Sector], sets: tuple[Attributes, ...]) -> None:
        """The inverses of matrices on the same sets, with zeros for a total that is known."""
        if not sectors:
            return
        ends = np.cumsum([math.prod(self._dims[i] - 1 for i in s) for s in sets]).tolist()
        matrices = np.zeros((len(sectors), ends[-1], ends[-1]))
        known = ends[-1] - len(sectors[0].matrix)
        matrices[:, known:, known:] = inverse(np.array([sector.matrix for sector in sectors]))
        for number, sector in enumerate(sectors):
            self._places[sector.plain, sector.spectators] = len(self._inverses), number
        self._inverses.append((matrices, dict(zip(sets, [0, *ends], strict=False))))

    def of_table(self, asked: Sequence[Asked]) -> Array:
        """The variances of a table's queries, in their order.

        Raises:
            KeyError: the strategy does not determine the table.
        """
        shared = [query for query in asked if not self._is_count(query)]
        values = mode_products.multiply([q.numbers for q in shared], self._cores([asked]).ravel())
        every = [len(query.numbers) for query in asked]
        axes = [1 if self._is_count(query) else len(query.numbers) for query in asked]
        return np.broadcast_to(values.reshape(axes), every).ravel()

    def norms(self, tables: Sequence[Sequence[Asked]], power: float) -> Array:
        """(sum v^power)^(1/power) over the queries of each table.

        Raises:
            KeyError: the strategy does not determine a table.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        for number, asked in enumerate(tables):
            shared = [id(query) for query in asked if not self._is_count(query)]
            alike.setdefault((len(asked), *shared), []).append(number)
        values = np.zeros(len(tables))
        for numbers in alike.values():
            values[numbers] = self._norms([tables[number] for number in numbers], power)
        return values

    def _norms(self, tables: Sequence[Sequence[Asked]], power: float) -> Array:
        """Those of tables that are alike."""
        cores = self._cores(tables).reshape(len(tables), -1).T
        shared = [query for query in tables[0] if not self._is_count(query)]
        counts = [[len(q.numbers) for q in asked if self._is_count(q)] for asked in tables]
        copies = np.array(counts, dtype=np.float64).reshape(len(tables), -1).prod(axis=1)
        if power == 1:
            return np.asarray(
                copies * mode_products.multiply([query.sums for query in shared], cores)[0]
            )
        entries = math.prod(len(query.numbers) for query in shared)
        width, parts = max(1, BLOCK // entries), []
        for start in range(0, len(tables), width):
            columns = np.ascontiguousarray(cores[:, start : start + width])
            blocks = [
                _power_means(np.maximum(mode_products.multiply(rows, columns), 0), power)
                for rows in _blocks([query.numbers for query in shared], entries)
            ]
            parts.append(_power_means(np.array(blocks), power))
        return np.asarray(np.concatenate(parts) * copies ** (1 / power))

    def _is_count(self, query: Asked) -> bool:
        """Whether it is a plain attribute that all queries see alike."""
        return query.attribute not in self._dims and query.alike

    def _cores(self, tables: Sequence[Sequence[Asked]]) -> Array:
        """The small tensors of tables alike: an axis for each factor that is no count."""
        shared = [query for query in tables[0] if not self._is_count(query)]
        ordered = [query.attribute for query in shared if query.attribute in self._dims]
        varied = [  # attributes with one value have no contrasts
            query.attribute
            for query in shared
            if query.attribute not in self._dims and query.numbers[:, 1].any()
        ]
        counts = [[query for query in asked if self._is_count(query)] for asked in tables]
        attributes = np.array([[query.attribute for query in row] for row in counts], dtype=np.intp)
        numbers = np.array([[query.numbers[0] for query in row] for row in counts])
        numbers = numbers.reshape(len(tables), -1, 2)
        core = np.zeros((len(tables), *(query.numbers.shape[1] for query in shared)))
        for choice in subsets(range(numbers.shape[1])):
            kinds = np.zeros(numbers.shape[1], dtype=np.intp)
            kinds[list(choice)] = 1
            scale = numbers[:, np.arange(len(kinds)), kinds].prod(axis=1)
            on = scale > 0
            if not on.any():
                continue
            members = attributes.reshape(len(tables), -1)[on][:, choice]
            for sp in subsets(ordered):
                if not self._left.issuperset(sp):  # all directions of one of them are features
                    continue
                free = tuple(i for i in ordered if i not in sp)
                for q in subsets(varied):
                    place = tuple(
                        (-1 if query.attribute in sp else slice(0, -1))
                        if query.attribute in self._dims
                        else (1 if query.attribute in q else 0)
                        for query in shared
                    )
                    blocks = self._blocks(members, q, sp, free)
                    axes = (slice(None), *[None] * (blocks.ndim - 1))
                    core[(slice(None), *place)][on] += scale[on][axes] * blocks
        return core

    def _blocks(self, members: Indices, q: Attributes, sp: Attributes, free: Attributes) -> Array:
        """The blocks of E^-1 on the features of free attributes, for Q of members and q."""
        sets, numbers = _distinct(members)
        places = [self._places[tuple(sorted((*row, *q))), sp] for row in sets.tolist()]
        stacks, rows = np.array(places).T
        blocks = np.zeros((len(sets), *(self._dims[i] ** 2 for i in free)))
        for stack in np.unique(stacks).tolist():
            of_stack = stacks == stack
            blocks[of_stack] = self._of_stack(stack, rows[of_stack], free)
        return blocks[numbers]

    def _of_stack(self, stack: int, rows: Indices, free: Attributes) -> Array:
        """Blocks of some inverses of a stack, an axis for each free attribute."""
        matrices, offsets = self._inverses[stack]
        dims = [self._dims[i] for i in free]
        places = np.zeros(dims, dtype=np.intp)
        for members in subsets(free):
            shape = [self._dims[i] - 1 if i in members else 1 for i in free]
            where = tuple(slice(1, None) if i in members else slice(0, 1) for i in free)
            if math.prod(shape):
                places[where] = offsets[members] + np.arange(math.prod(shape)).reshape(shape)
        kept = places.ravel()
        blocks = matrices[rows[:, None, None], kept[:, None], kept].reshape(-1, *dims, *dims)
        count = len(dims)
        order = [axis for j in range(1, count + 1) for axis in (j, count + j)]
        return np.asarray(blocks.transpose([0, *order]).reshape([-1, *(d * d for d in dims)]))


def _blocks(matrices: Sequence[Array], entries: int) -> Iterator[Sequence[Array]]:
    """The factors of a table of so many queries, some rows of the first at a time."""
    if entries <= BLOCK or not matrices:
        yield matrices
        return
    first, *others = matrices
    length = max(1, BLOCK // (entries // len(first)))
    for start in range(0, len(first), length):
        yield [first[start : start + length], *others]


def _distinct(rows: Indices) -> tuple[Indices, Indices]:
    """The different rows, and the number of each row among them; rows as numbers sort fast."""
    base, width = int(rows.max(initial=0)) + 1, rows.shape[1]
    if base**width > np.iinfo(np.int64).max:
        distinct, numbers = np.unique(rows, axis=0, return_inverse=True)
        return distinct, numbers.ravel()
    keys = rows @ np.array([base**j for j in range(width)], dtype=np.int64)
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], numbers


def _power_means(values: Array, power: float) -> Array:
    """(sum v^power)^(1/power) of every column, of values >= 0."""
    top = values.max(axis=0)
    if math.isinf(power):
        return np.asarray(top)
    scaled = values / np.maximum(top, TINY)
    return np.asarray(top * (scaled**power).sum(axis=0) ** (1 / power))


def inverse(matrices: Array) -> Array:
    """Of positive matrices, shape (B, k, k), scaled to diagonal 1 before."""
    roots = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    scales = roots[:, :, None] * roots[:, None, :]
    inverses = np.linalg.inv(matrices / scales)
    return np.asarray((inverses + inverses.swapaxes(1, 2)) / 2 / scales)
