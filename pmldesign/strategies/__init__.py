"""Strategies: the measurements of a matrix mechanism, and the baselines for designs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy as Strategy
from pmldesign.strategies.base import renamed as renamed
from pmldesign.strategies.baselines.elementary import identity as identity
from pmldesign.strategies.baselines.elementary import product_strategy as product_strategy
from pmldesign.strategies.baselines.elementary import square_root as square_root
from pmldesign.strategies.baselines.queries import workload_strategy as workload_strategy
from pmldesign.strategies.baselines.registry import BASELINES as BASELINES
from pmldesign.strategies.baselines.registry import Baseline as Baseline
from pmldesign.strategies.baselines.registry import baseline as baseline
from pmldesign.strategies.baselines.regular import RegularStrategy as RegularStrategy
from pmldesign.strategies.baselines.trees import best_tree as best_tree
from pmldesign.strategies.baselines.trees import haar_wavelet as haar_wavelet
from pmldesign.strategies.baselines.trees import tree as tree
from pmldesign.strategies.baselines.trees import weighted_tree as weighted_tree
from pmldesign.workloads import Workload, as_workload
from pmldesign_solvers import face

if TYPE_CHECKING:
    from pmldesign.strategies.accepted import StrategyLike as StrategyLike

__getattr__ = face(
    __name__,
    {
        "accepted": "StrategyLike",
        "base": "BesideTables spare_answers",
        "baselines.eigenvectors": "eigen_design",
        "baselines.product_queries": "UnionQueries union_queries",
        "baselines.nested": "cells_alone equal_shares measured queries_alone",
        "baselines.queries": "QueriesStrategy",
        "baselines.toeplitz": "ToeplitzStrategy",
        "baselines.written_queries": "BinaryQueries RunningQueries WrittenQueries",
        "beside": "BesideStrategy uncentred",
        "blocks": "BlockStrategy",
        "identity_and_rows": "DENSE_ROWS IdentityAndRows",
        "kronecker": "ProductStrategy",
        "nested.regions": "RegionsStrategy",
        "nested.tables": "RegionTablesStrategy",
        "online": "bands_of made_for streaming_form sums_of",
        "participation.epochs": "EpochStrategy",
        "participation.persons": "PersonRows",
        "participation.schema": "Participation as_participation",
        "participation.strategy": "ParticipationStrategy with_participation without_participation",
        "recurrent": "FactorStrategy RecurrentStrategy",
        "row_kinds": "kinds_of_tables",
        "streams": "AllRangesStrategy ChainStrategy StreamStrategy",
        "structured": "CountsStrategy StructuredStrategy Term",
        "total": "free_vector tells_total varying",
        "tables.distances": "Columns TableDistances",
        "tables.matrices": "TableMatricesStrategy",
        "tables.strategy": "TablesStrategy",
        "residuals": "Contrasts",
        "tables.weighted": "WeightedTablesStrategy",
    },
)


def as_strategy(value: Any, workload: Workload | None = None) -> Strategy:
    """Whatever a caller may have as a strategy.

    Args:
        value: a Strategy (returned as it is); a factorization or a mechanism, which have one; the
            name of a baseline such as "tree", for the workload that is given, or without one the
            name of a workload, whose own queries are measured; a Workload to measure directly; or a
            matrix R of shape (r, n), a row for each measurement, dense or sparse.
        workload: the queries to answer.

    Raises:
        InvalidInputError: something else, or the contents are not a strategy.
    """
    if isinstance(value, Strategy):
        return value
    inner = getattr(value, "strategy", None)
    if isinstance(inner, Strategy):
        return inner
    if isinstance(value, str) and workload is not None:
        return baseline(value, workload)
    if isinstance(value, str | Workload):
        from pmldesign.strategies.participation.schema import people_in
        from pmldesign.strategies.participation.strategy import with_participation

        queries = as_workload(value)
        measured = renamed(workload_strategy(queries), queries.name)
        rows = people_in(queries)
        return measured if rows is None else with_participation(measured, rows)
    if "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(value):
        return Strategy("matrix", value.toarray())
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return Strategy("matrix", value)
    raise InvalidInputError(
        "a strategy is a Strategy, a factorization, a mechanism, the name of a baseline such as "
        f"'tree', or a matrix; got {type(value).__name__} (pmldesign.strategy reads files)"
    )
