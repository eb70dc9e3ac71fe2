"""Anderson acceleration of a fixed-point iteration x <- g(x).

With residuals f_k = g(x_k) - x_k of the last steps, the next point is
    x + f - (dX + dF) c,     c = argmin norm(D^(1/2) (f - dF c)),
where the columns of dX and dF are the differences of consecutive points and residuals and D are
weights that say which coordinates matter.

References:
    Walker and Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49, 2011.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators import Array


class Anderson:
    """Remembers the last steps of a fixed-point iteration and proposes the next point."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._points: list[Array] = []
        self._residuals: list[Array] = []

    def forget(self) -> None:
        """Start again, for example after a step that made things worse."""
        self._points.clear()
        self._residuals.clear()

    def propose(self, point: Array, residual: Array, weights: Array, first_step: float) -> Array:
        """The next point.

        Args:
            point: x, shape (d,).
            residual: g(x) - x, shape (d,).
            weights: D, shape (d,), non-negative.
            first_step: length of the step, in residuals, while nothing is remembered.
        """
        self._points.append(point)
        self._residuals.append(residual)
        if len(self._points) == 1:
            return point + first_step * residual
        del self._points[: -self._memory - 1], self._residuals[: -self._memory - 1]
        moves = np.diff(np.array(self._points), axis=0).T
        changes = np.diff(np.array(self._residuals), axis=0).T
        root = np.sqrt(weights)
        mixing = np.linalg.lstsq(root[:, None] * changes, root * residual, rcond=1e-10)[0]
        following: Array = point + residual - (moves + changes) @ mixing
        return following
