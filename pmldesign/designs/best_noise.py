"""The best strategy for a guarantee: designs for every admissible noise, the better one kept.

Gaussian noise has a convex theory and a certificate (`factorize`), and under PML a descent from
there (`gaussian_pml_search`); Laplace noise has a search (`laplace_search`), which also starts from
the Gaussian strategy, and so has cube noise where questions are few (`cubes`). No baseline is
better than what comes of them (`rivals`). Which noise has the smallest error depends on the
guarantee: a small delta asks much of Gaussian noise, many queries ask much of Laplace noise.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pmldesign.arguments import exponent, flags, non_negative, whole
from pmldesign.designs.dispatch import solve
from pmldesign.designs.estimates import limit_of
from pmldesign.designs.options import (
    LEAST_TIME,
    DesignOptions,
    takes_options,
)
from pmldesign.designs.participation.sampled import with_parts
from pmldesign.designs.results import Design, Optimized, Searched
from pmldesign.designs.rivals import (
    CLOSE,
    best_of,
    in_time,
    require_time_for_error,
    with_rivals,
    with_time_for_noise,
)
from pmldesign.designs.streaming import require_streaming
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import answer, with_known
from pmldesign.mechanisms import (
    Mechanism,
    NoiseChoice,
    admissible,
    mechanism,
    on_own_grid,
    require_feasible,
)
from pmldesign.privacy.calibration import require_amplified
from pmldesign.privacy.guarantees import Guarantee, PureDP
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import Strategy, baseline
from pmldesign.strategies.participation.schema import Participation, SampledParticipation
from pmldesign.strategies.participation.strategy import with_participation
from pmldesign.workloads import Workload
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.norm.solution import Status
from pmldesign_solvers.operators.deadline import Effort

LENGTHS = 1.2e-5
"""Seconds for each step that l1 lengths of the columns of a stream take."""


@takes_options
def all_designs(
    workload: Any,
    *,
    p: float = 2.0,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    streaming: bool = False,
    search_time: float | None = None,
    seed: int = 0,
    known: Any = None,
    **options: Any,
) -> Optimized:
    """Design for Gaussian, Laplace and cube noise, whichever the guarantee admits.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf].
        guarantee: what is to be met; None designs for Gaussian noise.
        noise: "gaussian", "laplace", "cube", or "auto" for all that can meet the guarantee; cube
            noise is tried for few questions.
        streaming: make the strategy lower triangular, and search for no other.
        search_time: as for `improve`.
        seed: of the search under Laplace noise.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: of the design of least norm, as for `factorize`; the time limit is for the design
            and the searches together.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `factorize`, the searches and
            `mechanism`, and with `streaming` as `require_streaming`; what can be refused is
            refused before the first solve.
    """
    workload, guarantee = with_known(workload, guarantee, known)
    seed = whole("seed", seed, 0)
    flags(streaming=streaming)
    if search_time is not None:
        search_time = non_negative("search_time", search_time)
    p, asked = exponent(p), DesignOptions(**options)
    if known is not None:
        asked = replace(asked, neighbours=Neighbours.REPLACE)
    if guarantee is not None:
        asked = replace(asked, neighbours=guarantee.neighbours)
    if guarantee is not None and guarantee.pml and asked.schema is not None:
        raise asked.schema.refusal()
    if isinstance(asked.schema, SampledParticipation) and asked.schema.open:
        parts = with_parts(workload, asked.schema, guarantee)
        asked = replace(asked, participation=parts)
    if isinstance(asked.schema, SampledParticipation) and asked.schema.rate < 1 and guarantee:
        require_amplified(guarantee, Noise.GAUSSIAN if noise == "auto" else Noise(noise))
    if streaming:
        require_streaming(workload, asked.neighbours, full_rank=asked.method == "scaling")
    require_feasible(guarantee, workload.shape[1], noise=noise, p=p)
    if asked.start is not None:
        answer(asked.start, workload, asked.neighbours)
    asked, first, coarse = with_time(asked, workload, guarantee, noise, p)
    design = solve(workload, p, first)
    return improve(
        replace(design, strategy=design.strategy.coarse()) if coarse else design,
        asked,
        guarantee=guarantee,
        noise=noise,
        streaming=streaming,
        search_time=search_time,
        seed=seed,
    )


def optimize(workload: Any, **arguments: Any) -> Mechanism:
    """The best of the designs for a workload and a guarantee, with Laplace or Gaussian noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        arguments: p, guarantee, noise and the others of `all_designs`.

    Returns:
        The mechanism of smallest error at p; without a guarantee that of least norm, at a scale
        equal to the sensitivity. `all_designs` returns every design, with the certificate.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `all_designs`.
    """
    designs = all_designs(workload, **arguments)
    return designs.mechanisms[designs.best]


_signature = inspect.signature(all_designs).replace(return_annotation="Mechanism")
optimize.__signature__ = _signature  # type: ignore[attr-defined]


def improve(
    factorization: Design,
    options: DesignOptions,
    *,
    guarantee: Guarantee | None,
    noise: NoiseChoice = "auto",
    streaming: bool = False,
    search_time: float | None = None,
    seed: int = 0,
    rivals: Sequence[str] = (),
) -> Optimized:
    """From the strategy of least norm to a design for each noise that may meet a guarantee.

    Args:
        factorization: of least norm, for the relation of the guarantee.
        options: it was made with; a number of buffers asks for Gaussian noise alone, and the
            callback is called with every step.
        guarantee: what is to be met; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", "cube", or "auto" for all that can meet the guarantee.
        streaming: make the strategy lower triangular, and search for no other.
        search_time: in seconds, for the searches that a guarantee asks for: at most half of it for
            Gaussian noise under PML, the rest for Laplace noise; None ends the latter where it
            hardly gains any more. The options' limit counts for all.
        seed: of the search under Laplace noise.
        rivals: baselines that the design is to be no worse than, beside the usual ones.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `all_designs`.
    """
    p, starts = factorization.p, _starts(factorization, options)
    seconds = _time_for_searches(factorization, options, search_time)
    effort = Effort.NORMAL if search_time is None else Effort.THOROUGH
    if coarse := factorization.strategy.by_diameter:
        noise = best_of(admissible(guarantee, noise, p)).value
    kinds = allowed = admissible(guarantee, noise, p)
    repeated = isinstance(factorization.strategy.participation, Participation)
    streamed = _is_long(factorization) or repeated or options.buffers is not None
    if Noise.GAUSSIAN in kinds and (streamed or _is_late(factorization, options)):
        kinds = (Noise.GAUSSIAN,)  # a search would take matrices, and hours
    interrupted = factorization.status is Status.INTERRUPTED
    polished = searched = None
    if (
        isinstance(guarantee, OnPriors)
        and Noise.GAUSSIAN in kinds
        and not streaming
        and not interrupted
        and factorization.strategy.distance_profile("l2") is None
    ):
        from pmldesign.designs.gaussian_pml_search import gaussian_design

        polished = gaussian_design(
            factorization,
            guarantee,
            effort=effort,
            time_limit=seconds and seconds / 2,
            callback=options.callback,
        )
        interrupted = polished.status is Status.INTERRUPTED
        seconds = seconds and max(seconds - polished.seconds, seconds / 4)
    cube = None
    if not (streaming or interrupted or streamed):
        cube = _cube_search(factorization, guarantee, noise, seed, seconds and seconds / 4, options)
        interrupted = cube is not None and cube.status is Status.INTERRUPTED
    if Noise.LAPLACE in kinds and not (streaming or interrupted or coarse):
        try:
            searched = _laplace_search(
                factorization,
                guarantee,
                options,
                starts=starts,
                seed=seed,
                effort=effort,
                time_limit=seconds,
            )
            interrupted = searched.status is Status.INTERRUPTED
        except InvalidInputError:
            # no strategy whose error under Laplace noise can be computed at this size, or in time
            if Noise.GAUSSIAN not in kinds:
                raise
            kinds = (Noise.GAUSSIAN,)
    if streaming:
        factorization = replace(factorization, strategy=factorization.strategy.streaming())
    sure = polished or searched or Noise.LAPLACE not in kinds
    if noise == "auto" and Noise.GAUSSIAN in kinds and sure:
        noise = "gaussian"
    measured = in_time(factorization, guarantee, options, searched) if searched else factorization
    first = (polished and polished.before) or _least_norm(measured, guarantee, noise)
    tried = [first, *(search.mechanism for search in (polished, searched) if search is not None)]
    found = [on_own_grid(noisy, p, options.own_grid) for noisy in tried]
    mechanisms = _kept(found, None if cube is None else cube.mechanism, p)
    allowed = allowed if cube is None else tuple(dict.fromkeys([*allowed, Noise.CUBE]))
    cube = cube if noise == "cube" or (cube and mechanisms[-1] is cube.mechanism) else None
    designs = Optimized(factorization, polished, searched, guarantee, mechanisms, cube, interrupted)
    return with_rivals(designs, options, allowed, names=rivals, streaming=streaming)


def _starts(factorization: Design, options: DesignOptions) -> list[Strategy]:
    """What searches begin from: the strategy of least norm, and one of the caller's own."""
    starts = [factorization.strategy]
    if options.start is not None:
        own = answer(options.start, factorization.workload, factorization.neighbours)
        starts.append(own.strategy)
    return [strategy.once for strategy in starts]


