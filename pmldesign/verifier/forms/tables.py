r"""Files of strategies for tables, coordinates or weighted: their measurements.

With coordinates Y_i of each attribute, where [1^T; Y_i] has the inverse (v_i, Psi_i), a strategy
measures s_T^(1/2) (x)_{i in T} Y_i (x)_{i not in T} 1^T. A query c (x)_S a_i of the table by S then
has the variance

    c^2 sum over T in S of prod_{i in T} |a_i^T Psi_i|^2 prod_{i in S, not in T} (a_i^T v_i)^2/s_T.

A cell has the squared length sum_T s_T prod_{i in T} rho_i at most, rho_i the largest squared
length of a column of Y_i. Under replace columns that differ in U are at most

    (2 sum_T s_T prod_{i in T} rho_i (1 - prod_{i in T and U} r_i))^(1/2)

apart, r_i the least entry of Y_i^T Y_i over rho_i; of an attribute that is in no T but its own
r_i is such that this is the largest distance of its columns.

Weighted tables theta_S (x)_S D_i, D_i = 1 for attributes without a design, have the same variances
as the coordinates

    tau_i = 1^T (D_i^T D_i)^-1 1,    Y_i^T Y_i = D_i^T D_i - 1 1^T / tau_i,
    s_T = sum over S containing T of theta_S^2 prod_{i in S, not in T} 1/tau_i.

Their columns have the norms sum theta_S (l1) and (sum theta_S^2)^(1/2) at most, times the largest
norms of columns of the D_i; they are twice that apart in l1, and in l2 as above, D_i in the place
of Y_i.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pmldesign.verifier.forms.form import members_of
from pmldesign.verifier.forms.structured import (
    Computed,
    RowsOf,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verifier.forms.table_bounds import lower_bound
from pmldesign.verifier.forms.unions import lower_bound as of_weights
from pmldesign.verifier.forms.unions import of_cells
from pmldesign.verifier.queries import Queries, Table
from pmldesign.verifier.report import Arrays, Checks, Header
from pmldesign.verifier.rounding import require_condition

MOST_QUERIES = 2**21
"""Different ones of a table."""
MOST_ATTRIBUTES = 14
"""Of which all sets are tried under replace."""
LISTED = 16
"""Most attributes whose sets are all listed for distances."""
WEAKER_BLOCKS = 0.05
"""A lower bound may be that of other frames, or of other weights tried before."""


@dataclass(frozen=True, slots=True)
class QueryNumbers:
    """Numbers of the queries on an attribute: (a^T v)^2, |a^T Psi|^2, and how often they come."""

    total: Any
    rest: Any
    times: int = 1


@dataclass(frozen=True, slots=True)
class ReadAttribute:
    """What is measured of an attribute: coordinates Y.

    Attributes:
        size: the number of values n.
        columns: of Y.
        scale: if Y^T Y = scale (1 - 1 1^T / n); None if `rows` determine Y.
        rows: Y, shape (n - 1, n).
        inverse: that of [1^T; Y].
    """

    size: int
    columns: ReadColumns
    scale: float | None = None
    rows: Any = None
    inverse: Any = None

    @classmethod
    def plain(cls, n: int, scale: float) -> ReadAttribute:
        """With Y^T Y = scale (1 - 1 1^T / n)."""
        return cls(n, ReadColumns(scale * (1 - 1 / n), -scale / n, 2 * scale), scale)

    @classmethod
    def of(cls, rows: Any) -> ReadAttribute:
        """With coordinates of its own."""
        n = rows.shape[1]
        stacked = np.vstack([np.ones(n), rows])
        require_condition(stacked)
        return cls(n, ReadColumns.of(rows), None, rows, np.linalg.inv(stacked))

    def asked(self, queries: Any) -> QueryNumbers:
        """Of queries, or of the counts of all values."""
        n = self.size
        if self.scale is None:
            image = self.inverse if queries is None else queries @ self.inverse
            return QueryNumbers(image[:, 0] ** 2, (image[:, 1:] ** 2).sum(axis=1))
        if queries is None:
            return QueryNumbers(np.array([1 / n**2]), np.array([(1 - 1 / n) / self.scale]), n)
        sums = queries.sum(axis=1)
        rest = ((queries - (sums / n)[:, None]) ** 2).sum(axis=1) / self.scale
        return QueryNumbers((sums / n) ** 2, rest)


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns of a matrix.

    Attributes:
        longest: the largest squared length.
        least: the least inner product of two, or of one with itself.
        farthest: the largest squared distance of two.
    """

    longest: float
    least: float
    farthest: float

    @classmethod
    def of(cls, rows: Any) -> ReadColumns:
        """Of any matrix."""
        gram = rows.T @ rows
        lengths = gram.diagonal()
        far = float((lengths[:, None] + lengths - 2 * gram).max())
        return cls(float(lengths.max()), float(gram.min()), far)


