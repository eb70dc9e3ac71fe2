r"""Strategies for unions of products, beyond dense sizes: product bases, blocks, an identity.

R = diag(v)^(1/2) (x)_i R_i has X = R^T R and, P_i = R_i^+, X^-1 = (x) P_i diag(v)^-1 (x) P_i^T; of
fewer rows than cells, that is the covariance of estimates which answer A wherever A P R = A.
That is all that is needed of the matrix: entries are sums over a cube of numbers, an axis for each
attribute, along which matrices are applied one after the other.

    squared lengths      X_xx, and squared distances X_xx + X_yy - 2 X_xy: in `products`
    variances            q = a X^-1 a^T;  under replace, where the total is known,
                         q - (a X^-1 1)^2 / (1^T X^-1 1)

Lower bound. For weights u, w the nuclear norm is f = tr M^(1/2), M = W^(1/2) A^T U A W^(1/2). If u
and w are equal along all attributes but i, and V_j diagonalises all A_sj^T A_sj except for E_sj,

    M_b = sum_s prod_j lambda_sj(b_j) W_i^(1/2) A_si^T U_s A_si W_i^(1/2)

are its blocks up to a matrix of norm e, and no eigenvalue is off by more than e, which is
subtracted before roots are taken; otherwise M is dense. Pairs of cells have the weights w_x w_y
(sum w = 1): for a union at least (f - norm(U^(1/2) A w)) / ((1 - sum w^2)/2)^(1/2); for a single
product, with k_a the eigenvalues of M and s_a the coordinates of w^(1/2), C of M without that
direction,

    f - tr C^(1/2) = 1/pi integral of h(t) t^(-1/2) dt,
    h(t) = sum_a s_a^2 k_a/(k_a + t)^2 / sum_a s_a^2/(k_a + t).

Blocks, R = sum_b R_b (x)_j v_{j,b_j}^T over columns of orthonormal bases V_j:

    norm of a column (x, y)      sum_b norm(R_b e_x)^k prod_j |V_j[y_j, b_j]|^k, k = 1 or 2
    variance of a query (x) a    sum_b |a_i R_b^+|^2 prod_j (a_j^T v_{j,b_j})^2, i the blocks' own
                                 attribute; answered if its unmeasured part is 0

Identity and rows, R = [diag(d); T]: with C = (1 + T D^-2 T^T)^-1 (Woodbury) the variance of a query
a is |a D^-1|^2 - |a D^-2 T^T C^(1/2)|^2. Given a public total, (a v)^2 / (1^T v) is subtracted,
with v = (R^T R)^-1 1. Without T any two columns are as far apart as their entries are long
together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verifier.balls import dual_norm, root
from pmldesign.verifier.forms.many_cells import proved_by_cells
from pmldesign.verifier.forms.products import (
    along,
    distances,
    lengths,
    lower_of_factors,
    residual_of,
    split,
)
from pmldesign.verifier.forms.structured import (
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verifier.forms.table_bounds import lower_bound as tables_bound
from pmldesign.verifier.forms.written import pseudo_inverse
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import WEAKER, Arrays, Checks, Header
from pmldesign.verifier.rounding import gamma, left_of

ORDERS = {"l1": 1, "l2": 2}
EQUAL_WEIGHTS = 1e-12
"""Weights that differ by less than this part along an attribute count as equal along it."""
EXTENDED = 512
"""Values of an attribute up to which V^T A^T A V is computed in extended precision."""
COMMUTE = 1e-9
"""E, as part of the whole, up to which blocks are used."""
MOST_CELLS = 4096
"""Most cells for which M is dense."""
MOST_QUERIES = 2**22
"""Queries of all parts, and eigenvalues of a product."""
STEP, TAIL = 0.5, 60.0
"""Of the integral over log t, off by e^(-4 pi^2), and how far it goes below and above the k_a."""
WEAKER_PAIRS = 1e-4
"""A lower bound for pairs of cells may be one that cut eigenvalues to fewer."""
MISSED = 1e-9
"""Part of a query that may lie outside of the measured space: rounding."""


def check_product_basis(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a product, with weights or without, for a union of products."""
    count = sum(name.startswith("factor_") for name in arrays)
    R, sizes = [arrays[f"factor_{i}"] for i in range(count)], list(queries.sizes)
    rows = tuple(len(part) for part in R)
    v = np.asarray(arrays.get("weights", np.ones(rows))).reshape(rows)
    fits = [part.shape[1] for part in R] == sizes and bool((v > 0).all())
    p, replace = float(header["p"]), header["neighbours"] == "replace"
    if replace and "weights" in arrays:  # X^-1 is needed
        fits = fits and list(rows) == sizes
    if not checks.state("shapes", fits, "of the factors, and positive weights"):
        return
    parts = queries.products()
    if sum(math.prod(len(A) for A in part) for part in parts) > MOST_QUERIES:
        checks.unchecked("claims", "too many queries")
        return
    P = [pseudo_inverse(part) for part in R]
    missed, rest = residual_of(parts, R, P, p)
    checks.state("L R = A", missed < 1e-9, f"but for {missed:.1e}")
    totals = [inverse.sum(axis=0) @ factor for factor, inverse in zip(R, P, strict=True)]
    public = replace and all(np.abs(total - 1).max() < MISSED for total in totals)
    variances = np.concatenate([_variances(part, P, v, replace=public) for part in parts])
    known = distances(R, v if "weights" in arrays else None) if replace else lengths(R, v)
    sensitivities = {norm: rounded(value) for norm, value in known.items()}
    cells = math.prod(sizes)
    rows_of = {norm: profile([far], [cells - 1], 1) for norm, far in sensitivities.items()}
    lower = lower_bound(header, arrays, queries) if "lower" in header else None
    computed = Computed(
        spread_of((variances, 1)),
        variances.size,
        sensitivities.get,
        lower,
        rest * arb(2).sqrt() if replace else rest,
        rows_of,
        weaker=WEAKER_PAIRS if replace or not of_cells(arrays, queries) else WEAKER,
    )
    check_computed(header, computed, checks)


