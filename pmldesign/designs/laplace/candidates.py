"""The strategies that a design for Laplace noise is never worse than; and tents, for ordered cells.

They are the strategies that the caller names and all those that tables show: the baselines, the
queries themselves, weighted tables, and strategies put together from the factors of products.

For ranges of many cells `pmldesign_solvers.search.tents` finds the identity with tents at p = 2,
which is never materialized.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count, product

import numpy as np

from pmldesign.designs.baselines import Baselines
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors, room_of
from pmldesign.privacy.public_sample import SampledAlpha
from pmldesign.strategies import Strategy, baseline
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.workloads import Workload
from pmldesign.workloads.ranges import separable_gram
from pmldesign.workloads.terms.over import as_terms, attribute_queries
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.limits import GRAM_CELLS, TENT_ENTRIES, WRITTEN_CELLS
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Work
from pmldesign_solvers.search import tents
from pmldesign_solvers.search.descent import single_thread
from pmldesign_solvers.search.laplace_noise import AddRemoveL1, Leakage, ReplaceL1, ScaleRule
from pmldesign_solvers.search.plan import FOLLOWED
from pmldesign_solvers.search.solution import SearchStep, Start
from pmldesign_solvers.search.tent_problem import DenseGram, Gram, SeparableGram

ALL_BASELINES = 256
"""Up to so many cells of an attribute every baseline is looked at (a millisecond to 20 each)."""
TREE_CELLS = 512
"""Up to so many cells of an attribute trees of every branching are looked at, as long as there is
work left (0.1 s each, under replace 0.4 s)."""
BRANCHINGS = (3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Numbers of children of trees that are looked at."""
SPACING = 20
"""Cells from one row to the next of the finest level, if enough work is left."""
NOISE_WORK, START_WORK = 14.0, 9.0
"""Units of `Work` of the noise and the error of tents, for each n k^2 of k rows on n cells, and of
their first weights for each k^3; both are to be a quarter of the work that is left, with fewer
rows."""
CACHED_CELLS, MEMORY_WORK = 2**16, 3e3
"""Beyond CACHED_CELLS cells every entry of the rows costs MEMORY_WORK more, as the rows do not stay
in the cache."""


def trees(workload: Workload, guarantee: Guarantee, baselines: Baselines) -> Iterator[Strategy]:
    """Trees with several numbers of children, plain and weighted, of workloads in order.

    Tables have none: on 20 random unions no tree came near weighted tables, and the distances of
    all trees took 30 s on 576 cells under replace.
    """
    wide = max(part.shape[1] for part in attribute_queries(workload)) > TREE_CELLS
    if wide or as_terms(workload).counts:
        return
    for kind, children in product(("tree", "weighted-tree"), BRANCHINGS):
        name = f"{kind}:{children}"
        with suppress(InvalidInputError):
            baselines.require_small(name, guarantee)
            yield baseline(name, workload)


def with_noise(
    strategy: Strategy, workload: Workload, guarantee: Guarantee, p: float
) -> Mechanism | InvalidInputError:
    """The strategy with calibrated Laplace noise and its error at p, or the reason it has none."""
    try:
        noisy = mechanism(strategy, workload, guarantee=guarantee, noise="laplace", p=p)
        noisy.error(p)
    except InvalidInputError as error:
        return error
    return noisy


def promising(candidates: Iterable[Strategy], best: Mechanism, p: float) -> Iterator[Strategy]:
    """The candidates that the nuclear norm of A does not rule out.

    By Cauchy and Schwarz tr A (R^T R)^-1 A^T >= norm(A)_*^2 / norm(R)_F^2.
    """
    workload = best.workload
    several = bool(workload.domain) or workload.shape[1] > WRITTEN_CELLS
    if p > 2 or several or best.neighbours is Neighbours.REPLACE:
        yield from candidates
        return
    nuclear = cache(partial(_nuclear_norm, workload))
    # the error over the scale of noise for sensitivity 1
    reached = best.error(2) * best.sensitivity / best.scale / math.sqrt(2)
    for candidate in candidates:
        sensitivity = candidate.sensitivity_under(Neighbours.ADD_REMOVE, "l1")
        if sensitivity * nuclear() < reached * float(np.linalg.norm(candidate.matrix)):
            yield candidate


