"""How far apart data can be that differ in a person who takes part several times.

With X the Gram matrix of a strategy, contributions of norm at most 1 in the steps of a pattern move
the measurements by at most the root of sum over i, j in the pattern of abs(X_ij), which is attained
where X >= 0, for vectors and for numbers alike. The largest such sum over the patterns

    every b     c, c + b, ..., k steps: windows of k members in the classes c mod b,
    min-sep b   any k steps at least b apart: V below,

is the squared sensitivity. For min-sep the last steps of a pattern count exactly, and later ones at
most by a bound of the row, f_q(i, j) being the largest sum of q entries of row i in steps from j on
that are b apart. With one step known, in O(n^2 k), or with two, in O(n^3 k), and q to come,

    V_q(i)    = X_ii + max(0, max over j >= i + b of 2 X_ij + 2 f_{q-1}(i, j + b) + V_{q-1}(j)),
    V_q(i, j) = X_ii + 2 X_ij + max(X_jj, max over l >= j + b of
                                          2 X_il + 2 f_{q-1}(i, l + b) + V_{q-1}(j, l)),

V_0(i) = X_ii, V_0(i, j) = X_ii + 2 X_ij + X_jj. The largest one is at least the largest sum, and
the largest sum itself for two participations (three with two steps known), or where columns far
apart are orthogonal.

*Lower bounds* (p = 2). For patterns pi_1, pi_2, ... of k steps, weights p_j >= 0 of sum 1 and
matrices Y_j, positive semidefinite with ones on the diagonal (Gram matrices of unit vectors), let W
be the sum of p_j Y_j, each on the steps of its pattern. A strategy of sensitivity 1 has <X, Y_j> <=
1 on pi_j, X = C^T C: the squared distance of data whose contributions are these vectors. So tr X W
<= 1, and

    f(W) = tr (A W A^T)^(1/2) <= (tr A X^-1 A^T tr X W)^(1/2) <= norm        (Cauchy and Schwarz),

for any patterns. f is concave, of gradient X / 2, X = A^T (A W A^T)^(-1/2) A. With p
the softmax of free numbers and Y_j = L_j L_j^T, rows of L_j of norm 1, -log f is descended
(L-BFGS). At the maximum over all patterns X is the best strategy; elsewhere it is one that may do.

*Patterns.* The steps are z_e + e b with z_0 <= z_1 <= ..., those beyond the last step left out. All
with equal z, so that steps are exactly b apart; for min-sep others too, where z rises by random
parts of a stretch of random size: those that count are neither all equal nor all over the place.
1900 of them are within 1.2% of all patterns (365 steps, 4 times 7 apart).

*Rounding.* S = A W A^T is off by at most ROUNDING n eps |A| |W| |A|^T in norm, so are its
eigenvalues, which are lowered by so much before their roots are taken; p and Y are sums of at most
N and k terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pmldesign_solvers.operators.lbfgs import descend
from pmldesign_solvers.operators.operator import EPS, Array, Indices
from pmldesign_solvers.streams.chain import RunningSums

PAIRS = 4e8
"""Of n^3 k, up to which two steps are known: 1 s; 365 steps gain 1% over one step known."""

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
    """How many patterns of up to k steps there are, each with its signs except the first."""
    sizes = range(1, reach + 1)
    places = [max(0, cells - (q - 1) * (apart if fixed else apart - 1)) for q in sizes]
    counts = places if fixed else [math.comb(n, q) for n, q in zip(places, sizes, strict=True)]
    return sum(count * 2 ** (q - 1) for count, q in zip(counts, sizes, strict=True))


EQUAL, RANDOM = 400, 1500
"""Patterns of either kind; 500 random ones lose 2e-3 for 256 steps, 4 times 64 apart."""
CLOSE, MEMORY = 1e-12, 20
"""Of the descent: least relative decrease of a step, and steps that it learns from."""
CORRELATION = 0.6
"""Of a person's contributions from one step to the next at the start."""
LEAST_EIGENVALUE = 1e-14
"""Eigenvalues are at least this part of the largest one in the gradient."""
EIGENVALUE_UNITS = 16
"""Units of the machine precision, times the size, behind every eigenvalue."""
LARGEST_LOGARITHM = 700.0
"""Largest logarithm of the unused entries above the diagonal of A."""


@dataclass(frozen=True, slots=True, eq=False)
class PatternBound:
    """A lower bound, and the strategy that goes with it.

    Attributes:
        lower: f(W), rounded downwards.
        steps: of the patterns, shape (N, k); those from n on do not exist.
        blocks: p_j Y_j, shape (N, k, k).
        gram: X, shape (n, n).
    """

    lower: float
    steps: Indices
    blocks: Array
    gram: Array


def patterns(cells: int, times: int, apart: int, *, fixed: bool) -> Indices:
    """Some patterns of k steps, shape (N, k); those from n = cells on do not exist."""
    last = max(cells - (times - 1) * apart, min(apart, cells)) - 1
    equal = np.arange(last + 1)
    if not fixed:
        equal = np.unique(np.linspace(0, last, min(EQUAL, last + 1)).round())
    places = np.tile(equal[:, None], (1, times))
    if not fixed:
        random = np.random.default_rng(0)
        sizes = (last + 1.0) ** random.uniform(0, 1, size=(RANDOM, 1))
        rising = np.sort(random.uniform(0, 1, size=(RANDOM, times)), axis=1) * sizes
        middles = random.integers(0, last + 1, size=(RANDOM, 1))
        rising += middles - rising.mean(axis=1, keepdims=True)
        places = np.concatenate([places, np.clip(rising.round(), 0, last)])
    return np.asarray(np.unique(places.astype(np.int64), axis=0) + apart * np.arange(times))


