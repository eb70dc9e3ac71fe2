"""The strategies that a design for Laplace noise is never worse than.

Beside those that the caller names they are all that tables show: the baselines, the queries
themselves, weighted tables, and strategies put together from the factors of products.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import product

import numpy as np

from pmldesign.designs.rivals import require_quick
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import Mechanism, mechanism
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.priors import OnPriors, room_of
from pmldesign.privacy.public_sample import SampledAlpha
from pmldesign.strategies import BASELINES, Strategy, baseline
from pmldesign.workloads import Workload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign.workloads.union import by_attribute, tables_asked
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.search.laplace_noise import AddRemoveL1, Leakage, ReplaceL1, ScaleRule

ALL_BASELINES = 256
"""Up to so many cells of an attribute every baseline is looked at (a millisecond to 20 each)."""
USUAL = ("identity", "workload", "tree", "haar", "weighted-tree")
"""Beyond, those that `pmldesign optimize` shows, and the best binary tree; a search over all trees
takes 3 s on 1024 cells."""
TREE_CELLS = 512
"""Up to so many cells of an attribute trees of every branching are looked at, as long as there is
time (0.1 s each, under replace 0.4 s)."""
BRANCHINGS = (3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Numbers of children of trees that are looked at."""
WRITTEN_QUERIES = 2**24
"""Largest matrix of queries, in entries, that is a start of a search (a second)."""


def baselines(
    workload: Workload, guarantee: Guarantee, *, all_up_to: int = ALL_BASELINES
) -> Iterator[Strategy]:
    """The baselines to begin from, unless they would take minutes.

    Args:
        workload: what is to be answered.
        guarantee: what the noise is to meet.
        all_up_to: cells of an attribute beyond which only those of USUAL are looked at.
    """
    queries, cells = workload.shape
    few = max(part.shape[1] for part in by_attribute(workload)) <= all_up_to
    written = cells <= WRITTEN_CELLS or not workload.domain
    for name in [entry.name for entry in BASELINES] if few else USUAL:
        if name == "workload" and written and queries * cells > WRITTEN_QUERIES:
            continue
        try:
            require_quick(name, workload, guarantee, guarantee.neighbours)
            yield baseline(name, workload)
        except InvalidInputError:  # a matrix that is too large, or takes too long
            continue


def trees(workload: Workload, guarantee: Guarantee) -> Iterator[Strategy]:
    """Trees with several numbers of children, plain and weighted, of workloads in order.

    Tables have none: on 20 random unions no tree came near weighted tables, and the distances of
    all trees took 30 s on 576 cells under replace.
    """
    wide = max(part.shape[1] for part in by_attribute(workload)) > TREE_CELLS
    if wide or tables_asked(workload) is not None:
        return
    for kind, children in product(("tree", "weighted-tree"), BRANCHINGS):
        name = f"{kind}:{children}"
        try:
            require_quick(name, workload, guarantee, guarantee.neighbours)
            yield baseline(name, workload)
        except InvalidInputError:
            continue


def with_noise(
    strategy: Strategy, workload: Workload, guarantee: Guarantee, p: float
) -> Mechanism | InvalidInputError:
    """The strategy with calibrated Laplace noise and its error at p, or why there is none."""
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
