"""Noise for a stream: whole numbers of grid units, from one small interface.

`FloatingGaussian` rounds floating-point numbers: for simulations and tests, not for publication,
for what its lowest bits tell about the true value has not been bounded. `DiscreteGaussian` is
OpenDP's exact sampler of the discrete Gaussian distribution, where that package is installed. For a
standard deviation of sigma grid units it draws with (sigma^2 + 4)^(1/2): at least as private as the
Gaussian mechanism of sigma on the real numbers.
"""

from __future__ import annotations

import importlib.util
import math
from typing import Any, Protocol

import numpy as np

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.streams.owned import Owned

LARGEST_SCALE = 2.0**56
"""OpenDP cuts off what leaves 64 bits, 128 standard deviations from here."""


class GridNoise(Protocol):
    """A source of noise that draws whole numbers: multiples of a unit.

    Attributes:
        publishable: whether the distribution is exact.
    """

    publishable: bool

    def draw(self, scale: float, count: int) -> list[int]:
        """Independent numbers close to N(0, scale^2); scale is in grid units."""


class FloatingGaussian(Owned):
    """Rounded floating-point numbers: not for publication.

    Args:
        seed: of numpy's default generator, for simulations: the same seed is the same noise; None
            for one from the operating system.

    Attributes:
        seeded: whether there was a seed.
    """

    publishable = False

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()
        self.seeded = seed is not None
        self._generator = np.random.default_rng(seed)

    def draw(self, scale: float, count: int) -> list[int]:
        """Independent numbers close to N(0, scale^2)."""
        with self._turn:
            values = np.rint(scale * self._generator.standard_normal(count))
        return [int(value) for value in values.tolist()]


class DiscreteGaussian:
    """OpenDP's exact discrete Gaussian distribution.

    Raises:
        InvalidInputError: the package opendp is not installed.
    """

    publishable = True

    def __init__(self) -> None:
        require_extra("exact noise", "opendp", "release")
        import opendp.prelude as dp

        dp.enable_features("contrib")
        self._dp = dp
        self._latest: tuple[float, Any] = math.nan, None

    def draw(self, scale: float, count: int) -> list[int]:
        """Independent numbers of the discrete Gaussian distribution of scale^2 + 4."""
        if not scale <= LARGEST_SCALE:
            raise InvalidInputError(
                f"the noise has a scale of {scale:g} steps of the grid; it may be 2^56, as what "
                "leaves 64-bit numbers is cut off: take a larger epsilon"
            )
        known, measurement = self._latest  # one pair: threads may draw with other scales
        if scale != known:
            numbers = self._dp.vector_domain(self._dp.atom_domain(T=self._dp.i64))
            space = numbers, self._dp.l2_distance(T=float)
            wide = math.nextafter(math.hypot(scale, 2.0), math.inf)
            measurement = self._dp.m.make_gaussian(*space, scale=wide)
            self._latest = scale, measurement
        drawn: list[int] = measurement([0] * count)
        return drawn


def grid_noise() -> GridNoise:
    """The exact sampler where OpenDP is installed, else floating-point noise."""
    return DiscreteGaussian() if importlib.util.find_spec("opendp") else FloatingGaussian()
