r"""Matrices, and products of them, in whole numbers (`lattice`).

    exact         2^k R has whole entries (trees, wavelets, histograms): Z = 2^k R
    full rank     R of full column rank: Z = round(2^k R); under replace, where R 1 = 0, the rank is
                  n - 1 and Z 1 N/n, which is public, is subtracted from y
    row space     R = M S, S whole and independent rows of the workload: Z = round(2^k M) S, so that
                  the rows of Z lie in the row space of the workload again
    product       Z_1 x ... x Z_m if at most one factor is rounded; with weights w row i is
                  multiplied by c_i = round(2^k w_i^(1/2)); written out up to WRITTEN_CELLS cells
                  where several factors are rounded, and as in `structures` beyond
    anything else Z = round(2^k R), and L of R itself: the answer is off by at most
                  2^(-k-1) norm(L_i)_1 a person, which the manifest states

k is raised until the error computed from Z is within 1e-6 of that of R (`release.noise`).

Rank: the singular values of R' computed in floating point are off by n 2^-53 norm(R'), far below
the RANK_CUTOFF 1e-10 of the strategies.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.whole.integers import (
    Integers,
    independent_rows,
    largest_absolute_column,
    largest_square_column,
    multiples,
    rounded_matrix,
    scaled,
    through_rows,
    times,
)
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.strategies.whole.structures import distortion_of, finer_product_lattice
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import RECORDS
from pmldesign.workloads.union import by_attribute
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

BITS_OF_EXACT = 30
"""A factor whose entries, times a power of two, are whole numbers of so many bits is not
rounded."""


def dense_lattice(
    strategy: Strategy, workload: Workload, bits: int, *, strip: bool = False
) -> Lattice:
    """A matrix, rounded where that leaves it in the row space of the workload.

    Args:
        strategy: R.
        workload: A.
        bits: k.
        strip: whether whole entries keep no common power of two.
    """
    matrix, public = strategy.matrix, workload.public
    rounded, unit, exact = rounded_matrix(matrix, BITS_OF_EXACT if strip else bits)
    if strip:
        common = int(np.gcd.reduce(rounded, axis=None))
        power = common & -common
        rounded, unit = rounded // power, unit * power
    full = strategy.rank == strategy.cells - len(public.members)
    if not (exact or full):
        rows = independent_rows(workload)
        through = None if rows is None else through_rows(matrix, rows, bits, public.centre)
        if through is None:
            return biased_lattice(strategy, matrix, bits)
        rounded, unit = through
    measured = Strategy(strategy.name, public.centre(rounded * unit), public=public)
    if measured.rank != strategy.rank:
        return biased_lattice(strategy, matrix, bits)
    units = np.full(len(rounded), unit)
    return Lattice(measured, measured, units, partial(times, rounded), rounded)


def rows_lattice(strategy: IdentityAndRows, bits: int, beside_total: bool = False) -> Lattice:
    """The identity and its rows, each rounded; beside the number of records without rows alone."""
    both, unit, _ = rounded_matrix(np.vstack([strategy.diagonal, strategy.rows]), bits)
    both[0] = np.maximum(both[0], 1)  # so that no cell is left out
    measured: Strategy = IdentityAndRows(strategy.name, both[0] * unit, both[1:] * unit)
    measured = measured.beside(RECORDS) if beside_total else measured

    def image(x: Integers) -> Integers:
        return np.concatenate([scaled(x, both[0]), times(both[1:], x)])

    norms = {
        Noise.LAPLACE: largest_absolute_column(both),
        Noise.GAUSSIAN: largest_square_column(both),
    }
    lengths = {(Neighbours.ADD_REMOVE, noise): norm for noise, norm in norms.items()}
    units = np.full(strategy.shape[0], unit)
    return Lattice(measured, measured, units, image, lengths=lengths)


def biased_lattice(strategy: Strategy, matrix: Array, bits: int) -> Lattice:
    """A matrix that is rounded whatever its rows are; answers are those of R itself."""
    rounded, unit, exact = rounded_matrix(matrix, bits)
    units, bias = np.full(len(rounded), unit), 0.0 if exact else unit / 2
    measured, distortion = strategy, 0.0
    if strategy.distance_profile("l2") is None:
        measured = Strategy(strategy.name, rounded * unit, public=strategy.public)
    else:  # every distance counts as the largest: unit is what two rounded columns add to it
        distortion = 2 * distortion_of(strategy, unit)
    image = partial(times, rounded)
    return Lattice(measured, strategy, units, image, rounded, distortion=distortion, bias=bias)


def product_lattice(strategy: ProductStrategy, workload: Workload, bits: int) -> Lattice:
    """The product of its factors, each as a matrix."""
    asked = by_attribute(workload)
    if len(asked) != len(strategy.factors):
        asked = tuple(workload for _ in strategy.factors)
    exact = [rounded_matrix(factor.matrix, BITS_OF_EXACT)[2] for factor in strategy.factors]
    rounded = exact.count(False) + (strategy.weights is not None)
    if rounded > 1 and strategy.few:
        return dense_lattice(Strategy(strategy.name, strategy.matrix), workload, bits)
    if rounded > 1:
        return finer_product_lattice(strategy, bits)
    exact[0] = exact[0] and rounded > 0  # where all are whole, the first makes the lattice fine
    share = bits // max(1, rounded)
    parts = [
        dense_lattice(factor, queries, share, strip=whole)
        for factor, queries, whole in zip(strategy.factors, asked, exact, strict=True)
    ]
    biased = [part.measured is not part.estimator for part in parts]
    if any(biased):
        return biased_lattice(strategy, strategy.matrix, bits)
    measured = ProductStrategy(
        strategy.name, [part.measured for part in parts], weights=strategy.weights
    )
    unit = math.prod(float(part.units[0]) for part in parts)
    images = [part.image for part in parts]

    def image(x: Integers) -> Integers:
        return np.asarray(kronecker.apply(images, strategy.sizes, x))

    if strategy.weights is None:
        units = np.full(strategy.shape[0], unit)
        matrices = tuple(part.matrix for part in parts if part.matrix is not None)
        return Lattice(measured, measured, units, image, factors=matrices)
    factors, ratios = multiples(np.sqrt(strategy.weights), share)
    return Lattice(measured, measured, unit * ratios, lambda x: scaled(image(x), factors))
