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
import scipy

from pmldesign.envelope.channel import Channel, check_epsilon, require_channel
from pmldesign_solvers.operators.operator import Array, Indices

if TYPE_CHECKING:
    import cvxpy

_TINY = 1e-322
"""Added to masses: below 1e-300 numbers are not kept to relative accuracy."""

_SMALLEST = 1e-290
"""Masses below this count as zero."""

_SCALE = 1024.0
"""Weight of the first constraints: HiGHS takes coefficients below 1e-9 for zero."""

_CAP = 2.0
"""Capacities are cut off at this multiple of delta; above 1, so that G <= delta stays decidable."""

_ATTEMPTS = ((True, 1e-10), (False, 1e-10), (False, 1e-8))
"""Presolve and tolerance, the tightest that HiGHS accepts first, until it does not give up."""

_LARGEST = 1e6
"""Surplus of an output, in units of delta, that is written into the program at most."""

LOOSE = 1e-11
"""A dual whose bound exceeds the primal value by this ratio is worked over; it seldom does."""


def solve_failure_program(
    ratios: Array, masses: Array, threshold: float, symbols: Indices, *, delta: float = 1.0
) -> tuple[Array, Array]:
    """Solve the program for G(threshold) on some of the symbols with HiGHS, where G <= 2 delta.

    The program is written in the shares z_xy = m_xy / c_y of capacities c_y = min(q_y, 2 delta)
    that are measured in delta, so that its entries do not depend on the size of delta:

        max  sum_xy (c_y / delta) z_xy   s.t.   sum_y (c_y / delta) (r_xy / t - 1) z_xy >= 0,
                                                sum_x z_xy <= 1,   z >= 0.

    The smaller capacities change no value up to delta: an m of mass above delta, scaled down to
    mass 2 delta or less, fits into them.

    Args:
        ratios: r, shape (k, y).
        masses: q, shape (y,).
        threshold: t.
        symbols: the x that may be used.
        delta: the mass that matters; masses far below it are left out.

    Returns:
        m of shape (k, y) and mu of shape (k,), as the solver left them: zero for other symbols,
        and zero everywhere if HiGHS gives up. Neither is to be trusted without its certificate.
    """
    assignment, multipliers = np.zeros_like(ratios), np.zeros(len(ratios))
    if len(symbols) == 0:
        return assignment, multipliers
    capacity = np.minimum(masses / delta, _CAP)
    surplus = np.minimum(capacity * (ratios[symbols] / threshold - 1), _LARGEST)
    answer = _run(capacity, surplus)
    if answer is not None:
        shares, prices = answer
        assignment[symbols] = shares * np.minimum(masses, _CAP * delta)
        multipliers[symbols] = np.maximum(prices, 0.0) / threshold
    return assignment, multipliers


def _run(capacity: Array, surplus: Array) -> tuple[Array, Array] | None:
    """Shares z and the prices of the first constraints, or None if HiGHS gives up."""
    count, outputs = surplus.shape
    supply = scipy.sparse.csr_array(
        (
            -_SCALE * surplus.ravel(),
            np.arange(count * outputs),
            np.arange(0, count * outputs + 1, outputs),
        )
    )
    shares = scipy.sparse.hstack([scipy.sparse.eye_array(outputs)] * count)
    for presolve, tolerance in _ATTEMPTS:
        result = scipy.optimize.linprog(
            -np.tile(capacity, count),
            A_ub=scipy.sparse.vstack([supply, shares], format="csc"),
            b_ub=np.concatenate([np.zeros(count), np.ones(outputs)]),
            bounds=(0, None),
            method="highs",
            options={
                "presolve": presolve,
                "primal_feasibility_tolerance": tolerance,
                "dual_feasibility_tolerance": tolerance,
            },
        )
        if result.x is not None and result.status == 0:
            return result.x.reshape(count, outputs), -_SCALE * result.ineqlin.marginals[:count]
    return None


