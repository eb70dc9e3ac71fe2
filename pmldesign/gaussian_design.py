"""From the strategy of least norm to a better one for Gaussian noise under PML.

Under DP the scale of Gaussian noise depends on the largest distance of two columns alone, and the
strategy of least norm is optimal. Under PML with a delta it depends on all distances, weighed by
the prior, and a descent from that strategy finds a better one. The exact calibration decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pmldesign._arguments import positive
from pmldesign.design import Design
from pmldesign.errors import InvalidInputError
from pmldesign.gaussian_leakage import distinct_columns
from pmldesign.guarantees import ApproxPML, EnvelopePML
from pmldesign.mechanism import mechanism
from pmldesign.neighbours import Neighbours
from pmldesign.searched_design import SearchedDesign
from pmldesign.strategies import Strategy
from pmldesign_solvers import gaussian_search
from pmldesign_solvers.gaussian_scales import GaussianLeakage
from pmldesign_solvers.l1_solution import L1Step, Start


def gaussian_design(
    norm_design: Design,
    guarantee: ApproxPML | EnvelopePML,
    *,
    time_limit: float | None = None,
    callback: Callable[[L1Step], None] | None = None,
) -> SearchedDesign:
    """Descend from the strategy of least norm to a smaller error under Gaussian noise.

    Args:
        norm_design: `design` for the replace relation, where to begin.
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
    columns, alpha = distinct_columns(
        start.matrix, guarantee.class_probabilities(workload.shape[1])
    )
    M, status = gaussian_search.solve(
        workload,
        p,
        basis=start.pseudo_inverse,
        columns=columns,
        scale=GaussianLeakage(
            guarantee.epsilon,
            guarantee.delta,
            alpha,
            share=0.0 if isinstance(guarantee, EnvelopePML) else None,
        ),
        time_limit=time_limit,
        callback=callback,
    )
    after = mechanism(
        Strategy("design", M @ start.matrix), workload, guarantee=guarantee, noise="gaussian", p=p
    )
    best = min(before, after, key=lambda one: one.error(p))
    return SearchedDesign(
        workload=workload,
        p=p,
        guarantee=guarantee,
        mechanism=best,
        status=status,
        starts=(Start("norm-optimal", before.error(p), best.error(p)),),
        seconds=time.perf_counter() - begin,
    )
