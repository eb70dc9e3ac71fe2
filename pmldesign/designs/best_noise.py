"""The best strategy for a guarantee: designs for every admissible noise, the better one kept.

Gaussian noise has a convex theory and a certificate (`factorize`), and under PML a descent from
there (`gaussian_pml_search`); Laplace noise has a search (`laplace_search`), which also starts from
the Gaussian strategy. Which noise has the smaller error depends on the guarantee: a small delta
asks much of Gaussian noise, many queries ask much of Laplace noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pmldesign.bounds import Bound, Kind, all_bounds
from pmldesign.designs.gaussian_pml_search import gaussian_design
from pmldesign.designs.laplace.search import laplace_design
from pmldesign.designs.min_norm import Design, Method, factorize
from pmldesign.designs.results import SearchedDesign
from pmldesign.designs.streaming import require_streaming
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import (
    Mechanism,
    NoiseChoice,
    admissible,
    mechanism,
    require_feasible,
)
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.priors import OnPriors
from pmldesign.strategies import StreamStrategy
from pmldesign.workloads import as_workload
from pmldesign.workloads.base import WRITTEN_CELLS
from pmldesign_solvers.norm.solution import Status, Step
from pmldesign_solvers.search.solution import L1Status, L1Step

LEAST_TIME = 1e-3
"""Seconds for a search where a limit leaves none: its starts are compared all the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimized:
    """Designs for a guarantee, each with its noise.

    Attributes:
        norm_design: the strategy of least norm, with its certificate.
        gaussian_design: the strategy found from there for Gaussian noise under PML; None where that
            was not wanted.
        laplace_design: the strategy found for Laplace noise; None likewise.
        guarantee: what the noise meets; None for a scale equal to the sensitivity.
        mechanisms: of the designs, in this order.
    """

    norm_design: Design
    gaussian_design: SearchedDesign | None
    laplace_design: SearchedDesign | None
    guarantee: Guarantee | None
    mechanisms: tuple[Mechanism, ...]

    @property
    def designs(self) -> tuple[Design | SearchedDesign, ...]:
        """The designs, that of least norm first; one that gained nothing on it is left out."""
        kept: list[Design | SearchedDesign] = [self.norm_design]
        if self.gaussian_design is not None and self.gaussian_design.improved:
            kept.append(self.gaussian_design)
        if self.laplace_design is not None:
            kept.append(self.laplace_design)
        return tuple(kept)

    @property
    def best(self) -> int:
        """Which of the designs has the smallest error."""
        p = self.norm_design.p
        return min(range(len(self.mechanisms)), key=lambda index: self.mechanisms[index].error(p))

    def lower_bound(self) -> Bound | None:
        """The largest lower bound for every mechanism of the guarantee."""
        if self.guarantee is None:
            return None
        listed = all_bounds(
            self.norm_design.workload,
            norm_lower=self.norm_design.certificate.lower,
            norm_upper=self.norm_design.certificate.upper,
            p=self.norm_design.p,
            guarantee=self.guarantee,
        )
        holding = [
            (bound.value, bound)
            for bound in listed
            if bound.kind is Kind.LOWER
            and bound.value is not None
            and bound.mechanisms.startswith("every mechanism, ")
        ]
        return max(holding, key=lambda pair: pair[0])[1] if holding else None


def optimize(
    workload: Any,
    *,
    p: float = 2.0,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    method: Method = "scaling",
    solver: str = "SCS",
    streaming: bool = False,
    buffers: int | None = None,
    search_time: float | None = None,
    seed: int = 0,
    callback: Callable[[Step | L1Step], None] | None = None,
) -> Mechanism:
    """The best mechanism for a workload and a guarantee, every admissible noise tried.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf].
        guarantee: what is to be met; None designs for Gaussian noise.
        noise: "gaussian", "laplace", or "auto" for all that can meet the guarantee.
        neighbours: "add-remove" or "replace", where there is no guarantee to say it.
        rel_gap: of the design of least norm, as the following.
        max_steps: at least 1.
        time_limit: in seconds, for the design and the searches together; None for no limit.
        method: "scaling", "primal" or "dual".
        solver: "SCS" or "CLARABEL".
        streaming: make that strategy lower triangular, and search for no other.
        buffers: for running sums, as `factorize`; no other strategy is searched for then.
        search_time: as for `improve`.
        seed: of the search under Laplace noise.
        callback: called with every step of all. Ctrl-C keeps what there is.

    Returns:
        The mechanism of smallest error at p; without a guarantee that of least norm, at a scale
        equal to the sensitivity. `all_designs` returns every design, with the certificate.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `all_designs`.
    """
    designs = all_designs(
        workload,
        p=p,
        guarantee=guarantee,
        noise=noise,
        neighbours=neighbours,
        rel_gap=rel_gap,
        max_steps=max_steps,
        time_limit=time_limit,
        method=method,
        solver=solver,
        streaming=streaming,
        buffers=buffers,
        search_time=search_time,
        seed=seed,
        callback=callback,
    )
    return designs.mechanisms[designs.best]


