"""The strategy that predicts the total of each attribute along a free vector.

For attribute i let X > 0 with diagonal 1, M = X^-1, tau = 1^T M 1, v = M 1 / tau, P = 1 - v 1^T and

    X0 = (X - 1 1^T / tau) / (1 - 1/tau):    diagonal 1, X0 v = 0.

With s_S > 0 of sum 1 over the sets S of attributes, the Gram matrix

    sum_S s_S (x)_{i in S} X0_i (x)_{i off S} 1 1^T

has diagonal 1. The variances of all answers add up to sum_S m_S / s_S, m_S as in `problem` with

    t_k = v^T G_k v,    h_k = (1 - 1/tau) tr(P^T G_k P M),

so that s_S = m_S^(1/2) / F is best and the norm is at most F. For a plain attribute v = 1/n and X0
is n/(n - 1) times the projector on the vectors that sum to zero.

The best X_i are found by a fixed point. dF = -tr(M Gamma M dX) with

    Gamma = sum_k dF/dh_k [(1 - 1/tau) P^T G_k P + tr(P^T G_k P M)/tau^2 1 1^T]
                  + dF/dt_k / tau [G_k - P^T G_k P - t_k 1 1^T],

which is that of the norm of a single Gram matrix Gamma: with the weights w of cells,
N = (W^(1/2) Gamma W^(1/2))^(1/2), X <- W^(-1/2) N W^(-1/2) scaled to diagonal 1, and
w_j <- w_j (N_jj / (w_j tr N))^SPEED, log w by Anderson acceleration (`fixed_point`). Every step is
a strategy; the best one is kept.

Of one ordered attribute X0 = Y^T Y is measured. With X = C C^T, z = C^-1 1 / tau^(1/2) and an
orthonormal Q whose columns are orthogonal to z,

    Y = (1 - 1/tau)^(-1/2) Q^T C^T,    Psi = (1 - 1/tau)^(1/2) C^-T Q,    v = C^-T z / tau^(1/2),

(v, Psi) the inverse of 1^T above Y. Y x for the cells x of each set S, times s_S^(1/2), are
coordinates that do not depend on each other (`Coordinates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.norm.fixed_point import Anderson
from pmldesign_solvers.operators.deadline import NEVER, Deadline
from pmldesign_solvers.operators.merge import FLOOR as LEAST
from pmldesign_solvers.operators.operator import TINY, Array, Operator
from pmldesign_solvers.tables.problem import Attributes, ClosedForm, Tables, Value

SPEED = 1.6
"""Exponent of the steps of w; accelerated, to 1e-9 in 9 to 11 steps where 1 took 9 to 13."""
MEMORY = 10
"""Steps remembered; 5 took the same. Without acceleration it took 23 to 29."""
FLOOR = 1e-13
"""Eigenvalues of N^2 are at least this part of the largest: X stays invertible."""
ROUNDED_GAMMA = 1e-13
"""Part of the sizes of its terms below which Gamma is rounding."""
MAX_STEPS = 100
"""A stop that is not reached: 9 to 13 steps are usual."""
SETTLED = 1e-8
"""Relative gain of a step that ends the iteration."""
LEAST_SHARE = 1e-9
"""Of s_S, as a part of the largest: a set outside the workload is measured a little."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeVector:
    """A strategy that predicts totals along a free vector, and how good it is.

    Attributes:
        value: F, with s_S and the derivatives.
        h, t: of each factor.
        grams: X_i of each ordered attribute.
        cells: w of each ordered attribute, sum 1.
    """

    value: Value
    h: Array
    t: Array
    grams: dict[int, Array]
    cells: dict[int, Array]


Watch = Callable[[FreeVector], bool]
"""Told of every step; whether to go on."""


def _goes_on(_: FreeVector) -> bool:
    return True


def steps(problem: Tables, *, total: bool = True) -> Generator[FreeVector, Tables | None]:
    """Strategies, each better except in the last steps; sent a problem, they go on with it."""
    h, t = problem.plain_numbers()
    x, w = {}, {}
    for i in problem.ordered:
        w[i] = np.full(problem.sizes[i], 1 / problem.sizes[i])
        gram = sum(problem.grams[k] / np.trace(problem.grams[k]) for k in problem.factors[i])
        x[i] = _step(np.asarray(gram), w[i])[0]
    form = ClosedForm(problem, total=total)
    memories = {i: Anderson(MEMORY) for i in x}
    for _ in range(MAX_STEPS):
        free = {i: _Free.of(matrix) for i, matrix in x.items()}
        parts = {i: [_Numbers(problem.grams[k], free[i]) for k in problem.factors[i]] for i in x}
        for i, numbers in parts.items():
            for k, number in zip(problem.factors[i], numbers, strict=True):
                h[k], t[k] = number.h, number.t
        value = form(h, t, problem.weights)
        other = yield FreeVector(value, h.copy(), t.copy(), dict(x), dict(w))
        for i, numbers in parts.items():
            gamma, size = np.zeros_like(x[i]), 0.0
            for k, number in zip(problem.factors[i], numbers, strict=True):
                by_h, by_t = float(value.by_h[k]), float(value.by_t[k])
                gamma += number.slope(by_h, by_t)
                size += (by_h + by_t) * float(np.trace(problem.grams[k]))
            if (
                np.abs(gamma).max() > ROUNDED_GAMMA * size
            ):  # else nothing but the total is asked for
                x[i], goal = _step(gamma, w[i])
                w[i] = _accelerated(memories[i], w[i], goal)
        problem = problem if other is None else other


