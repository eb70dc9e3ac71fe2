"""The memory of a stream: how it goes through a lower triangular strategy C.

    states   C_ij = g_i^T prod_{j < m <= i} diag(lambda(m)) 1 (`streams.factor` in the solvers):
             K numbers, in blocks of rows
    window   C with w diagonals below the main one: the last w inputs themselves
    neither  exponentials of an unbounded stream (`endless_steps`): 16 numbers

`rows` goes from x to C x in integers, and from y to C^-1 y in floating point.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.online import bands_of, factor_of, is_triangular, streaming_form
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.streams.rows import (
    COEFFICIENT_BITS,
    KEPT_BITS,
    READ_BITS,
    STATE_BITS,
    StatesDecoder,
    WholeStates,
    WholeWindow,
    WindowDecoder,
)
from pmldesign_solvers.streams.factor import SIZE, BlockRows, Factor


class Recurrence(Protocol):
    """How a stream goes through C.

    Attributes:
        cells: how many steps a stream may take.
        memory: numbers that a state has, at most.
    """

    cells: int
    memory: int

    def encoder(self) -> Any:
        """From x to C x in integers, from the first row on."""

    def decoder(self) -> Any:
        """From y to C^-1 y in floating point, from the first row on."""

    def drift(self) -> float:
        """How far (C x)_i is off at most before it is rounded to the grid, whatever the inputs."""


class States:
    """C of K numbers of state, n x n, lower triangular with a positive diagonal.

    Attributes:
        cells: n.
        memory: numbers that a state has, at most.

    Raises:
        InvalidInputError: it grows along the stream, so that no fixed precision holds the state.
    """

    def __init__(self, name: str, factor: Factor) -> None:
        if factor.decays.max() > 1.0 or factor.gains.min() < 0.0:
            raise InvalidInputError(
                f"strategy {name!r} grows along the stream, so that no state of fixed "
                "precision can hold it; take rates of at most 1 and weights that vary less"
            )
        self.factor = factor
        self.cells: int = len(factor.gains)
        self.memory: int = factor.gains.shape[1]
        self._rows = BlockRows(factor.diagonal, factor.gains, factor.decays)

    def encoder(self) -> WholeStates:
        """From x to C x, from the first row on."""
        return WholeStates(self._rows)

    def decoder(self) -> StatesDecoder:
        """From y to C^-1 y, from the first row on."""
        return StatesDecoder(self._rows)

    @property
    def _blocks(self) -> int:
        return -(-self.cells // SIZE)

    def moved(self) -> float:
        """By how much the integers that define C move a column, at most.

        Entries are sums of K products of numbers of at most 1: R, F, and kept for each block.
        """
        products = 2.0**-COEFFICIENT_BITS + self._blocks * 2.0 ** -(KEPT_BITS + 1)
        entry = 2.0 ** -(COEFFICIENT_BITS + 1) + self.memory * products
        return float(np.sqrt(self.cells)) * entry * (1.0 + 1e-9)

    def drift(self) -> float:
        """How far (C x)_i is off at most before it is rounded to the grid, whatever the inputs.

        K numbers of z are rounded down once a block, and on every read.
        """
        return self.memory * (2.0**-READ_BITS + self._blocks * 2.0**-STATE_BITS)


class Window:
    """C as a matrix whose entries are 0 more than w steps below the diagonal.

    Raises:
        InvalidInputError: it is not lower triangular with a positive diagonal.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.matrix, self.cells = strategy.matrix, strategy.cells
        self.memory = bands_of(strategy).shape[1] - 1

    def encoder(self) -> WholeWindow:
        """As `States.encoder`."""
        return WholeWindow(self.matrix, self.memory)

    def decoder(self) -> WindowDecoder:
        """As `States.decoder`."""
        return WindowDecoder(self.matrix, self.memory)

    def moved(self) -> float:
        """As `States.moved`: an entry moves by 2^-53 at most."""
        return float(np.sqrt(self.memory + 1.0)) * 2.0 ** -(COEFFICIENT_BITS + 1) * (1.0 + 1e-9)

    def drift(self) -> float:
        """Nothing: the state is the inputs themselves."""
        return 0.0


def recurrence_of(strategy: Strategy) -> States | Window:
    """How a stream goes through a strategy; raises as `States` and `Window`."""
    whole = without_participation(strategy)
    factor = factor_of(whole)
    return Window(whole) if factor is None else States(whole.name, factor)


def lower_triangular(strategy: Strategy) -> Strategy:
    """The online strategy with the same Gram matrix, scaled to sensitivity 1.

    Raises:
        InvalidInputError: its rank is below n.
    """
    if not is_triangular(without_participation(strategy)):
        rows, cells = strategy.shape
        if rows != cells or scipy.linalg.bandwidth(strategy.matrix)[1]:
            strategy = streaming_form(strategy)
    return strategy.normalised()
