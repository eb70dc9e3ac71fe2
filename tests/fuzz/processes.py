"""One case in a process of its own: forked, limited, watched, judged."""

import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .cases import Case

MEMORY = 2**30
"""Bytes of address space that a case may add to those of the process that it is forked from."""
PROCESSOR_SECONDS = 20
"""Cases ask for 1 s of work at most; one that takes this long does not end."""
WALL_SECONDS = 120
"""A case that waits for something that never comes."""
DOCUMENTED = range(9)
SHOWN, PARTLY_CHECKED = (0, 3), 8
NAN = re.compile(r"(?<![\w.'])nan\b", re.IGNORECASE)
"""A number; not the text 'nan', which queries for databases tell from identifiers of people."""


@dataclass
class Outcome:
    """What a process left: its exit code, or minus the signal that ended it."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    late: bool
    left: dict[str, Path]


def run(case: Case, folder: Path) -> Outcome:
    """The outcome of a case in an empty folder; both streams are kept beside the folder."""
    for name, data in case.files.items():
        (folder / name).write_bytes(data)
    streams = [folder.with_suffix(f".{name}") for name in ("in", "out", "err")]
    streams[0].write_bytes(case.stdin)
    child = os.fork()
    if child == 0:
        _become(case, folder, streams)
    code, seconds, late = _wait(child)
    stdout, stderr = (path.read_text(errors="backslashreplace") for path in streams[1:])
    left = {path.name: path for path in folder.iterdir() if path.name not in case.files}
    return Outcome(code, stdout, stderr, seconds, late, left)


def faults(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with an outcome, in one word each."""
    found = []
    errors = outcome.stderr
    if "Traceback (most recent" in errors:
        found.append("traceback")
    elif outcome.late or -outcome.code in (signal.SIGXCPU, signal.SIGKILL):
        found.append("hang")
    elif outcome.code < 0:
        found.append("abort")
    elif "does not fit into memory" in errors or "Unable to allocate" in errors:
        found.append("memory")
    elif outcome.code not in DOCUMENTED or outcome.code == 1:
        found.append("code")
    elif outcome.code not in SHOWN and not _one_line(outcome):
        found.append("message")
    if "Warning" in errors:
        found.append("warning")
    if NAN.search(outcome.stdout) or any(map(_holds_nan, outcome.left.values())):
        found.append("nan")
    if any(name.startswith(".") for name in outcome.left):
        found.append("left")
    return found


def _one_line(outcome: Outcome) -> bool:
    """A refusal is one line, of printable characters, and names no unsafe way out."""
    opening = "note: " if outcome.code == PARTLY_CHECKED else "error: "
    lines = [line for line in outcome.stderr.splitlines() if line.startswith(opening)]
    rest = outcome.stderr.splitlines()[-1:]
    safe = not re.search("allow_pickle|max_header_size", outcome.stderr)
    return len(lines) == 1 and rest == lines and lines[0].isprintable() and safe


def _holds_nan(path: Path) -> bool:
    if path.suffix in (".csv", ".mtx"):
        return bool(NAN.search(path.read_text(errors="replace")))
    if path.suffix not in (".npy", ".npz"):
        return False
    if not path.read_bytes().startswith((b"\x93NUMPY", b"PK")):
        return True  # no number at all
    loaded = np.load(path, allow_pickle=False)
    arrays = [loaded] if path.suffix == ".npy" else [loaded[name] for name in loaded.files]
    return any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays)


def _wait(child: int) -> tuple[int, float, bool]:
    """The exit code, the processor seconds, and whether the process had to be stopped."""
    start, late = time.monotonic(), False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code, usage.ru_utime + usage.ru_stime, late
        if not late and time.monotonic() - start > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
            late = True
        time.sleep(0.002)


def _become(case: Case, folder: Path, streams: list[Path]) -> None:
    """In the child: take its folder, streams and limits, run the command line, and end."""
    code = 1
    try:
        os.chdir(folder)
        modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
        for number, (path, mode) in enumerate(zip(streams, modes, strict=True)):
            os.dup2(os.open(path, mode, 0o600), number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of the process
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("always")
        code = _main(case.arguments)
    except BaseException:  # the report of whatever it is
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main(arguments: list[str]) -> int:
    from pmldesign.cli import main

    try:
        main(arguments, prog_name="pmldesign")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
