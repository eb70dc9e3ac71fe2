"""Lower triangular Toeplitz strategies for long running sums, which need no matrix.

R_ij = r_(i - j) for i >= j, A the sums that keep the part rate of each step, and L = A R^-1, which
is lower triangular and Toeplitz too, with coefficients l. Then, over n steps,

    l2 sensitivity^2  sum_k r_k^2,     l1 sensitivity  sum_k |r_k|,
    variances         v_t = sum_{k <= t} l_k^2,

    identity      r = 1, 0, 0 ...,              l_k = rate^k,
    workload      r_k = rate^k,                 l = 1, 0, 0 ...,
    square root   r_k = l_k = f(k) rate^k,      f(k) = (1 - 1/(2k)) f(k - 1), f(0) = 1.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.online import bands_of, is_triangular
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.scaled_toeplitz import convolved, discounted, reciprocal, root
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import zolotarev


class ToeplitzStrategy(StructuredStrategy):
    """A Toeplitz strategy R of n steps that answers the running sums of one rate.

    Args:
        name: how tables and messages call it.
        coefficients: r, shape (n,), non-negative, the first one positive.
        answers: l, shape (n,), of the reconstruction of those sums.
        rate: the factor that they keep of each step.

    Raises:
        InvalidInputError: other coefficients.
    """

    regular: ClassVar[bool] = True
    non_negative: ClassVar[bool] = True

    def __init__(self, name: str, coefficients: Array, answers: Array, rate: float) -> None:
        self.name, self.rate = name, rate
        self.coefficients, self.answers = read_only(coefficients), read_only(answers)
        self.shape = coefficients.size, coefficients.size
        fits = coefficients.ndim == 1 and coefficients.size and np.isfinite(coefficients).all()
        if not fits or coefficients[0] <= 0 or coefficients.min() < 0:
            raise InvalidInputError(
                f"strategy {name!r}: coefficients must be finite and at least 0, the first positive"
            )

    @property
    def sums(self) -> RunningSums:
        """The running sums that it answers."""
        ones = np.ones(self.cells)
        return RunningSums(np.full(self.cells - 1, self.rate), ones, ones)

    @cached_property
    def matrix(self) -> Array:
        """R, if it is not too large to be materialized."""
        remedy = "take fewer steps, or for a stream design it with a number of buffers"
        check_entries(f"strategy {self.name!r}", self.shape, remedy=remedy)
        return read_only(np.tril(scipy.linalg.toeplitz(self.coefficients)))

    def measure(self, x: Array) -> Array:
        """R x, shape (n,) or (n, c), for a histogram x of shape (n,) or several, (n, c)."""
        coefficients = self.coefficients.reshape(-1, *[1] * (x.ndim - 1))
        return convolved(x, coefficients)[: self.cells]

    def _longest(self, norm: Norm) -> float:
        if norm == "l1":
            return raised(math.fsum(self.coefficients), 1)
        return raised(math.sqrt(math.fsum(self.coefficients**2)), 3)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        squares = squared_weights(workload, self.rate)
        if squares is None or workload.shape[1] != self.cells:
            return super().variances(workload)
        return np.asarray(squares * np.cumsum(self.answers**2))

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        return read_only(np.tril(scipy.linalg.toeplitz(reciprocal(self.coefficients)))), self.cells

    def scaled(self, factor: float) -> ToeplitzStrategy:
        """R times a positive number."""
        scaled = self.coefficients * factor, self.answers / factor
        return ToeplitzStrategy(self.name, *scaled, self.rate)


def toeplitz_rate(workload: Workload) -> float | None:
    """The factor that running sums keep of each step, if all keep the same; else None."""
    problem = workload.running_sums
    if problem is None or problem.cells < 2:
        return None
    weights = (problem.rates, problem.query_squares, problem.step_squares)
    if any((values != values[0]).any() for values in weights):
        return None
    plain = problem.query_squares[0] == problem.step_squares[0] == 1.0
    return float(problem.rates[0]) if plain else None


def squared_weights(workload: Workload, rate: float) -> Array | None:
    """Squares of the weights of running sums of one rate, shape (m,); None for other queries."""
    problem = workload.running_sums
    if problem is None or (problem.rates != rate).any() or (problem.step_squares != 1.0).any():
        return None
    return problem.query_squares


def toeplitz_baseline(name: str, n: int, rate: float) -> ToeplitzStrategy | None:
    """Identity, workload or square-root for n running sums; None for other names."""
    powers, unit, root = rate ** np.arange(n), np.eye(1, n)[0], _root(n, rate)
    pairs = {"identity": (unit, powers), "workload": (powers, unit), "square-root": (root, root)}
    return ToeplitzStrategy(name, *pairs[name], rate) if name in pairs else None


def banded_root(workload: Workload, bands: int) -> ToeplitzStrategy:
    """The first coefficients of the square root: a stream with so many numbers of state.

    Args:
        workload: running sums of one rate.
        bands: how many coefficients, at least 1.

    Raises:
        InvalidInputError: other queries.
    """
    name, rate, n = f"banded:{bands}", _require_rate(workload), workload.shape[1]
    return from_coefficients(name, np.where(np.arange(n) < bands, _root(n, rate), 0.0), rate)


def poles_root(workload: Workload, buffers: int) -> ToeplitzStrategy:
    """A sum of exponentials close to the square root, as buffered linear Toeplitz mechanisms have.

    With x = 1 - rate z, the root x^(-1/2) of the generating function is replaced by the rational
    function sum_k c_k / (x + s_k^2) of Zolotarev on [1/n, 2]: coefficients
    sum_k a_k (rate a_k / c_k)^j, a_k = c_k / (1 + s_k^2).

    Args:
        workload: running sums of one rate.
        buffers: how many exponentials, at least 2.

    Raises:
        InvalidInputError: other queries.
    """
    rate, n = _require_rate(workload), workload.shape[1]
    nodes = zolotarev(1.0 / n, 2.0, buffers)
    shrink = 1.0 + nodes.poles**2
    steps = np.arange(n)
    coefficients = sum(
        weight / factor * (rate / factor) ** steps
        for weight, factor in zip(nodes.weights, shrink, strict=True)
    )
    return from_coefficients(f"blt:{buffers}", np.asarray(coefficients), rate)


def from_coefficients(name: str, coefficients: Array, rate: float) -> ToeplitzStrategy:
    """The strategy, with the answers l: the running sums of the coefficients of the inverse.

    Args:
        name: of the strategy.
        coefficients: r.
        rate: the factor that the sums keep of each step.
    """
    inverse = reciprocal(coefficients)
    return ToeplitzStrategy(name, coefficients, discounted(inverse, rate), rate)


def _require_rate(workload: Workload) -> float:
    rate = toeplitz_rate(workload)
    if rate is None:
        raise InvalidInputError(
            f"banded and blt strategies are for running sums without weights, such as prefix:64;"
            f" {workload.name!r} is none: leave them out"
        )
    return rate


def _root(n: int, rate: float) -> Array:
    """f(k) rate^k."""
    return np.asarray(root(n) * rate ** np.arange(n))


@bands_of.register
def _(strategy: ToeplitzStrategy) -> Array:
    """R_(t, t - h), the same in each row."""
    last = int(np.flatnonzero(strategy.coefficients)[-1])
    return np.broadcast_to(strategy.coefficients[: last + 1], (strategy.cells, last + 1))


@is_triangular.register
def _(strategy: ToeplitzStrategy) -> bool:  # noqa: ARG001
    """All of them are."""
    return True
