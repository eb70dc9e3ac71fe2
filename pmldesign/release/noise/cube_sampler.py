r"""Exact discrete cube noise: P(z) proportional to e^(-max|z_j| / b) for d whole numbers z.

It is a mixture of uniform laws on the cubes {-r, ..., r}^d with weights (2 r + 1)^d q^r,
q = e^(-1/b), as the sum of q^r over r >= max|z_j| is proportional to q^(max|z_j|). So

    r, a sum of d + 1 geometric numbers, has a chance proportional to (r + 1) ... (r + d) q^r;
    it is kept with the chance (2 r + 1)^d / (2^d (r + 1) ... (r + d)), a fraction of at most 1;
    then come d uniform numbers from {-r, ..., r}.

Geometric numbers are the discrete Laplace numbers that are not negative (OpenDP's, exact); the
fraction and the uniform numbers are made of whole numbers from the operating system, which draws
again what is out of range. Nothing is rounded.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import numpy as np

from pmldesign.strategies.whole.integers import Integers

Below = Callable[[int], int]
"""A uniform whole number that is at least 0 and below another one."""


def draw_cube(
    laplace: Callable[[int], Integers], count: int, below: Below = secrets.randbelow
) -> Integers:
    """Noise of d = `count` whole numbers, shape (d,), as Python integers.

    Args:
        laplace: draws so many discrete Laplace numbers of parameter b.
        count: d, at least 1.
        below: tests alone have another one.
    """
    while True:
        radius = sum(_geometric(laplace, count + 1))
        bound = math.prod(range(radius + 1, radius + count + 1)) << count
        if below(bound) < (2 * radius + 1) ** count:
            break
    return np.array([below(2 * radius + 1) - radius for _ in range(count)], dtype=object)


def _geometric(laplace: Callable[[int], Integers], count: int) -> list[int]:
    """So many independent numbers k >= 0 of chances proportional to q^k."""
    kept: list[int] = []
    while len(kept) < count:
        kept += [int(k) for k in laplace(2 * count) if k >= 0]
    return kept[:count]
