"""From a workload, p and a guarantee to a strategy for Laplace noise.

The scale of Laplace noise depends on l1 distances: the largest column norm (DP, add-remove), the
largest distance of two columns (DP, replace), or all distances weighed by the prior (PML, Corollary
1 of [ZSO]). The error is not a convex function of the strategy, so a search from many starts finds
a good one, never worse than any start, and lower bounds say how far from the best possible it is.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pmldesign.arguments import exponent, member, positive
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.laplace.course import LaplaceSearch
from pmldesign.designs.results import Searched
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import require_feasible
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.strategies import Strategy
from pmldesign.workloads import as_workload
from pmldesign_solvers.operators.deadline import Deadline, Effort, Work
from pmldesign_solvers.search.solution import SearchStep


def laplace_design(
    workload: Any,
    guarantee: Guarantee,
    *,
    p: float = 2.0,
    starts: Iterable[Strategy] = (),
    seed: int = 0,
    baselines: Baselines | None = None,
    effort: Effort | str = Effort.NORMAL,
    time_limit: float | Deadline | None = None,
    callback: Callable[[SearchStep], None] | None = None,
) -> Searched:
    """Search for the strategy with the smallest error under Laplace noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        guarantee: any; a delta is not used by Laplace noise.
        p: in [2, inf].
        starts: strategies to begin from, added to the baselines, weighted tables for tables, under
            PML the best strategy found for DP, and for a product workload under add-remove the
            product of the best ones found for its factors; the answer is at least as good as every
            one of them that answers the workload.
        seed: of the random starts; the same seed gives the same strategy before the time limit.
        baselines: of the workload; None builds them here.
        effort: "quick", "normal" or "thorough": how much work the search does.
        time_limit: in seconds, or a deadline; None for none.
        callback: called with every `SearchStep`. Ctrl-C during the search returns the best so far.

    Returns:
        The design, whatever the status. The best start is returned for a workload given invariants,
        a product or a union of products with more than SEARCHED_CELLS cells, and tables with more
        than SEARCHED_TABLES. Ranges with more than FOLLOWED cells get, under add-remove, tents at
        p = 2.

    Raises:
        InvalidInputError: an argument out of range, or a workload that needs no measurement.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    workload = as_workload(workload)
    p = exponent(p)
    effort = member("effort", effort, Effort)
    if not (time_limit is None or isinstance(time_limit, Deadline)):
        time_limit = positive("time_limit", time_limit)
    cells = workload.shape[1]
    require_feasible(guarantee, cells, noise="laplace", p=p)
    work = Work(effort.work, Deadline.of(time_limit))
    known = baselines or Baselines(workload, guarantee.neighbours)
    search = LaplaceSearch(workload, guarantee, p, work, seed, effort.least_gain, callback, known)
    try:
        return search.run(list(starts))
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error
