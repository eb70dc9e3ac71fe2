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
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.kronecker import KroneckerWorkload
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.nested.tables import RegionTablesWorkload
from pmldesign.workloads.tables.base import AttributeTables
from pmldesign.workloads.union import UnionWorkload
from pmldesign.workloads.weighting.rows import (
    WeightedWorkload,
    checked_weights,
    factor_weights,
    scaled_factors,
)
from pmldesign_solvers.operators.operator import Array


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
    scaled = copy(_weighted(workload, checked))
    scaled.name = f"{workload.name} (weighted)" if name is None else name
    scaled.unweighted = workload.unweighted or workload
    return scaled


def weighted_parts(workload: Workload, weights: Sequence[float]) -> Workload:
    """The parts of a union, or the tables of marginals, each times its weight.

    Args:
        workload: a union, marginals or tables; any other has one part.
        weights: one for each part.
    """
    if isinstance(workload, UnionWorkload):
        parts = [
            _weighted(part, checked_weights(weight, part.shape[0]))
            for part, weight in zip(workload.parts, weights, strict=True)
        ]
        scaled: Workload = UnionWorkload(parts, name=workload.name)
    elif isinstance(workload, AttributeTables):
        scaled = workload.reweighted(np.array(weights))
    elif isinstance(workload, RegionTablesWorkload):
        scaled = workload.reweighted([checked_weights(weight, 1) for weight in weights])
    else:
        return weighted(workload, weights[0])
    scaled.name = workload.name
    scaled.unweighted = workload.unweighted or workload
    return scaled


def _weighted(workload: Workload, weights: Array | float) -> Workload:
    if isinstance(workload, UnionWorkload):
        return UnionWorkload(
            [
                _weighted(part, part_weights)
                for part, part_weights in zip(
                    workload.parts, workload.split_weights(weights), strict=True
                )
            ]
        )
    if isinstance(workload, AttributeTables):
        scales = _by_table(workload, weights)
        if scales is not None:
            return workload.reweighted(scales)
    if isinstance(workload, KroneckerWorkload):
        if isinstance(weights, float):
            return KroneckerWorkload(scaled_factors(workload.factors, weights))
        vectors = factor_weights(workload, weights)
        if vectors is not None:
            pairs = zip(workload.factors, vectors, strict=True)
            return KroneckerWorkload(
                [
                    factor
                    if (vector == 1).all()
                    else WeightedWorkload(factor, vector, name=factor.name)
                    for factor, vector in pairs
                ]
            )
    if isinstance(workload, RegionsWorkload):
        return workload.reweighted(np.broadcast_to(weights, workload.shape[0]))
    if isinstance(workload, RegionTablesWorkload):
        of_nodes = workload.by_node(np.broadcast_to(weights, workload.shape[0]))
        if of_nodes is not None:
            return workload.reweighted(of_nodes)
    if isinstance(workload, DenseWorkload):
        matrix = np.reshape(weights, (-1, 1)) * workload.to_dense()
        dense = DenseWorkload(matrix, copy=False)
        dense.label = workload.row_label
        return dense
    return WeightedWorkload(workload, weights, name=workload.name)


def _by_table(workload: AttributeTables, weights: Array | float) -> Array | None:
    """One weight for each table; None where the queries of one have several."""
    if isinstance(weights, float):
        return np.full(len(workload.subsets), weights)
    parts = workload.split(weights)
    alike = all((part == part[0]).all() for part in parts)
    return np.array([part[0] for part in parts]) if alike else None


def parts_of(workload: Workload) -> Sequence[str]:
    """What the parts of a union are called, or the tables of marginals: by their attributes."""
    if isinstance(workload, UnionWorkload):
        return [part.name for part in workload.parts]
    if isinstance(workload, AttributeTables):
        names = workload.name.split("+")
        if len(names) == len(workload.subsets):
            return [name.strip() for name in names]
        return ["*".join(map(str, subset)) or "total" for subset in workload.subsets]
    if isinstance(workload, RegionTablesWorkload):
        return [part.name for part in workload.parts]
    return [workload.name]


def part_queries(workload: Workload) -> Sequence[int]:
    """How many queries each of `parts_of` has, in the order of the queries."""
    if isinstance(workload, UnionWorkload):
        return [part.shape[0] for part in workload.parts]
    if isinstance(workload, AttributeTables):
        return workload.table_queries
    if isinstance(workload, RegionTablesWorkload):
        return workload.part_queries
    return [workload.shape[0]]
