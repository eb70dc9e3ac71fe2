"""The mechanism: a strategy, noise on what it measures, and the guarantee that they meet.

M(x) = L (R x + scale z), L R = A, with z i.i.d. standard Gaussian or Laplace(1). The error is that
of scale L z and does not depend on the data (`factorization`).

Without a guarantee the scale is the sensitivity itself, so that errors compare strategies: that is
1/2-zCDP for Gaussian noise and 1-DP for Laplace noise.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pmldesign.arguments import exponent
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer
from pmldesign.privacy.alpha.fallback import Fallback, fallback_of
from pmldesign.privacy.calibration import Calibration, calibrate, require_attainable
from pmldesign.privacy.currencies.composition import composed
from pmldesign.privacy.currencies.curves import PrivacyCurve, curve_of
from pmldesign.privacy.digits import at_least, shortest
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import LARGEST_EXPONENT, Noise, laplace_exponent
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy, as_strategy
from pmldesign.strategies.known import with_known
from pmldesign.strategies.participation.schema import Participation, as_participation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload, as_workload
from pmldesign.workloads.display import Displayed, Facts
from pmldesign.workloads.public_total import CentredWorkload
from pmldesign.workloads.running import AllRangesWorkload
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    import pmldesign
    from pmldesign.streams.noise import GridNoise
    from pmldesign.streams.stream import Stream, VectorStream

NoiseChoice = Literal["auto", "gaussian", "laplace"]


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(Displayed):
    """A strategy with calibrated noise, and its exact error on a workload.

    Attributes:
        factorization: the strategy and the workload.
        noise: Gaussian or Laplace.
        sensitivity: largest distance of neighbours' measurements: l2 for Gaussian noise, l1 for
            Laplace noise.
        scale: standard deviation (Gaussian) or b (Laplace) of the noise on each measurement.
        calibration: how the scale was found; None without a guarantee.
        p: of the l_p^p error that it was chosen for, in [2, inf].
    """

    factorization: Factorization
    noise: Noise
    sensitivity: float
    scale: float
    calibration: Calibration | None
    p: float = 2.0

    @property
    def guarantee(self) -> Guarantee | None:
        """What the noise meets; None for a scale equal to the sensitivity."""
        return None if self.calibration is None else self.calibration.guarantee

    @property
    def workload(self) -> Workload:
        """A, what is answered; without its total under replace."""
        return self.factorization.workload

    @property
    def strategy(self) -> Strategy:
        """R, what is measured; without its total under replace."""
        return self.factorization.strategy

    @property
    def unweighted(self) -> Mechanism | None:
        """The mechanism on the queries without their weights; None where they have none."""
        plain = self.factorization.unweighted
        return None if plain is None else replace(self, factorization=plain)

    @property
    def privacy(self) -> PrivacyCurve:
        """What the noise satisfies in every currency, for the neighbours of the sensitivity."""
        return curve_of(self.noise, self.sensitivity, self.scale)

    def dp_event(self) -> Any:
        """The mechanism as an event of the package dp-accounting, which composes events.

        Its neighbouring relation is to be that of the mechanism. The noise multiplier is rounded
        down, so that what an accountant says is on the private side.

        Raises:
            InvalidInputError: dp-accounting is not installed.
        """
        try:
            from dp_accounting import dp_event
        except ImportError:
            raise InvalidInputError(
                "dp_event needs the package dp-accounting; run: pip install dp-accounting"
            ) from None
        if self.sensitivity == 0:
            return dp_event.NoOpDpEvent()
        if self.scale == 0:
            return dp_event.NonPrivateDpEvent()
        multiplier = 1 / self.privacy.ratio
        while Fraction(multiplier) * Fraction(self.privacy.ratio) > 1:
            multiplier = math.nextafter(multiplier, 0.0)
        if self.noise is Noise.GAUSSIAN:
            return dp_event.GaussianDpEvent(multiplier)
        return dp_event.LaplaceDpEvent(multiplier)

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the sensitivity speaks of."""
        return self.factorization.neighbours

    @property
    def variances(self) -> Array:
        """diag(L L^T), shape (m,): variance of each answer per unit variance of the noise."""
        return self.factorization.variances

    def _display(self) -> tuple[str, Facts]:
        noise = f"{self.noise.value.capitalize()} noise of scale {at_least(self.scale)}"
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
        return self._scaled(self.factorization.unit_error(self.noise, p))

    @property
    def rmse(self) -> float:
        """Root mean squared error of a query."""
        return self._scaled(math.sqrt(self.noise.variance) * self.factorization.root_mean_square)

    def _scaled(self, unit: float) -> float:
        value = self.scale * unit
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

    @property
    def known_max_std(self) -> float | None:
        """`max_std`; None for all ranges of so many cells that no array has a number for each."""
        if isinstance(self.workload, AllRangesWorkload):
            return None
        return self.max_std

    def stream(self, *, noise: GridNoise | None = None) -> Stream:
        """The mechanism on line: a step for each cell, with its noisy running sum.

        Args:
            noise: where it comes from; None for OpenDP's exact sampler where that is installed,
                and floating-point noise, not for publication, where it is not.

        Raises:
            InvalidInputError: no Gaussian noise, replace neighbours, no running sums, or a strategy
                of rank below n.
        """
        from pmldesign.streams.recurrences import lower_triangular
        from pmldesign.streams.stream import Stream

        return Stream(lower_triangular(self.strategy), self._unit(), noise, self.workload)

    def vector_stream(self, width: int, *, seed: int | None = None) -> VectorStream:
        """The mechanism on line for vectors of `width` numbers, in floating point.

        Args:
            width: d, numbers of a step.
            seed: of the noise; None for one from the operating system.

        Raises:
            InvalidInputError: as `stream`.
        """
        from pmldesign.streams.recurrences import lower_triangular
        from pmldesign.streams.stream import VectorStream

        strategy = lower_triangular(self.strategy)
        return VectorStream(strategy, self._unit(), width, seed=seed, workload=self.workload)

    def _unit(self) -> float:
        """Scale of the noise of a stream at sensitivity 1."""
        if self.noise is not Noise.GAUSSIAN or self.neighbours is Neighbours.REPLACE:
            raise InvalidInputError(
                "a stream needs Gaussian noise and add-remove neighbours; give noise='gaussian'"
            )
        return self.scale / self.sensitivity * (1.0 + 4e-16)

    def release(self, data: Any, *, schema: Any = None, **options: Any) -> pmldesign.Release:
        """Answer the queries on data, with exact noise: a table with intervals, and a manifest.

        Args:
            data: people (a path or a data frame) with a schema; a histogram (a path or an array)
                without.
            schema: attributes of people: a path, a dictionary, or a `Schema`.
            options: those of `pmldesign.release_tables`: level, simultaneous, nonnegative,
                integers, quantiles, ledger, budget.

        Raises:
            InvalidInputError, InfeasibleError, FileError: as `pmldesign.release_tables`.
        """
        import pmldesign

        return pmldesign.release_tables(self, data, schema=schema, **options)

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
        return math.sqrt(self.noise.variance) * self.scale * self.factorization.deviations


