r"""Strategies of whole numbers: what is measured exactly, so that the noise can be exact too.

A strategy R becomes  R' = diag(u) Z  with Z an integer matrix and units u > 0, all nearly equal.
The release is y = Z x + eta with whole numbers eta, and everything after it is a function of y.
Row i of R' x is estimated by u_i y_i.

    exact         2^k R has whole entries (trees, wavelets, histograms): Z = 2^k R
    full rank     R of full column rank: Z = round(2^k R); under replace, where R 1 = 0, the rank is
                  n - 1 and Z 1 N/n, which is public, is subtracted from y
    row space     R = M S, S whole and independent rows of the workload: Z = round(2^k M) S, so that
                  the rows of Z lie in the row space of the workload again
    product       Z_1 x ... x Z_m, the bits shared by those that are rounded; with weights w row i
                  is multiplied by c_i = round(2^k w_i^(1/2)); written out up to WRITTEN_CELLS cells
                  where several factors are rounded
    marginals     the contrasts (1, ..., 1, -k, 0, ...) along every axis of T, each multiplied by
                  c = round(2^k g), g the factor that makes it a row of R: the rows are those of R
    anything else Z = round(2^k R), and L of R itself: the answer is off by at most
                  2^(-k-1) norm(L_i)_1 a person, which the manifest states

k is raised until the error computed from Z is within 1e-6 of that of R (`exact_noise`).

Rank: the singular values of R' computed in floating point are off by n 2^-53 norm(R'), far below
the RANK_CUTOFF 1e-10 of the strategies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from pmldesign.privacy.neighbours import Neighbours, Norm, pairwise_distances
from pmldesign.privacy.noise import Noise
from pmldesign.release.noise.integers import (
    EXACT_FLOAT,
    Image,
    Integers,
    contrasts,
    largest_absolute_column,
    largest_square_column,
    scaled,
    times,
)
from pmldesign.release.noise.rounding import (
    independent_rows,
    multiples,
    rounded_matrix,
    through_rows,
)
from pmldesign.strategies import (
    MarginalsStrategy,
    ProductStrategy,
    PublicTotal,
    PublicTotalStrategy,
    Strategy,
)
from pmldesign.workloads import MarginalsWorkload, Workload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign.workloads.public_total import CentredWorkload, centre
from pmldesign.workloads.union import by_attribute
from pmldesign_solvers.operators import kronecker as mode_products
from pmldesign_solvers.operators.operator import Array

ROUNDING = 2.0**-40
"""Relative allowance for sensitivities that are evaluated in floating point: the sums have fewer
than 2^12 roundings of 2^-53 each. It also covers kappa < 1e-20 of the discrete Gaussian."""


BITS_OF_EXACT = 30
"""A factor whose entries, times a power of two, are whole numbers of so many bits is not
rounded."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """A strategy of whole numbers.

    Attributes:
        measured: R' = diag(units) Z, for sensitivities and calibration; without its total under
            replace. Sensitivities may be those of a strategy within `distortion`.
        estimator: whose L makes answers of diag(units) y; R' itself unless there is a bias.
        units: u, shape (r,).
        image: x -> Z x.
        matrix: Z where it is written out.
        factors: Z_1 ... Z_m of a product without weights.
        distortion: by what part the sensitivities of `measured` may be too small.
        bias: largest entry of R' - R where `estimator` is R, else 0.
    """

    measured: Strategy
    estimator: Strategy
    units: Array
    image: Image
    matrix: Integers | None = None
    factors: tuple[Integers, ...] = ()
    distortion: float = 0.0
    bias: float = 0.0

    def sensitivity(self, neighbours: Neighbours, noise: Noise) -> tuple[int, bool]:
        """Largest l1 distance (Laplace) or squared l2 distance (Gaussian) of Z x of neighbours.

        Returns:
            A whole number, and whether it is exact or rounded upwards.
        """
        written = self.factors if self.matrix is None else (self.matrix,)
        if written and neighbours is Neighbours.ADD_REMOVE:
            laplace = noise is Noise.LAPLACE
            norm_of = largest_absolute_column if laplace else largest_square_column
            return math.prod(map(norm_of, written)), True
        if (
            self.matrix is not None
            and noise is Noise.LAPLACE
            and 2 * largest_absolute_column(self.matrix) < EXACT_FLOAT
        ):
            distances = pairwise_distances(self.matrix.astype(np.float64), norm="l1")
            return int(distances.max()), True
        norm: Norm = "l1" if noise is Noise.LAPLACE else "l2"
        value = self.measured.sensitivity_under(neighbours, norm)
        value *= (1 + ROUNDING) * (1 + self.distortion) / float(self.units.min())
        return math.ceil(value if noise is Noise.LAPLACE else value**2 * (1 + ROUNDING)), False


def on_lattice(strategy: Strategy, workload: Workload, bits: int) -> Lattice:
    """The strategy in whole numbers.

    Args:
        strategy: R; without its total under replace, as `factorization.answer` gives it.
        workload: A, likewise.
        bits: k; entries of Z are at most about 2^k times those that the structure brings.

    Raises:
        InvalidInputError: too large to be written out, where that is needed.
    """
    if isinstance(strategy, MarginalsStrategy):
        return _marginals(strategy, bits)
    if isinstance(strategy, ProductStrategy):
        return _product(strategy, workload, bits)
    if isinstance(strategy, PublicTotalStrategy):
        inner = workload.workload if isinstance(workload, CentredWorkload) else workload
        whole = _product(strategy.product, inner, bits)
        assert isinstance(whole.measured, ProductStrategy)
        public = PublicTotalStrategy(whole.measured)
        return Lattice(public, public, whole.units, whole.image, distortion=whole.distortion)
    if type(strategy) is not Strategy:
        return _biased(strategy, bits)
    return _dense(strategy, workload, bits)


def _dense(strategy: Strategy, workload: Workload, bits: int, *, strip: bool = False) -> Lattice:
    matrix, public = strategy.matrix, isinstance(workload, CentredWorkload)
    rounded, unit, exact = rounded_matrix(matrix, BITS_OF_EXACT if strip else bits)
    if strip:
        common = int(np.gcd.reduce(rounded, axis=None))
        power = common & -common
        rounded, unit = rounded // power, unit * power
    full = strategy.rank == strategy.cells - public
    if not (exact or full):
        rows = independent_rows(workload)
        through = None if rows is None else through_rows(matrix, rows, bits, public=public)
        if through is None:
            return _biased(strategy, bits)
        rounded, unit = through
    floats = rounded * unit
    measured = Strategy(strategy.name, centre(floats) if public else floats)
    if measured.rank != strategy.rank:
        return _biased(strategy, bits)
    units = np.full(len(rounded), unit)
    return Lattice(measured, measured, units, partial(times, rounded), rounded)


def _biased(strategy: Strategy, bits: int) -> Lattice:
    rounded, unit, _ = rounded_matrix(
        strategy.whole.matrix if isinstance(strategy, PublicTotal) else strategy.matrix, bits
    )
    units = np.full(len(rounded), unit)
    rows, distortion = len(rounded), 0.0
    measured = strategy
    if strategy.distance_profile("l2") is None:
        measured = Strategy(strategy.name, rounded * unit)
    else:  # every distance counts as the largest: unit is what two rounded columns add to it
        sizes: dict[Norm, float] = {"l1": rows, "l2": math.sqrt(rows)}
        ratios = [
            unit * size / strategy.sensitivity_under(Neighbours.REPLACE, norm)
            for norm, size in sizes.items()
        ]
        distortion = 2 * max(ratios)
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
    exact[0] = exact[0] and rounded > 0  # where all are whole, the first makes the lattice fine
    share = bits // max(1, rounded)
    parts = [
        _dense(factor, own, share, strip=whole)
        for factor, own, whole in zip(strategy.factors, asked, exact, strict=True)
    ]
    biased = [part.measured is not part.estimator for part in parts]
    if any(biased):
        return _biased(strategy, bits)
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


def _marginals(strategy: MarginalsStrategy, bits: int) -> Lattice:
    roots = []
    for residual, precision in zip(strategy.residuals, strategy.precisions, strict=True):
        k = [np.arange(1.0, strategy.sizes[i]) for i in residual]
        own = [np.sqrt(len(one) + 1) / np.sqrt(one * (one + 1)) for one in k]
        roots.append(math.sqrt(precision) * mode_products.outer(own))
    factors, units = multiples(np.concatenate(roots), bits)
    tables = MarginalsWorkload(strategy.sizes, strategy.residuals)

    def image(x: Integers) -> Integers:
        parts = []
        counts = tables.split(tables.matvec(x.astype(np.float64)))  # sums below 2^53 are exact
        for residual, table in zip(strategy.residuals, counts, strict=True):
            shape = [strategy.sizes[i] for i in residual]
            whole: Integers = np.rint(table).astype(np.int64)
            parts.append(mode_products.apply([contrasts] * len(shape), shape, whole))
        return scaled(np.concatenate(parts), factors)

    return Lattice(strategy, strategy, units, image)


def total_image(lattice: Lattice, cells: int) -> Integers | None:
    """Z 1, of which N/n is public under replace; None where it is zero."""
    if isinstance(lattice.measured, MarginalsStrategy):
        return None
    return lattice.image(np.ones(cells, dtype=np.int64))
