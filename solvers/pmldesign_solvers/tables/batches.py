r"""Sets Q of plain attributes, those of which the same is asked together (`sectors`).

Of the products of contrasts on a set Q the tables with the ordered factors U ask

    sum_T c_T prod_{k in T on Q} h_k prod_(other plain k in T) t_k

over the tables T that have factors on all of Q and whose ordered factors are U. Sets Q whose
coefficients are proportional are one, and those that differ in the coefficients only are held as
one batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.tables.problem import Attributes, Factors, Tables

COEFFICIENT_DIGITS = 12
"""Binary fractions of coefficients that agree to so many digits are the same."""
COEFFICIENT_ERROR = 1e-12
"""Relative error that this makes in a coefficient, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sets Q of plain attributes of which the same tables of ordered attributes are asked.

    Attributes:
        tables: the ordered factors of these tables.
        coefficients: of each Q and table, shape (B, tables), at most 1.
        weights: shape (B,): sum over the sets Q that are one of their largest coefficient^(1/2).
        members: of each b the sets Q and their share of the weight.
    """

    tables: tuple[Factors, ...]
    coefficients: Array
    weights: Array
    members: tuple[dict[Attributes, float], ...]


@lru_cache(maxsize=1)
def batches(problem: Tables) -> list[Batch]:
    """All sets Q; remembered, for a strategy and the bounds speak of the same."""
    every = sorted({_split(problem, table)[0] for table in problem.tables})
    sets, ordered, values = _coefficients(problem, {u: number for number, u in enumerate(every)})
    starts = np.flatnonzero(np.diff(sets.numbers, prepend=-1))
    lengths = np.diff(starts, append=len(values))
    sorted_batches = []
    for length in np.unique(lengths).tolist():
        places = starts[lengths == length][:, None] + np.arange(length)
        patterns, of_pattern = np.unique(ordered[places], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns.tolist()):
            chosen = places[of_pattern.ravel() == number]
            members = [sets.names[q] for q in sets.numbers[chosen[:, 0]].tolist()]
            tables = tuple(every[u] for u in pattern)
            sorted_batches.append(_batch(tables, members, values[chosen]))
    return sorted_batches


def _batch(tables: tuple[Factors, ...], sets: list[Attributes], values: Array) -> Batch:
    """That of sets which are asked with the coefficients `values`, shape (sets, tables)."""
    tops = values.max(axis=1)
    fractions, powers = np.frexp(values / tops[:, None])
    rounded = np.ldexp(np.round(fractions, COEFFICIENT_DIGITS), powers)
    coefficients, alike = np.unique(rounded, axis=0, return_inverse=True)
    order = np.argsort(alike.ravel(), kind="stable")
    roots = np.sqrt(tops)[order].tolist()
    weights, members, start = [], [], 0
    for count in np.bincount(alike.ravel()).tolist():
        weights.append(math.fsum(roots[start : start + count]))
        members.append(
            {sets[order[j]]: roots[j] / weights[-1] for j in range(start, start + count)}
        )
        start += count
    return Batch(tables, coefficients, np.array(weights), tuple(members))


@dataclass(frozen=True, slots=True)
class _Sets:
    """The sets Q, and the number of the one that each coefficient is of."""

    names: list[Attributes]
    numbers: Indices


def _coefficients(problem: Tables, number_of: dict[Factors, int]) -> tuple[_Sets, Indices, Array]:
    """Those above 0: their Q in increasing order, the number of their U, and their values."""
    h, t = problem.plain_numbers()
    names: list[Attributes] = []
    sets, ordered, values = [], [], []
    by_length: dict[int, list[int]] = {}
    split = [_split(problem, table) for table in problem.tables]
    for number, (_, plain) in enumerate(split):
        by_length.setdefault(len(plain), []).append(number)
    u_of = np.array([number_of[u] for u, _ in split])
    factors = {
        length: np.array([split[j][1] for j in tables], dtype=np.intp).reshape(len(tables), length)
        for length, tables in by_length.items()
    }
    for size in range(max(by_length) + 1):
        members, shares, us = [], [], []
        for length, tables in by_length.items():
            for choice in combinations(range(length), size):
                on, off = factors[length][:, choice], np.delete(factors[length], choice, axis=1)
                share = problem.weights[tables] * h[on].prod(axis=1) * t[off].prod(axis=1)
                seen = share > 0
                members.append(on[seen])
                shares.append(share[seen])
                us.append(u_of[tables][seen])
        attributes = np.array(problem.attribute, dtype=np.intp)[np.concatenate(members)]
        distinct, numbers = np.unique(attributes, axis=0, return_inverse=True)
        sets.append(len(names) + numbers.ravel())
        names += list(map(tuple, distinct.tolist()))
        ordered.append(np.concatenate(us))
        values.append(np.concatenate(shares))
    keys = np.concatenate(sets) * len(number_of) + np.concatenate(ordered)
    distinct, places = np.unique(keys, return_inverse=True)
    numbers, us_of = np.divmod(distinct, len(number_of))
    sums = np.bincount(places, np.concatenate(values))
    return _Sets(names, numbers), us_of, np.asarray(sums, dtype=np.float64)


def _split(problem: Tables, table: Factors) -> tuple[Factors, Factors]:
    """Its factors on ordered and on plain attributes."""
    ordered = problem.ordered_factors
    return (
        tuple(k for k in table if k in ordered),
        tuple(k for k in table if k not in ordered),
    )
