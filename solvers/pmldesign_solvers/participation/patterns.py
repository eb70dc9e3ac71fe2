"""How far apart data can be that differ in a person who takes part several times.

With X the Gram matrix of a strategy, contributions of norm at most 1 in the steps of a pattern move
the measurements by at most the root of sum over i, j in the pattern of abs(X_ij), which is attained
where X >= 0, and for vectors or numbers alike. The largest such sum over the patterns

    every b     c, c + b, ..., k steps: windows of k members in the classes c mod b,
    min-sep b   any k steps at least b apart: V_0 below,

is the squared sensitivity. For min-sep neighbours in a pattern count exactly, and later ones at
most what row i can get, f_q(i, j) being the largest sum of q entries of row i in steps from j on
that are b apart:

    V_q(i) = X_ii + max(0, max over j >= i + b of 2 X_ij + 2 f_{q-1}(i, j + b) + V_{q-1}(j)),

V_0(i) = X_ii, q more steps after i. So V_{k-1} is at least the largest sum, and the largest sum
itself where no more than neighbours overlap.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array

BY_CLASS = 32
"""Members of a class up to which the products of its columns are cheaper than the whole of X."""


def class_grams(matrix: Array, every: int) -> Array:
    """abs(X) within each class of columns that are b apart, shape (b, m, m); 0 beyond the end."""
    rows, n = matrix.shape
    members = -(-n // every)
    if members > BY_CLASS:
        full = np.abs(matrix.T @ matrix)
        grams = np.zeros((every, members, members))
        for c in range(every):
            part = full[c::every, c::every]
            grams[c, : len(part), : len(part)] = part
        return grams
    padded = np.zeros((rows, members * every))
    padded[:, :n] = matrix
    parts = padded.reshape(rows, members, every)
    grams = np.empty((every, members, members))
    for e in range(members):
        products = np.einsum("rb,rfb->bf", parts[:, e], parts[:, e:])
        grams[:, e, e:] = grams[:, e:, e] = np.abs(products)
    return grams


def largest_window(grams: Array, times: int) -> float:
    """Largest sum over k members of a class that follow each other, for grams of (b, m, m)."""
    members = grams.shape[1]
    width = min(times, members)
    return max(
        float(grams[:, e : e + width, e : e + width].sum(axis=(1, 2)).max())
        for e in range(members - width + 1)
    )


def largest_pattern(gram: Array, times: int, apart: int) -> float:
    """At least the largest sum of abs(X) over patterns of k steps at least b apart."""
    n = len(gram)
    sizes = np.abs(gram)
    diagonal = sizes.diagonal().copy()
    value = diagonal.copy()
    later = np.triu(np.ones((n, n), dtype=bool), apart)
    best = np.zeros((n, n + apart + 1))  # f_q(i, j), 0 beyond the last step
    for _ in range(min(times, -(-n // apart)) - 1):
        gains = 2.0 * sizes + 2.0 * best[:, apart : n + apart] + value
        value = diagonal + np.where(later, gains, 0.0).max(axis=1)
        taken = np.zeros_like(best)
        taken[:, :n] = sizes + best[:, apart : n + apart]
        best = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
    return float(value.max())


def largest_sum(values: Array, times: int, apart: int, *, fixed: bool) -> float:
    """Largest sum of values >= 0, shape (n,), over the patterns."""
    n = values.size
    reach = min(times, -(-n // apart))
    if fixed:
        padded = np.zeros(n + reach * apart)
        padded[:n] = values
        return float(np.sum([padded[e * apart :][:n] for e in range(reach)], axis=0).max())
    best = np.zeros(n + apart)
    for _ in range(reach):
        taken = np.zeros_like(best)
        taken[:n] = values + best[apart : n + apart]
        best = np.maximum.accumulate(taken[::-1])[::-1]
    return float(best[0])
