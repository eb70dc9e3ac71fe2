r"""The matrix R of every form of strategy file, from the arrays of the file, in double precision.

With H_i the contrasts (1, ..., 1, -k, 0, ..., 0) / (k (k + 1))^(1/2), k = 1 ... n_i - 1, [R; S] one
below the other and (x) the Kronecker product over the attributes in their order:

    product          diag(weights)^(1/2) (x)_i R_i
    identity, rows   [diag(d); rows]
    regions          r 1_nu (x)_{i in T} Y_i (x)_{i not in T} 1^T, r the weight of T at the node nu
                     of the tree of `parents`, Y_i the identity or coordinates
    blocks           R_b (x)_j v_j^T for each combination b of columns v_j of the bases
    coordinates      s_T^(1/2) (x)_{i in T} Y_i (x)_{i not in T} 1^T, Y_i the coordinates of an
                     attribute or (n_i/(n_i - 1))^(1/2) H_i
    weighted tables  theta_S (x)_{i in S} D_i (x)_{i not in S} 1^T, D_i the identity or a design
    Toeplitz         R_ij = r_{i - j}, i >= j
    recurrences      C_ij = sum_k g_ik prod_{j < m <= i} l_mk, i > j, C_ii the diagonal
    streams          C lower triangular, C^T C = sum_k c_k (N + s_k^2 W)^-1

Under replace a strategy measures R (1 - 1 1^T / n).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import scipy

from pmldesign.verifier.forms.form import members_of
from pmldesign.verifier.report import Arrays
from pmldesign.verifier.streams.resolvents import gram_of_epochs, gram_of_stream

INDEPENDENT = 1e-10
"""Part of the largest singular value, or pivot, below which columns count as dependent."""


def centred(rows: Any) -> Any:
    """The remainder of R if the total is public."""
    return rows - rows.mean(axis=1, keepdims=True)


def contrasts(size: int) -> Any:
    """H, shape (n - 1, n)."""
    k = np.arange(1.0, size)[:, None]
    rows = np.tri(size - 1, size) - np.eye(size - 1, size, k=1) * k
    return rows / np.sqrt(k * (k + 1))


def kron(parts: Any) -> Any:
    """The Kronecker product."""
    return reduce(np.kron, parts)


def over_sizes(sizes: Any, factors: Mapping[int, Any]) -> Any:
    """The product over all attributes, with a row of ones for attributes without a factor."""
    return kron(factors.get(i, np.ones((1, n))) for i, n in enumerate(sizes))


def product_rows(arrays: Arrays) -> Iterator[Any]:
    """Of a product, with weights or without."""
    count = sum(name.startswith("factor_") for name in arrays)
    rows = kron(arrays[f"factor_{i}"] for i in range(count))
    yield rows * np.sqrt(arrays["weights"])[:, None] if "weights" in arrays else rows


def identity_rows(arrays: Arrays) -> Iterator[Any]:
    """Of an identity with rows."""
    yield arrays["rows"]
    yield np.diag(arrays["diagonal"])


def region_rows(arrays: Arrays) -> Iterator[Any]:
    """Of counts or tables at regions."""
    sizes, parents, cells = arrays["sizes"].tolist(), arrays["parents"].tolist(), leaves(arrays)
    above = np.zeros((len(parents), len(cells)))
    for cell, node in enumerate(cells):
        while node >= 0:
            above[node, cell] = 1.0
            node = parents[node]
    order = arrays["ordered"].tolist() if "ordered" in arrays else []
    measured = dict(enumerate(map(np.eye, sizes)))
    measured |= {i: arrays[f"coordinates_{k}"] for k, i in enumerate(order)}
    for table, weights in zip(members_of(arrays["tables"]), arrays["node_weights"], strict=True):
        if not set(table) <= {*range(len(sizes))}:
            raise ValueError(f"there is no table {table}")
        rows = (weights[:, None] * above)[weights > 0]
        for i, n in enumerate(sizes):
            rows = np.kron(rows, measured[i] if i in table else np.ones((1, n)))
        yield rows


def leaves(arrays: Arrays) -> list[int]:
    """The nodes of a tree without children, in increasing order."""
    parents = arrays["parents"]
    if (parents >= np.arange(len(parents))).any():
        raise ValueError("parents come before their children")
    return np.flatnonzero(np.bincount(parents + 1, minlength=len(parents) + 1)[1:] == 0).tolist()


def block_rows(arrays: Arrays) -> Iterator[Any]:
    """Of blocks."""
    free, numbers = int(arrays["free"]), arrays["combinations"]
    bases = [arrays[f"basis_{j}"] for j in range(numbers.ndim)]
    for combination in np.argwhere(numbers >= 0):
        parts = [basis[:, [c]].T for basis, c in zip(bases, combination, strict=True)]
        parts.insert(free, arrays[f"block_{numbers[tuple(combination)]}"])
        yield kron(parts)


def coordinate_rows(arrays: Arrays) -> Iterator[Any]:
    """Of independent coordinates."""
    sizes = arrays["sizes"].tolist()
    order = arrays["ordered"].tolist() if "ordered" in arrays else []
    Y = {i: math.sqrt(n / (n - 1)) * contrasts(n) for i, n in enumerate(sizes) if n > 1}
    Y |= {i: arrays[f"coordinates_{k}"] for k, i in enumerate(order)}
    for T, s in zip(members_of(arrays["residuals"]), arrays["precisions"], strict=True):
        yield math.sqrt(s) * over_sizes(sizes, {i: Y[i] for i in T})


def weighted_rows(arrays: Arrays) -> Iterator[Any]:
    """Of weighted tables and weighted products."""
    sizes = arrays["sizes"].tolist()
    designed = arrays.get("designed", np.zeros(0, dtype=int)).tolist()
    designs = {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}
    for S, theta in zip(members_of(arrays["tables"]), arrays["weights"], strict=True):
        factors = {i: designs[i] if i in designs else np.eye(sizes[i]) for i in S}
        yield theta * over_sizes(sizes, factors)


def matrix_rows(arrays: Arrays) -> Iterator[Any]:
    """Of a matrix for each table."""
    sizes = arrays["sizes"].tolist()
    for k, T in enumerate(members_of(arrays["tables"])):
        rows = arrays[f"rows_{k}"]
        shape = [n if i in T else 1 for i, n in enumerate(sizes)]
        cells = np.broadcast_to(rows.reshape(len(rows), *shape), (len(rows), *sizes))
        yield cells.reshape(len(rows), -1)


def stream_rows(arrays: Arrays) -> Iterator[Any]:
    """Of a stream, or of all intervals."""
    yield _lower_factor(gram_of_stream(arrays))


def epoch_rows(arrays: Arrays) -> Iterator[Any]:
    """Of fixed epochs."""
    yield _lower_factor(gram_of_epochs(arrays))


def toeplitz_rows(arrays: Arrays) -> Iterator[Any]:
    """Of a Toeplitz matrix."""
    yield np.tril(scipy.linalg.toeplitz(arrays["coefficients"]))


def recurrence_rows(arrays: Arrays) -> Iterator[Any]:
    """Of a recurrence."""
    C, state = np.diag(arrays["diagonal"]), np.zeros(arrays["gains"].shape[::-1])
    for i, (gains, decays) in enumerate(zip(arrays["gains"], arrays["decays"], strict=True)):
        state *= decays[:, None]
        C[i] += gains @ state
        state[:, i] = 1.0
    yield C


def _lower_factor(gram: Any) -> Any:
    """C lower triangular with C^T C = X."""
    return scipy.linalg.cholesky(gram[::-1, ::-1])[::-1, ::-1]


def pseudo_inverse(R: Any) -> Any:
    """R^+, by orthogonal columns if they are independent."""
    rows, columns = R.shape
    if rows >= columns:
        Q, U = np.linalg.qr(R)
        sizes = np.abs(U.diagonal())
        if sizes.min() > INDEPENDENT * sizes.max():
            return scipy.linalg.solve_triangular(U, Q.T)
    return np.linalg.pinv(R, rcond=INDEPENDENT)
