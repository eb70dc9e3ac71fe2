r"""A P: queries on the differences between cells of a group, given the invariants (`public`).

Given one table, the queries are a product whose open attributes are adjacent,

    A (e_a x e_i - e_a x e_j) = A_C e_a x A_O (e_i - e_j),      A P = A_C x A_O P_O,
    P_O = I - 1 1^T / n_O,

or marginals. Given several tables, the queries are marginals too: the marginal of a set S within a
known table is known; of any other, A_S P remains, and every column of A_S P has the squared norm
c_S^2 (1 - k/m) if k of the m numbers of the table are known. Given groups, the matrix is
materialized, except for tables at regions that nest if the groups are places; given several tables,
other queries on few cells are materialized too.
"""

from __future__ import annotations

import math
from functools import cached_property, singledispatch

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.public import RECORDS, Public
from pmldesign.workloads.ranges import asks_total
from pmldesign.workloads.terms.constructors import KroneckerWorkload
from pmldesign.workloads.terms.over import as_terms, products_over
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign.workloads.weighting import near_one, without_scale
from pmldesign_solvers.limits import MAX_ENTRIES, WRITTEN_CELLS
from pmldesign_solvers.operators.operator import EPS, Array, Indices

KNOWN = 1e-10
"""A row of A P below this fraction of its row of A is rounding: the invariants answer it."""
SAMPLES = 4
"""Number of random vectors that find the queries answered by the invariants."""


def given_invariants(workload: Workload, public: Public) -> Workload:
    """A P, the queries without the invariants; the same object for the same invariants.

    Raises:
        InvalidInputError: as `BesideWorkload`.
    """
    if not public or public.agrees(workload.public):
        return workload
    if workload._beside is None or workload._beside.public is not public:
        workload._beside = BesideWorkload(workload.whole, public)
    return workload._beside


@singledispatch
def difference_within(workload: Workload, public: Public) -> float | None:  # noqa: ARG001
    """Largest squared distance of two columns of a group of cells, or a bound above it.

    Rounded up; None if structure does not determine A P given the invariants.
    """
    return None


@singledispatch
def public_groups(workload: Workload) -> tuple[Indices, bool] | None:  # noqa: ARG001
    """The groups of cells that answers distinguish, and whether answers determine their sums.

    The number of the group of each cell, from 0 without gaps, shape (n,); None if only the matrix
    can determine them.
    """
    return None