def solve(
    sums: RunningSums, steps: Indices, limit: int, callback: Callable[[float], bool]
) -> PatternBound:
    """The best bound that a descent finds for some patterns.

    Args:
        sums: the running sums.
        steps: of the patterns, shape (N, k); those from n on do not exist.
        limit: steps of the descent, at most.
        callback: called with the best bound after every evaluation; True ends the descent.
    """
    dual = _Dual(sums, steps)
    times = steps.shape[1]
    places = np.arange(times)
    start = np.linalg.cholesky(CORRELATION ** np.abs(np.subtract.outer(places, places)))
    x = np.concatenate([np.zeros(len(steps)), np.tile(start[dual.lower], len(steps))])

    found = descend(
        dual.loss,
        x,
        report=lambda value: callback(float(np.exp(-value))),
        maxiter=limit,
        maxcor=MEMORY,
        ftol=CLOSE,
        gtol=0.0,
    )
    return dual.bound(found.unless_interrupted())


class _Dual:
    """F and its slopes for the logarithms of p and the lower triangles of L."""

    def __init__(self, sums: RunningSums, steps: Indices) -> None:
        decayed = np.subtract.outer(sums.log_decays, sums.log_decays)
        decayed = np.exp(np.minimum(decayed, LARGEST_LOGARITHM))
        roots = np.sqrt(sums.query_squares)[:, None], np.sqrt(sums.step_squares)
        size = max(sums.cells, int(steps.max()) + 1)
        self.sums_matrix = np.zeros((sums.cells, size))  # no answer has a step that does not exist
        self.sums_matrix[:, : sums.cells] = np.tril(roots[0] * decayed * roots[1])
        self.steps, self.size = steps, size
        self.lower = np.tril_indices(steps.shape[1])
        self.rows, self.columns = steps[:, :, None], steps[:, None, :]
        self.places = (self.rows * size + self.columns).ravel()

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """P, the rows of L of norm 1, and their norms before, shapes (N,), (N, k, k), (N, k)."""
        count, times = self.steps.shape
        shares = np.exp(x[:count] - x[:count].max())
        roots = np.zeros((count, times, times))
        roots[:, *self.lower] = x[count:].reshape(count, -1)
        norms = np.linalg.norm(roots, axis=2)
        return shares / shares.sum(), roots / norms[:, :, None], norms

    def weights(self, blocks: Array) -> Array:
        """W of p_j Y_j."""
        total = np.bincount(self.places, weights=blocks.ravel(), minlength=self.size**2)
        return np.asarray(total, dtype=np.float64).reshape(self.size, self.size)

    def spectrum(self, weights: Array) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of A W A^T."""
        image = self.sums_matrix @ weights @ self.sums_matrix.T
        values, vectors = np.linalg.eigh(0.5 * (image + image.T))
        return values, vectors

    def gram(self, values: Array, vectors: Array) -> Array:
        """X."""
        raised = np.maximum(values, LEAST_EIGENVALUE * values[-1])
        half = self.sums_matrix.T @ (vectors / raised**0.25)
        return np.asarray(half @ half.T)

    def loss(self, x: Array) -> tuple[float, Array]:
        """-log f and its slopes."""
        shares, roots, norms = self.parts(x)
        values, vectors = self.spectrum(self.weights(_blocks(shares, roots)))
        value = float(np.sqrt(np.maximum(values, LEAST_EIGENVALUE * values[-1])).sum())
        slopes = 0.5 * self.gram(values, vectors)[self.rows, self.columns] / value
        images = slopes @ roots
        by_shares = (images * roots).sum(axis=(1, 2))
        by_shares = shares * (by_shares - shares @ by_shares)
        by_roots = 2.0 * shares[:, None, None] * images
        by_roots -= (by_roots * roots).sum(axis=2, keepdims=True) * roots
        by_roots /= norms[:, :, None]
        return -np.log(value), -np.concatenate([by_shares, by_roots[:, *self.lower].ravel()])

    def bound(self, x: Array) -> PatternBound:
        """What is proved at a point."""
        shares, roots, _ = self.parts(x)
        blocks = _blocks(shares, roots)
        weights = self.weights(blocks)
        values, vectors = self.spectrum(weights)
        size = self.sums_matrix @ np.abs(weights) @ self.sums_matrix.T
        slack = EIGENVALUE_UNITS * self.size * EPS * float(np.linalg.norm(size))
        total = float(np.sqrt(np.maximum(values - slack, 0.0)).sum())
        lower = total * (1.0 - 4 * (sum(self.steps.shape) + self.size) * EPS)
        n = len(self.sums_matrix)
        return PatternBound(lower, self.steps, blocks, self.gram(values, vectors)[:n, :n])


def _blocks(shares: Array, roots: Array) -> Array:
    """p_j Y_j."""
    return np.asarray(shares[:, None, None] * (roots @ np.swapaxes(roots, 1, 2)))
