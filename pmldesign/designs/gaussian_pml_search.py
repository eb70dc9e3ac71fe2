"""From the strategy of least norm to a better one for Gaussian noise under PML.

Under DP the scale of Gaussian noise depends only on the largest distance of two columns, and the
strategy of least norm is optimal. Under PML with a delta it depends on all distances, weighed by
the prior, and a descent from that strategy finds a better one. The exact calibration decides, also
about the baselines: if one of them is better still, a second descent begins there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from pmldesign.arguments import member, positive
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.results import Design, Searched
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import Mechanism, calibrated, mechanism
from pmldesign.privacy.guarantees import PMLGuarantee
from pmldesign.privacy.neighbours import Neighbours, distinct_columns
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import merged
from pmldesign.strategies import Strategy
from pmldesign_solvers.norm.bounds_loop import ended, stopped
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Deadline, Effort, Work
from pmldesign_solvers.operators.operator import RANK_CUTOFF
from pmldesign_solvers.search import gaussian_pml as gaussian_search
from pmldesign_solvers.search.gaussian_pml import GaussianLeakage
from pmldesign_solvers.search.solution import SearchStep, Start

LEAST_EPSILON, LEAST_DELTA = 1e-10, 1e-200
"""Below these the strategy of least norm is kept: the smoothed loss, which the descent follows, was
finite at these values for slack and envelope, and vanished at 1e-50 and 1e-300."""
ALL_BASELINES = 64
"""Up to so many cells every baseline is calibrated (10 ms to 100 each)."""
ROUNDING = 1e-12
"""By how much a baseline is better at least, relatively."""


def gaussian_design(
    norm_design: Design,
    guarantee: PMLGuarantee,
    *,
    baselines: Baselines | None = None,
    effort: Effort | str = Effort.NORMAL,
    time_limit: float | Deadline | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> Searched:
    """Descend from the strategy of least norm to a smaller error under Gaussian noise.

    Args:
        norm_design: from `factorize`, for the replace relation, where to begin.
        guarantee: PML with a delta.
        baselines: of the workload; None builds them here.
        effort: "quick", "normal" or "thorough": how much work the descent does.
        time_limit: in seconds, or a deadline; None for none.
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
    effort = member("effort", effort, Effort)
    if not (time_limit is None or isinstance(time_limit, Deadline)):
        time_limit = positive("time_limit", time_limit)
    work = Work(effort.work / 2, Deadline.of(time_limit))
    begin = time.perf_counter()
    workload, p, start = norm_design.workload, norm_design.p, norm_design.strategy
    before = mechanism(start, workload, guarantee=guarantee, noise="gaussian", p=p)
    after, status = _descended(before, p, guarantee, work, callback)
    best = min(before, after, key=lambda candidate: candidate.error(p))
    known = baselines or Baselines(workload, Neighbours.REPLACE)
    noisy = list(_noisy(known, guarantee, work))
    rival = min(noisy, key=lambda candidate: candidate.error(p), default=best)
    if rival.error(p) < best.error(p) * (1 - ROUNDING):
        polished, status = _descended(rival, p, guarantee, work, callback)
        best = min(rival, polished, key=lambda candidate: candidate.error(p))
    status = stopped(work.deadline) or status  # perhaps before the last baseline
    return Searched(
        mechanism=best,
        status=status,
        starts=(Start("least-norm", before.error(p), best.error(p)),),
        seconds=time.perf_counter() - begin,
        before=before,
    )


def _noisy(baselines: Baselines, guarantee: PMLGuarantee, work: Work) -> Iterator[Mechanism]:
    """The baselines with Gaussian noise for the guarantee, until the deadline."""
    for name in baselines.small(guarantee, all_up_to=ALL_BASELINES):
        if work.deadline.over():
            return
        with suppress(InvalidInputError, VacuousGuaranteeError):
            yield calibrated(baselines.factorization(name), guarantee, Noise.GAUSSIAN)


def _descended(
    before: Mechanism,
    p: float,
    guarantee: PMLGuarantee,
    work: Work,
    callback: Callable[[SearchStep], None] | None,
) -> tuple[Mechanism, Status]:
    """The result of a descent from a strategy, and why it stopped."""
    if guarantee.epsilon < LEAST_EPSILON or guarantee.delta < LEAST_DELTA:
        return before, Status.COMPLETED
    workload, R = before.workload.whole, before.strategy.matrix
    envelope = guarantee.failure == "envelope"
    if status := ended(work):
        return before, status
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
        work=work,
        callback=callback,
    )
    strategy = Strategy("design", M @ R)
    after = mechanism(strategy, workload, guarantee=guarantee, noise="gaussian", p=p)
    return min(before, after, key=lambda candidate: candidate.error(p)), status
