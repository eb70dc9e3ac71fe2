"""Files of strategies for tables and of weighted tables and products.

`measured` has what such strategies measure, in its letters, and `blocks` lower bounds.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmldesign.verify.forms.structured import (
    Computed,
    RowsOf,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verify.forms.written import members_of, sectors_of
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.tables.blocks import lower_bound
from pmldesign.verify.tables.measured import MeasuredTables, ReadAttribute, ReadSector

LISTED = 16
"""Attributes of which all sets are listed for distances."""
WEAKER_BLOCKS = 0.05
"""A lower bound may be that of other frames, or of other weights tried before."""


def check_tables(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy for tables, or of weighted tables."""
    replace = header["neighbours"] == "replace"
    strategy = measured_of(arrays)
    same = arrays["sizes"].tolist() == list(queries.sizes)
    if not checks.state("sizes", same, "those of the workload"):
        return
    members = {tuple(sorted(table.factors)) for table in queries.tables}
    answered = all(strategy.answers(T, total=not replace) for T in members)
    if not checks.state("L R = A", answered, "all coordinates of every table are measured"):
        return
    counted = strategy.without_total() if replace else strategy
    parts = [counted.variances(table) for table in queries.tables]
    lower = lower_bound(header, arrays, queries) if "dual_w" in arrays else None
    count = sum(values.size * times for values, times in parts)
    lengths = _weighted_lengths(arrays, replace=replace)
    if "sector_plain" in arrays:
        lengths = {"l2": strategy.farthest() if replace else strategy.longest()}
    sensitivities = {norm: rounded(value) for norm, value in lengths.items()}
    computed = Computed(
        spread_of(*parts),
        count,
        sensitivities.get,
        lower,
        rows=_rows(arrays, sensitivities) if replace else {},
        weaker=WEAKER_BLOCKS,
    )
    check_computed(header, computed, checks)


def measured_of(arrays: Arrays) -> MeasuredTables:
    """The attributes and sectors of a file."""
    sizes = arrays["sizes"].tolist()
    if "sector_plain" not in arrays:
        return _weighted(arrays, sizes)
    order = arrays["ordered"].tolist()
    attributes = {i: ReadAttribute.plain(n, n / max(n - 1, 1)) for i, n in enumerate(sizes)}
    for k, i in enumerate(order):
        attributes[i] = ReadAttribute.of(arrays[f"coordinates_{k}"], int(arrays["features"][k]))
    sectors = [ReadSector(frozenset(Q + Sp), sets, E) for Q, Sp, sets, E in sectors_of(arrays)]
    return MeasuredTables(attributes, sectors)


def _weighted(arrays: Arrays, sizes: Sequence[int]) -> MeasuredTables:
    """Weighted products as sectors without features."""
    attributes = {i: ReadAttribute.plain(n, 1.0) for i, n in enumerate(sizes)}
    tau = {i: float(n) for i, n in enumerate(sizes)}
    for i, D in _designs(arrays).items():
        gram = D.T @ D
        tau[i] = float(np.linalg.solve(gram, np.ones(len(gram))).sum())
        values, vectors = np.linalg.eigh(gram - 1 / tau[i])
        attributes[i] = ReadAttribute.of(np.sqrt(values[1:])[:, None] * vectors[:, 1:].T)
    levels: dict[frozenset[int], float] = defaultdict(float)
    for S, theta in zip(members_of(arrays["tables"]), arrays["weights"].tolist(), strict=True):
        for count in range(len(S) + 1):
            for T in itertools.combinations(S, count):
                rest = math.prod(tau[i] for i in S if i not in T)
                levels[frozenset(T)] += theta**2 / rest
    sectors = [ReadSector(T, [()], np.array([[level]])) for T, level in levels.items()]
    return MeasuredTables(attributes, sectors)


def _designs(arrays: Arrays) -> dict[int, Any]:
    designed = arrays["designed"].tolist() if "designed" in arrays else []
    return {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}


def _weighted_lengths(arrays: Arrays, *, replace: bool) -> dict[str, float]:
    """Sensitivities of weighted products, or bounds above them."""
    if "weights" not in arrays:
        return {}
    designs, sizes, lengths = _designs(arrays), arrays["sizes"].tolist(), {}
    for norm, order in (("l1", 1), ("l2", 2)):
        longest = {i: float(np.linalg.norm(D, order, axis=0).max()) for i, D in designs.items()}
        parts = [
            theta * math.prod(longest.get(i, 1.0) for i in S)
            for S, theta in zip(
                members_of(arrays["tables"]), arrays["weights"].tolist(), strict=True
            )
            if not replace or any(sizes[i] > 1 for i in S)
        ]
        apart = 1.0
        if replace:
            apart = 2.0 if designs or norm == "l1" else math.sqrt(2)
        lengths[norm] = apart * (math.fsum(parts) if norm == "l1" else math.hypot(*parts))
    return lengths


def _rows(arrays: Arrays, farthest: Mapping[str, Any]) -> dict[str, RowsOf]:
    """Of weighted tables by the attributes in which cells differ; else all at the farthest."""
    sizes = arrays["sizes"].tolist()
    sets = [set(S) for S in members_of(arrays["tables"])] if "tables" in arrays else []
    inside = set().union(*sets) if sets else set(range(len(sizes)))
    used = [i for i in sorted(inside) if sizes[i] > 1]
    columns = math.prod(sizes[i] for i in used)
    copies = math.prod(sizes) // columns
    if not sets or _designs(arrays) or len(used) > LISTED:
        return {norm: profile([far], [columns - 1], copies) for norm, far in farthest.items()}
    differing = [
        D for count in range(1, len(used) + 1) for D in itertools.combinations(used, count)
    ]
    counts = [math.prod(sizes[i] - 1 for i in D) for D in differing]
    rows = {}
    for norm, power in (("l1", 1), ("l2", 2)):
        weights = arrays["weights"] ** power
        sums = [2 * float(weights[[bool(S & set(D)) for S in sets]].sum()) for D in differing]
        rows[norm] = profile([rounded(value ** (1 / power)) for value in sums], counts, copies)
    return rows
