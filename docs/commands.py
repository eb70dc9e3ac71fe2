"""Reference pages of the commands, generated from click.

python docs/commands.py FOLDER    write a page for each command, and an index of them
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

SYNTAX = re.compile(r"[<>|*_\[\]]")


def escaped(text: str) -> str:
    """Text with the characters that Markdown would interpret escaped, except in code."""
    parts = re.split(r"(`[^`]*`)", text)
    kept = (part if part.startswith("`") else SYNTAX.sub(r"\\\g<0>", part) for part in parts)
    return "".join(kept).replace("\n", " ")


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and the commands below it, each with its full name."""
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from commands(found, f"{name} {child}")
    else:
        yield name, command


def page(name: str, command: click.Command) -> str:
    """The page of one command: usage, description, and options section by section."""
    from pmldesign.cli.options.sections import by_section

    context = click.Context(command, info_name=name)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    paragraphs = [
        escaped(re.sub(r"\s+", " ", part.replace("\b", " "))).strip()
        for part in f"{command.help or ''}\n\n{command.epilog or ''}".split("\n\n")
    ]
    lines = [f"# {name}", "", "```text", usage, "```", ""]
    lines += [line for part in paragraphs if part for line in (part, "")]
    for section, parameters in by_section(command.get_params(context)):
        records = [parameter.get_help_record(context) for parameter in parameters]
        rows = [f"| `{r[0].replace('|', chr(92) + '|')}` | {escaped(r[1])} |" for r in records if r]
        lines += [f"## {section}", "", "| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """The text of each page by its file name without the ending."""
    from pmldesign.cli import main

    found = list(commands(main, "pmldesign"))
    texts = {name.partition(" ")[2].replace(" ", "-"): page(name, each) for name, each in found}
    names = "\n".join(texts)
    texts["index"] = (
        "# Commands\n\nEvery command with its options, as `--help` shows them.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    )
    return texts


def write(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
