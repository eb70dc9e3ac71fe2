r"""Strategies that are products, from their factors; add-remove neighbours.

Beside a public table one factor is open: neighbours differ in it alone, by a replaced record. There
A_i and R_i are taken on differences of columns, and the sensitivity is the largest of these.

R = (x)_i R_i, A = (x)_i A_i, L_i = A_i R_i^+: sensitivities, norms of variances and nuclear
norms are products of those of the factors. With E_i = A_i - L_i R_i and |M|, the
p-norm of the norms of rows, which is a product too, A - L R adds at most

    sum_i prod_{j < i} |L_j R_j| |E_i| prod_{j > i} |A_j|,      |L_j R_j| <= |A_j| + |E_j|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.arithmetic.intervals import dual_norm, largest, power_norm, root, total
from pmldesign.verify.forms.structured import Computed, check_computed
from pmldesign.verify.forms.written import kron
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header

EXACT_ENTRIES = 2**16
"""Entries of a factor in ball arithmetic."""
INDEPENDENT = 1e-10
"""Part of the largest singular value below which rows count as dependent."""
RANK_ONE = 1e-12
"""Dual weights are products up to this part of them."""


def check_product(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a product without weights."""
    _check_factors(header, arrays, queries.factors() or [], checks)


def check_beside_table(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a product beside a public table, the open attributes one factor."""
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
    header: Header,
    arrays: Arrays,
    factors: Sequence[Any],
    checks: Checks,
    place: int | None = None,
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
    p = float(header["p"])  # rows of the open factor may depend on each other, but for rounding
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
    """What A - L R is of the A_i at most, and what it adds to the upper bound.

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
