"""The best strategy for a guarantee: designs for every admissible noise, the better one kept.

Gaussian noise has a convex theory and a certificate (`design`); Laplace noise has a search
(`laplace_design`), which also starts from the Gaussian strategy. Which noise has the smaller error
depends on the guarantee: a small delta asks much of Gaussian noise, many queries ask much of
Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pmldesign.bounds import Bound, Kind, bounds
from pmldesign.design import Design, Method, design
from pmldesign.guarantees import Guarantee
from pmldesign.laplace_design import LaplaceDesign, laplace_design
from pmldesign.mechanism import (
    Mechanism,
    NoiseChoice,
    admissible,
    mechanism,
    require_feasible,
)
from pmldesign.neighbours import Neighbours
from pmldesign.noise import Noise
from pmldesign.workloads import as_workload
from pmldesign_solvers.l1_solution import L1Step
from pmldesign_solvers.solution import Status, Step


@dataclass(frozen=True, slots=True, eq=False)
class Optimized:
    """Designs for a guarantee, each with its noise.

    Attributes:
        norm_design: the strategy of least norm, with its certificate.
        laplace_design: the strategy found for Laplace noise; None where that was not wanted.
        guarantee: what the noise meets; None for a scale equal to the sensitivity.
        mechanisms: of the designs, in this order.
    """

    norm_design: Design
    laplace_design: LaplaceDesign | None
    guarantee: Guarantee | None
    mechanisms: tuple[Mechanism, ...]

    @property
    def designs(self) -> tuple[Design | LaplaceDesign, ...]:
        """The designs, that of least norm first."""
        if self.laplace_design is None:
            return (self.norm_design,)
        return (self.norm_design, self.laplace_design)

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
        search_time: in seconds, for the search under Laplace noise; None for no limit.
        seed: of that search.
        callback: called with every step of both. Ctrl-C keeps what there is.

    Raises:
        InvalidInputError, InfeasibleError, VacuousGuaranteeError: as `design`, `laplace_design` and
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
    searched = None
    if (
        guarantee is not None
        and Noise.LAPLACE in admissible(guarantee, noise)
        and not streaming
        and made.status is not Status.INTERRUPTED
    ):
        searched = laplace_design(
            workload,
            guarantee,
            p=p,
            starts=[made.strategy],
            seed=seed,
            time_limit=search_time,
            callback=callback,
        )
    if streaming:
        made = replace(made, strategy=made.strategy.streaming())
    both = searched is not None and noise == "auto"
    gaussian = Noise.GAUSSIAN in admissible(guarantee, noise)
    own: list[NoiseChoice] = ["gaussian" if both and gaussian else noise]
    if searched is not None:
        own.append("laplace")
    found = Optimized(made, searched, guarantee, ())
    return replace(
        found,
        mechanisms=tuple(
            mechanism(
                one.strategy, workload, guarantee=guarantee, noise=kind, p=p, neighbours=relation
            )
            for one, kind in zip(found.designs, own, strict=True)
        ),
    )