def of_cells(arrays: Arrays, queries: Queries) -> bool:
    """Whether the weights of the lower bound are those of queries and of cells."""
    if "dual_u" not in arrays or arrays["dual_w"].size != math.prod(queries.sizes):
        return False
    rows = sum(math.prod(len(A) for A in part) for part in queries.products())
    return bool(arrays["dual_u"].shape == (rows,))


def gram(factors: Sequence[Any], weights: Any) -> Any:
    """B^T diag(weights) B of B = (x) B_i, shape (n, n), from a cube of weights."""
    pairs = [(B[:, :, None] * B[:, None, :]).reshape(len(B), -1).T for B in factors]
    sizes = [B.shape[1] for B in factors]
    cube = along(weights, pairs).reshape([n for size in sizes for n in (size, size)])
    order = [*range(0, cube.ndim, 2), *range(1, cube.ndim, 2)]
    return cube.transpose(order).reshape(math.prod(sizes), -1)


def _variances(part: Sequence[Any], P: Sequence[Any], v: Any, *, replace: bool) -> Any:
    images = [A @ inverse for A, inverse in zip(part, P, strict=True)]
    squares = along(1 / v, [image**2 for image in images])
    if not replace:
        return squares.ravel()
    totals = [inverse.sum(axis=0)[None] for inverse in P]
    mixed = along(1 / v, [image * total for image, total in zip(images, totals, strict=True)])
    whole = float(along(1 / v, [total**2 for total in totals]).item())
    alike = reduce(np.multiply.outer, [np.ptp(A, axis=1) == 0 for A in part])
    off = 8 * gamma(sum(v.shape) + 8 * v.ndim) * squares
    return left_of(squares, mixed**2 / whole, off, alike).ravel()


