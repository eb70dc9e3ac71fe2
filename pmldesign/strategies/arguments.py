"""The checks of every strategy: its matrix, the invariants, the queries it can answer; and R^+."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import Future
from functools import partial

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import fixed, instance, real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.columns import column_labels
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import Public
from pmldesign_solvers.limits import MOST_SVD_WORK, WRITTEN_CELLS
from pmldesign_solvers.operators.merge import closed_inverse
from pmldesign_solvers.operators.operator import RANK_CUTOFF, SVD_ENTRIES, Array

SVD_WORK = 2**32
"""Of r n min(r, n), from which on a decomposition leaves the main thread to signals."""
SVD_COPIES = 6
"""Copies of the matrix that a decomposition takes in memory."""

ADD_TABLE = "design one for queries of a table with these attributes, which are numbered from 0"
"""The remedy if a table is asked for that no measured table holds."""

ANSWER_TOLERANCE = 1e-6
"""Row a_i is answered when norm(a_i - a_i R^+ R) is at most this part of norm(a_i).

Above the rounding of R^+ R for condition numbers up to about 1e9, and far below the residual of a
missing measurement: at least 1/sqrt(n) for a sum of cells if one of them is not measured.
"""

LARGEST_ENTRY = 1e100
"""Entries up to this size, and no matrix all below its inverse: squares stay in range."""


def require_same_cells(name: str, cells: int, workload: Workload) -> int:
    """The number of cells of a strategy, which is that of the workload.

    Raises:
        InvalidInputError: the numbers differ, or `workload` is not a Workload.
    """
    instance("workload", workload, Workload, "a Workload (pmldesign.workload makes one)")
    asked = workload.shape[1]
    if asked != cells:
        raise InvalidInputError(
            f"strategy {name!r} measures {cells} cells, "
            f"workload {workload.name!r} has {asked}; both must have the same cells"
        )
    return cells


def require_measurements(name: str, rows: int, measurements: Array) -> None:
    """Refuse measurements of another number than those of a strategy.

    Raises:
        InvalidInputError: their shape does not begin with `rows`.
    """
    shape = np.shape(measurements)
    if shape[:1] != (rows,):
        raise InvalidInputError(f"strategy {name!r} takes {rows} measurements, got shape {shape}")


def require_in_row_space(name: str, matrix: Array, inverse: Array, workload: Workload) -> None:
    """Refuse a workload with a row outside the row space of R (see ANSWER_TOLERANCE).

    Args:
        name: of the strategy.
        matrix: R, shape (r, n).
        inverse: R^+, shape (n, r).
        workload: A; with fewer queries than cells it is materialized.

    Raises:
        InvalidInputError: which names the first such row.
    """
    m, n = workload.shape
    if m < n:
        queries = workload.to_dense()
        left = queries - workload.matvec(inverse) @ matrix
        residual, size = np.linalg.norm(left, axis=1), np.linalg.norm(queries, axis=1)
    else:
        identity = np.eye(n)
        residual = np.sqrt(workload.row_norms(identity - inverse @ matrix))
        size = np.sqrt(workload.row_norms(identity))
    missed = np.flatnonzero(residual > ANSWER_TOLERANCE * size)
    if not missed.size:
        return
    remedy = "add a query that covers it"
    sums = np.abs(matrix.sum(axis=1)).max()
    if not workload.public and sums <= 1e-9 * np.abs(matrix).sum(axis=1).max():
        remedy = (
            "it says nothing about the number of records, as is right where that is public: "
            "use `neighbours='replace'`, or add a query for the total"
        )
    raise InvalidInputError(
        f"strategy {name!r} cannot answer {workload.row_label(int(missed[0]))}: "
        f"it lies outside what the strategy measures; {remedy}"
    )


def is_projection(matrix: Array, inverse: Array, public: Public) -> bool:
    """Whether R^+ R is P, so that R answers every workload, given the invariants if any."""
    cells = matrix.shape[1]
    if cells > WRITTEN_CELLS and np.count_nonzero(matrix) < matrix.size / 8:
        product = (scipy.sparse.csr_array(inverse) @ scipy.sparse.csr_array(matrix)).toarray()
    else:
        product = inverse @ matrix
    left = public.centre(np.eye(cells)) - product
    return bool(np.linalg.norm(left) <= ANSWER_TOLERANCE)


def lower_bands(name: str, matrix: Array) -> Array:
    """R_(t, t - h) for h = 0 ... w, shape (n, w + 1), with any number left of the first column.

    Raises:
        InvalidInputError: R is not lower triangular with a positive diagonal.
    """
    rows, cells = matrix.shape
    below, above = scipy.linalg.bandwidth(matrix) if rows == cells else (0, 1)
    if above or not (matrix.diagonal() > 0).all():
        raise not_lower_triangular(name)
    steps = np.arange(cells)[:, None]
    return np.asarray(matrix[steps, steps - np.arange(below + 1)])


def not_lower_triangular(name: str) -> InvalidInputError:
    """Why a strategy cannot be measured step by step."""
    return InvalidInputError(
        f"strategy {name!r} is not lower triangular with a positive diagonal, so that it cannot go"
        " on line; use pmldesign.strategies.streaming_form(strategy)"
    )


def no_form(public: Public, name: str) -> InvalidInputError:
    """Why a strategy does not support the invariants."""
    return InvalidInputError(
        f"beside the known answers {public.name!r} a strategy on more than {WRITTEN_CELLS}"
        " cells is a product for a product, consists of residuals of marginals, or was made"
        f" for them; {name!r} is not"
    )


def nothing_but(public: Public, name: str) -> InvalidInputError:
    """Why a strategy has no form given the invariants."""
    if public.name:
        return InvalidInputError(
            f"strategy {name!r} measures nothing but the known answers {public.name!r}"
        )
    return InvalidInputError(
        f"strategy {name!r} measures nothing but the number of records, which is public under "
        "replace"
    )


def centring_units(whole: Array, centred: Array) -> float:
    """Units of 2^-53 that `centred`, R P, is off by, relative to the l2 norm of its columns.

    An entry is off by what its row's mean and one difference are, 32 units of the row's largest
    entry for up to 2^28 cells (numpy adds in pairs); all rows at once are one column.
    """
    longest = float(np.sqrt((centred**2).sum(axis=0).max()))
    sizes = float(np.abs(whole).max(axis=1).sum())
    return 34.0 * sizes / longest if longest > 0 else 0.0


def read_only(array: Array) -> Array:
    """The array itself, no longer writeable."""
    array.flags.writeable = False
    return array


def strategy_matrix(name: str, matrix: ArrayLike) -> Array:
    """R as a read-only float64 matrix: itself if it is one that owns its data, or a copy.

    Raises:
        InvalidInputError: not 2-D, empty, not real, not finite, zero, or out of range.
    """
    given = real_numbers(f"strategy {name!r}", matrix)
    if given.ndim != 2 or given.size == 0:
        raise InvalidInputError(
            f"strategy {name!r} must be a matrix with at least one row and one column, "
            f"got shape {given.shape}"
        )
    values: Array = given if fixed(given) else np.array(given, dtype=np.float64, order="C")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidInputError(
            f"strategy {name!r} must be finite, got {values[row, column]} "
            f"at row {row}, column {column}"
        )
    peak = max(values.max(), -values.min())
    if peak == 0:
        raise InvalidInputError(f"strategy {name!r} is zero: it measures nothing; add a query")
    if not 1 / LARGEST_ENTRY <= peak <= LARGEST_ENTRY:
        raise InvalidInputError(
            f"strategy {name!r} has largest entry {peak:g}, must be between "
            f"{1 / LARGEST_ENTRY:g} and {LARGEST_ENTRY:g}; rescale it, which changes no error "
            "at a given guarantee"
        )
    return read_only(values)


def inverted(matrix: Array, null: Array | None = None) -> tuple[Array, int]:
    """The pseudo-inverse, and the number of singular values above RANK_CUTOFF of the largest.

    That of a regular lower triangular matrix is exactly lower triangular. With c_j copies of each
    column of R', that of R has the rows of (R' diag(c)^(1/2))^+ over c^(1/2). A row more along a
    null vector adds a column to the pseudo-inverse, and does not change the others.

    Args:
        matrix: R, shape (r, n).
        null: a vector with R null = 0, shape (n,), if one is known.

    Raises:
        InvalidInputError: it takes many minutes, or more memory than there is.
    """
    rows, cells = matrix.shape
    lower = rows == cells and scipy.linalg.bandwidth(matrix)[1] == 0
    if not lower and matrix.size > SVD_ENTRIES:
        labels = column_labels(matrix)
        first, copies = np.unique(labels, return_index=True, return_counts=True)[1:]
        if first.size < cells:
            roots = np.sqrt(copies)
            within = None if null is None else null[first] * roots
            distinct, rank = inverted(matrix[:, first] * roots, within)
            return read_only((distinct / roots[:, None])[labels]), rank
    closed = _triangular_inverse(matrix) if lower else _closed_inverse(matrix, null)
    if closed is not None:
        return read_only(closed[0]), closed[1]
    _require_svd(rows, cells)
    try:
        left, values, right = _svd(matrix)
    except np.linalg.LinAlgError:  # rare: many equal singular values; the slower way converges
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    rank = int((values > RANK_CUTOFF * values[0]).sum())
    inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T
    if rank == rows and lower:
        # Exact zeros above the diagonal: a stream has no later cell to multiply by 1e-17.
        inverse = scipy.linalg.solve_triangular(matrix, np.eye(rank), lower=True)
    return read_only(np.asarray(inverse, dtype=np.float64)), rank


def _require_svd(rows: int, cells: int) -> None:
    """Refuse a decomposition of more than MOST_SVD_WORK, or of more memory than there is.

    Raises:
        InvalidInputError: it does.
    """
    needed = 8 * SVD_COPIES * rows * cells
    if rows * cells * min(rows, cells) <= MOST_SVD_WORK and needed <= memory():
        return
    raise InvalidInputError(
        f"measurements without structure, {rows} of {cells} cells, are too many to invert: at most"
        f" 2^{math.log2(MOST_SVD_WORK):g} multiplications and the memory of this machine, of which"
        f" they take {math.ceil(needed / 2**30)} GiB; measure a design instead, which brings its"
        " inverse (`pmldesign optimize`, -o design.npz), or take fewer cells"
    )


def memory() -> float:
    """Bytes of memory of this machine; infinity if this is not known."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):
        return math.inf


