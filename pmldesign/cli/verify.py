"""pmldesign verify FILE [--workload WORKLOAD] [--schema SCHEMA]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pmldesign.cli.options import common, inputs, outputs
from pmldesign.cli.terminal.completion import WorkloadName
from pmldesign.cli.terminal.show import facts, note, print_json, table
from pmldesign.errors import PartlyCheckedError, VerificationError
from pmldesign.files import verify_file
from pmldesign.verify import Check, Verdict, Verification
from pmldesign.workloads import Workload, parse_workload

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
@common.add_options([inputs.schema_option])
@outputs.json_option
def command(file: Path, workload: str | None, schema: Path | None, as_json: bool) -> None:
    """Check every number that FILE claims, from its arrays and the definitions alone.

    FILE is a strategy file of `pmldesign optimize` (.npz), the manifest of `pmldesign release` or a
    table beside it, or the certificate of `pmldesign envelope` (.json). The exit code is 7 if a
    claim does not hold, and 8 if one was not checked.
    """
    queries = None if workload is None else inputs.load_queries(workload, schema, note)
    result = verify_file(file, workload=queries, parse=_parser(schema))
    if as_json:
        print_json({**asdict(result), "holds": result.holds})
    else:
        _show(result)
    if result.failures:
        raise VerificationError(f"{result.file}: what does not hold: {_names(result.failures)}")
    if not result.holds:
        names = _names(result.unchecked)
        raise PartlyCheckedError(f"{result.file}: what was checked holds; not checked: {names}")


def _parser(schema: Path | None) -> Callable[[str], Workload]:
    """What makes a workload of the name that a file has: with a schema of names of attributes."""
    if schema is None:
        return parse_workload
    from pmldesign.release.people.queries import parse_queries
    from pmldesign.release.people.schema import read_schema

    people = read_schema(schema)
    return lambda name: parse_queries(name, people).workload


def _names(checks: Sequence[Check]) -> str:
    return ", ".join(check.name for check in checks)


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
