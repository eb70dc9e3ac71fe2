r"""Distances of columns, also of very many, and bounds by weights of cells given a public total.

Of so many columns that a matrix of all distances is too large the largest one is found block by
block, from inner products about the first column: these are off by at most (4 r + 24) 2^-53 of the
square of twice the largest distance. Of more it is bounded, through a centre c and, of columns
without a negative entry, by their lengths:

    norm(x_i - x_j) <= norm(x_i - c) + norm(x_j - c);    norm(x_i - x_j)_k^k <= the sum of the k-th
                                                         powers of both, k = 1 or 2.

Weights w of cells with the sum W weigh pairs by w_i w_j / W, in all (W^2 - sum w_i^2) / (2 W). The
norm is at least the nuclear norm of M over the root of that and of norm(u),

    M = diag(u)^(1/2) (A - A w 1^T / W) diag(w)^(1/2),

which the polar factor of M bounds from below, or of many queries norm(M)_F^3 / norm(M M^T)_F.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier import rounding
from pmldesign.verifier.balls import dual_norm, largest, root, total
from pmldesign.verifier.distributions import Rows, rows_of
from pmldesign.verifier.forms.form import MOST_CELLS
from pmldesign.verifier.forms.structured import NORMS, RowsOf, profile
from pmldesign.verifier.report import Header

SAME = 1e-9
"""Columns closer than this part of the largest distance count as equal in double precision."""
BLOCK = 2**22
"""Distances that are held at once."""
COMPARED = {"l1": 2**31, "l2": 2**35}
"""Largest r n^2 for comparing all pairs of n columns of r entries, which takes about 7 s."""
DECOMPOSED = 512
"""Queries up to which M is decomposed."""
NEAR = 1e-10
"""By how much a claim may be below a bound on distances, relatively, and count as that bound."""


class Distances:
    """Distances of the columns of R, each kind computed when it is first asked for."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self._kept: dict[str, list[list[Any]]] = {}
        self._largest: dict[str, Any] = {}

    def all(self, norm: str) -> list[list[Any]]:
        """The distances of all pairs; of very many cells those of different columns."""
        if norm not in self._kept:
            arithmetic, R = self.strategy.arithmetic, self._columns[0]
            if norm == "l1":
                self._kept[norm] = arithmetic.absolute_distances(R)
            else:
                squared = arithmetic.distance_squares(R)
                self._kept[norm] = [[root(value) for value in row] for row in squared]
            if arithmetic is rounding:
                self._kept[norm] = _without_rounding(self._kept[norm])
        return self._kept[norm]

    def known(self) -> dict[str, RowsOf]:
        """How far columns are apart, for guarantees about the cells."""
        pml = self.strategy.header.get("guarantee_numbers", {}).get("kind") == "pml"
        if self.strategy.many and not pml:
            return {}
        if self._columns[0].shape[1] <= MOST_CELLS or not self.strategy.many:
            return {norm: partial(self.rows, norm) for norm in ("l1", "l2")}
        norm = NORMS[self.strategy.header["noise"]]
        far = self.sensitivity(norm)
        return {} if far is None else {norm: profile([far], [self.strategy.R.shape[1] - 1], 1)}

    def rows(self, norm: str, numbers: Header) -> Rows:
        """How far columns are apart, with the facts of a guarantee about the cells."""
        return rows_of(numbers, self.all(norm), cell_of=self._columns[1], merge=norm == "l2")

    @cached_property
    def _columns(self) -> tuple[Any, Any]:
        """R, of very many cells its different columns, and which of them every cell has."""
        R = self.strategy.R
        return kinds(R) if self.strategy.many else (R, None)

    def sensitivity(self, norm: str) -> Any:
        """The largest distance of neighbours."""
        arithmetic, R = self.strategy.arithmetic, self.strategy.R
        if norm == "linf":
            return self._largest_entry()
        if self.strategy.pattern is not None:
            value = self.strategy.pattern.sensitivity(R, norm)
            return arb(value, value * rounding.gamma(4 * len(R)))
        if self.strategy.many:
            if norm not in self._largest:
                claimed = self._claimed(norm)
                self._largest[norm] = largest_distance(R, norm, claimed)
            return self._largest[norm]
        if self.strategy.replace:
            rows = self.all(norm)
            groups = [cells.tolist() for cells in self.strategy.members]
            return largest(rows[i][j] for cells in groups for i in cells for j in cells)
        if norm == "l1":
            return largest(arithmetic.absolute_sums(R))
        return root(largest(arithmetic.squares(np.ascontiguousarray(R.T))))

    def _claimed(self, norm: str) -> Any:
        """The largest distance by the header; 1 for a design of least norm."""
        header = self.strategy.header
        stated = "noise" in header and NORMS[header["noise"]] == norm
        return header.get("sensitivity") if stated else 1.0

    def _largest_entry(self) -> Any:
        """The largest entry of R, or difference within a row; None for several participations."""
        R = self.strategy.R
        if self.strategy.pattern is not None:
            return None
        if not self.strategy.replace:
            return arb(float(np.abs(R).max()))
        parts = [R[:, cells] for cells in self.strategy.members]
        ends = [(part.max(axis=1), part.min(axis=1)) for part in parts]
        return largest(
            arb(high) - arb(low)
            for highs, lows in ends
            for high, low in zip(highs.tolist(), lows.tolist(), strict=True)
        )


