r"""What a strategy with a free vector measures of one ordered attribute.

X0 = Y^T Y (`free_vector`), in an orthonormal basis whose first directions are the features f of the
cells: those in which the total and the rest of the attribute are asked for together. With the
inverse (v, Psi) of 1^T above Y, d = Psi^T G v and D = Psi^T G Psi, they are (t + D)^-1 d, D d,
D^-1 d, D^2 d, ... in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.operator import TINY, Array


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is measured of one ordered attribute.

    Attributes:
        rows: Y, shape (n - 1, n), features first; no column is longer than 1.
        inverse: (v, Psi), shape (n, n), the inverse of 1^T above Y.
    """

    rows: Array
    inverse: Array


def measured(x: Array, grams: Sequence[Array], shares: Sequence[float], features: int) -> Measured:
    """Y and its inverse from X, for some of its directions as features.

    Args:
        x: X of the attribute.
        grams: G_k of its factors.
        shares: how much each factor counts in the choice of the features.
        features: their number.
    """
    n = len(x)
    inverse = np.linalg.inv(x)
    tau = float(inverse.sum())
    values, vectors = np.linalg.eigh((x - 1 / tau) / (1 - 1 / tau))
    rows = (vectors[:, 1:] * np.sqrt(values[1:])).T
    basis = np.linalg.inv(np.vstack([np.ones(n), rows]))
    gram = sum(share * g for share, g in zip(shares, grams, strict=True))
    square = basis.T @ gram @ basis
    turn = _directions(square, features)
    rows = turn.T @ rows
    rows /= math.sqrt(float(np.einsum("ij,ij->j", rows, rows).max()))
    return Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))


def _directions(square: Array, features: int) -> Array:
    """An orthonormal basis of what Y measures, the directions of the features first."""
    t, d, inner = float(square[0, 0]), square[1:, 0], square[1:, 1:]
    values, vectors = np.linalg.eigh(inner)
    coordinates = vectors.T @ d
    up, down = coordinates, coordinates / values
    columns = []
    for number in range(features):
        x = coordinates / (t + values)
        if number:
            x = up = _scaled(up * values)
        if number and number % 2 == 0:
            x = down
            down = _scaled(down / values)
        columns.append(vectors @ x)
    start = np.array(columns).T if columns else np.zeros((len(d), 0))
    return np.linalg.qr(np.column_stack([start, np.eye(len(d))]))[0][:, : len(d)]


def _scaled(x: Array) -> Array:
    return np.asarray(x / max(float(np.abs(x).max(initial=0.0)), TINY))
