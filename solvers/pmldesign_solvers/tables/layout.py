"""The parameters of couplings, and where they stand in the small matrices (`couplings`)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from pmldesign_solvers.operators.operator import Indices
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.batches import Batch
from pmldesign_solvers.tables.problem import Attributes, Tables
from pmldesign_solvers.tables.sectors import Space

MAX_TOGETHER = 3
"""Features in one coupling; three gain 1e-5 on the tables of fourteen attributes."""

Term = tuple[Attributes, Attributes, Attributes, tuple[int, ...]]
"""D, A, B and the features of the attributes of A and B, in their joint order."""


class Layout:
    """The parameters of one batch, and where they stand in its matrices."""

    def __init__(self, problem: Tables, dims: Mapping[int, int], batch: Batch, start: int) -> None:
        attribute = problem.attribute
        self.batch = batch
        sets = {s for t in batch.tables for s in sectors.subsets([attribute[k] for k in t])}
        self.terms = _terms(sets, dims)
        self._number = {term: j for j, term in enumerate(self.terms)}
        count = len(batch.weights)
        self.columns = start + np.arange(count * len(self.terms)).reshape(count, -1)

    def places(self, space: Space, dims: Mapping[int, int]) -> tuple[Indices, Indices, Indices]:
        """Parameters, rows and columns of the entries of E on and above the diagonal."""
        numbers, rows, columns = [], [], []
        for number, (d, a, b, modes) in enumerate(self.terms):
            if not set(space.spectators) <= set(d):
                continue
            mode_of = dict(zip(sorted(a + b), modes, strict=True))
            free = [i for i in d if i not in space.spectators]
            for others in itertools.product(*(range(1, dims[i]) for i in free)):
                shared = dict(zip(free, others, strict=True))
                numbers.append(number)
                rows.append(space.index(shared | {i: mode_of[i] for i in a}))
                columns.append(space.index(shared | {i: mode_of[i] for i in b}))
        return tuple(np.array(x, dtype=np.intp) for x in (numbers, rows, columns))  # type: ignore[return-value]

    def diagonal_of(self, term: Term) -> tuple[int, int]:
        """The s of both sides of a coupling."""
        d, a, b, _ = term
        return tuple(  # type: ignore[return-value]
            self._number[tuple(sorted(d + side)), (), (), ()] for side in (a, b)
        )


def _terms(sets: set[Attributes], dims: Mapping[int, int]) -> list[Term]:
    """The sets first, then all couplings between two of them."""
    order = sorted(sets, key=lambda s: (len(s), s))
    terms: list[Term] = [(s, (), (), ()) for s in order]
    for first, second in itertools.combinations(order, 2):
        d = tuple(sorted(set(first) & set(second)))
        a, b = (tuple(i for i in side if i not in d) for side in (first, second))
        joint = sorted(a + b)
        if len(joint) <= MAX_TOGETHER:
            every = itertools.product(*(range(1, dims[i]) for i in joint))
            terms += [(d, a, b, modes) for modes in every]
    return terms
