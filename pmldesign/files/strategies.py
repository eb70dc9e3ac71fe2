"""Reading and writing strategies.

A strategy file is .npz: the arrays `strategy` (R), `reconstruction` (L) and a JSON text `header`
with the format version, p, the neighbouring relation, a fingerprint of the workload and, where the
strategy was made for a guarantee, the noise, its scale and the guarantee in words. A strategy of
certified norm also has its dual weights `dual_u` and `dual_w`, and both bounds in the header.
What is read back is R alone: everything else follows from R and the workload, and is recomputed.
Any workload file may also be read as a strategy matrix.

Where R or L would have more than WRITTEN_ENTRIES entries, a strategy with structure is written as
what it is made of instead, and so is every strategy of residuals of marginals:

    product     `factor_0`, `factor_1` ... and, if they are not all 1, `weights`:
                R = diag(weights)^(1/2) (factor_0 x factor_1 x ...); dual weights too may be those
                of the factors, `dual_u_0`, `dual_w_0` ...
    blocks      `free` (the number of the attribute that they are about), `block_0`, `block_1` ...,
                `basis_0`, `basis_1` ... (orthonormal, of the other attributes in their order) and
                `combinations` (the block of every combination of their columns, -1 for none)
    marginals   `sizes`, `residuals` (one row for each set of attributes, -1 where it has fewer
                members than the largest) and `precisions`
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pmldesign.design import Design
from pmldesign.errors import FileError, PmldesignError
from pmldesign.files.atomic import PathName, atomic_write, check_writable
from pmldesign.files.workloads import read_workload
from pmldesign.mechanism import Mechanism
from pmldesign.searched_design import SearchedDesign
from pmldesign.strategies import BlockStrategy, MarginalsStrategy, ProductStrategy, Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators import Array

FORMAT = 1
FINGERPRINT_COLUMNS = 64
WRITTEN_ENTRIES = 2**22
"""Largest R and L of a product that are written out (32 MiB each): the inverse of one of
4096 x 4096 that is read back takes most of a minute."""


def check_strategy_path(path: PathName) -> None:
    """Refuse a path that a strategy cannot be written to; called before long work.

    Raises:
        FileError: not .npz, or not writable.
    """
    if Path(path).suffix.lower() != ".npz":
        raise FileError(f"cannot write {str(path)!r}: a strategy file ends in .npz")
    check_writable(path)


def write_strategy(
    path: PathName, design: Design | SearchedDesign, *, mechanism: Mechanism | None = None
) -> None:
    """Write a design: R, L, the dual weights and the certificate.

    Args:
        path: a .npz file; an existing one is replaced at the end.
        design: what to write.
        mechanism: the noise that it is to have; for a design found by a search its own by default.

    Raises:
        FileError: the path is no .npz, or cannot be written.
        InvalidInputError: the reconstruction is too large to be written out.
    """
    check_strategy_path(path)
    arrays = _arrays(design)
    header = {
        "format": FORMAT,
        "pmldesign": importlib.metadata.version("pmldesign"),
        "p": str(design.p),
        "neighbours": design.neighbours.value,
        "workload": design.workload.name,
        "fingerprint": fingerprint(design.workload) if "strategy" in arrays else None,
    }
    duals = {}
    if mechanism is None and isinstance(design, SearchedDesign):
        mechanism = design.mechanism
    if mechanism is not None and mechanism.calibration is not None:
        header["noise"] = mechanism.noise.value
        header["scale"] = mechanism.scale
        header["guarantee"] = mechanism.calibration.guarantee.describe(design.strategy.cells)
    if isinstance(design, Design):
        header["lower"] = design.certificate.lower
        header["upper"] = design.certificate.upper
        duals = _duals(design)
    with atomic_write(path, "wb") as handle:
        np.savez(
            handle,
            allow_pickle=False,
            header=np.array(json.dumps(header)),
            **arrays,
            **duals,
        )


def read_strategy(path: PathName) -> Strategy:
    """The strategy in a file, called by the name of the file.

    Args:
        path: a strategy file, or any workload file (.npy, .npz, .csv, .mtx) taken as R.

    Raises:
        FileError: missing, unreadable, damaged, or written by a later version.
        InvalidInputError: the matrix is no strategy.
    """
    path = Path(path)
    strategy = _read_own(path) if path.suffix.lower() == ".npz" else None
    return Strategy(path.name, read_workload(path).to_dense()) if strategy is None else strategy


def fingerprint(workload: Workload) -> str:
    """SHA-256 of the shape and the entries of a workload, whatever its form in memory."""
    m, n = workload.shape
    digest = hashlib.sha256(f"{m} {n}".encode())
    for start in range(0, n, FINGERPRINT_COLUMNS):
        count = min(FINGERPRINT_COLUMNS, n - start)
        block = np.zeros((n, count))
        block[np.arange(start, start + count), np.arange(count)] = 1.0
        digest.update(np.ascontiguousarray(workload.matvec(block) + 0.0).tobytes())
    return digest.hexdigest()


def _arrays(design: Design | SearchedDesign) -> dict[str, Any]:
    """R and L, or what R is made of."""
    strategy = design.strategy
    if isinstance(strategy, MarginalsStrategy):
        width = max(map(len, strategy.residuals))
        padded = [[*residual, *[-1] * (width - len(residual))] for residual in strategy.residuals]
        return {
            "sizes": np.array(strategy.sizes, dtype=np.int64),
            "residuals": np.array(padded, dtype=np.int64).reshape(len(padded), width),
            "precisions": strategy.precisions,
        }
    rows, cells = strategy.shape
    largest = rows * max(design.workload.shape[0], cells)
    if isinstance(strategy, ProductStrategy) and largest > WRITTEN_ENTRIES:
        factors = {f"factor_{i}": one.matrix for i, one in enumerate(strategy.factors)}
        return factors if strategy.weights is None else {**factors, "weights": strategy.weights}
    if isinstance(strategy, BlockStrategy) and largest > WRITTEN_ENTRIES:
        return {
            "free": np.array(strategy.index, dtype=np.int64),
            "combinations": strategy.combinations.astype(np.int64),
            **{f"basis_{i}": basis for i, basis in enumerate(strategy.bases)},
            **{f"block_{i}": one.matrix for i, one in enumerate(strategy.blocks)},
        }
    check_entries("the reconstruction", (design.workload.shape[0], rows))
    return {"strategy": strategy.matrix, "reconstruction": design.reconstruction()}


def _duals(design: Design) -> dict[str, Array]:
    """U and w, factor by factor where a product has too many queries or cells for vectors."""
    pairs = design.dual_factors
    if len(pairs) == 1 or math.prod(u.size for u, _ in pairs) <= WRITTEN_ENTRIES:
        return {"dual_u": design.dual_u, "dual_w": design.dual_w}
    found = {f"dual_u_{i}": u for i, (u, _) in enumerate(pairs)}
    return found | {f"dual_w_{i}": w for i, (_, w) in enumerate(pairs)}


def _strategy(name: str, arrays: Mapping[str, Any]) -> Strategy | None:
    """What the arrays of a strategy file stand for; None if they are no strategy."""
    if "strategy" in arrays:
        return Strategy(name, arrays["strategy"])
    if "factor_0" in arrays:
        factors = [Strategy(name, one) for one in _numbered(arrays, "factor")]
        return ProductStrategy(name, factors, weights=arrays.get("weights"))
    if "block_0" in arrays:
        blocks = [Strategy(name, one) for one in _numbered(arrays, "block")]
        bases = _numbered(arrays, "basis")
        return BlockStrategy(name, int(arrays["free"]), bases, arrays["combinations"], blocks)
    if "residuals" in arrays:
        residuals = [row[row >= 0].tolist() for row in arrays["residuals"]]
        return MarginalsStrategy(name, arrays["sizes"].tolist(), residuals, arrays["precisions"])
    return None


def _numbered(arrays: Mapping[str, Any], name: str) -> list[Array]:
    """The arrays `name_0`, `name_1` ..."""
    numbers = itertools.takewhile(lambda i: f"{name}_{i}" in arrays, itertools.count())
    return [arrays[f"{name}_{i}"] for i in numbers]


def _read_own(path: Path) -> Strategy | None:
    """The strategy in a strategy file; None if the file is some other .npz."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            if "header" not in arrays:
                return None
            version = json.loads(str(arrays["header"]))["format"]
            if version != FORMAT:
                raise FileError(
                    f"{path.name}: strategy format {version} is not {FORMAT}; read it with the "
                    "version of pmldesign that wrote it"
                )
            return _strategy(path.name, arrays)
    except PmldesignError:
        raise
    except FileNotFoundError:
        raise FileError(f"cannot read {str(path)!r}: No such file or directory") from None
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileError(f"{path.name} is damaged or no strategy file: {reason}") from None
