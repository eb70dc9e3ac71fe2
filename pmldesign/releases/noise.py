r"""Exact noise on a lattice strategy, at the scale that keeps the guarantee of the design.

Laplace. eta_i discrete Laplace of parameter b in units of the lattice. With Delta the largest l1
distance of Z x of neighbours, P(y | x) / P(y | x') <= e^(Delta / b), and b is rounded upwards:
Fraction(Delta) / Fraction(b) <= epsilon, for the float64 and for the decimal number that it is
written as: three releases of 0.1 cost at most 0.3. Corollary 1 for PML also holds, because all
normalisers are equal. The variance 2 q / (1 - q)^2, q = e^(-1/b), is below 2 b^2, the more so the
coarser the lattice: integer measurements can have integer-valued Laplace noise
(`mechanisms.discrete`).

Cube. eta discrete on the lattice with P(eta) proportional to e^(-max|eta_i| / b); b as above, with
the largest l_inf distance.

Gaussian. eta_i discrete Gaussian of parameter s, s^2 = sigma^2 + 4, sigma that of the continuous
Gaussian on Z x. For X continuous around z = Z x and Y the discrete Gaussian of parameter 2 around
X, the normaliser of Y is within 1 +- 1.03e-34 of its mean. For m measurements the law of Y is thus
pointwise within e^(+-kappa), kappa = 2.06e-34 m, of the discrete Gaussian of parameter s around z:

    delta(epsilon) <= e^kappa delta_sigma(epsilon - 2 kappa),

the same for PML, and for zCDP, Renyi and Gaussian DP with the sigma of these. The sensitivity
counts 2^-40 more than it is, which covers kappa many times.

Mixtures. Where a record may be a mixture of cells with weights that are whole multiples of 1/D
(`people.numbers`), the counts are D x, whole numbers, and a record adds a vector of sum D. Norms
are convex, so none is longer than D times a column of Z, nor two farther apart than D times two
columns: sensitivities are D (for squares D^2) times those of cells, and units are divided by D.

Without a calibration (PML with a vacuous guarantee, or no guarantee) a release is refused.

Answers. Measurement j is off by u_j eta_j, u_j the units, and an answer by sum_j L_ij u_j eta_j,
whose law is published. Several releases have a law for each run of measurements.

References:
    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pmldesign.errors import InvalidInputError, PmldesignError
from pmldesign.factorization import Factorization
from pmldesign.mechanisms import Mechanism, own_lattice, require_cells
from pmldesign.mechanisms.integers import Integers
from pmldesign.mechanisms.lattice import SENSITIVITY_ROUNDING, Lattice, TableCounts
from pmldesign.privacy.analytic_gaussian import analytic_gaussian_scale
from pmldesign.privacy.calibration import calibrate, gaussian_scale
from pmldesign.privacy.guarantees import ApproxDP, CurrencyGuarantee, Guarantee, PureDP
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import as_written, float_above, root_above
from pmldesign.releases.lattices import lattice_of, table_of_ones
from pmldesign.releases.public_counts import counted
from pmldesign.releases.sampler import LARGEST_SCALE, Sampler, draw, privacy_map
from pmldesign.workloads import Workload
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.display import count_text
from pmldesign_solvers.limits import MEASUREMENTS, WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array

SMOOTHING = 4.0
"""r^2 of the discrete Gaussian that rounds the continuous one."""
BITS = (30, 40, 48)
"""k: rounding costs 2^-k times the condition of R; 30 is enough for nearly all, and the condition
of monomials (9e3) needs 40."""
COARSE_BITS = 20
"""Tried first for mixtures, whose D takes bits of the noise; of many strategies it is enough."""
AGREEMENT = 1e-9
"""The library rounds its losses upwards, by a few units in the last place."""
LATTICE_LOSS = 1e-6
"""The error on the lattice is above that of the design by this part at most."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Discrete noise on some measurements, independent except for the cube.

    Attributes:
        kind: Gaussian, Laplace or cube.
        scale: s or b, in units.
        units: u, shape (r,).
        own_grid: whether the measurements are integers without any rounding.
    """

    kind: Noise
    scale: float
    units: Array
    own_grid: bool = False

    @property
    def deviation(self) -> float:
        """Standard deviation on a measurement, the largest."""
        root = math.sqrt(self.kind.whole_variance(self.scale, self.units.size))
        return root * float(self.units.max())

    def times(self, factor: float) -> NoiseLaw:
        """The law of measurements that are multiplied by a number."""
        return replace(self, units=self.units * factor)


@dataclass(frozen=True, eq=False)
class AnswerNoise:
    """The noise of answers.

    Attributes:
        factorization: the strategy on the queries.
        laws: of runs of its measurements, one after the other, of equal deviation.
    """

    factorization: Factorization
    laws: tuple[NoiseLaw, ...]

    @property
    def deviations(self) -> Array:
        """Standard deviation of every answer, shape (m,)."""
        deviation = max(law.deviation for law in self.laws)
        return np.asarray(deviation * np.sqrt(self.factorization.variances))

    def answering(self, queries: Workload) -> AnswerNoise:
        """The noise of the answers to other queries, made of the same measurements."""
        known = self.factorization
        asked = given_invariants(queries, known.workload.public)
        return replace(self, factorization=Factorization(asked, known.strategy, known.neighbours))


@dataclass(frozen=True, eq=False)
class ExactNoise:
    """A mechanism whose measurements are whole numbers with exact noise.

    Attributes:
        mechanism: the design: its queries, strategy, noise and guarantee.
        lattice: Z and its units.
        bits: k; on the grid of the measurements themselves the bits of the entries of Z.
        sensitivity: l1 distance (Laplace), l_inf distance (cube) or squared l2 distance (Gaussian)
            of Z x of neighbours, who differ in all rows of a person.
        exact: whether that is exact, or rounded upwards.
        scale: b, or s, in units of the lattice.
        continuous: sigma, in units of the lattice; b for Laplace and cube noise.
        denominator: D: counts are whole multiples of 1/D.
    """

    mechanism: Mechanism
    lattice: Lattice
    bits: int
    sensitivity: int
    exact: bool
    scale: float
    continuous: float
    denominator: int = 1

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that the noise meets."""
        assert self.mechanism.calibration is not None
        return self.mechanism.calibration.guarantee

    @property
    def squared_ratio(self) -> Fraction:
        """mu^2 = Delta^2 / sigma^2 of Gaussian noise, as composition needs it."""
        square = Fraction(self.sensitivity)
        return square / Fraction(self.continuous) ** 2

    @property
    def pure_epsilon(self) -> Fraction:
        """Delta / b of Laplace or cube noise."""
        return Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def on_own_grid(self) -> bool:
        """Whether the measurements are integers without any rounding."""
        return self.mechanism.own_grid

    @property
    def of_answers(self) -> AnswerNoise:
        """The noise of the answers."""
        kind, units = self.mechanism.noise, self.lattice.units
        return AnswerNoise(
            self.factorization, (NoiseLaw(kind, self.scale, units, self.on_own_grid),)
        )

    @property
    def noise_scale(self) -> float:
        """The parameter b or s in the units of the strategy, the largest of the measurements."""
        return self.scale * float(self.lattice.units.max())

    @property
    def factorization(self) -> Factorization:
        """The lattice strategy on the workload."""
        mechanism = self.mechanism
        return Factorization(mechanism.workload, self.lattice.estimator, mechanism.neighbours)

    def measure(self, counts: Array | TableCounts, *, sampler: Sampler = draw) -> Array:
        """What the release knows of R x: the only place that data and noise meet.

        Args:
            counts: D x, whole numbers, shape (n,); or its tables, if they are all that is measured.
            sampler: another one is for tests alone, and gives no privacy.

        Returns:
            diag(units) (Z x + eta), without the part that is public; shape (r,).
        """
        if isinstance(counts, TableCounts):
            assert self.lattice.tables is not None
            clean = self.lattice.tables.of_tables(counts.tables)
        else:
            counts = np.asarray(counts, dtype=np.int64)
            clean = self.lattice.image(counts)
        noise = sampler(self.mechanism.noise, self.scale, len(clean)).astype(object)
        noisy = clean.astype(object) + noise
        if self.mechanism.neighbours is Neighbours.REPLACE:
            image, common = self._public_image(counts)
            noisy = (noisy * common - image) / common
        return np.asarray(noisy.astype(np.float64) * self.lattice.units)

    def _public_image(self, counts: Integers | TableCounts) -> tuple[Integers, int]:
        """D Z x0 and D, for the part x0 = sum_g N_g / n_g 1_g of x that is public."""
        lattice, cells = self.lattice, self.mechanism.workload.shape[1]
        if isinstance(counts, TableCounts):
            assert lattice.tables is not None
            sizes, subsets, of_tables = lattice.tables
            tables = [table_of_ones(sizes, subset) for subset in subsets]
            return of_tables(tables).astype(object) * counts.total, cells
        public = counted(self.mechanism.workload.public, counts)
        assert public is not None
        if len(public.groups) == 1:
            ones = np.ones(cells, dtype=np.int64)
            return lattice.image(ones).astype(object) * public.total, cells
        shares, common = public.spread_out(cells)
        return lattice.image(shares).astype(object), common


