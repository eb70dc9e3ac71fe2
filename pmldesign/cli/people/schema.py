"""pmldesign schema people.csv -o schema.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from pmldesign.cli.options.fields import argument, as_command, option
from pmldesign.cli.terminal.show import note


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    data: Path = argument(click.Path(path_type=Path))
    output: Path | None = option(
        "Write the schema: .json. Without it the schema is printed.", "-o", "--output"
    )


@as_command("schema", Asked)
def command(asked: Asked) -> None:
    """Draft a schema of the people in DATA, a .csv, .parquet or .arrow file.

    The draft has values of the data in it: look at it before anything is published. `pmldesign
    release` refuses it until "reviewed": false is taken out.
    """
    from pmldesign.files import atomic_write, check_writable
    from pmldesign.release.people.drafts import draft_schema

    output = asked.output
    if output is not None:
        check_writable(output)
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
