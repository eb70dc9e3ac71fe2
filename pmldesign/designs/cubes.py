"""From a workload, p and a guarantee to a strategy for cube noise, where questions are few.

Cube noise is no longer better than Laplace noise from about ten measurements on, so nothing is
searched beyond a rank of MOST_MEASURED (`pmldesign_solvers.search.cubes`). As for Laplace noise,
the result has no optimality certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pmldesign.designs.options import Callback
from pmldesign.designs.results import Searched
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import public_for
from pmldesign.mechanisms import mechanism
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import MOST_MEASURED, Noise
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.search.cubes import rank_of, solve

MOST_LOOKED_AT = 128
"""Maximum number of queries or cells for which the rank is computed: a few milliseconds."""


def cube_design(
    workload: Workload,
    guarantee: Guarantee | None,
    p: float,
    neighbours: Neighbours,
    *,
    starts: Sequence[Strategy] = (),
    seed: int = 0,
    work: Work,
    callback: Callback | None = None,
) -> Searched:
    """Search for the strategy with the smallest error under cube noise.

    Args:
        workload: A.
        guarantee: differential privacy with an epsilon; None for a scale equal to the sensitivity.
        p: an even number, or inf.
        neighbours: the relation of the guarantee.
        starts: strategies to begin from.
        seed: of the random starts.
        work: the amount of work the search may do, and until when.
        callback: called with every `SearchStep`.

    Raises:
        InvalidInputError: too many questions, or another p.
    """
    if not is_small(workload) or not Noise.CUBE.has_error(p):
        raise InvalidInputError(
            f"a design for cube noise is for workloads of rank up to {MOST_MEASURED} on up to"
            f" {WRITTEN_CELLS} cells, and even p or inf; use `noise='laplace'`, or name a strategy"
        )
    matrix = near_one(given_invariants(workload, public_for(workload, neighbours)))[0].to_dense()
    solution = solve(
        matrix,
        p,
        replace=neighbours is Neighbours.REPLACE,
        starts=[start.matrix for start in starts if start.cells <= WRITTEN_CELLS],
        seed=seed,
        work=work,
        callback=callback,
    )
    noisy = mechanism(
        Strategy("design", solution.strategy),
        workload,
        guarantee=guarantee,
        noise="cube",
        p=p,
        neighbours=neighbours,
    )
    # the errors of starts are those at epsilon 1
    unit = noisy.error(p) / solution.error if solution.error > 0 else 1.0
    starts_of = [
        replace(start, before=unit * start.before, after=unit * start.after)
        for start in solution.starts
    ]
    return Searched(noisy, solution.status, tuple(starts_of), solution.seconds)


def is_small(workload: Workload) -> bool:
    """Whether so little is asked that cube noise may be the best."""
    m, n = workload.shape
    few = min(m, n) <= MOST_LOOKED_AT and max(m, n) <= WRITTEN_CELLS
    if workload.public.kind == "tables" or not few:
        return False
    return 1 <= rank_of(workload.to_dense()) <= MOST_MEASURED
