"""pmldesign verify FILE [--workload WORKLOAD] [--weights FILE] [--schema SCHEMA]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.documents.document import Document, Section, Table, note, progress
from pmldesign.cli.options.fields import Outputs, argument, as_command, group, option
from pmldesign.cli.options.questions import QuestionOptions, WorkloadName
from pmldesign.errors import PartlyCheckedError, VerificationError
from pmldesign.files import read_prior
from pmldesign.files.verification import verify_file
from pmldesign.verifier import Check, Verdict, Verification

TABLE_DIGITS = 10
"""Of numbers in the table; verdicts compare all digits."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    file: Path = argument(click.Path(path_type=Path))
    workload: str | None = option(
        "Workload that a strategy answers. Default: the workload that FILE names.",
        type=WorkloadName(),
        metavar="WORKLOAD",
    )
    question: QuestionOptions = group(participation=None, known=None)
    outputs: Outputs = group(plot=None, table=None)


@as_command("verify", Asked)
def command(asked: Asked) -> None:
    """Recompute every number that FILE claims, from its arrays and the definitions.

    FILE is a strategy of `pmldesign optimize` (.npz), a table or manifest of `pmldesign release`, a
    certificate of `pmldesign envelope` (.json), or a state of `pmldesign stream prefix:inf`. The
    exit code is 7 if a claim is false, and 8 if one was not checked.

    Example: pmldesign verify strategy.npz
    """
    workload, question = asked.workload, replace(asked.question, weights=None)
    queries = None if workload is None else question.queries(workload, note)
    given = asked.question.weights
    weights = None if given is None else read_prior(given, name="weights")
    options: dict[str, Any] = {}
    if question.form is not None:
        options = {"parse": question.named, "schema": question.form.digest}
    with progress() as announce:
        announce(f"{asked.file.name}: every number that it claims is computed again")
        result = verify_file(asked.file, workload=queries, weights=weights, **options)
    asked.outputs.deliver(_document(result))
    if result.failures:
        raise VerificationError(f"{result.file}: what does not hold: {_names(result.failures)}")
    if not result.holds:
        names = _names(result.unchecked)
        raise PartlyCheckedError(f"{result.file}: what was checked holds; not checked: {names}")


def _names(checks: Sequence[Check]) -> str:
    return ", ".join(check.name for check in checks)


def _document(result: Verification) -> Document:
    """A row for each claim, and what became of all of them."""
    rows = [
        [c.name, _number(c.claimed), _number(c.computed), c.verdict.value, c.reason]
        for c in result.checks
    ]
    header = ("claim", "claimed", "computed", "verdict", "about")
    counts = Counter(check.verdict for check in result.checks)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    facts = [
        ("file", f"{result.file}, {result.kind}"),
        ("arithmetic", result.arithmetic),
        ("result", told),
    ]
    return Document(
        {**asdict(result), "holds": result.holds},
        [Section(tables=[Table(header, rows, texts=("about",))]), Section(facts=facts)],
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{TABLE_DIGITS}g}"