def _nuclear_norm(workload: Workload) -> float:
    """norm(A)_*, rounded down; seconds for thousands of cells."""
    scaled, exponent = near_one(workload)
    eigenvalues = np.linalg.eigvalsh(scaled.gram(np.ones(scaled.shape[0])))
    return math.ldexp(float(np.sqrt(eigenvalues.clip(min=0)).sum()) * (1 - 1e-6), exponent)


def _rows_for(n: int, work: Work) -> tuple[float, Work]:
    """Maximum rows in a level of tents on n cells, and the work that remains after their noise."""
    part = work.left / 4
    each = MEMORY_WORK / NOISE_WORK / 2 if n > CACHED_CELLS else 0.0
    most = math.sqrt(part / (NOISE_WORK * n) + each**2) - each
    few = min(most, (part / START_WORK) ** (1 / 3), n / SPACING, TENT_ENTRIES / n)
    rows = max(1.0, few)
    noise = NOISE_WORK * n * rows * (rows + 2 * each)
    share = 1.0 if math.isinf(work.left) else max(1.0 - noise / max(work.left, 1.0), 0.0)
    return rows, work.part(share)


def scale_rule(guarantee: Guarantee, cells: int) -> ScaleRule:
    """How the scale of the noise follows from the strategy."""
    if not isinstance(guarantee, OnPriors):
        if guarantee.neighbours is Neighbours.ADD_REMOVE:
            return AddRemoveL1(guarantee.laplace_ratio)
        return ReplaceL1(guarantee.laplace_ratio)
    least = guarantee.class_probabilities(cells)
    if isinstance(guarantee.alpha, SampledAlpha):
        return Leakage(guarantee.epsilon, least, *room_of(guarantee.alpha))
    return Leakage(guarantee.epsilon, least)


def has_order(workload: Workload) -> bool:
    """Whether tents come alone at first, for a workload of this form and size."""
    cells = workload.shape[1]
    if cells <= FOLLOWED:
        return False
    return separable_gram(workload) is not None or (
        workload.ends is not None and cells <= GRAM_CELLS
    )


def tents_design(
    workload: Workload,
    guarantee: Guarantee,
    p: float,
    work: Work,
    callback: Callable[[SearchStep], None] | None = None,
) -> tuple[Mechanism, Start, Status]:
    """The identity with tents for p = 2 under add-remove, its noise and its error at p.

    Args:
        workload: ranges, see `has_order`.
        guarantee: the guarantee that the noise has to meet.
        p: of the error, in [2, inf].
        work: when the search stops.
        callback: called after every descent, with the error at p = 2.

    Returns:
        The mechanism; its start, and why the search for it stopped.
    """
    parts = separable_gram(workload)
    gram: Gram
    if parts is None:
        gram = DenseGram(workload.gram(np.ones(workload.shape[0])))
    else:
        gram = SeparableGram(*parts)
    begin, numbers = time.perf_counter(), count(1)
    epsilon = scale_rule(guarantee, workload.shape[1]).epsilon

    def report(trace: float) -> None:
        if callback is not None:
            error = math.sqrt(2 * trace) / epsilon
            callback(SearchStep(next(numbers), error, time.perf_counter() - begin))

    rows, afterwards = _rows_for(workload.shape[1], work)
    with single_thread():
        solution = tents.design(gram, work=afterwards, most_rows=rows, callback=report)
    sums = 1 + solution.rows.sum(axis=0)
    strategy = IdentityAndRows("design", 1 / sums, solution.rows / sums)
    noisy = mechanism(strategy, workload, guarantee=guarantee, noise="laplace", p=p)
    error = noisy.error(p)
    before = error * math.sqrt(solution.before / solution.after)
    return noisy, Start(solution.name, before, error, solution.settled), solution.status
