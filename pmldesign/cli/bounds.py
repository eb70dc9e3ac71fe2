"""pmldesign bounds WORKLOAD --p 4 --epsilon 1 [guarantee options] [--json]."""

from __future__ import annotations

from dataclasses import dataclass

from pmldesign.api import error_bounds
from pmldesign.cli.documents.baselines import usual_rows
from pmldesign.cli.documents.bounds import document_of
from pmldesign.cli.options.fields import argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import LimitOptions, QuestionOptions
from pmldesign.cli.options.results import Outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.process import interrupted
from pmldesign.cli.terminal.show import note, progress
from pmldesign.comparison.comparison import compare
from pmldesign.designs.min_norm import factorize
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign_solvers.norm.solution import Status


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    p: float = option("Of the error; 2 to inf.", default=2.0)
    promise: PromiseOptions = group()
    limits: LimitOptions = group()
    outputs: Outputs = group(plot=None)
    question: QuestionOptions = group()


@as_command("bounds", Asked)
def command(asked: Asked) -> None:
    """Show how close to the best possible the error on WORKLOAD is: lower and upper bounds.

    WORKLOAD is a name such as prefix:64 (`pmldesign workload` lists them), names joined by * for
    products and by + for unions, a .npy, .npz, .csv or .mtx file, or - for standard input. Each
    bound says which mechanisms it speaks of; those that do not apply say why.
    """
    queries, guarantee = asked.question.with_guarantee(asked.workload, asked.promise, note)
    if guarantee is None:
        raise InvalidInputError("bounds are for a guarantee; add for example --epsilon 1")
    options = asked.question.design_options(asked.limits, asked.promise)
    options["neighbours"] = guarantee.neighbours
    with progress() as callback:
        design = factorize(queries, p=asked.p, callback=callback, **options)
        problem = {"p": asked.p, "guarantee": guarantee, "noise": asked.promise.noise}
        reached = compare(queries, [design.strategy.renamed("least-norm")], **problem)
        usual = usual_rows(
            queries,
            ("tree", "identity"),
            **problem,
            neighbours=guarantee.neighbours,
            participation=asked.question.participation,
            announce=callback,
        )
    errors = {f"{row.strategy}, {row.noise} noise": row.error for row in [*reached.rows, *usual]}
    bounds = error_bounds(design, guarantee=guarantee, errors=errors)
    asked.outputs.deliver(document_of(design, guarantee, bounds))
    if interrupted() or design.status is Status.INTERRUPTED:
        raise NotConvergedError("interrupted: what is shown holds, but more time may improve it")
