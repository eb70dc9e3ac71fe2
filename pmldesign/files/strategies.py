"""Reading and writing strategies.

A strategy file is .npz: the arrays `strategy` (R), `reconstruction` (L) and a JSON text `header`
with the format version, p, the neighbouring relation, a fingerprint of the workload and, if the
strategy was made for a guarantee, the noise, its scale, sensitivity and errors, and the guarantee
in words and as numbers (`read_guarantee`). A strategy given invariants is dense, with their name,
`known`, and the group of each cell, `groups`. `participation` sets how often a person takes part,
if that is not once, and `own_grid` marks integer-valued noise. A strategy of certified norm also
has its dual weights `dual_u` and `dual_w`, and both bounds in the header. Only R is read back, and
the numbers are checked: everything else follows from R and the workload, and is recomputed.
`pmldesign.verifier` checks the claims of a file. Any workload file may also be read as a strategy
matrix.

Strategies with structure are written as their parts (`files.structures`): those for streams and for
tables always, others if R or L would have more than WRITTEN_ENTRIES entries. For more queries than
cells, if L would have more entries than that, `strategy` and `right_inverse` (R^+, n x r) take the
place of `reconstruction`; R R^+ R = R is checked when it is read, and L = A R^+.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign._version import FORMAT, version
from pmldesign.arguments import instance
from pmldesign.designs.results import Design
from pmldesign.errors import FileError, InvalidInputError, PmldesignError, require_format
from pmldesign.factorization import public_for
from pmldesign.files.arrays import Archive, file_name, reason, whole_numbers
from pmldesign.files.atomic import PathName, as_path, atomic_write, check_writable
from pmldesign.files.workloads import fingerprint_or_none, opened, read_workload
from pmldesign.mechanisms import Mechanism, answered_workload
from pmldesign.privacy.guarantees import Guarantee, from_json
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import as_participation
from pmldesign.strategies.participation.strategy import with_participation, without_participation
from pmldesign.verifier.report import KEY, digest_of
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.public import Public
from pmldesign_solvers.operators.operator import Array

WRITTEN_ENTRIES = 2**22
"""Largest R and L of a product that are written as matrices (32 MiB each): the inverse of one of
4096 x 4096 that is read back takes most of a minute."""
INVERSE_TOLERANCE = 1e-6
"""Of R R^+ R - R when a file is read, relative to R: float64 writes it to 1e-9 or better."""


def write_strategy(
    path: PathName,
    design: Design | Mechanism,
    *,
    mechanism: Mechanism | None = None,
) -> None:
    """Write a design or a mechanism: R, L, and the dual weights and the certificate of a design.

    Args:
        path: a .npz file; an existing one is replaced at the end.
        design: the design to write.
        mechanism: the noise of the design; by default a mechanism has its own. A mechanism for
            other neighbours, participation, invariants or queries is written without the bounds of
            the design, which are not about these.

    Raises:
        FileError: the path is no .npz, or cannot be written.
        InvalidInputError: the strategy is too large to be materialized.
    """
    if mechanism is not None:
        instance("mechanism", mechanism, Mechanism, "what `pmldesign.mechanism` returns")
    check_writable(path, "a strategy file", ".npz")
    if mechanism is None and isinstance(design, Mechanism):
        mechanism = design
    if mechanism is not None and mechanism.calibration is not None:
        design = design if _same_question(design, mechanism) else mechanism
    header, arrays = strategy_content(design)
    if mechanism is not None and mechanism.calibration is not None:
        header |= _noise_claims(mechanism, design.p)
    if isinstance(design, Design) and design.strategy.sampling is None:
        header |= {"lower": design.certificate.lower, "upper": design.certificate.upper}
        arrays |= _duals(design)
    write_content(path, header, arrays)


def write_content(path: PathName, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a header, with its digest, and arrays."""
    stated = {**header, KEY: digest_of(header, arrays)}
    with atomic_write(path, "wb") as handle:
        np.savez(handle, header=np.array(json.dumps(stated)), **arrays)


