r"""Files of counts and tables of a geographic hierarchy, with a weight r for each table and node.

With m_T answers of a table at a node and N plain cells to a leaf, the rows of T at the node nu are

    1_nu x e_t x 1,    sum over t of (e_t x 1)(e_t x 1)^T = N/m_T sum over S in T of P_S,

P_S the projections on the vectors over plain cells that depend on the attributes S and sum to zero
along each, of rank d_S = prod (n_i - 1). So there is a tree for every S, and with precisions
sum r^2/m_T over the T that hold S the variance of an answer of T is

    a^2/m_T^2 sum over S in T of d_S var_S.

The l1 norm of a column is the sum of r on the path of its leaf, for all tables; the distance of two
columns is the sum of the rows that are not above both, and of both rows of a table above both whose
values differ: at most all except counts. With dual weights that are u for the answers of T at a
node and w/N at the cells of a leaf, f = sum d_S tr N_S^(1/2) for alpha = sum u a^2/m_T over the T
that hold S (`trees`).

Of an ordered attribute i coordinates are measured (`ReadAttribute`), N and m_T go without it, and
the table over T is seen by those S alone that have all of its ordered attributes. Queries A_i have
|a_i^T Psi_i|^2 of the variance instead of (n_i - 1)/n_i^2 on S, and (a_i^T v_i)^2 instead of
1/n_i^2 off S. Weights of the queries on it and of its values multiply those of nodes and leaves,
and with N_i = (W^(1/2) A_i^T U A_i W^(1/2))^(1/2) and r = w^(1/2) there are (tr N_i - r^T N_i r)^2
and (r^T N_i r)^2 in alpha for tables with i, on S and off S, as for tables without regions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from pmldesign.verifier.forms.form import members_of
from pmldesign.verifier.forms.structured import (
    SLACK,
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verifier.forms.tables import ReadAttribute
from pmldesign.verifier.forms.trees import ReadTree, known_nodes, mass_of_pairs
from pmldesign.verifier.queries import Queries, RegionTables
from pmldesign.verifier.report import WEAKER, Arrays, Checks, Header
from pmldesign.verifier.rounding import around, gamma

MOST_LEVELS = 2**12
"""Of a tree: a sweep takes about 20 microseconds for each, and there are a hundred and more."""
WIDEST = 1e120
"""Ratio of weights up to which nothing leaves the normal numbers."""
WEAKER_PAIRS = 1e-4
"""Tolerance of a lower bound for pairs of cells: a difference, less accurate than its terms."""
NUMBER_ROUNDING, PRODUCT_ROUNDING = 2e-9, 1e-12
"""Relative errors of numbers for ordinal attributes in double precision, and of products."""
FAINT = 1e-8
"""Part of the largest eigenvalue below which N counts as 0."""
MOST_ATTRIBUTES = 10
"""Of a table: of all their sets there is a tree."""

Table = tuple[int, ...]


def check_regions(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy that measures tables at regions, for queries about such."""
    asked = queries.region_tables
    assert asked is not None
    r, tables = np.asarray(arrays["node_weights"], dtype=np.float64), members_of(arrays["tables"])
    read = _attributes(arrays, asked.sizes)
    same = (
        np.array_equal(asked.parents, arrays["parents"])
        and tuple(arrays["sizes"].tolist()) == asked.sizes
        and r.shape == (len(tables), len(asked.parents))
        and all(set(table) <= {*range(len(asked.sizes))} for table in tables)
    )
    if not checks.state("regions", same, "those of the workload, and their attributes"):
        return
    tree = ReadTree(asked.parents)
    if not asked.sizes and not tree.told(r.sum(axis=0) > 0)[tree.leaves].all():
        checks.state("L R = A", False, "every cell is measured by itself")
        return
    far = len(tree.levels) > MOST_LEVELS or r.max() > WIDEST * r[r > 0].min(initial=math.inf)
    if far or max(len(part.table) for part in asked.parts) > MOST_ATTRIBUTES:
        checks.unchecked(
            "claims", f"more than {MOST_LEVELS} levels, weights far apart or large tables"
        )
        return
    found = known_nodes(tree, header, arrays, queries.known, checks)
    if found is None:
        return
    tops, known = found
    replace, plain = tops is not None, math.prod(asked.sizes)
    unit = 2.0 ** math.frexp(float(r.max()))[1]
    squares = variances(tree, asked, read, tables, r / unit, known=known)
    if squares is None:
        checks.unchecked("L R = A", "what is asked for is not measured at these regions or below")
        return
    checks.state("L R = A", True, "all is measured where it is asked for, or below")
    lengths = {}
    for norm, power in (("l1", 1), ("l2", 2)):
        most, apart = _distances(read, tables, power)
        values = most[:, None] * (r / unit) ** power
        lengths[norm] = unit * longest(tree, apart, values, tops) ** (1 / power)
    off = tree.slack + gamma(len(tables) + 8 + sum(asked.sizes) ** 2)
    balls = {norm: around(np.array([x]), off)[0] for norm, x in lengths.items()}
    spread = spread_of((squares / unit**2, 1))
    slack = 4 * tree.slack + gamma(2 ** (MOST_ATTRIBUTES + 1) + len(tables))
    computed = Computed(
        lambda p: spread(p) * around(np.ones(1), slack)[0],
        squares.size,
        balls.get,
        lower_bound(header, arrays, asked, found) if "lower" in header else None,
        rows={
            norm: profile([far], [int(tree.leaves.sum()) * plain - 1], 1)
            for norm, far in balls.items()
        },
        weaker=WEAKER_PAIRS if replace else WEAKER,
        slack=SLACK + 3 * slack,
        slack_of_sensitivity=SLACK + 2 * off,
    )
    check_computed(header, computed, checks)


