"""Vectors such as gradients, in floating point: the noise of training, and running sums with it.

The noise is the rows of C^-1 z, a vector of d values each, one step at a time (`CorrelatedNoise`).

With y = C (x + C^-1 z) released, adding row t of C^-1 z to the gradients of step t is the
mechanism: their sums have the errors A C^-1 z (`VectorStream`).

    bands     x_t = (z_t - sum_h C_(t, t - h) x_(t - h)) / C_tt,  h = 1 ... w, from the last w rows
    buffers   x_t = (z_t - sum_k g_k(t) q_k s_k) / C_tt,   s_k <- s_k + x_t / q_k,
              q_k the product of the decays lambda_k so far

so that a step reads its memory once, and of buffers writes it once. The numbers q_k are of double
precision, and powers of two go over to s_k before they become small: decays close to 1 keep all
their digits in noise of single precision, in which x_t is off by its rounding alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pmldesign.arguments import doubles, positive, real_numbers, whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import bands_of, factor_of
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.streams.noise import Owned
from pmldesign.streams.recurrences import States
from pmldesign.streams.sums import (
    Sums,
    fingerprint,
    question_of,
    readable,
    require_resumable,
    require_same,
)
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array

Values = NDArray[np.floating[Any]]
SMALL = 2.0**-32
"""Products of decays below which a power of two goes over to the buffer."""
BLOCK = 2**16
"""Numbers that come from one counter."""
_resumed: set[str] = set()
"""The states that this process went on from."""


class CountedNormal:
    """Standard normal numbers as a function of a key, a step and a block of numbers of the step.

    Philox is a generator in counter mode: (0, 0, block, step) begins a sequence of 2^128 numbers
    of its own. No number depends on how often, or in which order, others were drawn.

    Args:
        seed: of the key, for simulations; None for a key from the operating system.
    """

    def __init__(self, seed: int | None) -> None:
        self._source = np.random.Philox(seed)
        self._generator = np.random.Generator(self._source)
        self._state = self._source.state

    def fill(self, step: int, out: Values) -> None:
        """The numbers of a step, in `out`, shape (d,)."""
        for block, start in enumerate(range(0, out.size, BLOCK)):
            self._state["state"]["counter"][:] = (0, 0, block, step)
            self._source.state = self._state
            part = out[start : start + BLOCK]
            self._generator.standard_normal(dtype=part.dtype, out=part)


class CorrelatedNoise(Owned):
    """Noise for each step of training, correlated so that it cancels in the sums.

    A step costs O(w d) for w + 1 bands, O(K d) for K buffers, and as much memory. The noise is made
    of floating-point numbers: the guarantee is that of the real Gaussian which they stand for. It
    belongs to the process that made it (`noise.Owned`). `save` and `resume` carry it over, with a
    new key: no key makes the noise of two runs.

    Args:
        strategy: C, lower triangular.
        scale: standard deviation of the noise on each entry of C x.
        width: d.
        dtype: of the noise, float32 or float64.
        seed: of the key, for simulations (the same seed is the same noise); None for a key from
            the operating system.

    Attributes:
        time: how many steps were taken.
        memory: how many vectors it keeps.

    Raises:
        InvalidInputError: C is not lower triangular, or an argument out of range.
    """

    def __init__(
        self,
        strategy: Strategy,
        scale: float,
        width: int,
        *,
        dtype: DTypeLike = np.float32,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.scale, self.width, self.time = positive("scale", scale), whole("width", width), 0
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise InvalidInputError(f"dtype must be float32 or float64, got {self.dtype}")
        self._strategy = without_participation(strategy)
        self.cells = self._strategy.cells
        self._rows = _rows_of(self._strategy, self.width, self.dtype)
        self.memory = len(self._rows.kept)
        self._seeded = seed is not None
        self._normal = CountedNormal(None if seed is None else whole("seed", seed, 0))

    def step(self, out: Values | None = None) -> Values:
        """The noise of the next step, shape (d,); in `out` if that is given.

        Raises:
            InvalidInputError: all steps are taken, or an array of another shape or dtype.
        """
        with self._turn:
            self.require_left(1)
            if out is None:
                out = np.empty(self.width, self.dtype)
            elif out.shape != (self.width,) or out.dtype != self.dtype:
                raise InvalidInputError(
                    f"out must be of {self.width} values of {self.dtype}, got an array of"
                    f" shape {out.shape} of {out.dtype}"
                )
            self._turn.begun = True
            row = self._rows.next(self.time, self._normal)
            np.multiply(row, self.scale, out=out)
            self.time += 1
            return out

    def require_left(self, count: int) -> None:
        """Refuse more steps than there are.

        Raises:
            InvalidInputError: they are.
        """
        if self.time + count > self.cells:
            raise InvalidInputError(
                f"the stream has {self.cells} steps, and all are taken; design a longer one"
                if self.time == self.cells
                else f"{self.cells - self.time} steps are left, got {count}"
            )

    def arrays(self) -> dict[str, Array]:
        """C, and the scale of z, for use elsewhere: a row for each step.

        Returns:
            `scale`, and either `bands`, C_(t, t - h) in column h, 0 before the first step; or
            `diagonal`, `gains` and `decays`, C_tt, g_t and lambda(t).
        """
        return {"scale": np.array(self.scale), **self._rows.arrays()}

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as `numpy.savez` takes it: it has the noise, keep it secret."""
        with self._turn:
            return {
                "identity": self._identity,
                "time": self.time,
                "token": secrets.token_hex(16),
                "kept": self._rows.state(),
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state with new noise; a state must not be used twice.

        Raises:
            InvalidInputError: steps were taken, the noise has a seed, or the state is of another
                strategy, width, dtype or guarantee, or this process went on from it before.
        """
        with readable(), self._turn:
            self.time = self.require_resumable(state)
            _resumed.add(str(state["token"]))
            self._rows.kept[:] = state["kept"]

    def require_resumable(self, state: Mapping[str, Any]) -> int:
        """The step of a saved state.

        Raises:
            InvalidInputError: as `resume`.
        """
        time = require_resumable(state, self._identity, self.time, seeded=self._seeded)
        kept, own = np.asarray(state["kept"]), self._rows.kept
        if (kept.dtype, kept.shape) != (own.dtype, own.shape):
            raise InvalidInputError(
                f"the state belongs to noise of another dtype than {self.dtype}, or is damaged"
            )
        if str(state["token"]) in _resumed:
            raise InvalidInputError(
                "this process went on from this state before; a state is used once: what two runs"
                " add to the same steps counts twice"
            )
        return time

    @property
    def _identity(self) -> list[float]:
        measured = self._strategy.measure(1.0 / np.arange(1.0, self.cells + 1.0))
        return fingerprint([self.cells, self.width, self.scale], measured)


class _Bands:
    """C of w + 1 bands, which keeps the last w rows; row t is in place t mod w."""

    def __init__(self, bands: Array, width: int, dtype: np.dtype[Any]) -> None:
        self._bands = bands
        self.kept: Values = np.zeros((max(1, bands.shape[1] - 1), width), dtype)
        self._past = np.empty(width, dtype)

    def next(self, time: int, normal: CountedNormal) -> Values:
        row, count = self._bands[time], len(self.kept)
        behind = np.zeros(count, self.kept.dtype)
        behind[(time - 1 - np.arange(row.size - 1)) % count] = row[1:]
        np.dot(behind, self.kept, out=self._past)
        newest: Values = self.kept[time % count]
        normal.fill(time, newest)
        newest -= self._past
        newest /= float(row[0])
        return newest

    def state(self) -> Values:
        return np.array(self.kept)

    def arrays(self) -> dict[str, Array]:
        steps, count = self._bands.shape
        inside = np.arange(steps)[:, None] >= np.arange(count)
        return {"bands": np.where(inside, self._bands, 0.0)}


class _Buffers:
    """C of K numbers of state."""

    def __init__(self, states: States, width: int, dtype: np.dtype[Any]) -> None:
        self._factor = states.factor
        self.kept: Values = np.zeros((states.memory, width), dtype)
        self._row: Values = np.empty(width, dtype)
        self._past = np.empty(width, dtype)
        self._scales = np.ones(states.memory)
        self._add = scipy.linalg.get_blas_funcs("ger", dtype=dtype)

    def next(self, time: int, normal: CountedNormal) -> Values:
        factor, dtype = self._factor, self.kept.dtype
        row = self._row
        self._fade(factor.decays[time] if time else np.ones(len(self.kept)))
        np.dot((factor.gains[time] * self._scales).astype(dtype), self.kept, out=self._past)
        normal.fill(time, row)
        row -= self._past
        row /= float(factor.diagonal[time])
        self._add(1.0, row, 1.0 / self._scales, a=self.kept.T, overwrite_a=True)
        return row

    def _fade(self, decays: Array) -> None:
        self._scales *= decays
        for buffer in np.flatnonzero(self._scales < SMALL):
            part, power = np.frexp(self._scales[buffer])
            self._scales[buffer] = part
            np.ldexp(self.kept[buffer], power, out=self.kept[buffer])

    def state(self) -> Values:
        kept: Values = self.kept * self._scales[:, None].astype(self.kept.dtype)
        return kept

    def arrays(self) -> dict[str, Array]:
        factor = self._factor
        return {"diagonal": factor.diagonal, "gains": factor.gains, "decays": factor.decays}


def _rows_of(strategy: Strategy, width: int, dtype: np.dtype[Any]) -> _Bands | _Buffers:
    factor = factor_of(strategy)
    if factor is not None:
        return _Buffers(States(strategy.name, factor), width, dtype)
    return _Bands(bands_of(strategy), width, dtype)


class VectorStream(Owned):
    """Running sums of vectors of d values, such as gradients, in floating point.

    The contribution of a person to a step has l2 norm at most 1. A step costs O(K d) for a state of
    K numbers, O(w d) for a strategy whose state is the last w inputs. Noise and state are
    floating-point numbers: not for publication. A stream belongs to the process that made it
    (`noise.Owned`); `save` and `resume` carry it over to another one.

    Args:
        strategy: lower triangular, of sensitivity 1, with the participation of a person.
        scale: standard deviation of the noise on each entry of C x.
        width: d.
        seed: of the noise, for simulations: the same seed is the same noise; None for one from the
            operating system.
        workload: running sums; None for those that the strategy is made for.

    Raises:
        InvalidInputError: as `Stream`.
    """

    publishable = False

    def __init__(
        self,
        strategy: Strategy,
        scale: float,
        width: int,
        *,
        seed: int | None = None,
        workload: Workload | None = None,
    ) -> None:
        super().__init__()
        self.strategy, self.scale = strategy, scale * strategy.sensitivity
        self._noise = CorrelatedNoise(strategy, self.scale, width, dtype=np.float64, seed=seed)
        self.width = self._noise.width
        self._sums = Sums(question_of(strategy, workload), self.scale, np.zeros(self.width))

    @property
    def time(self) -> int:
        """How many steps were taken."""
        return self._noise.time

    def step(self, vector: ArrayLike) -> tuple[Array, float]:
        """The noisy running sum, shape (d,), and the standard deviation of each of its entries.

        Raises:
            InvalidInputError: the stream is over, or the vector has another length.
        """
        x = np.asarray(real_numbers("vector", vector), dtype=np.float64)
        with self._turn:
            self._begin(x, x.shape, 1)
            answer: tuple[Array, float] = self._sums.take(x + self._noise.step())
            return answer

    def steps(self, vectors: ArrayLike) -> tuple[Array, Array]:
        """Several steps at once: sums of shape (t, d) for vectors of that shape, deviations (t,).

        Raises:
            InvalidInputError: as `step`; then no step is taken.
        """
        x = doubles(real_numbers("vectors", vectors))
        with self._turn:
            self._begin(x, x.shape[1:], len(x))
            first = self.time
            for row in x:
                row += self._noise.step()
            return self._sums.together(first, x)

    def _begin(self, x: Array, shape: tuple[int, ...], count: int) -> None:
        """Check the inputs of the next steps."""
        if shape != (self.width,) or not np.isfinite(x).all():
            raise InvalidInputError(
                f"a step takes {self.width} finite numbers, got an array of shape {shape}"
            )
        self._noise.require_left(count)
        self._turn.begun = True

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as `numpy.savez` takes it: it has the noise, keep it secret."""
        with self._turn:
            total = np.copy(self._sums.total)
            return {**self._noise.save(), "answers": self._sums.identity, "sum": total}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state with new noise; a state must not be used twice.

        Raises:
            InvalidInputError: as `Stream.resume`, or vectors of another length.
        """
        with readable(), self._turn:
            self._noise.require_resumable(state)
            require_same(state, "answers", self._sums.identity)
            self._noise.resume(state)
            self._turn.begun = True
            self._sums.go_on(self.time, np.array(state["sum"], dtype=np.float64))