def strategy_content(design: Design | Mechanism) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a strategy, without noise and bounds.

    Raises:
        InvalidInputError: the strategy is too large to be materialized.
    """
    workload = answered_workload(design)
    form, arrays = _arrays(design, workload)
    public, workload = workload.public, workload.whole
    if public.groups is not None:
        arrays["groups"] = public.groups.astype(np.int64)
    if public.several:
        from pmldesign.files.structures import table_arrays

        arrays |= table_arrays(public)
    header = {
        "format": FORMAT,
        "pmldesign": version("pmldesign"),
        "versions": {name: version(name) for name in ("numpy", "scipy")},
        "p": str(design.p),
        "neighbours": design.neighbours.value,
        "workload": workload.name,
        "queries": workload.shape[0],
        "cells": workload.shape[1],
        "fingerprint": fingerprint_or_none(workload),
    }
    if form is not None:
        header["form"] = form
    if workload.unweighted is not None:
        header["unweighted"] = workload.unweighted.name
    if public.name:
        header["known"] = public.name
    schema = design.strategy.participation
    if schema is not None:
        header["participation"] = str(schema)
    return header, arrays


def _same_question(design: Design | Mechanism, mechanism: Mechanism) -> bool:
    """Whether the certificate of a design is about the people and queries of a mechanism."""
    sources = design, mechanism
    people = [
        (source.neighbours, source.strategy.participation, source.strategy.public.name)
        for source in sources
    ]
    one, other = (answered_workload(source).whole for source in sources)
    if people[0] != people[1] or one.name != other.name:
        return False
    measured = [without_participation(source.strategy) for source in sources]
    if measured[0].beside(mechanism.strategy.public) is not measured[1]:
        return False
    return one is other or fingerprint_or_none(one) == fingerprint_or_none(other)


def _noise_claims(mechanism: Mechanism, p: float) -> dict[str, Any]:
    """The noise, the guarantee that it meets, and the errors that come of it."""
    calibration = mechanism.calibration
    assert calibration is not None
    claims: dict[str, Any] = {
        "noise": mechanism.noise.value,
        "scale": mechanism.scale,
        "sensitivity": mechanism.sensitivity,
        "guarantee": mechanism.words,
        "guarantee_numbers": calibration.guarantee.to_json(),
        "achieved": calibration.achieved,
    }
    if mechanism.own_grid:
        claims["own_grid"] = True
    with contextlib.suppress(InvalidInputError):  # Laplace noise on a large workload
        claims |= {"rmse": mechanism.rmse, "max_std": mechanism.known_max_std}
        claims["error"] = mechanism.error(p)
    return claims


def read_strategy(path: PathName) -> Strategy:
    """The strategy in a file, called by the name of the file.

    Args:
        path: a strategy file, or any workload file (.npy, .npz, .csv, .mtx) taken as R.

    Raises:
        FileError: missing, unreadable, damaged, or of another format.
        InvalidInputError: the matrix is not a strategy.
    """
    return read_held(path)[0]


def read_question(path: PathName) -> str | None:
    """The name of the workload that a file was made for, or None; raises as `read_strategy`.

    Weights set how much errors count: the answered queries are those without them.
    """
    header = read_held(path)[1]
    name = header.get("unweighted", header.get("workload"))
    return None if name is None else str(name)


def read_unweighted(path: PathName) -> str | None:
    """The name of the queries without weights; None without a name. As `read_strategy`."""
    name = read_held(path)[1].get("unweighted")
    return None if name is None else str(name)


def read_guarantee(path: PathName) -> Guarantee | None:
    """The guarantee that a file was made for, None if it has none; raises as `read_strategy`."""
    return read_strategy(path).guarantee


def read_noise(path: PathName) -> str | None:
    """The noise that a file was made for, None if it has none; raises as `read_strategy`."""
    noise = read_held(path)[1].get("noise")
    return None if noise is None else str(noise)


def read_own_grid(path: PathName) -> bool:
    """Whether a file was made for noise on the grid of whole measurements; as `read_strategy`."""
    return read_held(path)[1].get("own_grid") is True


def _arrays(design: Design | Mechanism, workload: Workload) -> tuple[str | None, dict[str, Any]]:
    """R and L, or the name of the form of R and its parts."""
    from pmldesign.files.structures import form_for

    strategy = without_participation(design.strategy)
    rows, cells = strategy.shape
    queries = workload.shape[0]
    large = rows * max(queries, cells) > WRITTEN_ENTRIES
    whole = getattr(strategy, "whole", strategy)
    written = whole is not strategy and strategy.public.several
    form = None if written else form_for(whole, large=large)
    if form is not None:
        return form.name, form.write(whole)
    matrix = (whole if written else strategy).matrix
    if queries > cells and queries * rows > WRITTEN_ENTRIES:
        strategy.require_answers(
            given_invariants(workload, public_for(workload, design.neighbours))
        )
        return None, {"strategy": matrix, "right_inverse": strategy.pseudo_inverse}
    check_entries("the reconstruction", (queries, rows))
    return None, {"strategy": matrix, "reconstruction": design.reconstruction()}


def _duals(design: Design) -> dict[str, Any]:
    """U and w, factor by factor if a product has too many queries or cells for vectors."""
    pairs = design.dual_factors
    of_pairs = len(pairs) > 1 and any(w.ndim > 1 for _, w in pairs)
    if len(pairs) == 1 or (not of_pairs and math.prod(u.size for u, _ in pairs) <= WRITTEN_ENTRIES):
        steps = {} if design.dual_steps is None else {"dual_steps": design.dual_steps}
        return {"dual_u": design.dual_u, "dual_w": design.dual_w, **steps}
    arrays: dict[str, Any] = {f"dual_u_{i}": u for i, (u, _) in enumerate(pairs)}
    return arrays | {f"dual_w_{i}": w for i, (_, w) in enumerate(pairs)}


def _checked_header(name: str, arrays: Archive) -> dict[str, Any]:
    """The header of a strategy file of this format."""
    header: dict[str, Any] = json.loads(str(arrays["header"]))
    require_format(name, header["format"])
    return header


def _checked_guarantee(name: str, header: Mapping[str, Any]) -> Guarantee | None:
    """The guarantee in a header; None without one."""
    numbers = header.get("guarantee_numbers")
    if numbers is None:
        return None
    try:
        return from_json(numbers)
    except InvalidInputError as error:
        raise FileError(f"{name} is damaged or no strategy file: {error}") from None


def read_held(path: PathName) -> tuple[Strategy, dict[str, Any]]:
    """The strategy in a file, and its header; any other matrix has an empty one."""
    path = as_path(path)
    held = _read_archive(path) if path.suffix.lower() == ".npz" else None
    return held or (Strategy(file_name(path), read_workload(path).to_dense()), {})


def _read_archive(path: Path) -> tuple[Strategy, dict[str, Any]] | None:
    """What a strategy file holds; None if the file is some other .npz."""
    name = file_name(path)
    with opened(path) as handle:
        try:
            arrays = Archive(handle)
            if "header" not in arrays:
                return None
            header = _checked_header(name, arrays)
            guarantee = _checked_guarantee(name, header)
            schema = as_participation(header.get("participation"))
            strategy = with_participation(_read_arrays(name, arrays, header), schema)
            strategy.guarantee = guarantee
            return strategy, header
        except PmldesignError:
            raise
        except MemoryError:
            raise FileError(f"{name}: the strategy does not fit into memory") from None
        except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
            raise FileError(f"{name} is damaged or no strategy file: {reason(error)}") from None


def _read_arrays(name: str, arrays: Archive, header: Mapping[str, Any]) -> Strategy:
    """The strategy that the arrays of a file stand for."""
    from pmldesign.files.structures import read_structure, read_tables

    known = header.get("known")
    if known is not None and "counted" not in arrays:
        return _known_strategy(name, arrays, str(known), header.get("form"))
    if "form" in header:
        structure = read_structure(name, arrays, header["form"])
        if known is not None:
            structure.public = replace(structure.public, name=str(known))
        return structure
    strategy = Strategy(name, arrays["strategy"])
    if known is not None:
        return strategy.beside(read_tables(str(known), arrays))
    if "right_inverse" in arrays:
        _check_inverse(strategy, arrays["right_inverse"])
    return strategy


def _known_strategy(name: str, arrays: Archive, known: str, form: Any) -> Strategy:
    """A strategy given invariants; ValueError if its groups are invalid."""
    from pmldesign.files.structures import read_structure

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
    """Refuse a matrix that does not invert R, so that A times it is not a reconstruction.

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