def _attributes(arrays: Arrays, sizes: Sequence[int]) -> list[ReadAttribute]:
    """The measurements of each attribute; `rows` are None if they are of values."""
    read = [ReadAttribute.plain(n, float(n)) for n in sizes]
    for k, i in enumerate(arrays["ordered"].tolist() if "ordered" in arrays else []):
        rows = arrays[f"coordinates_{k}"]
        if not 0 <= i < len(sizes) or rows.shape != (sizes[i] - 1, sizes[i]):
            raise ValueError(f"coordinates of attribute {i} do not fit")
        read[i] = ReadAttribute.of(rows)
    return read


def variances(
    tree: ReadTree,
    asked: RegionTables,
    read: Sequence[ReadAttribute],
    tables: list[Table],
    r: Any,
    *,
    known: Any,
) -> Any | None:
    """Of all queries in their order, shape (m,); None if one is not measured.

    Args:
        tree: the regions.
        asked: the queries.
        read: the measurements of the attributes.
        tables: those that are measured.
        r: their weights, shape (K, N).
        known: nodes whose sums are, with all above them; None for none.
    """
    own = {i for i, attribute in enumerate(read) if attribute.rows is not None}
    plain = [math.prod(asked.sizes[i] for i in table if i not in own) for table in tables]
    per_answer = r**2 / np.array(plain)[:, None]
    found: dict[Table, tuple[Any, Any]] = {}
    for S in _within(part.table for part in asked.parts):
        holds = [set(S) <= set(table) and own & set(S) == own & set(table) for table in tables]
        precisions = per_answer[holds].sum(axis=0)
        counted = precisions > 0
        if known is not None and not S:
            counted |= known
        found[S] = tree.variances(precisions, None if S else known), tree.told(counted)
    values = []
    for part in asked.parts:
        numbers = [read[i].asked(asked.queries.get(i)) for i in part.table]
        total = np.zeros((len(part.nodes), math.prod(_answers(asked, part.table))))
        for S in _within([part.table]):
            if any(asked.sizes[i] == 1 for i in S):
                continue
            spread, told = found[S]
            if not told[part.nodes].all():
                return None
            shares = np.ones(1)
            for i, number in zip(part.table, numbers, strict=True):
                on = number.rest if i in S else number.total
                shares = np.multiply.outer(shares, np.repeat(on, number.times)).ravel()
            total += np.multiply.outer(spread[part.nodes], shares)
        values.append((part.scales[:, None] ** 2 * total).ravel())
    return np.concatenate(values)


def _distances(
    read: Sequence[ReadAttribute], tables: Sequence[Table], power: int
) -> tuple[Any, Any]:
    """The largest l1 norm or squared l2 norm of a column of each table, and how far apart two are.

    The latter as a part of the former: 2, except for counts only and common parts of ordinal
    attributes.
    """
    tops, apart = [], []
    for table in tables:
        ends, plain = [], False
        for i in table:
            if read[i].rows is None:
                plain |= read[i].size > 1
            elif power == 1:
                longest = float(np.abs(read[i].rows).sum(axis=0).max())
                ends.append((longest, -longest))
            else:
                ends.append((read[i].columns.longest, read[i].columns.least))
        tops.append(math.prod(top for top, _ in ends))
        least = min(math.prod(corner) for corner in product(*ends)) / tops[-1]
        shared = min(least, 0.0) if plain else least
        apart.append(2 * (1 - (shared if power == 2 else max(shared, 0.0))))
    return np.array(tops), np.array(apart)


def longest(tree: ReadTree, apart: Any, values: Any, tops: Any) -> float:
    """The largest norm of a column, or distance of two below tops, from their summands, (K, N)."""
    total = values.sum(axis=0)
    if tops is None:
        return tree.longest(total)
    return tree.farthest(total, (apart[:, None] * values).sum(axis=0), tops)


