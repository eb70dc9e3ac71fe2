"""A strategy on a workload: sensitivities, variances, and errors at noise of scale 1.

All of these are the same for every guarantee. Under the replace relation (always for PML) the
number of records is public, and R and A count without the parts that it and other invariants
determine (`workloads.public`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from pmldesign.arguments import exponent, member
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import (
    Noise,
    cube_error,
    gaussian_error,
    gaussian_moment_root,
    laplace_error,
)
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.schema import Participation, participation_refusal
from pmldesign.workloads import DenseWorkload, Workload, as_workload
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.beside import given_invariants
from pmldesign.workloads.invariants import as_public
from pmldesign.workloads.public import RECORDS, Public, beside_records
from pmldesign_solvers.limits import MAX_ENTRIES
from pmldesign_solvers.operators.operator import TINY, Array
from pmldesign_solvers.operators.scale import MODERATE, Exponents

if TYPE_CHECKING:
    from pmldesign.privacy.calibration import Calibration


@dataclass(frozen=True, eq=False)
class Factorization:
    """A strategy that answers a workload: all that no guarantee changes, computed once.

    Attributes:
        workload: A, the queries, given the invariants.
        strategy: R, the measurements, given the invariants.
        neighbours: the relation for which the sensitivity is defined.
        calibrations: of the noise on the strategy (`mechanisms.calibrated` keeps them). The key is
            the identity of the guarantee: equal ones may differ in the knowledge of a sample.
    """

    workload: Workload
    strategy: Strategy
    neighbours: Neighbours
    _unit_errors: dict[tuple[Noise, float], float] = field(default_factory=dict, repr=False)
    calibrations: dict[tuple[int, Noise], Calibration] = field(default_factory=dict, repr=False)

    @cached_property
    def unweighted(self) -> Factorization | None:
        """The same strategy on the queries without their weights; None if they have no weights."""
        plain = self.workload.whole.unweighted
        if plain is None:
            return None
        return Factorization(
            given_invariants(plain, self.workload.public), self.strategy, self.neighbours
        )

    @cached_property
    def in_range(self) -> tuple[Workload, Exponents]:
        """The workload, and exponents of two to multiply its rows by.

        They are not 0 where squares of entries would leave the range of float64.
        """
        m, n = self.workload.shape
        inner = self.workload.inner
        none = np.zeros(m if m * n <= MAX_ENTRIES else 1, dtype=np.intp)
        if m * n > MAX_ENTRIES:
            return self.workload, none
        sizes = inner.row_sizes()
        exponents = np.where(sizes > 0, np.frexp(sizes)[1], 0)
        if np.abs(exponents).max() <= MODERATE:
            return self.workload, none
        rows = np.ldexp(inner.to_dense(), -exponents[:, None])
        scaled = DenseWorkload(rows, name=inner.name, copy=False, label=inner.row_label)
        return given_invariants(scaled, self.workload.public), exponents

    @cached_property
    def _deviations(self) -> tuple[Array, int]:
        """Roots of the variances and the exponent of two to multiply them by, shape (m,)."""
        workload, exponents = self.in_range
        roots = np.sqrt(self.strategy.variances(workload))
        top = int(exponents.max())
        return np.ldexp(roots, exponents - top), top

    @cached_property
    def deviations(self) -> Array:
        """Standard deviation of each answer per unit standard deviation of the noise, (m,)."""
        deviations, exponent = self._deviations
        return np.ldexp(deviations, exponent)

    @cached_property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        deviations, exponent = self._deviations
        return np.ldexp(deviations**2, 2 * exponent)

    @property
    def root_mean_square(self) -> float:
        """Root of the mean variance of the answers, per unit variance of the noise."""
        return self.unit_error(Noise.GAUSSIAN, 2) / math.sqrt(self.workload.shape[0])

    def sensitivity(self, noise: Noise) -> float:
        """Largest distance of neighbours' measurements, in the norm of the noise."""
        return self.strategy.sensitivity_for(self.neighbours, member("noise", noise, Noise))

    def norm(self, p: float) -> float:
        """The strategy's value for gamma_(p)(A), or its replace version: at least that norm.

        It is tr_{p/2}(L L^T)^(1/2) times the l2 sensitivity.
        """
        p = exponent(p)
        spread = self.unit_error(Noise.GAUSSIAN, p) / gaussian_moment_root(p)
        return spread * self.sensitivity(Noise.GAUSSIAN)

    def unit_error(self, noise: Noise, p: float) -> float:
        """Exact l_p^p error of noise of scale 1; p in [2, inf]."""
        noise, p = member("noise", noise, Noise), exponent(p)
        if (noise, p) not in self._unit_errors:
            self._unit_errors[noise, p] = self._unit_error(noise, p)
        return self._unit_errors[noise, p]

    def _unit_error(self, noise: Noise, p: float) -> float:
        if noise is Noise.GAUSSIAN:
            norm = self.strategy.norm_by_structure(self.workload, p / 2)
            if norm is None:
                deviations, exponent = self._deviations
                return self._times_power_of_two(gaussian_error(deviations**2, p=p), exponent)
            return gaussian_moment_root(p) * math.sqrt(norm)
        if p == 2 or np.isinf(p):
            return self._unit_deviation(noise) * self.unit_error(Noise.GAUSSIAN, p)
        queries, measurements = self.workload.shape[0], self.strategy.shape[0]
        check_entries(
            f"the reconstruction, which the error of {noise} noise at p = {p:g} needs,",
            (max(queries, self.strategy.cells), measurements),
            remedy="take p = 2 or inf, or Gaussian noise (a guarantee with a delta)",
        )
        workload, exponents = self.in_range
        top = int(exponents.max())
        rows = np.ldexp(self.strategy.reconstruction(workload).T, exponents - top).T
        error_of = cube_error if noise is Noise.CUBE else laplace_error
        return self._times_power_of_two(error_of(rows, p=p), top)

    def _unit_deviation(self, noise: Noise) -> float:
        return math.sqrt(noise.variance(self.strategy.shape[0]))

    def _times_power_of_two(self, error: float, exponent: int) -> float:
        with np.errstate(over="ignore", under="ignore"):
            value = float(np.ldexp(error, exponent))
        if exponent and not TINY <= value < math.inf:
            raise InvalidInputError(
                f"workload {self.workload.name!r}: the error of strategy {self.strategy.name!r} is "
                f"near 2^{exponent}, outside the range of float64; rescale the workload, which "
                "rescales all errors alike"
            )
        return value

    def least_unit_error(self, noise: Noise, p: float) -> float:
        """At most `unit_error`, and cheap: Laplace noise is a mixture of Gaussians (Jensen)."""
        lost = gaussian_moment_root(p) if noise is Noise.CUBE else 1.0
        return self._unit_deviation(noise) * self.unit_error(Noise.GAUSSIAN, p) / lost