def _kept(found: Sequence[Mechanism], cube: Mechanism | None, p: float) -> tuple[Mechanism, ...]:
    """The first, others with another noise, or better ones with its own; cube noise if the best."""
    first, *rest = found
    rest = [one for one in rest if one.noise is not first.noise or _is_better(one, [first], p)]
    kept = (first, *rest)
    return (*kept, cube) if cube is not None and _is_better(cube, kept, p) else kept


def _is_better(found: Mechanism, others: Sequence[Mechanism], p: float) -> bool:
    """Whether what was found is better than all others, by more than rounding."""
    return found.error(p) < (1 - CLOSE) * min(other.error(p) for other in others)


def _cube_search(
    factorization: Design,
    guarantee: Guarantee | None,
    noise: NoiseChoice,
    seed: int,
    seconds: float | None,
    options: DesignOptions,
) -> Searched | None:
    """The search for cube noise; None where questions are many, unless asked for.

    For several rows of a person that for one, with their noise.
    """
    workload, p = factorization.workload, factorization.p
    tried = noise == "auto" and guarantee is not None and guarantee.admits(Noise.CUBE)
    if not (noise == "cube" or tried):
        return None
    from pmldesign.designs.cubes import cube_design, is_small

    small = is_small(workload) and Noise.CUBE.has_error(p)
    if not (noise == "cube" or small):
        return None
    searched = cube_design(
        workload,
        guarantee,
        p,
        factorization.neighbours,
        starts=_starts(factorization, options) if small else (),
        seed=seed,
        time_limit=seconds,
        callback=options.callback,
    )
    return _with_noise(searched, factorization, guarantee, "cube") if options.schema else searched


