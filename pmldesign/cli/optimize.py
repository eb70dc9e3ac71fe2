"""pmldesign optimize WORKLOAD --p 4 [guarantee options] [-o strategy.npz]."""

from __future__ import annotations

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
from pmldesign.cli.options.promises import PromiseOptions, at_alpha, require_alpha_fits
from pmldesign.cli.options.questions import (
    WORKLOAD_HELP,
    LimitOptions,
    QuestionOptions,
    WorkloadName,
)
from pmldesign.cli.process import interrupted
from pmldesign.designs.options import METHODS
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise

if TYPE_CHECKING:
    from pmldesign.designs.optimized import Optimized
    from pmldesign.error_bounds import Bound


@dataclass(frozen=True, kw_only=True)
class SolverOptions(LimitOptions):
    """The solver, and when it stops."""

    method: str = option(
        "Solver: scaling certifies its bounds, primal and dual are semidefinite programs for"
        " CVXPY.",
        default="scaling",
        type=click.Choice(METHODS),
    )
    solver: str = option(
        "Solver of the semidefinite programs.",
        default="SCS",
        type=click.Choice(["SCS", "CLARABEL"], case_sensitive=False),
    )
    buffers: int | None = option(
        "Number of values that a stream keeps in memory, for running sums. Default: as --rel-gap"
        " needs.",
        metavar="K",
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    p: float = option("Exponent p of the l_p error, from 2 to inf.", default=2.0, check=exponent)
    promise: PromiseOptions = group()
    limits: SolverOptions = group()
    streaming: bool = option("Make the strategy lower triangular, for streams, at the same error.")
    seed: int = option("Random seed of the search.", default=0)
    output: Path | None = strategy_output()
    outputs: Outputs = group(plot=drawing("delta against epsilon"))
    question: QuestionOptions = group()
    at_alpha: float | None = at_alpha()


@as_command("optimize", Asked, epilog=WORKLOAD_HELP)
def command(asked: Asked) -> None:
    """Design a strategy and its noise for WORKLOAD, and compare it with the usual ones.

    Without a guarantee the scale of the noise is the sensitivity.

    Example: pmldesign optimize prefix:64 --epsilon 1 --delta 1e-6 -o design.npz
    """
    options = asked.question.design_options(asked.limits, asked.promise)
    _require_method(asked.limits.method)
    queries, guarantee = asked.question.with_guarantee(asked.workload, asked.promise, note)
    asked.question.note_units(queries, note)
    cells, participation = queries.shape[1], options["participation"]
    require_alpha_fits(asked.at_alpha, cells, participation=participation)
    if asked.question.known is not None:
        options["neighbours"] = Neighbours.REPLACE
    relation = Neighbours(options["neighbours"]) if guarantee is None else guarantee.neighbours
    noise = asked.promise.noise
    if asked.streaming:
        noise = _streaming_noise(guarantee, relation, noise)
    from pmldesign.cli.documents.comparison import usual_rows
    from pmldesign.cli.documents.designs import Designed
    from pmldesign.designs.flow import optimize
    from pmldesign.files import write_strategy

    with progress() as callback:
        result = optimize(
            queries,
            guarantee,
            p=asked.p,
            noise=noise,
            streaming=asked.streaming,
            seed=asked.seed,
            callback=callback,
            **options,
        )
        # first the design itself, then the comparison, which may take longer
        if asked.output is not None:
            write_strategy(asked.output, result.stored, mechanism=result.best)
        designed = Designed(result, asked.output, asked.at_alpha)
        asked.outputs.begin(designed.section)
        bound = _bound(result, callback)
        asked.outputs.begin(lambda: designed.bound(bound))
        rows = result.table(usual_rows(result, callback))
    asked.outputs.deliver(designed.document(bound, rows), begun=True)
    result.design.require_optimal(gap_asked=given("rel_gap"))


def _require_method(method: str) -> None:
    """Refuse options of the solvers that were not asked for."""
    if given("solver") and method == "scaling":
        raise InvalidInputError("--solver is for --method primal or dual; remove it")


def _bound(result: Optimized, announce: Callable[[str], None]) -> Bound | None:
    """The lower bound for every mechanism, unless the limit or Ctrl-C comes first."""
    if result.guarantee is None or interrupted():
        return None
    if result.deadline.over():
        note("the lower bound is left out: the time limit came first")
        return None
    announce("bounding the error of every mechanism")
    try:
        return result.bound
    except KeyboardInterrupt:
        note("the lower bound is left out: interrupted")
        return None


def _streaming_noise(guarantee: Guarantee | None, relation: Neighbours, noise: Any) -> Any:
    """Gaussian noise, which does not mind the rotation to lower triangular form."""
    if relation is Neighbours.REPLACE:
        return noise  # refused by `optimize`, for another reason
    if noise in ("laplace", "integer-laplace", "cube") or (
        guarantee is not None and not guarantee.admits(Noise.GAUSSIAN)
    ):
        raise InvalidInputError(
            "--streaming is for Gaussian noise: a lower-triangular form has the same l2 norms, but"
            " other l1 norms; leave it out, or give --delta"
        )
    return "gaussian"
