r"""Files of tables at regions that nest, with a weight r for each table T and node.

With m_T answers of a table at a node and N plain cells to a leaf, the rows of T at the node nu are

    1_nu x e_t x 1,    sum over t of (e_t x 1)(e_t x 1)^T = N/m_T sum over S in T of P_S,

P_S the projections on the vectors over plain cells that depend on the attributes S and sum to zero
along each, of rank d_S = prod (n_i - 1). So there is a tree for every S, and with precisions
sum r^2/m_T over the T that hold S the variance of an answer of T is

    a^2/m_T^2 sum over S in T of d_S var_S.

The l1 norm of a column is the sum of r on the path of its leaf, for all tables; two columns are
apart by what is not above both, and by both rows of a table above both whose values differ: all but
counts, at most. With dual weights that are u for the answers of T at a node and w/N at the cells of
a leaf, f = sum d_S tr N_S^(1/2) for alpha = sum u a^2/m_T over the T that hold S (`sweeps`).
"""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import numpy as np

from pmldesign.verify.arithmetic.rounding import around, gamma
from pmldesign.verify.forms.structured import (
    SLACK,
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verify.forms.written import members_of
from pmldesign.verify.queries import Queries, RegionTables
from pmldesign.verify.report import WEAKER, Arrays, Checks, Header
from pmldesign.verify.trees.regions import MOST_LEVELS, WEAKER_PAIRS, WIDEST
from pmldesign.verify.trees.sweeps import ReadTree

MOST_ATTRIBUTES = 10
"""Of a table: of all their sets there is a tree."""

Table = tuple[int, ...]


def check_region_tables(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy that measures tables at regions, for queries about such."""
    asked = queries.region_tables
    assert asked is not None
    r, tables = np.asarray(arrays["node_weights"], dtype=np.float64), members_of(arrays["tables"])
    same = (
        np.array_equal(asked.parents, arrays["parents"])
        and tuple(arrays["sizes"].tolist()) == asked.sizes
        and r.shape == (len(tables), len(asked.parents))
        and all(set(table) <= {*range(len(asked.sizes))} for table in tables)
    )
    if not checks.state("regions", same, "those of the workload, and their attributes"):
        return
    tree = ReadTree(asked.parents)
    far = len(tree.levels) > MOST_LEVELS or r.max() > WIDEST * r[r > 0].min(initial=math.inf)
    if far or max(len(part.table) for part in asked.parts) > MOST_ATTRIBUTES:
        checks.unchecked(
            "claims", f"more than {MOST_LEVELS} levels, weights far apart or large tables"
        )
        return
    replace, plain = header["neighbours"] == "replace", math.prod(asked.sizes)
    unit = 2.0 ** math.frexp(float(r.max()))[1]
    squares = variances(tree, asked, tables, r / unit, public=replace)
    if squares is None:
        checks.unchecked("L R = A", "what is asked for is not measured at these regions or below")
        return
    checks.state("L R = A", True, "every table is measured where it is asked for, or below")
    m = np.array([_answers(asked.sizes, table) for table in tables])
    lengths = {
        norm: unit * (longest(tree, m, (r / unit) ** power, replace=replace)) ** (1 / power)
        for norm, power in (("l1", 1), ("l2", 2))
    }
    off = tree.slack + gamma(len(tables) + 8)
    balls = {norm: around(np.array([x]), off)[0] for norm, x in lengths.items()}
    spread = spread_of((squares / unit**2, 1))
    slack = 4 * tree.slack + gamma(2 ** (MOST_ATTRIBUTES + 1) + len(tables))
    computed = Computed(
        lambda p: spread(p) * around(np.ones(1), slack)[0],
        squares.size,
        balls.get,
        lower_bound(header, arrays, asked) if "lower" in header else None,
        rows={
            norm: profile([far], [int(tree.leaves.sum()) * plain - 1], 1)
            for norm, far in balls.items()
        },
        weaker=WEAKER_PAIRS if replace else WEAKER,
        slack=SLACK + 3 * slack,
        slack_of_sensitivity=SLACK + 2 * off,
    )
    check_computed(header, computed, checks)


def variances(
    tree: ReadTree, asked: RegionTables, tables: list[Table], r: Any, *, public: bool
) -> Any | None:
    """Of all queries in their order, shape (m,); None where one is not measured.

    Args:
        tree: the regions.
        asked: the queries.
        tables: those that are measured.
        r: their weights, shape (K, N).
        public: whether the total is.
    """
    per_answer = r**2 / np.array([[_answers(asked.sizes, table)] for table in tables])
    found: dict[Table, tuple[Any, Any]] = {}
    for S in _within(part.table for part in asked.parts):
        holds = [set(S) <= set(table) for table in tables]
        precisions = per_answer[holds].sum(axis=0)
        told = tree.told(precisions > 0)
        found[S] = tree.variances(precisions, public=public and not S), told
    values = []
    for part in asked.parts:
        m, total = _answers(asked.sizes, part.table), np.zeros(len(part.nodes))
        for S in _within([part.table]):
            dimension = math.prod(asked.sizes[i] - 1 for i in S)
            known, told = found[S]
            if dimension and not told[part.nodes].all():
                return None
            total += dimension * known[part.nodes] if dimension else 0.0
        values.append(np.repeat((part.scales / m) ** 2 * total, m))
    return np.concatenate(values)


def longest(tree: ReadTree, answers: Any, values: Any, *, replace: bool) -> float:
    """The largest norm of a column, or distance of two, from what tables and nodes add, (K, N)."""
    total = values.sum(axis=0)
    if not replace:
        return tree.longest(total)
    return tree.farthest(total, 2 * values[answers > 1].sum(axis=0))


def lower_bound(header: Header, arrays: Arrays, asked: RegionTables) -> Any | None:
    """What dual weights prove; None for those that are not alike for the values of a table.

    Args:
        header: of the file.
        arrays: of the file.
        asked: the queries.
    """
    tree, plain = ReadTree(asked.parents), math.prod(asked.sizes)
    u, w, leaves = arrays["dual_u"], arrays["dual_w"], int(tree.leaves.sum())
    counts = [len(part.nodes) * _answers(asked.sizes, part.table) for part in asked.parts]
    if u.shape != (sum(counts),) or w.shape != (leaves * plain,):
        return None
    cells = w.reshape(leaves, plain)
    split = np.split(u, np.cumsum(counts)[:-1])
    of_parts = [
        rows.reshape(len(part.nodes), -1) for rows, part in zip(split, asked.parts, strict=True)
    ]
    if (cells != cells[:, :1]).any() or any((rows != rows[:, :1]).any() for rows in of_parts):
        return None
    masses = np.zeros(len(asked.parents))
    masses[tree.leaves] = cells[:, 0] / cells[:, 0].sum()
    value, alphas = 0.0, {}
    for S in _within(part.table for part in asked.parts):
        alpha = np.zeros(len(asked.parents))
        for rows, part in zip(of_parts, asked.parts, strict=True):
            if set(S) <= set(part.table):
                m = _answers(asked.sizes, part.table)
                np.add.at(alpha, part.nodes, rows[:, 0] * part.scales**2 / m)
        alphas[S] = alpha
        dimension = math.prod(asked.sizes[i] - 1 for i in S)
        value += dimension * tree.nuclear_norm(alpha, masses) if dimension else 0.0
    value *= 1 - gamma(len(asked.parts) + len(alphas) + 8)
    mass = 1.0
    if header["neighbours"] == "replace":
        parts = zip(tree.split(alphas[()]), tree.sums(masses), strict=True)
        taken = math.fsum(float((a * sums**2).sum()) for a, sums in parts)
        value -= math.sqrt(taken) * (1 + gamma(masses.size + len(asked.parts) + 8) + 2 * tree.slack)
        mass = (1 - float(masses @ masses) / plain * (1 - gamma(masses.size + 8))) / 2
    p = float(header["p"])
    q = math.inf if p == 2 else 1 / (1 - 2 / p)
    size = float(u.max() * np.linalg.norm(u / u.max(), q))
    return rounded(max(value, 0.0)) / (rounded(size) * rounded(mass)).sqrt()


def _answers(sizes: Any, table: Table) -> int:
    """The number m_T of answers of a table at a node."""
    return math.prod(sizes[i] for i in table)


def _within(tables: Any) -> list[Table]:
    """All sets of attributes within one of these."""
    within = chain.from_iterable(
        combinations(table, count) for table in tables for count in range(len(table) + 1)
    )
    return sorted(set(within))
