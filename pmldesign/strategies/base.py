"""The strategy: what a matrix mechanism measures with noise.

A mechanism answers A x by L (R x + sigma z), L R = A. R (r x n) is the strategy, L (m x r) the
reconstruction, G = R^T R the Gram matrix. For noise of equal variance on every row of R x, the
least-squares reconstruction L = A R^+ has the smallest error on every query at once
(Gauss-Markov: any other L is A R^+ + Z with Z R = 0, and the rows of Z are orthogonal to those of
A R^+), so R alone is the strategy. The variance of query i, per unit noise, is

    (L L^T)_ii = a_i G^+ a_i^T.

Everything depends on R through G only, so any R with the same G serves. One of them is lower
triangular with a positive diagonal: with J the reversal of the cells and R J = Q T (QR), it is
J T J, since G = J T^T T J. For a lower-triangular A (prefix sums) L is then lower triangular too,
and query i is answered when cell i arrives.
"""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Measurable, Neighbours
from pmldesign.strategies.arguments import (
    ANSWER_TOLERANCE,
    inverted,
    is_projection,
    lower_bands,
    not_lower_triangular,
    read_only,
    require_in_row_space,
    require_same_cells,
    strategy_matrix,
)
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.display import Displayed, Drawn, Facts, count_text
from pmldesign.workloads.public import NOTHING, Public
from pmldesign.workloads.weighting import near_one
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import COMPLETE, Array, Flags, power_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pmldesign.privacy.guarantees import Guarantee
    from pmldesign.strategies.participation.schema import AnyParticipation
    from pmldesign.strategies.row_kinds import RowKinds
    from pmldesign_solvers.streams.chain import RunningSums
    from pmldesign_solvers.streams.factor import Factor

SMALL_ENTRIES = 2**23
"""Entries of R up to which its Gram matrix is formed for a sensitivity."""
STEEP = 1e5
"""Condition from which on errors are those of L as it is written: rounded another way they are off
by more than `verify` allows."""