def _closed_inverse(matrix: Array, null: Array | None) -> tuple[Array, int] | None:
    """The inverse and the rank of a large matrix that is not square, if it has twelve digits."""
    rows, cells = matrix.shape
    if rows < cells or (null is None and rows == cells):
        return closed_inverse(matrix)
    if null is not None:
        longer = np.linalg.norm(matrix) / math.sqrt(cells) / np.linalg.norm(null)
        matrix = np.vstack([matrix, longer * null])
    turned = closed_inverse(matrix.T)
    if turned is None:
        return None
    return np.ascontiguousarray(turned[0][:rows].T), turned[1] - (null is not None)


def _triangular_inverse(matrix: Array) -> tuple[Array, int] | None:
    """The inverse of a lower triangular R that is surely regular, by the norms of R and R^-1."""
    if not matrix.diagonal().all():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = scipy.linalg.solve_triangular(matrix, np.eye(len(matrix)), lower=True)
        condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    return (np.asarray(inverse), len(matrix)) if condition * RANK_CUTOFF < 1 else None


def _svd(matrix: Array) -> tuple[Array, Array, Array]:
    """The thin decomposition; a long one runs in a thread, which a signal can abandon."""
    decompose = partial(np.linalg.svd, matrix, full_matrices=False)
    if matrix.size * min(matrix.shape) <= SVD_WORK:
        return decompose()
    outcome: Future[tuple[Array, Array, Array]] = Future()

    def run() -> None:
        try:
            outcome.set_result(decompose())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()