def exact_noise(mechanism: Mechanism, *, denominator: int = 1) -> ExactNoise:
    """The mechanism on a lattice fine enough, with noise that keeps its guarantee exactly.

    Args:
        mechanism: a strategy with calibrated noise.
        denominator: D: a record is a mixture of cells in parts of 1/D; 1 under PML.

    Raises:
        InvalidInputError: the guarantee or the noise is missing, or D does not fit the guarantee.
    """
    if mechanism.calibration is None or mechanism.scale == 0:
        raise InvalidInputError("a release needs a guarantee that asks for noise; pass `epsilon`")
    guarantee = mechanism.calibration.guarantee
    public, cells = mechanism.workload.public, mechanism.workload.shape[1]
    if public.kind == "tables" and cells > WRITTEN_CELLS:
        raise InvalidInputError(
            f"releases beside the known answers {public.name!r} are for at most"
            f" {WRITTEN_CELLS} cells, here are {cells}; take the known answers 'total', or fewer"
            " cells"
        )
    require_cells(guarantee, fractions=denominator != 1)
    kind, strategy = mechanism.noise, mechanism.strategy
    if max(strategy.shape[0], mechanism.workload.shape[0]) > MEASUREMENTS:
        raise InvalidInputError(
            f"the release has {count_text(mechanism.workload.shape[0])} answers from"
            f" {count_text(strategy.shape[0])} measurements; at most {MEASUREMENTS} are released,"
            " so ask for fewer combinations, or join values in the schema"
        )
    if mechanism.unit is not None:
        own = own_lattice(strategy)
        assert own is not None
        assert own.matrix is not None
        bits = int(np.abs(own.matrix).max()).bit_length()
        return calibrated_on(mechanism, own, bits, denominator)
    wanted = mechanism.scale * mechanism.factorization.unit_error(kind, 2)
    tried = BITS if denominator == 1 else (COARSE_BITS, *BITS)
    coarse = lattice_of(strategy, mechanism.workload, tried[0])
    biased = coarse.bias > 0  # the less so, the finer the lattice
    best = None
    for bits in reversed(tried) if biased else tried:
        lattice = coarse if bits == tried[0] else lattice_of(strategy, mechanism.workload, bits)
        noisy = calibrated_on(mechanism, lattice, bits, denominator)
        if noisy.scale > LARGEST_SCALE:
            continue
        best = noisy
        error = noisy.noise_scale * noisy.factorization.unit_error(kind, 2)
        if biased or error <= wanted * (1 + LATTICE_LOSS):
            break
    if best is None:
        raise InvalidInputError(
            f"the noise is {noisy.scale:.3g} units of the lattice, more than 2^55; take a larger "
            + ("epsilon" if denominator == 1 else "unit of the numbers in the schema, or epsilon")
        )
    return best


