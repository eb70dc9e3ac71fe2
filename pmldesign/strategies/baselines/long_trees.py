"""Trees and Haar wavelets for long running sums, which need no matrix.

The variance of a running sum is p^T G^-1 p for p_s = rate^(t - s), s <= t. It follows level by
level from the leaves (`trees`): for a node v let

    alpha(t) = p^T G_v^-1 p,    beta(t) = 1^T G_v^-1 p,    s = 1^T G_v^-1 1,

with p cut to the cells of the node up to t. Of a whole child these are the values at its last cell;
children on the left of that of t count with powers of the rate. With x = 1^T B p, B the
block-diagonal inverse of the children and sigma the sum of their s,

    tree    alpha = p^T B p - x^2 / (1 + sigma),
            beta = x / (1 + sigma),              s = sigma / (1 + sigma),
    Haar    with x, y of the left and the right child, s, z of them and c = t - 1,
            alpha = p^T B p - (2 c x y - c^2 (z x^2 + s y^2)) / (1 - c^2 s z),
            beta, s the same form with 1 in place of one p, or of both.

O(n) a level. Every cell is counted once a level, so that sensitivities are those of `trees`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import root_above
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.toeplitz import squared_weights
from pmldesign.strategies.baselines.trees import haar_wavelet, level_widths, tree
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array


class LongTree(Strategy):
    """A tree, or the Haar wavelet, over the steps of long running sums of one rate.

    Args:
        name: how tables and messages call it.
        cells: n.
        rate: what the running sums keep of each step.
        branching: children of a node; 0 for the Haar wavelet.
    """

    regular: ClassVar[bool] = True
    only_compared: ClassVar[bool] = True

    def __init__(self, name: str, cells: int, rate: float, branching: int) -> None:
        self.name, self.rate, self.branching = name, rate, branching
        self.widths = level_widths(cells, branching or 2)
        nodes = [-(-cells // width) for width in self.widths]
        self.shape = sum(nodes) if branching else 1 + sum(nodes[1:]), cells

    @property
    def matrix(self) -> Array:
        """R, where it is not too large to be written out."""
        if not self.branching:
            return haar_wavelet(self.cells).matrix
        return tree(self.cells, branching=self.branching).matrix

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours: of the first and the last cell."""
        levels = len(self.widths)
        if neighbours == Neighbours.ADD_REMOVE:
            return float(levels) if norm == "l1" else root_above(float(levels))
        if norm == "l1":
            return 2.0 * (levels - 1)
        return root_above(2.0 * (levels - 1) + (0.0 if self.branching else 2.0))

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        squares = squared_weights(workload, self.rate)
        if squares is None or workload.shape[1] != self.cells:
            return super().variances(workload)
        return squares * (self._tree() if self.branching else self._haar())

    def _tree(self) -> Array:
        n = self.cells
        alpha, beta, sizes = np.ones(n), np.ones(n), np.ones(n)
        for width, below in zip(self.widths[1:], self.widths, strict=False):
            alpha, beta = self._with_left(alpha, beta, below)
            nodes = -(-n // width)
            padded = np.zeros(nodes * self.branching)
            padded[: sizes.size] = sizes
            sigma = padded.reshape(nodes, self.branching).sum(axis=1)
            node = np.arange(n) // width
            alpha = alpha - beta**2 / (1.0 + sigma)[node]
            beta = beta / (1.0 + sigma)[node]
            sizes = sigma / (1.0 + sigma)
        return alpha

    def _with_left(self, alpha: Array, beta: Array, below: int) -> tuple[Array, Array]:
        """p^T B p and 1^T B p from those of the child of each t, and its whole left siblings."""
        n, count = self.cells, -(-self.cells // below)
        last = np.minimum(np.arange(1, count + 1) * below, n) - 1
        squares, firsts = np.zeros(count), np.zeros(count)  # of the siblings, at their last cell
        for place in range(1, self.branching):
            child = np.arange(place, count, self.branching)
            before = child - 1
            kept = self.rate**below if place > 1 else 0.0
            squares[child] = squares[before] * kept**2 + alpha[last[before]]
            firsts[child] = firsts[before] * kept + beta[last[before]]
        child = np.arange(n) // below
        decay = self.rate ** (np.arange(n) - child * below + 1.0)
        return alpha + decay**2 * squares[child], beta + decay * firsts[child]

    def _haar(self) -> Array:
        n, levels = self.cells, len(self.widths)
        alpha, beta, sizes = np.full((3, n), 1.0 / levels)
        for level, (width, below) in enumerate(
            zip(self.widths[1:], self.widths, strict=False), start=1
        ):
            c = float(levels - 1 - level)
            node, right = np.arange(n) // width, np.arange(n) // below % 2 == 1
            nodes = -(-n // width)
            padded = np.zeros(2 * nodes)
            padded[: sizes.size] = sizes
            s, z = padded[0::2], padded[1::2]
            last = np.arange(nodes) * width + below - 1  # of the left child
            last = np.minimum(last, n - 1)
            decay = np.where(right, self.rate ** (np.arange(n) - node * width - below + 1.0), 0.0)
            x = np.where(right, decay * beta[last][node], beta)
            y = np.where(right, beta, 0.0)
            alpha = alpha + decay**2 * alpha[last][node]
            scale = 1.0 / (1.0 - c**2 * s * z)

            def form(a: Array, b: Array, x: Array, y: Array, s: Array, z: Array) -> Array:
                return c * (a * y + b * x) - c**2 * (z * a * x + s * b * y)  # noqa: B023

            here = s[node], z[node]
            alpha = alpha - scale[node] * form(x, y, x, y, *here)
            beta = x + y - scale[node] * form(*here, x, y, *here)
            sizes = s + z - scale * form(s, z, s, z, s, z)
        return np.asarray(alpha)
