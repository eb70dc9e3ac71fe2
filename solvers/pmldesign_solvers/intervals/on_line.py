r"""A stream beside its total, on line: the factor of n - 1 steps with the same distances.

Where the total is public a record moves from step i to step j, and its measurements by
C (e_i - e_j). With the columns e_i - e_n of E these are differences of columns of C E, and of a
zero column for j = n. C E has the rows of C before the last one, and as its last row

    r_j = C_nj - C_nn,      j < n.

So C' with C'^T C' = E^T C^T C E, n - 1 x n - 1, follows from rotations of that row with the others,
from the last one to the first. At row i it is v^T prod_{j < m <= i} diag(lambda(m)) 1 in column j,
with K numbers and one for C_nn, which never fades:

    C'_ii = (C_ii^2 + (1^T v)^2)^(1/2),      c = C_ii / C'_ii,      s = 1^T v / C'_ii,
    g'_i = c g_i + s v,                      v <- diag(lambda(i)) (c v - s g_i).

*Errors.* With differences D = A^-1, D e_t = E (e_t - e_{t+1}) for t < n: the inverse covariance
D^T X D of all sums has as the block of the open ones D'^T C'^T C' D', that of C' alone, and the
inverse of a block of the inverse is what is left of a covariance when the rest is known. So on line
the answers have the errors that they have beside the total.

*Rounding.* A rotation changes no norm; what its roundings add to the two entries of a column is at
most (K + 16) u (C_ii + sum abs(g_i) + sum abs(v)), as lambda <= 1.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign_solvers.streams.factor import Factor

UNIT = 2.0**-53
"""Largest relative error of a rounded operation."""


def open_factor(factor: Factor) -> tuple[Factor, float]:
    """C', and how far its columns are from those of exact rotations of C, at most, in l2."""
    n, count = factor.gains.shape
    decays = np.pad(factor.decays, [(0, 0), (0, 1)], constant_values=1.0)
    gains, diagonal = np.pad(factor.gains, [(0, 0), (0, 1)]), np.array(factor.diagonal[:-1])
    row = np.append(gains[-1, :-1], -factor.diagonal[-1]) * decays[-1]
    rows = np.empty((n - 1, count + 1))
    for i in range(n - 2, -1, -1):
        rows[i] = row
        pivot, last = float(diagonal[i]), float(row.sum())
        diagonal[i] = whole = math.hypot(pivot, last)
        turned = (pivot / whole * row - last / whole * gains[i]) * decays[i]
        gains[i] *= pivot / whole
        row *= last / whole
        gains[i] += row
        row = turned
    sizes = float(factor.diagonal[:-1].sum() + factor.gains[:-1].sum() + np.abs(rows).sum())
    moved = math.sqrt(2.0) * (count + 17) * UNIT * sizes * (1.0 + 1e-6)
    decays[0] = 0.0
    return Factor(diagonal, gains[:-1], decays[:-1]), moved
