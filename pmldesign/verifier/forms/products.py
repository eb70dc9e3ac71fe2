r"""Strategies that are products, from their factors.

Given a public table one factor is open: neighbours differ only in it, by a replaced record. There
A_i and R_i are taken on differences of columns, and the sensitivity is the largest of these.

R = (x)_i R_i, A = (x)_i A_i, L_i = A_i R_i^+: sensitivities, norms of variances and nuclear
norms are products of those of the factors. With E_i = A_i - L_i R_i and |M|, the
p-norm of the norms of rows, which is a product too, A - L R adds at most

    sum_i prod_{j < i} |L_j R_j| |E_i| prod_{j > i} |A_j|,      |L_j R_j| <= |A_j| + |E_j|.

Columns, how long they are and how far apart at most. With weights v of rows, R = diag(v)^(1/2) (x)
R_i, the squared lengths are sums of v along the squares of R_i, those in l1 sums of v^(1/2);
squared distances are X_xx + X_yy - 2 X_xy, X = R^T R, or at most twice the length of the varying
part if cells are too many.

Without weights, of two columns of R = (x) R_i let a, b be the squared lengths of their factors and
c the inner products of these: the columns are (prod a + prod b - 2 prod c)^(1/2) apart. In the l1
norm, with norms a, b, m = sum min(|x|, |y|) over the entries and s the same sum with the sign of
x y, they are

    at most    prod a + prod b - prod m - prod s

apart, as |x - y| = |x| + |y| - (1 + sign(x y)) min(|x|, |y|) and products of minima are at most the
minima of products; m = s if no entry is negative. The sum is linear in the numbers of a single
factor, so that only corners of the convex hull of its points (a, b, ...) have to be tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier import balls, rounding
from pmldesign.verifier.balls import dual_norm, largest, power_norm, root, total
from pmldesign.verifier.forms.structured import Computed, check_computed
from pmldesign.verifier.forms.written import INDEPENDENT, kron
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header

EXACT_ENTRIES = 2**16
"""Entries of a factor in ball arithmetic."""
RANK_ONE = 1e-12
"""Dual weights are products up to this part of them."""
MOST_PAIRS, MOST_CHOICES = 2**22, 2**23
"""Of columns of a factor, and of corners of all factors but one."""
MOST_ENTRIES = 2**26
"""Entries of X for the distances of all cells, made for one value at a time."""
FACTOR_GRID = 1e-13
"""Part of the largest number to which numbers of a factor are rounded."""
OUTSIDE = 1e-12
"""How far points may lie outside of their computed hull, relative to their spread."""
LENGTH_ROUNDING = 4e-11
"""Added for both, relative to both lengths."""


def check_product(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a product without weights."""
    _check_factors(header, arrays, queries.factors() or [], checks)


