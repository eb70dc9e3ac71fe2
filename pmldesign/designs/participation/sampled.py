"""Strategies for steps that draw their records at random (docs/guides/training.md), p = 2.

With b parts of the records, amplification is for at most b bands, and no column longer than 1:

    b = 1                     the identity: an entry of the diagonal that is smaller costs error
    up to LEVEL_CELLS steps   the best of all of these, certified (`level_banded` in the solvers)
    beyond                    the best that is Toeplitz; the lower bound is that of one step

Where only the share of all records in a step is given, b is chosen for the least error at the
guarantee: 1, 2, 4 ... parts, until the error has risen twice. More bands cost less error and more
noise, as a part that is smaller is drawn from at a higher rate. b = 1 is DP-SGD.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.designs.options import DesignOptions
from pmldesign.designs.participation.bounds import StepWatch
from pmldesign.designs.results import Design
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.guarantees import ApproxDP, Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import raised
from pmldesign.privacy.sampled_steps import Sampling
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.toeplitz import from_coefficients, toeplitz_rate
from pmldesign.strategies.participation.schema import SampledParticipation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.participation import level_banded
from pmldesign_solvers.streams.chain import RunningSums

LEVEL_CELLS = 1024
"""Steps up to which all entries of the bands are free: O(n^2 b) a step, 5 s for 1000 and 16."""


def solve_sampled(workload: Workload, options: DesignOptions, single: Design) -> Design:
    """The best banded strategy for steps that are drawn.

    Args:
        workload: running sums.
        options: with the participation.
        single: the design for one step, which proves a lower bound for any number of them.

    Raises:
        InvalidInputError: no running sums, weights beyond LEVEL_CELLS steps, or buffers.
    """
    participation, sums = options.schema, workload.running_sums
    assert isinstance(participation, SampledParticipation)
    if sums is None or options.buffers is not None:
        what = repr(workload.name) if sums is None else "buffers"
        raise InvalidInputError(
            f"participation {participation} is for banded strategies of running sums, such as"
            f" prefix:1000, got {what}"
        )
    watch, bands = StepWatch(options), min(participation.apart, sums.cells)
    lower, dual, source = single.certificate.lower, single.dual_factors, "one step"
    strategy: Strategy
    if bands == 1 and toeplitz_rate(workload) is not None:
        strategy = _toeplitz(workload, sums, 1)
        source = "all strategies of 1 band"
    elif sums.cells <= LEVEL_CELLS:
        found = level_banded.solve(sums, bands, watch.reached)
        strategy = Strategy("design", found.matrix)
        rounds = participation.reach(sums.cells)
        least = math.sqrt(rounds) * found.lower * (1 - 1e-15)
        if least >= lower:
            lower, dual = least, ((np.ones(sums.cells), found.weights),)
            source = f"all strategies of {bands} bands and equal columns"
    else:
        strategy = _toeplitz(workload, sums, bands)
    measured = with_participation(strategy, participation)
    norm = Factorization(workload, measured, Neighbours.ADD_REMOVE).norm(2.0)
    upper = raised(norm, 16.0 * sum(workload.shape))
    if source == "all strategies of 1 band":
        lower = max(lower, 2 * norm - upper)
    certificate = Certificate(lower, max(lower, upper))
    close = certificate.gap <= options.rel_gap
    status = Status.TIME_LIMIT if watch.over else Status.OPTIMAL if close else Status.SEARCHED
    return Design(
        workload=workload,
        p=2.0,
        neighbours=Neighbours.ADD_REMOVE,
        strategy=measured.normalised(),
        certificate=certificate,
        dual_factors=dual,
        status=status,
        steps=watch.number,
        eigendecompositions=0,
        seconds=watch.seconds,
        forms=f"upper: {bands} bands; lower: {source}",
    )


def _toeplitz(workload: Workload, sums: RunningSums, bands: int) -> Strategy:
    rate = toeplitz_rate(workload)
    if rate is None or rate > 1:
        raise InvalidInputError(
            f"beyond {LEVEL_CELLS} steps sampled participation is for running sums without weights,"
            f" such as prefix:{sums.cells}, got {workload.name!r}"
        )
    impulse = np.zeros(sums.cells)
    impulse[:bands] = np.maximum(level_banded.toeplitz(sums.cells, bands, rate), 0.0)
    return from_coefficients("design", impulse, rate)


def with_parts(
    workload: Workload, participation: SampledParticipation, guarantee: Guarantee | None
) -> SampledParticipation:
    """The participation with the number of parts of least error.

    Raises:
        InvalidInputError: no guarantee of epsilon and delta, or no running sums without weights.
    """
    if not isinstance(guarantee, ApproxDP):
        raise InvalidInputError(
            f"participation {participation} chooses the number of parts for a guarantee of epsilon"
            " and delta; give both, or say the parts: sampled,every=16,rate=..."
        )
    rate, share = toeplitz_rate(workload), participation.rate
    sums = workload.running_sums
    if sums is None or rate is None or rate > 1:
        raise InvalidInputError(
            f"the number of parts is chosen for running sums without weights, such as prefix:1000,"
            f" got {workload.name!r}; say it: sampled,every=16,rate={16 * share:g}"
        )
    errors: list[float] = []
    most = min(sums.cells, int(1 / share))
    for bands in (2**j for j in range(most.bit_length())):
        strategy = _toeplitz(workload, sums, bands)
        rounds = -(-sums.cells // bands)
        drawn = Sampling(min(1.0, bands * share), rounds, 1.0)
        noise = drawn.roughly(guarantee.epsilon, guarantee.delta)
        errors.append(noise * math.sqrt(float(np.mean(strategy.variances(workload)))))
        if len(errors) - np.argmin(errors) > 2:
            break
    parts = 2 ** int(np.argmin(errors))
    return SampledParticipation(parts, rate=min(1.0, parts * share))
