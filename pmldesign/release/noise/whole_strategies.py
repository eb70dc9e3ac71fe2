r"""Strategies of every kind as strategies of whole numbers (`lattice`).

    exact         2^k R has whole entries (trees, wavelets, histograms): Z = 2^k R
    full rank     R of full column rank: Z = round(2^k R); under replace, where R 1 = 0, the rank is
                  n - 1 and Z 1 N/n, which is public, is subtracted from y
    row space     R = M S, S whole and independent rows of the workload: Z = round(2^k M) S, so that
                  the rows of Z lie in the row space of the workload again
    product       Z_1 x ... x Z_m if at most one factor is rounded; with weights w row i is
                  multiplied by c_i = round(2^k w_i^(1/2)); written out up to WRITTEN_CELLS cells
                  where several factors are rounded, and as in `whole_structures` beyond
    blocks        beyond WRITTEN_CELLS cells as in `whole_structures`, and so are tables of
                  ordered attributes, and long running sums
    tables        in `whole_tables`
    regions       counts, each multiplied by c_nu = round(2^k r_nu)
    anything else Z = round(2^k R), and L of R itself: the answer is off by at most
                  2^(-k-1) norm(L_i)_1 a person, which the manifest states

k is raised until the error computed from Z is within 1e-6 of that of R (`exact`).

Rank: the singular values of R' computed in floating point are off by n 2^-53 norm(R'), far below
the RANK_CUTOFF 1e-10 of the strategies.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.release.noise.integers import (
    Integers,
    largest_absolute_column,
    largest_square_column,
    scaled,
    times,
)
from pmldesign.release.noise.lattice import Lattice
from pmldesign.release.noise.rounding import (
    independent_rows,
    multiples,
    rounded_matrix,
    through_rows,
)
from pmldesign.release.noise.whole_structures import (
    block_lattice,
    chain_lattice,
    distortion_of,
    product_lattice,
    regions_lattice,
    tables_lattice,
    weighted_products_lattice,
)
from pmldesign.release.noise.whole_tables import residual_lattice, weighted_lattice
from pmldesign.strategies import (
    BesideStrategy,
    BlockStrategy,
    IdentityAndRows,
    MarginalsStrategy,
    ProductStrategy,
    Strategy,
    TablesStrategy,
    WeightedProductsStrategy,
    WeightedTablesStrategy,
)
from pmldesign.strategies.chains import ChainStrategy
from pmldesign.strategies.participation.strategy import participation_of
from pmldesign.strategies.regions import RegionsStrategy
from pmldesign.workloads import Workload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign.workloads.union import by_attribute
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array

MOST_STEPS = 4096
"""Of running sums that are written out as a matrix: it takes two seconds."""
BITS_OF_EXACT = 30
"""A factor whose entries, times a power of two, are whole numbers of so many bits is not
rounded."""


def on_lattice(strategy: Strategy, workload: Workload, bits: int) -> Lattice:
    """The strategy in whole numbers.

    Args:
        strategy: R; without its total under replace, as `factorization.answer` gives it.
        workload: A, likewise.
        bits: k; entries of Z are at most about 2^k times those that the structure brings.

    Raises:
        InvalidInputError: too large to be written out, where that is needed.
    """
    if participation_of(strategy) is not None:
        raise InvalidInputError(
            "a release is for one participation of each record; several are for `pmldesign stream`"
        )
    if isinstance(strategy, MarginalsStrategy):
        return residual_lattice(strategy, bits)
    if isinstance(strategy, WeightedTablesStrategy):
        return weighted_lattice(strategy, bits)
    if isinstance(strategy, IdentityAndRows):
        return _identity_and_rows(strategy, bits)
    structure = strategy.whole if isinstance(strategy, BesideStrategy) else strategy
    if isinstance(structure, RegionsStrategy):
        return regions_lattice(strategy, structure, bits)
    if isinstance(structure, IdentityAndRows):
        return _dense(Strategy(strategy.name, strategy.matrix), workload, bits)
    if isinstance(structure, BlockStrategy) and strategy.cells > WRITTEN_CELLS:
        return block_lattice(strategy, structure, bits)
    if isinstance(strategy, TablesStrategy) and strategy.cells > WRITTEN_CELLS:
        return tables_lattice(strategy, bits)
    if isinstance(strategy, WeightedProductsStrategy) and strategy.cells > WRITTEN_CELLS:
        return weighted_products_lattice(strategy, bits)
    if isinstance(strategy, ChainStrategy) and strategy.cells > MOST_STEPS:
        return chain_lattice(strategy, bits)
    if isinstance(strategy, ProductStrategy):
        return _product(strategy, workload, bits)
    if isinstance(structure, ProductStrategy):
        whole = _product(structure, workload.inner, bits)
        if not isinstance(whole.measured, ProductStrategy):
            return _biased(strategy, structure.matrix, bits)
        public = BesideStrategy(whole.measured)
        return replace(whole, measured=public, estimator=public, matrix=None, factors=())
    if type(strategy) is not Strategy:
        return _biased(strategy, strategy.matrix, bits)
    return _dense(strategy, workload, bits)


def _dense(strategy: Strategy, workload: Workload, bits: int, *, strip: bool = False) -> Lattice:
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
            return _biased(strategy, matrix, bits)
        rounded, unit = through
    measured = Strategy(strategy.name, public.centre(rounded * unit), public=public)
    if measured.rank != strategy.rank:
        return _biased(strategy, matrix, bits)
    units = np.full(len(rounded), unit)
    return Lattice(measured, measured, units, partial(times, rounded), rounded)


def _identity_and_rows(strategy: IdentityAndRows, bits: int) -> Lattice:
    both, unit, _ = rounded_matrix(np.vstack([strategy.diagonal, strategy.rows]), bits)
    both[0] = np.maximum(both[0], 1)  # so that no cell is left out
    measured = IdentityAndRows(strategy.name, both[0] * unit, both[1:] * unit)

    def image(x: Integers) -> Integers:
        return np.concatenate([scaled(x, both[0]), times(both[1:], x)])

    norms = {
        Noise.LAPLACE: largest_absolute_column(both),
        Noise.GAUSSIAN: largest_square_column(both),
    }
    lengths = {(Neighbours.ADD_REMOVE, noise): norm for noise, norm in norms.items()}
    units = np.full(strategy.shape[0], unit)
    return Lattice(measured, measured, units, image, lengths=lengths)


def _biased(strategy: Strategy, matrix: Array, bits: int) -> Lattice:
    rounded, unit, _ = rounded_matrix(matrix, bits)
    units = np.full(len(rounded), unit)
    measured, distortion = strategy, 0.0
    if strategy.distance_profile("l2") is None:
        measured = Strategy(strategy.name, rounded * unit, public=strategy.public)
    else:  # every distance counts as the largest: unit is what two rounded columns add to it
        distortion = 2 * distortion_of(strategy, unit)
    image = partial(times, rounded)
    return Lattice(measured, strategy, units, image, rounded, distortion=distortion, bias=unit / 2)


def _product(strategy: ProductStrategy, workload: Workload, bits: int) -> Lattice:
    asked = by_attribute(workload)
    if len(asked) != len(strategy.factors):
        asked = tuple(workload for _ in strategy.factors)
    exact = [rounded_matrix(factor.matrix, BITS_OF_EXACT)[2] for factor in strategy.factors]
    rounded = exact.count(False) + (strategy.weights is not None)
    if rounded > 1 and strategy.cells <= WRITTEN_CELLS:
        return _dense(Strategy(strategy.name, strategy.matrix), workload, bits)
    if rounded > 1:
        return product_lattice(strategy, bits)
    exact[0] = exact[0] and rounded > 0  # where all are whole, the first makes the lattice fine
    share = bits // max(1, rounded)
    parts = [
        _dense(factor, queries, share, strip=whole)
        for factor, queries, whole in zip(strategy.factors, asked, exact, strict=True)
    ]
    biased = [part.measured is not part.estimator for part in parts]
    if any(biased):
        return _biased(strategy, strategy.matrix, bits)
    measured = ProductStrategy(
        strategy.name, [part.measured for part in parts], weights=strategy.weights
    )
    unit = math.prod(float(part.units[0]) for part in parts)
    images = [part.image for part in parts]

    def image(x: Integers) -> Integers:
        return np.asarray(mode_products.apply(images, strategy.sizes, x))

    if strategy.weights is None:
        units = np.full(strategy.shape[0], unit)
        matrices = tuple(part.matrix for part in parts if part.matrix is not None)
        return Lattice(measured, measured, units, image, factors=matrices)
    factors, ratios = multiples(np.sqrt(strategy.weights), share)
    return Lattice(measured, measured, unit * ratios, lambda x: scaled(image(x), factors))
