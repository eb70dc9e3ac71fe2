"""From a workload A and a weight c for each query to diag(c) A, with what structure A has.

An error of p counts query i as c_i^p E |error_i|^p, and at p = inf as c_i times its standard
deviation. Marginals and tables take one weight for each of them, products weights that are products
themselves, unions those of their parts; whatever c is, A is not written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.workloads.base import Workload
from pmldesign.workloads.weighting.rows import checked_weights


def weighted(workload: Workload, weights: ArrayLike, *, name: str | None = None) -> Workload:
    """The queries of a workload, each times its weight.

    Args:
        workload: A, shape (m, n).
        weights: c > 0, shape (m,), or one number for all queries.
        name: what messages and tables call it; by default the name of A and "(weighted)".

    Returns:
        diag(c) A, whose `unweighted` is A (or that of A).

    Raises:
        InvalidInputError: another number of weights, or one that is not positive and finite.
    """
    checked = checked_weights(weights, workload.shape[0])
    if np.all(np.equal(checked, 1)):
        return workload
    scaled = copy(workload.times(checked))
    scaled.name = f"{workload.name} (weighted)" if name is None else name
    scaled.unweighted = workload.unweighted or workload
    return scaled


def weighted_parts(workload: Workload, weights: Sequence[float]) -> Workload:
    """The parts of a union, the tables of marginals, or the levels of regions, times a weight each.

    Args:
        workload: a union, marginals, tables or regions; any other has one part.
        weights: one for each part.
    """
    scaled = workload.times_parts([checked_weights(weight, 1) for weight in weights])
    if scaled is None:
        return weighted(workload, weights[0])
    scaled.name = workload.name
    scaled.unweighted = workload.unweighted or workload
    return scaled
