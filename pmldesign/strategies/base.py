"""The strategy: the measurements to which a matrix mechanism adds noise.

A mechanism answers A x by L (R x + sigma z), L R = A. R (r x n) is the strategy, L (m x r) the
reconstruction, G = R^T R the Gram matrix. For noise of equal variance on every row of R x, the
least-squares reconstruction L = A R^+ has the smallest error on every query at once
(Gauss-Markov: any other L is A R^+ + Z with Z R = 0, and the rows of Z are orthogonal to those of
A R^+), so only R is the strategy. The variance of query i, per unit noise, is

    (L L^T)_ii = a_i G^+ a_i^T.

Everything depends on R through G only, so any R with the same G serves.

Operations that only some callers need, such as a form for streams (`online`), are functions.
Classes register versions that use their structure, in the module of the function.

With several public tables any record is replaced by any other, which changes the public answers,
and R P has other distances than R. The measurements are R x + noise, unchanged: distances are those
of R, and least squares those of R P x + noise, which follows from R x + noise and the invariants.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Measurable, Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.arguments import (
    ANSWER_TOLERANCE,
    inverted,
    is_projection,
    no_form,
    nothing_but,
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
from pmldesign_solvers.operators.operator import Array, Flags, Indices, power_mean

if TYPE_CHECKING:
    from pmldesign.privacy.guarantees import Guarantee
    from pmldesign.strategies.participation.schema import AnyParticipation

STEEP = 1e5
"""Condition from which on errors are those of L as it is written: rounded another way they are off
by more than `verify` allows."""
KNOWN_ROWS = 1e-12
"""Rows of R P below this part of the rows of R are rounding."""


class Strategy(Measurable, Drawn, Displayed):
    """A strategy matrix R and the quantities that follow from it.

    Args:
        name: how tables and messages call it ("tree").
        matrix: R, shape (r, n). Copied, unless it is a read-only float64 array that owns its data.
        inverse: R^+, shape (n, r), if it is known already (R has full row rank then);
            None computes it when asked for.
        public: the invariants, if R is without them.

    Raises:
        InvalidInputError: the matrix is not 2-D, is empty, is not real, has an entry that is not
            finite, is zero, or is scaled out of the range of float64 squares.
    """

    regular: ClassVar[bool] = False
    """Whether every R of a subclass has rank n, so that it answers all workloads on its cells."""
    from_tables: ClassVar[bool] = False
    """Whether R x is a function of tables of counts."""
    participation: AnyParticipation | None = None
    """How often a person takes part; None for once."""
    guarantee: Guarantee | None = None
    """The guarantee that a strategy file was made for."""
    _inverse: Array | None = None
    _uncentred: Strategy | None = None
    _centred: tuple[Public, Strategy] | None = None
    """The invariants for which R P was last computed, and R P."""
    _queries: Workload | None = None
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

    def beside(self, public: Public) -> Strategy:
        """R P, the strategy without the public part.

        Raises:
            InvalidInputError: it was made for other public answers, measures nothing else, or has
                no such form.
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
        return self._centred[1]

    def _beside(self, public: Public) -> Strategy:
        """R P as a matrix, with R^+ if that is known and unchanged."""
        if public.several and self.cells <= WRITTEN_CELLS:
            return BesideTables(self, public)
        if public.kind == "tables":
            raise no_form(public, self.name)
        matrix, kept, same = _without_known(self.name, self.matrix, public)
        inverse = self._inverse if same and public.kind == "records" else None
        return Strategy(self.name, matrix[kept] if kept.any() else matrix, inverse, public=public)

    @cached_property
    def gram(self) -> Array:
        """G = R^T R, shape (n, n)."""
        return read_only(self.matrix.T @ self.matrix)

    @property
    def rank(self) -> int:
        """Number of singular values of R above RANK_CUTOFF times the largest."""
        return self._inverse_and_rank[1]

    @property
    def pseudo_inverse(self) -> Array:
        """R^+, shape (n, r); exactly lower triangular where R is lower triangular and regular."""
        return self._inverse_and_rank[0]

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

    @cached_property
    def _answers_all(self) -> bool:
        """Whether R^+ R is P, so that R answers every workload, given the invariants if any."""
        return is_projection(self.matrix, self.pseudo_inverse, self.public)

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return np.asarray(self.matrix @ x)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        return np.asarray(self.pseudo_inverse @ measurements)

    def reconstruction(self, workload: Workload) -> Array:
        """L = A R^+, shape (m, r).

        Raises:
            InvalidInputError: as `require_answers`, or too large.
        """
        rows = workload.shape[0], self.shape[0]
        check_entries(f"the reconstruction of strategy {self.name!r}", rows)
        self.require_answers(workload)
        return workload.matvec(self.pseudo_inverse)

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
        """`variance_norm` if the structure gives it without a vector of variances, else None."""
        return None

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        Raises:
            InvalidInputError: as `require_answers`.
        """
        self.require_answers(workload)
        return workload.matvec(self.estimate(measurements))

    def normalised(self) -> Strategy:
        """The same strategy scaled to l2 sensitivity 1, for neighbours given the invariants."""
        relation = Neighbours.REPLACE if self.public.name else Neighbours.ADD_REMOVE
        return self.scaled(1.0 / self.sensitivity_under(relation, "l2"))

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        inverse = None if self._inverse is None else self._inverse / factor
        return Strategy(self.name, self.matrix * factor, inverse, public=self.public)

    @property
    def factors(self) -> tuple[Strategy, ...]:
        """The factors of a product, one for each attribute; others are their only factor."""
        return (self,)


class BesideTables(Strategy):
    """R for data with several public tables.

    Args:
        whole: R, of few cells.
        public: the tables.

    Raises:
        InvalidInputError: R measures only public answers.
    """

    def __init__(self, whole: Strategy, public: Public) -> None:
        matrix, kept, same = _without_known(whole.name, whole.matrix, public)
        inverse = whole.pseudo_inverse if same else None
        super().__init__(whole.name, matrix[kept], inverse, public=public)
        self.whole = whole if kept.all() else Strategy(whole.name, whole.matrix[kept])

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """That of R."""
        self._require_same_answers(neighbours)
        return self.whole.sensitivity_under(neighbours, norm)

    def sensitivity_for(self, neighbours: Neighbours, noise: Noise) -> float:
        """That of R."""
        self._require_same_answers(neighbours)
        return self.whole.sensitivity_for(neighbours, noise)

    def column_labels(self) -> Indices | None:
        """Columns are equal where those of R are."""
        return self.whole.column_labels()

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Those of R."""
        return self.whole.pair_distances(norm)


