"""The best strategy for a guarantee: designs for every admissible noise, the better one kept.

Gaussian noise has a convex theory and a certificate (`design`), and under PML a descent from there
(`gaussian_design`); Laplace noise has a search (`laplace_design`), which also starts from the
Gaussian strategy. Which noise has the smaller error depends on the guarantee: a small delta asks
much of Gaussian noise, many queries ask much of Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pmldesign.bounds import Bound, Kind, bounds
from pmldesign.design import Design, Method, design
from pmldesign.errors import InvalidInputError
from pmldesign.gaussian_design import gaussian_design
from pmldesign.guarantees import ApproxPML, EnvelopePML, Guarantee
from pmldesign.laplace_design import laplace_design
from pmldesign.mechanism import (
    Mechanism,
    NoiseChoice,
    admissible,
    mechanism,
    require_feasible,
)
from pmldesign.neighbours import Neighbours
from pmldesign.noise import Noise
from pmldesign.searched_design import SearchedDesign
from pmldesign.workloads import as_workload
from pmldesign_solvers.l1_solution import L1Status, L1Step
from pmldesign_solvers.solution import Status, Step


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
        found: list[Design | SearchedDesign] = [self.norm_design]
        if self.gaussian_design is not None and self.gaussian_design.improved:
            found.append(self.gaussian_design)
        if self.laplace_design is not None:
            found.append(self.laplace_design)
        return tuple(found)

    @property
    def best(self) -> int:
        """Which of the designs has the smallest error."""
        p = self.norm_design.p
        return min(range(len(self.mechanisms)), key=lambda index: self.mechanisms[index].error(p))

    def lower_bound(self) -> Bound | None:
        """The largest lower bound for every mechanism of the guarantee."""
        if self.guarantee is None:
            return None
        found = bounds(
            self.norm_design.workload,
            norm_lower=self.norm_design.certificate.lower,
            norm_upper=self.norm_design.certificate.upper,
            p=self.norm_design.p,
            guarantee=self.guarantee,
        )
        holding = [
            (bound.value, bound)
            for bound in found
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
    device: str = "cpu",
    method: Method = "scaling",
    solver: str = "SCS",
    streaming: bool = False,
    search_time: float | None = None,
    seed: int = 0,
    callback: Callable[[Step | L1Step], None] | None = None,
) -> Optimized:
    """Design for every noise that the guarantee admits.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        p: in [2, inf].
        guarantee: what is to be met; None designs for Gaussian noise.
        noise: "gaussian", "laplace", or "auto" for all that can meet the guarantee.
        neighbours: "add-remove" or "replace", where there is no guarantee to say it.
        rel_gap: of the design of least norm, as the following.
        max_steps: at least 1.
        time_limit: in seconds; None for no limit.
        device: "cpu", or a device of PyTorch.
        method: "scaling", "primal" or "dual".
        solver: "SCS" or "CLARABEL".
        streaming: make that strategy lower triangular, and search for no other.
        search_time: in seconds, for the searches that a guarantee asks for: at most half of it for
            Gaussian noise under PML, the rest for Laplace noise; None for no limit.
        seed: of the search under Laplace noise.
        callback: called with every step of all. Ctrl-C keeps what there is.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `design`, the searches and
            `mechanism`; what can be refused is refused before the first solve.
    """
    workload = as_workload(workload)
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    require_feasible(guarantee, workload.shape[1], noise=noise, p=p)
    made = design(
        workload,
        p=p,
        neighbours=relation,
        rel_gap=rel_gap,
        max_steps=max_steps,
        time_limit=time_limit,
        device=device,
        method=method,
        solver=solver,
        callback=callback,
    )
    kinds = admissible(guarantee, noise)
    interrupted = made.status is Status.INTERRUPTED
    polished = searched = None
    if (
        isinstance(guarantee, ApproxPML | EnvelopePML)
        and Noise.GAUSSIAN in kinds
        and not streaming
        and not interrupted
        and made.strategy.distance_profile("l2") is None
    ):
        limit = None if search_time is None else search_time / 2
        polished = gaussian_design(made, guarantee, time_limit=limit, callback=callback)
        interrupted = polished.status is L1Status.INTERRUPTED
        if search_time is not None:
            search_time = max(search_time - polished.seconds, search_time / 4)
    if guarantee is not None and Noise.LAPLACE in kinds and not streaming and not interrupted:
        try:
            searched = laplace_design(
                workload,
                guarantee,
                p=p,
                starts=[made.strategy],
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
        made = replace(made, strategy=made.strategy.streaming())
    own: NoiseChoice = noise
    if (
        noise == "auto"
        and Noise.GAUSSIAN in kinds
        and ((polished or searched) is not None or Noise.LAPLACE not in kinds)
    ):
        own = "gaussian"
    first = mechanism(
        made.strategy, workload, guarantee=guarantee, noise=own, p=p, neighbours=relation
    )
    found = Optimized(made, polished, searched, guarantee, ())
    others = (one.mechanism for one in found.designs if isinstance(one, SearchedDesign))
    return replace(found, mechanisms=(first, *others))
