"""Kronecker products of small matrices, each formed once, and slopes by their factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pmldesign_solvers.operators.operator import Array

Attributes = tuple[int, ...]
Factors = tuple[int, ...]
"""Numbers of factors."""


class Products:
    """Kronecker products of H_k, each formed once, and slopes by them."""

    def __init__(self) -> None:
        self._known: dict[Factors, Array] = {}
        self._slopes: dict[Factors, Array] = {}

    def of(self, factors: Factors, matrices: Sequence[Array]) -> Array:
        """The product of H_k over these factors."""
        if factors not in self._known:
            product: Array = np.ones((1, 1))
            for k in factors:
                product = np.asarray(np.kron(product, matrices[k]))
            self._known[factors] = product
        return self._known[factors]

    def add(self, factors: Factors, slopes: Array) -> None:
        """Add to the derivative by the product of these factors' matrices."""
        self._slopes[factors] = self._slopes.get(factors, 0.0) + slopes

    def slopes(self, matrices: Sequence[Array]) -> list[Array]:
        """Derivatives by every H_k, by the chain rule from those by their products."""
        gradients = [np.zeros_like(matrix) for matrix in matrices]
        for factors, slopes in self._slopes.items():
            shape = [len(matrices[k]) for k in factors]
            tensor = slopes.reshape(shape + shape)
            for place, k in enumerate(factors):
                gradients[k] += _contract(tensor, [matrices[j] for j in factors], place)
        return gradients


def _contract(tensor: Array, matrices: Sequence[Array], kept: int) -> Array:
    """Sum of the entries of a tensor times those of all matrices but one."""
    count = len(matrices)
    arguments: list[Any] = [tensor, list(range(2 * count))]
    for j, matrix in enumerate(matrices):
        if j != kept:
            arguments += [matrix, [j, count + j]]
    arguments.append([kept, count + kept])
    return np.asarray(np.einsum(*arguments, optimize=True))
