"""Weights of the dual for fixed epochs: W_c = omega_c Y_c with unit diagonal, sum omega = 1.

f(W) = tr (A W A^T)^(1/2) is concave with gradient X / 2, X = A^T (A W A^T)^(-1/2) A. At the maximum
the blocks X_cc are diagonal and their traces are all f. With X held fixed, W <- X W X has the same
sum of traces and forgets W in first order; its blocks are brought back to a constant diagonal,

    V_c = X_cc W_c X_cc,    Y_c = V_c to unit diagonal,
    omega_c = (sum_e (V_c)_ee^(1/2) / f)^2,                     then sum omega = 1,

steps along the logarithms of omega and Y, extrapolated from the last few of them (Anderson). With
the rational function r in place of the root, its own X is levelled, and the loss of r is of second
order. Weights start from every fourth step, where that is possible: the logarithms are
interpolated over log(c + 1/2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pmldesign_solvers.norm.fixed_point import Anderson
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.epochs import Epochs, masked, resolvent_blocks
from pmldesign_solvers.streams.clock import Clock
from pmldesign_solvers.streams.nodes import Nodes, zolotarev

STRIDE = 1.2
"""Of a full step; 0.8 and 1.0 take a tenth more steps for 256 steps in 4 and 16 epochs."""
MEMORY = 8
"""Steps to extrapolate from; 4 take a fifth more."""
CUTOFF = 1e-8
"""Of `Anderson`: moves are known to so much, relatively, as r is no exact root."""
CORRELATION = 0.6
"""Between an epoch and the next at the start."""
COARSE_STEPS = 12
"""Of the coarser fixed point, at most. Chosen, not measured."""
COARSE_SLOPE = 3e-3
"""Where coarser weights are good enough: interpolation is off by about so much."""
FEWEST = 8
"""Classes from which on a coarser start is worth its steps."""


@dataclass(frozen=True, slots=True, eq=False)
class EpochPoint:
    """One step of the fixed point.

    Attributes:
        weights: W_c, shape (b, m, m).
        nodes: r.
        gram: X_cc of the strategy X = sum_k c_k (G^-1 + s_k^2 W)^-1, shape (b, m, m).
        trace: tr r(T), at most (1 + excess) f(W).
        sensitivity: max over the classes of the sum of abs(X_cc), squared sensitivity of X.
    """

    weights: Array
    nodes: Nodes
    gram: Array
    trace: float
    sensitivity: float

    @property
    def slope(self) -> float:
        """By how much the largest class exceeds the mean, relatively."""
        return self.sensitivity / self.trace - 1.0


def fit(epochs: Epochs, count: int, weights: Array) -> Iterator[EpochPoint]:
    """Steps towards level classes, with so many nodes."""
    anderson = Anderson(MEMORY, CUTOFF)
    while True:
        nodes = zolotarev(*spectrum(epochs, weights), count)
        gram = resolvent_blocks(epochs, weights, nodes)
        trace = float((gram * weights).sum())
        yield EpochPoint(weights, nodes, gram, trace, float(np.abs(gram).sum(axis=(1, 2)).max()))
        image = gram @ weights @ gram
        roots = np.sqrt(np.einsum("cee->ce", image)).sum(axis=1) / trace
        here = _logarithms(epochs, _diagonal(weights), weights)
        there = _logarithms(epochs, roots**2, image)
        scale = np.sqrt(_diagonal(weights))
        scales = np.concatenate([scale, np.repeat(scale, epochs.members**2)])
        weights = _weights(epochs, anderson.propose(here, STRIDE * (there - here), scales))


def start(epochs: Epochs, count: int, clock: Clock) -> Array:
    """Weights to start from, of coarser steps where there are such."""
    if epochs.every < FEWEST or epochs.every % 4 or not epochs.sums.smooth:
        places = np.arange(epochs.members)
        block = CORRELATION ** np.abs(np.subtract.outer(places, places))
        return masked(epochs, np.tile(block / epochs.every, (epochs.every, 1, 1)))
    coarse = Epochs(epochs.sums.coarser(), epochs.every // 4)
    weights = start(coarse, count, clock)
    try:
        steps = 0 if clock.over else COARSE_STEPS
        for point in islice(fit(coarse, count, weights), steps):
            weights = point.weights
            if point.slope <= COARSE_SLOPE or clock.over:
                break
    except KeyboardInterrupt:
        clock.interrupted = True
    rough = _logarithms(coarse, _diagonal(weights), weights)
    tables = np.concatenate(
        [rough[: coarse.every, None], rough[coarse.every :].reshape(coarse.every, -1)], axis=1
    )
    old = np.log(np.arange(coarse.every) + 1.0)
    new = np.log((np.arange(epochs.every) + 0.5) / 4.0 + 0.5)
    fine = np.stack([np.interp(new, old, column) for column in tables.T], axis=1)
    return _weights(epochs, np.concatenate([fine[:, 0], fine[:, 1:].ravel()]))


def spectrum(epochs: Epochs, weights: Array) -> tuple[float, float]:
    """Bounds on the spectrum of T = W^(-1/2) G^-1 W^(-1/2): the trace of T^-1, and the norm."""
    alpha, beta = epochs.couplings
    edges = np.sqrt(2.0 * (alpha**2 + beta**2))
    products = edges[:, :, None] * edges[:, None, :]
    scaled = weights / products
    beyond = (1.0 - epochs.real) * scaled.max()
    least = np.linalg.eigvalsh(scaled + beyond[:, :, None] * np.eye(epochs.members)).min()
    return 1.0 / epochs.trace(weights), 1.01 / float(least)


def _diagonal(weights: Array) -> Array:
    """omega: the first member of every class is a step."""
    return np.asarray(weights[:, 0, 0])


def _correlations(epochs: Epochs, blocks: Array) -> Array:
    """Blocks brought to unit diagonal; 1 too for what is beyond the last step."""
    beyond = (1.0 - epochs.real)[:, :, None] * np.eye(epochs.members)
    blocks = masked(epochs, blocks) + beyond
    roots = np.sqrt(np.einsum("cee->ce", blocks))
    return np.asarray(blocks / (roots[:, :, None] * roots[:, None, :]))


def _logarithms(epochs: Epochs, omega: Array, blocks: Array) -> Array:
    """Log omega, then the logarithms of the matrices Y_c, as one vector."""
    values, vectors = np.linalg.eigh(_correlations(epochs, blocks))
    logs = (vectors * np.log(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.concatenate([np.log(omega), logs.ravel()])


def _weights(epochs: Epochs, logarithms: Array) -> Array:
    """W from logarithms of omega, up to a constant, and of blocks, up to their diagonals."""
    b, m = epochs.every, epochs.members
    omega = np.exp(logarithms[:b] - logarithms[:b].max())
    logs = logarithms[b:].reshape(b, m, m)
    values, vectors = np.linalg.eigh(0.5 * (logs + np.swapaxes(logs, 1, 2)))
    blocks = (vectors * np.exp(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    scale = omega / omega.sum()
    return masked(epochs, scale[:, None, None] * _correlations(epochs, blocks))