def best(
    problem: Tables, *, total: bool = True, watch: Watch = _goes_on, deadline: Deadline = NEVER
) -> FreeVector:
    """The best strategy, as far as the fixed point gets; `total` as in `ClosedForm`."""
    steady, last = None, math.inf
    with deadline.catching():
        for number, point in enumerate(deadline.begun(lambda: steps(problem, total=total))):
            if steady is None or point.value.total < steady.value.total:
                steady = point
            settled = number > 3 and abs(last - point.value.total) <= SETTLED * last
            if settled or not watch(point) or deadline.over():
                break
            last = point.value.total
    assert steady is not None
    return steady


def variances(operator: Operator, x: Array, by_h: float, by_t: float) -> Array:
    """For each query of a factor its share in F, per unit of its dual weight."""
    free = _Free.of(x)
    tau, v = free.tau, free.v
    left = free.inverse - tau * np.outer(v, v)  # P M P^T
    quadratic = operator.row_quadratic(left)
    return np.asarray(by_h * (1 - 1 / tau) * quadratic + by_t * operator.matvec(v) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Free:
    """M = X^-1, v and tau."""

    inverse: Array
    v: Array
    tau: float

    @classmethod
    def of(cls, x: Array) -> _Free:
        """The inverse of X, and v and tau made of it."""
        inverse = np.linalg.inv(x)
        inverse = (inverse + inverse.T) / 2
        sums = inverse.sum(axis=1)
        tau = float(sums.sum())
        return cls(inverse, sums / tau, tau)


class _Numbers:
    """h and t of one factor, and their slopes."""

    def __init__(self, gram: Array | float, free: _Free) -> None:
        assert isinstance(gram, np.ndarray)
        self._gram, self._tau = gram, free.tau
        image = gram @ free.v
        self.t = float(free.v @ image)
        self._moved = gram - image[:, None] - image[None, :] + self.t  # P^T G P
        self._rest = max(float(np.vdot(self._moved, free.inverse)), 0.0)
        self.h = (1 - 1 / self._tau) * self._rest

    def slope(self, by_h: float, by_t: float) -> Array:
        """The part of Gamma (see the module) that comes from this factor."""
        tau = self._tau
        first = (1 - 1 / tau) * self._moved + self._rest / tau**2
        return np.asarray(by_h * first + by_t / tau * (self._gram - self._moved - self.t))


def _step(gamma: Array, w: Array) -> tuple[Array, Array]:
    root = np.sqrt(w)
    values, vectors = np.linalg.eigh(root[:, None] * gamma * root)
    roots = np.sqrt(np.maximum(values, FLOOR * values[-1]))
    half = (vectors * roots) @ vectors.T
    diagonal = half.diagonal()
    scale = np.sqrt(diagonal)
    x = half / np.outer(scale, scale)
    np.fill_diagonal(x, 1.0)
    moved = w * (diagonal / (w * roots.sum())) ** SPEED
    return x, np.asarray(moved / moved.sum())


def _accelerated(memory: Anderson, w: Array, goal: Array) -> Array:
    """The next weights, sum 1."""
    x = np.log(w)
    x = memory.propose(x, np.log(np.maximum(goal, TINY)) - x, np.sqrt(goal))
    moved = np.maximum(np.exp(x - x.max()), LEAST)
    return np.asarray(moved / moved.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is measured of one ordered attribute.

    Attributes:
        rows: Y, shape (n - 1, n); no column is longer than 1.
        inverse: (v, Psi), shape (n, n), the inverse of 1^T above Y.
    """

    rows: Array
    inverse: Array

    @classmethod
    def of(cls, x: Array) -> Measured:
        """Y and its inverse from X, by a reflection that takes z to the first axis."""
        n = len(x)
        left = np.asarray(np.linalg.cholesky(x))
        inverse = scipy.linalg.solve_triangular(left, np.eye(n), lower=True)
        z = inverse.sum(axis=1)
        tau = float(z @ z)
        z /= math.sqrt(tau)
        v = np.asarray(inverse.T @ (z / math.sqrt(tau)))
        z[0] += math.copysign(1.0, z[0])
        z /= np.linalg.norm(z)
        rest = math.sqrt(1 - 1 / tau)
        rows = (left - np.outer(left @ (2 * z), z))[:, 1:].T / rest
        psi = (inverse.T - np.outer(inverse.T @ (2 * z), z))[:, 1:] * rest
        length = math.sqrt(float(np.einsum("ij,ij->j", rows, rows).max()))
        return cls(np.asarray(rows / length), np.column_stack([v, psi * length]))


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """A strategy of independent coordinates.

    Attributes:
        attributes: Y of each ordered attribute, and its inverse.
        sets: S.
        precisions: s_S > 0, shape (sets,): the squared length of a column is their sum, 1 at most.
    """

    attributes: dict[int, Measured]
    sets: tuple[Attributes, ...]
    precisions: Array


def coordinates(problem: Tables, point: FreeVector) -> Coordinates:
    """The strategy at a point of the fixed point, with the best s_S where the total counts too."""
    roots = ClosedForm(problem)(point.h, point.t, problem.weights).roots
    shares = np.maximum(roots, LEAST_SHARE * roots.max())
    attributes = {i: Measured.of(x) for i, x in point.grams.items()}
    return Coordinates(attributes, problem.spaces.residuals, shares / shares.sum())
