"""How a stream goes through the rows of C, block by block (`streams.blocks` in the solvers)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from pmldesign_solvers.streams.blocks import SIZE, BlockRows

Number = TypeVar("Number", int, float)


class StatesRows(ABC, Generic[Number]):
    """C of K numbers of state, in blocks of rows."""

    def __init__(self, rows: BlockRows) -> None:
        self._rows = rows
        self.resume(0, [0] * rows.memory)

    def resume(self, time: int, state: list[Number]) -> None:
        """Go on from a saved state; ValueError if it is none for this step."""
        count, inside = self._rows.memory, time % SIZE
        require_numbers(state, count + inside)
        self._z: Any = state[:count]
        self._inputs: list[Number] = state[count:]
        self._go_on(time // SIZE)
        if inside:
            self._begin()

    @property
    def state(self) -> list[Number]:
        """Z before the block, and the inputs since."""
        return [*self._z, *self._inputs]

    def _go_on(self, block: int) -> None:
        """With the block of this number."""
        self._block, self._lists = block, self._listed(block)

    @abstractmethod
    def _begin(self) -> None:
        """What the rows of the next block need."""

    @abstractmethod
    def _listed(self, block: int) -> Iterator[Any]:
        """T, R, kept and F from a block on."""


def require_numbers(state: list[Any], count: int) -> None:
    """Refuse a saved state of more or fewer."""
    if len(state) != count:
        raise ValueError(f"{count} numbers are needed, got {len(state)}")
