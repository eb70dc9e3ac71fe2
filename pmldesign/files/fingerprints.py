"""What tells a workload from another one in a file: a hash of its shape and entries."""

from __future__ import annotations

import hashlib

import numpy as np

from pmldesign.workloads import Workload

FINGERPRINT_COLUMNS = 64
"""Columns that are written out at a time."""
FINGERPRINT_ENTRIES = 2**26
"""Largest workload that is hashed: 512 MiB, a second or two."""


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


def fingerprint_or_none(workload: Workload) -> str | None:
    """None for a workload that takes long to hash."""
    m, n = workload.shape
    return fingerprint(workload) if m * n <= FINGERPRINT_ENTRIES else None
