"""From the strategy of least norm to a better one for Gaussian noise under PML.

Under DP the scale of Gaussian noise depends on the largest distance of two columns alone, and the
strategy of least norm is optimal. Under PML with a delta it depends on all distances, weighed by
the prior, and a descent from that strategy finds a better one. The exact calibration decides, also
about the baselines: where one of them is better still, a second descent begins there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from pmldesign.arguments import positive
from pmldesign.designs.laplace.candidates import baselines
from pmldesign.designs.results import Design, Searched
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.calibration import calibration_seconds
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.neighbours import Neighbours, distinct_columns
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import merged
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign_solvers.norm.solution import SolverOptions, Status, step_seconds
from pmldesign_solvers.operators.operator import RANK_CUTOFF
from pmldesign_solvers.search import gaussian_pml as gaussian_search
from pmldesign_solvers.search.gaussian_pml import GaussianLeakage
from pmldesign_solvers.search.solution import SearchStep, Start

LEAST_EPSILON, LEAST_DELTA = 1e-10, 1e-200
"""Below these the strategy of least norm is kept: the smoothed loss, which the descent follows, was
finite at these values for slack and envelope, and vanished at 1e-50 and 1e-300."""
ALL_BASELINES = 64
"""Up to so many cells every baseline is calibrated (10 ms to 100 each)."""
ROUNDING, LITTLE = 1e-12, 1e-3
"""By how much a baseline is better at least, relatively; seconds of a descent without time left."""
SCALE_SECONDS, TUNED = 1e-6, 10
"""For each pair of cells: what the scale of the noise takes, rather more; as many of them choose c
of the envelope."""


def gaussian_design(
    norm_design: Design,
    guarantee: PMLGuarantee,
    *,
    time_limit: float | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> Searched:
    """Descend from the strategy of least norm to a smaller error under Gaussian noise.

    Args:
        norm_design: from `factorize`, for the replace relation, where to begin.
        guarantee: PML with a delta.
        time_limit: in seconds; None for none.
        callback: called after every stage. Ctrl-C during the descent returns the best so far.

    Returns:
        The design, never worse than the start; one without gain has the strategy of the start.

    Raises:
        InvalidInputError: a design for add-remove, or an argument out of range.
        VacuousGuaranteeError: the strategy needs no noise at all to meet the guarantee.
    """
    if norm_design.neighbours is not Neighbours.REPLACE:
        raise InvalidInputError(
            "norm_design must be for neighbours 'replace', which PML is about, got 'add-remove'"
        )
    if time_limit is not None:
        time_limit = positive("time_limit", time_limit)
    begin = time.perf_counter()
    workload, p, start = norm_design.workload, norm_design.p, norm_design.strategy
    before = mechanism(start, workload, guarantee=guarantee, noise="gaussian", p=p)
    after, status = _descended(before, p, guarantee, time_limit, callback)
    best = min(before, after, key=lambda candidate: candidate.error(p))
    end = math.inf if time_limit is None else begin + time_limit
    if status is not Status.INTERRUPTED:
        rivals = list(_baselines(workload, guarantee, p, end))
        rival = min(rivals, key=lambda candidate: candidate.error(p), default=best)
        if rival.error(p) < best.error(p) * (1 - ROUNDING):
            left = None if time_limit is None else begin + time_limit - time.perf_counter()
            left = None if left is None else max(left, LITTLE)
            polished, status = _descended(rival, p, guarantee, left, callback)
            best = min(rival, polished, key=lambda candidate: candidate.error(p))
    if status is not Status.INTERRUPTED and time.perf_counter() >= end:
        status = Status.TIME_LIMIT  # perhaps before the last baseline
    return Searched(
        mechanism=best,
        status=status,
        starts=(Start("least-norm", before.error(p), best.error(p)),),
        seconds=time.perf_counter() - begin,
        before=before,
    )


def _baselines(
    workload: Workload, guarantee: PMLGuarantee, p: float, end: float
) -> Iterator[Mechanism]:
    """Every baseline that can be calibrated in time, with Gaussian noise for the guarantee."""
    for candidate in baselines(workload, guarantee, all_up_to=ALL_BASELINES):
        if time.perf_counter() >= end:
            return
        try:
            noisy = mechanism(candidate, workload, guarantee=guarantee, noise="gaussian", p=p)
        except (InvalidInputError, VacuousGuaranteeError):
            continue
        yield noisy


def _descended(
    before: Mechanism,
    p: float,
    guarantee: PMLGuarantee,
    time_limit: float | None,
    callback: Callable[[SearchStep], None] | None,
) -> tuple[Mechanism, Status]:
    """What a descent from a strategy comes to, and why it stopped."""
    if guarantee.epsilon < LEAST_EPSILON or guarantee.delta < LEAST_DELTA:
        return before, Status.COMPLETED
    workload, R = before.workload.whole, before.strategy.matrix
    envelope = guarantee.failure == "envelope"
    seconds = step_seconds(*R.shape) + (TUNED if envelope else 1) * SCALE_SECONDS * R.shape[1] ** 2
    seconds += calibration_seconds(guarantee, Noise.GAUSSIAN, *R.shape)
    if not SolverOptions(time_limit=time_limit).allows(seconds):
        return before, Status.TIME_LIMIT
    # any matrix of the same Gram matrix and of full row rank will do
    _, values, right = np.linalg.svd(R, full_matrices=False)
    rank = int((values > RANK_CUTOFF * values[0]).sum())
    if rank < len(R):
        R, inverse = values[:rank, None] * right[:rank], right[:rank].T / values[:rank]
    else:
        inverse = before.strategy.pseudo_inverse
    columns, cell_of = distinct_columns(R)
    alpha = merged(guarantee.class_probabilities(workload.shape[1]), cell_of)
    M, status = gaussian_search.solve(
        workload.without_offsets()[0],
        p,
        right_inverse=inverse,
        columns=columns,
        scale=GaussianLeakage(
            guarantee.epsilon, guarantee.delta, alpha, share=0.0 if envelope else None
        ),
        time_limit=time_limit,
        callback=callback,
    )
    strategy = Strategy("design", M @ R)
    after = mechanism(strategy, workload, guarantee=guarantee, noise="gaussian", p=p)
    return min(before, after, key=lambda candidate: candidate.error(p)), status
