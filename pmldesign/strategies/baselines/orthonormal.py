"""Orthonormal strategies: Fourier and Hadamard.

R^T R is the identity, so under Gaussian noise both have the error of measuring every cell by
itself. They differ where the l1 sensitivity counts, or a part of their rows is kept.

Fourier: the constant, a cosine and a sine for each frequency k < n/2 and, for even n, alternating
signs, scaled to norm 1. Hadamard: entries 1 and -1, scaled, of the smallest power of two N >= n, on
its first n columns; for n < N the rows are no longer orthogonal, the columns still are.

References:
    Barak et al., Privacy, accuracy, and consistency too: a holistic solution to contingency table
    release, 2007 (the Hadamard basis).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from pmldesign.arguments import whole
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import check_entries


def fourier(cells: int) -> Strategy:
    """The orthonormal real Fourier basis of n cells.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'fourier'", (n, n))
    frequencies = np.arange(1, (n + 1) // 2)
    angles = 2 * np.pi / n * (frequencies[:, None] * np.arange(n) % n)
    rows = [
        np.full((1, n), 1 / np.sqrt(n)),
        np.sqrt(2 / n) * np.cos(angles),
        np.sqrt(2 / n) * np.sin(angles),
    ]
    if n % 2 == 0:
        rows.append(np.where(np.arange(n) % 2, -1.0, 1.0)[None] / np.sqrt(n))
    return Strategy("fourier", np.vstack(rows))


def hadamard(cells: int) -> Strategy:
    """The first n columns of the orthonormal Hadamard matrix of the next power of two.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    size = 1 << (n - 1).bit_length()
    check_entries("strategy 'hadamard'", (size, size))
    return Strategy("hadamard", linalg.hadamard(size)[:, :n] / np.sqrt(size))
