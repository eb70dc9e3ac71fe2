"""Commands that get Ctrl-C or TERM at a random moment: they end, and leave nothing half done.

    python tests/robustness/interrupted.py [--cases 60] [--first 0] [--seed 0] [--only WORD]

Commands are those of interrupted.txt. The moment is in processor time, from 0.05 s to their length,
so that a busy machine does no harm. What is checked: how much processor time it takes from then on,
the exit code, that at most one line comes on standard error, and where there is a result something
on standard output, or the names of files on standard error; that every file is as before or
complete, and that it is the named ones that are new; that answers of a stream are those of its
state; that a ledger is whole, and what it paid for is there; that no process is left. Prints every
command that fails, with its stack where it goes on.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from pmldesign.cli import main as main_command
from pmldesign.cli import process
from pmldesign.releases import read_ledger

ALLOWED, WAITED = 2.0, 60.0
"""Seconds after the signal: of the processor, and of the clock for one that only waits."""
START = """
import faulthandler, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # even if the parent ignores it
faulthandler.register(signal.SIGUSR1)
from pmldesign.__main__ import run
run()
"""
SETUP = (
    "optimize prefix:200 --epsilon 1 --delta 1e-6 --noise gaussian -o sums.npz",
    "optimize marginals:prefix10,8,6,ways=2 --epsilon 1 --delta 1e-6 -o tables.npz"
    " --effort quick --rel-gap 0.01",
    "release sex*age people.csv --schema schema.json --epsilon 1 --delta 1e-6 --noise gaussian"
    " --measurements m.npz -o before.csv",
)
SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [*range(0, 105, 5)]},
        {"name": "region", "keys": [f"r{i}" for i in range(30)]},
    ],
    "outside": "refuse",
    "rows_per_person": 1,
}
STUDY = """
workloads = ["prefix:{n}", "all-range:{n}"]
n = [20, 50, 100, 150]
p = [2, 4, inf]
strategies = ["least-norm", "tree", "haar"]
guarantees = ["dp:1,delta=1e-6", "pml:1,alpha=1e-3"]
"""
LIST = Path(__file__).with_suffix(".txt").resolve()
HERE, FIRST = Path(), 0.05
"""Seconds of the processor before the earliest signal."""
OLD = "before"
"""In half of the files that are to be written."""
WRITTEN = ("-o", "--table", "--report", "--certificate", "--measurements", "--plot")
ERRORS = {signal.SIGINT: (1, 3), signal.SIGTERM: (3, -signal.SIGTERM)}
"""Exit codes; at the very end TERM may come too late."""
COMPLETE = {
    ".npz": lambda path: (
        checked("verify", path) if path.name == "s.npz" else [*np.load(path).values()]
    ),
    ".json": lambda path: json.loads(path.read_text()),
    ".npy": np.load,
    ".html": lambda path: path.read_text().index("</html>"),
    ".svg": lambda path: path.read_text().index("</svg>"),
    ".tex": lambda path: path.read_text().index("\\bottomrule"),
    ".csv": lambda path: [rows_of_one_length(path)],
}


def prepared(folder: Path) -> None:
    """Write the files that the commands read."""
    rng = np.random.default_rng(0)
    people = rng.integers(0, (2, 100, 30), (200_000, 3))
    rows = [f"{'FM'[sex]},{age},r{region}\n" for sex, age, region in people]
    (folder / "people.csv").write_text("sex,age,region\n" + "".join(rows))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "study.toml").write_text(STUDY)
    places = [f"s{i % 51},c{i}\n" for i in range(3143)]
    (folder / "places.csv").write_text("state,county\n" + "".join(places))
    np.save(folder / "dense.npy", rng.standard_normal((150, 120)))
    np.savetxt(folder / "sample.csv", rng.integers(50, 500, 4096), fmt="%d")
    np.savetxt(folder / "counts.csv", rng.integers(0, 50, 4096), fmt="%d")
    np.save(folder / "cells.npy", rng.integers(0, 50, 480))
    np.save(folder / "channel.npy", rng.dirichlet(np.ones(60), 40))
    (folder / "numbers.txt").write_text("".join(f"{x}\n" for x in rng.integers(0, 9, 200)))
    os.chdir(folder)
    for line in SETUP:
        checked(*shlex.split(line))


def checked(*words: str | Path) -> str:
    """What a command prints that is run to its end; files need not be checked completely."""
    found = CliRunner().invoke(main_command, [str(word) for word in words])
    if found.exit_code not in (0, 8):
        raise ValueError(f"{words}: {found.output} {found.exception!r}")
    return found.stdout


def rows_of_one_length(path: Path) -> None:
    """A table that ends with its last row; of a release, with its manifest."""
    text = path.read_text()
    if not text.endswith("\n") or len({len(row) for row in csv.reader(text.splitlines())}) != 1:
        raise ValueError(f"{path.name} is cut off")
    if path.name == "table.csv":
        checked("verify", path)


def spent(child: int) -> float:
    """Seconds of the processor until now, without those of its children."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lasts(child: int, seconds: float) -> bool:
    """Whether a process is still there when it has used so much, or has waited for long."""
    end = time.monotonic() + WAITED
    while spent(child) < seconds and time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        time.sleep(0.01)
    return True


