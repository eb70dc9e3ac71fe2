"""Workloads: the linear queries to answer, given as matrices, as structure or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmldesign_solvers import face

if TYPE_CHECKING:
    from pmldesign.workloads.accepted import Matrix as Matrix
    from pmldesign.workloads.accepted import WorkloadLike as WorkloadLike
    from pmldesign.workloads.base import Workload as Workload
    from pmldesign.workloads.conversion import as_workload as as_workload
    from pmldesign.workloads.dense import DenseWorkload as DenseWorkload
    from pmldesign.workloads.named import NamedWorkload as NamedWorkload
    from pmldesign.workloads.named import named_workloads as named_workloads
    from pmldesign.workloads.nested.regions import as_nested as as_nested
    from pmldesign.workloads.parsing import expand_family as expand_family
    from pmldesign.workloads.parsing import parse_workload as parse_workload
    from pmldesign.workloads.ranges import RangeWorkload as RangeWorkload
    from pmldesign.workloads.terms.constructors import KroneckerWorkload as KroneckerWorkload
    from pmldesign.workloads.terms.constructors import TablesWorkload as TablesWorkload
    from pmldesign.workloads.terms.constructors import UnionWorkload as UnionWorkload
    from pmldesign.workloads.terms.workload import TermsWorkload as TermsWorkload

__getattr__ = face(
    __name__,
    {
        "accepted": "Matrix WorkloadLike",
        "base": "Workload different_cells distinct_shape",
        "dense": "DenseWorkload",
        "beside": "given_invariants",
        "conversion": "as_workload",
        "invariants": "as_public tables_of",
        "named": "GROUP_STARTS NAMES NamedWorkload census_p12 named_workloads",
        "queries": "all_marginals",
        "nested.regions": "RegionsWorkload as_nested tops_of",
        "nested.tables": "RegionTable RegionTablesWorkload",
        "parsing": "expand_family parse_workload",
        "public": "NOTHING Public RECORDS",
        "ranges": "CountsWorkload RangeWorkload separable_gram",
        "running": "AllRangesWorkload RunningWorkload",
        "sparse": "SparseWorkload",
        "terms.constructors": "KroneckerWorkload TablesWorkload"
        " UnionWorkload common_sizes on_common_attributes",
        "terms.over": "as_terms attribute_queries crossed_over products_over terms_over",
        "terms.workload": "TermsWorkload",
        "weighting": "WeightedWorkload near_one times_parts weighted weighted_parts",
    },
)
