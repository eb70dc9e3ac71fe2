"""From a workload, p and a guarantee to a strategy for Laplace noise.

The scale of Laplace noise depends on l1 distances: the largest column norm (DP, add-remove), the
largest distance of two columns (DP, replace), or all distances weighed by the prior (PML, Corollary
1 of [ZSO]). The error is not a convex function of the strategy, so a search from many starts finds
a good one, never worse than any start, and lower bounds say how far from the best possible it is.

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware privacy bounds for linear queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pmldesign._arguments import exponent, positive
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import PML, ApproxDP, ApproxPML, EnvelopePML, Guarantee, PureDP
from pmldesign.mechanism import Mechanism, mechanism, require_feasible
from pmldesign.neighbours import Neighbours
from pmldesign.quick import require_quick
from pmldesign.searched_design import SearchedDesign
from pmldesign.solving import STRUCTURED
from pmldesign.strategies import Strategy, baseline, kronecker
from pmldesign.workloads import (
    KroneckerWorkload,
    Workload,
    as_workload,
)
from pmldesign_solvers import l1_strategies
from pmldesign_solvers.l1_scales import AddRemoveL1, Leakage, ReplaceL1, ScaleRule
from pmldesign_solvers.l1_solution import L1Solution, L1Status, L1Step, Start

DP_RESTARTS = 4
"""Random starts of the search under DP that a search under PML begins from."""
SEARCHED_CELLS = 1024
"""Largest number of cells of a product, of marginals or of a union for a search of their own."""
SHORT = 0.1
"""Seconds in which a search compares its starts, and little more."""


def laplace_design(
    workload: Any,
    guarantee: Guarantee,
    *,
    p: float = 2.0,
    starts: Iterable[Strategy] = (),
    signed: bool = True,
    seed: int = 0,
    time_limit: float | None = None,
    callback: Callable[[L1Step], None] | None = None,
) -> SearchedDesign:
    """Search for the strategy with the smallest error under Laplace noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        guarantee: any; a delta is not used by Laplace noise.
        p: in [2, inf].
        starts: strategies to begin from, besides tree, Haar, the workload (unless it is large),
            the identity, under PML the best strategy found for DP, and for a product workload under
            add-remove the product of the best ones found for its factors; the answer is at least
            as good as every one of them that answers the workload.
        signed: allow strategies with negative entries.
        seed: of the random starts; the same seed gives the same strategy unless time runs out.
        time_limit: in seconds; None for none.
        callback: called with every `L1Step`. Ctrl-C during the search returns the best so far.

    Returns:
        The design, whatever the status. A product, marginals or a union of products with more than
        SEARCHED_CELLS cells gets the best of its starts.

    Raises:
        InvalidInputError: an argument out of range, or a workload that needs no measurement.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    workload = as_workload(workload)
    p = exponent(p)
    if time_limit is not None:
        time_limit = positive("time_limit", time_limit)
    cells = workload.shape[1]
    require_feasible(guarantee, cells, noise="laplace", p=p)
    starts = [*starts, *_baselines(workload, guarantee)]
    options: dict[str, Any] = {"signed": signed, "seed": seed, "callback": callback}
    begin = time.perf_counter()
    found: L1Solution | None = None
    product, interrupted = None, False
    searched = _is_searched(workload)
    try:
        if (
            isinstance(workload, KroneckerWorkload)
            and guarantee.neighbours is Neighbours.ADD_REMOVE
        ):
            limit = time_limit / 4 if searched and time_limit is not None else time_limit
            rule = AddRemoveL1(guarantee.epsilon)
            product, interrupted = _product(workload, p, guarantee, rule, limit, options)
            if interrupted:
                time_limit = SHORT
        if not searched:
            return _unsearched(workload, guarantee, p, starts, product, begin)
        named = {one.name: one.matrix for one in [*starts, *([product] if product else [])]}
        if isinstance(guarantee, PML | ApproxPML | EnvelopePML):
            # so that knowing the prior is never worse than not knowing it
            plain = l1_strategies.solve(
                workload,
                p,
                scale=ReplaceL1(guarantee.epsilon),
                starts=named,
                restarts=DP_RESTARTS,
                time_limit=None if time_limit is None else time_limit / 3,
                **options,
            )
            named["for DP"] = plain.strategy
            if plain.status is L1Status.INTERRUPTED:
                found = plain  # the best so far
        if found is None:
            found = l1_strategies.solve(
                workload,
                p,
                scale=_rule(guarantee, cells),
                starts=named,
                time_limit=None if time_limit is None else _left(time_limit, begin),
                **options,
            )
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"workload {workload.name!r}: {error}") from error
    # the exact calibration decides, also where two strategies differ by its rounding only
    candidates = [found.strategy, *([named["for DP"]] if "for DP" in named else [])]
    made = min(
        (
            mechanism(Strategy("design", one), workload, guarantee=guarantee, noise="laplace", p=p)
            for one in candidates
        ),
        key=lambda one: one.error(p),
    )
    return SearchedDesign(
        workload=workload,
        p=p,
        guarantee=guarantee,
        mechanism=made,
        status=L1Status.INTERRUPTED if interrupted else found.status,
        starts=found.starts,
        seconds=time.perf_counter() - begin,
    )


