r"""Running sums under replace: their last one, the total, is public (`running_sums` has X).

Rates and weights of steps are 1. Of S = A X^-1 A^T, the covariance of the answers, the variance of
query t beside the last one is S_tt - S_tn^2/S_nn, with

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
from typing import Any

import numpy as np
from flint import arb

from pmldesign.verify.arithmetic.intervals import dual_norm, root
from pmldesign.verify.forms.form import MOST_CELLS
from pmldesign.verify.forms.structured import Computed, check_computed, profile, rounded, spread_of
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.streams.resolvents import (
    chain_of,
    gram_of_stream,
    nuclear_norm,
    variance_chain,
)
from pmldesign.verify.streams.running_sums import check_sums, nodes_of, reciprocal, too_long


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
        spread_of((_variances(arrays), 1)),
        n,
        {"l2": distance}.get,
        lower_bound(arrays, float(header["p"])),
        rows={"l2": profile([distance], [n - 1], 1)},
    )
    check_computed(header, computed, checks)


def lower_bound(arrays: Arrays, p: float) -> Any:
    """What weights of intervals prove; None where there are none."""
    n = len(arrays["w"])
    if arrays.get("dual_w", np.zeros(0)).shape != (2, n - 1) or not is_plain(arrays):
        return None
    (a, b), v = arrays["dual_w"], arrays["dual_u"]
    if min(a.min(), b.min(), v.min()) <= 0:
        raise ValueError("dual weights are not positive")
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


def _variances(arrays: Arrays) -> Any:
    """The variance of every query beside the last one per unit of noise."""
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
    with_last[-1] = variances[-1]
    return variances - with_last**2 / variances[-1]
