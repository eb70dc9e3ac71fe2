r"""Tables that are measured by matrices of their own, in shared coordinates.

The table x_T over the attributes T has n_T cells. In the coordinates z_S of all sets S of
attributes, contrasts in each attribute of S and sums over the others,

    x_T = V_T z_T,      V_T = (x)_{i in T} (1/n_i, H_i),   z_T: the z_S with S in T,

H_i orthonormal contrasts. If R stacks R_T on the tables over T, then R^T R is

    X = sum_T J_T^T E_T J_T,      E_T = V_T^T R_T^T R_T V_T,

J_T z = z_T. The z_S of an S that is in one T alone occur in E_T alone, so that they are eliminated
table by table: with E = E_T, c the coordinates that T shares and l its own,

    X_c = sum_T (E_cc - E_cl E_ll^-1 E_lc),     K_T = (1; -E_ll^-1 E_lc),
    (X^-1)_TT = K_T (X_c^-1)_TT K_T^T + (0, E_ll^-1).

Nothing is larger than a table or the coordinates that several tables share.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from pmldesign_solvers.operators.operator import Array, Indices

Attributes = tuple[int, ...]


class Spaces:
    """The coordinates of tables, those that a table shares with others first.

    Args:
        sizes: n_i.
        tables: the sets T.
        total: whether the coordinate of the empty set counts; it does not where the total is
            public.

    Attributes:
        tables: the sets T.
        places: of each table the numbers of the coordinates that it shares, among those of all.
        shared: how many there are.
        has_total: whether it does.
    """

    def __init__(
        self, sizes: Sequence[int], tables: Sequence[Attributes], *, total: bool = True
    ) -> None:
        self.sizes, self.tables, self.has_total = tuple(sizes), tuple(tables), total
        listed = [[S for S in subsets(T) if S or total] for T in tables]
        times = Counter(S for sets in listed for S in sets)
        firsts: dict[Attributes, int] = {}
        self.shared = 0
        for S in sorted(times, key=lambda s: (len(s), s)):
            if times[S] > 1:
                firsts[S] = self.shared
                self.shared += math.prod(sizes[i] - 1 for i in S)
        self._orders: list[Indices] = []
        self.places: list[Indices] = []
        for T in tables:
            common, own, places = list[int](), list[int](), list[int]()
            for number, modes in enumerate(itertools.product(*(range(sizes[i]) for i in T))):
                chosen = {i: mode - 1 for i, mode in zip(T, modes, strict=True) if mode}
                S = tuple(chosen)
                if S in firsts:
                    place = reduce(lambda at, i: at * (sizes[i] - 1) + chosen[i], S, 0)
                    common.append(number)
                    places.append(firsts[S] + place)
                elif S or total:
                    own.append(number)
            self._orders.append(np.array([*common, *own], dtype=np.intp))
            self.places.append(np.array(places, dtype=np.intp))

    def bases(self, of_attribute: Sequence[Array]) -> list[Array]:
        """V_T of each table, shape (n_T, coordinates), from a matrix for each attribute."""
        bases = []
        for T, order in zip(self.tables, self._orders, strict=True):
            every = [np.ones((1, 1)), *(of_attribute[i] for i in T)]
            bases.append(np.asarray(reduce(np.kron, every))[:, order])  # type: ignore[arg-type]
        return bases

    def inverses(self) -> list[Array]:
        """V_T of orthonormal contrasts."""
        scales = [np.append(n**-0.5, np.ones(n - 1)) for n in self.sizes]
        return self.bases([frame_of(len(s)) * s for s in scales])


def subsets(members: Attributes) -> Iterator[Attributes]:
    """All subsets of a set."""
    for count in range(len(members) + 1):
        yield from itertools.combinations(members, count)


def frame(first: Array) -> Array:
    """An orthogonal matrix whose first column is a given unit vector."""
    reflected = first.copy()
    reflected[0] += math.copysign(1.0, first[0])
    square = float(reflected @ reflected)
    turn = np.eye(len(first)) - np.outer(reflected, reflected) * (2 / square)
    turn[:, 0] = first
    return turn


def frame_of(size: int) -> Array:
    """An orthogonal matrix whose first column is constant."""
    return frame(np.full(size, size**-0.5))


class Inverse:
    """X^-1 on each table.

    Args:
        spaces: the coordinates.
        blocks: E_T.

    Raises:
        LinAlgError: an E_T is not positive on its own coordinates, or X is not.
    """

    def __init__(self, spaces: Spaces, blocks: Sequence[Array]) -> None:
        self._spaces = spaces
        core = np.zeros((spaces.shared, spaces.shared))
        self._inner, self._turns = [], []
        for E, places in zip(blocks, spaces.places, strict=True):
            c = len(places)
            inner = positive_inverse(E[c:, c:])
            turn = inner @ E[c:, :c]
            core[np.ix_(places, places)] += E[:c, :c] - E[:c, c:] @ turn
            self._inner.append(inner)
            self._turns.append(turn)
        self._core = positive_inverse(core)

    def blocks(self) -> Iterator[Array]:
        """(X^-1)_TT of each table."""
        for places, inner, turn in zip(self._spaces.places, self._inner, self._turns, strict=True):
            P = self._core[np.ix_(places, places)]
            low = turn @ P
            yield np.block([[P, -low.T], [-low, inner + low @ turn.T]])

    def sandwich(self, grams: Sequence[Array]) -> Iterator[Array]:
        """(X^-1 G X^-1)_TT of each table for G = sum_T J_T^T G_T J_T."""
        core, sides = np.zeros_like(self._core), []
        for G, places, inner, turn in zip(
            grams, self._spaces.places, self._inner, self._turns, strict=True
        ):
            c = len(places)
            side = G[:c, c:] - turn.T @ G[c:, c:]  # K^T G on its own coordinates
            core[np.ix_(places, places)] += G[:c, :c] - turn.T @ G[c:, :c] - side @ turn
            sides.append(side @ inner)
        core = self._core @ core @ self._core
        for G, places, inner, turn, side in zip(
            grams, self._spaces.places, self._inner, self._turns, sides, strict=True
        ):
            c = len(places)
            m, mixed = core[np.ix_(places, places)], self._core[np.ix_(places, places)] @ side
            cross = mixed - m @ turn.T
            low = turn @ mixed
            own = turn @ m @ turn.T - low - low.T + inner @ G[c:, c:] @ inner
            yield np.block([[m, cross], [cross.T, own]])

    def solve(self, sides: Sequence[Array]) -> list[Array]:
        """X^-1 b on each table for b = sum_T J_T^T b_T, b_T of shape (coordinates, columns)."""
        width = sides[0].shape[1]
        total = np.zeros((self._spaces.shared, width))
        for b, places, turn in zip(sides, self._spaces.places, self._turns, strict=True):
            c = len(places)
            total[places] += b[:c] - turn.T @ b[c:]  # places of a table differ
        total = self._core @ total
        solved = []
        for b, places, inner, turn in zip(
            sides, self._spaces.places, self._inner, self._turns, strict=True
        ):
            z = total[places]
            solved.append(np.concatenate([z, inner @ b[len(places) :] - turn @ z]))
        return solved


def positive_inverse(matrix: Array) -> Array:
    """The inverse of a positive matrix, by way of diagonal 1; LinAlgError for any other."""
    roots = np.sqrt(matrix.diagonal())
    if not (roots > 0).all():
        raise np.linalg.LinAlgError("not positive")
    scales = np.outer(roots, roots)
    scaled = matrix / scales
    np.linalg.cholesky(scaled)
    inverse = np.linalg.inv(scaled)
    return np.asarray((inverse + inverse.T) / 2 / scales)
