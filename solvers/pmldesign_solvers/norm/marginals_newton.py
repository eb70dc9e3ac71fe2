"""Newton's method on the dual weights of a collection of marginals.

In the letters of `marginals`, with a = B u, B_TS = c_S^2 / m_S for T a subset of S, the dual
function is f(u) = sum_T d_T a_T^(1/2), and the strategy theta_T = a_T^(1/2) / f has sensitivity 1
and the variances v_S = f (B^T d a^(-1/2))_S / m_S. The maximum of k f(u) - sum_S m_S u_S^q / q over
u > 0, for any k > 0, has the direction of the best u. There

    k v_S / (2 f) = t_S,   t = u^(q - 1),   u = t^e,   e = (p - 2)/2.

k is chosen at every step so that these equations hold on average, weighted by m_S u_S. Newton moves
t: its system for the relative change x of u is

    (H + diag(m u t / e)) x = m u (k v / (2 f) - t),
    H = k/4 diag(u) B^T diag(d a^(-3/2)) B diag(u),

solved by conjugate gradients with its diagonal as the preconditioner, and u changes by the factors
(1 + x/e)^e. A factor beyond exp(+-CHANGE) is cut off, and a step that lowers f / norm(u)_q^(1/2) is
shortened.

At p = inf the equations only say v_S <= f^2, with equality where u_S > 0. A large finite exponent
has them as its limit, and its norms of N numbers differ from those at inf by factors of N^(2/p) at
most: it is taken so large that this does not count. At p = 2 the weights are known, u = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.norm.solution import Bounds
from pmldesign_solvers.operators.operator import Array, dual_norm, power_mean
from pmldesign_solvers.structure.subsets import ResidualSpaces

LARGEST_EXPONENT = 1e12
"""Rounding moves log u by e times the machine precision, which is then 1e-4."""
CHANGE = 5.0
"""Largest change of log u in a step: 193 steps; 199 and 203 with 1 and 20
(benchmarks/constants.py)."""
FLOOR = 1e-60
"""Smallest u, relative to the largest: a part of the dual function that no bound shows."""
NOISE = 1e-13
"""Relative loss of the merit that may be rounding: some hundred eps."""
STEP_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Lengths that are tried. Chosen: 193 steps, as with the full one alone
(benchmarks/constants.py)."""
TOLERANCE = 1e-3
"""Of conjugate gradients, relative: an inexact step costs steps, never correctness. 193 steps, as
with 1e-5 (benchmarks/constants.py)."""
MOST_PRODUCTS = 500
"""Of conjugate gradients in a step. Chosen, not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginalsPoint(Bounds):
    """Both bounds at one u, with their origin.

    Attributes:
        u: shape (K,), largest entry 1.
        value: f(u).
        merit: the lower bound for the finite exponent, which Newton's method raises.
        eigenvalues: a, shape (R,).
        variances: v, shape (K,), of the strategy theta = a^(1/2) / f.
    """

    u: Array
    value: float
    merit: float
    eigenvalues: Array
    variances: Array


class Newton:
    """Newton's method on one collection of marginals.

    Args:
        spaces: its residual spaces.
        weights: c_S, shape (K,).
        p: in [2, inf].
        rel_gap: allowed by the finite exponent that replaces p = inf.
    """

    def __init__(self, spaces: ResidualSpaces, weights: Array, p: float, rel_gap: float) -> None:
        self._cells, self._dimensions, self._p = spaces.cells, spaces.dimensions, p
        self._matrix = spaces.incidence.multiply(weights**2 / spaces.cells).tocsr()  # B
        self._transpose = self._matrix.T.tocsr()
        self._squares = self._transpose.power(2)
        allowed = 20 * np.log(2 + self._cells.sum()) / max(rel_gap, 1 / LARGEST_EXPONENT)
        finite = p if np.isfinite(p) else allowed
        self._exponent = min(finite, LARGEST_EXPONENT)
        self._power = (self._exponent - 2) / 2  # e

    def points(self, start: Array | None = None) -> Iterator[MarginalsPoint]:
        """The points, without end for p > 2, from positive u or from equal ones."""
        here = self._evaluate(np.ones_like(self._cells) if start is None else start)
        yield here
        while self._power > 0:
            here = self._advance(here)
            yield here

    def _evaluate(self, u: Array) -> MarginalsPoint:
        u = np.maximum(u / u.max(), FLOOR)
        eigenvalues = self._matrix @ u
        value = float(self._dimensions @ np.sqrt(eigenvalues))
        slopes = self._transpose @ (self._dimensions / np.sqrt(eigenvalues))
        variances = value * slopes / self._cells
        return MarginalsPoint(
            lower=value / float(np.sqrt(dual_norm(u, self._p, self._cells))),
            upper=float(np.sqrt(power_mean(variances, self._p / 2, self._cells))),
            u=u,
            value=value,
            merit=value / float(np.sqrt(dual_norm(u, self._exponent, self._cells))),
            eigenvalues=eigenvalues,
            variances=variances,
        )

    def _advance(self, here: MarginalsPoint) -> MarginalsPoint:
        log_u = np.log(here.u)
        change = self._relative_change(here) / self._power
        for step in STEP_LENGTHS:
            moved = self._power * np.log1p(np.maximum(step * change, -0.99))
            moved = np.clip(moved, -CHANGE, CHANGE)
            there = self._evaluate(_exponential(log_u + moved))
            if there.merit >= here.merit * (1 - NOISE):
                break
        return there

    def _relative_change(self, here: MarginalsPoint) -> Array:
        """x, to a relative TOLERANCE in the residual."""
        u, root = here.u, here.u ** (1 / self._power)  # t
        mass = self._cells * u
        average = float(mass @ root) / here.value**2  # k / (2 f)
        curvature = 0.5 * average * here.value * self._dimensions * here.eigenvalues**-1.5
        added = mass * root / self._power
        diagonal = u**2 * (self._squares @ curvature) + added
        shape = len(u), len(u)
        system = scipy.sparse.linalg.LinearOperator(
            shape,
            lambda x: u * (self._transpose @ (curvature * (self._matrix @ (u * x)))) + added * x,
            dtype=np.float64,
        )
        solution, _ = scipy.sparse.linalg.cg(
            system,
            mass * (average * here.variances - root),
            rtol=TOLERANCE,
            atol=0.0,
            maxiter=MOST_PRODUCTS,
            M=scipy.sparse.linalg.LinearOperator(shape, lambda x: x / diagonal, dtype=np.float64),
        )
        return np.asarray(solution)


def _exponential(logarithms: Array) -> Array:
    return np.asarray(np.exp(logarithms - logarithms.max()))
