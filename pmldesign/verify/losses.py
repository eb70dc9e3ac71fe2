r"""What noise of a given scale loses, in ball arithmetic, from the definitions.

    epsilon-DP, Laplace, cube       Delta_1 / b, Delta_inf / b
    zCDP, Gaussian DP, Renyi of     t^2/2, t, a t^2/2 for Gaussian noise, t as next; of Laplace
    order a                         noise, t = Delta_1 / b:  t + e^-t - 1, -2 Phi^-1(e^(-t/2)/2),
                                    log((a e^((a-1)t) + (a-1) e^(-at))/(2a-1))/(a-1)
    (epsilon, delta)-DP, Gaussian   HS_eps(t) = Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t),
                                    t = Delta_2 / sigma
    PML, Laplace                    max_r -log( sum_j alpha_j e^(-D_jr/b) + f e^(-max_j D_jr/b) ),
                                    f = 1 - sum alpha
    PML with slack, Gaussian        max_r bound_r(eps), with
                                    e^eps' = e^eps (1 - a_r)/(1 - e^eps a_r), h_j = HS_eps'(t_jr),
                                    bound_r(eps) = (1 - e^eps a_r)/(1 - a_r)
                                                   * (sum_j a_j h_j + f max_j h_j)
    PML with envelope, Gaussian     min over c in [1, e^eps) of sum_r bound_r(log c)/(e^eps - c);
                                    every c gives a bound

Of a public sample both sums are over the worst distribution of its set (`distributions`). Cells
with equal columns are one cell, whose alpha is their sum. Of columns on a line, as those of
a single query, b_r is the smaller one of that and, exactly, the integral of the positive part of
(1 - e^eps p_r) P_r - e^eps sum_j p_j P_j between its two roots. Of three different columns b_r is
the smaller one of that and the integral of the positive part of (1 - e^eps p_r) P_r -
e^eps sum_j p_j P_j, the free mass on one of the other two cells, by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verify.arithmetic.intervals import largest, normal, total
from pmldesign.verify.distributions import Rows
from pmldesign.verify.few_columns import places_on_a_line, slack_of_three, slack_on_a_line
from pmldesign.verify.report import Header

CLOSE, HALVINGS = 1e-13, 40
"""Width of the interval of what is inverted in double precision, and how often it is halved."""


def gaussian_profile(ratio: Any, epsilon: Any) -> Any:
    """HS_epsilon(t), the smallest delta of Gaussians t standard deviations apart, growing in t."""
    if not bool(ratio > 0):  # columns that rounding alone may tell apart
        most = ratio.upper()
        return arb(0).union(gaussian_profile(most, epsilon)) if bool(most > 0) else arb(0)
    shift = epsilon / ratio
    return normal(ratio / 2 - shift) - epsilon.exp() * normal(-ratio / 2 - shift)


def dp_loss(numbers: Header, noise: str, ratio: Any) -> tuple[Any, float] | None:
    """The loss at sensitivity / scale, at most, and what it may be; None for PML."""
    kind, laplace = numbers["kind"], noise == "laplace"
    if noise == "cube" or (kind == "dp" and laplace):
        return (ratio, numbers["epsilon"]) if kind == "dp" else None
    if kind == "dp":
        return gaussian_profile(ratio.upper(), arb(numbers["epsilon"])), numbers["delta"]
    if kind == "zcdp":
        return ratio + (-ratio).expm1() if laplace else ratio**2 / 2, numbers["rho"]
    if kind == "gaussian-dp":
        return _laplace_mu(ratio) if laplace else ratio, numbers["mu"]
    if kind == "renyi":
        a = arb(numbers["order"])
        moment = (a * ((a - 1) * ratio).exp() + (a - 1) * (-a * ratio).exp()) / (2 * a - 1)
        return moment.log() / (a - 1) if laplace else a * ratio**2 / 2, numbers["epsilon"]
    return None


def _laplace_mu(ratio: Any) -> Any:
    """The mu of Laplace noise between two that the normal law tells apart."""
    tail = (-ratio / 2).exp() / 2
    guess = arb(float(-2 * scipy.special.ndtri_exp(math.log(0.5) - float(ratio) / 2)))
    low, high = guess * (1 - arb(CLOSE)) - CLOSE, guess * (1 + arb(CLOSE)) + CLOSE
    if not (bool(normal(-low / 2) >= tail) and bool(normal(-high / 2) <= tail)):
        raise ValueError("mu of Laplace noise is not computed")
    for _ in range(HALVINGS):
        middle = ((low + high) / 2).mid()
        low, high = (low, middle) if bool(normal(-middle / 2) <= tail) else (middle, high)
    return low.union(high)


def pml_loss(numbers: Header, noise: str, rows: Rows, scale: Any) -> tuple[Any, float]:
    """The loss under PML, and what it may be."""
    epsilon = numbers["epsilon"]
    if noise == "laplace":
        return laplace_leakage(rows, scale), epsilon
    ratios = [[distance / scale for distance in row] for row in rows.distances]
    if numbers["failure"] != "slack":
        return envelope_bound(ratios, rows, epsilon), numbers["delta"]
    return largest(exact_bounds(ratios, rows, arb(epsilon))), numbers["delta"]


def exact_bounds(ratios: Sequence[Sequence[Any]], rows: Rows, epsilon: Any) -> list[Any]:
    """`bounds`, or the integrals of columns on a line, or of three, where they are smaller."""
    parts, places = bounds(ratios, rows, epsilon), places_on_a_line(ratios)
    if places is not None:
        exact = slack_on_a_line(places, rows.own, epsilon)
    elif len(parts) == 3:
        exact = [arb(value) for value in slack_of_three(ratios, rows.own, float(epsilon)).tolist()]
    else:
        return parts
    return [a.min(b) for a, b in zip(parts, exact, strict=True)]


def laplace_leakage(rows: Rows, scale: Any) -> Any:
    """The leakage of Laplace noise, an upper bound for any number of records."""
    worst = arb(0)
    for row in rows.distances:
        kept = -rows.largest_mean([-(-distance / scale).exp() for distance in row])
        worst = worst.max(-kept.log())
    return worst


def bounds(ratios: Sequence[Sequence[Any]], rows: Rows, epsilon: Any) -> list[Any]:
    """bound_r(epsilon) for every row r."""
    growth, result = epsilon.exp(), []
    for row, a in zip(ratios, rows.own, strict=False):
        kept = 1 - growth * a
        if not bool(kept > 0):
            result.append(arb(0))
            continue
        shifted = (growth * (1 - a) / kept).log()
        profile = [gaussian_profile(ratio, shifted) for ratio in row]
        result.append(kept / (1 - a) * rows.largest_mean(profile))
    return result


def envelope_bound(ratios: Sequence[Sequence[Any]], rows: Rows, epsilon: float) -> Any:
    """The bound of the envelope at the best c that double precision finds."""
    floats, (own, masses) = np.array([[float(t) for t in row] for row in ratios]), rows.in_floats()

    def bound(share: float) -> float:
        c = 1 + share * math.expm1(epsilon)
        parts = _bounds_in_floats(floats, own, masses, math.log(c))
        return rows.repeats * float(parts.sum()) / (math.exp(epsilon) - c)

    inside = scipy.optimize.minimize_scalar(
        bound, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}
    )
    growth = arb(epsilon).exp()

    def proved(share: float) -> Any:
        c = 1 + arb(share) * (growth - 1)
        return rows.repeats * total(exact_bounds(ratios, rows, c.log())) / (growth - c)

    best = proved(0.0).min(proved(float(inside.x))).min(arb(1))
    if places_on_a_line(ratios) is None:
        return best
    closer = scipy.optimize.minimize_scalar(
        lambda share: float(proved(share)),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-6, "maxiter": 25},
    )
    return best.min(proved(float(closer.x)))


def _bounds_in_floats(ratios: Any, own: Any, masses: Any, epsilon: float) -> Any:
    kept = np.maximum(1 - math.exp(epsilon) * own, 0.0)
    active = kept > 0
    t, a, k = np.maximum(ratios[active], 1e-300), own[active, None], kept[active, None]
    shifted = epsilon + np.log1p(-a) - np.log(k)
    profile = np.exp(scipy.special.log_ndtr(t / 2 - shifted / t))
    profile -= np.exp(np.minimum(shifted + scipy.special.log_ndtr(-t / 2 - shifted / t), 0.0))
    profile = np.where(ratios[active] > 0, np.maximum(profile, 0.0), 0.0)
    held = masses[active]
    mean = np.einsum("ij,ij->i", profile, held)
    free = np.maximum(1 - held.sum(axis=1), 0.0)
    return (k / (1 - a))[:, 0] * (mean + free * profile.max(axis=1))
