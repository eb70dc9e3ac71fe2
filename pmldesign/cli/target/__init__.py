"""pmldesign target WORKLOAD --max-std 5 [--delta 1e-6]: the least budget for accuracies."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.documents.targets import Needed, usual_budgets
from pmldesign.cli.options.fields import argument, as_command, group, option
from pmldesign.cli.options.promises import (
    PromiseOptions,
    at_alpha,
    own_grid,
    require_alpha_fits,
)
from pmldesign.cli.options.questions import LimitOptions, QuestionOptions, search_time
from pmldesign.cli.options.results import Outputs, drawing, strategy_output
from pmldesign.cli.target.accuracies import AccuracyOptions
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.process import interrupted
from pmldesign.cli.terminal.show import note, progress
from pmldesign.designs.targets.least import BUDGET_GAP, least_budget
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import write_strategy
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.privacy.noise import Noise

LEAST: dict[str, Any] = {
    **dict.fromkeys(("epsilon", "rho", "mu", "renyi")),
    "delta": {"help": "Slack or failure probability, with epsilon."},
    "alpha": {"help": "PML: every cell has at least this probability."},
    "noise": {"help": "auto takes the noise that needs less."},
}
"""The options of a guarantee whose budget is looked for."""
GAP = {
    "help": "Gaussian noise: stop when enough / at_least - 1 is at most this.",
    "default": BUDGET_GAP,
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    workload: str = argument(WorkloadName())
    accuracy: AccuracyOptions = group()
    currency: str = option(
        "What is to be least: of DP or PML, zCDP, Gaussian DP.",
        default="epsilon",
        type=click.Choice(["epsilon", "rho", "mu"]),
    )
    promise: PromiseOptions = group(**LEAST)
    limits: LimitOptions = group(rel_gap=GAP, time_limit={"help": "For everything."})
    search_time: float | None = search_time("For the search of a strategy for Laplace noise.")
    output: Path | None = strategy_output()
    outputs: Outputs = group(plot=drawing("delta against epsilon"))
    question: QuestionOptions = group()
    at_alpha: float | None = at_alpha()
    own_grid: bool | None = own_grid("where it gains 5 % or more")


@as_command("target", Asked)
def command(asked: Asked) -> None:
    """Find the least budget at which every query of WORKLOAD is accurate enough.

    WORKLOAD is as for `pmldesign optimize`. The accuracy is a standard deviation or a half-width
    for all queries, or one for each query or part. Without --delta, --currency rho or mu the noise
    is Laplace noise.
    """
    noise, gap = asked.promise.noise, asked.limits.rel_gap
    public = asked.question.public(asked.promise.neighbours)
    guarantee = _promise(asked.promise, asked.currency)
    asked.question.require_cells([guarantee])
    queries = asked.question.queries(asked.workload, note)
    participation = asked.question.takes_part
    require_alpha_fits(asked.at_alpha, queries.shape[1], participation=participation)
    accuracy = asked.accuracy.of(queries, asked.workload)
    start, limit = time.perf_counter(), asked.limits.time_limit
    deadline = None if limit is None else start + limit
    with progress() as callback:
        budget = least_budget(
            queries,
            accuracy,
            guarantee,
            noise=noise,
            search_time=asked.search_time,
            budget_gap=gap,
            time_limit=limit,
            known=public,
            participation=participation,
            own_grid=asked.question.on_grid(asked.own_grid),
            callback=callback,
        )
        if asked.output is not None:
            write_strategy(asked.output, budget.mechanism)
        needed = Needed(budget, asked.output, asked.at_alpha)
        asked.outputs.begin(needed.section)
        rows = usual_budgets(budget, noise, callback, deadline)
    asked.outputs.deliver(needed.document(rows), begun=True)
    if interrupted():
        raise NotConvergedError("interrupted: what is shown holds, but more time may improve it")
    if budget.mechanism.noise is Noise.GAUSSIAN and not guarantee.pml and budget.gap > gap:
        raise NotConvergedError(
            f"the bounds on {budget.name} are a relative {budget.gap:.1e} apart:"
            f" {budget.design.status.value}; both hold"
        )


def _promise(options: PromiseOptions, currency: str) -> Guarantee:
    """The guarantee whose budget is looked for; the one that it has here does not count."""
    if currency != "epsilon" and options.delta is not None:
        raise InvalidInputError(f"--delta is for --currency epsilon, not {currency}; leave it out")
    budget: dict[str, Any] = {currency: 1e-6}
    guarantee = replace(options, **budget).build()
    assert guarantee is not None
    return guarantee
