r"""Files of strategies that measure tables, each by a matrix R_T of its own.

With C_i = (1^T; H_i), H_i contrasts, the table over T is the product of C_i^-1, i in T, of
coordinates z_S, S in T, one vector for each set S of attributes. R and A are sparse matrices on all
of these, X = R^T R, and the variances are those of A X^-1 A^T. Where records are replaced, z of the
empty set is public and left out. No column is longer than

    |R e_x|^2 <= sum_T max_x |R_T e_x|^2,      |R (e_x - e_y)|^2 <= sum_T max |R_T (e_x - e_y)|^2.

Lower bounds: for weights w = (x)_i w_i of the cells and u of the queries

    gamma >= norm(U^(1/2) A W^(1/2))_* / norm(u)_q^(1/2),     q = p/(p - 2),

computed on products of w_i^(1/2) and vectors orthogonal to it. If that matrix is too large, the
rows of each table are turned into N = (B^T B)^(1/2) and cut into the part that it shares with
others and the part that it does not, on both sides, which lowers the norm. Under replace the
product of all w_i^(1/2) is left out, and pairs of different cells have the weight m = 1 - prod_i
sum w_i^2: (2/m)^(1/2) times the rest.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from pmldesign.verifier.forms.form import members_of
from pmldesign.verifier.forms.structured import (
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verifier.forms.written import contrasts, kron
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header

MOST_ROWS = 2500
"""Of a matrix whose singular values are computed."""
WEAKER_WEIGHTS = 0.05
"""A lower bound may be that of a matrix that was cut."""
COLUMNS = 256
"""Queries that are solved for at a time."""
SOLVED = 1e-9
"""Of the largest entry of A, by which X X^-1 A^T may be off."""


def check_joint(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of such a strategy."""
    replace = header["neighbours"] == "replace"
    sizes, tables = arrays["sizes"].tolist(), members_of(arrays["tables"])
    if not checks.state("sizes", sizes == list(queries.sizes), "those of the workload"):
        return
    measured = [*zip(tables, _matrices(arrays, len(tables)), strict=True)]
    asked = [(table.members, table.matrix) for table in queries.joint]
    inverses = {
        i: np.linalg.inv(np.vstack([np.ones((1, n)), contrasts(n)])) for i, n in enumerate(sizes)
    }
    columns = _Columns(sizes, [T for T, _ in measured], total=not replace)
    told = all(any(set(T) <= set(S) for S in tables) for T, _ in asked)
    values = _variances(columns, measured, asked, inverses) if told else np.zeros(0)
    if not checks.state("L R = A", len(values) > 0, "all coordinates of every table are told"):
        return
    lengths = {norm: rounded(value) for norm, value in _lengths(measured, replace=replace).items()}
    used = math.prod(sizes[i] for i in set().union(*tables))
    far = {n: profile([v], [used - 1], math.prod(sizes) // used) for n, v in lengths.items()}
    computed = Computed(
        spread_of((values, 1)),
        len(values),
        lengths.get,
        lower_bound(header, arrays, queries) if "dual_w" in arrays else None,
        rows=far if replace else {},
        weaker=WEAKER_WEIGHTS,
    )
    check_computed(header, computed, checks)


def lower_bound(header: Header, arrays: Arrays, queries: Queries) -> Any:
    """The bound proved by weights of cells and queries, or None if they are of another form."""
    u, w, p = arrays["dual_u"], arrays["dual_w"], float(header["p"])
    sizes, count = list(queries.sizes), sum(len(table.matrix) for table in queries.joint)
    if not queries.joint or w.shape != (sum(sizes),) or u.shape != (count,):
        return None
    if w.min() <= 0 or u.min() < 0:
        return None
    cells = [part / part.sum() for part in np.split(w, np.cumsum(sizes)[:-1])]
    turns = {}
    for i, part in enumerate(cells):
        Q, _ = np.linalg.qr(np.column_stack([np.sqrt(part), np.eye(len(part))[:, 1:]]))
        Q[:, 0] = np.sqrt(part)
        turns[i] = np.sqrt(part)[:, None] * Q
    replace = header["neighbours"] == "replace"
    ends = np.cumsum([0, *(len(table.matrix) for table in queries.joint)])
    asked = [
        (table.members, np.sqrt(u[a:b])[:, None] * table.matrix)
        for table, a, b in zip(queries.joint, ends[:-1], ends[1:], strict=True)
    ]
    columns = _Columns(sizes, [T for T, _ in asked], total=not replace)
    value = _nuclear(columns, asked, turns)
    if replace:
        used = set().union(*(T for T, _ in asked))
        value *= math.sqrt(2 / (1 - math.prod(float(cells[i] @ cells[i]) for i in used)))
    q = math.inf if p == 2 else 1.0 if math.isinf(p) else p / (p - 2)
    return rounded(value / math.sqrt(float(np.linalg.norm(u, q))))


class _Columns:
    """The places of all coordinates z_S.

    Args:
        sizes: n_i.
        tables: the sets T.
        total: whether that of the empty set is among them.
    """

    def __init__(self, sizes: Sequence[int], tables: Sequence[Any], *, total: bool) -> None:
        self.sizes, self.total = sizes, total
        self.times = Counter(S for T in set(tables) for S in _subsets(T))
        self.firsts: dict[tuple[int, ...], int] = {}
        self.count = 0
        for S in sorted(self.times, key=lambda s: (len(s), s)):
            if S or total:
                self.firsts[S] = self.count
                self.count += math.prod(sizes[i] - 1 for i in S)

    def of(self, T: tuple[int, ...]) -> Any:
        """The places of the coordinates of a table, -1 for that of the total if it is left out."""
        places = []
        for modes in itertools.product(*(range(self.sizes[i]) for i in T)):
            S = tuple(i for i, mode in zip(T, modes, strict=True) if mode)
            place = 0
            for i, mode in zip(T, modes, strict=True):
                place = place * (self.sizes[i] - 1) + mode - 1 if mode else place
            places.append(self.firsts[S] + place if S in self.firsts else -1)
        return np.array(places)

    def matrix(self, blocks: Sequence[Any], turns: Mapping[int, Any]) -> Any:
        """The rows of all tables on all coordinates, sparse."""
        stacked = []
        for T, block in blocks:
            places = self.of(T)
            turn = kron([np.ones((1, 1)), *(turns[i] for i in T)])
            turned = (block @ turn)[:, places >= 0]
            kept = np.tile(places[places >= 0], len(block))
            rows = np.repeat(np.arange(len(block)), turned.shape[1])
            entries = (turned.ravel(), (rows, kept))
            stacked.append(scipy.sparse.csr_array(entries, shape=(len(block), self.count)))
        return scipy.sparse.vstack(stacked).tocsr()


def _variances(columns: _Columns, measured: Any, asked: Any, turns: Any) -> Any:
    """Variances of all queries; empty if X does not determine them."""
    R, A = columns.matrix(measured, turns), columns.matrix(asked, turns)
    X = (R.T @ R).tocsc()
    roots = np.sqrt(X.diagonal())
    if not (roots > 0).all():
        return np.zeros(0)
    scaled = scipy.sparse.diags_array(1 / roots)
    X = (scaled @ X @ scaled).tocsc()
    A = (A @ scaled).tocsr()
    try:
        factor = scipy.sparse.linalg.splu(
            X, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError:  # singular
        return np.zeros(0)
    values = []
    for first in range(0, A.shape[0], COLUMNS):
        rows = A[first : first + COLUMNS].toarray()
        solved = factor.solve(np.ascontiguousarray(rows.T))
        if np.abs(X @ solved - rows.T).max() > SOLVED * np.abs(rows).max():
            return np.zeros(0)
        values.append(np.einsum("ij,ji->i", rows, solved))
    return np.concatenate(values)


def _nuclear(columns: _Columns, asked: Any, turns: Any) -> float:
    """The nuclear norm of all rows on all coordinates, or less."""
    count = sum(len(block) for _, block in asked)
    if min(count, columns.count) <= MOST_ROWS:
        B = columns.matrix(asked, turns)
        smaller = B if count <= columns.count else B.T.tocsr()
        return _trace_of_root((smaller @ smaller.T).toarray())
    every = {T for T, _ in asked}
    grouped: dict[Any, list[Any]] = {
        T: [] for T in sorted(every) if not any(set(T) < set(S) for S in every)
    }
    for T, block in asked:
        outer = next(S for S in grouped if set(T) <= set(S))
        grouped[outer].append((T, block))
    times = Counter(S for T in grouped for S in _subsets(T))
    shared = _Columns(columns.sizes, [*grouped], total=columns.total)
    common = np.concatenate(
        [
            shared.firsts[S] + np.arange(math.prod(columns.sizes[i] - 1 for i in S))
            for S in sorted(shared.firsts)
            if times[S] > 1
        ]
    )
    position = np.full(shared.count, -1)
    position[common] = np.arange(len(common))
    core, total = np.zeros((len(common), len(common))), 0.0
    for T, blocks in grouped.items():
        places = shared.of(T)
        places = places[places >= 0]
        B = shared.matrix(blocks, turns)[:, places].toarray()
        _, values, vectors = np.linalg.svd(B, full_matrices=False)
        N, inside = (vectors.T * values) @ vectors, position[places] >= 0
        total += float(N.diagonal()[~inside].sum())
        cut = N[np.ix_(inside, inside)]
        core[np.ix_(position[places][inside], position[places][inside])] += cut @ cut
    return total + _trace_of_root(core)


def _trace_of_root(K: Any) -> float:
    values = np.linalg.eigvalsh(K) if K.size else np.zeros(1)
    off = 8 * len(K) * np.finfo(float).eps * float(values[-1])
    return float(np.sqrt(np.maximum(values - off, 0.0)).sum())


def _lengths(measured: Any, *, replace: bool) -> dict[str, float]:
    """Sensitivities, or bounds above them."""
    longest = [float(np.abs(R).sum(axis=0).max()) for _, R in measured]
    if not replace:
        squares = [float((R * R).sum(axis=0).max()) for _, R in measured]
        return {"l1": math.fsum(longest), "l2": math.sqrt(math.fsum(squares))}
    squares = []
    for _, R in measured:
        gram = R.T @ R
        own = gram.diagonal()
        squares.append(float((own[:, None] + own - 2 * gram).max()))
    return {"l1": 2 * math.fsum(longest), "l2": math.sqrt(math.fsum(squares))}


def _matrices(arrays: Arrays, count: int) -> list[Any]:
    matrices = [arrays[f"rows_{k}"] for k in range(count)]
    if sum(name.startswith("rows_") for name in arrays) > count:
        raise ValueError("there are more matrices than tables")
    return matrices


def _subsets(T: Any) -> Any:
    return itertools.chain.from_iterable(
        itertools.combinations(T, count) for count in range(len(T) + 1)
    )