def mechanism(
    strategy: Any,
    workload: Any = None,
    *,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    p: float | None = None,
    neighbours: Neighbours | str | None = None,
    participation: Participation | str | None = None,
    known: Any = None,
    allow_vacuous: bool = False,
) -> Mechanism:
    """Put the noise on a strategy that a guarantee asks for.

    Args:
        strategy: R, shape (r, n): a factorization (what `factorize` gives), a Strategy, the name of
            a baseline such as "tree", or a matrix.
        workload: A, shape (m, n), whatever `as_workload` takes; None for that of the factorization.
        guarantee: what is to be met; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", or "auto" for the one with the smaller error at p among those
            that can meet the guarantee (Gaussian without a guarantee).
        p: in [2, inf], for noise "auto"; None for that of the factorization, or 2.
        neighbours: "add-remove" or "replace", where there is no guarantee to say it; None for that
            of the factorization, or "add-remove".
        participation: how often a person takes part in the steps of a stream, such as
            "16,every=64"; None for what the strategy was made for, or once.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        allow_vacuous: accept a guarantee that every mechanism satisfies.

    Raises:
        InvalidInputError: the strategy cannot answer the workload, or an argument out of range.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: the guarantee needs no noise at all, and that is not allowed.
    """
    given = None if isinstance(strategy, Strategy) else strategy
    queries = answered_workload(given) if workload is None else as_workload(workload)
    if neighbours is None:
        neighbours = getattr(given, "neighbours", Neighbours.ADD_REMOVE)
    if known is not None:
        queries, guarantee = with_known(queries, guarantee, known)
        neighbours = Neighbours.REPLACE
    if p is None:
        p = getattr(given, "p", 2.0)
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    p = exponent(p)
    kinds = admissible(guarantee, noise, p)
    measured, schema = as_strategy(strategy, queries), as_participation(participation)
    if schema is not None:
        measured = with_participation(measured, schema)
    factorization = answer(measured, queries, relation)
    candidates = tuple(
        calibrated(factorization, guarantee, kind, allow_vacuous=allow_vacuous) for kind in kinds
    )
    return replace(smallest_error(candidates, p), p=p)


