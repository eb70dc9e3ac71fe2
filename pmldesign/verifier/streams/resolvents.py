r"""Running sums and all intervals by chains: measurements of streams, and their nuclear norms.

The inverse of A^T U A is N = B B^T with B lower bidiagonal, a_i > 0 on the diagonal and -b_i below:

    running sums q_t (h_t x_t + rate_t (...)):  a_t = 1/(h_t q_t u_t^(1/2)),
                                                b_t = rate_t/(h_{t+1} q_t u_t^(1/2))
    all intervals of n cells:                   a_i^2 = (i + 2)/((i + 1)(n + 1)),  i from 0
                                                b_i^2 = (i + 1)/((i + 2)(n + 1))

With W in it (B divided by w^(1/2)) the pivots of B B^T + z from both ends need sums of positive
numbers alone, and so do the entries of the inverse:

    s_0 = z,                d_i = a_i^2 + s_i,         s_{i+1} = z + b_i^2 s_i / d_i
    t_{n-1} = z + a^2_{n-1},                           t_i = z + a_i^2 t_{i+1} / (b_i^2 + t_{i+1})
    inverse_jj = 1 / (t_j + b_{j-1}^2 s_{j-1} / d_{j-1})
    inverse_ij = inverse_jj prod_{i <= m < j} a_m b_m / d_m

As the determinant is the product of the d_i, the trace of the inverse is the sum of s'_i / d_i with
derivatives s'_0 = 1, s'_{i+1} = 1 + a_i^2 b_i^2 s'_i / d_i^2.

For nuclear norms x^(-1/2) = (2/pi) integral of e^y/(x + e^(2y)) dy is a sum of resolvents over
steps of STEP, which is off by at most 4.01 e^(-pi^2/STEP) of it; the tails are positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from pmldesign.verifier.report import Arrays

STEP = 0.3
"""An error of 2.1e-14."""
ABOVE, BELOW = 26.0, 51.0
"""From the logarithm of the largest singular value on: values down to e^-25 of it count fully."""
FAINTEST = 1e-30
"""Weights of 0 count as this part of the largest."""


@dataclass(frozen=True, slots=True)
class ReadChain:
    """B.

    Attributes:
        inner: a, shape (n,).
        beside: b, off the diagonal, shape (n - 1,).
    """

    inner: Any
    beside: Any

    def scaled(self, w: Any) -> ReadChain:
        """W^(-1/2) B."""
        roots = np.sqrt(w)
        return ReadChain(self.inner / roots, self.beside / roots[1:])

    def inverse_diagonals(self, shifts: Any) -> tuple[Any, Any]:
        """The diagonals of (B B^T + z)^-1 for shifts z, and the pivots d, shape (n, K) each."""
        a, b, z = self.inner**2, self.beside**2, np.asarray(shifts, dtype=np.float64)
        pivots, diagonal = np.empty((a.size, z.size)), np.empty((a.size, z.size))
        before = np.zeros(z.size)  # b^2 s/d of the step before
        for i in range(a.size):
            pivots[i] = a[i] + z + before
            diagonal[i] = before
            if i + 1 < a.size:
                before = b[i] * ((z + before) / pivots[i])
        after = z + a[-1]
        diagonal[-1] += after
        for i in range(a.size - 2, -1, -1):
            after = z + a[i] * (after / (b[i] + after))
            diagonal[i] += after
        return 1 / diagonal, pivots

    def traces(self, shifts: Any) -> Any:
        """The traces of (B B^T + z)^-1 for shifts z, shape (K,)."""
        z = np.asarray(shifts, dtype=np.float64)
        s, slope, value = z, np.ones(z.size), np.zeros(z.size)
        squares = zip((self.inner**2).tolist(), [*(self.beside**2).tolist(), 0.0], strict=True)
        for a, b in squares:
            pivot = a + s
            share = slope / pivot
            value += share
            ahead = b / pivot
            s = z + ahead * s
            slope = 1 + a * ahead * share
        return value

    def nuclear_norm(self) -> float:
        """At most the trace of (B B^T)^(-1/2)."""
        widest = math.log(float(self.inner.max()) + float(self.beside.max(initial=0.0)))
        y = np.arange(widest - BELOW, widest + ABOVE, STEP)
        value = float(self.traces(np.exp(2 * y)) @ np.exp(y)) * STEP * 2 / math.pi
        return value / (1 + 4.01 * math.exp(-(math.pi**2) / STEP))


def chain_of(arrays: Arrays, n: int, u: Any) -> ReadChain:
    """B of the sums that a file is for, with weights u of the queries."""
    if "rates" not in arrays:
        i = np.arange(float(n))
        inner = np.sqrt((i + 2) / ((i + 1) * (n + 1)))
        return ReadChain(inner, np.sqrt((i[:-1] + 1) / ((i[:-1] + 2) * (n + 1))))
    q, h = (np.broadcast_to(arrays[name], n) for name in ("query_weights", "step_weights"))
    rows = 1 / (q * np.sqrt(np.broadcast_to(u, n)))
    return ReadChain(rows / h, np.broadcast_to(arrays["rates"], n - 1) * rows[:-1] / h[1:])


def variance_chain(arrays: Arrays, n: int) -> ReadChain:
    """B of U^(-1/2) A^-T W^-1 A^-1 U^(-1/2) for running sums, in the opposite order."""
    q, h, u = (np.broadcast_to(arrays[name], n) for name in ("query_weights", "step_weights", "u"))
    rows, columns = 1 / (q * np.sqrt(u)), 1 / (h * np.sqrt(arrays["w"]))
    beside = np.broadcast_to(arrays["rates"], n - 1) * rows[:-1] * columns[1:]
    return ReadChain((rows * columns)[::-1], beside[::-1])


def nuclear_norm(arrays: Arrays, u: Any, w: Any) -> float:
    """At most the nuclear norm of diag(u)^(1/2) A diag(w)^(1/2); u = 1 for all intervals.

    Raises:
        ValueError: u is not one weight for each query.
    """
    if u.shape != w.shape or ("rates" not in arrays and (u != 1).any()):
        raise ValueError("dual weights are not those of the queries")
    u, w = (np.maximum(values, FAINTEST * values.max()) for values in (u, w))
    return chain_of(arrays, w.size, u).scaled(w).nuclear_norm()


def gram_of_stream(arrays: Arrays) -> Any:
    """X = sum_k c_k (N + s_k^2 W)^-1, shape (n, n)."""
    w = arrays["w"]
    chain = chain_of(arrays, w.size, arrays.get("u", 1.0)).scaled(w)
    diagonal, pivots = chain.inverse_diagonals(arrays["poles"] ** 2)
    ratios = (chain.inner[:-1] * chain.beside)[:, None] / pivots[:-1]
    gram = np.zeros((w.size, w.size))
    for k, weight in enumerate(arrays["weights_of_poles"].tolist()):
        products = np.ones(w.size)  # from each step before j to j
        for j in range(w.size):
            if j:
                products[:j] *= ratios[j - 1, k]
            gram[: j + 1, j] += weight * diagonal[j, k] * products[: j + 1]
    roots = np.sqrt(w)
    return (gram + np.triu(gram, 1).T) / roots / roots[:, None]


def gram_of_epochs(arrays: Arrays) -> Any:
    """The same, W of blocks over the classes of steps that are b apart."""
    n, _, apart = arrays["epochs"].tolist()
    chain = chain_of(arrays, n, 1.0)
    B = scipy.sparse.diags_array([chain.inner, -chain.beside], offsets=[0, -1])
    N, weights = (B @ B.T).toarray(), arrays["epoch_weights"]
    W, gram = np.zeros((n, n)), np.zeros((n, n))
    for c in range(apart):
        steps = np.arange(c, n, apart)
        W[np.ix_(steps, steps)] = weights[c, : steps.size, : steps.size]
    for pole, weight in zip(arrays["poles"], arrays["weights_of_poles"], strict=True):
        gram += weight * np.linalg.inv(N + pole**2 * W)
    return (gram + gram.T) / 2