def lower_bound(header: Header, arrays: Arrays, queries: Queries) -> Any | None:
    """What weights u and w prove, of queries and cells or else of tables and values; or None."""
    p, replace = float(header["p"]), header["neighbours"] == "replace"
    parts = queries.products()
    if replace and len(parts) == 1:
        return _product_of_pairs(arrays, parts[0], p)
    if "dual_u" not in arrays:
        return None
    if not of_cells(arrays, queries):
        return tables_bound(header, arrays, queries)
    u, w, starts = arrays["dual_u"], arrays["dual_w"].reshape(queries.sizes), [0]
    for part in parts:
        starts.append(starts[-1] + math.prod(len(A) for A in part))
    if min(u.min(), w.min()) < 0:
        return None
    w = w / w.sum()
    cubes = [
        u[start:end].reshape([len(A) for A in part])
        for part, start, end in zip(parts, starts, starts[1:], strict=False)
    ]
    asked = [s for s, cube in enumerate(cubes) if cube.any()]
    if len(asked) == 1 and not replace:  # the bound of a single part
        alone = {"dual_u": cubes[asked[0]].ravel(), "dual_w": arrays["dual_w"]}
        value = lower_of_factors(alone, parts[asked[0]], p)
        if value is not None:
            return value
    value = _by_blocks(parts, cubes, w)
    if value is None:
        return None
    if replace:
        images = [along(w, part) for part in parts]
        square = sum(float((c * x**2).sum()) for c, x in zip(cubes, images, strict=True))
        value = (value - math.sqrt(square)) / math.sqrt((1 - float((w**2).sum())) / 2)
    return rounded(max(value, 0.0)) / root(dual_norm(u.tolist(), p))


def _by_blocks(parts: Sequence[Any], cubes: Sequence[Any], w: Any) -> float | None:
    """f, of weights w of sum 1; None if M is too large."""
    axes = [i for i in range(w.ndim) if not all(map(_alike(i), [w, *cubes]))]
    if len(axes) > 1:
        return _written_out(parts, cubes, w)
    free = axes[0] if axes else int(np.argmax(w.shape))
    weights = w.max(axis=tuple(i for i in range(w.ndim) if i != free))
    left, off = [], []  # of each part: W^(1/2) A^T U A W^(1/2) of the attribute, and E
    diagonals = _diagonals(parts, free, w.ndim)
    r = np.sqrt(weights)
    for s, (part, cube) in enumerate(zip(parts, cubes, strict=True)):
        A, others = part[free], [i for i in range(w.ndim) if i != free]
        u = cube.max(axis=tuple(others))
        left.append(r[:, None] * (A.T @ (u[:, None] * A)) * r)
        whole = math.prod(float(diagonals[i][s][0].max()) for i in others)
        more = math.prod(float(diagonals[i][s][0].max()) + diagonals[i][s][1] for i in others)
        off.append(float(np.linalg.norm(left[-1], 2)) * (more - whole))
    others = [i for i in range(w.ndim) if i != free]
    lambdas = [
        reduce(np.multiply.outer, [diagonals[i][s][0] for i in others], np.ones(())).ravel()
        for s in range(len(parts))
    ]
    blocks = sum(np.multiply.outer(c, N) for c, N in zip(lambdas, left, strict=True))
    if sum(off) > COMMUTE * float(np.abs(blocks).max()):
        return _written_out(parts, cubes, w)
    return _roots(blocks, sum(off))


def _alike(axis: int) -> Any:
    return lambda cube: bool(np.ptp(cube, axis=axis).max() <= EQUAL_WEIGHTS * cube.max())


