r"""What a strategy measures of the total of its cells: for R P, given the number of records.

Functions for which classes register versions that use their structure. With v = (R^T R)^+ 1 the
estimates A R^+ y have the covariances A v with that of the total (`strategies.beside`).
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from pmldesign.strategies.base import Strategy
from pmldesign.workloads.base import Workload
from pmldesign_solvers.operators.operator import COMPLETE, Array, Flags


@singledispatch
def tells_total(strategy: Strategy) -> bool:
    """Whether R determines the total of its cells."""
    if strategy.regular:
        return True
    ones = np.ones(strategy.cells)
    return bool(np.abs(ones - strategy.estimate(strategy.measure(ones))).max() <= COMPLETE)


@singledispatch
def free_vector(strategy: Strategy) -> Array:
    """V = (R^T R)^+ 1, shape (n,)."""
    return np.asarray(strategy.pseudo_inverse @ strategy.pseudo_inverse.sum(axis=0))


@singledispatch
def along_total(strategy: Strategy, workload: Workload) -> tuple[Array, float]:
    """A v, shape (m,), and 1^T v."""
    free = free_vector(strategy)
    return workload.matvec(free), float(free.sum())


@singledispatch
def varying(_: Strategy) -> Flags | slice:
    """Which measurements may depend on more than the total, shape (r,)."""
    return slice(None)


@singledispatch
def knows(_: Strategy, __: Workload) -> bool:
    """Whether R answers the workload by its structure, and not as any matrix."""
    return False


@singledispatch
def norm_without_total(strategy: Strategy, workload: Workload, power: float) -> float | None:  # noqa: ARG001
    """`variance_norm` of R P if the structure gives it, else None."""
    return None
