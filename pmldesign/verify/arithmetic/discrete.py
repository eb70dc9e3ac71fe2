r"""Errors of discrete Laplace noise on whole measurements, in ball arithmetic.

R is u times whole numbers, and measurement j is off by u eta_j, P(eta = k) proportional to q^|k|,
q = e^(-u/scale). With the polylogarithm Li,

    E |eta|^p = 2 (1 - q)/(1 + q) sum_k k^p q^k = 2 (1 - q)/(1 + q) Li_{-p}(q),

and moments of even order of sums follow, one term after the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verify.arithmetic.intervals import total

WHOLE = 1e-12
"""Relative error within which an entry of R counts as a multiple of the unit."""
LARGEST = 2**20
"""Entry of R in units up to which it is looked for."""
MOST_PRODUCTS = 2**20
"""Of two moments, in an error: some seconds."""


def own_unit(R: Any) -> float | None:
    """u, the smallest entry, of which all others are multiples; None where they are not."""
    sizes = np.abs(R)
    if not sizes.any():
        return None
    unit = float(sizes[sizes > 0].min())
    off = np.abs(sizes - np.rint(sizes / unit) * unit)
    return None if sizes.max() > LARGEST * unit or (off > WHOLE * sizes).any() else unit


def discrete_deviation(unit: float, scale: Any) -> Any:
    """Standard deviation of the noise on a measurement."""
    q = (-arb(unit) / scale).exp()
    return arb(unit) * (2 * q).sqrt() / (1 - q)


def discrete_error(rows: Any, unit: float, scale: Any, p: float) -> Any | None:
    """(sum_i E |e_i|^p)^(1/p) from L, 2 < p < inf.

    Returns:
        None without L, or for sums of several measurements at p that is not even, or too large.
    """
    if rows is None:
        return None
    terms = [[arb(x) for x in row if x != 0] for row in np.abs(rows[rows.any(axis=1)]).tolist()]
    products = sum(len(row) for row in terms if len(row) > 1) * (p / 2) ** 2
    if products and (p % 2 or products > MOST_PRODUCTS):
        return None
    q = (-arb(unit) / scale).exp()

    def single(order: float) -> Any:
        return arb(1) if order == 0 else 2 * (1 - q) / (1 + q) * q.polylog(arb(-order))

    even = [single(k) for k in range(0, int(p) + 1, 2)] if products else []
    one = single(p)
    moments = [row[0] ** arb(p) * one if len(row) == 1 else _of_sum(row, even) for row in terms]
    return arb(unit) * total(moments) ** (1 / arb(p))


def _of_sum(row: list[Any], even: list[Any]) -> Any:
    """The last of the even moments of sum_j l_j eta_j."""
    moments = [arb(1)] + [arb(0)] * (len(even) - 1)
    for weight in row:
        powers = [weight ** (2 * k) * moment for k, moment in enumerate(even)]
        moments = [
            total(math.comb(2 * n, 2 * k) * moments[n - k] * powers[k] for k in range(n + 1))
            for n in range(len(even))
        ]
    return moments[-1]