def _without_rounding(distances: list[list[Any]]) -> list[list[Any]]:
    """Distances, those that may be rounding alone being 0."""
    far = max(float(value) for row in distances for value in row)
    return [[value if float(value) > SAME * far else arb(0) for value in row] for row in distances]


def largest_distance(R: Any, norm: str, claimed: Any) -> Any:
    """The largest distance of two columns; of too many a bound, or None if less is claimed."""
    R = different(R)
    if len(R) * R.shape[1] ** 2 <= COMPARED[norm]:
        value = _farthest(np.ascontiguousarray(R.T), norm)
    else:
        value = _bound(R, norm)
        if not isinstance(claimed, int | float) or claimed < value * (1 - NEAR):
            return None
    # a small delta moves thousands of times as much as the distance, relatively
    return arb(value, value * rounding.gamma(8 * len(R) + 48))


def different(matrix: Any) -> Any:
    """The columns that differ, in the order in which they come first."""
    return kinds(matrix)[0]


def kinds(matrix: Any) -> tuple[Any, Any]:
    """The same, and which of them every column is."""
    _, first, number = np.unique(matrix, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return matrix[:, first[order]], np.argsort(order)[number.ravel()]


def _farthest(columns: Any, norm: str) -> float:
    """Of all pairs, block by block."""
    columns = columns - columns[0]
    step = max(1, BLOCK // len(columns))
    squares, far = np.einsum("ij,ij->i", columns, columns), 0.0
    for start in range(0, len(columns), step):
        block = columns[start : start + step]
        if norm == "l1":
            apart = scipy.spatial.distance.cdist(block, columns[start:], "cityblock")
        else:
            apart = squares[start : start + step, None] + squares[start:]
            apart -= 2 * (block @ columns[start:].T)
        far = max(far, float(apart.max()))
    return far if norm == "l1" else float(np.sqrt(far))


def _bound(R: Any, norm: str) -> float:
    """From the two columns farthest from the mean, and the two longest."""
    order = 1 if norm == "l1" else 2
    centred = R - R.mean(axis=1, keepdims=True)
    bound = float(np.sort(np.linalg.norm(centred, order, axis=0))[-2:].sum())
    if R.min() >= 0:
        longest = np.sort(np.linalg.norm(R, order, axis=0))[-2:]
        bound = min(bound, float(np.linalg.norm(longest, order)))
    return bound


def proved_by_cells(A: Any, u: Any, w: Any, p: float) -> Any:
    """Lower bound on the norm from weights of queries and of cells, a record being replaced."""
    weights = [arb(value) for value in w.tolist()]
    whole = total(weights)
    pairs = (whole**2 - total(value**2 for value in weights)) / (2 * whole)
    if not pairs > 0:
        return arb(0)
    return _nuclear_norm(A, u, w) / root(dual_norm(u.tolist(), p) * pairs)


def _nuclear_norm(A: Any, u: Any, w: Any) -> Any:
    """At least that of M, with the rounding of its entries."""
    m, n = A.shape
    relative = A - A[:, :1]
    mean = relative @ w / w.sum()
    half = np.sqrt(u)[:, None] * (relative - mean[:, None]) * np.sqrt(w)
    sizes = np.abs(relative) + 2 * (np.abs(relative) @ w / w.sum())[:, None]
    error = rounding.gamma(2 * n + 12) * np.sqrt(u)[:, None] * sizes * np.sqrt(w)
    if min(m, n) <= DECOMPOSED:
        return rounding.polar_norm(half, error)
    gram = half @ half.T if m < n else half.T @ half
    size, off = float(np.linalg.norm(half)), float(np.linalg.norm(error))
    fourth = float(np.linalg.norm(gram)) + rounding.gamma(m + n + 8) * size**2
    # norm(X X^T)_F moves by at most (2 norm(X)_F + off) off
    return max(arb(size) - 2 * off, arb(0)) ** 3 / (arb(fourth) + (2 * size + off) * 2 * off)
