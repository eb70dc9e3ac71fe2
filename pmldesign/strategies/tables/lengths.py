r"""How long the coordinates of ordered attributes are, and whether the sectors of tables fit.

Lengths and distances (`table_distances`, `pmldesign_solvers.tables.upper_bound`) are those of
coordinates Y_i of which no column is longer than 1. Of others let rho_i be the largest squared norm
of a column: Y_i / rho_i^(1/2) with

    rho_i E for sectors with the spectator i,
    rho_i^(1/2) for rows and columns of E with its features

measures the same. Designs have rho_i = 1 but for rounding, which counts all the same.

The rows that are measured are C^T times products of coordinates, where a rounded E = C C^T is off
by (k + 1) u |C| |C|^T at most for E of order k, so that no squared length is off by more than
k (k + 1) u tr E times the lengths of the spectators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.outward import UNIT, raised
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.problem import Attributes
from pmldesign_solvers.tables.sectors import Sector


def squared_lengths(ordered: Mapping[int, Measured]) -> dict[int, float]:
    """rho_i of each attribute, rounded up."""
    squares = {i: float((measured.rows**2).sum(axis=0).max()) for i, measured in ordered.items()}
    return {i: raised(square, len(ordered[i].rows) + 2) for i, square in squares.items()}


def unit_sector(sector: Sector, features: Mapping[int, int], rho: Mapping[int, float]) -> Sector:
    """The sector that measures the same of coordinates of length 1, rounded up."""
    roots = np.concatenate(
        [
            np.full(math.prod(features[i] for i in s), math.sqrt(math.prod(rho[i] for i in s)))
            for s in sector.sets
        ]
    )
    outer = math.prod(rho[i] for i in sector.spectators)
    matrix = sector.matrix * np.multiply.outer(roots, roots) * outer
    k = len(matrix)
    allowance = (k * (k + 1) + 8 * len(rho) + 8) * UNIT * float(matrix.trace())
    matrix[np.diag_indices(k)] += allowance
    return Sector(sector.plain, sector.spectators, sector.sets, matrix)


def check_sectors(
    name: str,
    sizes: Sequence[int],
    ordered: Mapping[int, Measured],
    features: Mapping[int, int],
    sectors: Sequence[Sector],
) -> None:
    """Refuse sectors that are no partition of what is measured.

    Raises:
        InvalidInputError: attributes out of range, of the wrong kind or in two places, a pair of
            sets that comes twice, coordinates or an E of another shape or not finite.
    """
    fits = set(ordered) == set(features) and all(
        _coordinates_fit(sizes, i, entry, features[i]) for i, entry in ordered.items()
    )
    plain = {*range(len(sizes))} - features.keys()
    forms = {(entry.spectators, entry.sets, entry.matrix.shape) for entry in sectors}
    pairs = {(entry.plain, entry.spectators) for entry in sectors}
    if (
        not fits
        or not sectors
        or len(pairs) < len(sectors)
        or not all(_increasing(members, plain) for members in {s.plain for s in sectors})
        or not all(_fits(features, *form) for form in forms)
    ):
        raise InvalidInputError(
            f"strategy {name!r}: its sectors do not fit its attributes; write the file again"
        )


def _coordinates_fit(sizes: Sequence[int], i: int, measured: Measured, count: int) -> bool:
    return (
        0 <= i < len(sizes)
        and measured.rows.shape == (sizes[i] - 1, sizes[i])
        and 0 <= count < sizes[i]
        and bool(np.isfinite(measured.rows).all() and np.isfinite(measured.inverse).all())
    )


def _fits(
    features: Mapping[int, int],
    spectators: Attributes,
    sets: tuple[Attributes, ...],
    shape: tuple[int, ...],
) -> bool:
    """Whether spectators, sets and the shape of E go together."""
    coupled = {i for i, count in features.items() if count > 0} - {*spectators}
    return (
        _increasing(spectators, features.keys())
        and all(_increasing(s, coupled) for s in sets)
        and list(sets) == sorted(set(sets), key=lambda s: (len(s), s))
        and (size := sum(math.prod(features[i] for i in s) for s in sets)) > 0
        and shape == (size, size)
    )


def _increasing(members: Attributes, allowed: Set[int]) -> bool:
    """Whether these are some of the attributes that are allowed, in order."""
    return allowed >= {*members} and all(a < b for a, b in pairwise(members))
