"""The worst distribution about a cell, of all near one that is given."""

import numpy as np

from pmldesign_solvers.operators.operator import Array


def worst_masses(distances: Array, least: Array, room: Array, most: float) -> Array:
    """What cells keep when mass moves from the nearest ones to the farthest.

    Args:
        distances: of all cells from some, shape (c, k).
        least: what every cell keeps, shape (k,).
        room: what it has beyond that, shape (k,).
        most: mass that is moved altogether.

    Returns:
        Shape (c, k), without what the farthest cell is given.
    """
    order = np.argsort(distances, axis=1, kind="stable")
    moved = np.minimum(np.cumsum(room[order], axis=1), most)
    masses = np.empty_like(moved)
    np.put_along_axis(masses, order, np.diff(moved, axis=1, prepend=0.0), axis=1)
    return np.asarray(least + np.maximum(room - masses, 0.0))
