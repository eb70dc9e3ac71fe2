"""Noisy running sums of vectors, such as gradients, in floating point: for training.

As C^-1 y = x + C^-1 z, the errors C^-1 z are made ahead, and a step adds them to its input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.streams.recurrences import recurrence_of
from pmldesign.streams.stream import AHEAD
from pmldesign.streams.sums import Sums
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array


class VectorStream:
    """Running sums of vectors of d values, such as gradients, in floating point.

    The l2 norm of what a person adds to a step is at most 1. A step costs O(K d) for a state of K
    numbers, O(w d) for a strategy whose state is the last w inputs. Noise and state are
    floating-point numbers: not for publication.

    Args:
        strategy: lower triangular, of sensitivity 1, with the participation of a person.
        scale: standard deviation of the noise on each entry of C x.
        width: d.
        seed: of the noise; None for one from the operating system.
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
        self.strategy, self.scale, self.time = strategy, scale * strategy.sensitivity, 0
        self.width = whole("width", width)
        self._sums = Sums(strategy, workload, self.scale, np.zeros(self.width))
        self._recurrence = recurrence_of(strategy)
        self._generator = np.random.default_rng(seed)
        self._state = self._recurrence.start(width)
        self._errors, self._place = np.zeros((0, width)), 0

    def step(self, vector: ArrayLike) -> tuple[Array, float]:
        """The noisy running sum, shape (d,), and the standard deviation of each of its entries.

        Raises:
            InvalidInputError: the stream is over, or the vector has another length.
        """
        x = np.asarray(vector, dtype=np.float64)
        self._require(x, x.shape, 1)
        if self._place == len(self._errors):
            self._draw(1)
        error = self._errors[self._place]
        self._place += 1
        self.time += 1
        answer: tuple[Array, float] = self._sums.take(x + error)
        return answer

    def steps(self, vectors: ArrayLike) -> tuple[Array, Array]:
        """Several steps at once: sums of shape (t, d) for vectors of that shape, deviations (t,).

        Raises:
            InvalidInputError: as `step`; then no step is taken.
        """
        x, first = np.asarray(vectors, dtype=np.float64), self.time
        self._require(x, x.shape[1:], len(x))
        if len(self._errors) - self._place < len(x):
            self._draw(len(x))
        errors = self._errors[self._place : self._place + len(x)]
        self._place += len(x)
        self.time += len(x)
        return self._sums.together(first, x + errors)

    def _require(self, x: Array, shape: tuple[int, ...], count: int) -> None:
        if shape != (self.width,) or not np.isfinite(x).all():
            raise InvalidInputError(
                f"a step takes {self.width} finite numbers, got an array of shape {shape}"
            )
        if self.time + count > self._recurrence.cells:
            raise InvalidInputError(
                f"the stream has {self._recurrence.cells} steps, and all are taken; design a"
                " longer one"
            )

    def _draw(self, count: int) -> None:
        """C^-1 z for so many steps or more: it does not depend on data, and is made ahead."""
        left = self._errors[self._place :]
        begin = self.time + len(left)
        ahead = min(AHEAD // self.width, self._recurrence.cells - begin)
        draws = self._generator.standard_normal((max(count - len(left), ahead), self.width))
        more, self._state = self._recurrence.solve_rows(self.scale * draws, begin, self._state)
        self._errors, self._place = np.concatenate([left, more]), 0
