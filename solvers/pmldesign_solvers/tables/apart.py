r"""What is measured of each ordered attribute where records are replaced and the total is public.

Two cells that differ in the attributes U have half the squared distance

    sum_S s_S (1 - prod_{i in S and U} l_i),    l_i the least entry of X0_i,

at most (`even_weights`), and all answers the variance sum_S m_S / s_S (`free_vector`). With
X0_i = Y_i^T Y_i, columns of Y_i of norm 1 and (v_i, Psi_i) the inverse of 1^T above Y_i,

    t_k = v^T G_k v,    h_k = tr Psi^T G_k Psi,
    dt = -2 (Psi^T G v) v^T . dY,    dh = -2 (Psi^T G Psi) Psi^T . dY.

L-BFGS moves all Y_i and log s_S together so that variance times largest distance gets less: the
strategy that is best for lengths has a few cells far apart. The largest distance and the least
entries are log-sum-exp, sharper and sharper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pmldesign_solvers.operators.lbfgs import best_point
from pmldesign_solvers.operators.operator import TINY, Array
from pmldesign_solvers.tables.even_weights import LEAST_START, differing, log_sum
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.problem import ClosedForm, Tables, padded

SHARPNESS = (30.0, 100.0, 300.0, 1000.0)
"""Of log-sum-exp in turn; 3000 gains 4e-4."""
STAGE_STEPS = 100
"""Of L-BFGS, for each sharpness; 30 to 70 are taken for tables of four attributes."""


def best(
    problem: Tables, start: dict[int, Measured], *, proceed: Callable[[], bool] = lambda: True
) -> tuple[dict[int, Measured], Array]:
    """Better coordinates of the ordered attributes, and m_S of the sets but the empty one.

    Args:
        problem: the workload, with the weights of its queries.
        start: coordinates to begin with, of every ordered attribute.
        proceed: asked before every step; False ends with the best so far.
    """
    program = _Program(problem, {i: entry.rows.shape for i, entry in start.items()})
    squares = program.squares(start)
    s = np.sqrt(squares)
    logs = np.log(np.maximum(s, LEAST_START * s.max()))
    x = np.concatenate([logs, *(entry.rows.ravel() for entry in start.values())])
    for sharpness in SHARPNESS:

        def value(x: Array, sharpness: float = sharpness) -> tuple[float, Array]:
            return program.log_norm(x, sharpness)

        x = best_point(value, x, steps=STAGE_STEPS, proceed=proceed)
    _, rows = program.split(x)
    measured = {i: _Attribute.of(y).measured for i, y in rows.items()}
    return measured, program.squares(measured)


class _Attribute:
    """An ordered attribute with unit columns Y, and the quantities that depend on them."""

    def __init__(self, rows: Array, lengths: Array) -> None:
        self.rows, self.lengths = rows, lengths
        self.measured = Measured(rows, np.linalg.inv(np.vstack([np.ones(rows.shape[1]), rows])))
        self.v, self.psi = self.measured.inverse[:, 0], self.measured.inverse[:, 1:]

    @classmethod
    def of(cls, rows: Array) -> _Attribute:
        """The attribute with columns of any length."""
        lengths = np.linalg.norm(rows, axis=0)
        return cls(rows / lengths, lengths)

    def least(self, sharpness: float) -> tuple[float, Array]:
        """The least entry of X0, or a little less, and its slopes by the entries."""
        n = len(self.lengths)
        gram = self.rows.T @ self.rows
        entries = np.where(np.tri(n, dtype=bool), np.inf, gram) * -sharpness
        value, shares = log_sum(entries)
        return -value / sharpness, shares + shares.T

    def slope(self, grams: list[tuple[Array, float, float]], by_entries: Array) -> Array:
        """The slope by Y of any length, from those by h_k and t_k and by the entries of X0."""
        total = self.rows @ by_entries
        for gram, by_h, by_t in grams:
            image = self.psi.T @ gram
            total -= 2 * by_t * np.outer(image @ self.v, self.v)
            total -= 2 * by_h * (image @ self.psi) @ self.psi.T
        along = (self.rows * total).sum(axis=0)
        return np.asarray((total - self.rows * along) / self.lengths)


class _Program:
    """The logarithm of the norm under replace, as a function of log s_S and all Y_i."""

    def __init__(self, problem: Tables, shapes: dict[int, tuple[int, ...]]) -> None:
        self._problem, self._shapes = problem, shapes
        self._form = ClosedForm(problem, total=False)
        self._sets = problem.spaces.residuals[1:]
        used = [i for i in problem.factors if problem.sizes[i] > 1]
        place = {i: j for j, i in enumerate(used)}
        self._ordered = [place[i] for i in shapes]
        self._members = padded([[place[i] for i in s] for s in self._sets], len(used))
        apart = differing(len(used))
        self._apart = np.hstack([apart, np.zeros((len(apart), 1), dtype=bool)])[:, self._members]
        self._least = np.array([-1 / (problem.sizes[i] - 1) for i in used] + [1.0])

    def split(self, x: Array) -> tuple[Array, dict[int, Array]]:
        """S of sum 1, and Y_i of any length."""
        logs, start, rows = x[: len(self._sets)], len(self._sets), {}
        for i, shape in self._shapes.items():
            rows[i] = x[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)
        return log_sum(logs)[1], rows

    def squares(self, attributes: dict[int, Measured]) -> Array:
        """m_S."""
        h, t = self._numbers(attributes)
        return self._form(h, t, self._problem.weights).roots[1:] ** 2

    def log_norm(self, x: Array, sharpness: float) -> tuple[float, Array]:
        """Its value and slopes."""
        problem = self._problem
        s, rows = self.split(x)
        attributes = {i: _Attribute.of(y) for i, y in rows.items()}
        h, t = self._numbers({i: entry.measured for i, entry in attributes.items()})
        value = self._form(h, t, problem.weights, np.append(0.0, 1 / s))
        least, by_entries = self._least.copy(), []
        for place, entry in zip(self._ordered, attributes.values(), strict=True):
            least[place], slopes = entry.least(sharpness)
            by_entries.append(slopes)
        length, by_s, by_least = self._log_length(s, least, sharpness)
        by_logs = s * by_s - value.roots[1:] ** 2 / s / value.total
        slope = [by_logs - s * by_logs.sum()]
        for i, place, entries in zip(attributes, self._ordered, by_entries, strict=True):
            grams = [
                (
                    np.asarray(problem.grams[k]),
                    value.by_h[k] / value.total,
                    value.by_t[k] / value.total,
                )
                for k in problem.factors[i]
            ]
            slope.append(attributes[i].slope(grams, by_least[place] * entries).ravel())
        return (math.log(value.total) + length) / 2, np.concatenate(slope) / 2

    def _numbers(self, attributes: dict[int, Measured]) -> tuple[Array, Array]:
        h, t = self._problem.plain_numbers()
        for i, entry in attributes.items():
            for k in self._problem.factors[i]:
                image = np.asarray(self._problem.grams[k]) @ entry.inverse
                diagonal = (entry.inverse * image).sum(axis=0)
                t[k], h[k] = diagonal[0], diagonal[1:].sum()
        return h, t

    def _log_length(self, s: Array, least: Array, sharpness: float) -> tuple[float, Array, Array]:
        """Log of the largest distance, and its slopes by s and by the least entries."""
        entries = np.where(self._apart, least[self._members], 1.0)
        halves = 1 - entries.prod(axis=2)
        sums = np.maximum(halves @ s, TINY)
        logs = sharpness * np.log(sums)
        value, shares = log_sum(logs)
        shares /= sums
        by_least = np.zeros(len(least))
        for column, members in enumerate(self._members.T):
            others = np.delete(entries, column, axis=2).prod(axis=2) * self._apart[:, :, column]
            by_least -= np.bincount(members, (shares @ others) * s, len(least))
        return value / sharpness, shares @ halves, by_least