def calibrated_on(
    mechanism: Mechanism, lattice: Lattice, bits: int, denominator: int = 1
) -> ExactNoise:
    """The noise on a given lattice, for records in parts of 1/denominator."""
    assert mechanism.calibration is not None
    guarantee, kind = mechanism.calibration.guarantee, mechanism.noise
    sensitivity, exact = lattice.sensitivity(mechanism.neighbours, kind)
    sensitivity *= denominator**2 if kind is Noise.GAUSSIAN else denominator
    lattice = replace(lattice, units=lattice.units / denominator)
    if kind is not Noise.GAUSSIAN and isinstance(guarantee, PureDP | ApproxDP):
        scale = continuous = laplace_parameter(sensitivity, guarantee.epsilon)
        return ExactNoise(
            mechanism, lattice, bits, sensitivity, exact, scale, continuous, denominator
        )
    distance = math.sqrt(sensitivity) * (1 + SENSITIVITY_ROUNDING)
    if isinstance(guarantee, CurrencyGuarantee):
        if kind is Noise.LAPLACE:
            raise InvalidInputError(
                "a release with rho, mu or Renyi privacy has Gaussian noise: the curves of Laplace"
                " noise are for continuous noise; use `noise='gaussian'`, or a guarantee of epsilon"
            )
        sigma = gaussian_scale(distance, guarantee.gaussian_square)
    elif isinstance(guarantee, ApproxDP):
        sigma = analytic_gaussian_scale(distance, epsilon=guarantee.epsilon, delta=guarantee.delta)
    else:
        calibration = calibrate(lattice.measured, guarantee, noise=kind)
        sigma = (
            calibration.scale
            * (1 + SENSITIVITY_ROUNDING)
            * (1 + lattice.distortion)
            / lattice.units.min()
        )
    scale = sigma if kind is Noise.LAPLACE else gaussian_parameter(sigma)
    return ExactNoise(
        mechanism, lattice, bits, sensitivity, exact, scale, float(sigma), denominator
    )


