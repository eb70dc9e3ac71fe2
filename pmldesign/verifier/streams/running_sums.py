r"""Strategies for running sums, from their weights and nodes by recurrences, in ball arithmetic.

A_ts = q_t h_s prod_{s < i <= t} rate_i, N = A^-1 U^-1 A^-T (tridiagonal), and

    R^T R = X = sum_k c_k (N + s_k^2 W)^-1,      r(x) = sum_k c_k/(x + s_k^2).

The l2 sensitivity is max_i X_ii^(1/2). With 1/(x r(x)) = d + e_0/x + sum_j e_j/(x + z_j), -z_j the
zeros of r, d = 1/sum c, e_0 = 1/r(0), e_j = 1/(z_j sum_k c_k/(s_k^2 - z_j)^2), query t has

    variance_t = (d + e_0 u_t sum_s A_ts^2 w_s + sum_j e_j ((M + z_j)^-1)_tt)/u_t,
    M = U^(-1/2) A^-T W^-1 A^-1 U^(-1/2) (tridiagonal).

Diagonals of inverses of tridiagonal matrices come from elimination from both ends. Of many steps
they are computed in double precision, by the chains of `resolvents`: sums of positive numbers.

So they are for all intervals of n cells at p = 2: N^-1 = A^T A has the diagonal (i + 1)(n - i), i
from 0; the sum of all variances is

    tr A X^-1 A^T = d n + e_0 sum_i w_i (i + 1)(n - i) + sum_j e_j tr (N + z_j W)^-1 W.

Under replace the last sum, the total, is public; rates and weights of steps are 1. Of S = A X^-1
A^T, the covariance of the answers, the variance of query t given the last one is S_tt -
S_tn^2/S_nn, with

    S_tn = (d [t = n] + sum_j e_j ((M + z_j)^-1)_tn)/(u_t u_n)^(1/2) + e_0 q_t q_n sum_{s <= t} w_s.

Moving a record from step i to step j changes the measurements by (X_ii + X_jj - 2 X_ij)^(1/2). That
is at most (2 max X_ii)^(1/2), as X >= 0: (N + s^2 W)^-1 is the inverse of an M-matrix. Of few steps
all pairs are compared; PML of more takes all columns to be as far apart as any two can be.

Weights a_i of starts and b_j of ends, 0 <= i < j < n, and v of queries prove the lower bound

    nuclear norm of diag(B^2 v)^(1/2) A diag(w)^(1/2) / (sum_{i < j} a_i b_j norm(v)_q)^(1/2),

A the running sums without the last one, A_t = sum_{i <= t} a_i, B_t = sum_{j > t} b_j, and
w_t = A_t/B_t - A_{t-1}/B_{t-1}: the interval from i to j adds a_i b_j to the weight of the pairs of
queries in it, which for the queries s <= t is A_s B_t in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verifier.balls import dual_norm, largest, power_norm, root, total
from pmldesign.verifier.forms.form import MOST_CELLS
from pmldesign.verifier.forms.structured import (
    Computed,
    check_computed,
    profile,
    rounded,
    spread_of,
)
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header
from pmldesign.verifier.rounding import gamma, left_of
from pmldesign.verifier.streams.resolvents import (
    chain_of,
    gram_of_stream,
    nuclear_norm,
    variance_chain,
)

EXACT_STEPS, MOST_STEPS = 2 * 10**6, 2**25
"""Steps times nodes in balls, a microsecond each for about ten operations, and at all."""
COMPARED = 2048
"""Steps up to which the workload is compared with the sums of the file entry by entry."""
HALVINGS = 200
MOST_INTERVAL_CELLS = 2**18
"""Two recurrences in Python, ten seconds."""


def check_stream(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy for running sums, under add-remove neighbours."""
    if too_long(arrays, checks):
        return
    check_sums(arrays, queries, checks)
    sensitivities = {"l2": root(_longest(arrays))}
    lower = lower_bound(arrays, float(header["p"]))
    n = len(arrays["w"])
    check_computed(header, Computed(deviations(arrays), n, sensitivities.get, lower), checks)


def is_exact(arrays: Arrays) -> bool:
    """Whether the steps of a file are few enough for balls."""
    return len(arrays["w"]) * len(arrays["poles"]) <= EXACT_STEPS


