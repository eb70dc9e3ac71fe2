"""Noisy running sums of vectors, such as gradients, in floating point: for training.

As C^-1 y = x + C^-1 z, the errors C^-1 z are made ahead, and a step adds them to its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.streams.owned import Owned
from pmldesign.streams.recurrences import recurrence_of
from pmldesign.streams.stream import AHEAD
from pmldesign.streams.sums import Sums
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array


class VectorStream(Owned):
    """Running sums of vectors of d values, such as gradients, in floating point.

    The l2 norm of what a person adds to a step is at most 1. A step costs O(K d) for a state of K
    numbers, O(w d) for a strategy whose state is the last w inputs. Noise and state are
    floating-point numbers: not for publication. A stream belongs to the process that made it
    (`owned`); `save` and `resume` carry it over to another one.

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
        self.strategy, self.scale, self.time = strategy, scale * strategy.sensitivity, 0
        self.width = whole("width", width)
        self._sums = Sums(strategy, workload, self.scale, np.zeros(self.width))
        self._recurrence = recurrence_of(strategy)
        self._seeded, self._generator = seed is not None, np.random.default_rng(seed)
        self._errors = self._noise = np.zeros((0, width))
        self._place = 0
        self._first = self._last = self._recurrence.start(width)

    def step(self, vector: ArrayLike) -> tuple[Array, float]:
        """The noisy running sum, shape (d,), and the standard deviation of each of its entries.

        Raises:
            InvalidInputError: the stream is over, or the vector has another length.
        """
        x = np.asarray(vector, dtype=np.float64)
        with self._turn:
            errors = self._next_errors(x, x.shape, 1)
            answer: tuple[Array, float] = self._sums.take(x + errors[0])
            return answer

    def steps(self, vectors: ArrayLike) -> tuple[Array, Array]:
        """Several steps at once: sums of shape (t, d) for vectors of that shape, deviations (t,).

        Raises:
            InvalidInputError: as `step`; then no step is taken.
        """
        x = np.asarray(vectors, dtype=np.float64)
        with self._turn:
            first, errors = self.time, self._next_errors(x, x.shape[1:], len(x))
            return self._sums.together(first, x + errors)

    def save(self) -> dict[str, Any]:
        """The state for `resume`, as `numpy.savez` takes it: it has the noise, keep it secret."""
        with self._turn:
            return {
                "identity": self._sums.identity,
                "time": self.time,
                "noise": self._behind(),
                "sum": np.copy(self._sums.total),
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state with new noise; a state must not be used twice.

        Raises:
            InvalidInputError: as `Stream.resume`, or vectors of another length.
        """
        with self._turn:
            time = self._sums.require_resumable(state, self.time, seeded=self._seeded)
            self._turn.begun = True
            self.time, self._last = time, np.array(state["noise"], dtype=np.float64)
            self._sums.go_on(time, np.array(state["sum"], dtype=np.float64))

    def _next_errors(self, x: Array, shape: tuple[int, ...], count: int) -> Array:
        """C^-1 z for the next steps, shape (count, d), after their inputs were checked."""
        if shape != (self.width,) or not np.isfinite(x).all():
            raise InvalidInputError(
                f"a step takes {self.width} finite numbers, got an array of shape {shape}"
            )
        if self.time + count > self._recurrence.cells:
            raise InvalidInputError(
                f"the stream has {self._recurrence.cells} steps, and all are taken; design a"
                " longer one"
            )
        self._turn.begun = True
        if len(self._errors) - self._place < count:
            self._draw(count)
        stop = self._place + count
        errors = self._errors[self._place : stop]
        self._place, self.time = stop, self.time + count
        return errors

    def _draw(self, count: int) -> None:
        """C^-1 z for so many steps or more: it does not depend on data, and is made ahead."""
        self._first, left = self._behind(), self._noise[self._place :]
        ahead = min(AHEAD // self.width, self._recurrence.cells - self.time)
        draws = self._generator.standard_normal((max(count, ahead) - len(left), self.width))
        self._noise, self._place = np.concatenate([left, self.scale * draws]), 0
        self._errors, self._last = self._recurrence.solve_rows(self._noise, self.time, self._first)

    def _behind(self) -> Array:
        """The state of the recurrence behind the last step that was taken."""
        if self._place == len(self._noise):
            return self._last
        begin = self.time - self._place
        return self._recurrence.solve_rows(self._noise[: self._place], begin, self._first)[1]
