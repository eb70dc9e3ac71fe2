r"""Claims of strategies for all intervals of n cells, by the chain of `resolvents`, at p = 2.

X = sum_k c_k (N + s_k^2 W)^-1, N^-1 = A^T A with the diagonal (i + 1)(n - i), i from 0. With d, e_j
and z_j of `running_sums` the sum of all variances is

    tr A X^-1 A^T = d n + e_0 sum_i w_i (i + 1)(n - i) + sum_j e_j tr (N + z_j W)^-1 W.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from pmldesign.verify.forms.structured import Computed, check_computed, rounded
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.streams.resolvents import chain_of
from pmldesign.verify.streams.running_sums import lower_bound, reciprocal

MOST_CELLS = 2**18
"""Two recurrences in Python, ten seconds."""


def check_intervals(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of a strategy for all intervals, under add-remove neighbours."""
    w, p = arrays["w"], float(header["p"])
    n = w.size
    checks.state("intervals", queries.count == n * (n + 1) // 2, "as many as the workload has")
    if n > MOST_CELLS:
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
    total = n / float(weights.sum()) + origin * float(w @ ((i + 1) * (n - i)))
    total += float(diagonals[:, len(weights) :].sum(axis=0) @ shares)
    computed = Computed(
        lambda exponent: rounded(math.sqrt(total)) if exponent == 2 else None,
        n * (n + 1) // 2,
        {"l2": rounded(math.sqrt(float(columns.max())))}.get,
        lower_bound(arrays, p) if p == 2 else None,
    )
    check_computed(header, computed, checks)
