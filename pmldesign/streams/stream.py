"""The noisy running sums of a stream, a step at a time.

A step encodes y_t = (C x)_t exactly and adds noise on the grid (`encoder`, `noise`). All that
follows depends on y alone: x^_t = (C^-1 y)_t by K numbers of state, and the answer A x^ by one
more. Both cost O(K). The error is that of scale A C^-1 z, with the exact standard deviations of the
strategy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.streams.encoder import Encoder
from pmldesign.streams.noise import GridNoise, grid_noise
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.certificate import variances

BLOCK = 32
"""Steps that are decoded together; fewer go one by one."""
LANES = 512
"""Blocks whose matrices are made at a time: 10 MB."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step releases.

    Attributes:
        value: the running sum with noise.
        standard_deviation: of that noise, which does not depend on the data.
    """

    value: float
    standard_deviation: float


class Stream:
    """Running sums of numbers, one at a time; exact but for the source of the noise.

    The state holds raw data: keep it as secret as these.

    Args:
        strategy: of sensitivity 1.
        scale: standard deviation of the noise on C x that the guarantee asks for at sensitivity 1.
        noise: where it comes from; None for `grid_noise()`.
        participation: how often a person takes part; None for once.

    Raises:
        InvalidInputError: a strategy that no state of fixed precision can hold.
    """

    def __init__(
        self,
        strategy: StreamStrategy,
        scale: float,
        noise: GridNoise | None = None,
        participation: Participation | None = None,
    ) -> None:
        if not 0 < scale < math.inf:
            raise InvalidInputError(f"scale must be positive and finite, got {scale}")
        self.strategy = strategy
        self.encoder = Encoder(strategy, participation)
        self.scale = scale * self.encoder.sensitivity
        self.noise = grid_noise() if noise is None else noise
        self._unit = 2.0**self.encoder.grid_exponent
        sums = strategy.sums
        self._deviations = self.scale * np.sqrt(
            variances(sums, strategy.u, strategy.w, strategy.nodes)
        )
        self._kept = np.concatenate([[0.0], sums.rates])
        self._query, self._step = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
        self._state = [0.0] * strategy.buffers
        self._sum = 0.0

    @property
    def time(self) -> int:
        """How many steps were taken."""
        return self.encoder.time

    @property
    def publishable(self) -> bool:
        """Whether the noise is exact; False for floating-point noise."""
        return self.noise.publishable

    def step(self, value: float | int) -> Answer:
        """Take in x_t and release the running sum.

        Raises:
            InvalidInputError: the stream is over, or the input is no number.
        """
        values, deviations = self.steps([value])
        return Answer(float(values[0]), float(deviations[0]))

    def steps(self, values: Sequence[float | int]) -> tuple[Array, Array]:
        """Several steps at once, several times as fast.

        Returns:
            The noisy running sums and their standard deviations, a number for each input.

        Raises:
            InvalidInputError: more inputs than steps are left, or one that is no number; then no
                step is taken.
        """
        first = self.time
        encoded = self.encoder.encode(values)
        drawn = self.noise.draw(self.scale / self._unit, len(encoded))
        outputs = [(y + e) * self._unit for y, e in zip(encoded, drawn, strict=True)]
        return self._decode(outputs, first), self._deviations[first : self.time]

    def _decode(self, outputs: list[float], first: int) -> Array:
        """Noisy sums from y: floating point, as nothing here depends on data any more."""
        rows = slice(first, first + len(outputs))
        estimates: list[float] = []
        whole = len(outputs) - len(outputs) % BLOCK
        for start in range(0, whole, BLOCK * LANES):
            stop = min(start + BLOCK * LANES, whole)
            estimates += self._solve_blocks(outputs[start:stop], first + start)
        estimates += self._solve(outputs[whole:], first + whole)
        total, sums = self._sum, []
        kept, weights = self._kept[rows].tolist(), self._step[rows].tolist()
        for keep, weight, estimate in zip(kept, weights, estimates, strict=True):
            total = keep * total + weight * estimate
            sums.append(total)
        self._sum = total
        return np.asarray(self._query[rows] * sums)

    def _solve(self, outputs: list[float], first: int) -> list[float]:
        """C^-1 y for the next rows, one after the other."""
        rows, factor, state = slice(first, first + len(outputs)), self.strategy.factor, self._state
        parts = (factor.diagonal, factor.gains, factor.decays)
        columns: list[list[Any]] = [part[rows].tolist() for part in parts]
        last, estimates = 0.0, []
        for y, diagonal, gains, decays in zip(outputs, *columns, strict=True):
            state = [decay * (z + last) for decay, z in zip(decays, state, strict=True)]
            last = (y - sum(map(mul, gains, state))) / diagonal
            estimates.append(last)
        self._state = [z + last for z in state]
        return estimates

    def _solve_blocks(self, outputs: list[float], first: int) -> list[float]:
        """The same for whole blocks of rows, whose triangular parts of C are made side by side."""
        rows, factor = slice(first, first + len(outputs)), self.strategy.factor
        shape = (len(outputs) // BLOCK, BLOCK)
        decays = factor.decays[rows].reshape(*shape, -1)
        gains = factor.gains[rows].reshape(*shape, -1)
        triangles = np.zeros((*shape, BLOCK))
        # of row i: what is left of the state, and of the inputs before it
        left, fading = np.ones_like(decays[:, 0]), np.zeros_like(decays)
        readings = np.empty_like(decays)
        for i in range(BLOCK):
            left = left * decays[:, i]
            readings[:, i] = gains[:, i] * left
            fading[:, :i] *= decays[:, i, None]
            triangles[:, i, :i] = (fading[:, :i] @ gains[:, i, :, None])[..., 0]
            fading[:, i] = 1.0
        places = np.arange(BLOCK)
        triangles[:, places, places] = factor.diagonal[rows].reshape(shape)
        inverses = np.linalg.inv(triangles)
        state, estimates = np.array(self._state), np.empty(shape)
        for block, y in enumerate(np.reshape(outputs, shape)):
            estimates[block] = inverses[block] @ (y - readings[block] @ state)
            state = left[block] * state + estimates[block] @ fading[block]
        self._state = state.tolist()
        flat: list[float] = estimates.ravel().tolist()
        return flat

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as JSON takes it. It holds raw data."""
        return {
            "time": self.time,
            "encoder": [format(z, "x") for z in self.encoder.state],
            "decoder": [z.hex() for z in self._state],
            "sum": self._sum.hex(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, which must not be used twice (`journal`)."""
        self.encoder.resume(int(state["time"]), [int(z, 16) for z in state["encoder"]])
        self._state = [float.fromhex(z) for z in state["decoder"]]
        self._sum = float.fromhex(state["sum"])


class VectorStream:
    """Running sums of vectors of d values, such as gradients, in floating point.

    The l2 norm of what one record adds to a step is at most 1. A step costs O(K d). Noise and state
    are floating-point numbers: not for publication.

    Args:
        strategy: of sensitivity 1.
        scale: standard deviation of the noise on each entry of C x.
        width: d.
        seed: of the noise; None for one from the operating system.
    """

    publishable = False

    def __init__(
        self, strategy: StreamStrategy, scale: float, width: int, *, seed: int | None = None
    ) -> None:
        self.strategy, self.scale, self.time = strategy, scale * strategy.sensitivity, 0
        self._factor, self._sums = strategy.factor, strategy.sums
        self._generator = np.random.default_rng(seed)
        self._state = np.zeros((strategy.buffers, width))
        self._total = np.zeros(width)
        self._variances = variances(strategy.sums, strategy.u, strategy.w, strategy.nodes)

    def step(self, vector: ArrayLike) -> tuple[Array, float]:
        """The noisy running sum, shape (d,), and the standard deviation of each of its entries.

        Raises:
            InvalidInputError: the stream is over, or the vector has another length.
        """
        x, t = np.asarray(vector, dtype=np.float64), self.time
        if x.shape != self._total.shape or not np.isfinite(x).all():
            raise InvalidInputError(
                f"a step takes {self._total.size} finite numbers, got an array of shape {x.shape}"
            )
        if t >= self.strategy.cells:
            raise InvalidInputError(
                f"the stream has {t} steps, and all are taken; design a longer one"
            )
        draw = self.scale * self._generator.standard_normal(x.size)
        self._state *= self._factor.decays[t][:, None]
        error = (draw - self._factor.gains[t] @ self._state) / self._factor.diagonal[t]
        self._state += error
        kept = self._sums.rates[t - 1] if t else 0.0
        self._total = kept * self._total + math.sqrt(self._sums.step_squares[t]) * (x + error)
        self.time += 1
        deviation = self.scale * math.sqrt(self._variances[t])
        return math.sqrt(self._sums.query_squares[t]) * self._total, deviation
