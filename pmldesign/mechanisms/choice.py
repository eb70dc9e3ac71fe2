"""Which noise a strategy gets, and how much: the mechanism for a guarantee.

Of the kinds of noise that can meet the guarantee, each at the scale that it asks for
(`privacy.calibration`), the one of smaller error. Without a guarantee the scale is the sensitivity
itself, so that errors compare strategies: that is 1/2-zCDP for Gaussian noise and 1-DP for Laplace
noise. `compose` gives the joint guarantee of several (`privacy.composition`).

Integer measurements can have integer-valued Laplace noise (`discrete`), with smaller errors. The
other privacy definitions are then lost: the loss of one step of 1 is randomized response, and only
epsilon is claimed. The gain depends on the parameter b in units of the grid, which is D/epsilon for
a sensitivity D of 1 or more: standard deviations are 0.96 times those of Laplace noise at b = 1,
0.70 times at 1/3. If it is less than LEAST_GAIN, up to an epsilon of 1 at least, integer-valued
noise has to be requested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, get_args

from pmldesign.arguments import exponent, instance, member, named_arguments, shown
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import Factorization, answer, with_known
from pmldesign.mechanisms.discrete import own_deviation, own_lattice
from pmldesign.mechanisms.exact_error import INTEGER_LAPLACE, Mechanism
from pmldesign.privacy.calibration import calibrate, require_attainable
from pmldesign.privacy.curves import PrivacyCurve
from pmldesign.privacy.guarantees import ApproxDP, Guarantee, PureDP, require_guarantee
from pmldesign.privacy.neighbours import Neighbours, NeighboursLike
from pmldesign.privacy.noise import LARGEST_EXPONENT, Noise, cube_error, laplace_exponent
from pmldesign.strategies import Strategy, StrategyLike, as_strategy
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.schema import (
    AnyParticipation,
    as_participation,
    has_fractions,
    people_in,
)
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload, WorkloadLike, as_workload

NoiseChoice = Literal["auto", "gaussian", "laplace", "integer-laplace", "cube"]
LEAST_GAIN = 0.05
"""Reduction of standard deviations for which integer-valued noise is chosen by default."""
LEAST_EPSILON = 1.0
"""Up to which the gain is less."""
BEYOND = 1e-9
"""Relative, by which the sensitivity on the grid may exceed the one that was calibrated for."""


@named_arguments
def mechanism(
    strategy: StrategyLike,
    workload: WorkloadLike | None = None,
    guarantee: Guarantee | None = None,
    *,
    noise: NoiseChoice = "auto",
    p: float | None = None,
    neighbours: NeighboursLike | None = None,
    participation: AnyParticipation | str | None = None,
    known: WorkloadLike | None = None,
    allow_vacuous: bool = False,
) -> Mechanism:
    """Put the noise on a strategy that a guarantee asks for.

    Args:
        strategy: R, shape (r, n): a factorization (from `factorize`), a Strategy, the name of a
            baseline such as "tree", or a matrix.
        workload: A, shape (m, n), whatever `as_workload` takes; None for that of the factorization.
        guarantee: that the noise meets; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", "integer-laplace" (for measurements that are integers times a
            unit), "cube" (for few measurements), or "auto" for Gaussian or
            Laplace, the one with the smaller error at p among those that can meet the guarantee
            (Gaussian without one).
        p: in [2, inf], for noise "auto"; None for that of the factorization, or 2.
        neighbours: "add-remove" or "replace", without a guarantee that sets it; None for that of
            the factorization, or "add-remove".
        participation: how often a person takes part in the steps of a stream, such as
            "16,every=64", or in the rows of a table, "3,any"; None for that of the strategy, or
            once (docs/guides/bounded-contributions.md).
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        allow_vacuous: accept a guarantee that every mechanism satisfies.

    Raises:
        InvalidInputError: the strategy cannot answer the workload, or an argument out of range.
        InfeasibleError: this noise meets this guarantee at no scale.
        VacuousGuaranteeError: the guarantee needs no noise at all, and that is not allowed.
    """
    if guarantee is not None:
        require_guarantee(guarantee)
    given = None if isinstance(strategy, Strategy) else strategy
    queries = answered_workload(given) if workload is None else as_workload(workload)
    if neighbours is None:
        neighbours = getattr(given, "neighbours", Neighbours.ADD_REMOVE)
    if known is not None:
        queries, guarantee = with_known(queries, guarantee, known)
        neighbours = Neighbours.REPLACE
    if p is None:
        p = getattr(given, "p", 2.0)
    if guarantee is None:
        relation = member("neighbours", neighbours, Neighbours)
    else:
        relation = guarantee.neighbours
    p = exponent(p)
    require_cells(guarantee, fractions=has_fractions(queries))
    measured = as_strategy(strategy, queries)
    schema = people_in(queries, as_participation(participation))
    if schema is not None:
        measured = with_participation(measured, schema)
    kinds = admissible(guarantee, noise, p, sampled=measured.sampling is not None)
    factorization = answer(measured, queries, relation)
    candidates = tuple(
        calibrated(factorization, guarantee, kind, allow_vacuous=allow_vacuous) for kind in kinds
    )
    if noise == INTEGER_LAPLACE:
        candidates = tuple(map(integer_valued, candidates))
    return replace(smallest_error(candidates, p), p=p)


def require_cells(guarantee: Guarantee | None, *, fractions: bool) -> None:
    """Refuse a guarantee about cells if records are mixtures of cells.

    Args:
        guarantee: of the mechanism, if any.
        fractions: whether cells hold fractions of records (`has_fractions`).

    Raises:
        InvalidInputError: it is PML, and they do.
    """
    if guarantee is not None and guarantee.pml and fractions:
        raise InvalidInputError(
            "PML is about the cell that a record is in, and the schema has numbers, which are "
            "mixtures of cells; take differential privacy, or cuts in place of low and high"
        )


def answered_workload(factorization: Any) -> Workload:
    """The workload that a factorization or a mechanism answers, given named invariants at most.

    Raises:
        InvalidInputError: it has none.
    """
    workload = getattr(factorization, "workload", None)
    if not isinstance(workload, Workload):
        raise InvalidInputError(
            "a workload is needed beside a strategy: give for example 'prefix:64' after it; only a "
            "factorization or a mechanism brings its own"
        )
    return workload if workload.public.name else workload.whole


def calibrated(
    factorization: Factorization,
    guarantee: Guarantee | None,
    noise: Noise,
    *,
    allow_vacuous: bool = False,
) -> Mechanism:
    """Noise of one kind at the scale that the guarantee requires, calibrated once.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    sensitivity = factorization.sensitivity(noise)
    if guarantee is None:
        return Mechanism(factorization, noise, sensitivity, sensitivity, None)
    key = id(guarantee), noise  # which the calibration holds
    calibration = factorization.calibrations.get(key)
    if calibration is None:
        calibration = calibrate(
            factorization.strategy, guarantee, noise=noise, allow_vacuous=allow_vacuous
        )
        if calibration.scale > 0:  # others are refused unless a vacuous guarantee is allowed
            factorization.calibrations[key] = calibration
    return Mechanism(factorization, noise, sensitivity, calibration.scale, calibration)


