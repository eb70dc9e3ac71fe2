r"""Strategies that measure residuals of marginals, whatever the number of cells.

For sizes n_i, sets T with precisions s_T and tables S with weights c_S:

    d_T = prod_{i in T} (n_i - 1),   m_S = prod_{i in S} n_i,   theta_T = s_T / d_T,
    l1 sensitivity   sum_T theta_T^(1/2) prod_{i in T} n_i^(1/2) sum_{k < n_i} (k (k + 1))^(-1/2)
                     (add-remove); twice that without the total (replace, a bound)
    l2 sensitivity   (sum_T theta_T d_T)^(1/2)                                     (add-remove)
                     max_D (2 sum_T theta_T (d_T - e_TD))^(1/2),  cells that differ in D (replace),
                     e_TD = prod_{i in T and D} (-1) prod_{i in T not D} (n_i - 1)
    variance of a cell of table S      c_S^2 / m_S^2 sum_{T in S} d_T / theta_T
    lower bound      sum_T d_T (b_T sum_{S over T} c_S^2 u_S / m_S)^(1/2)
                     / (sum_S m_S u_S^q)^(1/(2q))

with b_T = 1, and under replace b_T = 2 sum_U rho_U (1 - prod_{i in T and U} -1/(n_i - 1)) for
weights rho_U >= 0, sum 1, of the pairs of cells that differ in U. A file has one weight for all
pairs, and one for all U with k_c attributes of each class c; classes are of attributes of one size.
The mean of a product over these U is prod_c K_c(|T in c|, k_c), and of m attributes, n values each,

    K(t, k) = sum_j C(t, j) C(m - t, k - j) / C(m, k) (-1/(n - 1))^j.

Given a public table of attributes C, neighbours agree on C: D and U contain no attribute of C, and
the T within C are left out, as T = {} is under replace. Given several public tables, the T within
one of them are left out, and neighbours may differ in all attributes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verifier.balls import largest, root, total
from pmldesign.verifier.forms.form import Claims, members_of
from pmldesign.verifier.forms.structured import Computed, check_computed, profile
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header

MOST_PAIRS = 10**6
"""Of tables and residuals that are compared."""
Public = list[frozenset[int]] | None
MOST_ATTRIBUTES = 12
"""Of which all sets are tried under replace."""


def tells_marginals(claims: Claims) -> bool:
    """Whether structure determines all claims about contrasts."""
    if "ordered" in claims.arrays:
        return False
    return claims.queries.plain and (claims.large or (claims.gaussian and not claims.pml))


def check_marginals(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy of residuals."""
    sizes, theta = list(queries.sizes), precisions_of(arrays)
    subsets = [tuple(sorted(table.factors)) for table in queries.tables]
    same = [int(size) for size in arrays["sizes"]] == sizes
    checks.state("sizes", same, "those of the workload")
    if len(theta) * len(subsets) > MOST_PAIRS:
        checks.unchecked("claims", "too many tables")
        return
    public = public_of(header, arrays)
    within = {S: _subsets(S, public) for S in subsets}
    answered = all(T in theta for sets in within.values() for T in sets)
    checks.state("L R = A", answered, "all residuals of every table are measured")
    if not answered or not same:
        return
    dimension = {T: arb(math.prod(sizes[i] - 1 for i in T)) for T in theta}
    cells = [math.prod(sizes[i] for i in S) for S in subsets]
    squares = [
        arb(table.weight) ** 2 / arb(m) ** 2 * total(dimension[T] / theta[T] for T in within[S])
        for S, m, table in zip(subsets, cells, queries.tables, strict=True)
    ]

    def spread(p: float) -> Any:
        if math.isinf(p):
            return root(largest(squares))
        power = arb(p) / 2
        return total(m * s**power for m, s in zip(cells, squares, strict=True)) ** (1 / arb(p))

    apart, copies = _distances(sizes, theta, dimension, _agreed(public))
    sensitivities = {norm: largest(distances) for norm, (distances, _) in apart.items()}
    if public is None:
        sensitivities["l2"] = root(total(theta[T] * dimension[T] for T in theta))
        sensitivities["l1"] = _longest_l1(sizes, theta)
    lower = lower_bound(header, arrays, queries) if "dual_u" in arrays else None
    rows = {norm: profile(*part, copies) for norm, part in apart.items()}
    computed = Computed(spread, sum(cells), sensitivities.get, lower, rows=rows)
    check_computed(header, computed, checks)


