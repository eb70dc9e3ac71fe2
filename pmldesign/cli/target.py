"""pmldesign target WORKLOAD --std 5 [--delta 1e-6]: the least budget for accuracies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pmldesign.arguments import as_number
from pmldesign.cli.documents.document import note, progress
from pmldesign.cli.documents.targets import Needed, usual_budgets
from pmldesign.cli.options.fields import (
    ReportOutputs,
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
    TOTAL,
    WORKLOAD_HELP,
    LimitOptions,
    QuestionOptions,
    WorkloadName,
)
from pmldesign.designs.targets.accuracy import Targets, as_targets, named_targets
from pmldesign.designs.targets.least import BUDGET_GAP, least_budget
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import read_prior, write_strategy
from pmldesign.files.workloads import is_matrix_path
from pmldesign.privacy.guarantee_syntax import PLACEHOLDER
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise
from pmldesign.workloads import Workload
from pmldesign_solvers.operators.deadline import Effort

LEAST: dict[str, Any] = {
    "epsilon": None,
    "delta": {"help": "Delta of DP, or failure probability of PML, in (0, 1). Default: 0."},
    "guarantee": {
        "help": "Guarantee with an open budget, instead of --delta and --alpha: dp, dp:delta=1e-6,"
        " zcdp, gdp, renyi:8 or pml:alpha=0.1,delta=1e-6,failure=slack.",
        "metavar": "KIND:KEY=VALUE,...",
    },
    "noise": {"help": "Kind of noise; auto chooses the smallest budget."},
}
"""The options of a guarantee whose budget is looked for."""
GAP = {
    "help": "Relative gap between the bounds on the budget at which the search stops (Gaussian"
    " noise).",
    "default": BUDGET_GAP,
}


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions:
    """A standard deviation or a half-width, for all queries or for each."""

    std: str | None = option(
        "Maximum standard deviation: a number, a file with a number for each query, or numbers for"
        " tables by name, such as sex=5,age=10 or 20,sex=5 (20 for all others).",
        metavar="NUMBER|FILE|NAME=NUMBER,...",
    )
    half_width: str | None = option(
        "Maximum half-width of the intervals at --level, written as for --std.",
        metavar="NUMBER|FILE|NAME=NUMBER,...",
    )
    level: float = option("Confidence level of --half-width, in (0, 1).", default=0.95)

    def of(self, queries: Workload, text: str) -> Targets:
        """The targets that the options describe.

        Args:
            queries: the workload.
            text: how it was written, whose parts have names.

        Raises:
            FileError: a file of targets cannot be read.
            InvalidInputError: neither option, both, or a value that does not fit the workload.
        """
        if self.std is not None and self.half_width is not None:
            raise InvalidInputError("--std and --half-width exclude each other; remove one of them")
        if self.std is not None and given("level"):
            raise InvalidInputError(
                "--level belongs to half-widths; write --half-width instead of --std, or remove"
                " --level"
            )
        value = self.std if self.half_width is None else self.half_width
        if value is None:
            raise InvalidInputError(
                "the accuracy is missing; add for example --std 5 or --half-width 10"
            )
        level = None if self.half_width is None else self.level
        return as_targets(replace(_targets(value, queries, text), level=level), queries)


def _targets(value: str, queries: Workload, text: str) -> Targets:
    """Targets from a number, a file, or numbers by name."""
    number = as_number(value)
    if number is not None:
        return Targets(number)
    if is_matrix_path(value):
        return Targets(read_prior(value, name="targets"))
    if "=" not in value:
        raise InvalidInputError(
            f"--std and --half-width take a number, a file with one number for each query (.csv or"
            f" .npy), or NAME=5,NAME=10; got {value[:60]!r}"
        )
    first, comma, rest = value.partition(",")
    default = as_number(first) if comma else None
    return named_targets(queries, _named(value if default is None else rest, text), default)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    accuracy: AccuracyOptions = group()
    promise: PromiseOptions = group(**LEAST)
    limits: LimitOptions = group(rel_gap=GAP, time_limit=TOTAL)
    output: Path | None = strategy_output()
    outputs: ReportOutputs = group(plot=drawing("delta against epsilon"))
    question: QuestionOptions = group()
    at_alpha: float | None = at_alpha()


@as_command("target", Asked, epilog=WORKLOAD_HELP)
def command(asked: Asked) -> None:
    """Find the smallest privacy budget at which every query of WORKLOAD is accurate enough.

    The accuracy is --std or --half-width. Without --delta and --guarantee the noise is Laplace
    noise.

    Example: pmldesign target sex*age --schema schema.json --half-width 5 -o design.npz
    """
    noise, gap = asked.promise.noise, asked.limits.rel_gap
    public = asked.question.public(asked.promise.neighbours)
    guarantee = _promise(asked.promise)
    asked.question.require_cells(guarantee)
    queries = asked.question.queries(asked.workload, note)
    participation = asked.question.takes_part
    require_alpha_fits(asked.at_alpha, queries.shape[1], participation=participation)
    accuracy = asked.accuracy.of(queries, asked.workload)
    with progress() as callback:
        budget = least_budget(
            queries,
            guarantee,
            targets=accuracy,
            noise=noise,
            effort=Effort(asked.limits.effort),
            budget_gap=gap,
            time_limit=asked.limits.time_limit,
            known=public,
            participation=participation,
            fractions=asked.question.fractions,
            callback=callback,
        )
        if asked.output is not None:
            write_strategy(asked.output, budget.mechanism)
        needed = Needed(budget, asked.output, asked.at_alpha)
        asked.outputs.begin(needed.section)
        rows = budget.table(usual_budgets(budget, callback))
    asked.outputs.deliver(needed.document(rows), begun=True)
    if (
        budget.mechanism.noise is Noise.GAUSSIAN
        and not guarantee.pml
        and budget.gap > budget.asked.gap(gap)
    ):
        raise NotConvergedError(
            f"the bounds on {budget.name} are a relative {budget.gap:.1e} apart:"
            f" {budget.design.status.value}; both hold"
        )


def _promise(options: PromiseOptions) -> Guarantee:
    """The guarantee whose budget is searched for."""
    if options.guarantee is None:
        options = replace(options, epsilon=PLACEHOLDER)
    guarantee = options.build(open_budget=True)
    assert guarantee is not None
    return guarantee


def _named(text: str, workload: str) -> Mapping[str, float]:
    """Numbers by name: "A=20,B=5"; a name may have commas and signs of equality itself."""
    named: dict[str, float] = {}
    rest = ""
    for part in text.split(","):
        piece = f"{rest},{part}" if rest else part
        name, equals, number = piece.rpartition("=")
        value = as_number(number)
        if value is None:
            rest = piece
            continue
        if rest == "" and equals and name.strip() and _begins_part(piece, text, workload):
            rest = piece
            continue
        named[name.strip()] = value
        rest = ""
    if rest or "" in named or not named:
        raise InvalidInputError(
            f"targets of parts are written as NAME=20,NAME=5, got {text[:60]!r}; a part may be"
            " called by its number from 1"
        )
    return named


def _begins_part(piece: str, text: str, workload: str) -> bool:
    """Whether what looks like NAME=C is the beginning of a longer name of a part."""
    parts = [part.strip() for part in workload.split("+")]
    longer = [part for part in parts if part.startswith(piece.strip()) and f"{part}=" in text]
    return bool(longer) and piece.rpartition("=")[0].strip() not in parts
