r"""What noise of a given scale loses under PML, in ball arithmetic, from the definitions.

    Laplace               max_r -log( sum_j alpha_j e^(-D_jr/b) + f e^(-max_j D_jr/b) ),
                          f = 1 - sum alpha
    slack, Gaussian       max_r bound_r(eps), with
                          e^eps' = e^eps (1 - a_r)/(1 - e^eps a_r), h_j = HS_eps'(t_jr),
                          bound_r(eps) = (1 - e^eps a_r)/(1 - a_r) * (sum_j a_j h_j + f max_j h_j)
    envelope, Gaussian    min over c in [1, e^eps) of sum_r bound_r(log c)/(e^eps - c);
                          every c gives a bound

Of a public sample both sums are over the worst distribution of its set (`distributions`). Cells
with equal columns are one cell, whose alpha is their sum. Of few columns on a line, as those of a
single query, and of three different ones b_r is the smaller one of that and the largest integral of
the positive part of

    (1 - e^eps p_r) P_r - e^eps sum_j p_j P_j,

p_r = alpha_r and the free mass on one of the other cells. On a line that part lies between the two
roots of a convex function, and the integral is in ball arithmetic; of three columns it is taken by
quadrature over their plane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier.balls import free_mass, largest, normal, total
from pmldesign.verifier.distributions import Rows
from pmldesign.verifier.guarantees import gaussian_profile
from pmldesign.verifier.report import Header

MOST_COLUMNS, STRAIGHT = 24, 1e-11
"""On a line, for which the slack is computed exactly, and the largest error of distances."""
FAR = 40.0
"""Standard deviations: beyond there is less than 1e-300."""


def pml_loss(numbers: Header, noise: str, rows: Rows, scale: Any) -> tuple[Any, float]:
    """The loss under PML, and the promised loss."""
    epsilon = numbers["epsilon"]
    if noise == "laplace":
        return laplace_leakage(rows, scale), epsilon
    ratios = [[distance / scale for distance in row] for row in rows.distances]
    if numbers["failure"] != "slack":
        return envelope_bound(ratios, rows, epsilon), numbers["delta"]
    return largest(exact_bounds(ratios, rows, arb(epsilon))), numbers["delta"]


def exact_bounds(ratios: Sequence[Sequence[Any]], rows: Rows, epsilon: Any) -> list[Any]:
    """`bounds`, or the integrals of columns on a line, or of three, if these are smaller."""
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
        profile = [gaussian_profile(ratio.upper(), shifted) for ratio in row]  # it grows
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


def places_on_a_line(ratios: Sequence[Sequence[Any]]) -> list[float] | None:
    """Where columns lie, if they lie on a line and are few."""
    if not 3 <= len(ratios) == len(ratios[0]) <= MOST_COLUMNS:
        return None
    t = np.array([[float(value) for value in row] for row in ratios])
    places = t[int(np.argmax(t[0]))]
    off = np.abs(np.abs(places[:, None] - places) - t).max()
    return places.tolist() if off <= STRAIGHT * t.max() else None


def slack_on_a_line(places: Sequence[float], alpha: Sequence[Any], epsilon: Any) -> list[Any]:
    """The slack about each cell: integrals of the positive part of (1 - e^eps p_r) P_r - ..."""
    growth, free, result = epsilon.exp(), free_mass(alpha), []
    for r, own in enumerate(alpha):
        others = [j for j in range(len(places)) if j != r]
        y, kept, values = [places[j] - places[r] for j in others], 1 - growth * own, [arb(0)]
        for i in others if bool(kept > 0) else ():
            masses = [growth * (alpha[j] + (free if i == j else 0)) for j in others]
            values.append(_line(y, masses, kept))
        result.append(largest(values))
    return result


def _line(y: Sequence[float], masses: Sequence[Any], kept: Any) -> Any:
    """That integral: between the two roots of a convex function, where the integrand is 0."""
    slopes = np.array(y)
    weights = np.array([max(float(mass / kept), 1e-300) for mass in masses])

    def height(s: float) -> float:
        return float(scipy.special.logsumexp(slopes * s - slopes**2 / 2, b=weights))

    lowest = scipy.optimize.minimize_scalar(
        height, bounds=(-FAR, FAR), method="bounded", options={"xatol": 1e-9}
    )
    if lowest.fun >= 0:
        return arb(0)
    middle = float(lowest.x)
    low, high = -FAR, FAR
    if height(low) > 0:
        low = float(scipy.optimize.brentq(height, low, middle, xtol=1e-14))
    if height(high) > 0:
        high = float(scipy.optimize.brentq(height, middle, high, xtol=1e-14))
    taken = total(
        mass * (normal(arb(high) - place) - normal(arb(low) - place))
        for mass, place in zip(masses, map(arb, y), strict=True)
    )
    return (kept * (normal(arb(high)) - normal(arb(low))) - taken).max(arb(0))


def slack_of_three(ratios: Sequence[Sequence[Any]], alpha: Sequence[Any], epsilon: float) -> Any:
    """The slack of three different columns about each cell, by quadrature in double precision.

    In the plane of the columns, r at the origin, the integral of the positive part of
    (1 - e^eps p_r) P_r - e^eps sum_j p_j P_j, the free mass on one of the two others.
    """
    t = np.array([[float(value) for value in row] for row in ratios])
    least, growth = np.array([float(a) for a in alpha]), math.exp(epsilon)
    free, result = max(0.0, 1 - float(least.sum())), []
    for r in range(3):
        i, j = (cell for cell in range(3) if cell != r)
        kept, values = 1 - growth * least[r], [0.0]
        for extra in ((free, 0.0), (0.0, free)) if kept > 0 else ():
            p, q = growth * (least[i] + extra[0]), growth * (least[j] + extra[1])
            values.append(_plane(t[r, j], t[r, i], t[i, j], (q, p, kept)))
        result.append(max(values))
    return np.array(result)


def _plane(d: float, far: float, between: float, masses: tuple[float, float, float]) -> float:
    """That integral for columns at (d, 0) and (x, y)."""
    near, other, kept = masses
    x = (d**2 + far**2 - between**2) / (2 * d)
    y = max(math.sqrt(max(far**2 - x**2, 0.0)), 1e-9)

    def line(s: float) -> float:
        rest = kept - near * math.exp(d * s - d * d / 2)
        if rest <= 0:
            return 0.0
        third = other * math.exp(x * s - x * x / 2)
        end = (math.log(rest / third) + y * y / 2) / y
        inside = rest * float(scipy.special.ndtr(end)) - third * float(scipy.special.ndtr(end - y))
        return math.exp(-s * s / 2) / math.sqrt(2 * math.pi) * max(inside, 0.0)

    edge = min((math.log(kept / near) + d * d / 2) / d, 12.0 + d)
    low = -12.0 - abs(x)
    return float(
        scipy.integrate.quad(line, low, max(edge, low), limit=400, epsabs=0.0, epsrel=1e-7)[0]
    )
