"""Kronecker products by their factors: times a vector, and their two farthest columns.

(M_1 x ... x M_k) x, for x as an array with one axis for each factor, applies M_i along axis i: with
n cells in all it costs about n (n_1 + ... + n_k) multiplications for square factors, and nothing
but the factors is formed.

Column j of R_1 x ... x R_k is the product of columns j_1 ... j_k. With a, b the squared norms of
two columns of a factor and c their inner product,

    norm(R e_i - R e_j)_2^2 = prod a + prod b - 2 prod c.

With a, b their l1 norms, m = sum min(|x|, |y|) over the entries x, y of both, and s the same sum
with the sign of x y,

    norm(R e_i - R e_j)_1 <= prod a + prod b - prod m - prod s,

since |x - y| = |x| + |y| - (1 + sign(x y)) min(|x|, |y|), signs multiply, and a product of minima
is at most the minimum of the products: with equality where entries are 0, 1 or -1.

Both are linear in the numbers of one factor, those of the others being fixed. So only the extreme
points of the convex hull of the pairs of columns of a factor matter, and those of the products of
two hulls, factor by factor.

Few of these do: with A, B, C those of all other factors, |C| <= (AB)^(1/2) <= (A + B)/2, and in l1
|S| <= M <= min(A, B), the distance is a sum of

    a - c, a + c, b - c, b + c          in l2,
    a, b, a + b - m - s, a + b - m + s  in l1,

each times a number that is not negative. A pair of columns that another one exceeds in all four is
left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
import scipy

from pmldesign_solvers.operators.operator import BLOCK_BYTES, EPS, Array

Map = Callable[[Array], Array]
"""y -> M y for y of shape (n_i, c)."""


def apply(
    maps: Sequence[Map | None], sizes: Sequence[int], x: Array, images: Sequence[int] | None = None
) -> Array:
    """(M_1 x ... x M_k) x.

    Args:
        maps: y -> M_i y for y of shape (n_i, c); None for the identity.
        sizes: n_1 ... n_k.
        x: shape (n,) or (n, c), n the product of the sizes; the last factor runs fastest.
        images: m_1 ... m_k if they are known: axes that get much shorter are taken first.
    """
    tensor = x.reshape(*sizes, -1)
    growth = [1.0 if images is None else images[axis] / n for axis, n in enumerate(sizes)]
    for axis in sorted(range(len(maps)), key=growth.__getitem__):
        change = maps[axis]
        if change is None:
            continue
        before, after = range(axis), range(axis + 1, tensor.ndim)
        front = tensor.transpose(axis, *before, *after)  # np.moveaxis takes longer than the product
        image = change(np.ascontiguousarray(front).reshape(front.shape[0], -1))
        tensor = image.reshape(-1, *front.shape[1:])
        tensor = tensor.transpose(*range(1, axis + 1), 0, *after)
    return tensor.reshape(math.prod(tensor.shape[:-1]), *x.shape[1:])


def multiply(matrices: Sequence[Array], x: Array) -> Array:
    """(M_1 x ... x M_k) x for matrices M_i of shape (m_i, n_i)."""
    maps = [matrix.__matmul__ for matrix in matrices]
    return apply(maps, [matrix.shape[1] for matrix in matrices], x)


def product(matrices: Iterable[Array]) -> Array:
    """M_1 x ... x M_k as a dense matrix."""
    return reduce(lambda left, right: np.asarray(np.kron(left, right), np.float64), matrices)


def outer(vectors: Sequence[Array]) -> Array:
    """v_1 x ... x v_k, shape (n,)."""
    total = np.ones(1)
    for vector in vectors:
        total = np.multiply.outer(total, vector).ravel()
    return total


MOST_NORMS = 512
"""Columns with more different norms are rounded up to so many."""
MOST_POINTS = 2**15
"""Most points of a factor, or of a product of factors, that are multiplied with each other."""
L2_GAINS = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [-1, 1, -1, 1]])
L1_GAINS = np.array([[1.0, 0, 1, 1], [0, 1, 1, 1], [0, 0, -1, -1], [0, 0, -1, 1]])
"""The four, from the numbers of a pair: see above."""
MOST_ABOVE = 64
"""Pairs that others are compared with."""
FEW_POINTS = 24
"""So many points are not worth a convex hull."""
HULL_COST = 2**31
"""Points times facets (5 s) beyond which a hull is left alone: half of its points are vertices."""
L1_COST = 2**33
"""Most differences of entries for the l1 distances of a factor."""
COUNTS_COST = 2**36
"""Most products for those of one whose entries are 0 or one number: as many seconds."""
WEIGHTED_CELLS = 2**13
"""Most cells of a weighted product for the inner products of all columns."""
EQUAL = 1e-13
"""Relative difference of two norms that count as equal."""
FLAT = 1e-14
"""Points differ in a direction if they do by more than this, relative to their largest numbers."""
OUTSIDE = 1e-12
"""How far a point may lie outside a hull of points whose coordinates reach to 1."""
DISTANCE_ROUNDING = 1e-11
"""Added to a squared distance, relative to the norms it is the difference of."""


def largest_l2_distance(factors: Sequence[Array]) -> float:
    """Largest l2 distance of two columns of a Kronecker product, never below it.

    Args:
        factors: R_1 ... R_k, each r_i x n_i.

    Returns:
        The distance, up to rounding upwards; or a bound if that takes too long.
    """
    return largest_distance_of_grams([factor.T @ factor for factor in factors])


def largest_distance_of_grams(grams: Sequence[Array]) -> float:
    """`largest_l2_distance` from the Gram matrices R_i^T R_i."""
    points = [_points(gram, gram.diagonal()) for gram in grams]
    square = largest_sum(points, np.array([1.0, 1.0, -2.0]), L2_GAINS)
    return math.sqrt(square)


def largest_l1_distance(factors: Sequence[Array]) -> float:
    """Largest l1 distance of two columns of a Kronecker product, or a bound above it.

    Args:
        factors: R_1 ... R_k, each r_i x n_i.
    """
    norms = [np.abs(factor).sum(axis=0) for factor in factors]
    simple = 2 * math.prod(float(norm.max()) for norm in norms) * (1 + DISTANCE_ROUNDING)
    sizes = [_only_entry(factor) for factor in factors]
    for (r, n), only in zip((factor.shape for factor in factors), sizes, strict=True):
        if r * n * n > (L1_COST if only is None else COUNTS_COST):
            return simple
    points = []
    for factor, norm, only in zip(factors, norms, sizes, strict=True):
        if only is not None:  # of zeros and ones the smaller is the product
            counted = (factor > 0).astype(np.float64)
            least = only * (counted.T @ counted)
            points.append(_points(least, norm)[:, [0, 1, 2, 2]])
            continue
        columns = np.ascontiguousarray(factor.T)
        sums = norm[:, None] + norm
        least = (sums - scipy.spatial.distance.cdist(abs(columns), abs(columns), "cityblock")) / 2
        if (factor >= 0).all():
            triples = _points(least, norm)[:, [0, 1, 2, 2]]
        else:
            apart = scipy.spatial.distance.cdist(columns, columns, "cityblock")
            signed = (scipy.spatial.distance.cdist(columns, -columns, "cityblock") - apart) / 2
            pairs = np.broadcast_arrays(norm[:, None], norm[None, :], least, signed)
            triples = np.unique(np.stack([entries.ravel() for entries in pairs], axis=1), axis=0)
        points.append(triples)
    return min(simple, largest_sum(points, np.array([1.0, 1.0, -1.0, -1.0]), L1_GAINS))


def _only_entry(factor: Array) -> float | None:
    """The positive number that all nonzero entries equal, 0 if all are zero; otherwise None."""
    largest = max(float(factor.max()), 0.0)
    return largest if ((factor == 0) | (factor == largest)).all() else None


def largest_weighted_distance(factors: Sequence[Array], weights: Array) -> float:
    """Largest l2 distance of two columns of diag(weights)^(1/2) (R_1 x ... x R_k), or a bound.

    Up to WEIGHTED_CELLS cells it is computed, from one block of inner products after the other, the
    same for all cells that have the same two values of each attribute between them; beyond,
    columns without their common part are at most twice the longest of them apart.

    Args:
        factors: R_1 ... R_k, each r_i x n_i.
        weights: positive, shape (r,).
    """
    varying = outer([(np.ptp(factor, axis=1) == 0) * 1.0 for factor in factors]) == 0
    weights = np.where(varying, weights, 0.0)
    squares = multiply([factor.T**2 for factor in factors], weights)
    longest = float(squares.max())
    cells = len(squares)
    if cells > WEIGHTED_CELLS:
        return 2 * math.sqrt(longest * (1 + DISTANCE_ROUNDING))
    largest = 0.0
    pairs = [np.triu_indices(factor.shape[1]) for factor in factors]
    products = [(R[:, i] * R[:, j]).T for R, (i, j) in zip(factors, pairs, strict=True)]
    table = squares.reshape([factor.shape[1] for factor in factors])
    others = math.prod(map(len, products[1:]))
    step = max(1, BLOCK_BYTES // (8 * others))
    for start in range(0, len(products[0]), step):
        block = slice(start, start + step)
        inner = multiply([products[0][block], *products[1:]], weights)
        first = [(pairs[0][0][block], pairs[0][1][block])]
        # which of its two values of an attribute one of the two cells has
        for ends in itertools.product(first, *((pair, pair[::-1]) for pair in pairs[1:])):
            one, other = (table[np.ix_(*(end[k] for end in ends))].ravel() for k in (0, 1))
            largest = max(largest, float((one + other - 2 * inner).max()))
    return math.sqrt(largest + DISTANCE_ROUNDING * 2 * longest)


def _points(inner: Array, norms: Array) -> Array:
    """a, b and the smallest and the largest c for all pairs of norms, shape (pairs, 3)."""
    order = np.argsort(norms, kind="stable")
    ordered = norms[order]
    width = EQUAL
    positive = np.maximum(ordered, np.finfo(float).tiny)
    while True:
        steps = np.floor(np.log(positive / positive[-1]) / width)
        starts = np.flatnonzero(np.append(True, np.diff(steps) > 0))
        if len(starts) <= MOST_NORMS:
            break
        width = max(10 * width, 1e-9)
    tops = np.append(ordered[starts[1:] - 1], ordered[-1])
    sorted_inner = inner[np.ix_(order, order)]
    pairs = np.broadcast_arrays(tops[:, None], tops[None, :])
    least, most = (
        extreme.reduceat(extreme.reduceat(sorted_inner, starts, axis=0), starts, axis=1)
        for extreme in (np.minimum, np.maximum)
    )
    apart = least < most
    below = np.stack([values.ravel() for values in (*pairs, least)], axis=1)
    above = np.stack([values[apart] for values in (*pairs, most)], axis=1)
    return np.concatenate([below, above])


def largest_sum(points: Sequence[Array], signs: Array, gains: Array | None = None) -> float:
    """Largest sum of signs times products over all choices of a point of each factor.

    Args:
        points: for every factor the numbers of its points, shape (points, terms); the first term
            is at least 0 and at least as large as the absolute values of the others.
        signs: shape (terms,), those of terms with a positive sign, 1 or 2 of them, before others.
        gains: shape (terms, sums); the sum grows with all of these, whatever the other factors are.

    Returns:
        The maximum, at least 0, up to rounding upwards; or a bound if the points are too many.
    """
    size = 2 * math.prod(float(corners[:, 0].max()) for corners in points)
    *fewer, most = sorted((_extreme(_highest(one, gains)) for one in points), key=len)
    total = np.ones((1, len(signs)))
    for corners in [*fewer, most]:
        if len(total) * len(corners) > MOST_POINTS**2 // 64:
            return 2 * size * (1 + DISTANCE_ROUNDING)
        if corners is most:  # no hull of the last product, which has the most points
            break
        products = (total[:, None, :] * corners).reshape(-1, len(signs))
        total = _extreme(_highest(products, gains))
    blocks = np.array_split(total * signs, 1 + 8 * len(total) * len(most) // BLOCK_BYTES)
    largest = max(float((block @ most.T).max()) for block in blocks)
    return max(0.0, largest) + DISTANCE_ROUNDING * size


def _highest(points: Array, gains: Array | None) -> Array:
    """Points without those whose gains are all exceeded by another one's, up to rounding."""
    if gains is None or len(points) <= FEW_POINTS:
        return points
    values = points @ gains
    rounding = 4 * EPS * float(np.abs(values).max())
    left = np.argsort(-values.sum(axis=1), kind="stable")
    kept: list[int] = []
    while len(left) and len(kept) < MOST_ABOVE:
        kept.append(int(left[0]))
        left = left[(values[left] > values[left[0]] + rounding).any(axis=1)]
    return np.asarray(points[np.append(kept, left)])


