r"""Errors of noise on the rows of L, in ball arithmetic, from the definitions.

    err_p^p = scale^p sum_i E |(L z)_i|^p

Gaussian: E |(L z)_i|^p = s_i^p 2^(p/2) Gamma((p + 1)/2) / sqrt(pi), s_i^2 = (L L^T)_ii.
Laplace: a sum of independent Laplace variables of different scales l_j is a mixture of Laplace
variables with weights c_j = prod_{k != j} l_j^2 / (l_j^2 - l_k^2), so

    E |(L z)_i|^p = Gamma(p + 1) sum_j c_j l_j^p.

Scales that are equal, or nearly so, are moved apart by a relative 2^-APART, which moves the moment
by at most p 2^-APART. The weights are large and of both signs: precision grows with their number.
p = inf is the largest standard deviation; p = 2 the sum of variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flint import arb, ctx

from pmldesign.verify.arithmetic.intervals import total

APART = 40
"""Scales closer than 2^-APART are moved apart: the moment moves by less than the digits of a
claim."""
MOST_TERMS = 96
"""Of a row of L whose Laplace moment is computed: precision is 2 APART bits for each."""


def gaussian_error(spread: Any, scale: Any, p: float) -> Any:
    """Error of Gaussian noise from (sum_i s_i^p)^(1/p)."""
    if math.isinf(p):
        return scale * spread
    power = arb(p)
    moment = (arb(2) ** (power / 2) * ((power + 1) / 2).gamma() / arb.pi().sqrt()) ** (1 / power)
    return scale * moment * spread


def laplace_error(rows: Any, scale: Any, p: float) -> Any | None:
    """Error of Laplace noise from L at 2 < p < inf; None without L, or where it takes too long."""
    if rows is None or max((row != 0).sum() for row in rows) > MOST_TERMS:
        return None
    moments = [laplace_moment([x for x in row if x != 0], p) for row in abs(rows).tolist()]
    return scale * (arb(p + 1).gamma() * total(moments)) ** (1 / arb(p))


def laplace_moment(scales: Sequence[float], p: float) -> Any:
    """sum_j c_j l_j^p for the scales of a row."""
    bits = ctx.prec
    ctx.prec = 256 + 2 * APART * len(scales)
    try:
        apart = arb(2) ** -APART
        values = [
            arb(size) * (1 + j * apart / len(scales)) for j, size in enumerate(sorted(scales))
        ]
        powers = [value**2 for value in values]
        result = arb(0)
        for j, square in enumerate(powers):
            weight = arb(1)
            for k, other in enumerate(powers):
                if k != j:
                    weight *= square / (square - other)
            result += weight * values[j] ** arb(p)
        slack = arb(0, arb(p) * apart * 2)
        return result * (1 + slack)
    finally:
        ctx.prec = bits
