r"""The numbers of queries that their variances depend on (`variances`), rounded up.

For certified upper bounds phi is taken to be off by delta: phi phi^T counts as
(1 + ETA) phi phi^T + (1 + 1/ETA) d diag(delta^2), which is at least as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import EPS, Array, Operator
from pmldesign_solvers.tables.measured import Measured

ETA = 1e-11
"""Relative size of what is added to a variance for the rounding of phi."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The queries of one factor.

    Attributes:
        attribute: which one.
        numbers: shape (m, d^2 + 1): phi phi^T and kappa of each query; of a plain attribute (m, 2),
            t and h.
    """

    attribute: int
    numbers: Array

    @cached_property
    def sums(self) -> Array:
        """The numbers summed over all queries, shape (1, numbers)."""
        return np.asarray(self.numbers.sum(axis=0, keepdims=True))

    @cached_property
    def alike(self) -> bool:
        """Whether all queries have the same numbers."""
        return bool((self.numbers == self.numbers[0]).all())


def asked(attribute: int, operator: Operator, basis: Measured, features: int) -> Asked:
    """The numbers of an ordered attribute's queries, upwards."""
    n, d = len(basis.inverse), features + 1
    image = operator.matvec(basis.inverse)
    sizes = np.sqrt(np.maximum(operator.row_norms(np.eye(n)), 1.0))
    delta = (n + 8) * EPS * math.sqrt(n) * np.linalg.norm(basis.inverse, axis=0)
    squares = (1 + 1 / ETA) * np.multiply.outer(sizes**2, delta**2)
    phi = image[:, :d]
    pairs = (1 + ETA) * phi[:, :, None] * phi[:, None, :]
    pairs[:, np.arange(d), np.arange(d)] += d * squares[:, :d]
    kappa = (1 + ETA) * (image[:, d:] ** 2).sum(axis=1) + squares[:, d:].sum(axis=1)
    return Asked(attribute, np.column_stack([pairs.reshape(len(phi), -1), kappa]))


def asked_plain(attribute: int, size: int, operator: Operator | None) -> Asked:
    """Those of a plain attribute; None for its counts."""
    if operator is None:
        squares, sums = np.ones(size), np.ones(size)
    else:
        squares, sums = operator.row_norms(np.eye(size)), operator.matvec(np.ones(size))
    rest = np.maximum(squares - sums**2 / size, 0.0) * (size - 1) / size
    return Asked(attribute, np.column_stack([(sums / size) ** 2, rest]) * (1 + 16 * EPS))