def check_beside_table(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a product given a public table, the open attributes one factor."""
    factors, place = queries.factors(), int(arrays["place"][0])
    if factors is None:
        checks.unchecked("form", "beside a public table, for queries of this form")
        return
    counted = arrays["counted"]
    after = place + 1 + len(counted) - sum(name.startswith("factor_") for name in arrays)
    apart = all(counted[:place]) and not any(counted[place:after]) and all(counted[after:])
    checks.state("place", bool(apart), "of the factor for the open attributes")
    merged = [*factors[:place], kron(factors[place:after]), *factors[after:]]
    _check_factors(header, arrays, merged, checks, place)


def _check_factors(
    header: Header, arrays: Arrays, factors: Sequence[Any], checks: Checks, place: int | None = None
) -> None:
    """All claims of factors; `place` is the number of the open one."""
    count = sum(name.startswith("factor_") for name in arrays)
    strategies = [arrays[f"factor_{i}"] for i in range(count)]
    fits = len(factors) == count and all(
        R.ndim == 2 and R.shape[1] == A.shape[1] for R, A in zip(strategies, factors, strict=False)
    )
    if not checks.state("shapes", fits, "of the factors"):
        return
    diameters = [_longest(R) for R in strategies]
    lower = lower_of_factors(arrays, factors, float(header["p"]), place)
    if place is not None:
        diameters[place] = rounding.diameters(strategies[place])
        strategies[place], factors = _moves(strategies[place]), list(factors)
        factors[place] = _moves(factors[place])
    p = float(header["p"])  # rows of the open factor may depend on each other, up to rounding
    inverses = [np.linalg.pinv(R, rcond=INDEPENDENT) for R in strategies]
    squares = [
        _room(A, R).squares(A @ inverse)
        for A, R, inverse in zip(factors, strategies, inverses, strict=True)
    ]
    missed, rest = residual_of([factors], strategies, inverses, p)
    checks.state("L R = A", missed < 1e-9, f"but for {missed:.1e}")
    sensitivities = {
        norm: math.prod(longest[norm] for longest in diameters) for norm in ("l1", "l2")
    }
    queries = math.prod(A.shape[0] for A in factors)
    computed = Computed(
        lambda exponent: math.prod(power_norm(values, exponent) for values in squares),
        queries,
        sensitivities.get,
        lower,
        rest if place is None else rest * arb(2).sqrt(),
    )
    check_computed(header, computed, checks)


def _longest(R: Any) -> dict[str, Any]:
    """The largest l1 and l2 norm of a column."""
    squares = rounding.squares(np.ascontiguousarray(R.T))
    return {"l1": largest(rounding.absolute_sums(R)), "l2": root(largest(squares))}


def _moves(matrix: Any) -> Any:
    """Columns less the last one."""
    return matrix[:, :-1] - matrix[:, -1:]


def residual_of(
    parts: Sequence[Sequence[Any]], strategies: Sequence[Any], inverses: Sequence[Any], p: float
) -> tuple[float, Any]:
    """The size of A - L R relative to the A_i at most, and its effect on the upper bound.

    Args:
        parts: the A_i of every product of a union.
        strategies: the R_i.
        inverses: the R_i^+.
        p: of the norm.
    """
    missed, squares = 0.0, []
    for factors in parts:
        norms, rests = [], []
        for A, R, inverse in zip(factors, strategies, inverses, strict=True):
            room = _room(A, R)
            norms.append(power_norm(room.squares(A), p))
            rests.append(power_norm(room.residual_squares(A, A @ inverse, R), p))
            missed = max(missed, float(rests[-1].upper()) / float(norms[-1].upper()))
        rest = arb(0)
        for i, error in enumerate(rests):
            before = math.prod(a + e for a, e in zip(norms[:i], rests[:i], strict=True))
            rest += before * error * math.prod(norms[i + 1 :])
        squares.append(rest**2)
    return missed, power_norm(squares, p)


def _room(A: Any, R: Any) -> Any:
    """Which arithmetic is for factors of these sizes."""
    return balls if max(A.size, R.size) <= EXACT_ENTRIES else rounding


def lower_of_factors(
    arrays: Arrays, factors: Sequence[Any], p: float, place: int | None = None
) -> Any | None:
    """The product of the bounds of the factors' dual weights, of pairs for the open one."""
    u = split(arrays, "dual_u", [A.shape[0] for A in factors])
    if place is None:
        w = split(arrays, "dual_w", [A.shape[1] for A in factors])
    else:
        w = [arrays.get(f"dual_w_{i}", np.zeros(0)) for i in range(len(factors))]
    if u is None or w is None or not all(map(_fits, w, factors)):
        return None
    bounds = []
    for A, weights, masses in zip(factors, u, w, strict=True):
        mass = total(map(arb, masses.ravel().tolist())) / masses.ndim
        scale = root(dual_norm(weights.tolist(), p) * mass)
        room = balls if A.size <= EXACT_ENTRIES else rounding
        bounds.append(room.nuclear_norm(A, weights, masses) / scale)
    return math.prod(bounds)


def _fits(w: Any, A: Any) -> bool:
    """Whether weights are of cells or of pairs of them."""
    n = A.shape[1]
    return w.shape in ((n,), (n, n)) and w.min() >= 0 and (w.ndim == 1 or np.array_equal(w, w.T))


def split(arrays: Arrays, name: str, sizes: Sequence[int]) -> list[Any] | None:
    """The factors of dual weights, which are stored apart or as their product; None of others."""
    if f"{name}_0" in arrays:
        parts = [arrays[f"{name}_{i}"] for i in range(len(sizes))]
        return parts if [part.shape for part in parts] == [(size,) for size in sizes] else None
    whole = arrays.get(name)
    if whole is None or whole.shape != (np.prod(sizes),) or whole.min() < 0:
        return None
    cube = whole.reshape(sizes)
    axes = range(len(sizes))
    parts = [cube.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]
    outer = parts[0]
    for part in parts[1:]:
        outer = np.multiply.outer(outer, part)
    outer = outer / whole.sum() ** (len(sizes) - 1)
    return parts if np.abs(outer - cube).max() <= RANK_ONE * cube.max() else None


def farthest(factors: Sequence[Any], norm: str) -> float | None:
    """The largest distance, or a bound above it; None if choices are too many."""
    if max(R.shape[1] for R in factors) ** 2 > MOST_PAIRS:
        return None
    points = [_points(np.ascontiguousarray(R.T), norm) for R in factors]
    size = math.prod(float(part[:, 0].max()) for part in points)
    *others, last = sorted(map(_corners, points), key=len)
    if math.prod(map(len, others)) * len(last) > MOST_CHOICES:
        return None
    total = np.array([[1.0, 1.0, -2.0]] if norm == "l2" else [[1.0, 1.0, -1.0, -1.0]])
    for part in others:
        total = (total[:, None] * part).reshape(-1, part.shape[1])
    largest = max(float((total @ last.T).max()), 0.0) + LENGTH_ROUNDING * size
    return math.sqrt(largest) if norm == "l2" else min(largest, 2 * size)


def _points(columns: Any, norm: str) -> Any:
    """a, b and the subtracted terms, for all pairs of columns."""
    if norm == "l2":
        inner = columns @ columns.T
        lengths, off = inner.diagonal(), [inner]
    else:
        lengths, sums = (
            np.abs(columns).sum(axis=1),
            scipy.spatial.distance.cdist(columns, -columns, "cityblock"),
        )
        signed = (sums - scipy.spatial.distance.cdist(columns, columns, "cityblock")) / 2
        apart = scipy.spatial.distance.cdist(np.abs(columns), np.abs(columns), "cityblock")
        off = [(lengths[:, None] + lengths - apart) / 2, signed]
    both = np.broadcast_arrays(lengths[:, None], lengths, *off)
    unit = FACTOR_GRID * float(lengths.max()) or 1.0
    return (
        np.unique(np.rint(np.stack([part.ravel() for part in both], axis=1) / unit), axis=0) * unit
    )


def _corners(points: Any) -> Any:
    """The corners of the convex hull of points, or all of them."""
    centred = points - points.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    spread = np.abs(along).max(axis=0)
    kept = spread > 4 * FACTOR_GRID * float(np.abs(points).max())
    along = along[:, kept] / spread[kept]
    if along.shape[1] == 0:
        return points[:1]
    if along.shape[1] == 1:
        return points[[int(along.argmin()), int(along.argmax())]]
    try:
        hull = scipy.spatial.ConvexHull(along)
    except scipy.spatial.QhullError:
        return points
    inside = along @ hull.equations[:, :-1].T <= OUTSIDE - hull.equations[:, -1]
    return points[hull.vertices] if inside.all() else points


def along(cube: Any, matrices: Sequence[Any]) -> Any:
    """A matrix along each axis of a cube."""
    for matrix in matrices:  # the axis in front goes to the end, so that all take their turn
        cube = np.moveaxis(np.tensordot(matrix, cube, axes=(1, 0)), 0, -1)
    return cube


def lengths(R: Sequence[Any], v: Any) -> dict[str, float]:
    """The largest lengths of columns."""
    l1 = along(np.sqrt(v), [np.abs(part).T for part in R]).max()
    return {"l1": float(l1), "l2": math.sqrt(float(along(v, [part.T**2 for part in R]).max()))}


def distances(R: Sequence[Any], v: Any) -> dict[str, float]:
    """The largest distances of two columns, or bounds above them; without weights v is None."""
    if v is None:
        known = {norm: farthest(R, norm) for norm in ("l1", "l2")}
        return {norm: value for norm, value in known.items() if value is not None}
    l1 = 2 * lengths(R, v)["l1"]
    if math.prod(part.shape[1] for part in R) ** 2 > MOST_ENTRIES:
        constant = reduce(np.multiply.outer, [np.ptp(part, axis=1) == 0 for part in R])
        return {"l1": l1, "l2": 2 * lengths(R, np.where(constant, 0.0, v))["l2"]}
    squares, largest = along(v, [part.T**2 for part in R]).ravel(), 0.0
    first, *others = R
    pairs = [(B[:, :, None] * B[:, None, :]).reshape(len(B), -1).T for B in others]
    sizes = [B.shape[1] for B in others]
    for x, own in zip(first.T, squares.reshape(first.shape[1], -1), strict=True):
        cube = along(v, [first.T * x, *pairs])
        cube = cube.reshape([len(first.T), *(n for size in sizes for n in (size, size))])
        order = [*range(1, cube.ndim, 2), 0, *range(2, cube.ndim, 2)]
        inner = cube.transpose(order).reshape(own.size, -1)
        largest = max(largest, float((own[:, None] + squares - 2 * inner).max()))
    return {"l1": l1, "l2": math.sqrt(largest)}
