"""Tables over sets of attributes, to and from the coordinates in which a strategy measures them.

Attribute i has coordinates Y_i x beside the sum 1^T x, with (v_i, Psi_i) the inverse of 1^T above
Y_i: contrasts for a plain attribute, any invertible ones for others. The coordinates of a set T,
(x)_{i in T} Y_i, need the table by T alone, and the table by T is made of those of its subsets.

Those of a design D of one attribute: with G = D^T D, tau = 1^T G^-1 1 and v = G^-1 1 / tau the
matrix X = G - 1 1^T / tau has rank n - 1 and X v = 0: X = Y^T Y, and what is beside the free vector
v is Y x.

What a sector of a strategy measures of them. Of Q, Sp and S together a sector (Q, Sp) takes the
features of the attributes in S, all other coordinates of those in Sp and all of those in Q. With E
= C C^T it measures C^T times these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.residuals import contrasts, expand
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.tables.free_vector import Measured
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


FULL_RANK = 1e-12
"""Least eigenvalue of G, relative to the largest: variances keep four digits at least."""


class Coordinates:
    """The coordinates of all attributes.

    Args:
        sizes: number of values of each.
        ordered: Y_i and its inverse where these are no contrasts.
    """

    def __init__(self, sizes: Sequence[int], ordered: Mapping[int, Measured]) -> None:
        self._sizes, self._ordered = sizes, ordered

    def of_table(
        self,
        subset: Attributes,
        table: Array,
        turns: Mapping[int, kronecker.Map] | None = None,
    ) -> Array:
        """The coordinates of a set, one axis for each attribute and one of columns.

        Args:
            subset: T.
            table: by T.
            turns: what takes the place of Y_i; None for itself.
        """
        maps = [self._forward(i) if turns is None else turns[i] for i in subset]
        sizes = [self._sizes[i] for i in subset]
        flat = kronecker.apply(maps, sizes, table.reshape(math.prod(sizes), -1))
        return flat.reshape([size - 1 for size in sizes] + [-1])

    def rows(self, attribute: int) -> Array:
        """Y_i, shape (n_i - 1, n_i)."""
        return np.asarray(self._forward(attribute)(np.eye(self._sizes[attribute])))

    def table(self, subset: Attributes, parts: Mapping[Attributes, Array], columns: int) -> Array:
        """The table by a set from the coordinates of its subsets; missing ones count as 0."""
        sizes = [self._sizes[i] for i in subset]
        tensor = np.zeros((*sizes, columns))
        for chosen in itertools.product((False, True), repeat=len(subset)):
            part = parts.get(tuple(itertools.compress(subset, chosen)))
            if part is not None:
                tensor[tuple(slice(1, None) if measured else 0 for measured in chosen)] = part
        maps = [self._backward(i) for i in subset]
        return kronecker.apply(maps, sizes, tensor.reshape(math.prod(sizes), columns))

    def _forward(self, attribute: int) -> kronecker.Map:
        if attribute in self._ordered:
            return self._ordered[attribute].rows.__matmul__
        scale = math.sqrt(max(self._sizes[attribute] - 1, 1))
        return lambda y: contrasts(y) / scale

    def _backward(self, attribute: int) -> kronecker.Map:
        if attribute in self._ordered:
            return self._ordered[attribute].inverse.__matmul__
        scale = math.sqrt(max(self._sizes[attribute] - 1, 1))

        def turn(y: Array) -> Array:
            scaled = y * scale
            scaled[0] = y[0]
            return expand(scaled)

        return turn


def has_full_rank(design: Array) -> bool:
    """Whether a design D, shape (r, n), tells all values apart."""
    values = np.linalg.eigvalsh(design.T @ design)
    return bool(values[0] > FULL_RANK * values[-1])


def tau_and_coordinates(name: str, design: Array) -> tuple[float, Measured]:
    """Tau of a design D, shape (r, n), and Y with its inverse.

    Raises:
        InvalidInputError: the design has not full rank.
    """
    if not has_full_rank(design):
        raise InvalidInputError(f"strategy {name!r}: the design of an attribute has not full rank")
    n = design.shape[1]
    gram = design.T @ design
    values, vectors = np.linalg.eigh(gram)
    solution = vectors @ ((vectors.T @ np.ones(n)) / values)
    tau = float(solution.sum())
    # Y in an orthonormal basis of the complement of v, so that X v = 0 holds but for rounding
    basis = np.linalg.qr(np.column_stack([solution, np.eye(n)]))[0][:, 1:n]
    inner = basis.T @ (gram - 1 / tau) @ basis
    roots, turn = np.linalg.eigh(inner)
    rows = (basis @ turn * np.sqrt(roots)).T
    return tau, Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))
