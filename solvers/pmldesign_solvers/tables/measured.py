r"""What a strategy with a free vector measures of one ordered attribute.

X0 = Y^T Y (`free_vector`), in an orthonormal basis whose first directions are the features f of the
cells: those in which the total and the rest of the attribute are asked for together. With
X = C C^T, z = C^-1 1 / tau^(1/2) and an orthonormal Q whose columns are orthogonal to z,

    Y = (1 - 1/tau)^(-1/2) Q^T C^T,    Psi = (1 - 1/tau)^(1/2) C^-T Q,    v = C^-T z / tau^(1/2),

(v, Psi) the inverse of 1^T above Y. With d = Psi^T G v and D = Psi^T G Psi the features are
(t + D)^-1 d, D d, D^2 d, ... in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import EPS, TINY, Array


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
    v, rows, psi = _bases(x)
    if features:
        gram = np.asarray(sum(share * g for share, g in zip(shares, grams, strict=True)))
        turn = _directions(gram, v, psi, features)
        rows, psi = turn.T @ rows, psi @ turn
    length = math.sqrt(float(np.einsum("ij,ij->j", rows, rows).max()))
    return Measured(rows / length, np.column_stack([v, psi * length]))


def _bases(x: Array) -> tuple[Array, Array, Array]:
    """v, Y and Psi, by a reflection that takes z to the first axis."""
    n = len(x)
    left = np.asarray(np.linalg.cholesky(x))
    inverse = scipy.linalg.solve_triangular(left, np.eye(n), lower=True)
    z = inverse.sum(axis=1)
    tau = float(z @ z)
    z /= math.sqrt(tau)
    v = np.asarray(inverse.T @ (z / math.sqrt(tau)))
    z[0] += math.copysign(1.0, z[0])
    z /= np.linalg.norm(z)
    rest = math.sqrt(1 - 1 / tau)
    rows = np.asarray((left - np.outer(left @ (2 * z), z))[:, 1:].T / rest)
    psi = (inverse.T - np.outer(inverse.T @ (2 * z), z))[:, 1:] * rest
    return v, rows, np.asarray(psi)


def _directions(gram: Array, v: Array, psi: Array, features: int) -> Array:
    """An orthonormal basis of what Y measures, the directions of the features first."""
    image = gram @ v
    t, d, inner = float(v @ image), psi.T @ image, psi.T @ (gram @ psi)
    shift = t + EPS * float(np.trace(inner))
    columns = [np.linalg.solve(inner + shift * np.eye(len(d)), d)]
    for _ in range(1, features):
        d = inner @ d
        columns.append(d)
    scaled = [x / max(float(np.abs(x).max(initial=0.0)), TINY) for x in columns]
    return np.linalg.qr(np.array(scaled).T, mode="complete")[0]
