"""Workloads with a weight c for each query, diag(c) A, which keep the structure of A.

An error of p counts query i as c_i^p E |error_i|^p, and at p = inf as c_i times its standard
deviation. Marginals and tables take one weight for each of them, products weights that are products
themselves, unions those of their parts; A is never materialized, whatever c is.

Times a power of two that brings its largest entry near 1 (`near_one`) nothing is rounded.
Strategies of least error at p = 2 are the same for 2^k A as for A, and bounds on errors are 2^k
times those for A. Squares of entries are in range for 2^-e A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload
from pmldesign.workloads.display import count_text
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.operator import EPS, Array, Indices, Merged, Operator
from pmldesign_solvers.operators.scale import MODERATE, ScaledRows

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums

LARGEST_WEIGHT = 1e50
"""Weights lie between its inverse and this."""


def weighted(workload: Workload, weights: ArrayLike, *, name: str | None = None) -> Workload:
    """The queries of a workload, each times its weight.

    Args:
        workload: A, shape (m, n).
        weights: c > 0, shape (m,), or one number for all queries.
        name: its name in messages and tables; by default the name of A and "(weighted)".

    Returns:
        diag(c) A, whose `unweighted` is A (or that of A).

    Raises:
        InvalidInputError: another number of weights, or one that is not positive and finite.
    """
    checked = checked_weights(weights, workload.shape[0])
    if np.all(np.equal(checked, 1)):
        return workload
    scaled = copy(times(workload, checked))
    scaled.name = f"{workload.name} (weighted)" if name is None else name
    scaled.unweighted = workload.unweighted or workload
    scaled.schema = workload.schema
    return scaled


def weighted_parts(workload: Workload, weights: Sequence[float]) -> Workload:
    """The parts of a union, the tables of marginals, or the levels of regions, times a weight each.

    Args:
        workload: a union, marginals, tables or regions; any other has one part.
        weights: one for each part.
    """
    checked = [float(checked_weights(weight, 1)) for weight in weights]
    if len(checked) == 1:
        return weighted(workload, checked[0])
    scaled = times_parts(workload, checked)
    scaled.name = workload.name
    scaled.unweighted = workload.unweighted or workload
    scaled.schema = workload.schema
    return scaled


@singledispatch
def times(workload: Workload, weights: Array | float) -> Workload:
    """diag(c) A with the structure of A, for weights that are checked."""
    return WeightedWorkload(workload, weights, name=workload.name)


@singledispatch
def times_parts(workload: Workload, weights: Sequence[float]) -> Workload:
    """Every part times its weight, of workloads that have parts."""
    raise TypeError(f"{workload.name!r} has no parts to be weighted, got {len(weights)} weights")


@singledispatch
def near_one(workload: Workload) -> tuple[Workload, int]:
    """2^-e A and e; A itself and 0 if its entries are within 2^(-MODERATE), 2^MODERATE.

    Only matrices can have other entries; those of named workloads are near 1.
    """
    return workload, 0


def far_exponent(workload: Workload) -> int:
    """The exponent e of the largest entry; 0 within MODERATE."""
    exponent = math.frexp(float(workload.row_sizes().max()))[1]
    return exponent if abs(exponent) > MODERATE else 0


class WeightedWorkload(ScaledRows, Workload):
    """The queries of a workload, each times its weight.

    Args:
        workload: A, shape (m, n).
        weights: c > 0, shape (m,), or one number for all queries.
        name: its name in messages and tables.
    """

    def __init__(self, workload: Workload, weights: Array | float, *, name: str) -> None:
        self.workload = workload
        self.query_weights = np.broadcast_to(np.float64(weights), workload.shape[:1])
        super().__init__(workload, self.query_weights)
        self.name = name

    @property
    def running_sums(self) -> RunningSums | None:
        """The running sums of A, each times its weight."""
        sums = self.workload.running_sums
        if sums is None:
            return None
        weights = self.query_weights * np.sqrt(sums.query_squares)
        return type(sums)(sums.rates, weights, np.sqrt(sums.step_squares))

    def gram_rounding(self, weights: Array) -> float:
        """gram(u) is off by at most this times d d^T, d_j = norm(diag(u)^(1/2) c A e_j)."""
        return super().gram_rounding(weights) + 4 * EPS

    def weighted_squares(self, weights: Array) -> Array:
        """c^2 diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        return self.query_weights**2 * self.workload.weighted_squares(weights)

    def merge(self) -> Merged:
        """Without zero or repeated rows and columns; in the form of A if no row repeats."""
        merged = self.workload.merge()
        kept = merged.row_of[merged.row_of >= 0]
        if np.unique(kept).size < kept.size or not isinstance(merged.operator, Workload):
            return DenseOperator(self.to_dense()).merge()
        weights = np.empty(kept.size)
        weights[kept] = self.query_weights[merged.row_of >= 0]
        operator = WeightedWorkload(merged.operator, weights, name=self.name)
        return Merged(operator, merged.row_of, merged.column_of)

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """On vectors that sum to zero, in the form of A, without zero rows; and which are left."""
        operator, rows = self.workload.relative(idle=idle)
        weights = self.query_weights[rows]
        if isinstance(operator, Workload):
            return WeightedWorkload(operator, weights, name=self.name), rows
        return DenseOperator(weights[:, None] * operator.to_dense()), rows

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages and tables."""
        return self.workload.row_label(index)


def checked_weights(weights: ArrayLike, queries: int) -> Array | float:
    """One weight for all queries, or one for each.

    Raises:
        InvalidInputError: another number of weights, or one that is not positive and finite.
    """
    values = doubles(real_numbers("weights", weights))
    if values.ndim > 1 or (values.ndim == 1 and len(values) != queries):
        raise InvalidInputError(
            f"weights must be one number for each of the {count_text(queries)} queries, got shape"
            f" {values.shape}"
        )
    wrong = ~((values >= 1 / LARGEST_WEIGHT) & (values <= LARGEST_WEIGHT))
    if wrong.any():
        index = int(np.ravel(wrong).argmax())
        raise InvalidInputError(
            f"weights must be positive, from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, got"
            f" {np.ravel(values)[index]:g} for query {index}; leave out queries that do not matter"
        )
    return float(values) if values.ndim == 0 else values


def without_scale(factors: tuple[Workload, ...]) -> tuple[float, tuple[Workload, ...]]:
    """The factors of a product without the weights that all their queries share, and these."""
    scale, plain = 1.0, []
    for factor in factors:
        if isinstance(factor, WeightedWorkload) and np.ptp(factor.query_weights) == 0:
            scale *= float(factor.query_weights[0])
            plain.append(factor.workload)
        else:
            plain.append(factor)
    return scale, tuple(plain)


def scaled_factors(factors: tuple[Workload, ...], scale: float) -> tuple[Workload, ...]:
    """The factors of a product, the first one with a weight for all its queries."""
    if scale == 1:
        return factors
    first, *others = factors
    return (WeightedWorkload(first, scale, name=f"{scale:g}*{first.name}"), *others)


def factor_weights(rows: Sequence[int], weights: Array) -> list[Array] | None:
    """Weights of each factor's queries whose products are the given ones; None without such."""
    table = weights.reshape(rows)
    corner = float(table.flat[0])
    vectors = []
    for axis in range(table.ndim):
        along = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)[:, 0]
        vectors.append(along if axis == 0 else along / corner)
    product = vectors[0]
    for vector in vectors[1:]:
        product = np.multiply.outer(product, vector)
    return vectors if np.allclose(product, table, rtol=8 * EPS * table.ndim, atol=0) else None
