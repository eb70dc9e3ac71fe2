r"""A lower bound on gamma_(p) of a product where neighbours differ in two cells.

Pairs may weigh w_i w_j, with w the dual weights of cells, sum 1: their Laplacian is
(diag(w) - w w^T) / c, c = sum_{i<j} w_i w_j = (1 - sum_i w_i^2) / 2. With B = diag(u)^(1/2) A
diag(w)^(1/2), s = w^(1/2), a unit vector, and K = B^T B,

    gamma_(p)(A) >= nuclear_norm(B (1 - s s^T)) / c^(1/2) = trace(C^(1/2)) / c^(1/2),

C being K on the vectors orthogonal to s. With the eigenvalues k_a and eigenvectors of K, and s_a
the coordinates of s in them, det(C + t) = phi(t) det(K + t), phi(t) = sum_a s_a^2 / (k_a + t), so
that

    trace(K^(1/2)) - trace(C^(1/2)) = 1/pi int_0^inf h(t) t^(-1/2) dt,
    h(t) = sum_a s_a^2 k_a / (k_a + t)^2 / phi(t),

from x^(1/2) = 1/pi int x / (x + t) t^(-1/2) dt. In a product k_a and s_a^2 are products of those of
the factors: nothing larger than a factor is decomposed. Where nuclear_norm(B) is known, s takes
away norm(B s)_2 = norm(diag(u)^(1/2) A w)_2 of it at most.

Rounding. Eigenvalues of the factors are lowered by more than they can be off, and products of too
many different ones are cut: trace(C^(1/2)) grows with K. In log t the integrand is analytic in a
strip of half width pi, so that the trapezoidal rule of step 1/2 is off by e^(-4 pi^2) of it; what
lies beyond the ends is at most t^(1/2) 2/pi below, as h <= 1, and 2/pi t^(-1/2) sum_a s_a^2 k_a
above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.operators.norms import dual_norm
from pmldesign_solvers.operators.operator import EPS, Array, Operator

STEP = 0.5
"""Of log t in the trapezoidal rule: an error of e^(-4 pi^2) = 7e-18."""
TAIL = 1e-10
"""Of trace(K^(1/2)): what the integral may leave out at each end."""
QUADRATURE = 1e-9
"""Of trace(K^(1/2)): more than the error of the integral."""
EIGENVALUE_GRID = 1e-12
"""Eigenvalues of a factor are cut to multiples of this part of the largest one."""
POWERS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Of weights for add-remove neighbours, that are tried under replace. Chosen, not measured."""
TRIED_CELLS = 1024
"""Largest factor whose weights are raised to all of them. Chosen, not measured."""
MOST_VALUES = 2**18
"""Eigenvalues of a product that are kept apart, 2 MiB. Chosen, not measured."""
CUT = 2**-14
"""Relative width of the intervals to which more eigenvalues than that are cut: a loss of 3e-5 of
the bound at most, each time."""

Dual = tuple[Operator, Array, Array]
"""A factor of the product, weights of its queries and of its cells."""


def lower_bound(duals: Sequence[Dual], p: float) -> float:
    """Certified lower bound from dual weights of the factors.

    Args:
        duals: for every factor its workload, and weights as in `certificate.lower_bound`.
        p: in [2, inf].

    Returns:
        The bound; 0 if all weight is on one cell.
    """
    spectrum = Spectrum(np.ones(1), np.ones(1), np.ones(1))
    norm, log_single, terms = 1.0, 0.0, 0
    for operator, u, w in duals:
        shares = w / w.sum()
        spectrum = spectrum.times(_spectrum(operator, u, shares))
        log_single += math.log1p(-share_of_pairs(shares))
        norm *= dual_norm(u, p)
        terms += sum(operator.shape) + 8
    pairs = -math.expm1(log_single)
    if pairs == 0:
        return 0.0
    kept = max(0.0, spectrum.trace_without() * math.sqrt(2 / (pairs * norm)))
    return kept * (1 - (terms + len(spectrum.values)) * EPS)


