r"""The functions of `balls` in double precision, with bounds on its rounding in any order.

u = 2^-53. A sum of k products is off by at most gamma_k = k u/(1 - k u) times the sum of their
absolute values [H, 3.5]; every number comes as the ball around its float64 value with that radius.
This assumes that additions and products round to nearest, as all processors do, and that no sum
leaves the normal numbers; ball arithmetic assumes nothing.

References:
    [H] Higham, Accuracy and stability of numerical algorithms (2002).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier.balls import Array, laplacian_root
from pmldesign.verifier.report import WEAKER

UNIT = 2.0**-53
"""Largest relative error of a rounded operation."""
NAME = "double precision with bounds on its rounding: bounds hold for any order of sums"
DECADES = 120.0
"""How far from 1 products of the largest entries of arrays may be: their squares are numbers."""
APART = ("block_", "rows_", "dual_u_", "dual_w_")
"""Of arrays that are not multiplied by each other."""
WEAKEST = 1e-9
"""Relative tolerance by which a claim may exceed the proof: bounds on rounding are generous."""


class HiddenError(ArithmeticError):
    """Rounding may be more of a number than a millionth: it is then not checked."""


def left_of(whole: Array, part: Array, off: Array, known: Any = False) -> Array:
    """The remainder of variances if a part of them is known.

    Args:
        whole: variances.
        part: of these.
        off: the largest effect of rounding on the difference.
        known: whether nothing remains, for each.

    Raises:
        HiddenError: rounding may be too much of a difference.
    """
    left = np.where(known, 0.0, whole - part)
    if (np.where(known, 0.0, off) > WEAKER * left).any():
        raise HiddenError("rounding hides variances of which almost all is known")
    return left


def require_condition(matrix: Array) -> None:
    """Refuse a matrix whose inverse is not known to a millionth, squared.

    Raises:
        HiddenError: it is nearly singular.
    """
    if 8 * len(matrix) * UNIT * np.linalg.cond(matrix) > WEAKER:
        raise HiddenError("rounding hides what a matrix tells that is nearly singular")


def gamma(terms: float) -> float:
    """gamma_k, raised by its own rounding."""
    return terms * UNIT / (1 - terms * UNIT) * (1 + 4 * UNIT)


def in_range(arrays: Mapping[str, Any]) -> bool:
    """Whether squares of all numbers computed from arrays are normal floating-point numbers."""
    decades: dict[str, float] = defaultdict(float)
    for name, array in arrays.items():
        largest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0
        span = abs(math.log10(largest)) if largest else 0.0
        group = next((start for start in APART if name.startswith(start)), name)
        decades[group] = max(decades[group], span)
    return sum(decades.values()) <= DECADES


def around(values: Array, radius: float | Array) -> list[Any]:
    """The balls around values; `radius` is relative."""
    sizes = np.broadcast_to(np.abs(values) * radius * (1 + 4 * UNIT) + 1e-300, values.shape)
    return [arb(x, r) for x, r in zip(values.ravel().tolist(), sizes.ravel().tolist(), strict=True)]


def residual_squares(A: Array, L: Array, R: Array) -> list[Any]:
    """Squared norms of the rows of A - L R, from above."""
    terms = L.shape[1]
    rest = np.abs(A - L @ R) * (1 + 2 * UNIT)
    rest += gamma(terms + 2) * (np.abs(L) @ np.abs(R)) * (1 + gamma(terms + 2))
    squared = np.einsum("ij,ij->i", rest, rest) * (1 + gamma(A.shape[1] + 4))
    return [arb(value / 2, value / 2) for value in squared.tolist()]


def squares(L: Array) -> list[Any]:
    """diag(L L^T)."""
    return around(np.einsum("ij,ij->i", L, L), gamma(L.shape[1] + 1))


def distance_squares(R: Array) -> list[list[Any]]:
    """Squared l2 distances of the columns of R."""
    columns = np.ascontiguousarray(R.T)
    values = scipy.spatial.distance.cdist(columns, columns, "sqeuclidean")
    return [around(row, gamma(len(R) + 4)) for row in values]


def absolute_distances(R: Array) -> list[list[Any]]:
    """The l1 distances of the columns of R."""
    columns = np.ascontiguousarray(R.T)
    values = scipy.spatial.distance.cdist(columns, columns, "cityblock")
    return [around(row, gamma(len(R) + 2)) for row in values]


def diameters(R: Array) -> dict[str, Any]:
    """The largest l1 and l2 distance of two columns of R."""
    columns = np.ascontiguousarray(R.T)
    far = [
        scipy.spatial.distance.cdist(columns, columns, kind).max()
        for kind in ("cityblock", "sqeuclidean")
    ]
    absolute, squared = around(np.array(far), gamma(len(R) + 4))
    return {"l1": absolute, "l2": squared.sqrt()}


def absolute_sums(R: Array) -> list[Any]:
    """The l1 norms of the columns of R."""
    return around(np.abs(R).sum(axis=0), gamma(len(R)))


def nuclear_norm(A: Array, u: Array, w: Array) -> Any:
    """At least the nuclear norm of diag(u)^(1/2) A F, F F^T = diag(w) or the Laplacian of w."""
    if w.ndim == 2:
        return factored_norm(A - A[:, :1], u, laplacian_root(w))
    scaled = np.sqrt(u)[:, None] * A * np.sqrt(w)
    return polar_norm(scaled, gamma(5) * np.abs(scaled))


def factored_norm(A: Array, u: Array, F: Array) -> Any:
    """A lower bound on the nuclear norm of diag(u)^(1/2) A F, with F F^T up to rounding."""
    relative = np.sqrt(u)[:, None] * A
    error = gamma(len(F) + 6) * (np.abs(relative) @ np.abs(F))
    shrink = gamma(2 * len(F) * (len(F) + 4))  # F F^T is a Laplacian up to this part
    return polar_norm(relative @ F, error) * (1 - shrink)


def polar_norm(scaled: Array, error: Array) -> Any:
    """At least the nuclear norm of a matrix, whose entries are off by at most `error`."""
    left, _, right = np.linalg.svd(scaled, full_matrices=False)
    polar = left @ right
    inner = np.abs(scaled * polar).sum()
    value = float((scaled * polar).sum()) - gamma(scaled.size + 2) * float(inner)
    value -= float((error * np.abs(polar)).sum()) * (1 + gamma(scaled.size + 2))
    if polar.shape[0] < polar.shape[1]:
        polar = polar.T
    long, short = polar.shape
    rest = np.abs(polar.T @ polar - np.eye(short))
    rest += gamma(long + 2) * (np.abs(polar).T @ np.abs(polar))
    off = float(rest.sum(axis=1).max()) * (1 + gamma(short + 4))
    return arb(value * (1 - 4 * UNIT)) / (1 + arb(off)).sqrt()