def _diagonals(parts: Sequence[Any], free: int, count: int) -> dict[int, list[tuple[Any, float]]]:
    """For every other attribute and part the diagonal of V^T A^T A V, and the norm of the rest."""
    result: dict[int, list[tuple[Any, float]]] = {}
    for i in (i for i in range(count) if i != free):
        grams = [part[i].T @ part[i] for part in parts]
        mixed = sum(G * math.sqrt(2 + s) / np.abs(G).max() for s, G in enumerate(grams))
        V = np.linalg.eigh(mixed)[1]
        result[i] = []
        exact = np.longdouble if len(V) <= EXTENDED else np.float64
        for G in grams:
            D = V.T.astype(exact) @ G.astype(exact) @ V
            unit = 4 * len(G) * np.finfo(exact).eps * np.abs(D).max()
            rest = float(np.linalg.norm((D - np.diag(D.diagonal())).astype(float)) + unit)
            result[i].append((np.maximum(D.diagonal().astype(float), 0.0), rest))
    return result


def _written_out(parts: Sequence[Any], cubes: Sequence[Any], w: Any) -> float | None:
    if w.size > MOST_CELLS:
        return None
    r = np.sqrt(w.ravel())
    M = sum(gram(part, cube) for part, cube in zip(parts, cubes, strict=True))
    M *= r
    M *= r[:, None]
    return _roots(M[None], 0.0)


def _roots(blocks: Any, off: float) -> float:
    """The sum of the roots of all eigenvalues, from below."""
    values = np.linalg.eigvalsh(blocks)
    units = 4 * blocks.shape[-1] * 2.0**-53 * values[..., -1:]
    return float(np.sqrt(np.maximum(values - off - units, 0.0)).sum())


def _product_of_pairs(arrays: Arrays, factors: Sequence[Any], p: float) -> Any | None:
    u = split(arrays, "dual_u", [A.shape[0] for A in factors])
    w = split(arrays, "dual_w", [A.shape[1] for A in factors])
    if u is None or w is None or math.prod(len(part) for part in w) > MOST_QUERIES:
        return None
    k, s = np.ones(1), np.ones(1)
    for A, weights, masses in zip(factors, u, w, strict=True):
        r = np.sqrt(masses / masses.sum())
        values, vectors = np.linalg.eigh(r[:, None] * (A.T @ (weights[:, None] * A)) * r)
        unit = 4 * len(A) * 2.0**-53 * values[-1]
        k = np.multiply.outer(k, np.maximum(values - unit, 0.0)).ravel()
        s = np.multiply.outer(s, (vectors.T @ r) ** 2).ravel()
    bottom, top = math.log(float(k.max())) - TAIL, math.log(float(k.max())) + TAIL
    integral = 0.0
    for t in np.exp(np.arange(bottom, top, STEP)):
        shares = s / (k + t)
        integral += math.sqrt(t) * float(shares @ (k / (k + t))) / float(shares.sum())
    ends = 2 * math.exp(bottom / 2) + 2 * math.exp(-top / 2) * float(s @ k)
    kept = float(np.sqrt(k).sum()) - (STEP * integral + ends) / math.pi
    mass = math.prod(float(((part / part.sum()) ** 2).sum()) for part in w)
    norm = math.prod(float(dual_norm(part.tolist(), p).upper()) for part in u)
    return rounded(max(kept, 0.0) / math.sqrt((1 - mass) / 2)) / root(arb(norm))


