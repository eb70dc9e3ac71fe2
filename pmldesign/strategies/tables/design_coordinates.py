r"""The coordinates of what a design measures of one attribute beside its total.

With G = D^T D, tau = 1^T G^-1 1 and v = G^-1 1 / tau the matrix X = G - 1 1^T / tau has rank n - 1
and X v = 0: X = Y^T Y, and what is beside the free vector v is Y x.
"""

from __future__ import annotations

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured

FULL_RANK = 1e-12
"""Least eigenvalue of G, relative to the largest: variances keep four digits at least."""


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