def _extreme(points: Array) -> Array:
    """Points with the same convex hull up to FLAT, usually few.

    Qhull loses vertices of a hull that is thin, so it is given uncorrelated coordinates, each
    scaled to its own range: there no direction is thinner than one over the root of the number of
    points.
    """
    if len(points) <= FEW_POINTS:
        return points
    centred = points - points.mean(axis=0)
    scale = np.abs(points).max(axis=0)
    scaled = centred / np.where(scale > 0, scale, 1.0)
    axes = np.linalg.svd(scaled, full_matrices=False)[2]
    along = scaled @ axes.T
    reach = np.abs(along).max(axis=0)
    round_hull = along[:, reach > FLAT] / reach[reach > FLAT]
    if not round_hull.size:
        return points[:1]
    if round_hull.shape[1] == 1:
        line = round_hull[:, 0]
        return points[[int(line.argmin()), int(line.argmax())]]
    try:
        hull = scipy.spatial.ConvexHull(round_hull)
    except scipy.spatial.QhullError:
        return points
    if len(points) * len(hull.equations) > HULL_COST or not _contains(hull, round_hull):
        return points
    return points[hull.vertices]


def _contains(hull: scipy.spatial.ConvexHull, points: Array) -> bool:
    """Whether no point lies farther out than the vertices along the normal of any facet.

    Qhull is not believed: a vertex that it loses would be a distance that is too small.
    """
    normals = hull.equations[:, :-1].T
    blocks = np.array_split(normals, 1 + 8 * len(points) * normals.shape[1] // BLOCK_BYTES, axis=1)
    corners = points[hull.vertices]
    return all(
        bool((points @ block <= (corners @ block).max(axis=0) + OUTSIDE).all()) for block in blocks
    )
