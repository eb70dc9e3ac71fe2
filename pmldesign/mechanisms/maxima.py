"""The expected largest error of all queries, E max_i |e_i| with e = scale L z.

It is the error in lower bounds at p = inf; the largest standard deviation is that of the one worst
query, and smaller. If no measurement is part of two answers, the errors are independent, and with
F_i the law of |e_i|

    E max_i |e_i| = int_0^inf 1 - prod_i F_i(t) dt.

Elsewhere, and for discrete noise, it is the mean over DRAWS draws of z from a fixed seed, with its
standard error. For the curator who reads a table: nothing private rests on it.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, (13).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization
from pmldesign.privacy.noise import Noise
from pmldesign_solvers.operators.operator import Array, column_blocks

DRAWS = 2**12
"""Of the noise: a standard error of 0.3% to 0.9% for up to 1,000 queries."""
LARGEST = 2**20
"""Entries of L that are multiplied with so many draws, in 0.4 s of processor time."""
WORK = 2**31
"""Cells times squared measurements, for R^+, which takes some seconds."""


class ExpectedMaximum(NamedTuple):
    """An expected maximum, and the standard error of the mean that estimates it; 0 if exact."""

    value: float
    standard_error: float


def expected_maximum(
    factorization: Factorization, noise: Noise, scale: float, unit: float | None
) -> ExpectedMaximum:
    """E max_i |e_i| of the answers.

    Args:
        factorization: A = L R.
        noise: on R x.
        scale: of the noise.
        unit: of the grid that the noise is on; None for continuous noise.

    Raises:
        InvalidInputError: L has more than LARGEST entries, or R^+ takes more than WORK.
    """
    workload, strategy = factorization.workload, factorization.strategy
    queries, (measurements, cells) = workload.shape[0], strategy.shape
    if queries * measurements > LARGEST or cells * measurements**2 > WORK:
        raise InvalidInputError(
            f"the expected largest error is computed for at most {LARGEST} entries of the"
            f" reconstruction, this one has {queries} x {measurements}, and for at most {WORK}"
            f" cells times squared measurements, here {cells} x {measurements}^2; its largest"
            " standard deviation is `max_std`"
        )
    reconstruction = (scale if unit is None else unit) * strategy.reconstruction(workload)
    # no measurement is part of two answers, and no answer is made of two measurements
    alone = all((np.count_nonzero(reconstruction, axis=axis) <= 1).all() for axis in (0, 1))
    continuous = noise is not Noise.CUBE and unit is None
    if continuous and alone:
        return ExpectedMaximum(_of_independent(reconstruction, noise), 0.0)
    draws = _draws(noise, measurements, None if unit is None else scale / unit)
    largest = np.concatenate(
        [
            np.abs(draws[rows] @ reconstruction.T).max(axis=1)
            for rows in column_blocks(queries, DRAWS)
        ]
    )
    return ExpectedMaximum(
        float(largest.mean()), float(largest.std(ddof=1) / math.sqrt(len(largest)))
    )


def _of_independent(reconstruction: Array, noise: Noise) -> float:
    """The integral, for answers of one measurement each."""
    import scipy

    sizes, copies = np.unique(np.abs(reconstruction).max(axis=1), return_counts=True)
    copies, sizes = copies[sizes > 0], sizes[sizes > 0]
    if not sizes.size:
        return 0.0

    def tail(t: float) -> float:
        if noise is Noise.GAUSSIAN:
            tails = scipy.special.erfc(t * sizes[-1] / sizes / math.sqrt(2.0))
        else:
            tails = np.exp(-t * sizes[-1] / sizes)
        return 1.0 - float(np.prod((1.0 - tails) ** copies))

    most = 2.0 * math.log(copies.sum() + 1.0) + 40.0
    value, _ = scipy.integrate.quad(tail, 0.0, most, limit=200, epsabs=1e-12)
    return float(sizes[-1] * value)


def _draws(noise: Noise, measurements: int, discrete: float | None) -> Array:
    """DRAWS draws of the noise at scale 1, or discrete at another, from a fixed seed."""
    rng, shape = np.random.default_rng(0), (DRAWS, measurements)
    if discrete is not None:
        chance = -math.expm1(-1 / discrete)
        return np.asarray(rng.geometric(chance, shape) - rng.geometric(chance, shape), np.float64)
    if noise is Noise.GAUSSIAN:
        return rng.standard_normal(shape)
    if noise is Noise.LAPLACE:
        return rng.laplace(size=shape)
    # on the cube of half-side r, r of density r^d e^-r
    radii = rng.gamma(measurements + 1, size=(DRAWS, 1))
    return np.asarray(radii * rng.uniform(-1.0, 1.0, shape))
