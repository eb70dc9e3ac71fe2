r"""Lower bounds for tables.

For weights w_i of cells, sum 1, uniform for plain attributes. Of the queries
A_k of a table on an attribute let N = (W^(1/2) A_k^T A_k W^(1/2))^(1/2), and let L_i be an
orthonormal frame that begins with w_i^(1/2). Cutting a matrix into blocks by orthogonal projectors
on both sides does not raise its nuclear norm, so that

    gamma >= sum over Sp of tr K_Sp^(1/2),
    K_Sp = sum over T containing Sp of
           c_T^2 prod_Sp (tr N - tr L^T N L)^2 (x)_{T, not Sp} (L^T N L)^2 (x)_{not T} e e^T,

e the first unit vector. At p > 2 with weights u of queries that are products in each table, u_T
of the table and u_k of the queries on each attribute, u_T c_T^2 and U_k^(1/2) A_k stand for c_T^2
and A_k, and norm(u)_q^(1/2), q = p/(p - 2), divides.

Any frame gives a bound; L_i spans N^j w^(1/2), j = 0, 1, -1, 2, ..., N the sum over the A_k, or all
that those of the A_k see that have the least rank. Under
replace the bounds are those of `pairs`.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.verify.forms.structured import rounded
from pmldesign.verify.queries import Queries, Table
from pmldesign.verify.report import Arrays, Header
from pmldesign.verify.tables.pairs import (
    halves,
    is_separate,
    of_pairs,
    of_queries,
    separate_bound,
    trace_of_root,
)

NUMBER_ROUNDING = 1e-9
"""Relative, of all numbers here, which are computed in double precision."""
MOST_DIRECTIONS, MOST_ROWS = 6, 2000
"""Of frames beside their first vector, and of K."""
WAYS, WAYS_DIRECTIONS = (256, 128, 64, 32), 4
"""Columns of frames that hold all that some ways ask about an attribute; directions of others."""
FAINT = 1e-8
"""Part of the largest eigenvalue below which N is not inverted."""


def lower_bound(header: Header, arrays: Arrays, queries: Queries) -> Any:
    """What weights of tables and cells prove, with the fewest directions for the claim, or None."""
    if "lower" not in header or "ordered" not in arrays:
        return None
    order, w, p = arrays["ordered"].tolist(), arrays["dual_w"], float(header["p"])
    norm, apart = 1.0, header["neighbours"] == "replace" and is_separate(queries)
    if p > 2:
        weigh = of_queries if apart else _of_factors
        weighed = weigh(queries, arrays["dual_u"], 1.0 if math.isinf(p) else p / (p - 2))
        if weighed is None:
            return None
        queries, norm = weighed
    if apart:
        value = separate_bound(queries, w)
        return None if value is None else rounded(value / math.sqrt(norm))
    ends = np.cumsum([queries.sizes[i] for i in order])
    if not order or w.shape != (ends[-1],) or w.min() < 0:
        return None
    cells = dict(zip(order, np.split(w, ends[:-1]), strict=True))
    cells = {i: part / part.sum() for i, part in cells.items()}
    for i, n in enumerate(queries.sizes):
        cells.setdefault(i, np.full(n, 1 / n) if i in _used(queries) else np.zeros(0))
    proved = 0.0
    for directions in range(MOST_DIRECTIONS + 1):
        value = _block_bound(queries, cells, directions, pairs=header["neighbours"] == "replace")
        if value is None:
            break
        proved = max(proved, value / math.sqrt(norm))
        if proved * (1 + NUMBER_ROUNDING) >= float(header["lower"]):
            break
    for most in () if header["neighbours"] == "replace" else WAYS:
        if proved * (1 + NUMBER_ROUNDING) < float(header["lower"]):
            value = _block_bound(queries, cells, WAYS_DIRECTIONS, pairs=False, ways=most)
            proved = max(proved, (value or 0.0) / math.sqrt(norm))
    return rounded(proved)


def _of_factors(queries: Queries, u: Any, q: float) -> tuple[Queries, float] | None:
    """Tables with weights of them, and of the queries on each attribute; norm(u)_q."""
    factors: list[tuple[int, Any]] = []
    for table in queries.tables:
        for i, A in table.factors.items():
            if A is not None and _place(factors, i, A) is None:
                factors.append((i, A))
    factors.sort(key=lambda factor: factor[0])
    ends = np.cumsum([len(queries.tables), *(len(A) for _, A in factors)])
    if u.shape != (ends[-1],) or u.min() < 0:
        return None
    of_tables, *parts = np.split(u, ends[:-1])
    scaled = [np.sqrt(part)[:, None] * A for part, (_, A) in zip(parts, factors, strict=True)]
    tables, powers = [], []
    for table, weight in zip(queries.tables, of_tables.tolist(), strict=True):
        chosen, power = {}, weight**q
        for i, A in table.factors.items():
            k = None if A is None else _place(factors, i, A)
            chosen[i] = None if k is None else scaled[k]
            power *= 1.0 if k is None else float((parts[k] ** q).sum())
            weight *= 1.0 if k is not None else queries.sizes[i] ** (-1 / q)
        tables.append(Table(table.weight * math.sqrt(weight), chosen))
        powers.append(power)
    return replace(queries, tables=tables), math.fsum(powers) ** (1 / q)


def _place(factors: Sequence[tuple[int, Any]], attribute: int, A: Any) -> int | None:
    """The number of a factor among those that are listed."""
    return next(
        (k for k, (i, B) in enumerate(factors) if i == attribute and np.array_equal(A, B)), None
    )


def _used(queries: Queries) -> set[int]:
    return {i for table in queries.tables for i in table.factors}


def _block_bound(
    queries: Queries, cells: Mapping[int, Any], directions: int, *, pairs: bool, ways: int = 0
) -> float | None:
    """The sum of tr K_Sp^(1/2), or the bound of pairs; None where K is too large."""
    roots = _roots(queries, cells)
    plain = {i for table in queries.tables for i, A in table.factors.items() if A is None}
    ordered = {}
    if pairs:
        ordered = {i: halves(cells[i]) for i in roots if i not in plain}
    if not directions:
        ordered = {i: (y, 0.0) for i, (y, _) in ordered.items()}
    seconds = {i: y for i, (y, _) in ordered.items()}
    frames = {
        i: _frame(list(parts.values()), cells[i], directions, seconds.get(i))
        for i, parts in roots.items()
    }
    wide = {i: _wide_frame([*parts.values()], cells[i], ways) for i, parts in roots.items()}
    frames |= {i: frame for i, frame in wide.items() if frame is not None}
    inner, rest = {}, {}
    for i, parts in roots.items():
        for key, N in parts.items():
            M = frames[i].T @ N @ frames[i]
            inner[i, key] = M @ M
            rest[i, key] = max(float(np.trace(N) - np.trace(M)), 0.0) ** 2
            if len(M) == len(N):
                rest[i, key] = 0.0
    containing: dict[tuple[int, ...], list[Any]] = defaultdict(list)
    for table in queries.tables:
        members = sorted(table.factors)
        for count in range(len(members) + 1):
            for Sp in itertools.combinations(members, count):
                containing[Sp].append(table)
    blocks = []
    for Sp, tables in containing.items():
        block = _matrix(Sp, tables, inner, rest)
        if block is None:
            return None
        blocks.append((Sp, *block))
    if pairs:
        return of_pairs(blocks, {i: cells[i] for i in roots}, ordered)
    return math.fsum(trace_of_root(K) for _, K, _ in blocks)


def _matrix(Sp: Any, tables: Any, inner: Any, rest: Any) -> Any:
    """K_Sp, over the products of directions that some table has, and their names."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    blocks = []
    for table in tables:
        others = [i for i in sorted(table.factors) if i not in Sp]
        keys = {i: (i, id(table.factors[i])) for i in table.factors}
        scale = table.weight**2 * math.prod(rest[keys[i]] for i in Sp)
        matrix = np.array([[scale]])
        for i in others:
            matrix = np.kron(matrix, inner[keys[i]])
        places = []
        for ks in itertools.product(*(range(len(inner[keys[i]])) for i in others)):
            name = tuple((i, k) for i, k in zip(others, ks, strict=True) if k)
            places.append(numbers.setdefault(name, len(numbers)))
        blocks.append((places, matrix))
    if len(numbers) > MOST_ROWS:
        return None
    K = np.zeros((len(numbers), len(numbers)))
    for places, matrix in blocks:
        K[np.ix_(places, places)] += matrix
    return K, list(numbers)