def outlived(group: int) -> bool:
    """Whether a process of the group does not end soon either."""
    end = time.monotonic() + WAITED / 6
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)
        os.killpg(group, signal.SIGKILL)
        return True
    return False


def interrupted(
    line: str, number: signal.Signals, moment: float, *, old: bool
) -> tuple[list[str], str]:
    """Run a command in this folder until it is interrupted; its faults, and how it ended."""
    command, _, given = line.partition(" < ")
    words, before = shlex.split(command), set(HERE.iterdir())
    outputs = [Path(name) for option, name in pairwise(words) if option in WRITTEN]
    for path in outputs if old and words[0] != "sweep" else ():
        path.write_text(OLD)
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        Path(given or os.devnull).open() as source,
    ):
        child = subprocess.Popen(
            [sys.executable, "-c", START, *words],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=source,
            stdout=out,
            stderr=err,
            start_new_session=True,
        ).pid
        sent = lasts(child, moment)
        at, said = spent(child), os.fstat(err.fileno()).st_size
        if sent:  # Ctrl-C is for all processes of a terminal
            (os.killpg if number == signal.SIGINT else os.kill)(child, number)
        late = lasts(child, at + ALLOWED) if sent else False
        if late:
            os.kill(child, signal.SIGUSR1)
            lasts(child, at + 5 * ALLOWED)
            os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        after = spent(child) - at
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0), err.seek(said if sent else 0)
        shown, errors = out.read(), err.read()
    ending = f"{after:.2f} s, exit code {code}" if sent else f"ended before, exit code {code}"
    if late:
        left(before, shown, errors, code)
        return [f"goes on: {errors}"], ending
    faults = (
        [] if code in (0, *(ERRORS[number] if sent else (3,))) else [f"exit code {code}: {errors}"]
    )
    lines = [line for line in errors.splitlines() if not line.startswith("note: ")]
    if (sent and len(lines) > 1) or "Traceback" in errors or "failed" in errors:
        faults.append(f"standard error: {errors}")
    told = number == signal.SIGINT and sent and code != 0 and words[0] != "stream"
    if told and bool(shown or named(errors)) != (code == 3):
        faults.append(f"exit code {code}, standard output {shown[:200]!r}: {errors}")
    if code == 0 and "interrupted" in errors:
        faults.append(f"exit code 0: {errors}")
    if outlived(child):
        faults.append("a process is left")
    return faults + left(before, shown, errors, code), ending


def named(errors: str) -> set[str]:
    """The files that standard error says are written."""
    return {
        Path(name).name for name in errors.partition("; written: ")[2].strip().split(", ") if name
    }


def left(before: set[Path], shown: str, errors: str, code: int) -> list[str]:
    """What is wrong with the files that a command has left, which are removed."""
    faults, cut = [], process.UNFINISHED in errors
    new = sorted(set(HERE.iterdir()) - before)
    for path in new:
        try:
            if path.is_file() and path.read_text(errors="replace") == OLD:
                if code in (0, 3) and (not cut or path.name in named(errors)):
                    raise ValueError("not written")
            elif cut and path.suffix in COMPLETE and path.name not in named(errors):
                raise ValueError("written, but not named")
            elif path.name.startswith("."):
                raise ValueError("a temporary file")
            elif path.name == "state":
                if checked("stream", "--replay", path) != shown:
                    raise ValueError("answers are not those of the state")
            elif path.name == "ledger":
                paid = len(read_ledger(path).payments)
                tables = [part for part in new if part.name in ("table.csv", "drafted.json")]
                published = any(part.read_text() != OLD for part in tables)
                if bool(paid) != published:
                    raise ValueError(f"{paid} payments, published: {published}")
            else:
                COMPLETE.get(path.suffix, str)(path)
        except Exception as error:
            faults.append(f"{path}: {error!r}")
    for path in new:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    return faults


def main() -> int:
    """Interrupt random commands and print those that go wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the line")
    asked = parser.parse_args()
    lines = [line.split(maxsplit=1) for line in LIST.read_text().splitlines() if line[0] != "#"]
    lines = [(float(length), line) for length, line in lines if asked.only in line]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        prepared(Path(folder))
        for case in range(asked.first, asked.first + asked.cases):
            rng = np.random.default_rng([asked.seed, case])
            length, line = lines[case % len(lines)]
            number = (signal.SIGINT, signal.SIGTERM)[rng.integers(2)]
            moment = FIRST * (length / FIRST) ** rng.random()
            faults, ending = interrupted(line, number, moment, old=rng.random() < 0.5)
            wrong += bool(faults)
            print(f"{case:4} {number.name} {moment:5.2f} s  {ending}  {line}", flush=True)
            print(
                *(f"     {text}\n" for fault in faults for text in fault.splitlines()),
                sep="",
                end="",
            )
    print(f"{wrong} of {asked.cases} went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