class BesideWorkload(Workload):
    """A P, the queries without the invariants.

    Args:
        whole: A, shape (m, n).
        public: the invariants.

    Attributes:
        whole: A as it was given.
        inner: A without constants within groups: P removes these, but their rounding would remain.
        factors: given one table, A_C and A_O P_O of a product.

    Raises:
        InvalidInputError: too many cells for groups; or, given tables, the queries are neither
            marginals nor a product whose open attributes are adjacent and have few cells, or the
            tables answer all of them.
    """

    def __init__(self, whole: Workload, public: Public) -> None:
        self._whole, self.public = whole, public
        self.name, self._shape = whole.name, whole.shape
        self._inner, self._product, self._counts = whole, None, None
        if public.kind == "tables":
            self._product, self._counts = _structure(whole, public)
            if not (self._product or self._counts):
                self._inner = _written(whole, public)
        elif public.kind == "groups":
            self._inner = _written(whole, public) if self._within is None else whole
        else:
            inner = whole.without_offsets()[0]
            assert isinstance(inner, Workload)
            self._inner = inner
        plain = whole.unweighted
        self.unweighted = None if plain is None else given_invariants(plain, public)

    @property
    def whole(self) -> Workload:
        """A as it was given."""
        return self._whole

    @property
    def inner(self) -> Workload:
        """A without constants within groups."""
        return self._inner

    @property
    def factors(self) -> tuple[Workload, ...]:
        """A_C and A_O P_O of a product given one table; otherwise the workload itself."""
        return self._product or (self,)

    @cached_property
    def _within(self) -> float | None:
        """`longest_difference` given groups, if structure determines it."""
        large = self.whole.shape[1] > WRITTEN_CELLS
        return difference_within(self.whole, self.public) if large else None

    @cached_property
    def _kept(self) -> Array:
        """0 for the queries that the invariants answer, 1 for the others; shape (m,).

        Beyond WRITTEN_CELLS, products with random vectors P x determine them. If the vectors are
        too large, the rounding of answers to known queries is left as it is, and the result is 1
        for all.
        """
        m, n = self.shape
        if SAMPLES * max(m, n) > MAX_ENTRIES // 8:
            return np.ones(1)
        if n > WRITTEN_CELLS:
            vectors = np.random.default_rng(0).standard_normal((n, SAMPLES))
            products = np.abs(self.inner.matvec(self.public.within(vectors))).max(axis=1)
            large = products > KNOWN * math.sqrt(n) * self.inner.row_sizes()
            return np.asarray(large, dtype=np.float64)
        identity = np.eye(n)
        rows = self.inner.row_norms(identity)
        centred = self.inner.row_norms(self.public.centre(identity))
        return np.asarray(np.where(centred > KNOWN**2 * rows, 1.0, 0.0))

    def gram(self, weights: Array) -> Array:
        """P A^T diag(weights) A P, shape (n, n); refused if too large."""
        return self._both_sides(self.inner.gram(self._kept * weights))

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A P X P A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return self._kept * self.inner.row_quadratic(self._both_sides(matrix))

    def row_norms(self, half: Array) -> Array:
        """diag(A P H H^T P A^T), shape (m,)."""
        return self._kept * self.inner.row_norms(self.public.within(half))

    def matvec(self, x: Array) -> Array:
        """A P x, for x of shape (n,) or (n, c)."""
        return np.asarray((self._kept * self.inner.matvec(self.public.within(x)).T).T)

    def rmatvec(self, y: Array) -> Array:
        """P A^T y, for y of shape (m,) or (m, c); refused if too large."""
        return self.public.within(self.inner.rmatvec((self._kept * y.T).T))

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        return self._kept[:, None] * self.public.centre(self.inner.to_dense())

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row of A, shape (m,)."""
        return self.inner.row_sizes()

    def longest_column(self) -> float:
        """Largest squared norm of a column, rounded up; given tables, for any number of cells."""
        if self._product is not None:
            squares = [float(factor.column_squares().max()) for factor in self._product]
            return math.prod(squares) * (1 + sum(self.shape) * EPS)
        if self._counts is None:
            return super().longest_column()
        total = 0.0
        for subset, scale in zip(self._counts.subsets, self._counts.weights.tolist(), strict=True):
            cells = math.prod(self.public.sizes[i] for i in subset)
            total += scale**2 * (1 - self.public.dimension(subset) / cells)
        return total * (1 + (len(self._counts.subsets) + 4) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns of a group, rounded up."""
        if self._product is not None:
            longest = [
                factor.longest_difference() if factor.public else factor.longest_column()
                for factor in self._product
            ]
            return math.prod(longest) * (1 + 4 * len(longest) * EPS)
        if self._counts is not None:
            told = [self.public.tells(subset) for subset in self._counts.subsets]
            squares = float((self._counts.weights**2).sum(where=~np.array(told)))
            return 2 * squares * (1 + len(told) * EPS)
        if self._within is not None:
            return self._within
        gram = self.gram(np.ones(self.shape[0]))
        return max(self._farthest(gram[cells][:, cells]) for cells in self.public.members)

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages and tables."""
        return self.whole.row_label(index)

    def _both_sides(self, matrix: Array) -> Array:
        """P X P."""
        return self.public.centre(self.public.centre(matrix).T)


def _written(workload: Workload, public: Public) -> Workload:
    """The matrix of the queries without constants in groups."""
    cells = workload.shape[1]
    if cells > WRITTEN_CELLS:
        raise InvalidInputError(
            f"known answers of this form are for at most {WRITTEN_CELLS} cells, workload"
            f" {workload.name!r} has {cells}; take the total, one table, or the counts of places"
            " that nest and hold every one below, or fewer cells"
        )
    return DenseWorkload(public.relative(workload.to_dense()), name=workload.name, copy=False)


def _structure(
    workload: Workload, public: Public
) -> tuple[tuple[Workload, ...] | None, TermsWorkload | None]:
    """The factors of a product given one table, or its marginals; neither if materialized."""
    products = products_over(workload, public.sizes) or []
    counts = as_terms(workload)
    few = public.open and math.prod(public.sizes[public.open]) <= WRITTEN_CELLS
    if len(products) == 1 and public.open and few:
        return _product(workload, products[0], public.open, public), None
    if counts.counts and not counts.repeats and counts.domain == public.sizes:
        many = workload.shape[1] > WRITTEN_CELLS
        if many and all(map(public.tells, counts.subsets)):
            raise _all_known(workload, public)
        return None, counts
    if public.several and workload.shape[1] <= WRITTEN_CELLS:
        return None, None
    if len(products) == 1 and not public.several:
        raise InvalidInputError(
            f"beside the known answers {public.name!r} the attributes of {workload.name!r} that"
            f" they leave open have to stand together and to have at most {WRITTEN_CELLS} cells;"
            " put those that are known first or last, or ask for less"
        )
    sizes = " x ".join(map(str, public.sizes))
    what, product = "a table", "one product over the same attributes or "
    if public.several:
        what, product = "tables", ""
    raise InvalidInputError(
        f"beside the known answers {public.name!r}, {what} of {sizes} cells, the workload has to"
        f" be {product}any tables of their counts, got {workload.name!r}; with at most"
        f" {WRITTEN_CELLS} cells it may be any"
    )


def _product(
    workload: Workload, factors: tuple[Workload, ...], places: slice, public: Public
) -> tuple[Workload, ...]:
    """The factors, the open ones as one without its mean."""
    together = factors[places]
    if all(asks_total(factor) for factor in without_scale(together)[1]):
        raise _all_known(workload, public)
    inner = together[0] if len(together) == 1 else KroneckerWorkload(together)
    centred = given_invariants(inner, RECORDS)
    return (*factors[: places.start], centred, *factors[places.stop :])


def _all_known(workload: Workload, public: Public) -> InvalidInputError:
    return InvalidInputError(
        f"the known answers {public.name!r} answer all queries of {workload.name!r}"
    )


@near_one.register
def _(workload: BesideWorkload) -> tuple[Workload, int]:
    scaled, exponent = near_one(workload.inner)
    return (given_invariants(scaled, workload.public) if exponent else workload), exponent