def farthest(columns: Mapping[int, ReadColumns], lengths: Mapping[frozenset[int], float]) -> float:
    """At least the largest l2 distance of two columns of products on tables.

    Args:
        columns: of each attribute.
        lengths: s_T of each T.
    """
    sets = [T for T in lengths if T]
    used = sorted(set().union(*sets))
    if len(used) > MOST_ATTRIBUTES:
        raise ValueError(f"{len(used)} attributes under replace")
    s = np.array([lengths[T] * math.prod(columns[i].longest for i in T) for T in sets])
    products = np.ones((s.size, 1))
    for i in used:
        least = columns[i].least / columns[i].longest
        if frozenset([i]) in sets and sum(i in T for T in sets) == 1:  # no other T has i
            least = 1 - columns[i].farthest / columns[i].longest / 2
        inside = np.array([least if i in T else 1.0 for T in sets])
        products = np.hstack([products, products * inside[:, None]])
    return math.sqrt(2 * float((s.sum() - s @ products).max()))


@dataclass(frozen=True, slots=True)
class MeasuredTables:
    """A strategy: its measurements of attributes, and s_T of each T."""

    attributes: Mapping[int, ReadAttribute]
    lengths: Mapping[frozenset[int], float]

    def variances(self, table: Table) -> tuple[Any, int]:
        """Variances of the different queries of a table, and how often each comes.

        Raises:
            ValueError: too many queries.
        """
        members = sorted(table.factors)
        asked = {i: self.attributes[i].asked(table.factors[i]) for i in members}
        shape = tuple(asked[i].total.size for i in members)
        if math.prod(shape) > MOST_QUERIES:
            raise ValueError(f"a table has {math.prod(shape)} different queries")
        values = np.zeros(shape)
        for count in range(len(members) + 1):
            for T in map(frozenset, itertools.combinations(members, count)):
                if T in self.lengths:
                    parts = [asked[i].rest if i in T else asked[i].total for i in members]
                    values += reduce(np.multiply.outer, parts, np.ones(())) / self.lengths[T]
        times = math.prod(part.times for part in asked.values())
        return table.weight**2 * values.ravel(), times

    def answers(self, members: Sequence[int], *, total: bool) -> bool:
        """Whether all coordinates of a table are measured; that of the total if it is asked for."""
        wide = [i for i in members if self.attributes[i].size > 1]
        every = (T for k in range(len(wide) + 1) for T in itertools.combinations(wide, k))
        return all(frozenset(T) in self.lengths for T in every if T or total)

    def without_total(self) -> MeasuredTables:
        """The measurements of it if the total is public."""
        kept = {T: length for T, length in self.lengths.items() if T}
        return MeasuredTables(self.attributes, kept)

    def longest(self) -> float:
        """At least the largest l2 norm of a column."""
        return math.sqrt(
            math.fsum(
                length * math.prod(self.attributes[i].columns.longest for i in T)
                for T, length in self.lengths.items()
            )
        )

    def farthest(self) -> float:
        """At least the largest l2 distance of two columns."""
        return farthest({i: own.columns for i, own in self.attributes.items()}, self.lengths)


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
    lower = lower_of_weights(header, arrays, queries) if "dual_w" in arrays else None
    count = sum(values.size * times for values, times in parts)
    lengths = _weighted_lengths(arrays, replace=replace)
    if "residuals" in arrays:
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


def lower_of_weights(header: Header, arrays: Arrays, queries: Queries) -> Any | None:
    """What the weights of tables prove, or those of queries and cells."""
    of = of_weights if of_cells(arrays, queries) else lower_bound
    return of(header, arrays, queries)