def require_agreement(noise: ExactNoise) -> None:
    """Check with the sampling library what its noise protects, before anything is spent.

    Raises:
        PmldesignError: it is not installed, or its privacy map promises less than this module.
    """
    if noise.mechanism.noise is Noise.CUBE:
        return  # which the library does not know
    distance = noise.sensitivity
    expected = float(noise.pure_epsilon)
    if noise.mechanism.noise is Noise.GAUSSIAN:
        expected = float(Fraction(distance) / (2 * Fraction(noise.scale) ** 2))
    if noise.mechanism.noise is Noise.LAPLACE and distance >= 2**62:
        return  # its distances have 64 bits
    said = privacy_map(noise.mechanism.noise, noise.scale, distance)
    if not said <= expected * (1 + AGREEMENT):
        raise PmldesignError(
            f"OpenDP says that the noise has a loss of {said!r}, here it is {expected!r}; nothing "
            "is released"
        )


def laplace_parameter(sensitivity: int, epsilon: float) -> float:
    """Smallest float b with Fraction(sensitivity) / Fraction(b) <= epsilon, also as written."""
    least = min(Fraction(epsilon), as_written(epsilon))
    return float_above("the parameter of the noise", Fraction(sensitivity) / least)


def gaussian_parameter(sigma: float) -> float:
    """A float s with s^2 >= sigma^2 + 4."""
    return root_above(Fraction(sigma) ** 2 + Fraction(SMOOTHING))
