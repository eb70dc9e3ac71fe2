"""The operations of a stream on a strategy: functions for which classes register versions.

A lower-triangular R with a positive diagonal answers step by step. Any R of full column rank has
one of the same Gram matrix G = R^T R: with J the reversal of the cells and R J = Q T (QR), it is
J T J, since G = J T^T T J. For a lower-triangular A (prefix sums) L is then lower triangular too,
and query i is answered when cell i arrives.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.arguments import lower_bands, not_lower_triangular
from pmldesign.strategies.base import Strategy, renamed
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.factor import Factor


@singledispatch
def is_triangular(_: Strategy) -> bool:
    """Whether all of its class are lower triangular with a positive diagonal."""
    return False


@singledispatch
def streaming_form(strategy: Strategy) -> Strategy:
    """The lower-triangular strategy, n x n with positive diagonal, of the same Gram matrix.

    Raises:
        InvalidInputError: R has rank below n, so that no such strategy exists.
    """
    if is_triangular(strategy):
        return renamed(strategy, f"{strategy.name} (streaming)")
    if strategy.rank < strategy.cells:
        raise InvalidInputError(
            f"strategy {strategy.name!r} has rank {strategy.rank} on {strategy.cells} cells; "
            f"its streaming form needs rank {strategy.cells}: add queries that cover every cell"
        )
    triangle = scipy.linalg.qr(strategy.matrix[:, ::-1], mode="r")[0][: strategy.cells]
    factor = triangle[::-1, ::-1]
    signs = np.where(np.diag(factor) < 0, -1.0, 1.0)
    return Strategy(f"{strategy.name} (streaming)", np.tril(signs[:, None] * factor))


@singledispatch
def factor_of(_: Strategy) -> Factor | None:
    """R for running sums by its recurrence; None if a stream goes through its rows."""
    return None


@singledispatch
def buffers_of(_: Strategy) -> int | None:
    """How many numbers a stream has to keep; None if R has no recurrence."""
    return None


@singledispatch
def bands_of(strategy: Strategy) -> Array:
    """R_(t, t - h) for h = 0 ... w, shape (n, w + 1), where R is lower triangular.

    What stands for entries left of the first column is any number.

    Raises:
        InvalidInputError: R is not lower triangular with a positive diagonal.
    """
    if strategy.shape[0] != strategy.cells:  # before a matrix is materialized
        raise not_lower_triangular(strategy.name)
    return lower_bands(strategy.name, strategy.matrix)


@singledispatch
def sums_of(_: Strategy) -> tuple[RunningSums, Array] | None:
    """The running sums that R is made for, and their variances."""
    return None


@singledispatch
def made_for(strategy: Strategy, _: Workload) -> Strategy:
    """The same R for running sums that have other weights of the queries."""
    return strategy
