r"""Prefix sums by group algebra: half of a circulant matrix of twice the size.

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
"""

from __future__ import annotations

import numpy as np

from pmldesign.arguments import whole
from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import check_entries


def henzinger_upadhyay(cells: int) -> Strategy:
    """The group-algebra strategy for prefix sums, n + 1 rows.

    Args:
        cells: number of cells n, at least 1.

    Raises:
        InvalidInputError: `cells` is not a whole number of at least 1, or too large.
    """
    n = whole("cells", cells)
    check_entries("strategy 'henzinger-upadhyay'", (n + 1, n))
    odd = np.arange(1, n, 2)
    # whole multiples of the angle, reduced to one turn before they are multiplied by pi/n
    angles = np.pi / n * (odd[:, None] * np.arange(n) % (2 * n))
    weights = 1 / np.sqrt(n * np.sin(np.pi / (2 * n) * odd))
    rows = [
        np.full((1, n), np.sqrt(0.5)),
        weights[:, None] * np.cos(angles),
        weights[:, None] * np.sin(angles),
    ]
    if n % 2:
        rows.append(np.where(np.arange(n) % 2, -1.0, 1.0)[None] / np.sqrt(2 * n))
    return Strategy("henzinger-upadhyay", np.vstack(rows))
