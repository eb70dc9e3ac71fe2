r"""Lower bounds on gamma_(p) of a union of products, without a matrix of all cells.

The workload is a union of parts A_s = A_s1 x ... x A_sk. Every bound is the value of a feasible
dual point, f(u, w) = nuclear_norm(diag(u)^(1/2) A diag(w)^(1/2)), or follows from several.

One free attribute. Let w = w_i x 1/N', constant along the other attributes (N' cells), and u
likewise. If on every other attribute j the Gram matrices A_sj^T A_sj, s = 1 ... S, commute, they
have common eigenvectors with eigenvalues lambda_sj, and A^T diag(u) A splits into blocks of the
size of attribute i, one for each combination b of eigenvectors of the others:

    K_b = sum_s c_sb A_si^T diag(u_s) A_si,    c_sb = prod_{j != i} lambda_sj(b_j),
    f(u, w) = sum_b tr (W^(1/2) K_b W^(1/2))^(1/2) / N'^(1/2).

The best u, w of this form are found by the fixed point of `scaling_problem`, and equal blocks are
taken once. Where they do not commute, parts are left out, which lowers the norm.

Parts. Since gamma_(p)(A_s) is the product of its factors' norms, and the rows of the parts add up,
gamma_(p)(A) >= (sum_s gamma_(p)(A_s)^p)^(1/p), the largest one at p = inf.

Rounding. Lambda_sj are lowered by what V^T A_sj^T A_sj V, V the computed eigenvectors, is off a
diagonal matrix, and c_sb is cut to GRID, which both lower f: tr M^(1/2) grows with M.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers import mode_products
from pmldesign_solvers.certificate import EPS, dual_exponent, dual_norm, power_mean
from pmldesign_solvers.operators import Array, Operator
from pmldesign_solvers.product_basis import Parts

GRID = 1e-12
"""Coefficients of blocks are cut to this part of the largest one."""
COMMUTE = 1e-9
"""Gram matrices commute if common eigenvectors leave less than this of them off the diagonal."""
BLOCK_COST = 2**33
"""Largest sum of the cubes of the sizes of the blocks."""


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """Weights on the free attribute; both bounds on the best f of this form.

    Attributes:
        u, w: normalised; shapes (all queries on the attribute,) and (n_i,).
        lower: f(u, w), up to rounding.
        upper: no weights of this form have more.
        next_u, next_w: the next weights, not normalised.
    """

    u: Array
    w: Array
    lower: float
    upper: float
    next_u: Array
    next_w: Array


class BlockProblem:
    """The dual weights of one attribute, those of the others being constant.

    Args:
        parts: all parts of the union.
        kept: the numbers of those that count.
        index: of the free attribute.
        coefficients: c_sb, shape (kept parts, blocks).
        counts: shape (blocks,), how often each block occurs.
        p: in [2, inf].
    """

    def __init__(
        self,
        parts: Parts,
        kept: Sequence[int],
        index: int,
        coefficients: Array,
        counts: Array,
        p: float,
    ) -> None:
        self.p = p
        self._parts, self._kept, self._index = parts, kept, index
        self._free = [parts[s][index] for s in kept]
        self._coefficients, self._counts = coefficients, counts
        self._cells = [factor.shape[1] for factor in parts[0]]
        self._spread = math.prod(map(float, self._cells)) / self._cells[index]
        rows = [factor.shape[0] for factor in self._free]
        queries = [math.prod(float(factor.shape[0]) for factor in parts[s]) for s in kept]
        self._stops = np.cumsum(rows)[:-1]
        self._copies = np.repeat(np.array(queries) / rows, rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of weights u and w."""
        return len(self._copies), self._free[0].shape[1]

    def normalise(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Scaled to norm 1 over all queries and to sum(w) = 1."""
        return np.asarray(u / dual_norm(u, self.p, self._copies)), np.asarray(w / w.sum())

    def evaluate(self, u: Array, w: Array) -> BlockPoint:
        """Both bounds and the next weights at normalised weights."""
        n = len(w)
        root = np.sqrt(w / self._spread)
        total, diagonal = 0.0, np.zeros(n)
        inverses = [np.zeros((n, n)) for _ in self._free]
        for block, count, gram in self._blocks(u, root):
            values, vectors = np.linalg.eigh(gram)
            kept = values > n * EPS * max(values[-1], 0.0)
            roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
            total += count * float(roots.sum())
            diagonal += count * (vectors**2 @ roots)
            half = root[:, None] * vectors / np.sqrt(roots)
            inverse = count * (half @ half.T)
            for own, coefficient in zip(inverses, self._coefficients[:, block], strict=True):
                own += coefficient * inverse
        variances = (
            np.concatenate(
                [
                    factor.row_quadratic(own)
                    for factor, own in zip(self._free, inverses, strict=True)
                ]
            )
            / self._copies
        )
        spread = power_mean(variances, self.p / 2, self._copies)
        upper = math.sqrt(spread * float((diagonal / w).max()))
        next_u = (u * variances / total) ** dual_exponent(self.p)
        return BlockPoint(u, w, total, upper, next_u, diagonal / total)

    def lower_bound(self, u: Array, w: Array) -> float:
        """f(u, w), rounded down."""
        n = len(w)
        total = 0.0
        for _, count, gram in self._blocks(u, np.sqrt(w / self._spread)):
            values = np.linalg.eigvalsh(gram) - n * EPS * float(np.trace(gram))
            total += count * float(np.sqrt(np.maximum(values, 0.0)).sum())
        return total * (1 - (sum(self.shape) + len(self._counts)) * EPS)

    def expand(self, u: Array, w: Array) -> tuple[Array, Array]:
        """The weights of all queries and all cells."""
        own = dict(zip(self._kept, np.split(u, self._stops), strict=True))
        queries = []
        for s, part in enumerate(self._parts):
            rows = [np.ones(factor.shape[0]) for factor in part]
            rows[self._index] = own.get(s, np.zeros_like(rows[self._index]))
            queries.append(mode_products.outer(rows))
        cells = [np.full(n, 1 / n) for n in self._cells]
        cells[self._index] = w
        return np.concatenate(queries), mode_products.outer(cells)

    def _blocks(self, u: Array, root: Array) -> Iterator[tuple[int, float, Array]]:
        """Every block: its number, how often it occurs, and W^(1/2) K_b W^(1/2)."""
        grams = [
            root[:, None] * factor.gram(own) * root
            for factor, own in zip(self._free, np.split(u, self._stops), strict=True)
        ]
        for block, count in enumerate(self._counts):
            yield block, float(count), np.tensordot(self._coefficients[:, block], grams, axes=1)


def free_attribute(parts: Parts, order: Iterable[int], index: int, p: float) -> BlockProblem | None:
    """The problem with this attribute free, for as many of the parts as commute elsewhere.

    Args:
        parts: of the union.
        order: their numbers in the order of preference; the first one is always kept.
        index: of the free attribute.
        p: in [2, inf].

    Returns:
        None where the blocks are too many to be decomposed.
    """
    others = [j for j in range(len(parts[0])) if j != index]
    kept: list[int] = []
    found: Sequence[Array] = []
    for s in map(int, order):
        values = [_common_eigenvalues([parts[k][j] for k in [*kept, s]]) for j in others]
        commuting = [one for one in values if one is not None]
        if len(commuting) == len(others):
            kept, found = [*kept, s], commuting
    coefficients, counts = np.ones((len(kept), 1)), np.ones(1)
    for own in found:
        product = (coefficients[:, :, None] * own[:, None, :]).reshape(len(kept), -1)
        coefficients, counts = _distinct(product, np.repeat(counts, own.shape[1]))
        if len(counts) * float(parts[0][index].shape[1]) ** 3 > BLOCK_COST:
            return None
    return BlockProblem(parts, kept, index, coefficients, counts, p)


def _distinct(coefficients: Array, counts: Array) -> tuple[Array, Array]:
    """The columns cut to GRID, each once, and how often it occurs; zero columns are left out."""
    scale = GRID * coefficients.max(axis=1, keepdims=True)
    columns, where = np.unique(np.floor(coefficients / scale), axis=1, return_inverse=True)
    total = np.bincount(where.ravel(), weights=counts)
    seen = columns.any(axis=0)
    cut: Array = columns[:, seen] * scale * (1 - 4 * EPS)
    return cut, np.asarray(total[seen], dtype=np.float64)


def _common_eigenvalues(factors: Sequence[Operator]) -> Array | None:
    """Eigenvalues of the Gram matrices in common eigenvectors, rounded down, shape (S, n)."""
    grams = [factor.gram(np.ones(factor.shape[0])) for factor in factors]
    norms = [float(np.linalg.norm(gram)) for gram in grams]
    mixed = sum(
        gram / norm * math.sqrt(2 + number)
        for number, (gram, norm) in enumerate(zip(grams, norms, strict=True))
    )
    vectors = np.linalg.eigh(mixed)[1]
    values = np.empty((len(grams), len(vectors)))
    for own, gram, norm in zip(values, grams, norms, strict=True):
        turned = vectors.T @ gram @ vectors
        diagonal = turned.diagonal().copy()
        np.fill_diagonal(turned, 0.0)
        off = float(np.linalg.norm(turned))
        if off > COMMUTE * norm:
            return None
        own[:] = np.maximum(diagonal - off - len(vectors) * EPS * norm, 0.0)
    return values