def all_designs(
    workload: Any,
    *,
    p: float = 2.0,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    max_steps: int = 1000,
    time_limit: float | None = None,
    method: Method = "scaling",
    solver: str = "SCS",
    streaming: bool = False,
    buffers: int | None = None,
    search_time: float | None = None,
    seed: int = 0,
    callback: Callable[[Step | L1Step], None] | None = None,
) -> Optimized:
    """Design for every noise that the guarantee admits.

    The arguments are those of `optimize`.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `factorize`, the searches and
            `mechanism`, and with `streaming` as `require_streaming`; what can be refused is
            refused before the first solve.
    """
    workload = as_workload(workload)
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    if streaming:
        require_streaming(workload, relation, full_rank=method == "scaling")
    require_feasible(guarantee, workload.shape[1], noise=noise, p=p)
    start = time.perf_counter()
    factorization = factorize(
        workload,
        p=p,
        neighbours=relation,
        rel_gap=rel_gap,
        max_steps=max_steps,
        time_limit=time_limit,
        method=method,
        solver=solver,
        buffers=buffers,
        callback=callback,
    )
    if time_limit is not None:
        left = max(time_limit - (time.perf_counter() - start), LEAST_TIME)
        search_time = left if search_time is None else min(search_time, left)
    return improve(
        factorization,
        guarantee=guarantee,
        noise=noise,
        streaming=streaming,
        buffers=buffers,
        search_time=search_time,
        seed=seed,
        callback=callback,
    )


def improve(
    factorization: Design,
    *,
    guarantee: Guarantee | None,
    noise: NoiseChoice = "auto",
    streaming: bool = False,
    buffers: int | None = None,
    search_time: float | None = None,
    seed: int = 0,
    callback: Callable[[L1Step], None] | None = None,
) -> Optimized:
    """From the strategy of least norm to the best mechanism that is known for a guarantee.

    Args:
        factorization: of least norm, for the relation of the guarantee.
        guarantee: what is to be met; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", or "auto" for all that can meet the guarantee.
        streaming: make the strategy lower triangular, and search for no other.
        buffers: as for `optimize`.
        search_time: in seconds, for the searches that a guarantee asks for: at most half of it for
            Gaussian noise under PML, the rest for Laplace noise; None for no limit.
        seed: of the search under Laplace noise.
        callback: called with every step of all. Ctrl-C keeps what there is.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `optimize`.
    """
    workload, p = factorization.workload, factorization.p
    kinds = admissible(guarantee, noise)
    long = isinstance(factorization.strategy, StreamStrategy) and workload.shape[1] > WRITTEN_CELLS
    if Noise.GAUSSIAN in kinds and (long or buffers is not None):
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
        limit = None if search_time is None else search_time / 2
        polished = gaussian_design(factorization, guarantee, time_limit=limit, callback=callback)
        interrupted = polished.status is L1Status.INTERRUPTED
        if search_time is not None:
            search_time = max(search_time - polished.seconds, search_time / 4)
    if guarantee is not None and Noise.LAPLACE in kinds and not streaming and not interrupted:
        try:
            searched = laplace_design(
                workload,
                guarantee,
                p=p,
                starts=[factorization.strategy],
                seed=seed,
                time_limit=search_time,
                callback=callback,
            )
        except InvalidInputError:
            # no strategy whose error under Laplace noise can be computed at this size
            if Noise.GAUSSIAN not in kinds:
                raise
            kinds = (Noise.GAUSSIAN,)
    if streaming:
        factorization = replace(factorization, strategy=factorization.strategy.streaming())
    own_noise: NoiseChoice = noise
    if (
        noise == "auto"
        and Noise.GAUSSIAN in kinds
        and ((polished or searched) is not None or Noise.LAPLACE not in kinds)
    ):
        own_noise = "gaussian"
    first = mechanism(
        factorization.strategy,
        workload,
        guarantee=guarantee,
        noise=own_noise,
        p=p,
        neighbours=factorization.neighbours,
    )
    designs = Optimized(factorization, polished, searched, guarantee, ())
    others = (design.mechanism for design in designs.designs if isinstance(design, SearchedDesign))
    return replace(designs, mechanisms=(first, *others))
