r"""Strategies with a free vector, improved by couplings that keep the diagonal constant.

With X0_i = Y_i^T Y_i and (1, Y_i^T)^T (v_i, Psi_i) = 1 (`free_vector`), the first rows of Y_i are
features f of its cells, in directions where the total and the rest are asked for together:
(t + D)^-1 d first, then D d, D^2 d, ..., for d = Psi^T G v, D = Psi^T G Psi. A Gram matrix

    (x)_{i in Q} X0_i  (x)_{i in Sp} (X0_i without its features)  x  E_{Q,Sp}

is measured for each set Q of plain attributes and Sp of ordered ones, E on the products of 1 and
features of the others (`sectors`). The variances of all answers add up to the sum of
tr(K_{Q,Sp} E_{Q,Sp}^-1), where h_k is that of `free_vector`, rho_k = tr Psi^T G_k Psi off the
features, H_k = (v, Psi_f)^T G_k (v, Psi_f).

E is made of s_S > 0 on the diagonal and of couplings z of f_A with f_B times (x)_D X0, for
disjoint sets A, B, D of attributes. On the diagonal of the Gram matrix such a coupling is the
polynomial f_A f_B, whatever D is. The z of the same f_A f_B have to add up to 0: then the diagonal
is sum_S s_S. The problem is convex in s, z; it is solved by L-BFGS on log s and on z within the
plane where these sums vanish, from z = 0.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.lbfgs import best_point
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.tables import sectors
from pmldesign_solvers.tables.free_vector import FreeVector, Measured, measured
from pmldesign_solvers.tables.problem import Attributes, Factors, Tables
from pmldesign_solvers.tables.sectors import Batch, Sector, Space, batches

MAX_TOGETHER = 3
"""Features in one coupling; three gain 1e-5 on the tables of fourteen attributes."""

Term = tuple[Attributes, Attributes, Attributes, tuple[int, ...]]
"""D, A, B and the features of the attributes of A and B, in their joint order."""
LEAST_START = 1e-9
"""Of s_S at the start, as a part of the largest: what nobody asks for is measured a little."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """A strategy: what it measures of each attribute, and its small matrices."""

    total: float
    attributes: dict[int, Measured]
    features: dict[int, int]
    sectors: tuple[Sector, ...]


class _Program:
    """The convex problem in s and z."""

    def __init__(
        self,
        problem: Tables,
        dims: dict[int, int],
        attributes: Mapping[int, Measured],
        ask: Callable[[], None],
    ) -> None:
        self.dims = dims
        self.layouts: list[Layout] = []
        for batch in batches(problem):
            start = self.layouts[-1].columns[-1, -1] + 1 if self.layouts else 0
            self.layouts.append(Layout(problem, dims, batch, int(start)))
        self.size = int(self.layouts[-1].columns[-1, -1]) + 1
        matrices, rest = self._numbers(problem, attributes)
        self.jobs = []
        products: dict[Factors, Array] = {}
        layout_of = {id(layout.batch): layout for layout in self.layouts}
        for space in sectors.spaces(problem, dims):
            ask()
            layout = layout_of[id(space.batch)]
            weights = (space.batch.weights**2)[:, None, None]
            k = weights * space.assemble(matrices, rest, products)
            self.jobs.append((layout, space, k, layout.places(space, dims)))
        self._start()

    def _numbers(
        self, problem: Tables, attributes: Mapping[int, Measured]
    ) -> tuple[list[Array], Array]:
        matrices: list[Array] = [np.ones((1, 1))] * len(problem.grams)
        rest = np.zeros(len(matrices))
        for i, numbers in attributes.items():
            for k in problem.factors[i]:
                square = numbers.inverse.T @ np.asarray(problem.grams[k]) @ numbers.inverse
                d = self.dims[i]
                matrices[k], rest[k] = square[:d, :d], float(np.trace(square[d:, d:]))
        return matrices, rest

    def _start(self) -> None:
        """S without couplings, and the scale of each coupling: the mean of its two s."""
        mass = np.zeros(self.size)
        for layout, _, k, (numbers, rows, columns) in self.jobs:
            on = rows == columns
            parameters = layout.columns[:, numbers[on]]
            np.add.at(mass, parameters, k[:, rows[on], rows[on]])
        s = np.sqrt(mass)
        s = np.maximum(s, LEAST_START * s.max())
        self.is_set = np.zeros(self.size, dtype=bool)
        self.scale = np.zeros(self.size)
        planes: dict[object, list[Indices]] = {}
        for layout in self.layouts:
            for j, term in enumerate(layout.terms):
                plane = layout.columns[:, j]
                if term[3]:
                    first, second = layout.diagonal_of(term)
                    self.scale[plane] = np.sqrt(
                        s[layout.columns[:, first]] * s[layout.columns[:, second]]
                    )
                    key = (tuple(sorted(term[1] + term[2])), term[3])
                    planes.setdefault(key, []).append(plane)
                else:
                    self.is_set[plane] = True
                    self.scale[plane] = s[plane]
        self.scale /= s[self.is_set].sum()
        self._planes = [np.concatenate(plane) for plane in planes.values()]

    def project(self, x: Array) -> Array:
        """Onto the plane where the couplings of each product of features add up to 0."""
        x = x.copy()
        for plane in self._planes:
            c = self.scale[plane]
            square = float(c @ c)
            x[plane] = x[plane] - c * (float(c @ x[plane]) / square) if square > 0 else 0.0
        return x

    def parameters(self, y: Array) -> Array:
        """S and z of what is searched over."""
        values = np.where(self.is_set, np.exp(np.clip(np.where(self.is_set, y, 0), -50, 50)), y)
        moved = self.project(np.where(self.is_set, 0.0, values))
        return np.asarray(self.scale * np.where(self.is_set, values, moved))

    def matrices(self, z: Array) -> list[Array]:
        """E of every job, shape (B, size, size)."""
        matrices = []
        for layout, space, _, (numbers, rows, columns) in self.jobs:
            e = np.zeros((len(layout.columns), space.size, space.size))
            e[:, rows, columns] = e[:, columns, rows] = z[layout.columns[:, numbers]]
            matrices.append(e)
        return matrices

    def error(self, z: Array) -> tuple[float, Array]:
        """Sum of all variances and its slopes; inf where a matrix is not positive."""
        total, slope = 0.0, np.zeros(self.size)
        for e, (layout, _, k, (numbers, rows, columns)) in zip(
            self.matrices(z), self.jobs, strict=True
        ):
            try:
                np.linalg.cholesky(e)
            except np.linalg.LinAlgError:
                return math.inf, slope
            inverse = np.linalg.inv(e)
            total += float(np.vdot(inverse, k))
            middle = inverse @ k @ inverse
            twice = np.where(rows == columns, 1.0, 2.0)
            np.add.at(slope, layout.columns[:, numbers], -twice * middle[:, rows, columns])
        return total, slope

    def log_norm(self, y: Array) -> tuple[float, Array]:
        """Log of the norm, and its slopes."""
        z = self.parameters(y)
        total, slope = self.error(z)
        if not math.isfinite(total):
            return 1e10, np.zeros(self.size)
        length = float(z[self.is_set].sum())
        slope = self.scale * slope / total
        slope[self.is_set] += self.scale[self.is_set] / length
        others = self.project(np.where(self.is_set, 0.0, slope))
        slope = np.where(self.is_set, slope * z / self.scale, others)
        return (math.log(total) + math.log(length)) / 2, slope / 2


def solve(
    problem: Tables,
    point: FreeVector,
    features: Mapping[int, int],
    *,
    steps: int,
    proceed: Callable[[], bool] = lambda: True,
    ask: Callable[[float], None] = lambda seconds: None,  # noqa: ARG005
) -> Coupled:
    """The couplings of least total variance for the coordinates of a point.

    Args:
        problem: what is asked.
        point: the strategy to start from.
        features: their number for each ordered attribute; 0 for all leaves the strategy as it is.
        steps: of L-BFGS, at most.
        proceed: asked after every step; where it says no, what there is counts.
        ask: raises an error where this is to be given up; told how long what comes after the steps
            takes at most, once that is known, and before that 0.
    """
    begin = time.perf_counter()
    attributes = {
        i: measured(
            x,
            [np.asarray(problem.grams[k]) for k in problem.factors[i]],
            [float(point.value.by_h[k]) for k in problem.factors[i]],
            features[i],
        )
        for i, x in point.grams.items()
    }
    dims = {i: count + 1 for i, count in features.items()}
    program = _Program(problem, dims, attributes, lambda: ask(0.0))
    ask(time.perf_counter() - begin)
    y = np.zeros(program.size)
    if any(features.values()):
        y = best_point(program.log_norm, y, steps=steps, proceed=proceed)
    z = program.parameters(y)
    total, _ = program.error(z)
    length = float(z[program.is_set].sum())
    return Coupled(
        math.sqrt(total * length), attributes, dict(features), tuple(_sectors(program, z / length))
    )


def _sectors(program: _Program, z: Array) -> Iterator[Sector]:
    for matrices, (layout, space, _, _) in zip(program.matrices(z), program.jobs, strict=True):
        sets = tuple(s for s in space.offsets if all(program.dims[i] > 1 for i in s))
        for matrix, members in zip(matrices, layout.batch.members, strict=True):
            for plain, share in members.items():
                yield Sector(plain, space.spectators, sets, matrix * share)
