"""Strategies that measure one attribute by a matrix of its own for each combination of the others.

    R = sum_b R_b x v_b^T,     v_b = x_j V_j[:, b_j],

V_j (n_j x n_j) orthonormal, attribute i in its place (`pmldesign_solvers.unions.block_design`);
some combinations b share a block R_b, others are not measured. The measurements of one block come
one combination after the other, block by block. Nothing is formed but R_b, V_j and what measures
the histogram; norms of columns and variances are sums over b of products.

Distances. The norms of the columns are sums over b of the norm of a column of R_b
times those of rows of the V_j: in the l2 norm of squares, in the l1 norm of absolute values.

Under replace let the projections on the columns of V_j that go with the same blocks throughout have
one value on the diagonal and one off it, as for histograms and totals. Then the inner product of
two columns (c, x), (c', x') of R is an entry of a sum of Gram matrices R_b^T R_b that depends on
the set of attributes in which x and x' differ. Otherwise, and in the l1 norm, two columns are at
most twice the longest of them apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import UNIT, raised
from pmldesign.strategies.arguments import ANSWER_TOLERANCE, read_only, strategy_matrix
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.sensitivity import product_labels
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.strategies.total import free_vector
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.eigenspaces import Eigenspaces
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.product_basis import Basis

EQUAL_ENTRIES = 1e-12
"""Entries of a projection that differ by no more are one."""
DIFFERING = 10
"""Maximum number of other attributes for which all sets are enumerated."""


class BlockDistances:
    """Norms and distances of the columns of a strategy of blocks."""

    def __init__(self, design: BlockDesign) -> None:
        self._design = design
        self._known: dict[Norm, float] = {}

    def longest(self, norm: Norm) -> float:
        """Largest norm of a column."""
        if norm not in self._known:
            self._known[norm] = self._longest(norm)
        return self._known[norm]

    def farthest(self, norm: Norm) -> float:
        """Largest distance of two columns, or a bound above it."""
        most = 2 * self.longest(norm)
        exact = None if norm == "l1" else self._diameter
        return most if exact is None else min(exact, most)

    def _longest(self, norm: Norm) -> float:
        power = 1 if norm == "l1" else 2
        sums = [(np.abs(block.matrix) ** power).sum(axis=0) for block in self._design.blocks]
        shares = [np.abs(space.vectors) ** power @ space.members for space in self._design.spaces]
        values = np.stack([*sums, np.zeros_like(sums[0])])
        largest = float(self._design.spread(values, shares).max())
        return raised(largest if norm == "l1" else math.sqrt(largest), self._terms)

    @cached_property
    def _diameter(self) -> float | None:
        """Largest l2 distance of two columns, rounded up; None if it takes the matrix."""
        pairs = [_two_values(space) for space in self._design.spaces]
        two_values = [pair for pair in pairs if pair is not None]
        if len(two_values) < len(pairs) or len(pairs) > DIFFERING:
            return None
        squares = self._gram([same for same, _ in two_values]).diagonal()
        largest = 0.0
        # an attribute with a single cell is the same everywhere
        attributes = zip(two_values, self._design.bases, strict=True)
        choices = [pair if len(basis) > 1 else pair[:1] for pair, basis in attributes]
        for values in itertools.product(*choices):
            apart = squares[:, None] + squares - 2 * self._gram(values)
            largest = max(largest, float(apart.max()))
        # entries of a projection are known to ALIKE, and the diagonal of the smallest is 1/n
        rounding = 4 * EQUAL_ENTRIES * sum(map(len, self._design.bases)) + 4 * self._terms * UNIT
        return raised(math.sqrt(largest + rounding * 2 * float(squares.max())), 4)

    @property
    def _terms(self) -> int:
        """Roundings of a norm or an inner product of two columns at most."""
        design = self._design
        rows = max(len(block.matrix) for block in design.blocks)
        return (
            rows + sum(map(len, design.bases)) + design.pattern.size + 20 * len(design.bases) + 20
        )

    def _gram(self, values: Sequence[Array]) -> Array:
        """Inner products if the projections on all spaces have these entries."""
        pattern = self._design.pattern
        asked = pattern >= 0
        shares = kronecker.outer(values).reshape(pattern.shape)[asked]
        weights = np.bincount(pattern[asked], weights=shares, minlength=len(self._grams))
        return np.asarray(np.tensordot(weights, self._grams, axes=1))

    @cached_property
    def _grams(self) -> Array:
        return np.stack([block.matrix.T @ block.matrix for block in self._design.blocks])


def _two_values(space: Eigenspaces) -> tuple[Array, Array] | None:
    """The values of every projection on and off the diagonal, if each has one there."""
    n = len(space.labels)
    off = ~np.eye(n, dtype=bool)
    same, other = [], []
    for number in range(space.members.shape[1]):
        vectors = space.vectors[:, space.labels == number]
        projection = vectors @ vectors.T
        diagonal, beside = projection.diagonal(), projection[off]
        if np.ptp(diagonal) > EQUAL_ENTRIES or (n > 1 and np.ptp(beside) > EQUAL_ENTRIES):
            return None
        same.append(float(diagonal[0]))
        other.append(float(beside[0]) if n > 1 else 0.0)
    return np.array(same), np.array(other)


ORTHONORMAL = 1e-8
"""Largest entry of V^T V - 1 of a basis."""


class BlockStrategy(StructuredStrategy):
    """A block for each combination of the other attributes.

    Args:
        name: how tables and messages call it.
        index: i, of the attribute that the blocks are about.
        bases: V_j of the others, in their order, orthonormal. Copied.
        combinations: the number of the block of each combination, -1 if it is not measured; of the
            shape of the sizes of the others. Copied.
        blocks: R_b, all over the cells of attribute i, each of them used.

    Attributes:
        sizes: number of cells of each attribute.

    Raises:
        InvalidInputError: a basis that is not orthonormal, or arguments that do not fit together.
    """

    def __init__(
        self,
        name: str,
        index: int,
        bases: Sequence[ArrayLike],
        combinations: ArrayLike,
        blocks: Sequence[Strategy],
    ) -> None:
        self.name = name
        self.bases = tuple(_orthonormal(name, basis) for basis in bases)
        self.combinations = _numbers(name, combinations, self.bases, len(blocks))
        self.blocks = tuple(blocks)
        if not 0 <= index <= len(self.bases):
            raise InvalidInputError(
                f"strategy {name!r}: the blocks are about an attribute from 0 to "
                f"{len(self.bases)}, got {index}"
            )
        if len({block.cells for block in self.blocks}) > 1:
            raise InvalidInputError(f"strategy {name!r}: blocks have the same number of cells")
        self.index = index
        others = [len(basis) for basis in self.bases]
        self.sizes = (*others[:index], self.blocks[0].cells, *others[index:])
        self.shape, self.columns = (sum(self._rows), math.prod(self.sizes)), math.prod(self.sizes)

    @cached_property
    def _design(self) -> BlockDesign:
        blocks = tuple(Basis(block.matrix, block.pseudo_inverse) for block in self.blocks)
        return BlockDesign(self.index, self.bases, self.combinations, blocks)

    def _longest(self, norm: Norm) -> float:
        return self._distances.longest(norm)

    def _farthest(self, norm: Norm) -> float:
        return self._distances.farthest(norm)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix`, products of one of each, are off by at most."""
        return 2.0 * len(self.bases) + 2

    def column_labels(self) -> Indices:
        """Columns are equal if those of all blocks are, and the measured vectors of the bases."""
        measured = np.argwhere(self.combinations >= 0).T
        parts = [basis.T[np.unique(used)] for basis, used in zip(self.bases, measured, strict=True)]
        parts.insert(self.index, np.vstack([block.matrix for block in self.blocks]))
        return product_labels(parts)

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.through(x, [block.measure for block in self.blocks])

    def gram_inverse(self, x: Array) -> Array:
        """(R^T R)^+ x, shape (n,) or (n, c), for x of shape (n,) or (n, c)."""
        maps = [block.pseudo_inverse.T.__matmul__ for block in self.blocks]
        return self.estimate(self.through(x, maps))

    def through(
        self,
        x: Array,
        maps: Sequence[kronecker.Map],
        turns: Sequence[kronecker.Map] | None = None,
    ) -> Array:
        """The images of the coordinates of x in the bases under the blocks' maps.

        Args:
            x: shape (n,) or (n, c).
            maps: for each block.
            turns: V_j^T for each of the other attributes, in their order; None for the bases.
        """
        along = self._turns(transposed=True)
        if turns is not None:
            along = [*turns[: self.index], along[self.index], *turns[self.index :]]
        turned = kronecker.apply(along, self.sizes, x)
        free = np.moveaxis(turned.reshape(*self.sizes, -1), self.index, 0)
        slices = np.ascontiguousarray(free).reshape(len(free), self.combinations.size, -1)
        images = []
        for members, transform in zip(self._members, maps, strict=True):
            image = transform(slices[:, members].reshape(len(free), -1))
            image = image.reshape(len(image), len(members), -1)
            images.append(np.moveaxis(image, 1, 0).reshape(-1, image.shape[2]))
        return np.concatenate(images).reshape(-1, *x.shape[1:])

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        columns = measurements.reshape(len(measurements), -1)
        cells = self.blocks[0].cells
        slices = np.zeros((cells, self.combinations.size, columns.shape[1]))
        parts = np.split(columns, np.cumsum(self._rows)[:-1])
        for members, block, y in zip(self._members, self.blocks, parts, strict=True):
            rows = np.moveaxis(y.reshape(len(members), block.shape[0], -1), 1, 0)
            image = block.estimate(np.ascontiguousarray(rows).reshape(block.shape[0], -1))
            slices[:, members] = image.reshape(cells, len(members), -1)
        shape = (cells, *self.combinations.shape, columns.shape[1])
        turned = np.ascontiguousarray(np.moveaxis(slices.reshape(shape), 0, self.index))
        flat = turned.reshape(self.cells, *measurements.shape[1:])
        return kronecker.apply(self._turns(transposed=False), self.sizes, flat)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine, as `Strategy.require_answers`."""
        parts = self.products(workload)
        if parts is None:
            super().require_answers(workload)
            return
        check_entries(f"the variances of {workload.name!r}", (workload.shape[0], 1))
        first = 0
        for part in parts:
            sizes, rest = self._design.missing(part)
            missed = np.flatnonzero(rest > ANSWER_TOLERANCE**2 * sizes)
            if missed.size:
                raise InvalidInputError(
                    f"strategy {self.name!r} cannot answer "
                    f"{workload.row_label(first + int(missed[0]))}: it lies outside what the "
                    "strategy measures; add a query that covers it"
                )
            first += len(sizes)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        parts = self.products(workload)
        if parts is None:
            return super().variances(workload)
        self.require_answers(workload)
        return np.concatenate([self._design.row_norms(part) for part in parts])

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        inverse = self.estimate(np.eye(self.shape[0]))
        counts = map(len, self._members)
        rank = sum(n * block.rank for n, block in zip(counts, self.blocks, strict=True))
        return read_only(inverse), rank

    @property
    def _rows(self) -> list[int]:
        """Number of measurements of each block."""
        counts = map(len, self._members)
        return [n * block.shape[0] for n, block in zip(counts, self.blocks, strict=True)]

    @cached_property
    def _members(self) -> list[Indices]:
        """For each block the numbers of the combinations that it is used for."""
        flat = self.combinations.ravel()
        return [np.flatnonzero(flat == number) for number in range(len(self.blocks))]

    @cached_property
    def _distances(self) -> BlockDistances:
        return BlockDistances(self._design)

    def _turns(self, *, transposed: bool) -> list[kronecker.Map]:
        """V_j^T or V_j along the other axes."""
        turns: list[kronecker.Map] = [
            (basis.T if transposed else basis).__matmul__ for basis in self.bases
        ]
        turns.insert(self.index, lambda y: y)
        return turns


def _orthonormal(name: str, basis: ArrayLike) -> Array:
    matrix = strategy_matrix(name, basis)
    rows, columns = matrix.shape
    if rows != columns or np.abs(matrix.T @ matrix - np.eye(columns)).max() > ORTHONORMAL:
        raise InvalidInputError(
            f"strategy {name!r}: the basis of an attribute is a square orthonormal matrix"
        )
    return matrix


def _numbers(name: str, combinations: ArrayLike, bases: Sequence[Array], blocks: int) -> Indices:
    given = np.array(combinations)
    sizes = tuple(len(basis) for basis in bases)
    whole = given.dtype.kind in "iu" and given.shape == sizes
    if not whole or not blocks or set(np.unique(given)) - {-1} != set(range(blocks)):
        raise InvalidInputError(
            f"strategy {name!r} needs for every combination of the other attributes, "
            f"{' x '.join(map(str, sizes))} of them, the number of one of its {blocks} blocks, all "
            "of them used, or -1"
        )
    return given.astype(np.intp)


@free_vector.register
def _(strategy: BlockStrategy) -> Array:
    """(R^T R)^+ 1, shape (n,)."""
    return strategy.gram_inverse(np.ones(strategy.cells))
