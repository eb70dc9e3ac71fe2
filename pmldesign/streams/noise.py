"""Noise for a stream: integers in grid units, from one small interface.

`FloatingGaussian` rounds floating-point numbers: for simulations and tests, not for publication, as
the information in its lowest bits about the true value has not been bounded. `DiscreteGaussian` is
OpenDP's exact sampler of the discrete Gaussian distribution, if that package is installed. For a
standard deviation of sigma grid units it draws with (sigma^2 + 4)^(1/2): at least as private as the
Gaussian mechanism of sigma on the real numbers.

A source of noise belongs to one process and is never copied (`Owned`); it takes one step at a time.
Noise that is drawn ahead, and the state of a generator, exist twice after a fork and in a copy. The
difference of two answers with the same noise is the exact difference of the data. So an object
stores the process that made it, refuses to work in another one, and refuses to be copied or
pickled. Threads wait for each other. A step that broke off (Ctrl-C, no memory) may have counted its
input: the object then takes no further step.
"""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from types import TracebackType
from typing import Any, NoReturn, Protocol

import numpy as np

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError, require_extra

LARGEST_SCALE = 2.0**56
"""OpenDP cuts off what leaves 64 bits, 128 standard deviations from here."""


_forks = [0]
"""How many forks this process is away from the first one: numbers of processes come again."""


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Turn:
    """The context in which a step is taken: `with turn`.

    Args:
        name: of the object that takes the steps.

    Attributes:
        begun: set by a step before its first change; a step that fails later, but with
            InvalidInputError, is the last one.
    """

    def __init__(self, name: str) -> None:
        self._name, self.begun = name, False
        self._process = os.getpid(), _forks[0]
        self._lock = threading.RLock()

    @property
    def own(self) -> bool:
        """Whether this is the process that it was made in."""
        return self._process == (os.getpid(), _forks[0])

    def __enter__(self) -> None:
        if not self.own:
            raise InvalidInputError(
                f"a {self._name} was made in another process, which would answer with the same "
                "noise after a fork; make one in the process that takes the steps"
            )
        self._lock.acquire()
        if self.begun:
            self._lock.release()
            raise InvalidInputError(
                f"a step of this {self._name} broke off, and its input may count already; no "
                "further one is taken: go on from a saved state, or begin again"
            )

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, InvalidInputError):
            self.begun = False
        self._lock.release()


class Owned:
    """Base of objects that draw noise, with their `Turn`."""

    def __init__(self) -> None:
        self._turn = Turn(type(self).__name__)

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise InvalidInputError(
            f"a {name} cannot be copied or pickled: both would answer with the same noise; make "
            "one in the process that takes the steps"
        )


class GridNoise(Protocol):
    """A source of noise that draws integers: multiples of a unit.

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
        self._generator = np.random.default_rng(None if seed is None else whole("seed", seed, 0))

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
    """The exact sampler if OpenDP is installed, else floating-point noise."""
    return DiscreteGaussian() if importlib.util.find_spec("opendp") else FloatingGaussian()
