"""Examples in Markdown pages: finding them, running them, and writing their output into the page.

A ```console block holds commands on lines that start with "$ ", each followed by its output; lines
that start with "> " continue a command. A ```python block is run as it stands; its output is in the
```text block right after it, if there is one. Commands write for a terminal of WIDTH columns,
except into pipes and files, and on pages whose folder is in WIDE.
The blocks of a page share one folder and one Python namespace.

    python tests/docs/blocks.py [PAGE ...]    write the output of today into the pages, or into all
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
CONTINUED = re.compile(r"\\\n\s*")
WIDTH, WIDE = 88, ("background",)
PROGRAM = re.compile(r"(?<!\S)pmldesign (?P<words>[^|<>$;&\n]*?)(?= *(?:\d?[|<>;&\n]|$))")
"""Within a line for the shell: what it prints is computed here, and the shell shows it."""
CHANGED = re.compile(r"cd (?P<folder>[\w-]+) && ")
COMMAND = re.compile(r"^\$ (?P<line>.*(?:\n> .*)*)\n?(?P<output>(?:(?!\$ ).*\n?)*)", re.MULTILINE)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output shown for it."""
    for match in COMMAND.finditer(body):
        yield match["line"].replace("\n> ", "\n"), match["output"]


def width_of(page: Path) -> int | None:
    """The columns of the terminal for the commands of a page."""
    return None if page.parent.name in WIDE else WIDTH


def run_command(line: str, folder: Path, width: int | None = None) -> str:
    """What a command prints, on both streams, run in a folder that is shown as /data."""
    return _output(line, folder, width).replace(str(folder.resolve()), "/data")


def _output(line: str, folder: Path, width: int | None) -> str:
    line = line if "<<" in line else CONTINUED.sub(" ", line)
    if match := IN_PROCESS.fullmatch(line):
        return _in_process(match, folder, width)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    functions = f"""pmldesign() {{ {shlex.quote(sys.executable)} -m pmldesign "$@"; }}
shown() {{ cat "$1.out"; cat "$1.err" >&2; return $2; }}"""
    with tempfile.TemporaryDirectory() as kept:
        result = subprocess.run(
            ["bash", "-c", f"{functions}\n{_computed(line, folder, Path(kept), width)}"],
            cwd=folder,
            env={**os.environ, "PATH": programs, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return result.stdout


def _computed(line: str, folder: Path, kept: Path, width: int | None) -> str:
    """The line with what its calls of the program print in their place."""
    for number, match in enumerate([*PROGRAM.finditer(line)]):
        changed = CHANGED.match(line)
        piped = re.match(r" *(2>&1 *)?\d?[|>]", match.string[match.end() :])
        there = folder / (changed["folder"] if changed else "")
        streams = (None if piped else width, None if piped and piped[1] else width)
        result = _called(match["words"], there, widths=streams)
        (kept / f"{number}.out").write_text(result.stdout)
        (kept / f"{number}.err").write_text(result.stderr)
        line = line.replace(match[0], f"shown {kept / str(number)} {result.exit_code}", 1)
    return line


def _called(
    words: str,
    folder: Path,
    text: bytes | str | None = None,
    *,
    widths: tuple[int | None, int | None] = (None, None),
) -> Result:
    from pmldesign.cli import main

    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmldesign.cli.demo._run", _in_script)
        for module in ("process", "documents.document"):
            patch.setattr(
                f"pmldesign.cli.{module}.terminal_width",
                lambda stream: widths[stream is not sys.stdout],
            )
        result = CliRunner().invoke(main, shlex.split(words), input=text, prog_name="pmldesign")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _in_script(line: str, folder: Path, *, quiet: bool = False) -> None:
    printed = _called(line.removeprefix("pmldesign "), folder).stdout
    click.echo("" if quiet else printed, nl=False)


def _in_process(line: re.Match[str], folder: Path, width: int | None) -> str:
    source, target = line["piped"] or line["input"], line["output"]
    text: bytes | str | None = (folder / source).read_bytes() if source else None
    if line["numbers"]:
        text = "".join(f"{number}\n" for number in range(1, int(line["numbers"]) + 1))
    piped = any(line[name] for name in ("first", "last", "kept", "output"))
    widths = (None if piped else width, None if line["kept"] else width)
    result = _called(line["words"], folder, text, widths=widths)
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


NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\binf\b)")
GAP = re.compile(r"gap (?:is )?(\d[\d.e+-]*\d)")
# Durations, gaps between bounds and residuals of rounding differ between machines.
MASKS = [
    (r"[\d.]+ s\b", "# s"),
    (r"(?m)^search .*$", "search #"),
    (r"\d+ steps?\b", "# steps"),
    (r"\d+ eigendecompositions?\b", "# eigendecompositions"),
    (r"gap (is )?[\d.e+-]+", r"gap \1#"),
    (r"but for [\d.e-]+ of its rows", "but for # of its rows"),
    # of the strategies with the least largest error, their sums of squares differ
    (r"rmse [\d.]+(, max std [\d.]+; the tightest)", r"rmse #\1"),
]
CLOSE = 2e-5
"""Relative difference of numbers with six digits whose bounds are known to 1e-6."""


def difference(printed: str, shown: str) -> str:
    """The first line that differs from the page, with both numbers; "" if there is none."""
    close = max(CLOSE, *(min(float(gap), 0.01) for gap in ["0", *GAP.findall(shown)]))
    lines = [_normal(text) for text in (printed, shown)]
    for number, (now, before) in enumerate(zip(*map(_padded, lines, lines[::-1]), strict=True), 1):
        words = [NUMBER.sub("<number>", text) for text in (now, before)]
        numbers = [[float(found) for found in NUMBER.findall(text)] for text in (now, before)]
        if words[0] != words[1]:
            return f"line {number} of the output: the page has\n  {before}\nand now it is\n  {now}"
        for got, expected in zip(*numbers, strict=True):
            if not math.isclose(got, expected, rel_tol=close):
                return f"line {number} of the output: the page has {expected}, now {got}\n  {now}"
    return ""


def _normal(text: str) -> list[str]:
    """The lines without line breaks of a terminal, column widths and facts about a machine."""
    text = re.sub(r"\n {8,}", " ", text)
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line]


