"""pmldesign bounds WORKLOAD --p 4 --epsilon 1 [guarantee options] [--json]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pmldesign.api import bounds as bounds_of
from pmldesign.arguments import exponent
from pmldesign.cli.documents.comparison import shown_rows
from pmldesign.cli.documents.document import (
    Document,
    Section,
    Table,
    note,
    progress,
)
from pmldesign.cli.documents.parts import between, promised, workload_fact
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import (
    TOTAL,
    WORKLOAD_HELP,
    LimitOptions,
    QuestionOptions,
    WorkloadName,
)
from pmldesign.cli.options.wording import in_options
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.flow import least_norm
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.questions import Question
from pmldesign.designs.results import Design
from pmldesign.designs.rows import LEAST_NORM, Row
from pmldesign.designs.rows import row_of as row_for
from pmldesign.error_bounds import Bound, Kind
from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.outward import shortest
from pmldesign_solvers.operators.deadline import Deadline


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    p: float = option("Exponent p of the l_p error, from 2 to inf.", default=2.0, check=exponent)
    promise: PromiseOptions = group()
    limits: LimitOptions = group(effort=None, time_limit=TOTAL)
    outputs: Outputs = group(plot=None)
    question: QuestionOptions = group()


@as_command("bounds", Asked, epilog=WORKLOAD_HELP)
def command(asked: Asked) -> None:
    """Show lower and upper bounds on the error of mechanisms for WORKLOAD.

    Every bound names the mechanisms that it covers; bounds that do not apply give the reason.

    Example: pmldesign bounds prefix:64 --epsilon 1 --delta 1e-6
    """
    queries, guarantee = asked.question.with_guarantee(asked.workload, asked.promise, note)
    if guarantee is None:
        raise InvalidInputError("bounds are for a guarantee; add for example --epsilon 1")
    options = asked.question.design_options(asked.limits, asked.promise)
    with progress() as callback:
        question = Question(
            queries,
            asked.p,
            guarantee,
            asked.promise.noise,
            DesignOptions(**options | {"callback": callback, "neighbours": guarantee.neighbours}),
        )
        deadline = Deadline.of(question.options.time_limit)
        design = least_norm(question, deadline, start_only=False)
        baselines = Baselines(queries, question.relation, question.options.schema)

        def row_of(name: str) -> Row:
            if name == LEAST_NORM:
                return row_for(name, baselines.of(design.strategy), question)
            baselines.require_small(name, guarantee)
            return row_for(name, baselines.factorization(name), question)

        rows = [*shown_rows((LEAST_NORM, "tree", "identity"), callback, row_of, deadline)]
    errors = {f"{row.strategy}, {row.noise} noise": row.error for row in rows}
    bounds = bounds_of(design, guarantee=guarantee, errors=errors)
    asked.outputs.deliver(_document(design, guarantee, bounds))


def _document(design: Design, guarantee: Guarantee, bounds: Sequence[Bound]) -> Document:
    """Bounds on the error of mechanisms for the workload of a design."""
    about = [
        workload_fact(design.workload),
        ("norm", f"gamma_({shortest(design.p)}) {between(design.certificate)}"),
        *promised(guarantee.describe(design.workload.shape[1])),
    ]
    found = [asdict(bound) | {"holds": bound.holds} for bound in bounds]
    table = Table(
        ("bound", "kind", "value", "mechanisms"),
        _cells(bounds),
        texts=["bound", "mechanisms"],
        records=found,
    )
    missing = _reasons("Not applicable", bounds, holds=False)
    return Document(
        data=[record | {"guarantee_numbers": guarantee.to_json()} for record in found],
        summary=[Section(facts=about), Section(tables=[table]), missing],
        table=table,
    )


def _cells(bounds: Sequence[Bound]) -> list[list[str]]:
    """The bounds that hold by the size that is shown, lower ones first."""
    shown = sorted((bound for bound in bounds if bound.holds), key=lambda b: float(b.rounded))
    return [
        [bound.name, kind.value, bound.rounded, bound.mechanisms]
        for kind in Kind
        for bound in shown
        if bound.kind is kind
    ]


def _reasons(title: str, bounds: Sequence[Bound], *, holds: bool) -> Section:
    return Section(
        title, facts=[(b.name, in_options(b.reason)) for b in bounds if b.holds is holds]
    )
