"""pmldesign schema people.csv -o schema.json."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pmldesign.cli.options import common
from pmldesign.cli.terminal.show import note


@click.command(name="schema")
@click.argument("data", type=click.Path(path_type=Path))
@common.file_option(
    "-o", "--output", help="Write the schema: .json. Without it the schema is printed."
)
def command(data: Path, output: Path | None) -> None:
    """Draft a schema of the people in DATA, a .csv, .parquet or .arrow file.

    The draft has values of the data in it: look at it before anything is published. `pmldesign
    release` refuses it until "reviewed": false is taken out.
    """
    from pmldesign.files import atomic_write, check_writable
    from pmldesign.release.people.drafts import draft_schema

    if output is not None:
        check_writable(output)
    draft = draft_schema(data)
    text = json.dumps(draft, indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    with atomic_write(output, "w") as handle:
        handle.write(text)
    for told in draft["notes"]:
        note(told)
    note(f'{output.name} has labels from the data; review it, then remove "reviewed": false')