def _padded(lines: list[str], others: list[str]) -> list[str]:
    return lines + ["(nothing)"] * max(0, len(others) - len(lines))


@dataclass
class Page:
    """A page whose blocks run one after the other, as far as they are needed.

    Attributes:
        path: of the page.
        folder: in which its commands run.
        names: of its Python blocks.
        done: how many blocks have run.
    """

    path: Path
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    done: int = 0

    def check(self, index: int) -> str:
        """Run the blocks before it, then a block; the first difference, with page and line."""
        text = self.path.read_text(encoding="utf-8")
        blocks = [*BLOCK.finditer(text)]
        for earlier in range(self.done, index):
            self._differences(blocks[earlier])
        self.done = index + 1
        found = next(filter(None, self._differences(blocks[index])), "")
        line = text.count("\n", 0, blocks[index].start()) + 1
        return f"{self.path.relative_to(ROOT)}:{line}: {found}" if found else ""

    def _differences(self, block: re.Match[str]) -> list[str]:
        if block["kind"] == "python":
            printed = run_python(block["body"], self.names, self.folder)
            return [difference(printed, block["text"] or "")]
        return [
            found and f"$ {line}\n{found}"
            for line, shown in commands(block["body"])
            for found in [difference(run_command(line, self.folder, width_of(self.path)), shown)]
        ]


def numbered_blocks() -> Iterator[tuple[Path, int, int]]:
    """Every block of every page: its page, its number and its line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, block in enumerate(BLOCK.finditer(text)):
            yield page, number, text.count("\n", 0, block.start()) + 1


def refreshed(text: str, folder: Path, width: int | None) -> str:
    """The page with the output that its examples have now."""
    names: dict[str, Any] = {}

    def rewrite(match: re.Match[str]) -> str:
        if match["kind"] == "console":
            shown = "".join(
                "$ " + line.replace("\n", "\n> ") + "\n" + run_command(line, folder, width)
                for line, _ in commands(match["body"])
            )
            return f"```console\n{shown}```"
        block = f"```python\n{match['body']}```"
        printed = run_python(match["body"], names, folder)
        return f"{block}\n\n```text\n{printed}```" if printed else block

    return BLOCK.sub(rewrite, text)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for page in chosen:
        with tempfile.TemporaryDirectory() as name:
            page.write_text(refreshed(page.read_text(), Path(name), width_of(page)))
