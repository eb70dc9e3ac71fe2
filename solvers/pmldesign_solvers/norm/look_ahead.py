"""What one decomposition tells about the next weights, at p = 2: no second one to stop.

At weights w, with diag(w)^(1/2) K diag(w)^(1/2) = Q S^2 Q^T, s = trace(S), column norms d_j and
T = Q^T diag(d / s)^(1/2) Q, the strategy whose columns are divided by their norms has the error

    tr L' L'^T = s sum_ab T_ab^2 s_a^2 / s_b,

exactly. The weights w_j (d_j / s)^2, twice as far as the fixed point goes, have the dual value
trace(M)^(1/2), M = T^2 S^2 T^2. To second order in d_j / s - 1 that is

    s + sum_j w_j d_j (d_j / s - 1) + sum_ab T_ab^2 (s_a - s_b)^2 / (s_a + s_b),

from tr (S^2 + E)^(1/2) = s + sum_a E_aa / (2 s_a) - sum_ab E_ab^2 / (4 s_a s_b (s_a + s_b)). Where
it promises to raise the bound by a factor of 1 + x, it has been too high by 0.1 x^2 at most (from
equal weights: running sums, ranges, random queries); a quarter of x^2 is taken off.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array


def row_size(squares: Array, values: Array) -> float:
    """The trace of L' L'^T, given T_ab^2, shape (n, n), and the diagonal of S."""
    return float(values.sum() * (values**2 @ squares @ (1.0 / values)))


def lower(squares: Array, values: Array, masses: Array, ratios: Array) -> float:
    """About the lower bound at the next weights, none that holds.

    Args:
        squares: T_ab^2, shape (n, n).
        values: the diagonal of S.
        masses: w, of sum 1.
        ratios: d / s.
    """
    total = float(values.sum())
    distances = np.subtract.outer(values, values)
    distances *= distances
    distances /= np.add.outer(values, values)
    second = float(np.vdot(distances, squares))
    then = total * float(1.0 + masses * ratios @ (ratios - 1.0)) + second
    promised = then / total / float(np.sqrt(masses @ ratios**2))
    return total * (promised - (promised - 1.0) ** 2 / 4)