def check_blocks(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy of blocks, for a union of products; add-remove neighbours."""
    free, numbers = int(arrays["free"]), arrays["combinations"]
    bases = [arrays[f"basis_{j}"] for j in range(numbers.ndim)]
    blocks = [arrays[f"block_{b}"] for b in range(int(numbers.max()) + 1)]
    sizes = [len(basis) for basis in bases]
    sizes.insert(free, blocks[0].shape[1])
    off = max(float(np.abs(V.T @ V - np.eye(len(V))).max()) for V in bases)
    checks.state("bases", off < MISSED, "are orthonormal")
    if not checks.state("sizes", sizes == list(queries.sizes), "those of the workload"):
        return
    lengths = {}
    for norm, k in (("l1", 1), ("l2", 2)):
        sums = np.array([*[(np.abs(R) ** k).sum(axis=0) for R in blocks], 0 * blocks[0][0]])
        cube = along(sums[numbers], [np.abs(V) ** k for V in bases])
        lengths[norm] = rounded(float(cube.max()) ** (1 / k))
    variances, missed = [], 0.0
    inverses = [pseudo_inverse(R) for R in blocks]
    for table in queries.tables:
        factors = [table.factor(i, n) for i, n in enumerate(sizes)]
        a = factors.pop(free)
        shares = [(A @ V) ** 2 for A, V in zip(factors, bases, strict=True)]
        images = [a @ inverse for inverse in inverses]
        lengths_of = [(image**2).sum(axis=1) for image in images]
        parts = np.array([*lengths_of, 0 * lengths_of[0]])
        variances.append(table.weight**2 * along(parts[numbers], shares).ravel())
        rest = [a - image @ R for image, R in zip(images, blocks, strict=True)]
        outside = np.array([(part**2).sum(axis=1) for part in [*rest, a]])
        whole = np.array([(a**2).sum(axis=1)] * (len(blocks) + 1))
        part, sizes_of = (along(rows[numbers], shares) for rows in (outside, whole))
        part = part[sizes_of > 0] / sizes_of[sizes_of > 0]
        missed = max(missed, float(np.sqrt(part.max(initial=0.0))))
    checks.state("L R = A", missed < MISSED, f"but for {missed:.1e} of its rows")
    lower = lower_bound(header, arrays, queries) if "lower" in header else None
    squares = np.concatenate(variances)
    computed = Computed(spread_of((squares, 1)), squares.size, lengths.get, lower)
    check_computed(header, computed, checks)


def check_identity(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of an identity with rows; without rows also under replace."""
    A, d, T = queries.matrix, arrays["diagonal"], arrays["rows"]
    fits = d.shape == T.shape[1:] == A.shape[1:] and bool((d > 0).all())
    if not checks.state("shapes", fits, "of the arrays, and a positive diagonal"):
        return
    scaled = T / d
    values, vectors = np.linalg.eigh(np.eye(len(T)) + scaled @ scaled.T)
    B = (scaled / d).T @ (vectors / np.sqrt(values))
    alone, told = ((A / d) ** 2).sum(axis=1), ((A @ B) ** 2).sum(axis=1)
    off = gamma(8 * (d.size + len(T) + 8)) * float(values.max(initial=0.0)) * alone
    squares = left_of(alone, told, off)
    both, lower, rows = np.vstack([d, T]), None, {}
    sizes = {norm: np.linalg.norm(both, order, axis=0) for norm, order in ORDERS.items()}
    lengths = {norm: rounded(float(size.max())) for norm, size in sizes.items()}
    if header["neighbours"] == "replace":
        free = d**-2 - B @ B.sum(axis=0)
        told, off = (A @ free) ** 2 / free.sum(), gamma(4 * d.size + 16) * squares
        squares = left_of(squares, told, off, np.ptp(A, axis=1) == 0)
        two = {norm: np.sort(size)[-2:] if d.size > 1 else [0.0] for norm, size in sizes.items()}
        lengths = {n: rounded(float(np.linalg.norm(two[n], k))) for n, k in ORDERS.items()}
        rows = {norm: profile([far], [d.size - 1], 1) for norm, far in lengths.items()}
        if "dual_u" in arrays:
            u, w, p = arrays["dual_u"], arrays["dual_w"], float(header["p"])
            fits = (u.shape, w.shape) == ((len(A),), d.shape) and min(u.min(), w.min()) >= 0
            if checks.state("dual weights", fits, "of queries and of cells, not negative"):
                lower = proved_by_cells(A, u, w, p)
    computed = Computed(
        spread_of((squares, 1)),
        squares.size,
        lengths.get,
        lower,
        rows=rows,
        weaker=math.inf,
        weaker_loss=math.inf,
    )
    check_computed(header, computed, checks)
