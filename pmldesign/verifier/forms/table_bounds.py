r"""Lower bounds for tables.

Cells have weights w_i, sum 1, uniform for plain attributes. Of the queries A_k of a table on an
attribute let N = (W^(1/2) A_k^T A_k W^(1/2))^(1/2), and let L_i be an
orthonormal frame that begins with w_i^(1/2). Cutting a matrix into blocks by orthogonal projectors
on both sides does not raise its nuclear norm, so that

    gamma >= sum over Sp of tr K_Sp^(1/2),
    K_Sp = sum over T containing Sp of
           c_T^2 prod_Sp (tr N - tr L^T N L)^2 (x)_{T, not Sp} (L^T N L)^2 (x)_{not T} e e^T,

e the first unit vector. At p > 2 with weights u of queries that are products in each table, u_T
of the table and u_k of the queries on each attribute, u_T c_T^2 and U_k^(1/2) A_k stand for c_T^2
and A_k, and norm(u)_q^(1/2), q = p/(p - 2), divides.

Any frame gives a bound; L_i spans N^j w^(1/2), j = 0, 1, -1, 2, ..., N the sum over the A_k, or all
that those of the A_k see that have the least rank.

Under replace pairs of cells have the weights rho = (x)_i rho_i >= 0, rho_i = W^(1/2) C_i W^(1/2),
C_i r = r, r = w^(1/2), so that each cell has the weight w in sum. Pairs of equal cells are left out
of the sum m = 1 - prod tr rho_i, and

    gamma >= (2/m)^(1/2) norm(A W^(1/2) (1 - (x) C_i)^(1/2))_*.

A plain attribute has C = -theta/(n - 1) on vectors orthogonal to r, an ordered one -lambda on y,
which is constant times r on either of two halves of its cells, and 0 beyond. In frames that begin
with r, y the matrix K_Sp becomes D^(1/2) K_Sp D^(1/2) if no attribute of Sp is ordinal, D = 1 -
prod C_i, and is unchanged otherwise.

Of tables over single attributes pairs of cells differ in every attribute, in each one by its own
weights of pairs and in either direction alike. With W_i their Laplacian for attribute i, weights of
sum 1, blocks between two attributes vanish, and at p = 2

    gamma >= sum_i c_i (sum of the singular values of A_i W_i^(1/2));

at p > 2 of U_i^(1/2) A_i W_i^(1/2), over norm(u)_q^(1/2).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.verifier.forms.structured import rounded
from pmldesign.verifier.queries import Queries, Table
from pmldesign.verifier.report import Arrays, Header

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of theta, and of the largest lambda."""

Name = tuple[tuple[int, int], ...]
"""Attributes and the numbers of their directions, without those of r."""
NUMBER_ROUNDING = 1e-9
"""Relative, of all numbers here, which are computed in double precision."""
MOST_DIRECTIONS, MOST_ROWS = 6, 2000
"""Most vectors of frames after the first one, and most rows of K."""
WAYS, WAYS_DIRECTIONS = (256, 128, 64, 32), 4
"""Columns of frames that hold all that some ways ask about an attribute; directions of others."""
FAINT = 1e-8
"""Part of the largest eigenvalue below which N is not inverted."""


def halves(w: Any) -> tuple[Any, float]:
    """Y for weights w of sum 1, and the largest lambda for which rho_i >= 0."""
    if len(w) < 2:
        return np.zeros(len(w)), 0.0
    sums = np.cumsum(w)[:-1]
    last = int(np.argmin(np.abs(sums - 0.5)))
    share = float(np.clip(sums[last], 1e-12, 1 - 1e-12))
    signs = np.where(np.arange(len(w)) <= last, 1 - share, -share)
    y = np.sqrt(w) * signs / math.sqrt(share * (1 - share))
    return y, min(share, 1 - share) / max(share, 1 - share)