def public_of(header: Header, arrays: Arrays) -> Public:
    """The attributes of public tables; empty for the total, None if nothing is public."""
    if header["neighbours"] != "replace":
        return None
    counted = np.atleast_2d(arrays.get("counted", np.zeros(1)))
    return [frozenset(np.flatnonzero(row).tolist()) for row in counted]


def _agreed(public: Public) -> frozenset[int]:
    """The attributes in which neighbours agree: those of a single table."""
    return public[0] if public and len(public) == 1 else frozenset()


def precisions_of(arrays: Arrays) -> dict[tuple[int, ...], Any]:
    """theta_T.

    Raises:
        ValueError: a residual comes twice, or has an attribute with one value or that is not there.
    """
    rows, sizes = members_of(arrays["residuals"]), arrays["sizes"].tolist()
    wide = all(i < len(sizes) and sizes[i] > 1 for T in rows for i in T)
    if len(set(rows)) < len(rows) or not wide:
        raise ValueError("a residual comes twice, or has an attribute without contrasts")
    numbers = [math.prod(sizes[i] - 1 for i in T) for T in rows]
    values = zip(rows, arrays["precisions"], numbers, strict=True)
    return {T: arb(float(value)) / d for T, value, d in values}


def lower_bound(header: Header, arrays: Arrays, queries: Queries) -> Any | None:
    """What dual weights u of the tables, and of pairs under replace, prove."""
    p, u, sizes = float(header["p"]), arrays["dual_u"], list(queries.sizes)
    public = public_of(header, arrays)
    if u.shape != (len(queries.tables),) or u.min() < 0:
        return None
    rows = list(precisions_of(arrays))
    shares = dict.fromkeys(rows, arb(1))
    if public is not None:
        shares = _shares_of_pairs(sizes, rows, arrays["dual_w"], _agreed(public))
    sums, powers = dict.fromkeys(rows, arb(0)), []
    q = arb(1) if p == 2 or math.isinf(p) else arb(p) / (arb(p) - 2)
    for table, weight in zip(queries.tables, u.tolist(), strict=True):
        S = tuple(sorted(table.factors))
        m = math.prod(sizes[i] for i in S)
        for T in _subsets(S, public):
            sums[T] += arb(table.weight) ** 2 * weight / m
        if weight > 0:
            powers.append(m * arb(weight) ** q)
    norm = arb(float(u.max())) if p == 2 else total(powers) ** (1 / q)
    dimension = {T: math.prod(sizes[i] - 1 for i in T) for T in rows}
    return total(dimension[T] * root(shares[T] * sums[T]) for T in rows) / root(norm)


def _subsets(members: tuple[int, ...], public: Public) -> list[tuple[int, ...]]:
    """Those that are not public."""
    every = chain.from_iterable(combinations(members, k) for k in range(len(members) + 1))
    return [T for T in every if public is None or not any(map(frozenset(T).issubset, public))]


def _longest_l1(sizes: Sequence[int], theta: Mapping[Any, Any]) -> Any:
    """The l1 norm of the column of the first cell, which is the longest."""
    sums = {n: total(1 / arb(k * (k + 1)).sqrt() for k in range(1, n)) for n in set(sizes)}
    return total(
        value.sqrt()
        * arb(math.prod(sizes[i] for i in T)).sqrt()
        * math.prod(sums[sizes[i]] for i in T)
        for T, value in theta.items()
    )


