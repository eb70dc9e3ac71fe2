"""pmldesign schema people.csv -o schema.json [--private --epsilon 0.5 --delta 1e-8]."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from pmldesign.cli.documents.document import note
from pmldesign.cli.options.fields import argument, as_command, given, group, option
from pmldesign.cli.options.promises import LedgerOptions
from pmldesign.errors import InvalidInputError

OF_PRIVATE = ("epsilon", "delta", "columns", "ledger", "people", "same_people", "budget")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    data: Path = argument(click.Path(path_type=Path))
    output: Path | None = option(
        "Write the schema: .json. Without it the schema is printed.", "-o", "--output"
    )
    private: bool = option(
        "Keys and cuts from noisy counts above a threshold, which cost epsilon and delta."
    )
    epsilon: float | None = option("Of a private draft, all columns together.")
    delta: float | None = option("Likewise: that a value of one record alone is seen.")
    columns: str | None = option(
        "Of a private draft: those that are looked at; all without it.", metavar="NAME,..."
    )
    paid: LedgerOptions = group(plan=None)


@as_command("schema", Asked)
def command(asked: Asked) -> None:
    """Draft a schema of the people in DATA, a .csv, .parquet or .arrow file.

    The draft has values of the data in it: look at it before anything is published. `pmldesign
    release` refuses it until "reviewed": false is taken out. A draft that is made with --private
    may be used as it is.
    """
    from pmldesign.files import atomic_write, check_writable
    from pmldesign.release.people.drafts import draft_schema

    output = asked.output
    if output is not None:
        check_writable(output)
    if asked.private:
        _private(asked)
        return
    named = [name for name in OF_PRIVATE if given(name)]
    if named:
        raise InvalidInputError(
            f"--{named[0].replace('_', '-')} is for a private draft; add --private, or leave it out"
        )
    draft = draft_schema(asked.data)
    text = json.dumps(draft, indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    with atomic_write(output, "w") as handle:
        handle.write(text)
    for told in draft["notes"]:
        note(told)
    note(f'{output.name} has labels from the data; review it, then remove "reviewed": false')


def _private(asked: Asked) -> None:
    """A draft that keeps a guarantee."""
    from pmldesign.privacy.guarantees import ApproxDP
    from pmldesign.release.private_schema import private_draft

    if asked.epsilon is None or asked.delta is None:
        raise InvalidInputError(
            "a private draft needs --epsilon and --delta; add for example --epsilon 0.5"
            " --delta 1e-8"
        )
    promise = ApproxDP(asked.epsilon, asked.delta)
    names = None if asked.columns is None else [n.strip() for n in asked.columns.split(",")]
    draft = private_draft(
        asked.data, promise, columns=names, ledger=asked.paid.account(), output=asked.output
    )
    if asked.output is None:
        click.echo(json.dumps(draft, indent=2))
    for told in draft["notes"]:
        note(told)