def smallest_error(mechanisms: Sequence[Mechanism], p: float) -> Mechanism:
    """The one of smallest error at p, the first of equal ones; those far off are not evaluated.

    A product strategy that is too large to be materialized has no error under Laplace noise except
    at p = 2 and inf; among several mechanisms it is then left out.

    Raises:
        InvalidInputError: the only mechanism has no error that can be computed.
    """
    best = mechanisms[0]
    for other in mechanisms[1:]:
        if other.least_error(p) < best.error(p) and _error_or_inf(other, p) < best.error(p):
            best = other
    return best


def _error_or_inf(mechanism: Mechanism, p: float) -> float:
    try:
        return mechanism.error(p)
    except InvalidInputError:
        return math.inf


def admissible(
    guarantee: Guarantee | None, noise: NoiseChoice, p: float = 2.0, *, sampled: bool = False
) -> tuple[Noise, ...]:
    """The kinds of noise to consider; a single one for the caller's explicit choice.

    Cube noise is for strategies that were made for it: only a design tries it unasked.

    At p beyond LARGEST_EXPONENT, for which errors of Laplace noise are not computed, only Gaussian
    noise if it meets the guarantee; the same if steps draw their records at random.

    Raises:
        InvalidInputError: the kind of noise is unknown.
    """
    if not isinstance(noise, str) or noise not in get_args(NoiseChoice):
        allowed = ", ".join(get_args(NoiseChoice))
        raise InvalidInputError(f"noise must be one of {allowed}, got {shown(noise)}")
    if guarantee is not None:
        require_guarantee(guarantee)
    if noise == INTEGER_LAPLACE:
        return (Noise.LAPLACE,)
    if noise != "auto":
        return (Noise(noise),)
    if guarantee is None or sampled:
        return (Noise.GAUSSIAN,)
    if Noise.GAUSSIAN in guarantee.noises and LARGEST_EXPONENT < p < math.inf:
        return (Noise.GAUSSIAN,)
    return tuple(kind for kind in guarantee.noises if kind is not Noise.CUBE)


