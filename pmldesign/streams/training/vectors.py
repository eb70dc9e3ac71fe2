"""Noisy running sums of vectors, such as gradients, in floating point: for training.

As C^-1 y = x + C^-1 z, a step adds the next row of C^-1 z (`correlated`) to its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.streams.owned import Owned
from pmldesign.streams.sums import Sums, question_of, require_same
from pmldesign.streams.training.correlated import CorrelatedNoise
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
        self.strategy, self.scale = strategy, scale * strategy.sensitivity
        self._noise = CorrelatedNoise(strategy, self.scale, width, dtype=np.float64, generator=seed)
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
        x = np.asarray(vector, dtype=np.float64)
        with self._turn:
            self._begin(x, x.shape, 1)
            answer: tuple[Array, float] = self._sums.take(x + self._noise.step())
            return answer

    def steps(self, vectors: ArrayLike) -> tuple[Array, Array]:
        """Several steps at once: sums of shape (t, d) for vectors of that shape, deviations (t,).

        Raises:
            InvalidInputError: as `step`; then no step is taken.
        """
        x = np.array(vectors, dtype=np.float64)
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
        """Go on from a saved state with new noise; a state must not be used twice.

        Raises:
            InvalidInputError: as `Stream.resume`, or vectors of another length.
        """
        with self._turn:
            self._noise.require_resumable(state)
            require_same(state, "answers", self._sums.identity)
            self._noise.resume(state)
            self._turn.begun = True
            self._sums.go_on(self.time, np.array(state["sum"], dtype=np.float64))
