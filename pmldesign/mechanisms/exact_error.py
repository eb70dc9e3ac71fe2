"""The mechanism: a strategy, noise on its measurements, and the guarantee that they meet.

M(x) = L (R x + scale z), L R = A, with z i.i.d. standard Gaussian or Laplace(1). The error is that
of scale L z and does not depend on the data (`factorization`). On the grid of whole measurements
scale z is discrete (`discrete`).
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike

from pmldesign.arguments import exponent, positive
from pmldesign.errors import InvalidInputError, require_extra
from pmldesign.factorization import Factorization
from pmldesign.mechanisms.discrete import discrete_error, own_deviation, own_unit
from pmldesign.privacy.calibration import Calibration
from pmldesign.privacy.curves import PrivacyCurve, curve_of, pure_curve
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.loss import Fallback, fallback_of
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise, gaussian_moment_root
from pmldesign.privacy.outward import at_least, shortest
from pmldesign.privacy.priors import OnPriors
from pmldesign.privacy.sampled_steps import SampledCurve
from pmldesign.strategies import Strategy
from pmldesign.workloads import Workload
from pmldesign.workloads.display import Displayed, Drawn, Facts
from pmldesign.workloads.running import lists_queries
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pmldesign
    from pmldesign.mechanisms.maxima import ExpectedMaximum
    from pmldesign.streams import CorrelatedNoise, Stream, VectorStream
    from pmldesign.streams.noise import GridNoise

INTEGER_LAPLACE = "integer-laplace"
"""After the name of noise on the grid of whole measurements."""


class ReleaseArguments(TypedDict, total=False):
    """The options of `pmldesign.release`."""

    level: float
    simultaneous: bool
    nonnegative: bool
    integers: bool
    ledger: pmldesign.Ledger | str | Path | None
    budget: pmldesign.Budget | str | None
    plan: pmldesign.Plan | str | None
    population: str | None
    confirm_same_population: bool
    noise: Literal["laplace", "integer-laplace"] | None
    counted: bool
    sampler: Callable[..., Any]


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(Drawn, Displayed):
    """A strategy with calibrated noise, and its exact error on a workload.

    Attributes:
        factorization: the strategy and the workload.
        noise: Gaussian, Laplace or cube.
        sensitivity: largest distance of neighbours' measurements: l2 for Gaussian noise, l1 for
            Laplace and l_inf for cube noise.
        scale: standard deviation (Gaussian) or b (Laplace, cube) of the noise on each measurement.
        calibration: how the scale was found; None without a guarantee.
        p: of the l_p^p error that it was chosen for, in [2, inf].
        own_grid: whether the Laplace noise is integer-valued, for integer measurements, which is
            less noise, with only epsilon claimed.
    """

    factorization: Factorization
    noise: Noise
    sensitivity: float
    scale: float
    calibration: Calibration | None
    p: float = 2.0
    own_grid: bool = False

    @property
    def guarantee(self) -> Guarantee | None:
        """What the noise meets; None for a scale equal to the sensitivity."""
        return None if self.calibration is None else self.calibration.guarantee

    @property
    def words(self) -> str:
        """The sentence of the guarantee, and of a record if people have several; "" without one."""
        if self.guarantee is None:
            return ""
        participation = self.strategy.participation
        more = "" if participation is None else participation.sentence
        return self.guarantee.describe(self.strategy.cells) + more

    @property
    def workload(self) -> Workload:
        """A, the queries; without its total under replace."""
        return self.factorization.workload

    @property
    def strategy(self) -> Strategy:
        """R, the measurements; without its total under replace."""
        return self.factorization.strategy

    @property
    def unweighted(self) -> Mechanism | None:
        """The mechanism on the queries without their weights; None without weights."""
        plain = self.factorization.unweighted
        return None if plain is None else replace(self, factorization=plain)

    @property
    def privacy(self) -> PrivacyCurve:
        """The guarantee in every privacy definition, for the neighbours of the sensitivity."""
        sampling = self.strategy.sampling
        if sampling is not None:
            return sampling.curve(self.sensitivity, self.scale)
        curve = curve_of(self.noise, self.sensitivity, self.scale)
        return pure_curve(curve.ratio) if self.own_grid else curve

    def dp_event(self) -> Any:
        """The mechanism as an event of the package dp-accounting, which composes events.

        Its neighbouring relation is to be that of the mechanism. The noise multiplier is rounded
        down, so that the result of an accountant is on the private side.

        Raises:
            InvalidInputError: dp-accounting is not installed.
        """
        require_extra("dp_event", "dp_accounting", "release")
        from dp_accounting import dp_event

        if self.sensitivity == 0:
            return dp_event.NoOpDpEvent()
        if self.scale == 0:
            return dp_event.NonPrivateDpEvent()
        sampling, curve = self.strategy.sampling, self.privacy
        ratio = curve.step if isinstance(curve, SampledCurve) else curve.ratio
        multiplier = 1 / ratio
        while Fraction(multiplier) * Fraction(ratio) > 1:
            multiplier = math.nextafter(multiplier, 0.0)
        if sampling is not None:
            step = dp_event.GaussianDpEvent(multiplier)
            drawn = dp_event.PoissonSampledDpEvent(sampling.rate, step)
            return dp_event.SelfComposedDpEvent(drawn, sampling.rounds)
        if self.noise is Noise.GAUSSIAN:
            return dp_event.GaussianDpEvent(multiplier)
        if self.own_grid or self.noise is Noise.CUBE:
            raise InvalidInputError(
                "dp-accounting has no event for cube noise, or for noise on the grid of the"
                " measurements; use other noise"
            )
        return dp_event.LaplaceDpEvent(multiplier)

    @property
    def neighbours(self) -> Neighbours:
        """The neighbour relation of the sensitivity."""
        return self.factorization.neighbours

    @property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        return self.factorization.variances

    @property
    def noise_name(self) -> str:
        """What tables call its noise: "gaussian", "laplace", "cube", or "integer-laplace"."""
        return INTEGER_LAPLACE if self.own_grid else self.noise.value

    @cached_property
    def unit(self) -> float | None:
        """The unit of the grid of measurements that the noise is on; None for continuous noise.

        Raises:
            InvalidInputError: the measurements have no such grid.
        """
        return own_unit(self.strategy, self.noise, self.scale) if self.own_grid else None

    def _display(self) -> tuple[str, Facts]:
        noise = f"{self.noise_name.capitalize()} noise of scale {at_least(self.scale)}"
        title = f"Mechanism for {self.workload.name!r}: {noise} on {self.strategy.name!r}"
        facts = [("rmse", f"{self.rmse:.6g}")]
        if self.known_max_std is not None:
            facts.append(("max std", f"{self.known_max_std:.6g}"))
        with contextlib.suppress(InvalidInputError):  # Laplace noise on a large workload
            facts.insert(0, (f"err_{shortest(self.p)}", f"{self.error():.6g}"))
        promise = "no guarantee" if self.guarantee is None else repr(self.guarantee)
        return title, [*facts, ("for", promise)]

    def error(self, p: float | None = None) -> float:
        """Exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.

        Args:
            p: in [2, inf]; None for the p that it was chosen for.

        Raises:
            InvalidInputError: p below 2 or NaN, or an error beyond the range of float64.
        """
        p = self.p if p is None else exponent(p)
        if self.unit is None:
            return self._finite(self.scale * self.factorization.unit_error(self.noise, p))
        if p == 2 or math.isinf(p):
            return self._finite(self._deviation * self.factorization.unit_error(Noise.GAUSSIAN, p))
        found = discrete_error(self.unit * self.reconstruction(), self.scale / self.unit, p)
        if found is None:
            raise InvalidInputError(
                f"the error on the grid of the measurements is not computed at p = {p:g}; take an"
                " even p, inf, or `noise='laplace'`"
            )
        return self._finite(found)

    def least_error(self, p: float) -> float:
        """At most `error`, and cheap."""
        p = exponent(p)
        if self.unit is None:
            return self.scale * self.factorization.least_unit_error(self.noise, p)
        gaussian = self.factorization.unit_error(Noise.GAUSSIAN, p) / gaussian_moment_root(p)
        return self._deviation * gaussian

    @property
    def rmse(self) -> float:
        """Root mean squared error of a query."""
        return self._finite(self._deviation * self.factorization.root_mean_square)

    @property
    def _deviation(self) -> float:
        """The standard deviation of the noise on a measurement."""
        if self.unit is not None:
            return own_deviation(self.unit, self.scale)
        return self.scale * math.sqrt(self.noise.variance(self.strategy.shape[0]))

    def _finite(self, value: float) -> float:
        if not math.isfinite(value):
            raise InvalidInputError(
                f"the error of strategy {self.strategy.name!r} with noise of scale "
                f"{self.scale:.3g} is outside the range of float64; rescale the workload, which "
                "rescales all errors alike, or take a larger epsilon"
            )
        return value

    @property
    def max_std(self) -> float:
        """Largest standard deviation of a query."""
        return self.error(math.inf)

    @cached_property
    def expected_max(self) -> ExpectedMaximum:
        """E max_i |e_i|, the expected largest error of all queries, and its standard error.

        Raises:
            InvalidInputError: too large (`mechanisms.maxima` has the limits).
        """
        from pmldesign.mechanisms.maxima import expected_maximum

        return expected_maximum(self.factorization, self.noise, self.scale, self.unit)

    @property
    def known_max_std(self) -> float | None:
        """`max_std`; None for all ranges of so many cells that no array has a number for each."""
        return self.max_std if lists_queries(self.workload) else None

    def stream(self, *, noise: GridNoise | None = None) -> Stream:
        """The mechanism online: a step for each cell, with its noisy running sum or window.

        Of `prefix:24*histogram:12` a step takes and answers 12 numbers.

        Args:
            noise: its source; None for OpenDP's exact sampler if that is installed, and otherwise
                floating-point noise, which is not for publication.

        Raises:
            InvalidInputError: no Gaussian noise, a guarantee on priors, other queries, or a
                strategy of rank below n.
        """
        from pmldesign.streams import Stream
        from pmldesign.streams.on_line import on_line_of, one_series, series_of

        self._require_stream(self.workload.public.kind in ("nothing", "records"))
        workload, series = series_of(self.workload.whole)
        strategy = one_series(self.strategy, workload.shape[1])
        return Stream(on_line_of(strategy, workload, self.neighbours), self._unit, noise, series)

    def vector_stream(self, width: int, *, seed: int | None = None) -> VectorStream:
        """The mechanism online for vectors of `width` numbers, in floating point.

        Args:
            width: d, numbers of a step.
            seed: of the noise; None for one from the operating system.

        Raises:
            InvalidInputError: as `stream`.
        """
        from pmldesign.streams import VectorStream
        from pmldesign.streams.recurrences import lower_triangular

        self._require_stream(self.neighbours is Neighbours.ADD_REMOVE)
        strategy = lower_triangular(self.strategy)
        return VectorStream(strategy, self._unit, width, seed=seed, workload=self.workload)

    def training_noise(
        self,
        width: int,
        dtype: DTypeLike = np.float32,
        seed: int | None = None,
        *,
        clip: float = 1.0,
    ) -> CorrelatedNoise:
        """The noise for each step of training, for vectors of `width` numbers, in floating point.

        Args:
            width: d, numbers of a step.
            dtype: of the noise, float32 or float64.
            seed: of the noise, for simulations; None for noise from the operating system.
            clip: largest l2 norm of the contribution of a record to a step.

        Raises:
            InvalidInputError: no Gaussian noise, replace neighbours, an argument out of range, or a
                strategy of rank below n.
        """
        from pmldesign.streams import CorrelatedNoise
        from pmldesign.streams.recurrences import lower_triangular

        self._require_stream(self.neighbours is Neighbours.ADD_REMOVE)
        strategy = lower_triangular(self.strategy)
        scale = self._unit * strategy.sensitivity * positive("clip", clip)
        return CorrelatedNoise(strategy, scale, width, dtype=dtype, seed=seed)

    def _require_stream(self, neighbours: bool) -> None:
        """Refuse mechanisms that streams do not support."""
        on_priors = self.guarantee is not None and self.guarantee.pml
        if self.noise is not Noise.GAUSSIAN or on_priors or not neighbours:
            raise InvalidInputError(
                "a stream needs Gaussian noise and add-remove neighbours, of numbers also replace"
                " ones beside the number of records alone; pass `noise='gaussian'`"
            )

    @property
    def _unit(self) -> float:
        """Scale of the noise of a stream at sensitivity 1."""
        return self.scale / self.sensitivity * (1.0 + 4e-16)

    def release(
        self,
        data: Any,
        *,
        schema: pmldesign.Schema | Mapping[str, Any] | str | Path | None = None,
        **options: Unpack[ReleaseArguments],
    ) -> pmldesign.Release:
        """Answer the queries on data, with exact noise: a table with intervals, and a manifest.

        Args:
            data: people (a path or a data frame) with a schema; a histogram (a path or an array)
                without.
            schema: attributes of people: a path, a dictionary, or a `Schema`.
            options: those of `pmldesign.release`: level, simultaneous, nonnegative,
                integers, ledger, budget, plan.

        Raises:
            InvalidInputError, InfeasibleError, FileError: as `pmldesign.release`.
        """
        import pmldesign

        return pmldesign.release(self, data, schema=schema, **options)

    @cached_property
    def fallback(self) -> Fallback | None:
        """What is left of a PML guarantee if alpha is less; None without noise for one."""
        if not isinstance(self.guarantee, OnPriors) or self.scale == 0:
            return None
        return fallback_of(self.strategy, self.guarantee, self.noise, self.scale)

    def reconstruction(self) -> Array:
        """L = A R^+, shape (m, r): answers are L (R x + noise)."""
        return self.strategy.reconstruction(self.workload)

    @property
    def standard_deviations(self) -> Array:
        """Standard deviation of each answer, shape (m,)."""
        return self._deviation * self.factorization.deviations
