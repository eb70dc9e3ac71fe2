"""What a sector of a strategy for tables measures of the coordinates of tables (`tables`).

Of Q, Sp and S together a sector (Q, Sp) takes the features of the attributes in S, all other
coordinates of those in Sp and all of those in Q. With E = C C^T it measures C^T times these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.problem import Attributes
from pmldesign_solvers.tables.sectors import Sector

Parts = Mapping[Attributes, Array]
"""The coordinates of each set, one axis for each attribute and one of columns."""
Mixer = Callable[[Array], Array]
"""C^T times rows."""


def attributes_of(sector: Sector, members: Attributes) -> Attributes:
    """All attributes of a set of the rows of E."""
    return tuple(sorted(sector.plain + sector.spectators + members))


class SectorMap:
    """The map from coordinates to the measurements of all sectors, and back.

    Args:
        sizes: number of values of each attribute.
        features: the number of features of each ordered attribute.
        sectors: all of them.
    """

    def __init__(
        self, sizes: Sequence[int], features: Mapping[int, int], sectors: Sequence[Sector]
    ) -> None:
        self._sizes, self._features, self._sectors = sizes, features, sectors
        every = {attributes_of(sector, s) for sector in sectors for s in sector.sets}
        self.sets = sorted(every, key=lambda s: (len(s), s))
        self._counts = [len(sector.matrix) * self._copies(sector) for sector in sectors]
        self.rows = sum(self._counts)

    def measure(self, parts: Parts, mixers: Sequence[Mixer] | None = None) -> Array:
        """All measurements, shape (r, c), of the coordinates of `sets`.

        Args:
            parts: these coordinates.
            mixers: what takes the place of C^T of each sector; None for itself.
        """
        maps = [mixing(sector).__matmul__ for sector in self._sectors] if mixers is None else mixers
        measured = []
        for sector, mixer in zip(self._sectors, maps, strict=True):
            views = [self._view(sector, parts, members) for members in sector.sets]
            rows = np.concatenate([view.reshape(k, -1, view.shape[-1]) for view, k in views])
            measured.append(mixer(rows.reshape(len(rows), -1)).reshape(-1, rows.shape[-1]))
        return np.concatenate(measured)

    def estimate(self, measurements: Array) -> dict[Attributes, Array]:
        """The coordinates of `sets`, from measurements of shape (r,)."""
        parts = {s: np.zeros([self._sizes[i] - 1 for i in s] + [1]) for s in self.sets}
        stops = np.cumsum(self._counts)[:-1]
        for sector, rows in zip(self._sectors, np.split(measurements, stops), strict=True):
            solved = np.linalg.solve(mixing(sector), rows.reshape(len(sector.matrix), -1))
            first = 0
            for members in sector.sets:
                view, size = self._view(sector, parts, members)
                view[...] = solved[first : first + size].reshape(view.shape)
                first += size
        return parts

    def _view(self, sector: Sector, parts: Parts, members: Attributes) -> tuple[Array, int]:
        """What it takes of a set, the axes of features first, and how many products they have."""
        subset = attributes_of(sector, members)
        place = tuple(
            slice(self._features[i], None)
            if i in sector.spectators
            else slice(0, self._features[i])
            if i in members
            else slice(None)
            for i in subset
        )
        order = [subset.index(i) for i in members]
        rest = [axis for axis in range(len(subset)) if axis not in order]
        view = parts[subset][place].transpose([*order, *rest, len(subset)])
        return view, math.prod(self._features[i] for i in members)

    def _copies(self, sector: Sector) -> int:
        """How many rows a sector measures for each row of E."""
        plain = math.prod(self._sizes[i] - 1 for i in sector.plain)
        left = math.prod(self._sizes[i] - 1 - self._features[i] for i in sector.spectators)
        return plain * left


def mixing(sector: Sector) -> Array:
    """C^T of E = C C^T."""
    return np.asarray(np.linalg.cholesky(sector.matrix).T)
