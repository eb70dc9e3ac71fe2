"""A workload that is a plain array, and records how wide the products asked of it are."""

import numpy as np

from pmldesign.workloads import Workload
from pmldesign_solvers.operators import DenseOperator


class ArrayWorkload(Workload):
    def __init__(self, matrix, name="array"):
        self.name = name
        self.operator = DenseOperator(np.asarray(matrix, dtype=float))
        self.widths = []

    @property
    def shape(self):
        return self.operator.shape

    def gram(self, weights):
        return self.operator.gram(weights)

    def row_quadratic(self, matrix):
        return self.operator.row_quadratic(matrix)

    def matvec(self, x):
        self.widths.append(x.shape[1] if x.ndim == 2 else 1)
        return self.operator.matvec(x)

    def rmatvec(self, y):
        return self.operator.rmatvec(y)


def prefix(cells):
    return ArrayWorkload(np.tril(np.ones((cells, cells))), name=f"prefix:{cells}")


def all_ranges(cells):
    rows = [
        [float(first <= cell <= last) for cell in range(cells)]
        for first in range(cells)
        for last in range(first, cells)
    ]
    return ArrayWorkload(rows, name=f"all-range:{cells}")


def random_workload(rows, cells, seed=0):
    return ArrayWorkload(np.random.default_rng(seed).standard_normal((rows, cells)))
