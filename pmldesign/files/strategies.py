"""Reading and writing strategies.

A strategy file is .npz: the arrays `strategy` (R), `reconstruction` (L) and a JSON text `header`
with the format version, p, the neighbouring relation, a fingerprint of the workload and, where the
strategy was made for a guarantee, the noise, its scale and the guarantee in words. A strategy of
certified norm also has its dual weights `dual_u` and `dual_w`, and both bounds in the header.
What is read back is R alone: everything else follows from R and the workload, and is recomputed.
Any workload file may also be read as a strategy matrix.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from pathlib import Path

import numpy as np

from pmldesign.design import Design
from pmldesign.errors import FileError, PmldesignError
from pmldesign.files.atomic import PathName, atomic_write, check_writable
from pmldesign.files.workloads import read_workload
from pmldesign.mechanism import Mechanism
from pmldesign.searched_design import SearchedDesign
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import check_entries

FORMAT = 1
FINGERPRINT_COLUMNS = 64


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
    rows = design.strategy.shape[0]
    check_entries("the reconstruction", (design.workload.shape[0], rows))
    header = {
        "format": FORMAT,
        "pmldesign": importlib.metadata.version("pmldesign"),
        "p": str(design.p),
        "neighbours": design.neighbours.value,
        "workload": design.workload.name,
        "fingerprint": fingerprint(design.workload),
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
        duals = {"dual_u": design.dual_u, "dual_w": design.dual_w}
    with atomic_write(path, "wb") as handle:
        np.savez(
            handle,
            allow_pickle=False,
            header=np.array(json.dumps(header)),
            strategy=design.strategy.matrix,
            reconstruction=design.reconstruction(),
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
    matrix = _read_own(path) if path.suffix.lower() == ".npz" else None
    if matrix is None:
        matrix = read_workload(path).to_dense()
    return Strategy(path.name, matrix)


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


def _read_own(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    """R of a strategy file; None if the file is some other .npz."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
            if "header" not in arrays or "strategy" not in arrays:
                return None
            version = json.loads(str(arrays["header"]))["format"]
            if version != FORMAT:
                raise FileError(
                    f"{path.name}: strategy format {version} is not {FORMAT}; read it with the "
                    "version of pmldesign that wrote it"
                )
            return np.asarray(arrays["strategy"])
    except PmldesignError:
        raise
    except FileNotFoundError:
        raise FileError(f"cannot read {str(path)!r}: No such file or directory") from None
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except Exception as error:  # on damaged files the parsers raise whatever they stumble upon
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileError(f"{path.name} is damaged or no strategy file: {reason}") from None