_KNOWN: WeakValueDictionary[tuple[int, int, Neighbours], Factorization] = WeakValueDictionary()
"""By strategy, workload and relation, for as long as the caller holds the factorization, which
holds both objects: their numbers are not given to others meanwhile."""


def answer(strategy: Strategy, workload: Workload, neighbours: Neighbours) -> Factorization:
    """The strategy on the workload, both given the invariants; the same object while it is held.

    Raises:
        InvalidInputError: the strategy cannot answer the workload, or neighbours change the
            invariants.
    """
    public = public_for(workload, neighbours)
    if public and isinstance(strategy.participation, Participation):
        raise participation_refusal()
    if public.name and neighbours is not Neighbours.REPLACE:
        raise beside_records(public.name)
    workload, strategy = given_invariants(workload, public), strategy.beside(public)
    key = id(strategy), id(workload), neighbours
    known = _KNOWN.get(key)
    if known is not None:
        return known
    factorization = Factorization(workload, strategy, neighbours)
    strategy.require_answers(factorization.in_range[0])
    _KNOWN[key] = factorization
    return factorization


def public_for(workload: Workload, neighbours: Neighbours) -> Public:
    """The invariants of a workload: under replace the number of records at least."""
    return RECORDS if neighbours is Neighbours.REPLACE and not workload.public else workload.public


def with_known(
    workload: Any, guarantee: Guarantee | None, known: Any
) -> tuple[Workload, Guarantee | None]:
    """The workload and the guarantee, given public answers.

    Args:
        workload: A, what `as_workload` takes.
        guarantee: its neighbours become those that leave the answers as they are.
        known: queries whose answers are public: "total", or what `as_workload` takes; None for
            none.

    Returns:
        A itself if only the number of records is public: the neighbours imply that.

    Raises:
        InvalidInputError: as `as_public`, or a guarantee that has no such neighbours.
    """
    queries = as_workload(workload)
    if guarantee is not None:
        require_guarantee(guarantee)
    if known is None:
        return queries, guarantee
    public = as_public(known, queries.shape[1])
    if public.name:
        queries = given_invariants(queries, public)
    return queries, guarantee and guarantee.beside(public)
