r"""Non-negative and whole numbers from released answers, consistent with each other.

Non-negative: the histogram x >= 0 whose answers are closest to the released ones, with max(y, 0) as
the target, since no true answer is below 0 if A has no negative entry,

    min_{x >= 0} || A x - max(y, 0) ||_2^2,

by L-BFGS-B (scipy) from the clamped cells, so that it is never farther than those. The true answers
are in the set of all A x. It is convex, so that its point nearest to max(y, 0) is at most as far
from the true answers as max(y, 0) is: the squared errors of all answers add up to no more than
those of clamped answers, whatever the noise was. Weights 1/s_i^2 would not do: many small cells,
which can only move up, then outweigh their sums. Where sums of cells are public, x is scaled to
them, group by group.

Running sums over all cells need no iteration: A x ranges over all sums that never fall, from 0, and
the closest ones are an isotonic regression. With a public number of records N, the sums except the
last are the isotonic regression between 0 and N, which is the unrestricted one cut at 0 and N.
Counts of regions (`nested_counts`) need no iteration either; they are then rounded up or down.

Whole: the way whose answers are closest, in the same sense. Either cells are rounded in their order
so that every running sum is rounded to the nearest whole number; ranges of cells move by at most 1.
Or cells are rounded down, and those with the largest remainders up, so that the sum is rounded to
the nearest whole number; no histogram of that sum is closer to the cells. Or, unless their sum is
public, every cell is rounded by itself. All keep non-negative cells non-negative.

Intervals stay those of the noise, cut by the known limits of each query by itself (at least 0, at
most the largest sum that a public number of records allows, integer); they are widened to hold the
new estimate. A program over all intervals at once would not be valid. Nothing here sees the data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.releases.nested_counts import closest_regions, rounded_regions
from pmldesign.releases.people.schema import Schema
from pmldesign.releases.public_counts import PublicCounts, regions_of
from pmldesign.workloads import Workload
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array

HEAVY = 10.0
"""Weight of a public sum relative to an answer; the minimum is then scaled to it."""
PROJECTION_STEPS = 1000
"""Of L-BFGS-B; 10^5 cells with sums by row, column and all took 612 and 10 s, without all 146."""


def nonnegative_cells(
    workload: Workload, cells: Array, *, public: PublicCounts | None = None
) -> Array:
    """A histogram without negative cells that explains the answers, shape (n,).

    Args:
        workload: A, the released queries.
        cells: the estimate of x whose answers A x were released.
        public: sums of cells that are public.
    """
    answers = workload.matvec(cells)
    if workload.non_negative:
        answers = np.maximum(answers, 0.0)
    regions = regions_of(workload, public)
    if regions is not None:
        return closest_regions(regions, cells, public)
    in_order = workload.ends is not None and workload.running_sums is not None
    if in_order and (public is None or len(public.groups) == 1):
        return _never_falling(answers, None if public is None else public.total)

    def objective(x: Array) -> tuple[float, Array]:
        off = workload.matvec(x) - answers
        value, slope = 0.5 * float(off @ off), workload.rmatvec(off)
        if public is None:
            return value, slope
        excess = public.excess(x)
        value += 0.5 * HEAVY * float(excess @ excess)
        return value, slope + HEAVY * public.in_cells(excess, len(x))

    minimum = scipy.optimize.minimize(
        objective,
        np.maximum(cells, 0.0),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(0.0, np.inf),
        options={"maxiter": PROJECTION_STEPS, "maxfun": 2 * PROJECTION_STEPS},
    )
    result = np.maximum(minimum.x, 0.0)
    return np.asarray(result if public is None else public.scaled(result))


def _never_falling(sums: Array, total: int | None) -> Array:
    """The steps of the closest sums that never fall; sums are at least 0."""
    closest = np.asarray(scipy.optimize.isotonic_regression(sums).x)
    if total is not None:
        closest = np.append(
            np.minimum(scipy.optimize.isotonic_regression(sums[:-1]).x, total), total
        )
    return np.asarray(np.diff(closest, prepend=0.0))


def whole_cells(workload: Workload, cells: Array, *, public: PublicCounts | None = None) -> Array:
    """Whole numbers close to the cells; arguments as `nonnegative_cells`."""
    regions = regions_of(workload, public)
    if regions is not None:
        return rounded_regions(regions, cells, public)
    candidates = [by_group(method, cells, public) for method in (running_whole, nearest_whole)]
    if public is None:
        candidates.append(np.rint(cells))
    return min(candidates, key=lambda x: float(np.linalg.norm(workload.matvec(x - cells))))


def by_group(method: Callable[[Array], Array], cells: Array, public: PublicCounts | None) -> Array:
    """What a method makes of all cells, or of those of each group by themselves."""
    whole = np.empty(len(cells))
    for group in (slice(None),) if public is None else public.groups:
        whole[group] = method(cells[group])
    return whole


def running_whole(cells: Array) -> Array:
    """Whole numbers whose running sums are the nearest to those of the cells, shape (n,)."""
    return np.asarray(np.diff(np.rint(np.cumsum(cells)), prepend=0.0))


def nearest_whole(cells: Array) -> Array:
    """The nearest whole numbers among those whose sum is the nearest to that of the cells."""
    whole = np.floor(cells)
    missing = int(np.rint(cells.sum() - whole.sum()))
    whole[np.argsort(whole - cells, kind="stable")[:missing]] += 1
    return np.asarray(whole)


def cut_intervals(
    lower: Array, upper: Array, estimate: Array, *, largest: Array | float | None, whole: bool
) -> tuple[Array, Array]:
    """The ends of the intervals, cut by the known limits of every query, around the estimate.

    Args:
        lower: shape (m,).
        upper: shape (m,).
        estimate: shape (m,).
        largest: the largest possible answers, if answers are at least 0; else None.
        whole: whether answers are whole numbers.
    """
    if whole:
        lower, upper = np.ceil(lower), np.floor(upper)
    if largest is not None:
        lower, upper = np.clip(lower, 0.0, largest), np.clip(upper, 0.0, largest)
    return np.minimum(lower, estimate), np.maximum(upper, estimate)


def require_whole_cells(schema: Schema | None, public: Public) -> None:
    """Refuse integer cells if numbers are spread over cells, or have to add up to several tables.

    Raises:
        InvalidInputError: either.
    """
    if public.several:
        raise InvalidInputError(
            f"whole cells beside several known tables, {public.name!r}, need not add up to all of"
            " them; remove `integers`"
        )
    if schema is not None and schema.denominator > 1:
        raise InvalidInputError(
            "whole cells are counts, and numbers are spread over cells; remove `integers`"
        )
