"""The norm for people who take part in fixed epochs, with a certificate and its strategy.

Data of neighbours differ in one person, who takes part in steps c, c + b, c + 2 b, ... with
contributions of norm at most 1. n <= k b: a class of steps that are b apart is all of a person's.

**Lower bound.** For any W as below, f(W) = tr (A W A^T)^(1/2) <= gamma: a strategy C of
sensitivity 1 has <X_cc, Y_c> <= max over contributions of norm at most 1, as Y_c is the Gram matrix
of unit vectors, so tr X W <= sum omega_c = 1, and tr((A X^-1 A^T)) tr X W >= f(W)^2. For
contributions that are numbers this needs X >= 0 (or fewer than 3 epochs). tr r(T) / (1 + excess)
is at most f(W) (`streams.certificate`).

**Upper bound.** X of nodes and weights: sensitivity^2 is at most the largest sum of abs(X_cc), and
tr A X^-1 A^T = tr g(T), g = 1 / (x r(x)), a function of the same form:

    tr g(T) = n d + e_0 tr A W A^T + sum_j e_j sum_c <W_c, (G^-1 + z_j^2 W)^-1_cc>.

Rounding is allowed for by ROUNDING units a step, which is not proved; dense matrices agree to
1e-12.

**Weights.** W_c = omega_c Y_c with unit diagonal of Y_c, sum omega = 1. f(W) = tr (A W A^T)^(1/2)
is concave with gradient X / 2, X = A^T (A W A^T)^(-1/2) A. At the maximum the blocks X_cc are
diagonal and their traces are all f. With X held fixed, W <- X W X has the same sum of traces and
forgets W in first order; its blocks are brought back to a constant diagonal,

    V_c = X_cc W_c X_cc,    Y_c = V_c to unit diagonal,
    omega_c = (sum_e (V_c)_ee^(1/2) / f)^2,                     then sum omega = 1,

steps along the logarithms of omega and Y, extrapolated from the last few of them (Anderson). With
the rational function r instead of the root, its own X is levelled, and the loss of r is of second
order. Weights start from every fourth step, if that is possible: the logarithms are
interpolated over log(c + 1/2).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import CLOSER, BoundsLoop, final_status
from pmldesign_solvers.norm.fixed_point import Anderson
from pmldesign_solvers.norm.solution import Bounds, Outcome, SolverOptions, Status
from pmldesign_solvers.operators.deadline import Deadline
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.participation.epochs import Epochs, masked, resolvent_blocks
from pmldesign_solvers.streams.nodes import Nodes, zolotarev
from pmldesign_solvers.streams.solve import nodes_for

STRIDE = 1.2
"""Of a full step; 0.8 and 1.0 take a tenth more steps for 256 steps in 4 and 16 epochs."""
MEMORY = 8
"""Steps to extrapolate from; 4 take a fifth more."""
CUTOFF = 1e-8
"""Of `Anderson`: moves are accurate to so much, relatively, as r is not an exact root."""
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


def start(epochs: Epochs, count: int, deadline: Deadline) -> Array:
    """Weights to start from, of coarser steps if possible."""
    if epochs.every < FEWEST or epochs.every % 4 or not epochs.sums.smooth:
        places = np.arange(epochs.members)
        block = CORRELATION ** np.abs(np.subtract.outer(places, places))
        return masked(epochs, np.tile(block / epochs.every, (epochs.every, 1, 1)))
    coarse = Epochs(epochs.sums.coarser(), epochs.every // 4)
    weights = start(coarse, count, deadline)
    steps = 0 if deadline.over() else COARSE_STEPS
    with deadline.catching():
        for point in islice(fit(coarse, count, weights), steps):
            weights = point.weights
            if point.slope <= COARSE_SLOPE or deadline.over():
                break
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
    """Blocks brought to unit diagonal; 1 also beyond the last step."""
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


STEP_UNITS = 64
"""Units of eps a step that both bounds are moved outwards."""
SHARE = 0.1
"""Part of the gap that the nodes of the strategy may take."""
CORRECTIONS = 6
"""How often a search goes on that believed its bounds to be closer than they are."""
FINE = 1e-9
"""Error of the nodes of the lower bound."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EpochSolution(Outcome):
    """Weights and nodes of a strategy X = sum_k c_k (G^-1 + s_k^2 W)^-1.

    The weights w of the lower bound are W_c, shape (b, m, m); those of the queries are 1.

    Attributes:
        weights: W_c, shape (b, m, m).
        nodes: s_k and c_k, scaled to sensitivity 1.
    """

    weights: Array
    nodes: Nodes


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate(Bounds):
    point: EpochPoint


