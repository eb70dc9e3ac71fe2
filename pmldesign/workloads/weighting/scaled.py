"""A workload times a power of two that brings its largest entry near 1; nothing is rounded.

Strategies of least error at p = 2 are the same for 2^k A as for A, and bounds on errors are 2^k
times those for A. Squares of entries are in range for 2^-e A.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.workloads.base import Workload
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.sparse import SparseWorkload
from pmldesign_solvers.operators.normalised import MODERATE


def near_one(workload: Workload) -> tuple[Workload, int]:
    """2^-e A and e; A itself and 0 where its entries are within 2^(-MODERATE), 2^MODERATE.

    Only matrices can have other entries; all that is made from names is near 1.
    """
    inner = workload.inner
    if not isinstance(inner, DenseWorkload | SparseWorkload):
        return workload, 0
    exponent = math.frexp(float(inner.row_sizes().max()))[1]
    if abs(exponent) <= MODERATE:
        return workload, 0
    matrix = np.ldexp(inner.to_dense(), -exponent)
    scaled = DenseWorkload(matrix, name=workload.name, copy=False)
    scaled.label = inner.row_label
    return scaled.beside(workload.public), exponent
