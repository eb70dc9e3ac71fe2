"""Products with a Kronecker product, one axis at a time.

(M_1 x ... x M_k) x, for x as an array with one axis for each factor, applies M_i along axis i: with
n cells in all it costs about n (n_1 + ... + n_k) multiplications for square factors, and nothing
but the factors is formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from pmldesign_solvers.operators.operator import Array

Map = Callable[[Array], Array]
"""y -> M y for y of shape (n_i, c)."""


def apply(
    maps: Sequence[Map], sizes: Sequence[int], x: Array, images: Sequence[int] | None = None
) -> Array:
    """(M_1 x ... x M_k) x.

    Args:
        maps: y -> M_i y for y of shape (n_i, c).
        sizes: n_1 ... n_k.
        x: shape (n,) or (n, c), n the product of the sizes; the last factor runs fastest.
        images: m_1 ... m_k if they are known: axes that get much shorter are taken first.
    """
    tensor = x.reshape(*sizes, -1)
    growth = [1.0 if images is None else images[axis] / n for axis, n in enumerate(sizes)]
    for axis in sorted(range(len(maps)), key=growth.__getitem__):
        before, after = range(axis), range(axis + 1, tensor.ndim)
        front = tensor.transpose(axis, *before, *after)  # np.moveaxis takes longer than the product
        image = maps[axis](np.ascontiguousarray(front).reshape(front.shape[0], -1))
        tensor = image.reshape(-1, *front.shape[1:])
        tensor = tensor.transpose(*range(1, axis + 1), 0, *after)
    return tensor.reshape(math.prod(tensor.shape[:-1]), *x.shape[1:])


def multiply(matrices: Sequence[Array], x: Array) -> Array:
    """(M_1 x ... x M_k) x for matrices M_i of shape (m_i, n_i)."""
    maps = [matrix.__matmul__ for matrix in matrices]
    return apply(maps, [matrix.shape[1] for matrix in matrices], x)


def outer(vectors: Sequence[Array]) -> Array:
    """v_1 x ... x v_k, shape (n,)."""
    total = np.ones(1)
    for vector in vectors:
        total = np.multiply.outer(total, vector).ravel()
    return total
