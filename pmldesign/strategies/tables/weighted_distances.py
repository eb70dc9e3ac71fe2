"""How far the columns of weighted tables lie apart (`weighted`).

Columns that differ in the attributes D are 2 sum of theta_S apart in the l1 norm, and
(2 sum of theta_S^2)^(1/2) in the l2 norm, over the S that meet D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pmldesign.privacy.neighbours import DistanceProfile, Norm
from pmldesign.privacy.outward import factor_above, float_above, raised, size, unscaled
from pmldesign_solvers.operators.operator import Array

LISTED = 16
"""With more attributes in use, their 2^d sets are not listed: all cells count as the farthest."""

Subsets = Sequence[tuple[int, ...]]


def length(weights: Array, factor: int, norm: Norm) -> float:
    """The l1 norm of factor times the weights, or the l2 norm of each taken `factor` times."""
    if not weights.size:
        return 0.0
    if norm == "l1":
        return float_above(
            "the sensitivity", factor * sum(map(Fraction, weights.tolist()), Fraction(0))
        )
    exponent = size(float(weights.max()))
    square = factor * math.fsum(np.ldexp(weights, -exponent) ** 2)
    return unscaled("the sensitivity", raised(math.sqrt(square), 4), exponent)


def farthest(sizes: Sequence[int], subsets: Subsets, weights: Array, norm: Norm) -> float:
    """The largest distance of two columns, rounded up: they differ in all attributes."""
    wide = [any(sizes[i] > 1 for i in subset) for subset in subsets]
    return length(weights[wide], 2, norm)


def profile(sizes: Sequence[int], subsets: Subsets, weights: Array, norm: Norm) -> DistanceProfile:
    """Distances by the attributes in which two cells differ, rounded up."""
    used = sorted({i for subset in subsets for i in subset if sizes[i] > 1})
    seen = math.prod(sizes[i] for i in used)
    copies = float(math.prod(sizes) // seen)
    if len(used) > LISTED:
        return DistanceProfile.all_at(farthest(sizes, subsets, weights, norm), seen, copies)
    bits = {i: 1 << place for place, i in enumerate(used)}
    differing = np.arange(1, 1 << len(used))
    squares, counts = np.zeros(len(differing)), np.ones(len(differing))
    exponent = size(float(weights.max()))  # so that no square leaves the range of float64
    scaled = np.ldexp(weights, -exponent)
    for subset, weight in zip(subsets, scaled, strict=True):
        meets = (differing & sum(bits.get(i, 0) for i in subset)) > 0
        squares += 2 * np.where(meets, weight if norm == "l1" else weight**2, 0.0)
    for i, bit in bits.items():
        counts *= np.where(differing & bit, sizes[i] - 1.0, 1.0)
    distances = squares if norm == "l1" else np.sqrt(squares)
    rounding = factor_above(len(subsets) + 4)
    return DistanceProfile(np.ldexp(distances * rounding, exponent), counts, copies, float(seen))
