r"""The slack of Gaussian noise on few columns, by the integral that defines it.

About cell r it is the largest integral of the positive part of

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

from pmldesign.verify.arithmetic.intervals import free_mass, largest, normal, total

MOST_COLUMNS, STRAIGHT = 24, 1e-11
"""On a line, for which the slack is computed exactly, and what distances may be off by."""
FAR = 40.0
"""Standard deviations: beyond there is less than 1e-300."""


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
