r"""The worst distribution about every cell, of all that a public sample leaves possible.

What is lost about cell r grows with the distances of the other records' cells from it: the leakage
of Laplace noise is -log of the least sum_j q_j e^(-D_jr/b), the bound on Gaussian noise a largest
sum_j q_j h_j with h_j growing in d_jr, over all q in the set (`sample`)

    q_j >= L_j,     |q - f|_1 <= rho,     f = x/N.

Moving mass from cell j to the farthest cell changes the sum by the difference of two terms, so that
the worst q moves it from the nearest cells first, from r itself and down to L_j, until rho/2 is
moved. It depends on the order of the distances, not on the noise. In the bound on Gaussian noise
q_r also stands before the sum and in h_j, both of which fall with it: there, too, moving mass from
r comes first. Cells with equal columns are one cell, whose L, f and q are sums.

References:
    Grosse, Saeidian, Oechtering and Skoglund (2025), Privacy mechanism design based on empirical
        distributions, arXiv 2509.22428: leakage over sets around an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pmldesign.privacy.alpha.sample import SampledAlpha
from pmldesign.privacy.outward import UNIT
from pmldesign.privacy.priors import class_probabilities
from pmldesign_solvers.operators.moved_mass import worst_masses
from pmldesign_solvers.operators.operator import Array, Indices

SPARE = 2.0**-40
"""Mass that is moved beyond rho/2, for the rounding of sums of up to 8,000 cells."""


def least_masses(
    alpha: float | Iterable[float], distances: Array, cell_of: Indices | None = None
) -> Array:
    """What every cell has at least, in the worst distribution about each of some cells.

    Args:
        alpha: of a guarantee.
        distances: of all k' cells from some of them, shape (c, k').
        cell_of: which of them each of the k cells is, shape (k,); None if they are the same.

    Returns:
        alpha as a vector, shape (k',); for a sample a row for each of these cells, shape (c, k').
        What is left to a sum of 1 is on the farthest cell.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    least = class_probabilities(alpha, distances.shape[1] if cell_of is None else cell_of.size)
    limits = merged(least, cell_of)
    if not isinstance(alpha, SampledAlpha):
        return limits
    room, most = room_of(alpha)
    masses = worst_masses(distances, limits, merged(room, cell_of), most + SPARE)
    return masses * (1 - 8 * limits.size * UNIT)


def room_of(alpha: SampledAlpha) -> tuple[Array, float]:
    """What every cell of a sample has beyond its limit, shape (k,), and rho/2."""
    frequencies = alpha.share * np.array(alpha.counts, np.float64) / alpha.records
    room = np.maximum(frequencies - np.array(alpha), 0.0)
    return room, alpha.share * alpha.radius / 2


def merged(least: Array, cell_of: Indices | None) -> Array:
    """Sums over the cells with equal columns, rounded downwards."""
    if cell_of is None:
        return least
    return np.asarray(np.bincount(cell_of, weights=least) * (1 - least.size * UNIT), np.float64)
