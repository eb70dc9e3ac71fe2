"""pmldesign verify FILE [--workload WORKLOAD]."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from pmldesign.cli.options import outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import facts, note, print_json, table
from pmldesign.errors import VerificationError
from pmldesign.files import load_workload, verify_file
from pmldesign.verify import Verdict, Verification

TABLE_DIGITS = 10
"""Of numbers in the table; verdicts compare all digits."""


@click.command(name="verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--workload",
    type=WorkloadName(),
    metavar="WORKLOAD",
    help="The queries that a strategy answers; by default those that FILE names.",
)
@outputs.json_option
def command(file: Path, workload: str | None, as_json: bool) -> None:
    """Check every number that FILE claims, from its arrays and the definitions alone.

    FILE is a strategy file of `pmldesign optimize` (.npz), the manifest of `pmldesign release` or
    the certificate of `pmldesign envelope` (.json). The exit code is 7 if a claim does not hold.
    """
    queries = None if workload is None else load_workload(workload, note=note)
    result = verify_file(file, workload=queries)
    if as_json:
        print_json({**asdict(result), "holds": result.holds})
    else:
        _show(result)
    if not result.holds:
        names = ", ".join(check.name for check in result.failures)
        said = f"what does not hold: {names}" if names else "nothing could be checked"
        raise VerificationError(f"{result.file}: {said}")


def _show(result: Verification) -> None:
    rows = [
        [c.name, _number(c.claimed), _number(c.computed), c.verdict.value, c.reason]
        for c in result.checks
    ]
    table(("claim", "claimed", "computed", "verdict", "about"), rows, texts=("about",))
    counts = Counter(check.verdict for check in result.checks)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    click.echo()
    file = ("file", f"{result.file}, {result.kind}")
    facts([file, ("arithmetic", result.arithmetic), ("result", told)])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{TABLE_DIGITS}g}"
