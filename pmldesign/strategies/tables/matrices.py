r"""Strategies that measure tables, each by a matrix of its own, over a domain of any size.

R stacks R_T M_T, M_T the table over the attributes T. The tables together have a Gram
matrix in the coordinates of their attributes, X = sum_T J_T^T E_T J_T
(`pmldesign_solvers.joint.spaces`): estimates of a table are V_T (X^-1 R^T y)_T, with the covariance
C_T = V_T (X^-1)_TT V_T^T, and a query q on a table within T has the variance q C q^T for the sums C
of C_T. A column of R is at most as long as its longest parts together,

    |R e_x|^2 <= sum_T max_x |R_T e_x|^2,     |R (e_x - e_y)|^2 <= sum_T max |R_T (e_x - e_y)|^2,

with equality if all columns of an R_T are of the same length, as in designs.

Where the total is public, R_T is without the mean of its columns, and X without the total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import ADD_TABLE, nothing_but, read_only, require_measurements
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.structured import CountsStrategy, Term
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.terms.attributes import attribute_sets, attribute_sizes
from pmldesign.workloads.terms.over import terms_over
from pmldesign.workloads.terms.term import Term as Asks
from pmldesign.workloads.terms.workload import on_table
from pmldesign_solvers.joint.spaces import Inverse, Spaces, frame_of
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

FLAT = 1e-12
"""Part of R_T below which the remainder without the mean is rounding."""


class TableMatricesStrategy(CountsStrategy):
    """Measures some tables, each by a matrix.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        tables: their sets of attributes.
        matrices: R_T of each, shape (r_T, n_T).
        public: the number of records, if the tables' information about it is taken out.

    Raises:
        InvalidInputError: sizes, sets or matrices that do not fit, or that leave coordinates of a
            table untold.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        tables: Iterable[Iterable[int]],
        matrices: Sequence[ArrayLike],
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.subsets = attribute_sets("table", tables, len(self.sizes))
        self.matrices = [read_only(np.array(R, dtype=np.float64)) for R in matrices]
        cells = [math.prod(self.sizes[i] for i in subset) for subset in self.subsets]
        shapes = [R.shape for R in self.matrices]
        fits = [len(shape) == 2 and shape[0] > 0 for shape in shapes]
        finite = all(np.isfinite(R).all() for R in self.matrices)
        if not finite or not all(fits) or [shape[1] for shape in shapes] != cells:
            raise InvalidInputError(
                f"strategy {name!r}: its matrices do not fit its tables; write the file again"
            )
        if public:
            self.matrices = [read_only(_centred(R)) for R in self.matrices]
        self._rows = [len(R) for R in self.matrices]
        self.shape = sum(self._rows), math.prod(self.sizes)
        self.columns = math.prod(self.sizes[i] for i in set().union(*self.subsets))

    def _beside(self, public: Public) -> Strategy:
        if public.kind != "records":
            return super()._beside(public)
        kept = [(T, R) for T, R in zip(self.subsets, self.matrices, strict=True) if _tells(R)]
        if not kept:
            raise nothing_but(public, self.name)
        tables, matrices = zip(*kept, strict=True)
        return TableMatricesStrategy(self.name, self.sizes, tables, matrices, public=RECORDS)

    def _longest(self, norm: Norm) -> float:
        """Beyond WRITTEN_CELLS cells the parts of the tables count with their longest each."""
        if self.few:
            return super()._longest(norm)
        order = 1 if norm == "l1" else 2
        longest = [float(np.linalg.norm(R, order, axis=0).max()) for R in self.matrices]
        length = math.fsum(longest) if norm == "l1" else math.hypot(*longest)
        return raised(length, max(self._rows) + len(self._rows) + 8)

    def _farthest(self, norm: Norm) -> float:
        return super()._farthest(norm) if norm == "l1" else self._apart

    @cached_property
    def _apart(self) -> float:
        """At least the largest l2 distance of two columns."""
        squares, rounding = [], 0.0
        for R in self.matrices:
            gram = R.T @ R
            lengths = gram.diagonal()
            squares.append(float((lengths[:, None] + lengths - 2 * gram).max()))
            rounding += 8 * (len(R) + 4) * 2.0**-53 * float(lengths.max())
        return raised(math.sqrt(math.fsum(squares) + rounding), len(squares) + 8)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by: the means of columns."""
        return 4.0 * WRITTEN_CELLS if self.public else 0.0

    @cached_property
    def terms(self) -> list[Term]:  # type: ignore[override]
        """The matrix of each table."""
        pairs = zip(self.subsets, self.matrices, strict=True)
        return [Term(T, (R.shape[1],), (R,)) for T, R in pairs]

    def estimate(self, measurements: Array) -> Array:
        """A histogram with the coordinates that were measured, shape (n,) or (n, c).

        Of all of these it is the one of least norm, R^+ y.
        """
        if self.few or measurements.ndim > 1:
            return super().estimate(measurements)
        check_entries(f"the histogram of strategy {self.name!r}", (self.cells, 1))
        tensor = np.zeros(self.sizes)
        for T, table in zip(self.subsets, self._tables(measurements), strict=True):
            sizes = [self.sizes[i] for i in T]
            turns = [self._frames[i].T.__matmul__ for i in T]
            modes = kronecker.apply(turns, sizes, table[:, None]).reshape(sizes)
            place = tuple(slice(None) if i in T else 0 for i in range(len(self.sizes)))
            # a table is a sum over the other attributes: with n values each of these has the
            # constant coordinate n^(-1/2) times that sum
            others = math.prod(n for i, n in enumerate(self.sizes) if i not in T)
            tensor[place] = modes / math.sqrt(others)
        turns = [frame.__matmul__ for frame in self._frames]
        return kronecker.apply(turns, self.sizes, tensor.reshape(-1, 1)).ravel()

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,).

        The answers agree with each other: sums over an attribute are the same in all tables.
        """
        asked = terms_over(workload.inner, self.sizes)
        if asked is None:
            return super().answer(workload, measurements)
        self.require_answers(workload)
        estimates = self._tables(measurements)
        answers = []
        for term in asked:
            number, outside = self._within(term.attributes)
            table = estimates[number].reshape([self.sizes[i] for i in self.subsets[number]])
            answers.append(term.answer(table.sum(axis=outside).ravel()))
        return np.concatenate(answers)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        asked = terms_over(workload.inner, self.sizes)
        if asked is None or self.few:
            super().require_answers(workload)
            return
        for T in {term.attributes for term in asked}:
            wide = {i for i in T if self.sizes[i] > 1}
            if not any(wide <= set(S) for S in self.subsets) or (
                self.public and not workload.public
            ):
                remedy = "use `neighbours='replace'`" if self.public else ADD_TABLE
                raise InvalidInputError(
                    f"strategy {self.name!r} cannot answer {workload.name!r}: it does not measure "
                    f"the table over attributes {T}; {remedy}"
                )
        _ = self._inverse_of_gram

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        asked = terms_over(workload.inner, self.sizes)
        if asked is None:
            return super().variances(workload)
        self.require_answers(workload)
        check_entries(f"the variances of {workload.name}", (workload.shape[0], 1))
        values = np.concatenate([*map(self._of_table, asked)])
        return np.asarray(np.maximum(values, 0.0))

    def scaled(self, factor: float) -> TableMatricesStrategy:
        """The same strategy, every measurement times a factor."""
        matrices = [R * factor for R in self.matrices]
        return TableMatricesStrategy(
            self.name, self.sizes, self.subsets, matrices, public=self.public
        )

    def _of_table(self, asked: Asks) -> Array:
        number, outside = self._within(asked.attributes)
        sizes = [self.sizes[i] for i in self.subsets[number]]
        covariance = self._covariances[number].reshape(sizes + sizes)
        both = (*outside, *(axis + len(sizes) for axis in outside))
        queries = on_table(asked)
        cells = queries.shape[1]
        squares = queries.row_quadratic(covariance.sum(axis=both).reshape(cells, cells))
        return np.asarray(asked.weight**2 * squares)

    def _within(self, T: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """The first table that holds attributes, and the axes of its others."""
        wide = {i for i in T if self.sizes[i] > 1}
        number = next(k for k, S in enumerate(self.subsets) if wide <= set(S))
        return number, tuple(k for k, i in enumerate(self.subsets[number]) if i not in wide)

    def _tables(self, measurements: Array) -> list[Array]:
        """Estimates of the tables that are measured."""
        require_measurements(self.name, self.shape[0], measurements)
        parts = np.split(measurements, np.cumsum(self._rows)[:-1])
        sides = [
            (y @ R @ V)[:, None] for y, R, V in zip(parts, self.matrices, self._bases, strict=True)
        ]
        solved = self._inverse_of_gram.solve(sides)
        return [V @ z[:, 0] for V, z in zip(self._bases, solved, strict=True)]

    @cached_property
    def _spaces(self) -> Spaces:
        return Spaces(self.sizes, self.subsets, total=not self.public)

    @cached_property
    def _bases(self) -> list[Array]:
        return self._spaces.inverses()

    @cached_property
    def _frames(self) -> list[Array]:
        return [frame_of(n) for n in self.sizes]

    @cached_property
    def _inverse_of_gram(self) -> Inverse:
        images = [R @ V for R, V in zip(self.matrices, self._bases, strict=True)]
        try:
            return Inverse(self._spaces, [image.T @ image for image in images])
        except np.linalg.LinAlgError:
            raise InvalidInputError(
                f"strategy {self.name!r} does not tell all cells of its tables apart"
            ) from None

    @cached_property
    def _covariances(self) -> list[Array]:
        pairs = zip(self._bases, self._inverse_of_gram.blocks(), strict=True)
        return [V @ B @ V.T for V, B in pairs]


def _centred(R: Array) -> Array:
    return np.asarray(R - R.mean(axis=1, keepdims=True))


def _tells(R: Array) -> bool:
    """Whether a matrix measures more than the total."""
    return bool(np.abs(_centred(R)).max() > FLAT * np.abs(R).max())
