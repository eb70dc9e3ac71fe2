"""The baselines beside a design: which are worth their time, and none is better.

A design for Gaussian noise is certified, a search for Laplace noise has looked at baselines itself,
but not at those whose noise is less on the grid of their whole measurements.
Where that does not settle it, because the bounds are apart, time ran out or a person takes part
several times, every baseline of the table gets the noise of the guarantee as well, and the design
is the best of all that can be measured. A number of buffers that was asked for, and Ctrl-C, rule
them out.

The cost of the row of a strategy of r measurements on n cells, in multiplications and the like:

    trees, Haar, identity            n^2, or r n under PML for each cell: all distances of cells
    ranges themselves                n^3: the Gram matrix and its inverse
    any other queries, add-remove    r n min(r, n): the pseudo-inverse
    under replace                    r n^2: the distances of cells, of very many bounds on them
    identity of very many cells      n
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pmldesign.designs.estimates import ANSWERED, BEYOND, allows, late, limit_of
from pmldesign.designs.options import LEAST_TIME, SEARCHED_CELLS, DesignOptions
from pmldesign.designs.results import Design, Optimized, Searched
from pmldesign.designs.targets.accuracy import is_inverted, kinds_of_rows
from pmldesign.errors import InfeasibleError, InvalidInputError, VacuousGuaranteeError
from pmldesign.factorization import answer
from pmldesign.mechanisms import Mechanism, calibrated, on_own_grid, smallest_error
from pmldesign.privacy.calibration import calibration_seconds
from pmldesign.privacy.columns import MOST_PAIRED
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, baseline
from pmldesign.strategies.baselines.queries import large_union
from pmldesign.strategies.baselines.registry import (
    SHARES,
    long_baseline,
    nested_baseline,
    usual_baselines,
)
from pmldesign.strategies.participation.schema import AnyParticipation, Participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign.workloads.display import count_text
from pmldesign.workloads.union import by_attribute
from pmldesign_solvers.limits import MAX_ENTRIES, WRITTEN_CELLS
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.search.laplace_sums import LONG

CLOSE = 1e-6
"""Relative difference of errors that counts as none."""
CHEAP = ("tree", "haar", "identity")
WRITTEN, SUMMED = 8e-8, 5e-6
"""Seconds for each pair of steps of a matrix of which l1 lengths of patterns are taken, and for
each entry of L in the error of Laplace noise at a p that is not even."""
SAMPLED = 64
"""Rows that tell what others are like."""
SPEED = 3e8
"""Multiplications a second, at least: in the pseudo-inverse of a wide matrix, the slowest step."""


def with_rivals(
    designs: Optimized,
    options: DesignOptions,
    kinds: Sequence[Noise],
    *,
    names: Sequence[str] = (),
    streaming: bool = False,
) -> Optimized:
    """The designs, with the best baseline in place of a search's result that is worse.

    Args:
        designs: what was found so far.
        options: of the design.
        kinds: of noise that may be taken.
        names: of baselines beside the usual ones, which take the time that they take.
        streaming: take their lower-triangular forms.
    """
    open_kinds = [kind for kind in kinds if not _is_settled(designs, kind)]
    if not open_kinds or options.buffers is not None or designs.interrupted:
        return designs
    p, mechanisms = designs.norm_design.p, designs.mechanisms
    before = best = mechanisms[designs.best]
    begin = time.perf_counter() - _spent(designs)

    def left() -> float:
        limit = limit_of(options)
        return (math.inf if limit is None else limit + BEYOND) - (time.perf_counter() - begin)

    try:
        for strategy, named in _strategies(designs, options, names, left):
            for rival in _noisy(strategy, designs, options, open_kinds, streaming=streaming):
                if named or error_seconds(strategy, rival.workload, rival.noise, p) <= left():
                    best = smallest_error([best, rival], p)
    except KeyboardInterrupt:
        designs = replace(designs, interrupted=True)
    if best.error(p) >= before.error(p) * (1 - CLOSE):
        return designs
    kept = [mechanisms[0], *(other for other in mechanisms[1:] if other.noise is not best.noise)]
    return replace(designs, mechanisms=(*kept, replace(best, p=p)))


def _is_settled(designs: Optimized, kind: Noise) -> bool:
    """Whether no baseline can be better with this noise."""
    if kind is not Noise.GAUSSIAN:
        return False
    if designs.guarantee is not None and designs.guarantee.pml:
        polished = designs.gaussian_design
        return polished is not None and polished.status is Status.COMPLETED
    return designs.norm_design.certificate.gap <= CLOSE


def _spent(designs: Optimized) -> float:
    """Seconds until now."""
    searches = designs.gaussian_design, designs.laplace_design
    found = [search.seconds for search in searches if search is not None]
    return designs.norm_design.seconds + sum(found)


def _strategies(
    designs: Optimized, options: DesignOptions, names: Sequence[str], left: Callable[[], float]
) -> Iterator[tuple[Strategy, bool]]:
    """The baselines, and whether they are named; of others those that do not take too long."""
    design = designs.norm_design
    for name in dict.fromkeys([*names, *usual_baselines(design.workload)]):
        asked = design.workload, designs.guarantee, design.neighbours
        try:
            if name not in names:
                require_quick(name, *asked)
                if row_seconds(name, *asked, options.schema) > left():
                    continue
            strategy = baseline(name, design.workload)
            if not strategy.only_compared:
                coarse = design.strategy.by_diameter
                yield strategy.coarse() if coarse else strategy, name in names
        except InvalidInputError:  # it is too large, takes too long, or is for other queries
            continue


def _noisy(
    strategy: Strategy,
    designs: Optimized,
    options: DesignOptions,
    kinds: Sequence[Noise],
    *,
    streaming: bool,
) -> Iterator[Mechanism]:
    """A baseline with every noise that it can have."""
    design, searched = designs.norm_design, designs.laplace_design
    tried = () if searched is None else [start.name for start in searched.starts]
    try:
        measured = with_participation(strategy, options.schema)
        if streaming:
            measured = measured.streaming()
        factorization = answer(measured, design.workload, design.neighbours)
    except InvalidInputError:
        return
    for kind in kinds:
        try:
            rival = calibrated(factorization, designs.guarantee, kind)
            rival.factorization.least_unit_error(kind, design.p)
            rival = on_own_grid(rival, design.p, options.own_grid)
        except (InvalidInputError, InfeasibleError, VacuousGuaranteeError):
            continue
        looked_at = kind is Noise.LAPLACE and strategy.name in tried and options.schema is None
        if rival.own_grid or not looked_at:
            yield rival


def with_time_for_noise(
    options: DesignOptions, workload: Workload, guarantee: Guarantee | None, kinds: Sequence[Noise]
) -> tuple[DesignOptions, bool]:
    """The options with the time that is left before a design gets its noise.

    A wide strategy without structure takes time as well until it is seen to answer the queries.

    Returns:
        The options, and whether the design is to be coarse, as there is time for the largest
        distance of two cells only (`Strategy.coarse`).

    Raises:
        InvalidInputError: under PML, more time than there is.
    """
    limit, (queries, cells) = limit_of(options), workload.shape
    if limit is None or (cells > WRITTEN_CELLS and workload.domain):
        return options, False
    if queries < cells:
        limit = max(limit - ANSWERED * queries**2 * cells, LEAST_TIME)
        options = replace(options, time_limit=limit)
    if guarantee is None or guarantee.neighbours is Neighbours.ADD_REMOVE:
        return options, False
    if cells > WRITTEN_CELLS and not _is_merged(workload):
        return options, False
    shape = min(queries, cells), cells
    # noise comes twice: on the strategy of least norm, and on what a search of all entries finds
    times = 2 if guarantee.pml or cells <= SEARCHED_CELLS else 1
    seconds = times * max(calibration_seconds(guarantee, kind, *shape) for kind in kinds)
    coarse = guarantee.pml and not allows(options, seconds)
    if coarse:
        kind = best_of(kinds)
        seconds = 2 * calibration_seconds(guarantee, kind, *shape, by_diameter=True)
    if coarse and not allows(options, seconds):
        raise InvalidInputError(
            f"the noise for this guarantee on {cells} cells takes about {math.ceil(seconds)} s, and"
            f" the time limit is {limit:g} s; allow {math.ceil(2 * seconds)} s or more, or take"
            " fewer cells"
        )
    return replace(options, time_limit=max(limit - seconds, LEAST_TIME)), coarse


def _is_merged(workload: Workload) -> bool:
    """Whether few of very many cells differ: of others distances are bounded by the largest."""
    return workload.running_sums is None and workload.different_cells <= WRITTEN_CELLS


def best_of(kinds: Sequence[Noise]) -> Noise:
    """The noise that takes least time: Gaussian, if it may be."""
    return Noise.GAUSSIAN if Noise.GAUSSIAN in kinds else kinds[0]


def error_seconds(
    strategy: Strategy, workload: Workload, noise: Noise, p: float, level: float | None = None
) -> float:
    """About how many seconds the exact error of a strategy takes, or its largest half-width.

    None where these follow from variances: with Gaussian noise, for the error at p = 2 and inf, and
    for the half-width where L is too large. Otherwise L is formed.
    """
    of_variances = p in (2, math.inf) if level is None else not is_inverted(strategy, workload)
    if noise is Noise.GAUSSIAN or of_variances:
        return 0.0
    m, (r, n) = workload.shape[0], strategy.shape
    summed = r if level is None else min(r, LONG)  # of a row: longer ones are condensed
    unknown = [part.shape for part in strategy.factors if not part.inverse_known]
    kinds = None if level is None else kinds_of_rows(strategy, workload)
    if kinds is not None:
        m, n, unknown = sum(int(part.places.max()) + 1 for part in kinds), 0, []
    cost = sum(rows * cells * min(rows, cells) for rows, cells in unknown)
    each = m * r * WRITTEN if p % 2 == 0 else m * (summed * SUMMED + r * WRITTEN)
    return cost / SPEED + n * r * WRITTEN + each


def require_time_for_error(design: Design, options: DesignOptions) -> None:
    """Refuse Laplace noise where two exact errors, of design and search, would end far too late.

    Raises:
        InvalidInputError: it would.
    """
    seconds = 2 * error_seconds(design.strategy, design.workload, Noise.LAPLACE, design.p)
    if seconds > BEYOND and late(options, design.seconds + seconds):
        raise InvalidInputError(
            f"errors of Laplace noise at p = {design.p:g} take about {math.ceil(seconds)} s,"
            f" far beyond the time limit; allow {math.ceil(2 * seconds)} s or more, or take p = 2"
            " or inf, or Gaussian noise (a guarantee with a delta)"
        )


def mechanism_seconds(
    strategy: Strategy,
    workload: Workload,
    guarantee: Guarantee,
    noise: Noise,
    p: float,
    level: float | None = None,
) -> float:
    """About how long the noise of a strategy and its error take, rather more than less.

    At a level its largest half-width in place of the error.
    """
    seconds = error_seconds(strategy, workload, noise, p, level)
    (rows, cells), coarse = strategy.shape, bool(strategy.by_diameter)
    large = cells > WRITTEN_CELLS
    if large and (workload.domain or strategy.columns):  # structure tells distances
        return seconds
    if calibration_seconds(guarantee, noise, rows, cells, by_diameter=coarse) == 0:
        return seconds
    if not coarse and strategy.distance_profile(noise.norm) is not None:
        return seconds
    if not large and rows <= 4 * WRITTEN_CELLS:
        rows = math.ceil(rows * _compared_share(strategy.uncentred.matrix))
    return seconds + calibration_seconds(guarantee, noise, rows, cells, by_diameter=coarse)


def in_time(
    design: Design, guarantee: Guarantee | None, options: DesignOptions, searched: Searched
) -> Design:
    """The design beside what a search has found, coarse where its noise would end far too late."""
    unlimited = limit_of(options) is None
    if unlimited or guarantee is None or guarantee.neighbours is Neighbours.ADD_REMOVE:
        return design
    asked = design.strategy, design.workload, guarantee, searched.mechanism.noise, design.p
    spent = design.seconds + searched.seconds
    if late(options, spent + mechanism_seconds(*asked)):
        return replace(design, strategy=design.strategy.coarse())
    return design


def _compared_share(matrix: Array) -> float:
    """Of its rows, as far as some tell, those compared entry by entry; two values take a tenth."""
    rows = matrix[:: max(1, len(matrix) // SAMPLED)]
    low, high = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
    return float(np.where(((rows > low) & (rows < high)).any(axis=1), 1.0, 0.1).mean())


def require_quick(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> None:
    """Refuse a baseline whose row takes minutes.

    Raises:
        InvalidInputError: it does.
    """
    for rows, n, cost in _costs(name, workload, guarantee, relation):
        slow = cost > WRITTEN_CELLS**3
        if n <= WRITTEN_CELLS:
            slow = cost > WRITTEN_CELLS**3 and name == "workload"
        if slow and rows * n <= MAX_ENTRIES:  # beyond, it is refused anyway
            raise InvalidInputError(
                f"strategy {name!r} as a matrix of {count_text(rows)} x {count_text(n)} takes"
                " minutes; name it in `pmldesign compare --strategies` if you can wait"
            )


def row_seconds(
    name: str,
    workload: Workload,
    guarantee: Guarantee | None,
    relation: Neighbours,
    participation: AnyParticipation | None = None,
    p: float = 2.0,
    level: float | None = None,
) -> float:
    """About how long the row of a baseline takes, rather more than less; at a level, half-widths.

    Raises:
        InvalidInputError: there is no such row.
    """
    cost = sum(cost for _, _, cost in _costs(name, workload, guarantee, relation))
    if cost > WRITTEN_CELLS**3:  # minutes, whatever its error takes
        return cost / SPEED
    laplace = guarantee is not None and guarantee.admits(Noise.LAPLACE)
    error = 0.0
    if laplace and (level is not None or p not in (2, math.inf)):
        error = error_seconds(baseline(name, workload), workload, Noise.LAPLACE, p, level)
    steps = workload.shape[1] if isinstance(participation, Participation) else 0
    if steps > WRITTEN_CELLS and laplace:
        return error + WRITTEN * steps**2
    m, n = workload.shape
    if relation is Neighbours.REPLACE and n <= WRITTEN_CELLS and len(by_attribute(workload)) > 1:
        cost = max(
            cost, (m + n) * n**2
        )  # all distances of cells, and all answers without the total
    return error + cost / SPEED


def _costs(
    name: str, workload: Workload, guarantee: Guarantee | None, relation: Neighbours
) -> Iterator[tuple[int, int, int]]:
    """Measurements, cells and cost of the row, for every attribute."""
    if long_baseline(name, workload) is not None and relation is Neighbours.ADD_REMOVE:
        return
    if name in SHARES or nested_baseline(name, workload) is not None:
        return
    if name == "workload" and workload.as_tables() is None and large_union(workload) is not None:
        return
    parts = by_attribute(workload) if name != "workload" else workload.factors
    for part in parts:
        m, n = part.shape
        rows = m if name == "workload" else n
        cost = rows * n * (n if relation is Neighbours.REPLACE else min(rows, n))
        if n > WRITTEN_CELLS and name == "identity":
            cost = n
        elif n > WRITTEN_CELLS and name == "workload":
            cost = max(min(cost, MOST_PAIRED[1]), rows * n * min(rows, n))
        if n <= WRITTEN_CELLS and not (guarantee is not None and guarantee.pml):
            if name in CHEAP:
                cost = n**2
            elif name == "workload" and part.binary and m >= n:
                cost = n**3
        yield rows, n, cost