def of_pairs(
    blocks: Sequence[tuple[tuple[int, ...], Any, Sequence[Name]]],
    cells: Mapping[int, Any],
    ordered: Mapping[int, tuple[Any, float]],
) -> float:
    """The best bound among some theta and lambda.

    Args:
        blocks: Sp, K_Sp and the names of its rows.
        cells: w of every attribute that is asked about.
        ordered: y and the largest lambda of the ordinal ones, 0 if y is in no frame.
    """
    fixed, free = 0.0, []
    for Sp, K, names in blocks:
        if any(i in ordered for i in Sp):
            fixed += trace_of_root(K)
        else:
            free.append((Sp, K, names))
    best = 0.0
    for share, theta in itertools.product(SHARES, SHARES):
        equal, slopes = 1.0, {}
        for i, w in cells.items():
            if i in ordered:
                y, largest = ordered[i]
                slopes[i] = -share * largest
                equal *= float(w @ w) + slopes[i] * float(w @ y**2)
            else:
                slopes[i] = -theta / max(len(w) - 1, 1)
                equal *= (1 - theta) / len(w) if len(w) > 1 else 1.0
        total = fixed
        for Sp, K, names in free:
            sign = math.prod(slopes[i] for i in Sp)
            products = [math.prod(slopes[i] if k == 1 else 0.0 for i, k in name) for name in names]
            root = np.sqrt(np.maximum(1 - sign * np.array(products), 0.0))
            total += trace_of_root(root[:, None] * K * root)
        if equal < 1:
            best = max(best, total * math.sqrt(2 / (1 - equal)))
    return best


def trace_of_root(K: Any) -> float:
    """Tr K^(1/2)."""
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(K), 0.0)).sum())


def is_separate(queries: Queries) -> bool:
    """Whether each table is about one attribute, another one for each."""
    used = _attributes(queries)
    return all(len(table.factors) <= 1 for table in queries.tables) and len(set(used)) == len(used)


def _attributes(queries: Queries) -> list[int]:
    """The attribute of each table that has more than one value."""
    return [i for table in queries.tables for i in table.factors if queries.sizes[i] > 1]


def of_queries(queries: Queries, u: Any, q: float) -> tuple[Queries, float] | None:
    """Tables with weights of their single queries, and norm(u)_q."""
    members = [list(table.factors.items()) for table in queries.tables]
    matrices = [
        table.factor(part[0][0], queries.sizes[part[0][0]]) if part else np.ones((1, 1))
        for table, part in zip(queries.tables, members, strict=True)
    ]
    ends = np.cumsum([len(A) for A in matrices])
    if u.shape != (ends[-1],) or u.min() < 0:
        return None
    weighed = [
        np.sqrt(part)[:, None] * A for part, A in zip(np.split(u, ends[:-1]), matrices, strict=True)
    ]
    tables = [
        Table(table.weight, {part[0][0]: A} if part else {})
        for table, part, A in zip(queries.tables, members, weighed, strict=True)
    ]
    return replace(queries, tables=tables), float((u**q).sum()) ** (1 / q)


def separate_bound(queries: Queries, weights: Any) -> float | None:
    """The bound of weights of pairs, n x n for each attribute; None without such weights."""
    members = [list(table.factors.items()) for table in queries.tables]
    counts = [queries.sizes[i] ** 2 for i in _attributes(queries)]
    if weights.size != sum(counts):
        return None
    parts = iter(np.split(weights.ravel(), np.cumsum(counts)[:-1]))
    total = 0.0
    for table, part in zip(queries.tables, members, strict=True):
        if not part or queries.sizes[part[0][0]] == 1:
            continue
        n = queries.sizes[part[0][0]]
        W = next(parts).reshape(n, n)
        if W.min() < 0 or not np.array_equal(W, W.T) or W.sum() <= 0:
            return None
        W = W / (W.sum() / 2)
        values, vectors = np.linalg.eigh(np.diag(W.sum(axis=1)) - W)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        image = table.factor(part[0][0], n) @ root
        total += table.weight * float(np.linalg.svd(image, compute_uv=False).sum())
    return total


def lower_bound(header: Header, arrays: Arrays, queries: Queries) -> Any:
    """What weights of tables and cells prove, with the fewest directions for the claim, or None."""
    if "lower" not in header:
        return None
    order, w, p = _ordered(queries), arrays["dual_w"], float(header["p"])
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


def _ordered(queries: Queries) -> list[int]:
    """The attributes that are asked for more than counts, in order."""
    asked = {i for table in queries.tables for i, A in table.factors.items() if A is not None}
    return sorted(i for i in asked if queries.sizes[i] > 1)


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
    """The sum of tr K_Sp^(1/2), or the bound of pairs; None if K is too large."""
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
