r"""Exact variances of all answers of a coupled strategy, for all tables alike at once.

In the letters of `couplings`, a query a on an ordered attribute is phi = a^T (v, Psi_f) on the kept
directions and kappa = norm(a^T Psi off the features)^2 beyond them; a count of a plain attribute
has h = (n - 1)^2 / n^2, t = 1/n^2. The query of table T made of these has the variance

    sum_{Q, Sp} prod_Q h prod_(plain off Q) t prod_Sp kappa phi^T (E_{Q,Sp}^-1 on T) phi,

which is a tensor of small size, one axis for each ordered attribute of T, applied to the numbers
(phi phi^T, kappa) of the queries of each. Sums over all queries need the sums of these numbers
only. All counts of a plain attribute have the same two numbers, so that tables of the same ordered
factors and as many such attributes are alike: their tensors are one array.

The numbers (phi phi^T, kappa) and (t, h) are rounded up: for certified upper bounds phi is taken to
be off by delta, phi phi^T counts as (1 + ETA) phi phi^T + (1 + 1/ETA) d diag(delta^2), which is at
least as large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import EPS, TINY, Array, Indices, Operator
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import Attributes, padded
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
    """What is asked of a plain attribute; None for its counts."""
    if operator is None:
        squares, sums = np.ones(size), np.ones(size)
    else:
        squares, sums = operator.row_norms(np.eye(size)), operator.matvec(np.ones(size))
    rest = np.maximum(squares - sums**2 / size, 0.0) * (size - 1) / size
    return Asked(attribute, np.column_stack([(sums / size) ** 2, rest]) * (1 + 16 * EPS))


class Variances:
    """The variances of all queries on some attributes, for the small matrices of a strategy.

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
        counts = [query for query in asked if self._is_count(query)]
        attributes = np.array([[query.attribute for query in counts]], dtype=np.intp)
        core = self._cores(shared, attributes, np.array([[q.numbers[0] for q in counts]]))
        values = kronecker.multiply([query.numbers for query in shared], core.ravel())
        every = [len(query.numbers) for query in asked]
        axes = [1 if self._is_count(query) else len(query.numbers) for query in asked]
        return np.broadcast_to(values.reshape(axes), every).ravel()

    def norms(
        self, asked: Sequence[Asked], tables: Sequence[tuple[int, ...]], power: float
    ) -> Array:
        """(sum v^power)^(1/power) over the queries of each table.

        Args:
            asked: the factors of all tables.
            tables: the numbers of those of each.
            power: at least 1.

        Raises:
            KeyError: the strategy does not determine a table.
        """
        nothing = len(asked)
        factors = padded(tables, nothing)
        counted = np.array([*map(self._is_count, asked), False])[factors]
        shared = np.sort(np.where(counted, nothing, factors), axis=1)
        kinds, kind_of = _distinct(np.column_stack([shared, counted.sum(axis=1)]))
        attribute = np.array([query.attribute for query in asked], dtype=np.intp)
        numbers = np.array([query.numbers[0, [0, -1]] for query in asked]).reshape(-1, 2)
        queries = np.array([len(query.numbers) for query in asked], dtype=np.float64)
        values = np.zeros(len(tables))
        ends = np.cumsum(np.bincount(kind_of))
        alike = np.split(np.argsort(kind_of, kind="stable"), ends[:-1])
        for kind, chosen in zip(kinds.tolist(), alike, strict=True):
            common = [asked[k] for k in kind[:-1] if k < nothing]
            common.sort(key=lambda query: query.attribute)
            counts = factors[chosen][counted[chosen]].reshape(len(chosen), -1)
            cores = self._cores(common, attribute[counts], numbers[counts])
            norms = _norms(common, cores.reshape(len(chosen), -1).T, power)
            values[chosen] = norms * queries[counts].prod(axis=1) ** (1 / power)
        return values

    def _is_count(self, query: Asked) -> bool:
        """Whether it is a plain attribute that all queries see alike."""
        return query.attribute not in self._dims and query.alike

    def _cores(self, shared: Sequence[Asked], attributes: Indices, numbers: Array) -> Array:
        """The small tensors of tables alike, an axis for each factor that is no count.

        Args:
            shared: these factors, on increasing attributes.
            attributes: those that are counted by each table, shape (tables, a).
            numbers: their t and h, shape (tables, a, 2).
        """
        ordered = [query.attribute for query in shared if query.attribute in self._dims]
        varied = [  # attributes with one value have no contrasts
            query.attribute
            for query in shared
            if query.attribute not in self._dims and query.numbers[:, 1].any()
        ]
        numbers = numbers.reshape(*attributes.shape, 2)
        width = attributes.shape[1]
        core = np.zeros((len(attributes), *(query.numbers.shape[1] for query in shared)))
        for choice in subsets(range(width)):
            inside = np.isin(np.arange(width), choice).astype(np.intp)
            scale = numbers[:, np.arange(width), inside].prod(axis=1)
            on = scale > 0
            if not on.any():
                continue
            members = attributes[on][:, choice]
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


def _norms(shared: Sequence[Asked], cores: Array, power: float) -> Array:
    """(sum v^power)^(1/power) of tables, whose tensors are the columns of `cores`."""
    if power == 1:
        sums = kronecker.multiply([query.sums for query in shared], cores)
        return np.asarray(sums[0], dtype=np.float64)
    entries = math.prod(len(query.numbers) for query in shared)
    width, norms = max(1, BLOCK // entries), []
    for start in range(0, cores.shape[1], width):
        columns = np.ascontiguousarray(cores[:, start : start + width])
        blocks = [
            _power_means(np.maximum(kronecker.multiply(rows, columns), 0), power)
            for rows in _blocks([query.numbers for query in shared], entries)
        ]
        norms.append(_power_means(np.array(blocks), power))
    return np.concatenate(norms)


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
    """The different rows, and the number of each row among them."""
    distinct, numbers = np.unique(rows, axis=0, return_inverse=True)
    return distinct, numbers.ravel()


def _power_means(values: Array, power: float) -> Array:
    """(sum v^power)^(1/power) of every column, of values >= 0."""
    top = values.max(axis=0)
    if math.isinf(power):
        return np.asarray(top)
    scaled = values / np.maximum(top, TINY)
    return np.asarray(top * (scaled**power).sum(axis=0) ** (1 / power))


def inverse(matrices: Array) -> Array:
    """Inverses of positive matrices, shape (B, k, k), scaled to diagonal 1 before."""
    roots = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    scales = roots[:, :, None] * roots[:, None, :]
    inverses = np.linalg.inv(matrices / scales)
    return np.asarray((inverses + inverses.swapaxes(1, 2)) / 2 / scales)
