"""pmldesign compare WORKLOAD... --p 2,4,inf --strategies design,tree,haar [guarantee options]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pmldesign.cli.documents.document import note, progress
from pmldesign.cli.options.fields import (
    ReportOutputs,
    argument,
    as_command,
    drawing,
    given,
    group,
    numbers,
    option,
)
from pmldesign.cli.options.promises import LISTS, PromiseOptions
from pmldesign.cli.options.questions import (
    FILE_ENDINGS,
    WORKLOAD_HELP,
    LimitOptions,
    QuestionOptions,
    StrategyNames,
    WorkloadName,
)
from pmldesign.comparison.parallel import Workers
from pmldesign.errors import NotConvergedError

if TYPE_CHECKING:
    from pmldesign.comparison.comparison import Comparison
    from pmldesign.strategies import Strategy
    from pmldesign.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workloads: tuple[str, ...] = argument(
        WorkloadName(), metavar="WORKLOAD...", nargs=-1, required=True
    )
    p: str = option(
        "Exponents p of the l_p error, from 2 to inf, separated by commas.",
        default="2",
        metavar="P,...",
    )
    strategies: str | None = option(
        "Strategies, separated by commas: design (the best one found), least-norm, baselines,"
        " files, or all. Default: design,tree,haar,identity,workload. Baselines: identity,"
        " workload, tree, tree:best, weighted-tree, haar, square-root, eigen-design, tree:B,"
        " weighted-tree:B, banded:B, blt:K.",
        type=StrategyNames(),
        metavar="NAME,...",
    )
    promise: PromiseOptions = group(**LISTS)
    limits: LimitOptions = group()
    jobs: int = option("Number of processes (more than one need the jobs extra).", default=1)
    question: QuestionOptions = group()
    outputs: ReportOutputs = group(plot=drawing("the errors"))


@as_command("compare", Asked, epilog=WORKLOAD_HELP)
def command(asked: Asked) -> None:
    """Compare the exact errors of strategies on every WORKLOAD.

    A family such as prefix:16..1024 stands for its powers of two. Without a guarantee the scale of
    the noise is the sensitivity.

    Example: pmldesign compare prefix:64 --p 2,inf --strategies design,haar
    """
    values = numbers("--p", asked.p, example="2,4,inf")
    promise, question = asked.promise, asked.question
    public = question.public(promise.neighbours)
    promises = promise.build_all()
    Workers(asked.jobs)  # refused before files are read
    from pmldesign.cli.documents.comparison import document_of
    from pmldesign.comparison.comparison import compare_all
    from pmldesign.workloads import expand_family

    names: Sequence[str] = asked.workloads
    if question.schema is None:
        names = [name for text in names for name in expand_family(text)]
    for guarantee in promises:
        question.require_cells(guarantee)
    queries = [question.queries(name, note) for name in names]
    for asked_for in queries:
        question.note_units(asked_for, note)
    with progress() as callback:
        shown = compare_all(
            queries,
            _strategies(asked.strategies, queries),
            p=values,
            guarantees=promises,
            noise=promise.noise,
            leave_out=asked.strategies in (None, "all"),
            jobs=asked.jobs,
            callback=callback,
            announce=callback,
            known=public,
            **question.design_options(asked.limits, promise),
        )
    asked.outputs.deliver(document_of(shown, question.takes_part))
    _require_finished(shown)


def _strategies(text: str | None, queries: Sequence[Workload]) -> list[str | Strategy]:
    """The names, and the strategies in the files, that the option lists."""
    from pmldesign.designs.rows import DESIGN, LEAST_NORM
    from pmldesign.files import read_strategy
    from pmldesign.strategies import BASELINES
    from pmldesign.strategies.baselines.registry import usual_baselines

    if text is None:
        usual = (name for asked in queries for name in usual_baselines(asked))
        return [*dict.fromkeys([DESIGN, *usual])]
    if text == "all":
        return [DESIGN, LEAST_NORM, *(baseline.name for baseline in BASELINES)]
    names = [name.strip() for name in text.split(",")]
    return [read_strategy(n) if n.lower().endswith(FILE_ENDINGS) else n for n in names]


def _require_finished(shown: Sequence[Comparison]) -> None:
    """Refuse designs that stopped early, and a comparison that Ctrl-C ended."""
    for comparison in shown:
        for design in comparison.designs.values():
            design.require_optimal(gap_asked=given("rel_gap"))
    if any(comparison.interrupted for comparison in shown):
        raise NotConvergedError("interrupted: only what was finished is shown; run it again")
