"""Measurements for the package mbi, which fits a graphical model to them: synthetic data.

A measurement that is constant along an attribute is one of a table without it: of R x only the
counts of the attributes along which its row changes are needed. Rows with the same attributes are
one `LinearMeasurement`: its query is a matrix on the cells of their table.

References:
    McKenna, Miklau and Sheldon (2021), Winning the NIST contest: a scalable and general approach to
    differentially private synthetic data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.releases.people.schema import Schema
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from pmldesign.releases.measured.measurements import Measurements

CONSTANT = 1e-12
"""Differences along an attribute below this part of the largest entry of a row are rounding."""


@dataclass(frozen=True, eq=False)
class TableQuery:
    """A matrix on the cells of a table."""

    matrix: Array

    def __call__(self, factor: Any) -> Any:
        """The matrix times the counts of the table."""
        return self.matrix @ factor.datavector()

    def op_norm_sq(self) -> float:
        """The squared largest singular value."""
        return float(np.linalg.norm(self.matrix, 2) ** 2)


def to_mbi(measured: Measurements, schema: Schema) -> tuple[Any, list[Any]]:
    """The domain, and a `LinearMeasurement` for each set of attributes that rows of R determine.

    Raises:
        InvalidInputError: mbi is not installed, the schema has other cells, or R is too large.
    """
    require_extra("synthetic data", "mbi", "synthetic")
    import mbi

    strategy = measured.strategy
    if schema.cells != strategy.cells:
        raise InvalidInputError(
            f"the schema has {schema.cells} cells, the measurements {strategy.cells}; take the"
            " schema of the release"
        )
    if schema.possible is not None:
        raise InvalidInputError(
            "mbi has no cells that cannot be, and the schema has impossible ones; answer queries"
            " with ask"
        )
    check_entries("the measurements", strategy.shape)
    deviations = np.concatenate([np.full(law.units.size, law.deviation) for law in measured.laws])
    tensor = np.asarray(strategy.matrix).reshape(-1, *schema.sizes)
    sizes = np.abs(strategy.matrix).max(axis=1)
    changes = np.empty((len(tensor), len(schema.sizes)), dtype=bool)
    for axis in range(len(schema.sizes)):
        ends = np.ptp(tensor, axis=axis + 1).reshape(len(tensor), -1).max(axis=1)
        changes[:, axis] = ends > CONSTANT * sizes
    found = []
    for told in np.unique(changes, axis=0):
        rows = np.flatnonzero((changes == told).all(axis=1))
        place = tuple(slice(None) if moves else 0 for moves in told)
        matrix = np.array([tensor[(row, *place)].ravel() for row in rows])
        clique = tuple(name for name, moves in zip(schema.names, told, strict=True) if moves)
        values, deviation = measured.values[rows], float(deviations[rows].max())
        found.append(mbi.LinearMeasurement(values, clique, deviation, TableQuery(matrix)))
    return mbi.Domain(schema.names, schema.sizes), found
