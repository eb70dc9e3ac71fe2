r"""Strategies of characters: Fourier, Hadamard, and half of a circulant matrix for prefix sums.

Fourier: the constant, a cosine and a sine for each frequency k < n/2 and, for even n, alternating
signs, scaled to norm 1. Hadamard: entries 1 and -1, scaled, of the smallest power of two N >= n, on
its first n columns; for n < N the rows are no longer orthogonal, the columns still are. R^T R is
the identity, so under Gaussian noise both have the error of measuring every cell by itself. They
differ where the l1 sensitivity counts, or a part of their rows is kept.

Prefix sums by group algebra.
Let C be the circulant matrix of size 2n with first column (1, ..., 1, 0, ..., 0), n ones. Entry
(i, j) is 1 if (i - j) mod 2n < n; for i, j < n that is i >= j, so the first n rows and columns of C
are the prefix sums. The characters of the cyclic group of order 2n diagonalise it,

    lambda_0 = n,    lambda_k = 2/(1 - e^(-i pi k/n)) for odd k,    lambda_k = 0 for other even k,

with abs(lambda_k) = 1/sin(pi k/2n) for odd k. From C = U abs(C), with abs(C) = (C^T C)^(1/2)
circulant and real, C = (U abs(C)^(1/2)) (abs(C)^(1/2)); the first n rows of the one factor and the
first n columns of the other multiply to the prefix sums. All their squared norms are the diagonal
entry of abs(C), which is

    sum_k abs(lambda_k)/(2n) = 1/2 + (1/2n) sum_{j = 1..n} 1/sin((2j - 1) pi/2n),

the bound of Mathias on gamma_2; hence gamma_(p) <= n^(1/p) times this. R has the Gram matrix of
abs(C)^(1/2) on the first n cells, written in the real characters: a row for the total, a cosine
and a sine for each odd k < n, and for odd n the alternating signs. The least-squares reconstruction
is at least as good as the other factor.

References:
    Henzinger and Upadhyay, Improved differentially private continual observation using group
    algebra, SODA 2025.
    Mathias, The Hadamard operator norm of a circulant and applications, 1993.
    Barak et al., Privacy, accuracy, and consistency too: a holistic solution to contingency table
    release, 2007 (the Hadamard basis).
"""

from __future__ import annotations

import numpy as np
import scipy

from pmldesign.arguments import whole
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array, Indices


def henzinger_upadhyay(cells: int) -> Strategy:
    """The group-algebra strategy for prefix sums, n + 1 rows.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'henzinger-upadhyay'", (n + 1, n))
    odd = np.arange(1, n, 2)
    weights = 1 / np.sqrt(n * np.sin(np.pi / (2 * n) * odd))
    last = np.sqrt(1 / (2 * n)) if n % 2 else 0.0
    return Strategy("henzinger-upadhyay", _rows(n, np.sqrt(0.5), odd, 2 * n, weights, last))


def fourier(cells: int) -> Strategy:
    """The orthonormal real Fourier basis of n cells.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'fourier'", (n, n))
    frequencies = np.arange(1, (n + 1) // 2)
    weights = np.full(frequencies.size, np.sqrt(2 / n))
    last = 0.0 if n % 2 else np.sqrt(1 / n)
    return Strategy("fourier", _rows(n, np.sqrt(1 / n), frequencies, n, weights, last))


def hadamard(cells: int) -> Strategy:
    """The first n columns of the orthonormal Hadamard matrix of the next power of two.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    size = 1 << (n - 1).bit_length()
    check_entries("strategy 'hadamard'", (size, size))
    return Strategy("hadamard", scipy.linalg.hadamard(size)[:, :n] / np.sqrt(size))


def _rows(
    n: int, first: float, frequencies: Indices, period: int, weights: Array, last: float
) -> Array:
    """The total, cosines, sines, and alternating signs unless they have no weight."""
    # whole multiples of the angle, reduced to one turn before they are multiplied by it
    angles = 2 * np.pi / period * (frequencies[:, None] * np.arange(n) % period)
    waves = [weights[:, None] * wave(angles) for wave in (np.cos, np.sin)]
    signs = [last * np.where(np.arange(n) % 2, -1.0, 1.0)[None]] if last else []
    return np.vstack([np.full((1, n), first), *waves, *signs])