def lower_bound(
    header: Header, arrays: Arrays, asked: RegionTables, found: tuple[Any, Any]
) -> Any | None:
    """The bound proved by dual weights; None for weights that are not products.

    Args:
        header: of the file.
        arrays: of the file.
        asked: the queries.
        found: the nodes of known sums, as `known_nodes`.
    """
    tree, u, p = ReadTree(asked.parents), arrays["dual_u"], float(header["p"])
    leaves, counts = int(tree.leaves.sum()), [_answers(asked, part.table) for part in asked.parts]
    rows = [len(part.nodes) * math.prod(m) for part, m in zip(asked.parts, counts, strict=True)]
    if u.shape != (sum(rows),) or arrays["dual_w"].shape != (leaves * math.prod(asked.sizes),):
        return None
    w = _factors(arrays["dual_w"].reshape(leaves, *asked.sizes))
    split = np.split(u, np.cumsum(rows)[:-1])
    of_parts = [_factors(part.reshape(-1, *m)) for part, m in zip(split, counts, strict=True)]
    if w is None or None in of_parts or not w[0].any():
        return None
    masses, w = np.zeros(len(asked.parents)), [part / part.sum() for part in w]
    masses[tree.leaves] = w[0]
    alphas = {S: np.zeros(masses.size) for S in _within(p.table for p in asked.parts)}
    for part, factors in zip(asked.parts, of_parts, strict=True):
        assert factors is not None
        numbers = [
            _numbers(asked.queries.get(i), weights, w[1 + i])
            for i, weights in zip(part.table, factors[1:], strict=True)
        ]
        squares = factors[0] * part.scales**2
        for S in _within([part.table]):
            of_values = math.prod(n[i in S] for i, n in zip(part.table, numbers, strict=True))
            np.add.at(alphas[S], part.nodes, squares * of_values)
    tops, known = found
    if known is not None:
        alphas[()][known] = 0.0
    value = math.fsum(
        tree.nuclear_norm(a, masses, None if S else tops) for S, a in alphas.items() if a.any()
    )
    terms = masses.size + len(asked.parts) + len(alphas) + sum(asked.sizes) + 8
    value *= 1 - gamma(terms) - NUMBER_ROUNDING * bool(asked.queries)
    concentration = math.prod(float(part @ part) for part in w[1:])
    mass = mass_of_pairs(tree, masses, tops, concentration * (1 - gamma(terms)))
    q = math.inf if p == 2 else 1 / (1 - 2 / p)
    size = float(u.max() * np.linalg.norm(u / u.max(), q))
    return rounded(max(value, 0.0)) / (rounded(size) * rounded(mass)).sqrt()


def _factors(values: Any) -> list[Any] | None:
    """Vectors, one for each axis, whose product is values; None if it is not a product."""
    if not values.any():
        return [np.zeros(len(values)), *map(np.ones, values.shape[1:])]
    top = np.unravel_index(int(values.argmax()), values.shape)
    largest = float(values[top])
    if not largest > 0:
        return None
    parts = []
    for axis in range(values.ndim):
        place = tuple(slice(None) if k == axis else at for k, at in enumerate(top))
        parts.append(values[place] / largest)
    product_of = reduce(np.multiply.outer, parts) * largest
    if not (np.abs(product_of - values) <= PRODUCT_ROUNDING * product_of).all():
        return None
    return [parts[0] * largest, *parts[1:]]


def _numbers(queries: Any, u: Any, w: Any) -> tuple[float, float]:
    """Of queries with weights on an attribute with weights: t and h."""
    if queries is None:
        if not (u == 1).all() or not (w == w[0]).all():
            queries = np.eye(w.size)
        else:
            n = w.size
            return 1 / n, (n - 1) ** 2 / n
    r = np.sqrt(w)
    values, vectors = np.linalg.eigh(r[:, None] * (queries.T @ (u[:, None] * queries)) * r)
    values = np.where(values > FAINT * values[-1], values, 0.0)
    mean = float(np.sqrt(values) @ (vectors.T @ r) ** 2)
    rest = max(float(np.sqrt(values).sum()) - mean, 0.0)
    return mean**2, rest**2


def _answers(asked: RegionTables, table: Table) -> list[int]:
    """How many queries there are on each attribute of a table."""
    return [len(asked.queries[i]) if i in asked.queries else asked.sizes[i] for i in table]


def _within(tables: Any) -> list[Table]:
    """All sets of attributes within one of these."""
    within = chain.from_iterable(
        combinations(table, count) for table in tables for count in range(len(table) + 1)
    )
    return sorted(set(within))
