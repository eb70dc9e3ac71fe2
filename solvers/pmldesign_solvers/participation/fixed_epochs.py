"""The norm for people who take part in fixed epochs, with a certificate and its strategy.

Data of neighbours differ in one person, who takes part in steps c, c + b, c + 2 b, ... with
contributions of norm at most 1. n <= k b: a class of steps that are b apart is all of a person's.

**Lower bound.** For any W of `fixed_point`, f(W) = tr (A W A^T)^(1/2) <= gamma: a strategy C of
sensitivity 1 has <X_cc, Y_c> <= max over contributions of norm at most 1, as Y_c is the Gram matrix
of unit vectors, so tr X W <= sum omega_c = 1, and tr((A X^-1 A^T)) tr X W >= f(W)^2. For
contributions that are numbers this needs X >= 0 (or fewer than 3 epochs). tr r(T) / (1 + excess)
is at most f(W) (`streams.certificate`).

**Upper bound.** X of nodes and weights: sensitivity^2 is at most the largest sum of abs(X_cc), and
tr A X^-1 A^T = tr g(T), g = 1 / (x r(x)), a function of the same form:

    tr g(T) = n d + e_0 tr A W A^T + sum_j e_j sum_c <W_c, (G^-1 + z_j^2 W)^-1_cc>.

Rounding is allowed for by ROUNDING units a step, which is not proved; dense matrices agree to
1e-12.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.bounds_loop import CLOSER, BoundsLoop, final_status
from pmldesign_solvers.norm.options import SolverOptions
from pmldesign_solvers.norm.solution import Bounds, Outcome, Status
from pmldesign_solvers.operators.operator import EPS, Array
from pmldesign_solvers.participation.epochs import Epochs, resolvent_blocks
from pmldesign_solvers.participation.fixed_point import EpochPoint, fit, spectrum, start
from pmldesign_solvers.streams.clock import Clock
from pmldesign_solvers.streams.nodes import Nodes, zolotarev
from pmldesign_solvers.streams.solve import nodes_for

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
    begin = time.perf_counter()
    clock = Clock(begin, options.time_limit)
    search = BoundsLoop(_candidates(epochs, options.rel_gap, clock), options, begin)
    closer = CLOSER
    for _ in range(CORRECTIONS):
        status = Status.INTERRUPTED if clock.interrupted else search.run(closer)
        dual, point = search.lower.point, search.upper.point
        lower = float(clock.completed(partial(lower_bound, epochs, dual.weights)))
        certificate = Certificate(lower, clock.completed(partial(upper_bound, epochs, point)))
        if clock.interrupted:
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


def _candidates(epochs: Epochs, rel_gap: float, clock: Clock) -> Iterator[_Candidate]:
    error = math.sqrt(4.0 * SHARE * rel_gap)
    guess = nodes_for(float(epochs.sums.cells) ** 2 + 1e3, error)
    weights = start(epochs, guess, clock)
    smallest, largest = spectrum(epochs, weights)
    count = nodes_for(largest / smallest, error)
    for point in clock.begun(lambda: fit(epochs, count, weights)):
        # both sides in units of tr r(T) / f(W), which hardly changes; `solve` has the last word
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
    """A squared sensitivity with what rounding may have taken away."""
    return sensitivity * (1.0 + STEP_UNITS * epochs.sums.cells * EPS)


def variance_sum(epochs: Epochs, weights: Array, nodes: Nodes) -> tuple[float, float]:
    """Tr A X^-1 A^T, and by how much it may be too small, relatively."""
    reciprocal = nodes.reciprocal()
    total = float((resolvent_blocks(epochs, weights, reciprocal) * weights).sum())
    total += epochs.sums.cells * reciprocal.constant + reciprocal.origin * epochs.trace(weights)
    return total, nodes.shortfall(reciprocal) + STEP_UNITS * epochs.sums.cells * EPS