class Strategy(Measurable, Drawn, Displayed):
    """A strategy matrix R and what follows from it.

    Args:
        name: how tables and messages call it ("tree").
        matrix: R, shape (r, n). Copied, unless it is a read-only float64 array that owns its data.
        inverse: R^+, shape (n, r), where whoever made R knows it (R has full row rank then);
            None computes it when asked for.
        public: what is public, where R is without it.

    Raises:
        InvalidInputError: the matrix is not 2-D, is empty, is not real, has an entry that is not
            finite, is zero, or is scaled out of the range of float64 squares.
    """

    regular: ClassVar[bool] = False
    """Whether every R of a subclass has rank n, so that it answers all workloads on its cells."""
    triangular: ClassVar[bool] = False
    """Whether every R of a subclass is lower triangular with a positive diagonal."""
    from_tables: ClassVar[bool] = False
    """Whether R x is a function of tables of counts."""
    participation: AnyParticipation | None = None
    """How often a person takes part; None for once."""
    workload: Workload | None = None
    """The queries that are measured themselves, where R is made of them."""
    guarantee: Guarantee | None = None
    """The guarantee that a strategy file was made for."""
    _inverse: Array | None = None
    _uncentred: Strategy | None = None
    _centred: tuple[Public, Strategy] | None = None
    """What is public beside which it was asked for last, and R P."""
    _answered: Workload | None = None
    """The workload that it was last found to determine."""

    def __init__(
        self,
        name: str,
        matrix: ArrayLike,
        inverse: Array | None = None,
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self._matrix = strategy_matrix(name, matrix)
        self.shape = len(self._matrix), self._matrix.shape[1]
        self._inverse = inverse

    def _display(self) -> tuple[str, Facts]:
        rows, cells = self.shape
        title = f"{type(self).__name__} {self.name!r}"
        return f"{title}: {count_text(rows)} measurements of {count_text(cells)} cells", []

    @property
    def matrix(self) -> Array:
        """R, shape (r, n), float64, read-only."""
        return self._matrix

    def renamed(self, name: str) -> Strategy:
        """The same strategy under another name."""
        other = copy(self)
        other.name, other._centred = name, None
        return other

    def coarse(self) -> Strategy:
        """The same, with all columns as far apart as the farthest two: a bound on its loss."""
        other = copy(self)
        other.by_diameter, other._centred = True, None
        return other

    @property
    def once(self) -> Strategy:
        """R for people who take part once."""
        return self

    def beside(self, public: Public) -> Strategy:
        """R P, the strategy without what is public.

        Raises:
            InvalidInputError: it was made for other public answers, tells nothing else, or has no
                such form.
        """
        if not public or public.agrees(self.public):
            return self
        if self.public.name:
            raise InvalidInputError(
                f"strategy {self.name!r} was made for the known answers {self.public.name!r}, not"
                f" for {public.name!r}"
            )
        if self._centred is None or self._centred[0] is not public:
            self._centred = public, self._beside(public)
            self._centred[1].by_diameter = self.by_diameter
        return self._centred[1]

    def _beside(self, public: Public) -> Strategy:
        from pmldesign.strategies.beside import matrix_beside

        return matrix_beside(self, public)

    @property
    def uncentred(self) -> Strategy:
        """R with its structure, where this is R P."""
        return self._uncentred or self

    @cached_property
    def gram(self) -> Array:
        """G = R^T R, shape (n, n)."""
        return read_only(self.matrix.T @ self.matrix)

    def gram_factors(self) -> tuple[Array, ...] | None:
        """G, or the small matrices whose Kronecker product it is; None where there are none."""
        return (self.gram,) if self.is_small else None

    @property
    def is_small(self) -> bool:
        """Whether the Gram matrix of R takes two seconds at most."""
        return self.cells <= WRITTEN_CELLS and math.prod(self.shape) <= SMALL_ENTRIES

    @property
    def rank(self) -> int:
        """Number of singular values of R above RANK_CUTOFF times the largest."""
        return self._inverse_and_rank[1]

    @property
    def pseudo_inverse(self) -> Array:
        """R^+, shape (n, r); exactly lower triangular where R is lower triangular and regular."""
        return self._inverse_and_rank[0]

    @property
    def inverse_known(self) -> bool:
        """Whether R^+ follows from structure, so that it takes no more than writing it."""
        computed = type(self)._inverse_and_rank is Strategy._inverse_and_rank
        return self._inverse is not None or not computed or "_inverse_and_rank" in vars(self)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        if self._inverse is not None:
            return self._inverse, self.shape[0]
        return inverted(self.matrix, np.ones(self.cells) if self.public.kind == "records" else None)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine.

        Raises:
            InvalidInputError: the numbers of cells differ, or a row of A is not in the row space
                of R (see ANSWER_TOLERANCE); the first such row is named.
        """
        cells = require_same_cells(self.name, self.cells, workload)
        if self.regular or self._answered is workload:
            return
        near = near_one(workload)[0]
        if tall := near.shape[0] >= cells:
            check_entries(f"strategy {self.name!r}", (cells, cells))
        else:
            check_entries(near.name, near.shape)
        alike = not self.public or near.public.agrees(self.public)
        if not (tall and alike and self._answers_all):
            require_in_row_space(self.name, self.matrix, self.pseudo_inverse, near)
        self._answered = workload

    def spare_answers(self, workload: Workload, missed: float) -> None:
        """Spare `require_answers` the product L R, if no row of A - L R is longer than `missed`."""
        if missed <= ANSWER_TOLERANCE * workload.row_sizes().min():
            self._answered = workload

    @cached_property
    def _answers_all(self) -> bool:
        """Whether R^+ R is P, so that R answers every workload, beside what is public if it is."""
        return is_projection(self.matrix, self.pseudo_inverse, self.public)

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return np.asarray(self.matrix @ x)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        return np.asarray(self.pseudo_inverse @ measurements)

    @property
    def tells_total(self) -> bool:
        """Whether R determines the total of its cells."""
        if self.regular:
            return True
        ones = np.ones(self.cells)
        return bool(np.abs(ones - self.estimate(self.measure(ones))).max() <= COMPLETE)

    def free_vector(self) -> Array:
        """(R^T R)^+ 1, shape (n,)."""
        return np.asarray(self.pseudo_inverse @ self.pseudo_inverse.sum(axis=0))

    def along_total(self, workload: Workload) -> tuple[Array, float]:
        """A v, shape (m,), and 1^T v for v = (R^T R)^+ 1."""
        free = self.free_vector()
        return workload.matvec(free), float(free.sum())

    @property
    def varying(self) -> Flags | slice:
        """Which measurements may tell more than the total, shape (r,)."""
        return slice(None)

    def products(self, workload: Workload) -> list[tuple[Workload, ...]] | None:  # noqa: ARG002
        """The workload as products over the attributes of R, if both are of such structure."""
        return None

    def knows(self, workload: Workload) -> bool:
        """Whether R answers the workload by its structure, and not as any matrix."""
        return self.products(workload) is not None

    def norm_beside(self, workload: Workload, power: float) -> float | None:  # noqa: ARG002
        """`variance_norm` of R P where structure tells it, else None."""
        return None

    def reconstruction(self, workload: Workload) -> Array:
        """L = A R^+, shape (m, r).

        Raises:
            InvalidInputError: as `require_answers`, or too large.
        """
        rows = workload.shape[0], self.shape[0]
        check_entries(f"the reconstruction of strategy {self.name!r}", rows)
        self.require_answers(workload)
        return workload.matvec(self.pseudo_inverse)

    def row_kinds(self, workload: Workload, most: int) -> Sequence[RowKinds] | None:  # noqa: ARG002
        """The rows of L by kinds, of at most so many entries at a time; None without structure."""
        return None

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise.

        L itself is not formed.

        Raises:
            InvalidInputError: as `require_answers`.
        """
        self.require_answers(workload)
        factor = self.pseudo_inverse
        steep = np.linalg.norm(self.matrix) * np.linalg.norm(factor) > STEEP * self.cells
        if factor.shape[1] > factor.shape[0] and not steep:
            # R^+ = F Q^T with orthonormal Q: A F has the row norms of A R^+ and fewer columns.
            triangle = scipy.linalg.qr(factor.T, mode="r")[0][: self.cells]
            factor = np.asarray(triangle.T, dtype=np.float64)
        return workload.row_norms(factor)

    def variance_norm(self, workload: Workload, power: float) -> float:
        """norm(diag(L L^T))_power, from 1 (the sum) to inf (the largest); raises as `variances`."""
        norm = self.norm_by_structure(workload, power)
        return power_mean(self.variances(workload), power) if norm is None else norm

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:  # noqa: ARG002
        """`variance_norm` where structure tells it without a vector of variances, else None."""
        return None

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        Raises:
            InvalidInputError: as `require_answers`.
        """
        self.require_answers(workload)
        return workload.matvec(self.estimate(measurements))

    def normalised(self) -> Strategy:
        """The same strategy scaled to l2 sensitivity 1, for the neighbours of what is public."""
        relation = Neighbours.REPLACE if self.public.name else Neighbours.ADD_REMOVE
        return self.scaled(1.0 / self.sensitivity_under(relation, "l2"))

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        inverse = None if self._inverse is None else self._inverse / factor
        return Strategy(self.name, self.matrix * factor, inverse, public=self.public)

    @property
    def factors(self) -> tuple[Strategy, ...]:
        """What a product is made of, a factor for each attribute; any other is its only one."""
        return (self,)

    @property
    def buffers(self) -> int | None:
        """How many numbers a stream has to keep; None where R has no such form."""
        return None

    @property
    def recurrence(self) -> Factor | None:
        """R for running sums by its recurrence; None where a stream goes through its rows."""
        return None

    @property
    def bands(self) -> Array:
        """R_(t, t - h) for h = 0 ... w, shape (n, w + 1), where R is lower triangular.

        What stands for entries left of the first column is any number.

        Raises:
            InvalidInputError: R is not lower triangular with a positive diagonal.
        """
        if self.shape[0] != self.cells:  # before a matrix is written out
            raise not_lower_triangular(self.name)
        return lower_bands(self.name, self.matrix)

    @property
    def own_sums(self) -> tuple[RunningSums, Array] | None:
        """The running sums that R is made for, and their variances."""
        return None

    def made_for(self, workload: Workload) -> Strategy:  # noqa: ARG002
        """The same R for running sums that have other weights of the queries."""
        return self

    def streaming(self) -> Strategy:
        """The lower-triangular strategy, n x n with positive diagonal, of the same Gram matrix.

        Raises:
            InvalidInputError: R has rank below n, so that no such strategy exists.
        """
        if self.rank < self.cells:
            raise InvalidInputError(
                f"strategy {self.name!r} has rank {self.rank} on {self.cells} cells; "
                f"its streaming form needs rank {self.cells}: add queries that cover every cell"
            )
        triangle = scipy.linalg.qr(self.matrix[:, ::-1], mode="r")[0][: self.cells]
        factor = triangle[::-1, ::-1]
        signs = np.where(np.diag(factor) < 0, -1.0, 1.0)
        return Strategy(f"{self.name} (streaming)", np.tril(signs[:, None] * factor))
