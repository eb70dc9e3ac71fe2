r"""Long running sums and ranges (`strategies.chains`) on a lattice, by their recurrence.

    (C x)_i = C_ii x_i + g_i^T z,      z <- lambda(i + 1) (z + x_i)      (K numbers of state)

in whole numbers: all coefficients are rounded to PRECISION bits after the point, z likewise after
every step, and what comes out is rounded to the lattice. Steps shrink what was before
(0 <= lambda <= 1), so that z is off by n 2^-PRECISION at most, whatever x is: n (1 + sum_k g_ik)
2^-PRECISION, with all coefficients, is far below half a unit. So with the last rounding no entry
of the difference of two images is more than `SLACK` units above that of C.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pmldesign.privacy.neighbours import Neighbours
from pmldesign.release.noise.integers import Integers
from pmldesign.release.noise.lattice import Lattice
from pmldesign.release.noise.whole_structures import lattice_of_unit
from pmldesign.strategies.chains import ChainStrategy
from pmldesign_solvers.operators.operator import Array

PRECISION = 160
"""Bits: with 2^53 people, 2^48 units of the lattice and 2^30 steps there are 29 to spare."""


def chain_lattice(strategy: ChainStrategy, bits: int) -> Lattice:
    """F of the recurrence."""
    top = math.frexp(strategy.sensitivity_under(Neighbours.REPLACE, "l2"))[1]
    chain = strategy.factor
    diagonal, gains, decays = (
        _whole(values).tolist() for values in (chain.diagonal, chain.gains, chain.decays)
    )
    shift = 2 * PRECISION - (bits - top)

    def image(x: Integers) -> Integers:
        state = [0] * strategy.buffers
        rows = []
        for d, g, fading, count in zip(diagonal, gains, decays, x.tolist(), strict=True):
            state = [(rate * z) >> PRECISION for rate, z in zip(fading, state, strict=True)]
            told = sum(map(int.__mul__, g, state))
            rows.append((told + (d * count << PRECISION) + (1 << shift - 1)) >> shift)
            state = [z + (count << PRECISION) for z in state]
        return np.array(rows, dtype=object)

    lattice = lattice_of_unit(strategy, image, top - bits)
    # sensitivities are those of X^(1/2); the recurrence is rounded
    off = max(0.0, strategy.measured_length / strategy.sensitivity - 1)
    return replace(lattice, distortion=lattice.distortion + 2 * off)


def _whole(values: Array) -> Integers:
    """round(2^PRECISION values), exact: floats have 53 bits."""
    mantissas, exponents = np.frexp(values)
    digits: Any = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    shifts = np.vectorize(lambda e: int(e) + PRECISION - 53, otypes=[object])(exponents)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    return np.asarray((digits << left) >> right)
