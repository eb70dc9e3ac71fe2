"""Small matrices on the few directions of each ordered attribute that matter together.

Each ordered attribute keeps d_i directions, the first one its total; the rest is one more. For a
set Q of plain attributes and a set Sp of ordered ones (spectators, each in its rest) the products
of kept directions of the other attributes span a space, on which the queries have

    K_{Q,Sp} = sum_{T >= Q, Sp} c_T prod_Q h_k prod_(plain off Q) t_k prod_Sp rho_k (x) H_k,

H_k (d_i x d_i) over the factors k of T on the other ordered attributes and e e^T, e the total,
if T has none. Sets Q with the same tables are stored as one batch of matrices.

Batches. Of the products of contrasts on a set Q the tables with the ordered factors U ask

    sum_T c_T prod_{k in T on Q} h_k prod_(other plain k in T) t_k

over the tables T that have factors on all of Q and whose ordered factors are U. Sets Q whose
coefficients are proportional are one, and those that differ in the coefficients only are held as
one batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
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
    """Sets Q of plain attributes with the same tables of ordered attributes.

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
    """All sets Q; cached, because a strategy and the bounds use the same."""
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
    """The batch of sets that are asked with the coefficients `values`, shape (sets, tables)."""
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
    """The coefficients above 0: their Q in increasing order, the number of their U, and values."""
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


def subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All subsets of the members, small ones first."""
    return itertools.chain.from_iterable(
        itertools.combinations(members, k) for k in range(len(members) + 1)
    )


class Space:
    """The products of kept directions that the tables with some spectators see.

    Attributes:
        batch: the sets Q.
        spectators: Sp.
        offsets: for every set of attributes the first of its products of directions but the total.
        size: dimension.
        entries: for every table with all spectators its number, the factors on spectators, those
            on other attributes, and which products it sees, in the order of np.kron.
    """

    def __init__(self, problem: Tables, dims: Mapping[int, int], batch: Batch, sp: Attributes):
        self.batch, self.spectators = batch, sp
        self._dims = dims
        attribute = problem.attribute
        seen = []
        for number, table in enumerate(batch.tables):
            on = tuple(k for k in table if attribute[k] in sp)
            if len(on) == len(sp):
                seen.append((number, on, tuple(k for k in table if attribute[k] not in sp)))
        rests = [tuple(attribute[k] for k in rest) for _, _, rest in seen]
        sets = sorted({s for rest in rests for s in subsets(rest)}, key=lambda s: (len(s), s))
        self.offsets: dict[Attributes, int] = {}
        self.size = 0
        for s in sets:
            self.offsets[s] = self.size
            self.size += math.prod(dims[i] - 1 for i in s)
        places = {rest: self._places(rest) for rest in set(rests)}
        self.entries = [
            (number, on, rest, places[where])
            for (number, on, rest), where in zip(seen, rests, strict=True)
        ]

    def index(self, modes: Mapping[int, int]) -> int:
        """The number of a product of directions modes[i] >= 1 of the attributes i."""
        members = tuple(sorted(modes))
        place = 0
        for i in members:
            place = place * (self._dims[i] - 1) + modes[i] - 1
        return self.offsets[members] + place

    def _places(self, rest: Attributes) -> Indices:
        every = itertools.product(*(range(self._dims[i]) for i in rest))
        return np.array(
            [
                self.index({i: mode for i, mode in zip(rest, modes, strict=True) if mode})
                for modes in every
            ]
        )

    def assemble(
        self, matrices: Sequence[Array], rest: Array, products: dict[Factors, Array]
    ) -> Array:
        """K, shape (B, size, size), of H_k and rho_k; `products` remembers those of the H_k."""
        total = np.zeros((len(self.batch.weights), self.size, self.size))
        for number, on, others, places in self.entries:
            if others not in products:
                every = [matrices[k] for k in others]
                products[others] = np.asarray(reduce(np.kron, every, np.ones((1, 1))))  # type: ignore[arg-type]
            scale = self.batch.coefficients[:, number] * math.prod(float(rest[k]) for k in on)
            total[:, places[:, None], places] += scale[:, None, None] * products[others]
        return total


def spaces(problem: Tables, dims: Mapping[int, int]) -> list[Space]:
    """The spaces of all batches and spectators.

    Args:
        problem: the workload.
        dims: d_i of each ordered attribute; one with d_i = n_i is never a spectator.
    """
    result = []
    for batch in batches(problem):
        every = {
            s
            for table in batch.tables
            for s in subsets([problem.attribute[k] for k in table])
            if all(dims[i] < problem.sizes[i] for i in s)
        }
        result += [Space(problem, dims, batch, s) for s in sorted(every, key=lambda s: (len(s), s))]
    return result


def work(problem: Tables, dims: Mapping[int, int]) -> float:
    """Sum of the cubes of the sizes of all matrices."""
    total = 0.0
    for batch in batches(problem):
        wanted = {s for t in batch.tables for s in subsets([problem.attribute[k] for k in t])}
        sizes: dict[Attributes, int] = {}
        for s in wanted:
            for sp in subsets(s):
                kept = math.prod(dims[i] - 1 for i in s if i not in sp)
                sizes[sp] = sizes.get(sp, 0) + kept
        total += len(batch.weights) * math.fsum(float(size) ** 3 for size in sizes.values())
    return total


def affordable(problem: Tables, wanted: int, limit: float) -> dict[int, int]:
    """Up to so many directions of each ordered attribute in addition to the total.

    Args:
        problem: the workload.
        wanted: at most so many.
        limit: of `work`.
    """
    for count in range(wanted, 0, -1):
        directions = {i: min(count, problem.sizes[i] - 1) for i in problem.ordered}
        if work(problem, {i: kept + 1 for i, kept in directions.items()}) <= limit:
            return directions
    return dict.fromkeys(problem.ordered, 0)
