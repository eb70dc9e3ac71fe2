r"""Strategies that are products, from their factors; add-remove neighbours.

R = (x)_i R_i, A = (x)_i A_i, L_i = A_i R_i^+: sensitivities, norms of variances and nuclear
norms are products of those of the factors. With E_i = A_i - L_i R_i and |M|, the
p-norm of the norms of rows, which is a product too, A - L R adds at most

    sum_i prod_{j < i} |L_j R_j| |E_i| prod_{j > i} |A_j|,      |L_j R_j| <= |A_j| + |E_j|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verify.arithmetic import balls, rounding
from pmldesign.verify.arithmetic.intervals import dual_norm, largest, power_norm, root, total
from pmldesign.verify.forms.structured import Computed, check_computed
from pmldesign.verify.report import Checks

SMALL = 2**16
"""Entries of a factor in ball arithmetic."""
RANK_ONE = 1e-12
"""Dual weights are products up to this part of them."""


def check_product(
    header: Mapping[str, Any], arrays: Mapping[str, Any], factors: Sequence[Any], checks: Checks
) -> None:
    """All claims of a product without weights, under add-remove neighbours."""
    count = sum(name.startswith("factor_") for name in arrays)
    strategies = [arrays[f"factor_{i}"] for i in range(count)]
    fits = len(factors) == count and all(
        R.ndim == 2 and R.shape[1] == A.shape[1] for R, A in zip(strategies, factors, strict=False)
    )
    checks.state("shapes", fits, "of the factors")
    if not fits:
        return
    p, inverses = float(header["p"]), [np.linalg.pinv(R) for R in strategies]
    squares = [
        _room(A, R).squares(A @ inverse)
        for A, R, inverse in zip(factors, strategies, inverses, strict=True)
    ]
    missed, rest = residual_of([factors], strategies, inverses, p)
    checks.state("L R = A", missed < 1e-9, f"but for {missed:.1e}")
    sensitivities = {
        "l2": _product(
            root(largest(rounding.squares(np.ascontiguousarray(R.T)))) for R in strategies
        ),
        "l1": _product(largest(rounding.absolute_sums(R)) for R in strategies),
    }
    queries = int(np.prod([A.shape[0] for A in factors], dtype=object))
    computed = Computed(
        lambda exponent: _product(power_norm(values, exponent) for values in squares),
        queries,
        sensitivities,
        _lower(arrays, factors, p),
        rest,
    )
    check_computed(header, computed, checks)


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
            before = _product(a + e for a, e in zip(norms[:i], rests[:i], strict=True))
            rest += before * error * _product(norms[i + 1 :])
        squares.append(rest**2)
    return missed, power_norm(squares, p)


def _room(A: Any, R: Any) -> Any:
    """Which arithmetic is for factors of these sizes."""
    return balls if max(A.size, R.size) <= SMALL else rounding


def _product(values: Any) -> Any:
    result = arb(1)
    for value in values:
        result *= value
    return result


def _lower(arrays: Mapping[str, Any], factors: Sequence[Any], p: float) -> Any | None:
    """The product of the bounds of the factors' dual weights."""
    u = split(arrays, "dual_u", [A.shape[0] for A in factors])
    w = split(arrays, "dual_w", [A.shape[1] for A in factors])
    if u is None or w is None:
        return None
    bounds = []
    for A, weights, masses in zip(factors, u, w, strict=True):
        scale = root(dual_norm(weights.tolist(), p) * total(map(arb, masses.tolist())))
        room = balls if A.size <= SMALL else rounding
        bounds.append(room.nuclear_norm(A, weights, masses) / scale)
    return _product(bounds)


def split(arrays: Mapping[str, Any], name: str, sizes: Sequence[int]) -> list[Any] | None:
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