def _roots(queries: Queries, cells: Mapping[int, Any]) -> dict[int, dict[int, Any]]:
    """N of every different set of queries on each attribute."""
    roots: dict[int, dict[int, Any]] = defaultdict(dict)
    for table in queries.tables:
        for i, A in table.factors.items():
            if id(A) not in roots[i]:
                r = np.sqrt(cells[i])
                gram = np.diag(cells[i]) if A is None else r[:, None] * (A.T @ A) * r
                values, vectors = np.linalg.eigh(gram)
                values = np.where(values > FAINT * values[-1], values, 0.0)
                roots[i][id(A)] = (vectors * np.sqrt(values)) @ vectors.T
    return roots


def _frame(roots: Sequence[Any], w: Any, directions: int, second: Any = None) -> Any:
    """L, its first column w^(1/2), then `second` if there is one and a direction for it."""
    values, vectors = np.linalg.eigh(np.sum(roots, axis=0))
    inverse = np.where(values > FAINT * values[-1], 1 / np.maximum(values, 1e-300), 0.0)
    r = np.sqrt(w) / math.sqrt(float(w.sum()))
    columns, up, down = [r], vectors.T @ r, vectors.T @ r
    if second is not None and directions and len(w) > 1:
        columns, directions = [r, second], directions - 1
    for number in range(min(directions, len(w) - len(columns))):
        if number % 2 == 0:
            up = up * values
            up /= np.linalg.norm(up)
        else:
            down = down * inverse
            down /= np.linalg.norm(down)
        x = vectors @ (up if number % 2 == 0 else down)
        for _ in range(2):
            x = x - np.array(columns).T @ (np.array(columns) @ x)
        size = float(np.linalg.norm(x))
        if size <= FAINT:
            break
        columns.append(x / size)
    return np.array(columns).T


def _wide_frame(roots: Sequence[Any], w: Any, most: int) -> Any:
    """L that begins with w^(1/2) and holds all that the N of least rank see, up to `most` columns.

    None for a single N, or if each sees more than that.
    """
    ranks = [int((np.linalg.eigvalsh(N) > FAINT * np.trace(N)).sum()) for N in roots if most]
    kept, count = [], 0
    for rank, N in sorted(zip(ranks, roots, strict=False), key=lambda pair: pair[0]):
        count += rank
        if count > min(most, len(w) - 1):
            break
        kept.append(np.linalg.eigh(N)[1][:, -rank:])
    if len(roots) == 1 or not kept:
        return None
    r = np.sqrt(w) / math.sqrt(float(w.sum()))
    columns = np.column_stack(kept)
    vectors, values, _ = np.linalg.svd(columns - np.outer(r, r @ columns), full_matrices=False)
    frame, triangle = np.linalg.qr(np.column_stack([r, vectors[:, values > FAINT]]))
    return frame * np.sign(triangle.diagonal())
