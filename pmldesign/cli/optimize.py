"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmldesign.arguments import exponent
from pmldesign.cli.documents.document import note, progress
from pmldesign.cli.options.fields import (
    Outputs,
    argument,
    as_command,
    drawing,
    given,
    group,
    option,
    strategy_output,
)
from pmldesign.cli.options.promises import PromiseOptions, at_alpha, own_grid, require_alpha_fits
from pmldesign.cli.options.questions import LimitOptions, QuestionOptions, WorkloadName, search_time
from pmldesign.cli.process import interrupted
from pmldesign.designs.options import METHODS
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign_solvers.norm.solution import Status

if TYPE_CHECKING:
    from pmldesign.bounds import Bound
    from pmldesign.comparison.rows import Row
    from pmldesign.designs.results import Optimized


WIDEST_GAP = 0.1
"""Without --rel-gap, where bounds need not meet: unions take up to 3 %, regions up to 7 %."""


@dataclass(frozen=True, kw_only=True)
class SolverOptions(LimitOptions):
    """The solver, and when it stops."""

    max_steps: int = option("Stop after these.", default=1000)
    method: str = option(
        "The certified solver, or a semidefinite program for CVXPY (small workloads).",
        default="scaling",
        type=click.Choice(METHODS),
    )
    solver: str = option(
        "For the semidefinite programs.",
        default="SCS",
        type=click.Choice(["SCS", "CLARABEL"], case_sensitive=False),
    )
    buffers: int | None = option(
        "Running sums: how many numbers a stream may keep; by default what the gap asks for.",
        metavar="K",
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    p: float = option("Of the error; 2 to inf.", default=2.0, check=exponent)
    promise: PromiseOptions = group()
    limits: SolverOptions = group()
    streaming: bool = option(
        "Make the strategy lower triangular: the same error, usable on a stream."
    )
    search_time: float | None = search_time(
        "For the searches: Laplace noise, and Gaussian noise under PML."
    )
    seed: int = option("Of the search's random starts.", default=0)
    output: Path | None = strategy_output()
    outputs: Outputs = group(plot=drawing("delta against epsilon"))
    question: QuestionOptions = group()
    at_alpha: float | None = at_alpha()
    own_grid: bool | None = own_grid("where it gains 5 % or more")


@as_command("optimize", Asked)
def command(asked: Asked) -> None:
    """Design a strategy for WORKLOAD and show it beside the usual ones.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Without
    --epsilon errors are those of noise at a scale equal to the sensitivity.
    """
    options = asked.question.design_options(asked.limits, asked.promise)
    _require_method(asked.limits.method)
    queries, guarantee = asked.question.with_guarantee(asked.workload, asked.promise, note)
    asked.question.note_units(queries, note)
    participation = options["participation"]
    require_alpha_fits(asked.at_alpha, queries.shape[1], participation=participation)
    if asked.question.known is not None:
        options["neighbours"] = Neighbours.REPLACE
    relation = Neighbours(options["neighbours"]) if guarantee is None else guarantee.neighbours
    noise = asked.promise.noise
    if asked.streaming:
        noise = _streaming_noise(guarantee, relation, noise)
    from pmldesign.cli.documents.comparison import usual_rows
    from pmldesign.cli.documents.designs import Designed
    from pmldesign.cli.documents.parts import note_coarse
    from pmldesign.comparison.rows import best_first, with_ratios
    from pmldesign.designs.best_noise import all_designs

    start, limit = time.perf_counter(), asked.limits.time_limit
    deadline = None if limit is None else start + limit
    problem = {"p": asked.p, "guarantee": guarantee, "noise": noise}
    with progress() as callback:
        best = all_designs(
            queries,
            **problem,
            streaming=asked.streaming,
            search_time=asked.search_time,
            seed=asked.seed,
            callback=callback,
            own_grid=asked.question.on_grid(asked.own_grid),
            **options,
        )
        participation = best.norm_design.strategy.participation
        # first what was asked for, then what it is compared with, which may take longer
        if asked.output is not None:
            _write(best, asked.output)
        note_coarse(best.norm_design.strategy)
        if not best.norm_design.strategy.by_diameter:
            note_coarse(best.mechanisms[0].strategy, pml=False, what="the noise of least-norm")
        designed = Designed(best, asked.output, asked.at_alpha)
        asked.outputs.begin(designed.section)
        bound = _bound(best, deadline, callback)
        asked.outputs.begin(lambda: designed.bound(bound))
        usual = usual_rows(
            queries,
            **problem,
            neighbours=relation,
            participation=participation,
            own_grid=asked.question.on_grid(asked.own_grid),
            announce=callback,
            deadline=deadline,
        )
    rows = best_first(with_ratios([*_own_rows(best), *usual]))
    asked.outputs.deliver(designed.document(bound, rows), begun=True)
    _require_finished(best)


def _write(best: Optimized, output: Path) -> None:
    """The strategy of least norm with its certificate, any other with its noise alone."""
    from pmldesign.files import write_strategy

    noisy = best.mechanisms[best.best]
    write_strategy(output, noisy if best.best else best.norm_design, mechanism=noisy)


def _require_finished(best: Optimized) -> None:
    """Refuse to call it a success where a solver or a search stopped early.

    Where bounds need not meet and no gap was asked for, what is shown is what can be proved.
    """
    design = best.norm_design
    proved = design.status is Status.STRUCTURED and design.certificate.gap <= WIDEST_GAP
    if given("rel_gap") or not proved:
        design.require_optimal()


def _require_method(method: str) -> None:
    """Refuse options of the solvers that were not asked for."""
    if given("solver") and method == "scaling":
        raise InvalidInputError("--solver is for --method primal or dual; leave it out")
    if given("max_steps") and method != "scaling":
        raise InvalidInputError("--max-steps is for --method scaling; take --time-limit instead")


def _bound(
    best: Optimized, deadline: float | None, announce: Callable[[str], None]
) -> Bound | None:
    """The lower bound for every mechanism, unless the limit or Ctrl-C comes first."""
    if best.guarantee is None or interrupted():
        return None
    if deadline is not None and time.perf_counter() >= deadline:
        note("the lower bound is left out: the time limit came first")
        return None
    announce("bounding the error of every mechanism")
    try:
        return best.lower_bound()
    except KeyboardInterrupt:
        note("the lower bound is left out: interrupted")
        return None


def _own_rows(best: Optimized) -> list[Row]:
    """The designs, the best one first; that of least norm may not be the best for its noise."""
    from pmldesign.comparison.rows import as_row
    from pmldesign.comparison.tasks import DESIGN, LEAST_NORM

    names = [DESIGN] * len(best.mechanisms)
    if best.mechanisms[0].noise in [other.noise for other in best.mechanisms[1:]]:
        names[0] = LEAST_NORM
    p = best.norm_design.p
    rows = [
        as_row(name, p, mechanism) for name, mechanism in zip(names, best.mechanisms, strict=True)
    ]
    return [rows.pop(best.best), *rows]


def _streaming_noise(guarantee: Guarantee | None, relation: Neighbours, noise: Any) -> Any:
    """Gaussian noise, which does not mind the rotation to lower triangular form."""
    if relation is Neighbours.REPLACE:
        return noise  # refused by `optimize`, for another reason
    if noise in ("laplace", "cube") or (
        guarantee is not None and not guarantee.admits(Noise.GAUSSIAN)
    ):
        raise InvalidInputError(
            "--streaming is for Gaussian noise: a lower-triangular form has the same l2 norms, but"
            " other l1 norms; leave it out, or give --delta"
        )
    return "gaussian"
