"""Examples in Markdown pages: finding them, running them, and writing their output into the page.

A ```console block holds commands on lines that start with "$ ", each followed by its output. A
```python block is run as it stands; what it prints is in the ```text block right after it, if any.
The blocks of a page share one folder and one Python namespace.

`python tests/doc_blocks.py` rewrites the outputs of all pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```(?P<kind>console|python)\n(?P<body>.*?)^```$(?:\n\n^```text\n(?P<text>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
IN_PROCESS = re.compile(
    r"(?:cat (?P<piped>\S+) \| |seq (?P<numbers>\d+) \| )?pmldesign (?P<words>[^|<>$;&\n]*?)"
    r"(?: < (?P<input>\S+))?(?: > (?P<output>\S+))?(?: 2>&1 \| grep -E '(?P<kept>[^']+)')?"
    r"(?: \| head -(?P<first>\d+)| \| tail -(?P<last>\d+))?(?: && echo (?P<said>[\w ]+))?"
)
"""Commands that need no shell: redirections of at most one file each, and a choice of lines."""
PROGRAM = re.compile(r"(?<!\S)pmldesign (?P<words>[^|<>$;&\n]*?)(?= *(?:\d?[|<>;&\n]|$))")
"""Within a line for the shell: what it prints is computed here, and the shell shows it."""
CHANGED = re.compile(r"cd (?P<folder>[\w-]+) && ")
COMMAND = re.compile(r"^\$ (?P<line>.*(?:\n> .*)*)\n?(?P<output>(?:(?!\$ ).*\n?)*)", re.MULTILINE)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output shown for it."""
    for match in COMMAND.finditer(body):
        yield match["line"].replace("\n> ", "\n"), match["output"]


def run_command(line: str, folder: Path) -> str:
    """What a command prints, on both streams, run in a folder that is shown as /data."""
    return _output(line, folder).replace(str(folder.resolve()), "/data")


def _output(line: str, folder: Path) -> str:
    if match := IN_PROCESS.fullmatch(line):
        return _in_process(match, folder)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    functions = f"""pmldesign() {{ {shlex.quote(sys.executable)} -m pmldesign "$@"; }}
shown() {{ cat "$1.out"; cat "$1.err" >&2; return $2; }}"""
    with tempfile.TemporaryDirectory() as kept:
        result = subprocess.run(
            ["bash", "-c", f"{functions}\n{_computed(line, folder, Path(kept))}"],
            cwd=folder,
            env={**os.environ, "PATH": programs, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return result.stdout


def _computed(line: str, folder: Path, kept: Path) -> str:
    """The line with what its calls of the program print in their place."""
    for number, match in enumerate([*PROGRAM.finditer(line)]):
        changed = CHANGED.match(line)
        result = _called(match["words"], folder / (changed["folder"] if changed else ""))
        (kept / f"{number}.out").write_text(result.stdout)
        (kept / f"{number}.err").write_text(result.stderr)
        line = line.replace(match[0], f"shown {kept / str(number)} {result.exit_code}", 1)
    return line


def _called(words: str, folder: Path, text: bytes | str | None = None) -> Result:
    from pmldesign.cli import main

    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.cli.demo._run", _in_script)
        result = CliRunner().invoke(main, shlex.split(words), input=text, prog_name="pmldesign")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _in_script(line: str, folder: Path) -> None:
    click.echo(_called(line.removeprefix("pmldesign "), folder).stdout, nl=False)


def _in_process(line: re.Match[str], folder: Path) -> str:
    source, target = line["piped"] or line["input"], line["output"]
    text: bytes | str | None = (folder / source).read_bytes() if source else None
    if line["numbers"]:
        text = "".join(f"{number}\n" for number in range(1, int(line["numbers"]) + 1))
    result = _called(line["words"], folder, text)
    if line["first"] or line["last"]:
        lines = result.stdout.splitlines(keepends=True)
        part = lines[: int(line["first"])] if line["first"] else lines[-int(line["last"]) :]
        return result.stderr + "".join(part)
    said = f"{line['said']}\n" if line["said"] and result.exit_code == 0 else ""
    if target:
        (folder / target).write_text(result.stdout)
        return result.stderr + said
    if line["kept"]:
        lines = result.output.splitlines(keepends=True)
        return "".join(text for text in lines if re.search(line["kept"], text))
    if source:
        return result.output
    # progress goes to stderr, and depends on the machine
    return result.stdout if result.exit_code == 0 else result.output


def run_python(code: str, names: dict[str, Any], folder: Path) -> str:
    """What a piece of Python prints, run in a folder."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)
    return printed.getvalue()


def refreshed(text: str, folder: Path) -> str:
    """The page with the output that its examples have now."""
    names: dict[str, Any] = {}

    def rewrite(match: re.Match[str]) -> str:
        if match["kind"] == "console":
            shown = "".join(
                "$ " + line.replace("\n", "\n> ") + "\n" + run_command(line, folder)
                for line, _ in commands(match["body"])
            )
            return f"```console\n{shown}```"
        block = f"```python\n{match['body']}```"
        printed = run_python(match["body"], names, folder)
        return f"{block}\n\n```text\n{printed}```" if printed else block

    return BLOCK.sub(rewrite, text)


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as name:
            page.write_text(refreshed(page.read_text(), Path(name)))
