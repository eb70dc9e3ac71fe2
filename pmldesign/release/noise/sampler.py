"""Noise of whole numbers, made of OpenDP's exact samplers; nothing else is published.

    discrete Laplace    P(k) proportional to e^(-|k| / b)
    discrete Gaussian   P(k) proportional to e^(-k^2 / (2 s^2))
    discrete cube       P(z) proportional to e^(-max|z_j| / b), all together (`cube_sampler`)

The noise is drawn on zeros in 64 bits and added outside, in whole numbers: beyond 2^63 the library
saturates without a word, so scales above 2^55 are refused (e^-256 is the chance of such a number).
The library's privacy map is a second opinion on the scale.

References:
    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError, require_extra, version
from pmldesign.privacy.noise import Noise
from pmldesign.release.noise.cube_sampler import draw_cube
from pmldesign.strategies.whole.integers import Integers

LARGEST_SCALE = 2.0**55
"""Noise as far out as 256 scales still fits into 64 bits."""
CHUNK = 2**16
"""Numbers drawn at a time: lists of Python integers need 40 bytes each."""

Sampler = Callable[[Noise, float, int], Integers]
"""Kind of noise, its scale in whole numbers, how many; shape (count,)."""


def draw(noise: Noise, scale: float, count: int) -> Integers:
    """Noise of whole numbers, shape (count,); independent but for the cube.

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
    """What OpenDP says of the noise: epsilon (Laplace), or rho of zCDP (Gaussian).

    Args:
        noise: of which kind.
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
