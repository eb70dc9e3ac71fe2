r"""Files of strategies for tables, and of weighted tables and products: what they measure.

[1^T; Y_i] has the inverse (v_i, Psi_i); the first rows of Y_i are features F_i, the others Z_i. A
sector measures, with E = C C^T over products of features of sets S of other attributes,

    C^T [(x)_Q Y_i (x)_Sp Z_i (x)_S F_i (x)_others 1^T; ... over S],

Q of plain attributes, Sp of others, so that a query c (x)_T a_i of the table by T has the variance

    c^2 sum over Q, Sp in T of prod_{Q,Sp} |a_i^T Psi_i (Z)|^2 |C^-1 g|^2,
    g_S = (x)_S a_i^T Psi_i (F) prod_{T without Q, Sp, S} a_i^T v_i,    0 if S is not in T.

A cell has the squared length sum prod_Sp (rho_i - |f_i|^2) (x)_S f_i^T E (x)_S f_i, a polynomial in
its features f, rho_i the largest squared length of a column of Y_i: at most its constant and the
sizes of all other coefficients times those of their monomials. Under replace columns are at most
twice as far apart as they are long without what all have in common; without features, those that
differ in U are (2 sum_S s_S (1 - prod_{i in S and U} least entry of Y_i^T Y_i))^(1/2) apart.

Weighted products theta_S (x)_S D_i, D_i = 1 for plain attributes, are sectors without features,

    tau_i = 1^T (D_i^T D_i)^-1 1,    Y_i^T Y_i = D_i^T D_i - 1 1^T / tau_i,
    s_T = sum over S containing T of theta_S^2 prod_{i in S, not in T} 1/tau_i,

whose columns have the norms sum theta_S (l1) and (sum theta_S^2)^(1/2) at most, times the largest
norms of columns of the D_i, and are twice that apart; 2^(1/2) times in l2 without designs.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from pmldesign.verify.forms.form import members_of
from pmldesign.verify.forms.structured import (
    Computed,
    RowsOf,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verify.forms.table_bounds import lower_bound
from pmldesign.verify.forms.written import sectors_of
from pmldesign.verify.queries import Queries, Table
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.rounding import require_condition

MOST_QUERIES = 2**21
"""Different ones of a table."""
MOST_ATTRIBUTES = 14
"""Of which all sets are tried under replace."""
LISTED = 16
"""Attributes of which all sets are listed for distances."""
WEAKER_BLOCKS = 0.05
"""A lower bound may be that of other frames, or of other weights tried before."""


@dataclass(frozen=True, slots=True)
class QueryNumbers:
    """Numbers of the queries on an attribute: a^T v, a^T Psi (F), |a^T Psi (Z)|^2, how many."""

    total: Any
    features: Any
    rest: Any
    times: int = 1


@dataclass(frozen=True, slots=True)
class ReadAttribute:
    """What is measured of an attribute: coordinates Y, of which the first rows are features.

    Attributes:
        size: the number of values n.
        longest: the largest squared length of a column of Y.
        least: the least entry of Y^T Y.
        farthest: the largest squared distance of two columns of Y.
        scale: where Y^T Y = scale (1 - 1 1^T / n); None where `rows` tell.
        features: how many rows of Y are features.
        rows: Y, shape (n - 1, n).
        inverse: that of [1^T; Y].
    """

    size: int
    longest: float
    least: float
    farthest: float
    scale: float | None = None
    features: int = 0
    rows: Any = None
    inverse: Any = None

    @classmethod
    def plain(cls, n: int, scale: float) -> ReadAttribute:
        """With Y^T Y = scale (1 - 1 1^T / n)."""
        return cls(n, scale * (1 - 1 / n), -scale / n, 2 * scale, scale)

    @classmethod
    def of(cls, rows: Any, features: int = 0) -> ReadAttribute:
        """With coordinates of its own."""
        gram, n = rows.T @ rows, rows.shape[1]
        require_condition(np.vstack([np.ones(n), rows]))
        lengths = gram.diagonal()
        far = float((lengths[:, None] + lengths - 2 * gram).max())
        inverse = np.linalg.inv(np.vstack([np.ones(n), rows]))
        longest, least = float(lengths.max()), float(gram.min())
        return cls(n, longest, least, far, None, features, rows, inverse)

    def asked(self, queries: Any) -> QueryNumbers:
        """Of queries, or of the counts of all values."""
        n, d = self.size, self.features
        if self.scale is None:
            image = self.inverse if queries is None else queries @ self.inverse
            return QueryNumbers(
                image[:, 0], image[:, 1 : 1 + d].T, (image[:, 1 + d :] ** 2).sum(axis=1)
            )
        if queries is None:
            rest = np.array([(1 - 1 / n) / self.scale])
            return QueryNumbers(np.array([1 / n]), np.zeros((0, 1)), rest, n)
        sums = queries.sum(axis=1)
        rest = ((queries - (sums / n)[:, None]) ** 2).sum(axis=1) / self.scale
        return QueryNumbers(sums / n, np.zeros((0, sums.size)), rest)


@dataclass(frozen=True, slots=True)
class ReadSector:
    """Q and Sp together, the sets S, and E."""

    inner: frozenset[int]
    sets: Sequence[tuple[int, ...]]
    matrix: Any


@dataclass(frozen=True, slots=True)
class MeasuredTables:
    """A strategy: its attributes and sectors."""

    attributes: Mapping[int, ReadAttribute]
    sectors: Sequence[ReadSector]

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
        for sector in self.sectors:
            if sector.inner <= set(members):
                values += self._part(sector, members, asked)
        times = math.prod(part.times for part in asked.values())
        return table.weight**2 * values.ravel(), times

    def _part(
        self, sector: ReadSector, members: Sequence[int], asked: Mapping[int, QueryNumbers]
    ) -> Any:
        """What a sector adds, an axis for each attribute."""
        outer = [i for i in members if i not in sector.inner]
        count = math.prod(asked[i].total.size for i in outer)
        rows = []
        for S in sector.sets:
            parts = [asked[i].features if i in S else asked[i].total[None] for i in outer]
            width = math.prod(self.attributes[i].features for i in S)
            image = np.ones((1, 1))
            for part in parts:  # rows and columns in the order of np.kron
                image = np.einsum("ab,cd->acbd", image, part).reshape(
                    image.shape[0] * part.shape[0], -1
                )
            rows.append(image if set(S) <= set(outer) else np.zeros((width, count)))
        require_condition(sector.matrix)
        C = np.linalg.cholesky(sector.matrix)
        squares = (scipy.linalg.solve_triangular(C, np.vstack(rows), lower=True) ** 2).sum(axis=0)
        cube = squares.reshape([asked[i].total.size if i in outer else 1 for i in members])
        for axis, i in enumerate(members):
            if i in sector.inner:
                along = [-1 if k == axis else 1 for k in range(cube.ndim)]
                cube = cube * asked[i].rest.reshape(along)
        return cube

    def answers(self, members: Sequence[int], *, total: bool) -> bool:
        """Whether all coordinates of a table are measured; that of the total if it is asked for."""
        measured = {(sector.inner, S) for sector in self.sectors for S in sector.sets}
        choices = [list(_choices(self.attributes[i])) for i in members]
        for kinds in itertools.product(*choices):
            inner = frozenset(i for i, kind in zip(members, kinds, strict=True) if kind == "rest")
            S = tuple(i for i, kind in zip(members, kinds, strict=True) if kind == "features")
            if (inner or S or total) and (inner, S) not in measured:
                return False
        return True

    def without_total(self) -> MeasuredTables:
        """What is measured of it where the total is public."""
        sectors = []
        for sector in self.sectors:
            if sector.inner or () not in sector.sets:
                sectors.append(sector)
            elif len(sector.sets) > 1:  # its first row is that of the total
                sectors.append(ReadSector(sector.inner, sector.sets[1:], sector.matrix[1:, 1:]))
        return MeasuredTables(self.attributes, sectors)

    def longest(self) -> float:
        """At least the largest l2 norm of a column."""
        return math.sqrt(self._largest(self.sectors))

    def farthest(self) -> float:
        """At least the largest l2 distance of two columns."""
        sectors = self.without_total().sectors
        if any(attribute.features for attribute in self.attributes.values()):
            return 2 * math.sqrt(self._largest(sectors))
        used = sorted(set().union(*(sector.inner for sector in sectors)))
        if len(used) > MOST_ATTRIBUTES:
            raise ValueError(f"{len(used)} attributes under replace")
        s = np.array([float(sector.matrix[0, 0]) for sector in sectors])
        s *= [math.prod(self.attributes[i].longest for i in sector.inner) for sector in sectors]
        products = np.ones((s.size, 1))
        for i in used:
            attribute = self.attributes[i]
            least = attribute.least / attribute.longest
            if sum(len(sector.inner) for sector in sectors if i in sector.inner) == 1:
                least = 1 - attribute.farthest / attribute.longest / 2  # no other S has i
            inside = np.array([least if i in sector.inner else 1.0 for sector in sectors])
            products = np.hstack([products, products * inside[:, None]])
        return math.sqrt(2 * float((s.sum() - s @ products).max()))

    def _largest(self, sectors: Sequence[ReadSector]) -> float:
        """The largest squared length, from the polynomial in the features."""
        polynomial: dict[tuple[Any, ...], float] = defaultdict(float)
        for sector in sectors:
            outer: dict[tuple[Any, ...], float] = {(): 1.0}
            for i in sector.inner:
                attribute = self.attributes[i]
                part: dict[tuple[Any, ...], float] = {(): attribute.longest}
                part |= {((i, k), (i, k)): -1.0 for k in range(attribute.features)}
                outer = _times(outer, part)
            names = [name for S in sector.sets for name in self._names(S)]
            inner: dict[tuple[Any, ...], float] = defaultdict(float)
            for (a, first), (b, second) in itertools.product(enumerate(names), repeat=2):
                inner[tuple(sorted(first + second))] += float(sector.matrix[a, b])
            for name, value in _times(outer, inner).items():
                polynomial[name] += value
        return math.fsum(
            abs(value) * math.prod(self._top(*place) for place in name)
            for name, value in polynomial.items()
        )

    def _names(self, S: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
        for places in itertools.product(*(range(self.attributes[i].features) for i in S)):
            yield tuple(zip(S, places, strict=True))

    def _top(self, attribute: int, place: int) -> float:
        """The largest size of a feature."""
        return float(np.abs(self.attributes[attribute].rows[place]).max())


def _choices(attribute: ReadAttribute) -> Iterator[str]:
    yield "total"
    if attribute.features:
        yield "features"
    if attribute.size - 1 > attribute.features:
        yield "rest"


def _times(left: Mapping[Any, float], right: Mapping[Any, float]) -> dict[Any, float]:
    """The product of two polynomials."""
    result: dict[Any, float] = defaultdict(float)
    for (a, x), (b, y) in itertools.product(left.items(), right.items()):
        result[tuple(sorted(a + b))] += x * y
    return result


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
    sectors = [ReadSector(T, [()], np.array([[level]])) for T, level in levels.items()]
    return MeasuredTables(attributes, sectors)


def _designs(arrays: Arrays) -> dict[int, Any]:
    designed = arrays["designed"].tolist() if "designed" in arrays else []
    designs = {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}
    sizes = arrays["sizes"].tolist()
    if any(i >= len(sizes) or D.shape[1] != sizes[i] for i, D in designs.items()):
        raise ValueError("designs are not those of the attributes")
    return designs


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