def _longest(arrays: Arrays) -> Any:
    """The largest X_ii."""
    if not is_exact(arrays):
        chain = chain_of(arrays, len(arrays["w"]), arrays["u"]).scaled(arrays["w"])
        diagonals, _ = chain.inverse_diagonals(arrays["poles"] ** 2)
        return rounded(float((diagonals @ arrays["weights_of_poles"] / arrays["w"]).max()))
    u, w, q, h, rates = _in_balls(arrays)
    columns = [arb(0)] * len(w)
    inner, beside = _columns_chain(u, q, h, rates)
    for square, weight in zip(*nodes_of(arrays), strict=True):
        shifted = [a + square * b for a, b in zip(inner, w, strict=True)]
        for i, value in enumerate(inverse_diagonal(shifted, beside)):
            columns[i] += weight * value
    return largest(columns)


def check_intervals(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy for all intervals, under add-remove neighbours."""
    w, p = arrays["w"], float(header["p"])
    n = w.size
    checks.state("intervals", queries.count == n * (n + 1) // 2, "as many as the workload has")
    if n > MOST_INTERVAL_CELLS:
        checks.unchecked("claims", f"recurrences over {n} cells take too long")
        return
    weights = arrays["weights_of_poles"]
    squares = [arb(pole) ** 2 for pole in arrays["poles"].tolist()]
    pairs = reciprocal(squares, [arb(weight) for weight in weights.tolist()])
    zeros, shares = np.array(pairs, dtype=float).reshape(-1, 2).T
    chain = chain_of(arrays, n, 1.0).scaled(w)
    diagonals, _ = chain.inverse_diagonals(np.concatenate([arrays["poles"] ** 2, zeros]))
    columns = diagonals[:, : len(weights)] @ weights / w
    i = np.arange(float(n))
    origin = 1 / float(weights @ arrays["poles"] ** -2.0)
    square = n / float(weights.sum()) + origin * float(w @ ((i + 1) * (n - i)))
    square += float(diagonals[:, len(weights) :].sum(axis=0) @ shares)
    computed = Computed(
        lambda exponent: rounded(math.sqrt(square)) if exponent == 2 else None,
        n * (n + 1) // 2,
        {"l2": rounded(math.sqrt(float(columns.max())))}.get,
        lower_bound(arrays, p) if p == 2 else None,
    )
    check_computed(header, computed, checks)


def too_long(arrays: Arrays, checks: Checks) -> bool:
    """Whether there are too many steps and nodes, which is then added to the checks."""
    n, nodes = len(arrays["w"]), len(arrays["poles"])
    if n * nodes > MOST_STEPS:
        checks.unchecked("claims", f"{n} steps of {nodes} nodes take too long")
    return n * nodes > MOST_STEPS


def deviations(arrays: Arrays) -> Callable[[float], Any]:
    """(sum_t s_t^p)^(1/p) for every p, s_t^2 the variance of query t per unit of noise."""
    if not is_exact(arrays):
        return spread_of((_long_variances(arrays), 1))
    variances = _variances(_in_balls(arrays), *nodes_of(arrays))
    return lambda p: power_norm(variances, p)


def _long_variances(arrays: Arrays) -> Any:
    """The variance of every query per unit of noise, in double precision."""
    n, weights = len(arrays["w"]), arrays["weights_of_poles"]
    names = ("query_weights", "step_weights", "u")
    q, h, u = (np.broadcast_to(arrays[name], n) for name in names)
    zeros, shares = np.array(reciprocal(*nodes_of(arrays)), dtype=float).reshape(-1, 2).T
    diagonals, _ = variance_chain(arrays, n).inverse_diagonals(zeros)
    running, value = np.empty(n), 0.0
    rates = np.concatenate([[0.0], np.broadcast_to(arrays["rates"], n - 1)])
    added = h**2 * arrays["w"]
    for t in range(n):
        running[t] = value = rates[t] ** 2 * value + added[t]
    origin = 1 / float(weights @ arrays["poles"] ** -2.0)
    return (1 / float(weights.sum()) + diagonals[::-1] @ shares) / u + origin * q**2 * running


def _in_balls(arrays: Arrays) -> tuple[list[Any], ...]:
    """u, w, q, h and the rates of each step."""
    n = len(arrays["w"])
    names = ("u", "w", "query_weights", "step_weights")
    values = [np.broadcast_to(arrays[name], n) for name in names]
    values.append(np.broadcast_to(arrays["rates"], n - 1))
    return tuple([arb(value) for value in part.tolist()] for part in values)


def nodes_of(arrays: Arrays) -> tuple[list[Any], list[Any]]:
    """s_k^2 and c_k."""
    squares = [arb(value) ** 2 for value in arrays["poles"].tolist()]
    return squares, [arb(value) for value in arrays["weights_of_poles"].tolist()]


def lower_bound(arrays: Arrays, p: float) -> Any:
    """What dual weights of queries and steps prove; None for those of another form."""
    if "dual_u" not in arrays or arrays["dual_w"].shape != arrays["w"].shape:
        return None
    u, w = arrays["dual_u"], arrays["dual_w"]
    if min(u.min(), w.min()) < 0:
        raise ValueError("dual weights are negative")
    scale = root(dual_norm(u.tolist(), p) * total(map(arb, w.tolist())))
    return arb(nuclear_norm(arrays, u, w)) / scale


def inverse_diagonal(diagonal: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
    """The diagonal of the inverse of a symmetric tridiagonal matrix, by squares of its edges."""
    count = len(diagonal)
    down, up = [diagonal[0]] * count, [diagonal[-1]] * count
    for i in range(1, count):
        down[i] = diagonal[i] - beside[i - 1] / down[i - 1]
        up[-1 - i] = diagonal[-1 - i] - beside[-i] / up[-i]
    return [1 / (a + b - c) for a, b, c in zip(down, up, diagonal, strict=True)]


def _columns_chain(u: Any, q: Any, h: Any, rates: Any) -> tuple[list[Any], list[Any]]:
    """The diagonal of N, and the squares of the entries next to it."""
    count = len(u)
    inverse = [1 / (u[t] * q[t] ** 2) for t in range(count)]
    diagonal, beside = [], []
    for t in range(count):
        value = inverse[t] + (rates[t - 1] ** 2 * inverse[t - 1] if t else 0)
        diagonal.append(value / h[t] ** 2)
        if t:
            beside.append((rates[t - 1] * inverse[t - 1] / (h[t] * h[t - 1])) ** 2)
    return diagonal, beside


def _variances(sums: tuple[Any, ...], squares: Any, weights: Any) -> list[Any]:
    """The variance of every query per unit of noise."""
    u, w, q, h, rates = sums
    count = len(u)
    diagonal, beside = [], []
    for t in range(count):
        value = 1 / (w[t] * h[t] ** 2)
        if t < count - 1:
            value += rates[t] ** 2 / (w[t + 1] * h[t + 1] ** 2)
            edge = rates[t] / (w[t + 1] * h[t + 1] ** 2 * q[t] * q[t + 1])
            beside.append(edge**2 / (u[t] * u[t + 1]))
        diagonal.append(value / (q[t] ** 2 * u[t]))
    constant = 1 / total(weights)
    origin = 1 / total(c / s for c, s in zip(weights, squares, strict=True))
    result, running = [], arb(0)
    for t in range(count):
        running = (running * rates[t - 1] ** 2 if t else arb(0)) + h[t] ** 2 * w[t]
        result.append(constant / u[t] + origin * q[t] ** 2 * running)
    for zero, weight in reciprocal(squares, weights):
        values = inverse_diagonal([value + zero for value in diagonal], beside)
        for t, value in enumerate(values):
            result[t] += weight * value / u[t]
    return result


def reciprocal(squares: Any, weights: Any) -> list[tuple[Any, Any]]:
    """The z_j and e_j of 1/(x r(x)), to the precision of the balls."""
    terms = sorted(zip(squares, weights, strict=True), key=lambda pair: float(pair[0]))
    pairs = []
    for (low, _), (high, _) in pairwise(terms):
        for _ in range(HALVINGS):
            middle = ((low + high) / 2).mid()
            value = total(c / (s - middle) for s, c in terms)
            low, high = (low, middle) if bool(value > 0) else (middle, high)
        zero = ((low + high) / 2).mid()
        slope = total(c / (s - zero) ** 2 for s, c in terms)
        pairs.append((zero, 1 / (zero * slope)))
    return pairs


def check_sums(arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """Whether the running sums of the file are those of the workload."""
    along = next(
        (arrays[name] for name in ("w", "coefficients", "diagonal") if name in arrays), None
    )
    n = int(arrays["epochs"][0]) if along is None else len(along)
    names = ("rates", "query_weights", "step_weights")
    parts = [np.broadcast_to(arrays[name], n - (name == "rates")) for name in names]
    if (sums := queries.sums()) is not None:
        same = all(
            asked.shape == part.shape and np.allclose(asked, part, rtol=1e-12, atol=0)
            for asked, part in zip(sums, parts, strict=True)
        )
    elif queries.matrix is not None and n <= COMPARED:
        same = _is_running_sum(queries.matrix, *parts)
    else:
        checks.unchecked("sums", "whether those of the file are the workload")
        return
    checks.state("sums", same, "those of the file are the workload")


def _is_running_sum(queries: Any, rates: Any, q: Any, h: Any) -> bool:
    """Whether A has the entries given by the arrays."""
    n = len(q)
    row, same = np.zeros(n), queries.shape == (n, n)
    for t in range(n if same else 0):
        row = row * rates[t - 1] if t else row
        row[t] = h[t]
        same = same and np.allclose(queries[t], q[t] * row, rtol=1e-9, atol=1e-14)
    return bool(same)


def is_plain(arrays: Arrays) -> bool:
    """Whether the last sum is the total."""
    return bool((arrays["rates"] == 1).all() and (arrays["step_weights"] == 1).all())


def check_beside_total(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy for running sums, under replace."""
    if too_long(arrays, checks):
        return
    check_sums(arrays, queries, checks)
    n, distance = len(arrays["w"]), rounded(math.sqrt(_farthest(arrays)))
    computed = Computed(
        spread_of((_variances_beside_total(arrays), 1)),
        n,
        {"l2": distance}.get,
        lower_bound_beside_total(arrays, float(header["p"])),
        rows={"l2": profile([distance], [n - 1], 1)},
    )
    check_computed(header, computed, checks)


def lower_bound_beside_total(arrays: Arrays, p: float) -> Any:
    """The bound proved by weights of intervals; None without weights."""
    n = len(arrays["w"])
    if arrays.get("dual_w", np.zeros(0)).shape != (2, n - 1) or not is_plain(arrays):
        return None
    (a, b), v = arrays["dual_w"], arrays["dual_u"]
    if v.shape != a.shape or min(a.min(), b.min(), v.min()) <= 0:
        raise ValueError("dual weights are not positive, one for each query")
    starts, ends = np.cumsum(a), np.cumsum(b[::-1])[::-1]
    w = np.append(starts[0], (a[1:] * ends[:-1] + starts[:-1] * b[:-1]) / ends[1:]) / np.append(
        ends[0], ends[:-1]
    )
    asked = np.broadcast_to(arrays["query_weights"], n)[:-1]
    sums = {"rates": np.ones(1), "query_weights": asked, "step_weights": np.ones(1)}
    total = arb(math.fsum(starts * b)) * dual_norm(v.tolist(), p)
    return arb(nuclear_norm(sums, ends**2 * v, w)) / root(total)


def _farthest(arrays: Arrays) -> float:
    """The largest squared distance of two columns, or a bound above it."""
    w = arrays["w"]
    if len(w) <= MOST_CELLS:
        gram = gram_of_stream(arrays)
        return float((np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram).max())
    diagonals, _ = (
        chain_of(arrays, len(w), arrays["u"]).scaled(w).inverse_diagonals(arrays["poles"] ** 2)
    )
    return 2 * float((diagonals @ arrays["weights_of_poles"] / w).max())


def _variances_beside_total(arrays: Arrays) -> Any:
    """The variance of every query given the last one, per unit of noise."""
    w, weights = arrays["w"], arrays["weights_of_poles"]
    n = len(w)
    q, u = (np.broadcast_to(arrays[name], n) for name in ("query_weights", "u"))
    zeros, shares = np.array(reciprocal(*nodes_of(arrays)), dtype=float).reshape(-1, 2).T
    chain = variance_chain(arrays, n)  # from the last query to the first
    diagonals, pivots = chain.inverse_diagonals(zeros)
    hops = (chain.inner[:-1] * chain.beside)[:, None] / pivots[:-1]
    products = np.vstack([np.ones(len(zeros)), np.cumprod(hops, axis=0)])
    running = np.cumsum(w) / float(weights @ arrays["poles"] ** -2.0)
    constant = 1 / float(weights.sum())
    variances = (constant + diagonals[::-1] @ shares) / u + q**2 * running
    with_last = ((diagonals * products)[::-1] @ shares) / np.sqrt(u * u[-1]) + q * q[-1] * running
    told, last = with_last**2 / variances[-1], np.arange(n) == n - 1
    return left_of(variances, told, gamma(16 * n + 64) * variances, last)
