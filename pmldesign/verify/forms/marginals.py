r"""Strategies that measure residuals of marginals, whatever the number of cells.

For sizes n_i, sets T with precisions theta_T and tables S with weights c_S:

    d_T = prod_{i in T} (n_i - 1),   m_S = prod_{i in S} n_i,
    l2 sensitivity   (sum_T theta_T d_T)^(1/2)                                     (add-remove)
                     max_D (2 sum_T theta_T (d_T - e_TD))^(1/2),  cells that differ in D (replace),
                     e_TD = prod_{i in T and D} (-1) prod_{i in T not D} (n_i - 1)
    variance of a cell of table S      c_S^2 / m_S^2 sum_{T in S} d_T / theta_T
    lower bound      sum_T d_T (sum_{S over T} c_S^2 u_S / m_S)^(1/2) / (sum_S m_S u_S^q)^(1/(2q))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from flint import arb

from pmldesign.verify.arithmetic.intervals import largest, root, total
from pmldesign.verify.forms.structured import Computed, check_computed
from pmldesign.verify.report import Checks

MOST_PAIRS = 10**6
"""Of tables and residuals that are compared."""
MOST_ATTRIBUTES = 12
"""Of which all sets are tried under replace."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of counts by sets of attributes, each with a weight."""

    sizes: Sequence[int]
    subsets: Sequence[tuple[int, ...]]
    weights: Sequence[float]


def check_marginals(
    header: Mapping[str, Any], arrays: Mapping[str, Any], tables: Tables, checks: Checks
) -> None:
    """All claims of a strategy of residuals."""
    sizes = [int(size) for size in arrays["sizes"]]
    rows = [tuple(int(i) for i in row if i >= 0) for row in arrays["residuals"]]
    theta = {key: arb(float(value)) for key, value in zip(rows, arrays["precisions"], strict=True)}
    checks.state("sizes", sizes == list(tables.sizes), "those of the workload")
    if len(theta) * len(tables.subsets) > MOST_PAIRS:
        checks.unchecked("claims", "too many tables")
        return
    replace = header["neighbours"] == "replace"
    within = {S: _subsets(S, replace) for S in tables.subsets}
    answered = len(theta) == len(rows) and all(T in theta for sets in within.values() for T in sets)
    checks.state("L R = A", answered, "all residuals of every table are measured")
    if not answered or sizes != list(tables.sizes):
        return
    dimension = {T: arb(math.prod(sizes[i] - 1 for i in T)) for T in theta}
    cells = [math.prod(sizes[i] for i in S) for S in tables.subsets]
    squares = [
        arb(c) ** 2 / arb(m) ** 2 * total(dimension[T] / theta[T] for T in within[S])
        for S, m, c in zip(tables.subsets, cells, tables.weights, strict=True)
    ]

    def spread(p: float) -> Any:
        if math.isinf(p):
            return root(largest(squares))
        power = arb(p) / 2
        return total(m * s**power for m, s in zip(cells, squares, strict=True)) ** (1 / arb(p))

    sensitivities = {}
    if not replace:
        sensitivities["l2"] = root(total(theta[T] * dimension[T] for T in theta))
    elif len(sizes) <= MOST_ATTRIBUTES:
        sensitivities["l2"] = root(_farthest(sizes, theta, dimension))
    lower = None if replace else _lower(arrays, tables, cells, within, dimension, header)
    computed = Computed(spread, sum(cells), sensitivities, lower)
    check_computed(header, computed, checks)


def _subsets(members: tuple[int, ...], replace: bool) -> list[tuple[int, ...]]:
    counts = range(1 if replace else 0, len(members) + 1)
    return list(chain.from_iterable(combinations(members, count) for count in counts))


def _farthest(sizes: Sequence[int], theta: Any, dimension: Any) -> Any:
    """Largest squared distance of two cells."""
    wide = [i for i, size in enumerate(sizes) if size > 1]
    squares = []
    for D in _subsets(tuple(wide), True):
        different = set(D)
        terms = []
        for T, value in theta.items():
            mixed = math.prod(-1 if i in different else sizes[i] - 1 for i in T)
            terms.append(2 * value * (dimension[T] - mixed))
        squares.append(total(terms))
    return largest(squares)


def _lower(
    arrays: Mapping[str, Any],
    tables: Tables,
    cells: Sequence[int],
    within: Any,
    dimension: Any,
    header: Mapping[str, Any],
) -> Any | None:
    """The bound of dual weights u, one for each table."""
    u = arrays.get("dual_u")
    if u is None or u.shape != (len(cells),) or u.min() < 0:
        return None
    p, sums = float(header["p"]), {T: arb(0) for T in dimension}
    for S, m, c, weight in zip(tables.subsets, cells, tables.weights, u.tolist(), strict=True):
        for T in within[S]:
            sums[T] += arb(c) ** 2 * weight / m
    if p == 2:
        norm = arb(float(u.max()))
    else:
        q = arb(1) if math.isinf(p) else arb(p) / (arb(p) - 2)
        powers = [m * arb(x) ** q for m, x in zip(cells, u.tolist(), strict=True) if x > 0]
        norm = total(powers) ** (1 / q)
    return total(dimension[T] * root(sums[T]) for T in sums) / root(norm)
