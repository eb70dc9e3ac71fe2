"""Rows of a lower triangular strategy C by a state: what a step of a stream does.

    states   C_ij = g_i^T prod_{j < m <= i} diag(lambda(m)) 1 (`streams.factor` in the solvers):
             K numbers z, faded by lambda(i), then (C x)_i = C_ii x_i + g_i^T z, and x_i is added
    window   C with w diagonals below the main one: the last w inputs themselves

Both ways: `encode` goes from x to C x in whole numbers, `solve` from y to C^-1 y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import mul
from typing import Any

import numpy as np
from scipy import linalg

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.strategies.streams import StreamStrategy
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.factor import Factor

COEFFICIENT_BITS = 60
"""C is defined by multiples of 2^-60: two digits of Python's integers, which have 30 bits."""
ROWS = 1024
"""Rows whose coefficients are turned into lists at a time."""

Row = tuple[Any, list[Any], list[Any]]
"""C_ii, what is read from the state, and by what the state fades before: floats, or multiples of
2^-60 as whole numbers."""


class Recurrence(ABC):
    """C, n x n, lower triangular with a positive diagonal.

    Attributes:
        cells: n.
        memory: numbers that a state has, at most.
    """

    cells: int
    memory: int

    def rows(self, first: int, *, whole: bool) -> Iterator[Row]:
        """The rows from number `first` on."""
        for start in range(first, self.cells, ROWS):
            yield from self._some_rows(slice(start, min(start + ROWS, self.cells)), whole)

    @abstractmethod
    def _some_rows(self, rows: slice, whole: bool) -> Iterator[Row]:
        """The rows of a slice."""

    @abstractmethod
    def start(self, width: int) -> Array:
        """The state before the first row for inputs of shape (width,)."""

    @abstractmethod
    def encode(self, row: Row, state: list[int], x: int) -> tuple[int, list[int]]:
        """(C x)_i in multiples of 2^-60 of the unit of x, and the state behind it."""

    @abstractmethod
    def solve(self, row: Row, state: list[float], y: float) -> tuple[float, list[float]]:
        """(C^-1 y)_i, and the state behind it."""

    @abstractmethod
    def solve_rows(self, y: Array, first: int, state: Array) -> tuple[Array, Array]:
        """The same for the next rows at once, y of shape (m, c) and a state of c columns."""

    @abstractmethod
    def moved(self) -> float:
        """By how much multiples of 2^-60 move a column, at most."""

    @abstractmethod
    def drift(self) -> float:
        """Units of the state that (C x)_i is off by at most, whatever the inputs."""


class States(Recurrence):
    """C of K numbers of state.

    Raises:
        InvalidInputError: it grows along the stream, so that no fixed precision holds the state.
    """

    def __init__(self, strategy: StreamStrategy) -> None:
        factor: Factor = strategy.factor
        if factor.decays.max() > 1.0 or factor.gains.min() < 0.0:
            raise InvalidInputError(
                f"strategy {strategy.name!r} grows along the stream, so that no state of fixed "
                "precision can hold it; take rates of at most 1 and weights that vary less"
            )
        self.factor = factor
        self.cells, self.memory = factor.gains.shape

    def _some_rows(self, rows: slice, whole: bool) -> Iterator[Row]:
        parts = (self.factor.diagonal, self.factor.gains, self.factor.decays)
        return zip(*(_listed(part[rows], whole) for part in parts), strict=True)

    def start(self, width: int) -> Array:
        """The state before the first row: K zeros."""
        return np.zeros((self.memory, width))

    def encode(self, row: Row, state: list[int], x: int) -> tuple[int, list[int]]:
        """As `Recurrence.encode`."""
        diagonal, gains, decays = row
        y, after = diagonal * x, []
        for gain, decay, z in zip(gains, decays, state, strict=True):  # the fastest of four forms
            decayed = decay * z >> COEFFICIENT_BITS
            y += gain * decayed
            after.append(decayed + x)
        return y, after

    def solve(self, row: Row, state: list[float], y: float) -> tuple[float, list[float]]:
        """As `Recurrence.solve`."""
        diagonal, gains, decays = row
        state = list(map(mul, decays, state))
        x = (y - sum(map(mul, gains, state))) / diagonal
        return x, [z + x for z in state]

    def solve_rows(self, y: Array, first: int, state: Array) -> tuple[Array, Array]:
        """As `Recurrence.solve_rows`."""
        return self.factor.solve_rows(y, first, state)

    def moved(self) -> float:
        """An entry moves by K (1 + n) 2^-60 at most: gains and decays are at most 1."""
        n = self.cells
        return float(np.sqrt(n)) * self.memory * (1 + n) * 2.0**-COEFFICIENT_BITS

    def drift(self) -> float:
        """Each number of the state is a sum of products of numbers in [0, 1], t roundings."""
        return 1.0 + self.cells * self.memory


