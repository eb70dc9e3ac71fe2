"""Which rows of a matrix are equal or zero."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from pmldesign_solvers.operators.operator import Array, Indices


def first_seen(keys: list[bytes], zero: bytes) -> tuple[Indices, Indices]:
    """Number equal keys by their first appearance; `zero` gets -1.

    Returns:
        The positions of the representatives, and for every key the number of its representative.
    """
    number: dict[bytes, int] = {zero: -1}
    representatives: list[int] = []
    labels = np.empty(len(keys), dtype=np.intp)
    for position, key in enumerate(keys):
        label = number.get(key)
        if label is None:
            label = number[key] = len(representatives)
            representatives.append(position)
        labels[position] = label
    return np.array(representatives, dtype=np.intp), labels


def _key(vector: Array) -> bytes:
    # A digest, for the bytes of all rows would be a second copy of the matrix; + 0.0 turns -0.0
    # into 0.0, so that equal rows have equal bytes.
    return blake2b((vector + 0.0).tobytes(), digest_size=16).digest()


def distinct_rows(matrix: Array) -> tuple[Indices, Indices]:
    """As `first_seen`, for the rows of a matrix."""
    return first_seen([_key(row) for row in matrix], _key(np.zeros(matrix.shape[1])))
