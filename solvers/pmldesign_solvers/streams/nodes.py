"""Rational functions with positive poles and weights that stand in for x^(-1/2).

    r(x) = sum_k c_k / (x + s_k^2),      K nodes s_k, c_k > 0.

**Start.** x^(-1/2) = (2/pi) int_0^inf dt / (t^2 + x). With t = m^(1/2) sc(v), sc of parameter
1 - m/M, the midpoint rule at K points of (0, K'), K' the complete elliptic integral, has a
relative error on [m, M] that falls like exp(-2 pi^2 K / log(16 M/m)). With q the nome of the
parameter m/M, and z = pi v / (2 K(m/M)), Jacobi's imaginary transformation gives

    sc(v) = theta_3 / theta_2 * 2 sum_j (-1)^j q^((j + 1/2)^2) sinh((2 j + 1) z)
                              / (1 + 2 sum_j (-1)^j q^(j^2) cosh(2 j z)),

a few terms in the lower half; the nodes of the upper half are m^(1/2) M^(1/2) / s_k.

**Reciprocal.** x r(x) increases, with K - 1 negative zeros -z_j^2 between the poles, and

    1 / (x r(x)) = d + e_0 / x + sum_j e_j / (x + z_j^2),
    d = 1 / sum c,    e_0 = 1 / r(0),    e_j = 1 / (z_j^2 sum_k c_k / (s_k^2 - z_j^2)^2),

all positive. So a function of T and its reciprocal come from the same recurrences.

**Nothing is taken on trust.** With y = log x both r(x) x^(1/2) = sum (c_k / 2 s_k)
sech((y - log s_k^2) / 2) and the product of x r(x) with the sum above are bounded over all x > 0
from their values on a grid of step h:

- a second derivative of the first one is at least -1/4 of its supremum, it rises below the
  least s_k^2 and falls above the largest one: its supremum is at most the maximum on the grid over
  1 - h^2 / 32;
- log(x r(x)) and the logarithm of the sum have second derivatives in y of at most 1/4 in size (a
  variance of numbers in [0, 1], see docs/background/streams.md): between points of the grid the
  logarithm of the product is at most h^2 / 16 below the lower of them; beyond the ends of the grid
  its slope is at most a sum of ratios to the nearest pole, which is added.

References:
    Hale, Higham and Trefethen, Computing A^alpha, log(A) and related matrix functions by contour
    integrals, SIAM J. Numer. Anal. 2008, method 3 (Zolotarev's nodes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import EPS, Array

GRID_POINTS, GRID_STEP = 2**18, 2e-4
"""Of log x, on which functions are bounded: the step adds at most 4e-9 to the bounds."""
BEYOND = 25.0
"""How far in log x the grid of the reciprocal goes on beyond the outermost poles."""
TERMS = 8
"""Of the theta series: the last one is below 1e-16 for M/m above 1.1."""
LANES = 2**13
"""Numbers that one NumPy operation takes: more leave the cache, and memory is slow."""
BISECTIONS = 64
"""Of the logarithm of a zero between two poles, at most 1400 apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """r(x) = sum_k weights_k / (x + poles_k^2) + constant + origin / x.

    Attributes:
        poles: s_k > 0, shape (K,), increasing.
        weights: c_k > 0, shape (K,).
        constant: d >= 0.
        origin: e_0 >= 0.
    """

    poles: Array
    weights: Array
    constant: float = 0.0
    origin: float = 0.0

    def __call__(self, x: Array) -> Array:
        """r(x), for x > 0 of any shape."""
        total = np.asarray(self.constant + self.origin / x)
        flat, every = x.reshape(-1), total.reshape(-1)
        for start in range(0, x.size, LANES):
            here, sums = flat[start : start + LANES], every[start : start + LANES]
            for pole, weight in zip(self.poles, self.weights, strict=True):
                sums += weight / (here + pole**2)
        return total

    def excess(self) -> float:
        """At least sup r(x) x^(1/2) - 1 over x > 0, for K nodes and nothing else."""
        x, step = _grid(self.poles, 0.0)
        top = float((self(x) * np.sqrt(x)).max())
        return top * (1.0 + 8 * (len(self.poles) + 8) * EPS) / (1.0 - step**2 / 32.0) - 1.0

    def reciprocal(self) -> Nodes:
        """1 / (x r(x)) as a function of the same form, to rounding."""
        squares = self.poles**2
        low, high = np.log(squares[:-1]), np.log(squares[1:])
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            terms = self.weights / (squares - np.exp(middle)[:, None])
            above = terms.sum(axis=1) < 0.0  # the zero lies between the lower pole and here
            high, low = np.where(above, high, middle), np.where(above, middle, low)
        zeros = np.exp(0.5 * (low + high))
        slopes = (self.weights / (squares - zeros[:, None]) ** 2).sum(axis=1)
        return Nodes(
            np.sqrt(zeros),
            1.0 / (zeros * slopes),
            constant=1.0 / float(self.weights.sum()),
            origin=1.0 / float((self.weights / squares).sum()),
        )

    def shortfall(self, reciprocal: Nodes) -> float:
        """At least sup 1 / (x r(x) g(x)) - 1 over x > 0, for g close to 1 / (x r(x))."""
        x, step = _grid(self.poles, BEYOND)
        least = float((x * self(x) * reciprocal(x)).min())
        squares, zeros = self.poles**2, reciprocal.poles**2
        rest = reciprocal.constant + float((reciprocal.weights / zeros).sum())
        below = x[0] * (1.0 / squares[0] + rest / reciprocal.origin)
        tail = reciprocal.origin + float(reciprocal.weights.sum())
        above = (squares[-1] + tail / reciprocal.constant) / x[-1]
        slack = step**2 / 16.0 + float(below) + float(above) + 8 * (len(squares) + 8) * EPS
        return float(np.exp(slack) / least - 1.0)