def relative_rounding(secrets: int, outputs: int) -> float:
    """How far q and r can be off, relative to themselves, and sums over secrets and outputs.

    With u = 2^-53: rows and prior are divided by sums of at most y and k terms, q is a sum of k
    products and r a quotient; sums of nonnegative numbers are off by at most u for each term.
    """
    return float((4 * secrets + 4 * outputs + 32) * 2.0**-53)


def dual_bound(ratios: Array, masses: Array, multipliers: Array, threshold: float) -> float:
    """B(mu, t) over the symbols that can exceed t: bounds P{leakage > log t}, whatever mu >= 0.

    Rounded up: the bound holds for every channel whose q and r are as close to the given ones as
    `relative_rounding` says.
    """
    off = relative_rounding(*ratios.shape)
    useful = ratios.max(axis=1) * (1 + off) > threshold
    if not useful.any():
        return 0.0
    kept = ratios[useful]
    margin = off * (kept + threshold)
    gains = multipliers[useful, None] * (kept - threshold + margin)
    terms = np.maximum(1.0 + off + gains.max(axis=0), 0.0)
    return float((masses * (1 + off) + _TINY) @ terms) * (1 + off)


def descend(ratios: Array, masses: Array, multipliers: Array, threshold: float) -> Array:
    """B(mu, t) minimised over one mu_x after the other, for the x that can exceed t.

    A solver leaves mu_x open where symbol x has next to no mass, but a large one spoils the bound.
    """
    better = multipliers.copy()
    terms = 1 + better[:, None] * (ratios - threshold)
    useful = ratios.max(axis=1) > threshold
    terms[~useful] = -np.inf
    for x in np.flatnonzero(useful):
        terms[x] = -np.inf
        others = np.maximum(terms.max(axis=0), 0.0)
        better[x] = _best_multiplier(ratios[x] - threshold, masses, others)
        terms[x] = 1 + better[x] * (ratios[x] - threshold)
    return better


def _best_multiplier(slopes: Array, masses: Array, others: Array) -> float:
    """The mu >= 0 that minimises sum_y q_y max(others_y, 1 + mu slopes_y), a convex function.

    Term y moves between its two sides at mu = (others_y - 1) / slopes_y.
    """
    moving = slopes != 0
    slopes, masses, others = slopes[moving], masses[moving], others[moving]
    turns = np.maximum((others - 1) / slopes, 0.0)
    order = np.argsort(turns)
    slope = (masses * np.minimum(slopes, 0.0) * (turns > 0)).sum()
    weights = masses * np.abs(slopes) * ((turns > 0) | (slopes > 0))
    rising = slope + np.cumsum(weights[order])
    return float(turns[order][min(int((rising < 0).sum()), len(order) - 1)])


def largest_mass(
    ratios: Array, masses: Array, threshold: float, symbols: Indices
) -> tuple[float, float]:
    """G(threshold) on some of the symbols: the mass of an assignment, and a bound from above.

    The program is solved again at the size of its own value, until that is no longer small.
    """
    upper, factor = 1.0, 1 + 4 * relative_rounding(*ratios.shape)
    while True:
        assignment, dual = solve_failure_program(ratios, masses, threshold, symbols, delta=upper)
        duals = [dual, descend(ratios, masses, dual, threshold)]
        duals += [factor * dual for dual in duals]  # common outputs are to cost more than they gain
        bound = min(upper, *(dual_bound(ratios, masses, dual, threshold) for dual in duals))
        if bound > upper / 4 or bound < _SMALLEST:
            return min(float(assignment.sum()), bound), bound
        upper = bound


def failure_program(channel: Channel, epsilon: float) -> cvxpy.Problem:
    """The same program for CVXPY, to read and to check the solver against.

    Its optimal value is the largest probability, over all post-processings, that the leakage is
    at least `epsilon`; its one variable m, of shape (k, y), is named "mass".

    Raises:
        InvalidInputError: epsilon negative or NaN.
    """
    require_channel(channel)
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