def _without_known(name: str, matrix: Array, public: Public) -> tuple[Array, Flags, bool]:
    """R P, which of its rows are not known, and whether it is R.

    Raises:
        InvalidInputError: every row is known from the invariants, which have a name.
    """
    centred = public.centre(matrix)
    kept = np.abs(centred).max(axis=1) > KNOWN_ROWS * np.abs(matrix).max(axis=1)
    if public.name and not kept.any():
        raise nothing_but(public, name)
    least = KNOWN_ROWS * np.abs(centred).max()
    return centred, kept, bool(kept.all() and np.abs(centred - matrix).max() <= least)


def renamed(strategy: Strategy, name: str) -> Strategy:
    """The same strategy under another name."""
    other = copy(strategy)
    other.name, other._centred = name, None
    return other


def measured_queries(strategy: Strategy) -> Workload | None:
    """The queries that are measured themselves, where R is made of them."""
    return strategy._queries


@singledispatch
def inverse_known(strategy: Strategy) -> bool:
    """Whether R^+ follows from structure, so that it takes no more than writing it."""
    computed = type(strategy)._inverse_and_rank is Strategy._inverse_and_rank
    return strategy._inverse is not None or not computed or "_inverse_and_rank" in vars(strategy)


def spare_answers(strategy: Strategy, workload: Workload, missed: float) -> None:
    """Spare `require_answers` the product L R, if no row of A - L R is longer than `missed`."""
    if missed <= ANSWER_TOLERANCE * workload.row_sizes().min():
        strategy._answered = workload
