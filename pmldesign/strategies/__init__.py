"""Strategies: what a matrix mechanism measures, and the baselines that designs are compared to."""

from __future__ import annotations

import sys
from typing import Any

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.circulant import henzinger_upadhyay
from pmldesign.strategies.baselines.eigen import eigen_design
from pmldesign.strategies.baselines.elementary import identity, product_strategy, square_root
from pmldesign.strategies.baselines.orthonormal import fourier, hadamard
from pmldesign.strategies.baselines.queries import workload_strategy
from pmldesign.strategies.baselines.registry import BASELINES, Baseline, baseline
from pmldesign.strategies.baselines.regular import RegularStrategy
from pmldesign.strategies.baselines.trees import haar_wavelet, tree
from pmldesign.strategies.baselines.weighted_trees import best_tree, weighted_tree
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.marginals.strategy import MarginalsStrategy
from pmldesign.strategies.public_total import PublicTotal, PublicTotalStrategy
from pmldesign.strategies.streams import StreamStrategy
from pmldesign.strategies.tables.products import WeightedProductsStrategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.strategies.tables.weighted import WeightedTablesStrategy
from pmldesign.workloads import Workload, as_workload

__all__ = [
    "BASELINES",
    "Baseline",
    "BlockStrategy",
    "IdentityAndRows",
    "MarginalsStrategy",
    "ProductStrategy",
    "PublicTotal",
    "PublicTotalStrategy",
    "RegularStrategy",
    "Strategy",
    "StreamStrategy",
    "TablesStrategy",
    "WeightedProductsStrategy",
    "WeightedTablesStrategy",
    "as_strategy",
    "baseline",
    "best_tree",
    "eigen_design",
    "fourier",
    "haar_wavelet",
    "hadamard",
    "henzinger_upadhyay",
    "identity",
    "product_strategy",
    "square_root",
    "tree",
    "weighted_tree",
    "workload_strategy",
]


def as_strategy(value: Any, workload: Workload | None = None) -> Strategy:
    """Whatever a caller may have as a strategy.

    Args:
        value: a Strategy (returned as it is); a factorization or a mechanism, which have one; the
            name of a baseline such as "tree", for the workload that is given, or without one the
            name of a workload, whose own queries are measured; a Workload, likewise; or a matrix R
            of shape (r, n), a row for each measurement, dense or sparse.
        workload: what is to be answered.

    Raises:
        InvalidInputError: something else, or the contents are no strategy.
    """
    if isinstance(value, Strategy):
        return value
    inner = getattr(value, "strategy", None)
    if isinstance(inner, Strategy):
        return inner
    if isinstance(value, str) and workload is not None:
        return baseline(value, workload)
    if isinstance(value, str | Workload):
        queries = as_workload(value)
        return workload_strategy(queries).renamed(queries.name)
    if "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(value):
        return Strategy("matrix", value.toarray())
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return Strategy("matrix", value)
    raise InvalidInputError(
        "a strategy is a Strategy, a factorization, a mechanism, the name of a baseline such as "
        f"'tree', or a matrix; got {type(value).__name__} (pmldesign.strategy reads files)"
    )
