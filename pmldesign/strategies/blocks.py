r"""Strategies that measure one attribute by a matrix of its own for each combination of the others.

    R = sum_b R_b x v_b^T,     v_b = x_j V_j[:, b_j],

V_j (n_j x n_j) orthonormal, attribute i in its place (`pmldesign_solvers.unions.block_design`);
some combinations b share a block R_b, others are not measured. The measurements of one block come
one combination after the other, block by block. Nothing is formed but R_b, V_j and what measures
the histogram; norms of columns and variances are sums over b of products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.strategies.arguments import read_only, strategy_matrix
from pmldesign.strategies.base import ANSWER_TOLERANCE, Strategy
from pmldesign.strategies.block_distances import BlockDistances
from pmldesign.strategies.sensitivity import product_labels
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.product_basis import Basis

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice

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
        """Columns are equal where those of all blocks are and, of the bases, what is measured."""
        measured = np.argwhere(self.combinations >= 0).T
        parts = [basis.T[np.unique(used)] for basis, used in zip(self.bases, measured, strict=True)]
        parts.insert(self.index, np.vstack([block.matrix for block in self.blocks]))
        return product_labels(parts)

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.through(x, [block.measure for block in self.blocks])

    def free_vector(self) -> Array:
        """(R^T R)^+ 1, shape (n,)."""
        maps = [block.pseudo_inverse.T.__matmul__ for block in self.blocks]
        return self.estimate(self.through(np.ones(self.cells), maps))

    def through(
        self,
        x: Array,
        maps: Sequence[mode_products.Map],
        turns: Sequence[mode_products.Map] | None = None,
    ) -> Array:
        """What the blocks' maps make of the coordinates of x in the bases.

        Args:
            x: shape (n,) or (n, c).
            maps: for each block.
            turns: V_j^T for each of the other attributes, in their order; None for the bases.
        """
        along = self._turns(transposed=True)
        if turns is not None:
            along = [*turns[: self.index], along[self.index], *turns[self.index :]]
        turned = mode_products.apply(along, self.sizes, x)
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
        return mode_products.apply(self._turns(transposed=False), self.sizes, flat)

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

    def on_lattice(self, workload: Workload, bits: int, beside: Strategy | None = None) -> Lattice:
        """Beyond WRITTEN_CELLS cells by the blocks and bases, each in whole numbers."""
        from pmldesign.strategies.whole.structures import block_lattice

        if self.few:
            return super().on_lattice(workload, bits, beside)
        return block_lattice(beside or self, self, bits)

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

    def _turns(self, *, transposed: bool) -> list[mode_products.Map]:
        """V_j^T or V_j along the other axes."""
        turns: list[mode_products.Map] = [
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
