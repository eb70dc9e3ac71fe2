"""Strategies over several attributes that are never materialized.

R = diag(weights)^(1/2) (R_1 x ... x R_k), with R_i (r_i x n_i) over the cells of attribute i. For
measurements of equal weight R^+ = R_1^+ x ... x R_k^+, whatever the R_i; with weights

    R^+ = (R_1^+ x ... x R_k^+) diag(weights)^(-1/2)     if every R_i has full row rank.

On a product of workloads A_1 x ... x A_k the variance of a query is then a sum over measurements:
of products of the squared entries of A_i R_i^+, divided by the weight. The squared norm of a column
of R is the sum of products of squared entries of the R_i, times the weight. Both are computed along
one axis at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.strategies.arguments import no_form, read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.beside import KNOWN
from pmldesign.strategies.online import streaming_form
from pmldesign.strategies.sensitivity import (
    diameter_of_product,
    longest_of_product,
    product_entry_units,
    product_labels,
)
from pmldesign.strategies.structured import StructuredStrategy, Term
from pmldesign.strategies.total import (
    along_total,
    free_vector,
    norm_without_total,
    tells_total,
)
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.terms.attributes import positive_weights
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import Array, Indices, power_mean
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.kronecker import largest_sum

EXTREME = 300.0
"""Sum of the logarithms of base 2 of the factors' largest entries, in absolute value, from which on
the product counts as factors alone."""


class ProductStrategy(StructuredStrategy):
    """A product of strategies, one for each attribute, the last one's cells running fastest.

    Args:
        name: how tables and messages call it.
        factors: R_1 ... R_k, at least one; products among them are flattened, one with weights
            if it is too large to be materialized.
        weights: shape (r,), positive: the squared factor of each measurement; None for 1. Copied.
            With weights every factor has full row rank.
        public: a table; given it, the open attributes are one factor without its answers.

    Attributes:
        sizes: number of cells of each attribute, or of several that are open together.

    Raises:
        InvalidInputError: no factor, weights that are not r positive numbers, or weights on
            factors of lower rank.
    """

    def __init__(
        self,
        name: str,
        factors: Sequence[Strategy],
        *,
        weights: ArrayLike | None = None,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self._factors = tuple(part for factor in factors for part in _factors(factor))
        if not self.factors:
            raise InvalidInputError("strategies must hold at least one strategy, got none")
        own = _weights(factors)
        if own is not None:
            weights = own if weights is None else own * np.asarray(weights)
        self.sizes = tuple(factor.cells for factor in self.factors)
        self.columns = math.prod(self.sizes)
        self.shape = math.prod(factor.shape[0] for factor in self.factors), self.columns
        self._distances: dict[Norm, float] = {}
        self.weights = (
            None if weights is None else positive_weights("measurement", weights, self.shape[0])
        )
        if weights is not None and any(factor.rank < factor.shape[0] for factor in self.factors):
            raise InvalidInputError(
                f"strategy {name!r}: measurements that depend on each other cannot be weighted"
            )

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries(f"strategy {self.name!r}", self.shape)
        product = kronecker.product([factor.matrix for factor in self.factors])
        return read_only(self._roots[:, None] * product)

    @property
    def factors(self) -> tuple[Strategy, ...]:
        """R_1 ... R_k."""
        return self._factors

    @property
    def terms(self) -> list[Term]:  # type: ignore[override]
        """A single one."""
        matrices = tuple(factor.matrix for factor in self.factors)
        weights = 1.0 if self.weights is None else self._roots
        return [Term(tuple(range(len(self.sizes))), self.sizes, matrices, weights)]

    @property
    def place(self) -> int:
        """The number of the factor for the open attributes of a table."""
        counted = self.public.tables[0]
        return next(i for i in range(len(self.public.sizes)) if i not in counted)

    def _beside(self, public: Public) -> Strategy:
        """Given a table, with its open attributes together, and without the table's answers."""
        if public.kind != "tables" or public.several:
            return super()._beside(public)
        if self.sizes != public.sizes or self.weights is not None or public.open is None:
            raise no_form(public, self.name)
        together = self.factors[public.open]
        free = Strategy(self.name, kronecker.product([factor.matrix for factor in together]))
        before, after = self.factors[: public.open.start], self.factors[public.open.stop :]
        return ProductStrategy(self.name, [*before, free.beside(RECORDS), *after], public=public)

    def _matrix_tells(self, norm: Norm) -> bool:
        return super()._matrix_tells(norm) and not self._extreme and not self.public

    def _longest(self, norm: Norm) -> float:
        return longest_of_product(self._matrices, self.weights, norm)

    def _farthest(self, norm: Norm) -> float:
        """Above the largest distance in l1, unless all entries are 0, 1, -1, and with weights.

        Given a table, the open attributes differ, and all others are equal.
        """
        if self.public:
            distance = 1.0
            for number, factor in enumerate(self.factors):
                relation = Neighbours.REPLACE if number == self.place else Neighbours.ADD_REMOVE
                exact = distance * factor.sensitivity_under(relation, norm)
                distance = math.nextafter(exact, math.inf)
            return distance
        if norm not in self._distances:
            self._distances[norm] = diameter_of_product(self._matrices, self.weights, norm)
        return self._distances[norm]

    @property
    def _matrices(self) -> list[Array]:
        return [factor.matrix for factor in self.factors]

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most."""
        return product_entry_units(self._matrices, self.weights)

    def column_labels(self) -> Indices:
        """Columns are equal where those of every factor are."""
        return product_labels(self._matrices)

    @cached_property
    def _extreme(self) -> bool:
        """Whether products of entries may leave the range of float64."""
        peaks = [float(np.abs(matrix).max()) for matrix in self._matrices]
        return sum(abs(math.log2(peak)) for peak in peaks) > EXTREME

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        maps = [factor.measure for factor in self.factors]
        measured = kronecker.apply(maps, self.sizes, x)
        return np.asarray((measured.T * self._roots).T)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        maps = [factor.estimate for factor in self.factors]
        rows = [factor.shape[0] for factor in self.factors]
        return kronecker.apply(maps, rows, (measurements.T / self._roots).T)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """As for all structures; None given a table, which is not for PML."""
        return None if self.public else super().distance_profile(norm)

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number, as factors."""
        first, *others = self.factors
        factors = [first.scaled(factor), *others]
        return ProductStrategy(self.name, factors, weights=self.weights, public=self.public)

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        parts = self.products(workload)
        if parts is None and self.public:
            raise no_form(self.public, self.name)
        if parts is None:
            super().require_answers(workload)
            return
        pairs = [pair for part in parts for pair in zip(self.factors, part, strict=True)]
        # the parts of a union share their factors: each is looked at once
        for factor, queries in {(id(f), id(q)): (f, q) for f, q in pairs}.values():
            factor.require_answers(queries)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        parts = self.products(workload)
        if parts is None:
            return super().variances(workload)
        check_entries(f"the variances of {workload.name!r}", (workload.shape[0], 1))
        return np.concatenate([self._variances(part) for part in parts])

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm` of products without weights: the norms of the factors multiply."""
        parts = self.products(workload)
        if parts is None or self.weights is not None:
            return None
        # the parts of a union share their factors: each is looked at once
        norm = cache(lambda factor, queries: factor.variance_norm(queries, power))
        norms = [math.prod(map(norm, self.factors, part)) for part in parts]
        return power_mean(np.array(norms), power)

    @property
    def _roots(self) -> Array:
        return np.ones(1) if self.weights is None else np.sqrt(self.weights)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        inverse = kronecker.product([factor.pseudo_inverse for factor in self.factors])
        rank = math.prod(factor.rank for factor in self.factors)
        return read_only(inverse / self._roots), rank

    def _variances(self, part: Sequence[Workload]) -> Array:
        pairs = list(zip(self.factors, part, strict=True))
        if self.weights is None:
            return kronecker.outer([factor.variances(queries) for factor, queries in pairs])
        squares = [factor.reconstruction(queries) ** 2 for factor, queries in pairs]
        return kronecker.multiply(squares, 1 / self.weights)


def _norm_beside(factors: Sequence[Strategy], part: Sequence[Workload], power: float) -> float:
    """Sum or maximum of v - c^2 / (h^T h), h = (R^+)^T 1, over the queries of a product."""
    points = []
    for factor, queries in zip(factors, part, strict=True):
        along, size = along_total(factor, queries)
        points.append(np.stack([factor.variances(queries), along**2 / size], axis=1))
    if power == 1:
        all_of, explained = np.prod([values.sum(axis=0) for values in points], axis=0).tolist()
        return 0.0 if explained >= all_of * (1 - KNOWN) else float(all_of - explained)
    return largest_sum(points, np.array([1.0, -1.0]))


def _factors(strategy: Strategy) -> tuple[Strategy, ...]:
    return strategy.factors if _is_flattened(strategy) else (strategy,)


def _is_flattened(strategy: Strategy) -> bool:
    if not isinstance(strategy, ProductStrategy):
        return False
    return strategy.weights is None or math.prod(strategy.shape) > MAX_ENTRIES


def _weights(strategies: Sequence[Strategy]) -> Array | None:
    """The product of the weights of factors that are flattened; None if all lack weights."""
    vectors = [s.weights if isinstance(s, ProductStrategy) else None for s in strategies]
    vectors = [v if _is_flattened(s) else None for v, s in zip(vectors, strategies, strict=True)]
    if all(vector is None for vector in vectors):
        return None
    check_entries("the weights of a product", (math.prod(s.shape[0] for s in strategies), 1))
    pairs = zip(vectors, strategies, strict=True)
    return kronecker.outer([np.ones(s.shape[0]) if v is None else v for v, s in pairs])


@tells_total.register
def _(strategy: ProductStrategy) -> bool:
    """Whether every factor determines the total of its cells."""
    return all(map(tells_total, strategy.factors))


@free_vector.register
def _(strategy: ProductStrategy) -> Array:
    """(R^T R)^+ 1, shape (n,): one of vectors, up to the weights."""
    check_entries(f"strategy {strategy.name!r}", (strategy.shape[0], 1))
    sums = [factor.pseudo_inverse.sum(axis=0) for factor in strategy.factors]
    return strategy.estimate(kronecker.outer(sums) / strategy._roots)


@along_total.register
def _(strategy: ProductStrategy, workload: Workload) -> tuple[Array, float]:
    """A v, shape (m,), and 1^T v, from the factors: v has an entry for each of all cells."""
    parts = strategy.products(workload)
    if parts is None:
        return along_total.dispatch(Strategy)(strategy, workload)
    if strategy.weights is None:
        # the parts of a union share their factors: each is looked at once
        told = cache(along_total)
        pairs = [[*zip(*map(told, strategy.factors, part), strict=True)] for part in parts]
        along = [kronecker.outer(vectors) for vectors, _ in pairs]
        return np.concatenate(along), math.prod(pairs[0][1])
    sums = kronecker.outer([factor.pseudo_inverse.sum(axis=0) for factor in strategy.factors])
    rows = [
        [
            factor.reconstruction(queries)
            for factor, queries in zip(strategy.factors, part, strict=True)
        ]
        for part in parts
    ]
    along = [kronecker.multiply(matrices, sums / strategy.weights) for matrices in rows]
    return np.concatenate(along), float(sums @ (sums / strategy.weights))


@norm_without_total.register
def _(strategy: ProductStrategy, workload: Workload, power: float) -> float | None:
    """`variance_norm` of R P, of products without weights at power 1 and inf."""
    parts = strategy.products(workload)
    if strategy.weights is not None or parts is None or power not in (1, math.inf):
        return None
    return power_mean(np.array([_norm_beside(strategy.factors, p, power) for p in parts]), power)


@streaming_form.register
def _(strategy: ProductStrategy) -> Strategy:
    """The lower-triangular strategy, n x n with positive diagonal, of the same Gram matrix.

    Raises:
        InvalidInputError: R has rank below n, so that no such strategy exists; or it has
            weights and is too large to be materialized.
    """
    if strategy.weights is not None:
        return streaming_form.dispatch(Strategy)(strategy)
    factors = [*map(streaming_form, strategy.factors)]
    return ProductStrategy(f"{strategy.name} (streaming)", factors)
