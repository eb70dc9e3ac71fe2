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

from pmldesign.neighbours import Norm
from pmldesign_solvers import mode_products
from pmldesign_solvers.block_design import BlockDesign
from pmldesign_solvers.eigenspaces import Eigenspaces
from pmldesign_solvers.operators import Array

ALIKE = 1e-12
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
        own = [(np.abs(block.matrix) ** power).sum(axis=0) for block in self._design.blocks]
        shares = [np.abs(one.vectors) ** power @ one.members for one in self._design.spaces]
        values = np.stack([*own, np.zeros_like(own[0])])
        largest = float(self._design.spread(values, shares).max())
        return largest if norm == "l1" else math.sqrt(largest)

    @cached_property
    def _diameter(self) -> float | None:
        """Largest l2 distance of two columns, rounded up; None if it takes the matrix."""
        pairs = [_two_values(space) for space in self._design.spaces]
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(pairs) or len(pairs) > DIFFERING:
            return None
        squares = self._gram([same for same, _ in known]).diagonal()
        largest = 0.0
        # an attribute with a single cell is the same everywhere
        some = zip(known, self._design.bases, strict=True)
        choices = [pair if len(basis) > 1 else pair[:1] for pair, basis in some]
        for values in itertools.product(*choices):
            apart = squares[:, None] + squares - 2 * self._gram(values)
            largest = max(largest, float(apart.max()))
        # entries of a projection are known to ALIKE, and the diagonal of the smallest is 1/n
        rounding = 4 * ALIKE * sum(map(len, self._design.bases))
        return math.sqrt(largest + rounding * 2 * float(squares.max()))

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
        some = space.vectors[:, space.labels == number]
        projection = some @ some.T
        diagonal, beside = projection.diagonal(), projection[off]
        if np.ptp(diagonal) > ALIKE or (n > 1 and np.ptp(beside) > ALIKE):
            return None
        same.append(float(diagonal[0]))
        other.append(float(beside[0]) if n > 1 else 0.0)
    return np.array(same), np.array(other)