def compose(releases: Sequence[Mechanism | PrivacyCurve]) -> PrivacyCurve:
    """What several releases satisfy together: of Gaussian noise exactly those of one.

    Args:
        releases: mechanisms with one kind of noise for one relation of neighbours, or their
            `privacy`.

    Returns:
        The curve of all together, rounded up: `.mu`, `.rho`, `.epsilon(delta)` and so on.

    Raises:
        InvalidInputError: none, both kinds of noise, or different neighbours.
    """
    mechanisms = [release for release in releases if isinstance(release, Mechanism)]
    if len({release.neighbours for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different neighbours; calibrate all for add-remove or for replace"
        )
    return composed(
        [release.privacy if isinstance(release, Mechanism) else release for release in releases]
    )


def answered_workload(factorization: Any) -> Workload:
    """The workload that a factorization or a mechanism answers, with its total.

    Raises:
        InvalidInputError: it has none.
    """
    workload = getattr(factorization, "workload", None)
    if not isinstance(workload, Workload):
        raise InvalidInputError(
            "a workload is needed beside a strategy: give for example 'prefix:64' after it; only a "
            "factorization or a mechanism brings its own"
        )
    return workload.asked if isinstance(workload, CentredWorkload) else workload


def calibrated(
    factorization: Factorization,
    guarantee: Guarantee | None,
    noise: Noise,
    *,
    allow_vacuous: bool = False,
) -> Mechanism:
    """Noise of one kind at the scale that the guarantee asks for.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    sensitivity = factorization.sensitivity(noise)
    if guarantee is None:
        return Mechanism(factorization, noise, sensitivity, sensitivity, None)
    calibration = calibrate(
        factorization.strategy, guarantee, noise=noise, allow_vacuous=allow_vacuous
    )
    return Mechanism(factorization, noise, sensitivity, calibration.scale, calibration)


def smallest_error(mechanisms: Sequence[Mechanism], p: float) -> Mechanism:
    """The one of smallest error at p, the first of equal ones; those far off are not evaluated.

    A product strategy that is too large to be written out has no error under Laplace noise but at
    p = 2 and inf; among several mechanisms it is then left out.

    Raises:
        InvalidInputError: the only mechanism has no error that can be computed.
    """
    best = mechanisms[0]
    for other in mechanisms[1:]:
        least = other.scale * other.factorization.least_unit_error(other.noise, p)
        if least < best.error(p) and _error_or_inf(other, p) < best.error(p):
            best = other
    return best


def _error_or_inf(mechanism: Mechanism, p: float) -> float:
    try:
        return mechanism.error(p)
    except InvalidInputError:
        return math.inf


def admissible(
    guarantee: Guarantee | None, noise: NoiseChoice, p: float = 2.0
) -> tuple[Noise, ...]:
    """The kinds of noise to consider; a single one for the caller's explicit choice.

    At p beyond LARGEST_EXPONENT, where no error of Laplace noise is computed, Gaussian noise alone
    if it meets the guarantee.

    Raises:
        InvalidInputError: there is no such noise.
    """
    if noise not in ("auto", "gaussian", "laplace"):
        raise InvalidInputError(f"noise must be auto, gaussian or laplace, got {noise!r}")
    if noise != "auto":
        return (Noise(noise),)
    if guarantee is None:
        return (Noise.GAUSSIAN,)
    if Noise.GAUSSIAN in guarantee.noises and LARGEST_EXPONENT < p < math.inf:
        return (Noise.GAUSSIAN,)
    return guarantee.noises


def require_feasible(
    guarantee: Guarantee | None, cells: int, *, noise: NoiseChoice, p: float
) -> None:
    """Refuse what no strategy can do with this noise; called before long work.

    Raises:
        InvalidInputError: alpha does not fit the number of cells, or p is too large for the noise.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: every mechanism satisfies the guarantee.
    """
    for kind in admissible(guarantee, noise, p):
        if guarantee is not None:
            require_attainable(guarantee, cells, noise=kind)
        if kind is Noise.LAPLACE:
            laplace_exponent(p)