class Window(Recurrence):
    """C as a matrix whose entries are 0 more than w steps below the diagonal.

    Raises:
        InvalidInputError: it is not lower triangular with a positive diagonal.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.matrix = strategy.matrix
        rows, self.cells = self.matrix.shape
        self.memory, above = linalg.bandwidth(self.matrix) if rows == self.cells else (0, 1)
        if above or not (self.matrix.diagonal() > 0).all():
            raise InvalidInputError(
                f"strategy {strategy.name!r} is not lower triangular with a positive diagonal, so"
                " that it cannot go on line; use strategy.streaming()"
            )

    def _some_rows(self, rows: slice, whole: bool) -> Iterator[Row]:
        for i in range(rows.start, rows.stop):
            row = _listed(self.matrix[i, max(0, i - self.memory) : i + 1], whole)
            yield row.pop(), row, []

    def start(self, width: int) -> Array:
        """The state before the first row: no inputs yet."""
        return np.zeros((0, width))

    def encode(self, row: Row, state: list[int], x: int) -> tuple[int, list[int]]:
        """As `Recurrence.encode`."""
        diagonal, entries, _ = row
        return sum(map(mul, entries, state), diagonal * x), self._with(state, x)

    def solve(self, row: Row, state: list[float], y: float) -> tuple[float, list[float]]:
        """As `Recurrence.solve`."""
        diagonal, entries, _ = row
        x = (y - sum(map(mul, entries, state))) / diagonal
        return x, self._with(state, x)

    def _with(self, state: list[Any], x: Any) -> list[Any]:
        return [*state, x][-self.memory :] if self.memory else []

    def solve_rows(self, y: Array, first: int, state: Array) -> tuple[Array, Array]:
        """As `Recurrence.solve_rows`."""
        part = slice(first, first + len(y))
        rest = y - self.matrix[part, first - len(state) : first] @ state
        x = linalg.solve_triangular(self.matrix[part, part], rest, lower=True, check_finite=False)
        both = np.concatenate([state, x])
        return x, both[len(both) - min(len(both), self.memory) :]

    def moved(self) -> float:
        """As `Recurrence.moved`: an entry moves by 2^-61 at most."""
        return float(np.sqrt(self.memory + 1.0)) * 2.0 ** -(COEFFICIENT_BITS + 1)

    def drift(self) -> float:
        """One unit: the state is the inputs themselves, which are exact."""
        return 1.0


def recurrence_of(strategy: Strategy) -> Recurrence:
    """How a stream goes through a strategy; raises as `States` and `Window`."""
    whole = with_participation(strategy, None)
    return States(whole) if isinstance(whole, StreamStrategy) else Window(whole)


def _listed(values: Array, whole: bool) -> list[Any]:
    if whole:
        values = np.rint(values * 2.0**COEFFICIENT_BITS).astype(np.int64)
    listed: list[Any] = values.tolist()
    return listed


def lower_triangular(strategy: Strategy) -> Strategy:
    """The strategy of the same Gram matrix that goes on line, scaled to sensitivity 1.

    Raises:
        InvalidInputError: its rank is below n.
    """
    if not isinstance(with_participation(strategy, None), StreamStrategy | EpochStrategy):
        rows, cells = strategy.shape
        if rows != cells or linalg.bandwidth(strategy.matrix)[1]:
            strategy = strategy.streaming()
    return strategy.normalised()
