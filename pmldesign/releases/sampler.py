r"""Noise of whole numbers, made of OpenDP's exact samplers; nothing else is published.

    discrete Laplace    P(k) proportional to e^(-|k| / b)
    discrete Gaussian   P(k) proportional to e^(-k^2 / (2 s^2))
    discrete cube       P(z) proportional to e^(-max|z_j| / b), all together

The noise is drawn on zeros in 64 bits and added outside, in whole numbers: beyond 2^63 the library
saturates without a word, so scales above 2^55 are refused (e^-256 is the chance of such a number).
The library's privacy map is a second opinion on the scale.

References:
    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, 2020.

The cube for d whole numbers z is a mixture of uniform laws on the cubes {-r, ..., r}^d with weights
(2 r + 1)^d q^r, q = e^(-1/b), as the sum of q^r over r >= max|z_j| is proportional to q^(max|z_j|).
So

    r, a sum of d + 1 geometric numbers, has a chance proportional to (r + 1) ... (r + d) q^r;
    it is kept with the chance (2 r + 1)^d / (2^d (r + 1) ... (r + d)), a fraction of at most 1;
    then come d uniform numbers from {-r, ..., r}.

Geometric numbers are the discrete Laplace numbers that are not negative (OpenDP's, exact); the
fraction and the uniform numbers are made of whole numbers from the operating system, which draws
numbers out of range again. Nothing is rounded.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pmldesign._version import version
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.mechanisms.integers import Integers
from pmldesign.privacy.noise import Noise

LARGEST_SCALE = 2.0**55
"""Noise as far out as 256 scales still fits into 64 bits."""
CHUNK = 2**16
"""Numbers drawn at a time: lists of Python integers need 40 bytes each."""

Sampler = Callable[[Noise, float, int], Integers]
"""Kind of noise, its scale in whole numbers, how many; shape (count,)."""
Below = Callable[[int], int]
"""A uniform whole number that is at least 0 and below another one."""


def draw(noise: Noise, scale: float, count: int) -> Integers:
    """Integer noise, shape (count,); independent except for the cube.

    Raises:
        InvalidInputError: a scale of 0, or above LARGEST_SCALE.
        PmldesignError: OpenDP is not installed.
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise InvalidInputError(
            f"the scale of the noise must be in (0, 2^55] units of the lattice, got {scale:g}; "
            "take a larger epsilon"
        )
    if noise is Noise.CUBE:
        return draw_cube(partial(draw, Noise.LAPLACE, scale), count)
    sample = _measurement(noise, scale)
    chunks = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    return np.concatenate([np.array(sample([0] * size), dtype=np.int64) for size in chunks])


def privacy_map(noise: Noise, scale: float, sensitivity: int) -> float:
    """The guarantee of the noise by OpenDP: epsilon (Laplace), or rho of zCDP (Gaussian).

    Args:
        noise: its kind.
        scale: in whole numbers.
        sensitivity: the l1 distance (Laplace) or the square of the l2 distance (Gaussian).
    """
    distance = sensitivity if noise is Noise.LAPLACE else float(sensitivity) ** 0.5
    return float(_measurement(noise, scale).map(distance))


def library_version() -> str:
    """Name and version of the library that samples."""
    return f"opendp {version('opendp')}"


def _measurement(noise: Noise, scale: float) -> Any:
    require_extra("noise for publication", "opendp", "release")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T=dp.i64))
    if noise is Noise.GAUSSIAN:
        return dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=scale)
    return dp.m.make_laplace(numbers, dp.l1_distance(T=dp.i64), scale=scale)


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
