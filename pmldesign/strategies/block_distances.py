r"""How far the columns of a strategy of blocks are apart.

In the letters of `blocks`, the norms of the columns are sums over b of the norm of a column of R_b
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

from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import UNIT, raised
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.eigenspaces import Eigenspaces
from pmldesign_solvers.unions.block_design import BlockDesign

EQUAL_ENTRIES = 1e-12
"""Entries of a projection that differ by no more are one."""
DIFFERING = 10
"""Most other attributes of which all sets are gone through."""


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
        """Inner products where the projections on all spaces have these entries."""
        pattern = self._design.pattern
        asked = pattern >= 0
        shares = mode_products.outer(values).reshape(pattern.shape)[asked]
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
