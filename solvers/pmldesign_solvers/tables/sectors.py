r"""Small matrices on the few directions of each ordered attribute that matter together.

Each ordered attribute keeps d_i directions, the first of which is its total; all that is left is
one more. For a set Q of plain attributes and a set Sp of ordered ones (spectators, each in what is
left of it) the products of kept directions of the other attributes span a space, and what is asked
of it is

    K_{Q,Sp} = sum_{T >= Q, Sp} c_T prod_Q h_k prod_(plain off Q) t_k prod_Sp rho_k (x) H_k,

H_k (d_i x d_i) over the factors k of T on the other ordered attributes and e e^T, e the total,
where T has none. Sets Q of which the same tables are asked are held as one batch of matrices
(`batches`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.tables.batches import Batch, batches
from pmldesign_solvers.tables.problem import Attributes, Factors, Tables


def subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All subsets of the members, small ones first."""
    return itertools.chain.from_iterable(
        itertools.combinations(members, k) for k in range(len(members) + 1)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sector:
    """E for one set of plain attributes and one of spectators.

    Attributes:
        plain: Q.
        spectators: Sp.
        sets: the sets S of other ordered attributes, in the order of the rows of E: those of S are
            the products of the features of its attributes, the last one fastest.
        matrix: E.
    """

    plain: Attributes
    spectators: Attributes
    sets: tuple[Attributes, ...]
    matrix: Array


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
        problem: what is asked.
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
    """Up to so many directions of each ordered attribute beside the total.

    Args:
        problem: what is asked.
        wanted: at most so many.
        limit: of `work`.
    """
    for count in range(wanted, 0, -1):
        directions = {i: min(count, problem.sizes[i] - 1) for i in problem.ordered}
        if work(problem, {i: kept + 1 for i, kept in directions.items()}) <= limit:
            return directions
    return dict.fromkeys(problem.ordered, 0)