def _distances(
    sizes: Sequence[int], theta: Any, dimension: Any, known: frozenset[int]
) -> tuple[dict[str, tuple[list[Any], list[int]]], int]:
    """Distances of cells by the attributes in which they differ, twice the longest in l1.

    With how many columns are that far from any one, and how many cells have the same column.
    """
    used = tuple(i for i in sorted(set().union(*theta) - known) if sizes[i] > 1)
    columns = math.prod(sizes[i] for i in used)
    copies = math.prod(sizes) // columns
    away = 2 * _longest_l1(sizes, {T: value for T, value in theta.items() if T})
    known_distances = {"l1": ([away], [columns - 1])}
    if len(used) <= MOST_ATTRIBUTES:
        sets = _subsets(used, [frozenset()])
        apart = [root(_square(set(D), sizes, theta, dimension)) for D in sets]
        counts = [math.prod(sizes[i] - 1 for i in D) for D in sets]
        known_distances["l2"] = (apart, counts)
    return known_distances, copies


def _square(different: set[int], sizes: Sequence[int], theta: Any, dimension: Any) -> Any:
    """Squared distance of two cells that differ in these attributes."""
    terms = []
    for T, value in theta.items():
        mixed = math.prod(-1 if i in different else sizes[i] - 1 for i in T)
        terms.append(2 * value * (dimension[T] - mixed))
    return total(terms)


def _shares_of_pairs(
    sizes: Sequence[int], rows: Sequence[tuple[int, ...]], rho: Any, known: frozenset[int]
) -> dict[tuple[int, ...], Any]:
    """b_T of weights of pairs.

    Raises:
        ValueError: these are not weights of pairs, or the pairs differ in the invariants.
    """
    if rho.ndim != 2 or rho.shape[1] != 1 + len(sizes) or rho[0, 1:].max(initial=0) > len(sizes):
        raise ValueError("the dual weights are not those of pairs")
    if not rho[:, 0].any():
        raise ValueError("the dual weights of pairs are all 0")
    classes = defaultdict(list)
    for i, number in enumerate(rho[0, 1:].tolist()):
        if number and (sizes[i] < 2 or i in known):
            raise ValueError("pairs differ in an attribute that is public")
        classes[number].append(i)
    classes.pop(0, None)
    counts = []
    for members in classes.values():
        alike = rho[1:, [1 + i for i in members]]
        one = len({sizes[i] for i in members}) == 1 and (alike == alike[:, :1]).all()
        whole = (alike == np.rint(alike)).all() and alike.max(initial=0) <= len(members)
        if not (one and whole):
            raise ValueError("a class has attributes of several sizes, or no numbers of them")
        counts.append(alike[:, 0].astype(int).tolist())
    weights, cells = [arb(value) for value in rho[:, 0].tolist()], 1
    for members in classes.values():
        cells *= sizes[members[0]] ** len(members)
    shares = {}
    for T in rows:
        met = [len({*members} & {*T}) for members in classes.values()]
        value = weights[0] * cells / (cells - 1) if any(met) else arb(0)
        for j, weight in enumerate(weights[1:]):
            mean = Fraction(1)
            for members, t, ks in zip(classes.values(), met, counts, strict=True):
                mean *= _mean(len(members), sizes[members[0]], t, ks[j])
            value += weight * (1 - mean).numerator / (1 - mean).denominator
        shares[T] = 2 * value / total(weights)
    return shares


@lru_cache(maxsize=2**12)
def _mean(m: int, n: int, t: int, k: int) -> Fraction:
    """K(t, k)."""
    parts = (
        math.comb(t, j) * math.comb(m - t, k - j) * Fraction(-1, n - 1) ** j
        for j in range(max(0, t + k - m), min(t, k) + 1)
    )
    return sum(parts, Fraction(0)) / math.comb(m, k)
