r"""Claims of streams for people who take part in several of more steps than a matrix is made for.

Fixed epochs have the blocks of `epochs`. A strategy of `running_sums`, made for one participation,
has entries X_ij = sum_k Y_k(j) prod_{i <= m < j} l_k(m) of resolvents; where no l exceeds 1 they
fall with the distance of i and j, so that for steps at least b apart the squared sensitivity is at
most

    k max_i X_ii + 2 sum_{0 < l < k} (k - l) max_i X_{i, i + l b},

and k^2 max_i X_ii in any case. A Toeplitz strategy with r >= 0 has its longest pattern at 0, b, 2b,
... in fixed epochs, and where r falls for min-sep too (Kalinin and Lampert 2024, Theorem 2); its
variances are sums of squares of the coefficients of 1 / (r(z) (1 - rate z)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verify.arithmetic.intervals import dual_norm, root
from pmldesign.verify.forms.structured import Computed, check_computed, rounded, spread_of
from pmldesign.verify.queries import Queries
from pmldesign.verify.report import Arrays, Checks, Header
from pmldesign.verify.streams import epochs
from pmldesign.verify.streams.participation import Pattern
from pmldesign.verify.streams.resolvents import chain_of
from pmldesign.verify.streams.running_sums import (
    check_sums,
    deviations,
    lower_bound,
    too_long,
)

MOST_NUMBERS = 2**23
"""Of the blocks of all classes: two minutes."""
MOST_PRODUCTS = 2**33
"""Of steps and bands: ten seconds."""


def check_several(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of fixed epochs, or of a stream for several participations; Gaussian noise."""
    pattern, p = Pattern.of(header.get("participation", "1,min-sep=1")), float(header["p"])
    check_sums(arrays, queries, checks)
    if "epochs" in arrays:
        n = int(arrays["epochs"][0])
        if arrays["epoch_weights"].size > MOST_NUMBERS:
            checks.unchecked("claims", "the blocks of so many classes take too long")
            return
        square = _of_blocks(epochs.gram_blocks(arrays), pattern)
        spread = spread_of((epochs.variances(arrays), 1))
    elif "coefficients" in arrays:
        r = arrays["coefficients"]
        n, bands = r.size, np.flatnonzero(r).max() + 1
        if n * bands > MOST_PRODUCTS:
            checks.unchecked("claims", f"{n} steps of {bands} bands take too long")
            return
        square, spread = _of_bands(r, pattern), spread_of((_variances(arrays, bands), 1))
    else:
        n = len(arrays["w"])
        if too_long(arrays, checks):
            return
        square, spread = _of_stream(arrays, pattern), deviations(arrays)
    drawn = None
    if "coefficients" in arrays:
        drawn = pattern.drawn(int(bands), float(np.linalg.norm(r)), n)
    sensitivities = {} if square is None else {"l2": rounded(math.sqrt(square))}
    lower = _lower(arrays, pattern, p)
    computed = Computed(spread, n, sensitivities.get, lower, drawn=drawn)
    check_computed(header, computed, checks)


def _of_blocks(blocks: Any, pattern: Pattern) -> float | None:
    """The largest sum of abs(X_ij) over a pattern; None for one that is no part of a class."""
    classes, members, _ = blocks.shape
    if not pattern.fixed or pattern.apart != classes:
        return None
    k = min(pattern.times, members)
    windows = np.lib.stride_tricks.sliding_window_view(np.abs(blocks), (k, k), axis=(1, 2))
    return float(windows.diagonal(axis1=1, axis2=2).sum(axis=(1, 2)).max())


def _of_bands(r: Any, pattern: Pattern) -> float | None:
    """The largest sum of X_ij over a pattern; None where it may not be the first one."""
    if r.min() < 0 or not (pattern.fixed or (np.diff(r) <= 0).all()):
        return None
    total = np.zeros(r.size)
    for start in range(0, pattern.reach(r.size) * pattern.apart, pattern.apart):
        total[start:] += r[: r.size - start]
    return float(total @ total)


def _variances(arrays: Arrays, bands: int) -> Any:
    """Of sums of one rate: the file is checked to be for those."""
    r, rate = arrays["coefficients"], arrays["rates"]
    ones = (arrays[name] == 1 for name in ("query_weights", "step_weights"))
    if (rate != rate[0]).any() or not all(one.all() for one in ones):
        raise ValueError("coefficients are for running sums of one rate")
    first = np.zeros(r.size)
    first[0] = 1.0
    inverse = scipy.signal.lfilter([1.0], r[:bands], first)
    return np.cumsum(scipy.signal.lfilter([1.0], [1.0, -rate[0]], inverse) ** 2)


def _of_stream(arrays: Arrays, pattern: Pattern) -> float:
    """At least the largest sum of abs(X_ij) over a pattern."""
    w, reach = arrays["w"], pattern.reach(len(arrays["w"]))
    chain = chain_of(arrays, w.size, arrays["u"]).scaled(w)
    diagonal, pivots = chain.inverse_diagonals(arrays["poles"] ** 2)
    entries = diagonal * arrays["weights_of_poles"] / w[:, None]
    falls = (chain.inner[:-1] * chain.beside * np.sqrt(w[1:] / w[:-1]))[:, None] / pivots[:-1]
    longest = float(entries.sum(axis=1).max())
    if falls.max(initial=0.0) > 1:
        return reach**2 * longest
    with np.errstate(divide="ignore"):
        logs = np.vstack([np.zeros(falls.shape[1]), np.cumsum(np.log(falls), axis=0)])
    square = reach * longest
    for times in range(1, reach):
        far = times * pattern.apart
        products = entries[far:] * np.exp(logs[far:] - logs[:-far])
        square += 2 * (reach - times) * float(products.sum(axis=1).max())
    return square


def _lower(arrays: Arrays, pattern: Pattern, p: float) -> Any:
    """What dual weights prove: of single steps, or of classes of the first ones."""
    if "dual_w" not in arrays or "dual_steps" in arrays:
        return None
    u, w = arrays["dual_u"], arrays["dual_w"]
    if w.ndim == 1:
        return lower_bound({"w": w, **arrays}, p)
    count, members = w.shape[:2]
    if w.size > MOST_NUMBERS or members != -(-u.size // count) or u.min() < 0:
        return None
    if not pattern.allows(np.arange(count)[:, None] + count * np.arange(members)):
        raise ValueError("dual weights are for steps of which a person cannot take part in all")
    w = epochs.weights_of((w + np.swapaxes(w, 1, 2)) / 2, u.size)
    size = float(np.einsum("cii->ci", w).max(axis=1).sum())
    if np.linalg.eigvalsh(w).min() < -1e-12 * size:
        raise ValueError("dual weights are not positive semidefinite")
    proved = rounded(epochs.nuclear_norm(arrays, u, w))
    return proved / root(dual_norm(u.tolist(), p) * arb(size))