def zolotarev(smallest: float, largest: float, count: int) -> Nodes:
    """K = count nodes for the interval [smallest, largest], largest > 1.1 smallest > 0."""
    ratio = smallest / largest
    quarter, other = float(scipy.special.ellipk(ratio)), float(scipy.special.ellipkm1(ratio))
    log_nome = -np.pi * other / quarter
    z = np.pi / (2.0 * quarter) * other * (np.arange(count) + 0.5) / count
    z = z[: (count + 1) // 2]
    j = np.arange(TERMS)[:, None]
    signs = (-1.0) ** j
    odd, even = log_nome * (j + 0.5) ** 2, log_nome * j**2
    sines = np.exp(odd + (2 * j + 1) * z) - np.exp(odd - (2 * j + 1) * z)
    cosines = np.exp(even + 2 * j * z) + np.exp(even - 2 * j * z)
    upper, lower = (signs * sines).sum(axis=0), 1.0 + (signs * cosines)[1:].sum(axis=0)
    # theta_2 without its first factor q^(1/4), which may be tiny
    odds, evens = np.exp(odd - odd[0]), np.exp(even)
    theta_2, theta_3 = 2.0 * odds.sum(), 1.0 + 2.0 * evens[1:].sum()
    half = np.sqrt(smallest) * theta_3 / theta_2 * upper / lower * np.exp(-odd[0, 0])
    poles = np.concatenate([half, np.sqrt(smallest) * np.sqrt(largest) / half[: count // 2][::-1]])
    squares = poles**2
    weights = np.sqrt(smallest + squares) * np.sqrt(1.0 + squares / largest)
    return Nodes(poles, 2.0 / np.pi * other / count * weights)


def _grid(poles: Array, beyond: float) -> tuple[Array, float]:
    """Points x that are equally spaced in log x, and their spacing."""
    first, last = 2.0 * np.log(poles[0]) - beyond, 2.0 * np.log(poles[-1]) + beyond
    points = min(GRID_POINTS, 2 + int((last - first) / GRID_STEP))
    y = np.linspace(first, last, points)
    return np.exp(y), (last - first) / (points - 1) * (1.0 + 1e-6)
