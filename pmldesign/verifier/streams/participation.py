r"""The sensitivity to one person who takes part in several steps of a stream, and lower bounds.

Data of neighbours differ in the steps of a pattern, in each by a contribution of norm at most 1.
With X = R^T R the squared l2 sensitivity is at most the largest sum of abs(X_ij) over a pattern:

    k,every=b     c, c + b, ..., k steps: sums over windows of k members of each class mod b
    sampled,every=b,rate=q
                  all steps of a class; the draws count in the loss alone
    k,min-sep=b   any k steps at least b apart. With f_q(i, j) the largest sum of q entries of row i
                  of abs(X) in steps from j on that are b apart, at most max_i V_{k-1}(i),

                  V_0(i) = X_ii,
                  V_q(i) = X_ii + max(0, max_{j >= i+b} 2 X_ij + 2 f_{q-1}(i, j+b) + V_{q-1}(j)),

                  or, with two steps known, max_{i,j} V_{k-2}(i, j),
                  V_q(i, j) = X_ii + 2 X_ij + max(X_jj, max_{l >= j+b} 2 X_il + 2 f_{q-1}(i, l+b)
                                                        + V_{q-1}(j, l));
                  for a Toeplitz matrix with entries r_0 >= r_1 >= ... >= 0 the steps 0, b, 2b, ...

The l1 sensitivity is at most the largest sum of column norms over a pattern; that of a matrix with
entries of both signs is found by trying all patterns and signs while they are few.

Lower bound. Let W be the sum of F_j F_j^T, each on the steps of a pattern, o_j the largest squared
row of F_j. Rows of F_j / o_j^(1/2) are contributions of norm at most 1, so that tr X W <=
sensitivity^2 sum o_j, and the norm is at least the nuclear norm of diag(u)^(1/2) A F /
(norm(u)_q sum o)^(1/2), F F^T = W: for given patterns, or for the classes of the first k b steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.verifier.streams.drawn_steps import sampled_delta

FORM = re.compile(r"([1-9]\d{0,8}),(every|min-sep)=([1-9]\d{0,8})", re.ASCII)
SAMPLED = re.compile(r"sampled,every=([1-9]\d{0,8}),rate=(\d+(?:\.\d*)?(?:e-\d+)?)", re.ASCII)
MOST_SIGNED = 2**16
"""Patterns with signs that are tried: a second."""
UP = 1e-12
"""Relative, of rounding."""
PAIRS = 4e8
"""Of n^3 k, up to which two steps are known."""


Drawn = Callable[[float, float], float | None]
"""From an epsilon and a scale to the delta of noise."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Up to k steps, b apart; each draws a record with a probability."""

    times: int
    apart: int
    fixed: bool
    rate: float = 1.0

    @classmethod
    def of(cls, text: str) -> Pattern:
        """As files have it."""
        form, sampled = FORM.fullmatch(text), SAMPLED.fullmatch(text)
        if sampled is not None and 0 < float(sampled[2]) <= 1:
            return cls(10**9, int(sampled[1]), True, float(sampled[2]))
        if form is None:
            raise ValueError(f"{text!r} is no participation")
        return cls(int(form[1]), int(form[3]), form[2] == "every")

    def reach(self, steps: int) -> int:
        """How many of so many steps."""
        return min(self.times, -(-steps // self.apart))

    def drawn(self, bands: int, longest: float, steps: int) -> Drawn | None:
        """What draws make of noise on a lower triangular R with columns that are at most so long.

        None without draws, and if R has more bands than steps are apart: its columns then overlap.
        """
        if self.rate == 1 or bands > self.apart:
            return None

        def delta(epsilon: float, scale: float) -> float | None:
            ratio = longest / scale * (1 + UP)
            return sampled_delta(ratio, self.rate, self.reach(steps), epsilon)

        return delta

    def allows(self, patterns: Any) -> bool:
        """Whether a person may take part in all steps of each row."""
        gaps = np.diff(patterns, axis=1)
        right = gaps == self.apart if self.fixed else gaps >= self.apart
        return bool(right.all() and patterns.shape[1] <= self.times and (patterns >= 0).all())

    def sensitivity(self, R: Any, norm: str) -> float:
        """At least the largest distance of neighbours' measurements."""
        if norm == "l1":
            together = self._largest(np.diag(np.abs(R).sum(axis=0)))
            if (R >= 0).all() or self._signed_count(R.shape[1]) > MOST_SIGNED:
                return together
            return min(together, self._signed(R, np.zeros(len(R)), range(R.shape[1]), self.times))
        if not self.fixed and (entries := toeplitz(R)) is not None:
            steps = range(0, self.reach(entries.size) * self.apart, self.apart)
            return float(np.linalg.norm(R[:, steps].sum(axis=1)))
        return float(np.sqrt(self._largest(np.abs(R.T @ R))))

    def _signed_count(self, n: int) -> float:
        """At least how many patterns with signs there are."""
        if self.fixed:
            return n * 2.0 ** self.reach(n)
        return sum(
            math.comb(max(0, n - (q - 1) * (self.apart - 1)), q) * 2.0 ** (q - 1)
            for q in range(1, self.reach(n) + 1)
        )

    def _signed(self, R: Any, moved: Any, steps: range, left: int) -> float:
        """The largest l1 norm of `moved` with up to so many of the next steps, by trying all."""
        longest = float(np.abs(moved).sum())
        for step in steps if left else ():
            end = step + self.apart
            after = range(end, R.shape[1])[:1] if self.fixed else range(end, R.shape[1])
            for sign in (1, -1) if longest else (1,):
                further = self._signed(R, moved + sign * R[:, step], after, left - 1)
                longest = max(longest, further)
        return longest

    def _largest(self, sizes: Any) -> float:
        """The largest sum over a pattern, or a bound above it."""
        reach = self.reach(len(sizes))
        if self.fixed:
            return max(
                float(part[e : e + reach, e : e + reach].sum())
                for part in (
                    sizes[c :: self.apart, c :: self.apart]
                    for c in range(min(self.apart, len(sizes)))
                )
                for e in range(max(1, len(part) - reach + 1))
            )
        if reach > 2 and len(sizes) ** 3 * reach <= PAIRS:
            return self._two_known(sizes, reach)
        n, value = len(sizes), sizes.diagonal()
        later = np.triu(np.ones((n, n), dtype=bool), self.apart)
        for q in range(1, reach):
            gains = np.where(later, 2 * sizes + 2 * self._rest(sizes, q - 1) + value, 0.0)
            value = sizes.diagonal() + gains.max(axis=1)
        return float(value.max())

    def _two_known(self, sizes: Any, reach: int) -> float:
        n, b, diagonal = len(sizes), self.apart, sizes.diagonal()
        pairs = diagonal[:, None] + 2 * sizes
        value = pairs + diagonal
        for q in range(1, reach - 1):
            gains, best = 2 * sizes + 2 * self._rest(sizes, q - 1), np.tile(diagonal, (n, 1))
            for j in range(b, n - b):
                further = gains[: j - b + 1, j + b :] + value[j, j + b :]
                best[: j - b + 1, j] = np.maximum(diagonal[j], further.max(axis=1))
            value = pairs + best
        far = value[np.triu(np.ones((n, n), dtype=bool), b)]
        return float(max(far.max(initial=0.0), diagonal.max()))

    def _rest(self, sizes: Any, count: int) -> Any:
        """f_q(i, j + b) for all i and j."""
        n = len(sizes)
        best = np.zeros((n, n + self.apart))
        for _ in range(count):
            taken = np.zeros_like(best)
            taken[:, :n] = sizes + best[:, self.apart :]
            best = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
        return best[:, self.apart :]


def toeplitz(R: Any) -> Any:
    """The entries r_0 >= r_1 >= ... >= 0 of a lower triangular Toeplitz matrix, or None."""
    entries = R[:, 0]
    n = len(entries)
    if R.shape != (n, n) or not (np.diff(entries) <= 0).all() or entries[-1] < 0:
        return None
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    return entries if np.array_equal(R, np.where(lags >= 0, entries[lags], 0.0)) else None


def dual_factor(blocks: Any, patterns: Any, steps: int) -> tuple[Any, float]:
    """F with F F^T the sum of blocks on the steps of their patterns, and a bound on its weight.

    Rows of F within a pattern are contributions: tr X F F^T is at most the squared sensitivity
    times the sum over the patterns of the largest squared row, which is returned.
    """
    width, total = blocks.shape[1], 0.0
    F = np.zeros((steps, len(blocks) * width))
    for j, (block, members) in enumerate(zip(blocks, patterns, strict=True)):
        values, vectors = np.linalg.eigh(block)
        part = (vectors * np.sqrt(np.maximum(values, 0.0)))[members < steps]
        total += float((part**2).sum(axis=1).max(initial=0.0)) * (1 + width * 2.0**-50)
        F[members[members < steps], j * width : (j + 1) * width] = part
    return F, total * (1 + len(blocks) * 2.0**-50)
