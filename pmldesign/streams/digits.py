"""Many blocks of y = T x + R z, z <- kept z + F^T x at once, in whole numbers (`rows`).

A whole number is cut into digits of 20 bits or 16, a coefficient into two of 26, so that products
and their sums are whole numbers below 2^53: matrix products of floating-point numbers are exact
then. Only z goes from block to block, in Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.blocks import Blocks

COEFFICIENT_BITS = 52
KEPT_BITS = 60
INPUT_BITS = 40
STATE_BITS = COEFFICIENT_BITS + INPUT_BITS
READ_BITS = 60
"""Of z where R reads it."""
OUTPUT_BITS = COEFFICIENT_BITS + READ_BITS
HALF_BITS, DIGIT_BITS, WORD_BITS = 26, 20, 16
"""Of a coefficient, an input and a number of state, where they are cut."""
STATE_BYTES = 20
"""z has at most 60 + 53 + 24 bits where R reads it: inputs up to 2^53, 2^24 steps."""
LARGEST_OUTPUT = 2.0**58
"""Outputs up to here are added in 64 bits."""


def multiples(values: Array, bits: int) -> list[Any]:
    """Lists of multiples of 2^-bits."""
    listed: list[Any] = np.rint(values * 2.0**bits).astype(np.int64).tolist()
    return listed


def products(
    part: Blocks, inputs: Array, z: list[int], exponent: int
) -> tuple[list[int] | None, list[int]]:
    """Outputs of some blocks in units of 2^exponent, None if they are too large; z behind them."""
    digits = list(_digits(inputs))
    added = np.zeros(part.kept.shape, dtype=object)
    total = _Total(inputs.shape[:2])
    for weight, triangles, fading in zip(
        (HALF_BITS, 0), _halves(part.triangles), _halves(part.fading.swapaxes(1, 2)), strict=True
    ):
        for shift, digit in digits:
            total.add((triangles @ digit)[..., 0], weight + shift - STATE_BITS - exponent)
            products = (fading @ digit)[..., 0].astype(np.int64).astype(object)
            added += products << weight + shift
    before = []
    for kept, more in zip(multiples(part.kept, KEPT_BITS), added.tolist(), strict=True):
        before.append(z)
        z = [
            (k * number >> KEPT_BITS) + term for k, number, term in zip(kept, z, more, strict=True)
        ]
    words = _words(before)
    for weight, readings in zip((HALF_BITS, 0), _halves(part.readings), strict=True):
        read = readings @ words
        for word in range(words.shape[2]):
            total.add(read[..., word], weight + WORD_BITS * word - OUTPUT_BITS - exponent)
    return total.rounded(), z


class _Total:
    """A sum of whole numbers times powers of two, as whole and broken parts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._whole, self._broken = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self._fits = True

    def add(self, values: Array, exponent: int) -> None:
        if not values.any():
            return
        values = values * 2.0**exponent
        whole = np.floor(values)
        self._fits = self._fits and bool(np.abs(whole).max() < LARGEST_OUTPUT)
        if self._fits:
            self._whole += whole.astype(np.int64)
            self._broken += values - whole

    def rounded(self) -> list[int] | None:
        """To the nearest whole numbers."""
        if not self._fits:
            return None
        listed: list[int] = (self._whole + np.rint(self._broken).astype(np.int64)).ravel().tolist()
        return listed


def _halves(values: Array) -> tuple[Array, Array]:
    """The upper and the lower 26 bits of coefficients."""
    upper = np.floor(values * 2.0**HALF_BITS)
    return upper, np.rint((values - upper * 2.0**-HALF_BITS) * 2.0**COEFFICIENT_BITS)


def _digits(values: Array) -> Iterator[tuple[int, Array]]:
    """Digits of 20 bits, the last with a sign, with their shifts; without those that are all 0."""
    shift = 0
    while values.any():
        rest = np.floor(values * 2.0**-DIGIT_BITS)
        if np.abs(values).max() < 2.0**DIGIT_BITS:
            rest = np.zeros_like(values)
        digit = values - rest * 2.0**DIGIT_BITS
        if digit.any():
            yield shift, digit
        values, shift = rest, shift + DIGIT_BITS


def _words(states: list[list[int]]) -> Array:
    """Digits of 16 bits of z as R reads it, the last with a sign, shape (count, K, digits)."""
    shift = STATE_BITS - READ_BITS
    cut = b"".join(
        (z >> shift).to_bytes(STATE_BYTES, "little", signed=True)
        for z in chain.from_iterable(states)
    )
    words = np.frombuffer(cut, dtype="<u2").reshape(len(states), len(states[0]), -1).astype(float)
    last = words[..., -1]
    last -= 2.0**WORD_BITS * (last >= 2.0 ** (WORD_BITS - 1))
    return np.ascontiguousarray(words)
