"""The linear program behind the PML envelope: how often can leakage reach a threshold?

r_xy = P(y | x) / q_y, V = max_x r, and t = e^epsilon. A post-processing tries to spend as much
probability as it can on symbols that leak at least log t. Symbols with the same best guess x may
be merged without loss, so there is one symbol for each x; with m_xy the mass of output y sent to
symbol x,

    G(t) = max  sum_xy m_xy   subject to   sum_y m_xy (r_xy - t) >= 0   for every x,
                                           sum_x m_xy <= q_y            for every y,   m >= 0.

Duality: for every mu >= 0 on the symbols,

    G(t) <= B(mu, t) = sum_y q_y max(0, 1 + max_x mu_x (r_xy - t)),  with equality for the best mu.

Symbols with max_y r_xy < t are useless and left out. Leaving out those with max_y r_xy = t too
gives the largest probability that leakage *exceeds* log t, which is G just above t.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, equation (8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pmldesign.envelope.channel import Channel, check_epsilon
from pmldesign.errors import NotConvergedError
from pmldesign_solvers.operators import Array, Indices

if TYPE_CHECKING:
    import cvxpy

_SCALE = 1024.0
"""Weight of the first constraints: HiGHS takes coefficients below 1e-9 for zero."""


def solve_failure_program(
    ratios: Array, masses: Array, threshold: float, symbols: Indices
) -> tuple[Array, Array]:
    """Solve the program for G(threshold) on some of the symbols with HiGHS.

    Args:
        ratios: r, shape (k, y).
        masses: q, shape (y,).
        threshold: t.
        symbols: the x that may be used.

    Returns:
        m of shape (k, y) and mu of shape (k,), as the solver left them: zero for other symbols.

    Raises:
        NotConvergedError: HiGHS gives up.
    """
    from scipy import optimize, sparse  # slow to import, and most commands do without

    assignment, multipliers = np.zeros_like(ratios), np.zeros(len(ratios))
    if len(symbols) == 0:
        return assignment, multipliers
    count, outputs = len(symbols), ratios.shape[1]
    supply = sparse.csr_array(
        (
            (_SCALE * (threshold - ratios[symbols])).ravel(),
            np.arange(count * outputs),
            np.arange(0, count * outputs + 1, outputs),
        )
    )
    capacity = sparse.hstack([sparse.eye_array(outputs)] * count)
    result = optimize.linprog(
        -np.ones(count * outputs),
        A_ub=sparse.vstack([supply, capacity], format="csc"),
        b_ub=np.concatenate([np.zeros(count), masses]),
        bounds=(0, None),
        method="highs",
        options={  # the tightest that HiGHS accepts
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
        },
    )
    if result.x is None or result.status != 0:
        raise NotConvergedError(f"HiGHS stopped on the envelope's linear program: {result.message}")
    assignment[symbols] = result.x.reshape(count, outputs)
    multipliers[symbols] = np.maximum(-_SCALE * result.ineqlin.marginals[:count], 0.0)
    return assignment, multipliers


def dual_bound(ratios: Array, masses: Array, multipliers: Array, threshold: float) -> float:
    """B(mu, t) over the symbols that can exceed t: bounds P{leakage > log t}, whatever mu >= 0."""
    useful = ratios.max(axis=1) > threshold
    if not useful.any():
        return 0.0
    gains = multipliers[useful, None] * (ratios[useful] - threshold)
    return float(masses @ np.maximum(1.0 + gains.max(axis=0), 0.0))


def failure_program(channel: Channel, epsilon: float) -> cvxpy.Problem:
    """The same program for CVXPY, to read and to check the solver against.

    Its optimal value is the largest probability, over all post-processings, that the leakage is
    at least `epsilon`; its one variable m, of shape (k, y), is named "mass".

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    import cvxpy

    threshold = np.exp(check_epsilon(epsilon))
    ratios = channel.ratios
    mass = cvxpy.Variable(channel.shape, nonneg=True, name="mass")
    return cvxpy.Problem(
        cvxpy.Maximize(cvxpy.sum(mass)),
        [
            cvxpy.sum(cvxpy.multiply(mass, ratios - threshold), axis=1) >= 0,
            cvxpy.sum(mass, axis=0) <= channel.output_distribution,
        ],
    )
