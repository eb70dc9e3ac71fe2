"""Small unions of products, with what their solver takes and the matrix written out."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    UnionWorkload,
    attribute_queries,
    parse_workload,
    products_over,
)
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator


@dataclass(frozen=True)
class Union:
    """`arguments` are what `unions.solve` takes before p."""

    workload: Any

    @property
    def parts(self):
        return products_over(self.workload, self.workload.domain)

    @property
    def arguments(self):
        return self.workload, self.parts, attribute_queries(self.workload)

    @property
    def dense(self):
        return self.workload.to_dense()


@cache
def union(text):
    return Union(parse_workload(text))


@cache
def norm(text, p):
    """Certified bounds on gamma by the dense solver."""
    return solve_norm(DenseOperator(parse_workload(text).to_dense()), p).certificate


@st.composite
def random_unions(draw):
    """Two or three products of random factors, which do not commute, some with zero columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(2, 3), min_size=2, max_size=3))
    parts = []
    for _ in range(draw(st.integers(2, 3))):
        factors = []
        for size in sizes:
            matrix = rng.normal(size=(draw(st.integers(1, 3)), size))
            if draw(st.integers(0, 4)) == 0:
                matrix[:, 0] = 0.0
            factors.append(DenseWorkload(matrix))
        parts.append(KroneckerWorkload(factors))
    return Union(UnionWorkload(parts)), rng


TEXTS = (
    "prefix:4*total:4+total:4*prefix:4",
    "prefix:4*histogram:3+histogram:4*prefix:3",
    "prefix:3*total:2*histogram:2+total:3*prefix:2*total:2",
    "prefix:5*total:3+histogram:5*total:3",
    "random-range:2,6,seed=1*prefix:3+random-range:2,6,seed=2*histogram:3",
    "prefix:3*histogram:3+total:3*histogram:3+prefix:3*total:3+histogram:3*prefix:3",
    "marginals:2,3,ways=1+prefix:2*prefix:3",
    "haar:4*prefix:3+prefix:4*window:3,2",
)
EXPONENTS = (2.0, 4.0, np.inf)
