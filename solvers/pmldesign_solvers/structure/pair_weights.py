r"""The best weights of pairs of cells for a collection of marginals, by the sets they differ in.

In the letters of `marginals_pairs`, with D_T = d_T (2 a_T)^(1/2) for given a, the dual function is
concave in the weights x of some sets U,

    F(x) = sum_T D_T b_T^(1/2),     b = C^T x,     C_UT = 1 - prod_{i in T, U} -1/(n_i - 1),

and its maximum over sum(x) = 1 has the direction of that of 2 F(x) - sum(x). There the derivatives
g_U = sum_T D_T C_UT b_T^(-1/2) are at most 1. With a barrier mu sum log x_U they are 1 - mu / x_U,
below 1; Newton's method follows the path as mu falls. Only a few of the sets have a weight: they
are found one after the other, as those whose g_U, a squared distance of two cells, is the largest
for the weights of the others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmldesign_solvers.operators.operator import Array

NEWTON_STEPS = 60
"""For one mu, at most. Chosen, not measured."""
FALL = 0.1
"""By which mu falls from one problem to the next. Chosen, not measured."""
CLOSE, SHORTEST = 1e-4, 1e-8
"""Newton's method ends at a gain of this part of the barrier, or at a step as short as this."""
ROUNDS = 200
"""Most sets that are added. Chosen, not measured."""


def best_weights(
    columns: Array,
    sizes: Array,
    start: Array,
    farthest: Callable[[Array], Array | None],
    tolerance: float,
) -> tuple[Array, Array]:
    """Weights of sets, all with g_U <= 1 + tolerance.

    Args:
        columns: C for the sets to begin with, shape (sets, T); every T has a positive entry.
        sizes: D_T, shape (T,).
        start: positive, shape (sets,).
        farthest: b -> the C_U of the largest g_U of all; None if there is nothing to choose from.
        tolerance: relative.

    Returns:
        C of the sets that were needed, shape (sets, T), and their weights of sum 1.
    """
    weights = start
    for _ in range(ROUNDS):
        weights = _path(columns, sizes, weights, tolerance / 4)
        b = columns.T @ weights
        column = farthest(b)
        if column is None:
            break
        slopes = sizes / np.sqrt(b)
        if column @ slopes <= (1 + tolerance) * (weights @ (columns @ slopes)) / weights.sum():
            break
        if (np.abs(columns - column).max(axis=1) <= 1e-14).any():
            break
        columns = np.vstack([columns, column])
        weights = np.append(weights, 1e-3 * weights.sum())
    return columns, np.asarray(weights / weights.sum())


def _path(columns: Array, sizes: Array, weights: Array, tolerance: float) -> Array:
    """The best weights of these sets, with F(x) = sum(x) but for the tolerance."""
    total = float(sizes @ np.sqrt(columns.T @ weights))
    x: Array = weights * (total / weights.sum()) ** 2
    if len(columns) == 1:
        return x
    barrier = FALL * float(x.sum()) / len(x)
    while True:
        x = _centre(columns, sizes, x, barrier)
        if barrier <= tolerance * x.sum() / len(x):
            return x
        barrier *= FALL


def _centre(columns: Array, sizes: Array, x: Array, barrier: float) -> Array:
    """The maximum of 2 F(x) - sum(x) + barrier sum log x."""

    def value(x: Array) -> float:
        return float(2 * sizes @ np.sqrt(columns.T @ x) - x.sum() + barrier * np.log(x).sum())

    for _ in range(NEWTON_STEPS):
        b = columns.T @ x
        slope = columns @ (sizes / np.sqrt(b)) - 1 + barrier / x
        curvature = (columns * (0.5 * sizes * b**-1.5)) @ columns.T + np.diag(barrier / x**2)
        scaled = curvature * np.outer(x, x)
        change = x * np.linalg.solve(scaled, slope * x)
        gain = float(slope @ change)
        if gain <= CLOSE * barrier:
            break
        step = min(1.0, 0.9 / max(float((-change / x).max()), 1e-300))
        here = value(x)
        while step > SHORTEST and value(x + step * change) < here + 0.1 * step * gain:
            step /= 2
        if step <= SHORTEST:  # nothing but rounding is left
            break
        x = x + step * change
    return x