def share_of_pairs(w: Array) -> float:
    """2 sum_{i<j} w_i w_j = 1 - sum_i w_i^2 for weights of sum 1, however much is on one cell."""
    largest = int(w.argmax())
    others = np.delete(w, largest)
    return float(w[largest] * others.sum() + others @ (1 - others))


def lower_of_weights(operator: Operator, value: float, u: Array, w: Array) -> float:
    """Certified lower bound under replace from dual weights for add-remove.

    Args:
        operator: A.
        value: nuclear_norm(B), rounded down.
        u: weights of the queries, of norm 1.
        w: weights of the cells, sum 1.
    """
    rounding = (sum(operator.shape) + 8) * EPS
    pairs = share_of_pairs(w)
    if pairs == 0:
        return 0.0
    taken = float(np.linalg.norm(np.sqrt(u) * operator.matvec(w))) * (1 + rounding)
    return max(0.0, (value - taken) * math.sqrt(2 / pairs) * (1 - rounding))


def best_duals(duals: Sequence[Dual], p: float) -> tuple[float, list[Dual]]:
    """The best bound from powers of the weights of cells, and the weights that give it.

    Far pairs count more under replace, and so do cells that weigh little otherwise. Factors with
    more than TRIED_CELLS cells keep the weights as they are.
    """
    tried_powers = POWERS if max(len(w) for _, _, w in duals) <= TRIED_CELLS else POWERS[:1]
    powers = [[(operator, u, w**power) for operator, u, w in duals] for power in tried_powers]
    bounds = [lower_bound(tried, p) for tried in powers]
    best = int(np.argmax(bounds))
    return bounds[best], [(operator, u, w / w.sum()) for operator, u, w in powers[best]]


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The distinct eigenvalues of K.

    Attributes:
        values: k_a, rounded down.
        counts: how many eigenvectors each has.
        squares: the sum of their s_a^2.
    """

    values: Array
    counts: Array
    squares: Array

    def times(self, other: Spectrum) -> Spectrum:
        """The eigenvalues of the Kronecker product with another such matrix."""
        product = Spectrum(
            np.multiply.outer(self.values, other.values).ravel(),
            np.multiply.outer(self.counts, other.counts).ravel(),
            np.multiply.outer(self.squares, other.squares).ravel(),
        )
        if len(product.values) <= MOST_VALUES:
            return product
        with np.errstate(divide="ignore"):
            return product.merged(np.floor(np.log(product.values) / CUT))

    def merged(self, keys: Array) -> Spectrum:
        """Eigenvalues of equal keys as one, the smallest of them."""
        distinct, place = np.unique(keys, return_inverse=True)
        values = np.full(len(distinct), np.inf)
        np.minimum.at(values, place, self.values)
        return Spectrum(
            values,
            np.asarray(np.bincount(place, weights=self.counts), dtype=np.float64),
            np.asarray(np.bincount(place, weights=self.squares), dtype=np.float64),
        )

    def trace_without(self) -> float:
        """trace(C^(1/2)), rounded down but for the last sums."""
        top = float(self.values.max())
        if top == 0:
            return 0.0
        values = self.values / top
        total = float(self.counts @ np.sqrt(values))
        mean = float(self.squares @ values)
        first = 2 * math.log(TAIL * total)
        last = 2 * math.log(max(mean / (TAIL * total), TAIL * total))
        loss = 0.0
        for t in np.exp(np.arange(first, last + STEP, STEP)).tolist():
            parts = self.squares / (values + t)
            share = float((parts * (values / (values + t))).sum()) / float(parts.sum())
            loss += STEP * math.sqrt(t) * share / math.pi
        return math.sqrt(top) * (total * (1 - 2 * TAIL - QUADRATURE) - loss)


def _spectrum(operator: Operator, u: Array, w: Array) -> Spectrum:
    root = np.sqrt(w)
    gram = root[:, None] * operator.gram(u) * root
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values - len(w) * EPS * float(np.trace(gram)), 0.0)
    spectrum = Spectrum(values, np.ones(len(w)), (vectors.T @ root) ** 2)
    return spectrum.merged(np.floor(values / (EIGENVALUE_GRID * (float(values[-1]) or 1.0))))
