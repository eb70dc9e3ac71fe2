"""pmldesign demo [people|panel|stream|norm] [FOLDER]: a worked example.

A demonstration is a folder with data and a script, run.sh, whose commands are printed with their
output and can be adapted to the user's own data. The data are the same each time, the noise is not.
The data are invented, except for the panel, which is of real men (shown/young_men.txt).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path

import click

from pmldesign.cli.documents.document import print_json
from pmldesign.cli.options.fields import Outputs, argument, as_command, group
from pmldesign.errors import FileError, InvalidInputError, PmldesignError, require_extra

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 50, 65, 120]},
        {"name": "region", "keys": ["north", "east", "south", "west"]},
    ]
}
PANEL = {
    "attributes": [
        {"name": "year", "keys": [*range(1980, 1988)], "ordered": True},
        {"name": "union", "keys": ["no", "yes"]},
        {"name": "hours", "low": 0, "high": 4000, "unit": 1},
    ],
    "person": "man",
    "one_per": "year",
}
MEANS = "year*hours:mean,545 + union*hours:mean,1000"
REPORT = "report.html"


@dataclass(frozen=True)
class Demonstration:
    """What is shown: the files that are written first, and the commands."""

    about: str
    files: Callable[[random.Random], Mapping[str, str]]
    commands: tuple[str, ...]
    table: str = ""
    """The file whose first lines are shown at the end."""


def _people(draw: random.Random) -> dict[str, str]:
    regions = draw.choices(["north", "east", "south", "west"], [4, 3, 2, 1], k=5000)
    rows = [f"{draw.choice('FM')},{int(draw.triangular(0, 100, 35))},{name}" for name in regions]
    return {
        "people.csv": "\n".join(["sex,age,region", *rows, ""]),
        "schema.json": json.dumps(SCHEMA, indent=2) + "\n",
    }


def _panel(draw: random.Random) -> dict[str, str]:  # noqa: ARG001 - the others draw
    shown = files("pmldesign.cli") / "shown"
    names = ("young_men.csv", "young_men.txt")
    texts = {name: shown.joinpath(name).read_text(encoding="utf-8") for name in names}
    return {**texts, "schema.json": json.dumps(PANEL, indent=2) + "\n"}


def _visitors(draw: random.Random) -> dict[str, str]:
    days = [round(draw.gauss(200 if day % 7 < 5 else 320, 30)) for day in range(365)]
    return {"visitors.txt": "".join(f"{day}\n" for day in days)}


def _nothing(draw: random.Random) -> dict[str, str]:  # noqa: ARG001 - the others draw
    return {}


DEMONSTRATIONS = {
    "people": Demonstration(
        "Counts of 5,000 invented people by sex and age, and by region, to plus or minus 5.",
        _people,
        (
            'pmldesign target "sex*age + region" --schema schema.json --half-width 5 -o design.npz',
            'pmldesign release "sex*age + region" people.csv --schema schema.json'
            f" --strategy design.npz -o tables.csv --report {REPORT}",
            'pmldesign verify design.npz --workload "sex*age + region" --schema schema.json',
        ),
        "tables.csv",
    ),
    "panel": Demonstration(
        "Hours that 545 young men worked, with and without a union, in each of eight years.",
        _panel,
        (
            f'pmldesign compare "{MEANS}" --schema schema.json --epsilon 1 --delta 1e-6'
            f" --noise gaussian --report {REPORT}",
            f'pmldesign release "{MEANS}" young_men.csv --schema schema.json --epsilon 1'
            " --delta 1e-6 --noise gaussian --measurements measured.npz -o panel.csv",
            'pmldesign ask measured.npz "union + union:share + hours:mean" --schema schema.json',
        ),
        "panel.csv",
    ),
    "stream": Demonstration(
        "Visitors of a museum, summed up day after day for a year.",
        _visitors,
        (
            "pmldesign optimize prefix:365 --epsilon 1 --delta 1e-6 --noise gaussian -o sums.npz",
            "pmldesign compare prefix:365 --epsilon 1 --delta 1e-6 --noise gaussian"
            f" --strategies least-norm,tree,identity --report {REPORT}",
            "pmldesign stream sums.npz < visitors.txt > answers.csv",
            "pmldesign verify sums.npz",
        ),
        "answers.csv",
    ),
    "norm": Demonstration(
        "The largest error of running sums: a factorization norm, certified.",
        _nothing,
        (
            "pmldesign optimize prefix:64 --p inf -o norm.npz",
            f"pmldesign compare prefix:64 --p inf --report {REPORT}",
            "pmldesign verify norm.npz",
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    kind: str = argument(click.Choice([*DEMONSTRATIONS]), required=False, default="people")
    folder: Path | None = argument(click.Path(path_type=Path), required=False)
    outputs: Outputs = group(plot=None, table=None)


@as_command("demo", Asked)
def command(asked: Asked) -> None:
    """Run a worked example: a table of people, a panel, running sums, or a norm.

    It writes data and a script, run.sh, into FOLDER (default: pmldesign-KIND), runs its commands,
    and opens the report if the terminal has a browser. The data of the panel are real, all others
    are invented.

    Example: pmldesign demo people
    """
    for package in ("opendp", "matplotlib", "flint"):
        require_extra("the demonstration", package, "release,plot,verify")
    shown = DEMONSTRATIONS[asked.kind]
    folder = Path(f"pmldesign-{asked.kind}") if asked.folder is None else asked.folder
    _write(shown, folder)
    report = folder / REPORT
    if asked.outputs.json:
        for line in shown.commands:
            _run(line, folder, quiet=True)
        print_json({"folder": str(folder), "commands": shown.commands, "report": str(report)})
        return
    click.echo(
        f"# {shown.about}\n# {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}"
    )
    for line in shown.commands:
        click.echo(f"\n$ {line}")
        _run(line, folder)
    if shown.table:
        click.echo(f"\n# the first lines of {folder / shown.table}")
        click.echo(_first_lines(folder / shown.table))
    click.echo(f"\n# Open {report}. To use your own data, change run.sh.")
    if sys.stdout.isatty():
        click.launch(str(report))


def _write(shown: Demonstration, folder: Path) -> None:
    """Fill a folder that is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} is not an empty folder; write another name as FOLDER")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {str(folder)!r}: {error.strerror}; write another name"
            " as FOLDER"
        ) from None
    script = "\n".join(["#!/bin/sh", f"# {shown.about}", "set -e", *shown.commands, ""])
    for name, text in {**shown.files(random.Random(1)), "run.sh": script}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "run.sh").chmod(0o755)


def _first_lines(path: Path) -> str:
    with path.open(encoding="utf-8") as handle:
        return "".join(islice(handle, 6)).rstrip("\n")


def _run(line: str, folder: Path, *, quiet: bool = False) -> None:
    """Run a line of the script as a shell does, with the pmldesign of this interpreter."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": beside}
    with subprocess.Popen(
        line, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        for printed in process.stdout or ():
            if not quiet:
                click.echo(printed, nl=False)
    if process.returncode:
        raise PmldesignError(f"the command above ended with exit code {process.returncode}")
