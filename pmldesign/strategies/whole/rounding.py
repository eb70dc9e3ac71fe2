"""Rounding matrices to whole numbers times a unit, within the row space of whole queries."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.whole.integers import Integers, times
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array

SPAN = 1e-9
"""R = M S holds if no row of R is farther from the row space of S than this part of it."""


def multiples(values: Array, bits: int) -> tuple[Integers, Array]:
    """Whole c and u = values / c, nearly the same for all."""
    _, top = math.frexp(float(values.max()))
    factors = np.maximum(np.rint(np.ldexp(values, bits - top)), 1.0)
    return factors.astype(np.int64), np.asarray(values / factors)


def rounded_matrix(matrix: Array, bits: int) -> tuple[Integers, float, bool]:
    """Z = round(2^k R), 2^-k, and whether nothing was rounded; entries of Z are below 2^bits."""
    _, top = math.frexp(float(np.abs(matrix).max()))
    moved = np.ldexp(matrix, bits - top)
    rounded = np.rint(moved)
    return rounded.astype(np.int64), math.ldexp(1.0, top - bits), bool((rounded == moved).all())


def independent_rows(workload: Workload) -> Integers | None:
    """S: independent queries that span all, if queries are whole; None if they are not."""
    try:
        queries, spanned = workload.whole.to_dense(), workload.to_dense()
    except InvalidInputError:
        return None
    if (queries != np.rint(queries)).any() or np.abs(queries).max() > 2**20:
        return None
    triangle, order = scipy.linalg.qr(spanned.T, mode="r", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    return queries[np.sort(order[:rank])].astype(np.int64)


def through_rows(
    matrix: Array, rows: Integers, bits: int, project: Callable[[Array], Array]
) -> tuple[Integers, float] | None:
    """Z = round(2^k M) S and 2^-k for R = M S P; None if R is not of that form.

    Args:
        matrix: R, shape (r, n).
        rows: S.
        bits: k.
        project: X -> X P.
    """
    span = project(rows.astype(np.float64))
    mixing = np.linalg.lstsq(span.T, matrix.T, rcond=None)[0].T.astype(np.float64)
    missed = np.abs(mixing @ span - matrix).max()
    if missed > SPAN * np.abs(matrix).max():
        return None
    rounded, unit, _ = rounded_matrix(mixing, min(bits, 40))
    product = times(rounded, rows)
    if product.dtype == object or np.abs(product).max() >= 2**49:
        return None
    return product, unit