def solve(epochs: Epochs, options: SolverOptions) -> EpochSolution:
    """Compute the norm for fixed epochs at p = 2, with a certificate and the strategy.

    Args:
        epochs: the running sums and the distance b >= 2 of a person's steps.
        options: when to stop.
    """
    begin, deadline = time.perf_counter(), options.deadline
    search = BoundsLoop(_candidates(epochs, options.rel_gap, deadline), options, begin)
    closer = CLOSER
    for _ in range(CORRECTIONS):
        status = search.run(closer)
        dual, point = search.lower.point, search.upper.point
        lower = float(deadline.completed(partial(lower_bound, epochs, dual.weights)))
        certificate = Certificate(lower, deadline.completed(partial(upper_bound, epochs, point)))
        if deadline.interrupted:
            status = Status.INTERRUPTED
        if certificate.gap <= options.rel_gap or status is not Status.OPTIMAL:
            break
        closer *= 0.5
    nodes = Nodes(
        point.nodes.poles, point.nodes.weights / raised_sensitivity(epochs, point.sensitivity)
    )
    return EpochSolution(
        weights=point.weights,
        nodes=nodes,
        dual_u=np.ones(epochs.sums.cells),
        dual_w=dual.weights,
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
        steps=search.steps,
        seconds=time.perf_counter() - begin,
    )


def _candidates(epochs: Epochs, rel_gap: float, deadline: Deadline) -> Iterator[_Candidate]:
    error = math.sqrt(4.0 * SHARE * rel_gap)
    guess = nodes_for(float(epochs.sums.cells) ** 2 + 1e3, error)
    weights = start(epochs, guess, deadline)
    smallest, largest = spectrum(epochs, weights)
    count = nodes_for(largest / smallest, error)
    for point in deadline.begun(lambda: fit(epochs, count, weights)):
        # both sides in units of tr r(T) / f(W), which is nearly constant; `solve` certifies
        upper = point.trace * math.sqrt(1.0 + point.slope) * (1.0 + 0.25 * error**2)
        yield _Candidate(point.trace, upper, point)


def lower_bound(epochs: Epochs, weights: Array) -> float:
    """Certified lower bound from weights W_c of constant diagonal, which are normalised here."""
    smallest, largest = spectrum(epochs, weights)
    nodes = zolotarev(smallest, largest, nodes_for(largest / smallest, FINE))
    trace = float((resolvent_blocks(epochs, weights, nodes) * weights).sum())
    diagonals = np.einsum("cee->ce", weights).max(axis=1)
    scale = math.sqrt(math.fsum(diagonals))
    rounding = STEP_UNITS * epochs.sums.cells * EPS
    return trace / scale / (1.0 + nodes.excess()) * (1.0 - rounding)


def upper_bound(epochs: Epochs, point: EpochPoint) -> float:
    """Certified upper bound: the value of the strategy."""
    value, off = variance_sum(epochs, point.weights, point.nodes)
    return math.sqrt(value * (1.0 + off) * raised_sensitivity(epochs, point.sensitivity))


def raised_sensitivity(epochs: Epochs, sensitivity: float) -> float:
    """A squared sensitivity plus a bound on the rounding."""
    return sensitivity * (1.0 + STEP_UNITS * epochs.sums.cells * EPS)


def variance_sum(epochs: Epochs, weights: Array, nodes: Nodes) -> tuple[float, float]:
    """Tr A X^-1 A^T, and by how much it may be too small, relatively."""
    reciprocal = nodes.reciprocal()
    total = float((resolvent_blocks(epochs, weights, reciprocal) * weights).sum())
    total += epochs.sums.cells * reciprocal.constant + reciprocal.origin * epochs.trace(weights)
    return total, nodes.shortfall(reciprocal) + STEP_UNITS * epochs.sums.cells * EPS