def measured_of(arrays: Arrays) -> MeasuredTables:
    """What a file measures.

    Raises:
        ValueError: a set comes twice, or has an attribute that is not there.
    """
    sizes = arrays["sizes"].tolist()
    if "residuals" not in arrays:
        return _weighted(arrays, sizes)
    order = arrays["ordered"].tolist() if "ordered" in arrays else []
    attributes = {i: ReadAttribute.plain(n, n / max(n - 1, 1)) for i, n in enumerate(sizes)}
    for k, i in enumerate(order):
        attributes[i] = ReadAttribute.of(arrays[f"coordinates_{k}"])
    sets = [frozenset(T) for T in members_of(arrays["residuals"])]
    wide = all(i < len(sizes) and sizes[i] > 1 for T in sets for i in T)
    if len(set(sets)) < len(sets) or not wide or attributes.keys() != {*range(len(sizes))}:
        raise ValueError("a set comes twice, or has an attribute without coordinates")
    lengths = dict(zip(sets, arrays["precisions"].tolist(), strict=True))
    return MeasuredTables(attributes, lengths)


def _weighted(arrays: Arrays, sizes: Sequence[int]) -> MeasuredTables:
    """Coordinates that are equivalent to weighted tables."""
    attributes = {i: ReadAttribute.plain(n, 1.0) for i, n in enumerate(sizes)}
    tau = {i: float(n) for i, n in enumerate(sizes)}
    for i, D in _designs(arrays).items():
        gram = D.T @ D
        require_condition(gram)
        tau[i] = float(np.linalg.solve(gram, np.ones(len(gram))).sum())
        values, vectors = np.linalg.eigh(gram - 1 / tau[i])
        attributes[i] = ReadAttribute.of(np.sqrt(values[1:])[:, None] * vectors[:, 1:].T)
    levels: dict[frozenset[int], float] = defaultdict(float)
    for S, theta in zip(members_of(arrays["tables"]), arrays["weights"].tolist(), strict=True):
        for count in range(len(S) + 1):
            for T in itertools.combinations(S, count):
                rest = math.prod(tau[i] for i in S if i not in T)
                levels[frozenset(T)] += theta**2 / rest
    return MeasuredTables(attributes, levels)


def _designs(arrays: Arrays) -> dict[int, Any]:
    designed = arrays["designed"].tolist() if "designed" in arrays else []
    designs = {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}
    sizes = arrays["sizes"].tolist()
    if any(i >= len(sizes) or D.shape[1] != sizes[i] for i, D in designs.items()):
        raise ValueError("designs are not those of the attributes")
    return designs


def _weighted_lengths(arrays: Arrays, *, replace: bool) -> dict[str, float]:
    """Sensitivities of weighted tables, or bounds above them."""
    if "weights" not in arrays:
        return {}
    designs, sizes = _designs(arrays), arrays["sizes"].tolist()
    wide = [frozenset(i for i in S if sizes[i] > 1) for S in members_of(arrays["tables"])]
    tables = [
        (S, theta)
        for S, theta in zip(wide, arrays["weights"].tolist(), strict=True)
        if S or not replace
    ]
    longest = {i: float(np.abs(D).sum(axis=0).max()) for i, D in designs.items()}
    sums = [theta * math.prod(longest.get(i, 1.0) for i in S) for S, theta in tables]
    lengths = {"l1": (2 if replace else 1) * math.fsum(sums)}
    columns = {i: ReadColumns(1.0, 0.0, 2.0) for i in range(len(sizes))}
    columns |= {i: ReadColumns.of(D) for i, D in designs.items()}
    squares: dict[frozenset[int], float] = defaultdict(float)
    for S, theta in tables:
        squares[S] += theta**2
    whole = math.fsum(
        square * math.prod(columns[i].longest for i in S) for S, square in squares.items()
    )
    if not replace:
        lengths["l2"] = math.sqrt(whole)
    elif designs:
        lengths["l2"] = farthest(columns, squares)
    else:
        lengths["l2"] = math.sqrt(2 * whole)
    return lengths


def _rows(arrays: Arrays, farthest: Mapping[str, Any]) -> dict[str, RowsOf]:
    """Of weighted tables by the attributes in which cells differ; else all at the farthest."""
    sizes = arrays["sizes"].tolist()
    weighted = "tables" in arrays
    sets = [set(S) for S in members_of(arrays["tables" if weighted else "residuals"])]
    used = [i for i in sorted(set().union(*sets)) if sizes[i] > 1]
    columns = math.prod(sizes[i] for i in used)
    copies = math.prod(sizes) // columns
    if not weighted or _designs(arrays) or len(used) > LISTED:
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