def _unsearched(
    workload: Workload,
    guarantee: Guarantee,
    p: float,
    starts: Sequence[Strategy],
    product: Strategy | None,
    begin: float,
) -> SearchedDesign:
    """The best of the starts on a workload with too many cells for a search."""
    made: list[Mechanism] = []
    reason: InvalidInputError | None = None
    for start in [*starts, *([] if product is None else [product])]:
        try:
            one = mechanism(start, workload, guarantee=guarantee, noise="laplace", p=p)
            one.error(p)
        except InvalidInputError as error:
            reason = reason or error
        else:
            made.append(one)
    if not made:
        raise reason or InvalidInputError(
            f"workload {workload.name!r} has no strategy to start from"
        )
    return SearchedDesign(
        workload=workload,
        p=p,
        guarantee=guarantee,
        mechanism=min(made, key=lambda one: one.error(p)),
        status=L1Status.UNSEARCHED,
        starts=tuple(Start(one.strategy.name, one.error(p), one.error(p)) for one in made),
        seconds=time.perf_counter() - begin,
    )


def _product(
    workload: KroneckerWorkload,
    p: float,
    guarantee: Guarantee,
    rule: AddRemoveL1,
    time_limit: float | None,
    options: dict[str, Any],
) -> tuple[Strategy, bool]:
    """The product of the strategies found for the factors, and whether Ctrl-C cut it short."""
    factors = dict.fromkeys(workload.factors)
    found, interrupted = {}, False
    for factor in factors:
        limit = None if time_limit is None else time_limit / len(factors)
        one = l1_strategies.solve(
            factor,
            p,
            scale=rule,
            starts={start.name: start.matrix for start in _baselines(factor, guarantee)},
            time_limit=SHORT if interrupted else limit,
            **options,
        )
        interrupted = interrupted or one.status is L1Status.INTERRUPTED
        found[factor] = Strategy("product", one.strategy)
    return kronecker([found[factor] for factor in workload.factors]), interrupted


def _left(time_limit: float, begin: float) -> float:
    """What is left of the time, a little at least."""
    return max(time_limit - (time.perf_counter() - begin), SHORT)


def _baselines(workload: Workload, guarantee: Guarantee) -> Iterator[Strategy]:
    """Baselines to begin from, unless they would be large."""
    queries, cells = workload.shape
    names = ["tree", "haar"]
    if not _is_searched(workload):
        names += ["identity", "workload"]  # a search begins with the identity anyway
    elif queries <= 4 * cells:
        names.append("workload")
    for name in names:
        try:
            require_quick(name, workload, guarantee, guarantee.neighbours)
            yield baseline(name, workload)
        except InvalidInputError:  # a product over an attribute of very many values
            continue


def _is_searched(workload: Workload) -> bool:
    return workload.shape[1] <= SEARCHED_CELLS or not isinstance(workload, STRUCTURED)


def _rule(guarantee: Guarantee, cells: int) -> ScaleRule:
    """How the scale of the noise follows from the strategy."""
    if isinstance(guarantee, PureDP | ApproxDP):
        if guarantee.neighbours is Neighbours.ADD_REMOVE:
            return AddRemoveL1(guarantee.epsilon)
        return ReplaceL1(guarantee.epsilon)
    return Leakage(guarantee.epsilon, guarantee.class_probabilities(cells))
