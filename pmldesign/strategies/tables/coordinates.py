r"""Tables over sets of attributes, to and from the coordinates in which a strategy measures them.

Attribute i has coordinates Y_i x beside the sum 1^T x, with (v_i, Psi_i) the inverse of 1^T above
Y_i: contrasts for a plain attribute, any invertible ones for others. The coordinates of a set T,
(x)_{i in T} Y_i, need the table by T alone, and the table by T is made of those of its subsets.

Those of a design D of one attribute: with G = D^T D, tau = 1^T G^-1 1 and v = G^-1 1 / tau the
matrix X = G - 1 1^T / tau has rank n - 1 and X v = 0: X = Y^T Y, and what is beside the free vector
v is Y x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.marginals.residuals import contrasts, expand
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured

Attributes = tuple[int, ...]
FULL_RANK = 1e-12
"""Least eigenvalue of G, relative to the largest: variances keep four digits at least."""


class Coordinates:
    """The coordinates of all attributes.

    Args:
        sizes: number of values of each.
        ordered: Y_i and its inverse where these are no contrasts.
    """

    def __init__(self, sizes: Sequence[int], ordered: Mapping[int, Measured]) -> None:
        self._sizes, self._ordered = sizes, ordered

    def of_table(
        self,
        subset: Attributes,
        table: Array,
        turns: Mapping[int, mode_products.Map] | None = None,
    ) -> Array:
        """The coordinates of a set, one axis for each attribute and one of columns.

        Args:
            subset: T.
            table: by T.
            turns: what takes the place of Y_i; None for itself.
        """
        maps = [self._forward(i) if turns is None else turns[i] for i in subset]
        sizes = [self._sizes[i] for i in subset]
        flat = mode_products.apply(maps, sizes, table.reshape(math.prod(sizes), -1))
        return flat.reshape([size - 1 for size in sizes] + [-1])

    def rows(self, attribute: int) -> Array:
        """Y_i, shape (n_i - 1, n_i)."""
        return np.asarray(self._forward(attribute)(np.eye(self._sizes[attribute])))

    def table(self, subset: Attributes, parts: Mapping[Attributes, Array], columns: int) -> Array:
        """The table by a set from the coordinates of its subsets; missing ones count as 0."""
        sizes = [self._sizes[i] for i in subset]
        tensor = np.zeros((*sizes, columns))
        for chosen in itertools.product((False, True), repeat=len(subset)):
            part = parts.get(tuple(itertools.compress(subset, chosen)))
            if part is not None:
                tensor[tuple(slice(1, None) if measured else 0 for measured in chosen)] = part
        maps = [self._backward(i) for i in subset]
        return mode_products.apply(maps, sizes, tensor.reshape(math.prod(sizes), columns))

    def _forward(self, attribute: int) -> mode_products.Map:
        if attribute in self._ordered:
            return self._ordered[attribute].rows.__matmul__
        scale = math.sqrt(max(self._sizes[attribute] - 1, 1))
        return lambda y: contrasts(y) / scale

    def _backward(self, attribute: int) -> mode_products.Map:
        if attribute in self._ordered:
            return self._ordered[attribute].inverse.__matmul__
        scale = math.sqrt(max(self._sizes[attribute] - 1, 1))

        def turn(y: Array) -> Array:
            scaled = y * scale
            scaled[0] = y[0]
            return expand(scaled)

        return turn


def has_full_rank(design: Array) -> bool:
    """Whether a design D, shape (r, n), tells all values apart."""
    values = np.linalg.eigvalsh(design.T @ design)
    return bool(values[0] > FULL_RANK * values[-1])


def tau_and_coordinates(name: str, design: Array) -> tuple[float, Measured]:
    """Tau of a design D, shape (r, n), and Y with its inverse.

    Raises:
        InvalidInputError: the design has not full rank.
    """
    if not has_full_rank(design):
        raise InvalidInputError(f"strategy {name!r}: the design of an attribute has not full rank")
    n = design.shape[1]
    gram = design.T @ design
    values, vectors = np.linalg.eigh(gram)
    solution = vectors @ ((vectors.T @ np.ones(n)) / values)
    tau = float(solution.sum())
    # Y in an orthonormal basis of the complement of v, so that X v = 0 holds but for rounding
    basis = np.linalg.qr(np.column_stack([solution, np.eye(n)]))[0][:, 1:n]
    inner = basis.T @ (gram - 1 / tau) @ basis
    roots, turn = np.linalg.eigh(inner)
    rows = (basis @ turn * np.sqrt(roots)).T
    return tau, Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))