def _least_norm(design: Design, guarantee: Guarantee | None, noise: NoiseChoice) -> Mechanism:
    """The strategy of least norm with its noise."""
    return mechanism(
        design.strategy,
        design.workload,
        guarantee=guarantee,
        noise=noise,
        p=design.p,
        neighbours=design.neighbours,
    )


def _laplace_search(
    factorization: Design, guarantee: Guarantee | None, options: DesignOptions, **search: Any
) -> Searched:
    """The search for Laplace noise; for several participations that for one, with their noise."""
    require_time_for_error(factorization, options)
    workload, p = factorization.workload, factorization.p
    from pmldesign.designs.laplace.search import laplace_design

    schema = factorization.strategy.participation
    promise = guarantee or PureDP(1.0, factorization.neighbours)
    if guarantee is None and workload.public:
        promise = promise.beside(workload.public)
    searched = laplace_design(workload, promise, p=p, callback=options.callback, **search)
    if guarantee is not None and schema is None:
        return searched
    return _with_noise(searched, factorization, guarantee, "laplace")


def _with_noise(
    searched: Searched, design: Design, guarantee: Guarantee | None, noise: NoiseChoice
) -> Searched:
    """What a search found, with the noise for the participation of the design.

    Where that takes a matrix that is too large, the cells themselves.
    """
    schema, found = design.strategy.participation, searched.mechanism.strategy

    def noisy(strategy: Strategy) -> Mechanism:
        return mechanism(
            with_participation(strategy, schema),
            design.workload,
            guarantee=guarantee,
            noise=noise,
            p=design.p,
            neighbours=design.neighbours,
        )

    try:
        return replace(searched, mechanism=noisy(found))
    except InvalidInputError:
        if found.shape[1] <= WRITTEN_CELLS:
            raise
        return replace(searched, mechanism=noisy(baseline("identity", design.workload)))


def _time_for_searches(
    factorization: Design, options: DesignOptions, search_time: float | None
) -> float | None:
    """Seconds for the searches, at most what the options' limit leaves; None for no limit."""
    seconds, limit = search_time, limit_of(options)
    if limit is not None:
        after = LENGTHS * factorization.workload.shape[1] if _is_long(factorization) else 0.0
        left = limit - factorization.seconds - after
        seconds = left if seconds is None else min(seconds, left)
    return None if seconds is None else max(seconds, LEAST_TIME)


def with_time(
    options: DesignOptions,
    workload: Workload,
    guarantee: Guarantee | None,
    noise: NoiseChoice,
    p: float,
) -> tuple[DesignOptions, DesignOptions, bool]:
    """The options of the searches, and those of the strategy of least norm.

    The latter have half of the time where it is only a start, for Laplace noise. And whether the
    strategy is coarse: under PML without time for the distances of all pairs of cells.
    """
    kinds = admissible(guarantee, noise, p)
    options, coarse = with_time_for_noise(options, workload, guarantee, kinds)
    limit = limit_of(options)
    if limit is None or Noise.GAUSSIAN in kinds:
        return options, options, coarse
    return options, replace(options, time_limit=limit / 2), coarse


def _is_late(factorization: Design, options: DesignOptions) -> bool:
    """Whether time is over, and one more noise on the matrix of a strategy takes seconds."""
    workload = factorization.workload
    large = workload.shape[1] > WRITTEN_CELLS and not workload.domain
    limit = limit_of(options)
    return large and limit is not None and factorization.seconds >= limit


def _is_long(factorization: Design) -> bool:
    """Whether it is of a form beyond matrices."""
    streams = factorization.strategy.buffers is not None
    return streams and factorization.workload.shape[1] > WRITTEN_CELLS
