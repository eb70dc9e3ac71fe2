"""How far apart data can be that differ in a person who takes part several times.

With X the Gram matrix of a strategy, contributions of norm at most 1 in the steps of a pattern move
the measurements by at most the root of sum over i, j in the pattern of abs(X_ij), which is attained
where X >= 0, for vectors and for numbers alike. The largest such sum over the patterns

    every b     c, c + b, ..., k steps: windows of k members in the classes c mod b,
    min-sep b   any k steps at least b apart: V below,

is the squared sensitivity. For min-sep the last steps of a pattern count exactly, and later ones at
most what a row can get, f_q(i, j) being the largest sum of q entries of row i in steps from j on
that are b apart. With one step known, in O(n^2 k), or with two, in O(n^3 k), and q to come,

    V_q(i)    = X_ii + max(0, max over j >= i + b of 2 X_ij + 2 f_{q-1}(i, j + b) + V_{q-1}(j)),
    V_q(i, j) = X_ii + 2 X_ij + max(X_jj, max over l >= j + b of
                                          2 X_il + 2 f_{q-1}(i, l + b) + V_{q-1}(j, l)),

V_0(i) = X_ii, V_0(i, j) = X_ii + 2 X_ij + X_jj. The largest one is at least the largest sum, and
the largest sum itself for two participations (three with two steps known), or where columns far
apart are orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pmldesign_solvers.operators.operator import Array

PAIRS = 4e8
"""Of n^3 k, up to which two steps are known: 1 s; 365 steps gain 1 % over one step known."""

SIGNED_ENTRIES = 2**22
"""Of a matrix times its patterns with signs, up to which all of these are tried: 0.1 s."""


def class_grams(matrix: Array, every: int) -> Array:
    """abs(X) within each class of columns that are b apart, shape (b, m, m); 0 beyond the end."""
    members = -(-matrix.shape[1] // every)
    grams = np.zeros((every, members, members))
    for gram, start in zip(grams, range(every), strict=True):
        part = matrix[:, start::every]
        gram[: part.shape[1], : part.shape[1]] = np.abs(part.T @ part)
    return grams


def meet_nowhere(matrix: Array, apart: int) -> bool:
    """Whether no row has entries other than 0 in two columns at least b apart."""
    entries = matrix != 0
    first, before_end = entries.argmax(axis=1), entries[:, ::-1].argmax(axis=1)
    reach = matrix.shape[1] - 1 - before_end - first
    return not (reach[entries.any(axis=1)] >= apart).any()


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
    sizes, reach = np.abs(gram), min(times, -(-len(gram) // apart))
    if reach > 2 and len(gram) ** 3 * reach <= PAIRS:
        return _by_pairs(sizes, reach, apart)
    n, diagonal = len(sizes), sizes.diagonal()
    value, later = diagonal, np.triu(np.ones((n, n), dtype=bool), apart)
    for gains in _gains(sizes, reach - 1, apart):
        value = diagonal + np.where(later, gains + value, 0.0).max(axis=1)
    return float(value.max())


def _by_pairs(sizes: Array, reach: int, apart: int) -> float:
    n, diagonal = len(sizes), sizes.diagonal()
    pairs = diagonal[:, None] + 2.0 * sizes
    value = pairs + diagonal
    for gains in _gains(sizes, reach - 2, apart):
        following = np.broadcast_to(diagonal, (n, n)).copy()
        for j in range(apart, n - apart):
            before, behind = slice(0, j - apart + 1), slice(j + apart, n)
            further = (gains[before, behind] + value[j, behind]).max(axis=1)
            following[before, j] = np.maximum(diagonal[j], further)
        value = pairs + following
    far = np.triu(np.ones((n, n), dtype=bool), apart)
    return float(max(np.where(far, value, 0.0).max(), diagonal.max()))


def _gains(sizes: Array, count: int, apart: int) -> Iterator[Array]:
    """2 X_ij + 2 f_{q-1}(i, j + b) for q = 1, 2, ..., shape (n, n)."""
    n = len(sizes)
    best = np.zeros((n, n + apart + 1))  # f_q(i, j), 0 beyond the last step
    for _ in range(count):
        taken = np.zeros_like(best)
        taken[:, :n] = sizes + best[:, apart : n + apart]
        yield 2.0 * taken[:, :n]
        best = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]


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


def largest_signed_sum(matrix: Array, reach: int, apart: int, fixed: bool) -> float | None:
    """Largest l1 norm of a sum of columns of a pattern with signs; None of too many patterns.

    Norms are convex, so that a further column, with the better sign, makes none shorter.
    """
    n = matrix.shape[1]
    if count_of_signed(n, reach, apart, fixed=fixed) * matrix.size > SIGNED_ENTRIES:
        return None
    longest = 0.0
    for size in range(1, reach + 1):
        first = np.arange(n) if fixed else range(n - (size - 1) * (apart - 1))
        chosen = [(c,) * size for c in first] if fixed else list(combinations(first, size))
        gaps = np.arange(size) * (apart if fixed else apart - 1)
        steps = np.array(chosen).reshape(-1, size) + gaps
        steps = steps[steps[:, -1] < n]
        signs = 1 - 2 * (np.arange(2 ** (size - 1))[:, None] >> np.arange(size) & 1)
        sums = np.einsum("rpk,sk->rps", matrix[:, steps], signs)
        longest = max(longest, float(np.abs(sums).sum(axis=0).max(initial=0.0)))
    return longest


def count_of_signed(cells: int, reach: int, apart: int, *, fixed: bool) -> int:
    """How many patterns of up to k steps there are, each with its signs but for the first."""
    sizes = range(1, reach + 1)
    places = [max(0, cells - (q - 1) * (apart if fixed else apart - 1)) for q in sizes]
    counts = places if fixed else [math.comb(n, q) for n, q in zip(places, sizes, strict=True)]
    return sum(count * 2 ** (q - 1) for count, q in zip(counts, sizes, strict=True))
