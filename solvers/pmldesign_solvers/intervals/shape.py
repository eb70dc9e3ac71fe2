r"""Weights of queries that suit running sums beside their total, from few steps.

With v weights of queries and w of steps, M = diag(v)^(1/2) A diag(w)^(1/2),

    X = W^(-1/2) (M^T M)^(1/2) W^(-1/2),      S = A X^(-1) A^T,

a strategy is worth sum_t e_t S'_tt . 2 max X_ii where queries count by e, S' = S beside the last
sum. The maximum is smoothed to norms of growing power, and descended by L-BFGS along the logarithms
of v and w. With F F = M^T M and X = W^(-1/2) F W^(-1/2), the gradient of F follows by a division in
its eigenbasis.

What counts for many steps is the shape v / e. For even queries it falls by about e^(-8.5) from the
first step to the one before the last, most quickly in the middle, and jumps up at the last one, by
about half of the number of steps. As this hardly depends on that number, few steps tell it for many
(`stretched`): for 256 steps the shape of 64 is 0.003 % worse than their own. Where weights
jump from step to step, so that few of them tell nothing, it is the shape of even weights along the
sum of all.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import Array

POWERS = (16.0, 64.0, 256.0)
"""In turn, each from where the one before ended."""
MOST = 40
"""Steps of L-BFGS for each."""
FALL, JUMP = 9.0, 0.5
"""The search begins at v = w = exp(-FALL x^2), x = i/n, the last v times JUMP n."""


def shape_of_few(asked: Array) -> tuple[Array, Array]:
    """The best shape and w for few open queries that count by e, shape (n,) each."""
    asked = asked / np.sqrt(asked).mean() ** 2
    n = asked.size + 1
    z = np.tile(-FALL * (np.arange(n) / n) ** 2, 2)
    z[: n - 1] += np.log(asked)
    z[n - 1] += math.log(JUMP * n)
    for power in POWERS:
        z = scipy.optimize.minimize(
            _value, z, (asked, power), jac=True, method="L-BFGS-B", options={"maxiter": MOST}
        ).x
    return np.exp(z[:n]) / np.append(asked, 1.0), np.exp(z[n:])


def stretched(v: Array, asked: Array) -> Array:
    """The shape over more steps, along the sum of their weights; the last weight grows with them.

    Args:
        v: the shape.
        asked: how much each open query counts, shape (n - 1,).
    """
    few, n = len(v), len(asked) + 1
    places = (np.cumsum(asked) - 0.5 * asked) / asked.sum() * (n - 1) / n
    inner = np.interp(places, (np.arange(few - 1) + 0.5) / few, np.log(v[:-1]))
    return np.asarray(np.exp(np.append(inner, math.log(v[-1] * n / few))))


def _value(z: Array, asked: Array, power: float) -> tuple[float, Array]:
    """The logarithm of the smoothed value, and its gradient for log v and log w."""
    v, w = np.exp(z.reshape(2, -1))
    M = np.tril(np.sqrt(np.outer(v, w)))
    _, roots, right = np.linalg.svd(M)
    F = (right.T * roots) @ right
    inverse = np.sqrt(np.outer(w, w)) * ((right.T / roots) @ right)
    half = np.cumsum(inverse, axis=0)  # A X^-1
    S = np.cumsum(half, axis=1)
    part = S[:-1, -1] / S[-1, -1]
    spread = float(asked @ (np.diag(S)[:-1] - part * S[:-1, -1]))
    columns = np.diag(F) / w
    scaled = columns / columns.max()
    total = float((scaled**power).sum())
    longest = columns.max() * total ** (1.0 / power)
    errors = half[:-1] - np.outer(part, half[-1])  # (A - c 1^T) X^-1
    of_X = np.diag(scaled**power / (total * columns)) - (errors.T * asked) @ errors / spread
    of_F = of_X / np.sqrt(np.outer(w, w))
    inner = (right @ of_F @ right.T) / np.add.outer(roots, roots)
    of_M = 2.0 * M * (M @ (right.T @ inner @ right))
    of_w = 0.5 * of_M.sum(axis=0) - (of_F * F).sum(axis=0)
    return math.log(spread * longest), np.concatenate([0.5 * of_M.sum(axis=1), of_w])
