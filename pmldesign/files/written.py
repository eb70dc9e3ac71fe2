"""What the arrays of a strategy file stand for: R itself, R beside public answers, its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.errors import FileError
from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.files.structures import read_structure, read_tables
from pmldesign.strategies import Strategy
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array

INVERSE_TOLERANCE = 1e-6
"""Of R R^+ R - R when a file is read, relative to R: float64 writes it to 1e-9 or better."""


def read_arrays(name: str, arrays: Archive, header: Mapping[str, Any]) -> Strategy | None:
    """What the arrays of a strategy file stand for; None if they are no strategy."""
    known = header.get("known")
    if known is not None and "counted" not in arrays:
        return _known_strategy(name, arrays, str(known), header.get("form"))
    if "form" in header or "strategy" not in arrays:
        structure = read_structure(name, arrays, header.get("form"))
        if known is not None and structure is not None:
            structure.public = replace(structure.public, name=str(known))
        return structure
    strategy = Strategy(name, arrays["strategy"])
    if known is not None:
        return strategy.beside(read_tables(str(known), arrays))
    if "right_inverse" in arrays:
        _check_inverse(strategy, arrays["right_inverse"])
    return strategy


def _known_strategy(name: str, arrays: Archive, known: str, form: Any) -> Strategy:
    """A strategy beside public answers; ValueError if its groups are none."""
    whole_numbers("groups", arrays["groups"])
    groups = arrays["groups"].astype(np.intp)
    structure = None if form is None else read_structure(name, arrays, form)
    cells = arrays["strategy"].shape[1] if structure is None else structure.cells
    if groups.shape != (cells,) or groups.min() < 0:
        raise ValueError("there is no group for each cell")
    if not np.bincount(groups).all() or groups.max() + 1 == len(groups):
        raise ValueError("its groups are not numbered from 0 without gaps, or none has two cells")
    public = Public("groups", known, groups=groups)
    if structure is not None:
        return structure.beside(public)
    return Strategy(name, arrays["strategy"], public=public)


def _check_inverse(strategy: Strategy, inverse: Array) -> None:
    """Refuse what does not undo R, so that A times it is no reconstruction.

    Raises:
        FileError: another shape, or R R^+ R is not R.
    """
    matrix = strategy.matrix
    fits = inverse.shape == matrix.shape[::-1] and inverse.dtype == np.float64
    fits = fits and bool(np.isfinite(inverse).all())
    rest = matrix @ (inverse @ matrix) - matrix if fits else matrix
    if np.linalg.norm(rest) > INVERSE_TOLERANCE * np.linalg.norm(matrix):
        rows, cells = matrix.shape
        raise FileError(
            f"{strategy.name} is damaged: its array right_inverse is not a float64 matrix of"
            f" {cells} x {rows} that undoes the strategy; write the file again"
        )