def require_feasible(
    guarantee: Guarantee | None, cells: int, *, noise: NoiseChoice, p: float
) -> None:
    """Refuse requests that no strategy can meet with this noise; called before long work.

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
        if kind is Noise.CUBE:
            cube_error([[1.0]], p=p)


def on_own_grid(mechanism: Mechanism, p: float, asked: bool | None = None) -> Mechanism:
    """The mechanism with integer-valued noise, if that is to be used; else itself.

    Args:
        mechanism: with calibrated noise.
        p: at which its error is to be known.
        asked: True for any gain, False for never, None for a gain of LEAST_GAIN or more.
    """
    guarantee = mechanism.guarantee
    if (
        asked is False
        or mechanism.own_grid
        or not isinstance(guarantee, PureDP | ApproxDP)
        or (guarantee.epsilon <= LEAST_EPSILON and not asked)
    ):
        return mechanism
    gain = own_grid_gain(mechanism)
    if gain is None or gain[0] > (1 if asked else 1 - LEAST_GAIN):
        return mechanism
    drawn_there = replace(mechanism, own_grid=True)
    with suppress(InvalidInputError):
        if drawn_there.error(p) < mechanism.error(p):
            return drawn_there
    return mechanism


def integer_valued(mechanism: Mechanism) -> Mechanism:
    """The mechanism with integer-valued Laplace noise, whatever it gains.

    Raises:
        InvalidInputError: its measurements, its noise or its guarantee do not allow it.
    """
    if mechanism.own_grid:
        return mechanism
    if own_grid_gain(mechanism) is None:
        raise InvalidInputError(
            "integer-valued Laplace noise is for guarantees of epsilon, or epsilon and delta, and"
            " for strategies of integers times a unit, such as counts or trees; use"
            " `noise='laplace'`"
        )
    return replace(mechanism, own_grid=True)


def own_grid_gain(mechanism: Mechanism) -> tuple[float, float] | None:
    """What a release gains on the grid of the measurements themselves.

    With b in units of the grid, for a sensitivity D, the variance 1/(2 sinh(e/(2 D))^2) of the
    budget e is 2 b^2 at e = 2 D arsinh(1/(2 b)).

    Returns:
        Standard deviations as a part of those of the mechanism, and the epsilon that has the same
        ones as the mechanism; None for other noise, or strategies that are not whole.
    """
    noise, scale = mechanism.noise, mechanism.scale
    schema = mechanism.strategy.participation
    known = isinstance(mechanism.guarantee, PureDP | ApproxDP)
    known = known and (schema is None or isinstance(schema, PersonRows))
    if noise is not Noise.LAPLACE or scale == 0 or not known:
        return None
    lattice = own_lattice(mechanism.strategy)
    if lattice is None:
        return None
    unit = float(lattice.units[0])
    sensitivity, _ = lattice.sensitivity(mechanism.neighbours, noise)
    if sensitivity * unit > mechanism.sensitivity * (1 + BEYOND):
        return None
    part = own_deviation(unit, scale) / (scale * math.sqrt(2.0))
    return part, 2 * sensitivity * math.asinh(unit / (2 * scale))


def compose(releases: Sequence[Mechanism | PrivacyCurve]) -> PrivacyCurve:
    """What several releases satisfy together: of Gaussian noise exactly those of one.

    Args:
        releases: mechanisms for one relation of neighbours, or their `privacy`.

    Returns:
        The curve of all together, rounded up: `.mu`, `.rho`, `.epsilon(delta)` and so on.

    Raises:
        InvalidInputError: no mechanisms, or different neighbours or invariants.
    """
    instance("releases", releases, list | tuple, "a list of mechanisms, or of their `privacy`")
    for place, release in enumerate(releases):
        kinds = Mechanism | PrivacyCurve
        instance(f"release {place}", release, kinds, "a mechanism, or the `privacy` of one")
    mechanisms = [release for release in releases if isinstance(release, Mechanism)]
    if len({release.neighbours for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different neighbours; calibrate all for add-remove or for replace"
        )
    if len({release.strategy.public.name for release in mechanisms}) > 1:
        raise InvalidInputError(
            "the releases have different known answers, so that their neighbours differ; give all"
            " the same known answers"
        )
    from pmldesign.privacy.composition import composed

    return composed(
        [release.privacy if isinstance(release, Mechanism) else release for release in releases]
    )
