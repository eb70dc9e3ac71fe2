"""pmldesign bounds WORKLOAD --p 4 --epsilon 1 [guarantee options] [--json]."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pmldesign.api import error_bounds
from pmldesign.arguments import exponent
from pmldesign.bounds import Bound, Kind
from pmldesign.cli.documents.comparison import is_late, usual_rows
from pmldesign.cli.documents.document import (
    Document,
    Section,
    Table,
    note,
    progress,
)
from pmldesign.cli.documents.parts import between, note_coarse, promised, workload_fact
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.cli.options.promises import PromiseOptions
from pmldesign.cli.options.questions import LimitOptions, QuestionOptions, WorkloadName
from pmldesign.comparison.comparison import compare
from pmldesign.comparison.rows import Row
from pmldesign.designs.dispatch import factorize
from pmldesign.designs.options import DesignOptions
from pmldesign.designs.results import Design
from pmldesign.designs.rivals import best_of, mechanism_seconds, with_time_for_noise
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import admissible
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.privacy.outward import shortest
from pmldesign.workloads import Workload

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    p: float = option("Of the error; 2 to inf.", default=2.0, check=exponent)
    promise: PromiseOptions = group()
    limits: LimitOptions = group(time_limit={"help": "For everything."})
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
    start, limit = time.perf_counter(), asked.limits.time_limit
    deadline = None if limit is None else start + limit
    kinds = admissible(guarantee, asked.promise.noise, asked.p)
    options["time_limit"], coarse = _with_time(options, queries, guarantee, kinds)
    problem = {"p": asked.p, "guarantee": guarantee, "noise": asked.promise.noise}
    with progress() as callback:
        design = factorize(queries, p=asked.p, callback=callback, **options)
        own = _own_rows(design, deadline, kinds, problem, coarse=coarse)
        usual = usual_rows(
            queries,
            ("tree", "identity"),
            **problem,
            neighbours=guarantee.neighbours,
            participation=options["participation"],
            announce=callback,
            deadline=deadline,
        )
    errors = {f"{row.strategy}, {row.noise} noise": row.error for row in [*own, *usual]}
    bounds = error_bounds(design, guarantee=guarantee, errors=errors)
    asked.outputs.deliver(_document(design, guarantee, bounds))


def _with_time(
    options: dict[str, Any], queries: Workload, guarantee: Guarantee, kinds: Sequence[Noise]
) -> tuple[float | None, bool]:
    """The time limit of the design, and whether noise is coarse if need be (`with_time_for_noise`).

    Noise has half of the time; none is left for what takes more.
    """
    limit = options["time_limit"]
    if limit is None:
        return None, False
    half = DesignOptions(**options | {"time_limit": limit / 2})
    with suppress(InvalidInputError):
        before, coarse = with_time_for_noise(half, queries, guarantee, kinds)
        return limit / 2 + (before.time_limit or 0.0), coarse
    return limit, False


def _own_rows(
    design: Design,
    deadline: float | None,
    kinds: Sequence[Noise],
    problem: dict[str, Any],
    *,
    coarse: bool,
) -> Sequence[Row]:
    """The strategy of least norm with the better noise, or the quicker one, if there is time."""
    strategy, quickest = design.strategy.renamed("least-norm"), best_of(kinds)
    tried = [(strategy, problem["noise"], kinds), (strategy, quickest.value, [quickest])]
    if coarse:
        tried.append((strategy.coarse(), quickest.value, [quickest]))
    asked = design.workload, problem["guarantee"]
    for measured, noise, some in tried:
        each = (mechanism_seconds(measured, *asked, kind, design.p) for kind in some)
        if deadline is None or not is_late(deadline, sum(each)):
            note_coarse(measured)
            return compare(design.workload, [measured], **problem | {"noise": noise}).rows
    note("the noise of the strategy of least norm is left out: the time limit came first")
    return ()


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
    return Section(title, facts=[(b.name, b.reason) for b in bounds if b.holds is holds])
