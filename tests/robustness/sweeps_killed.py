"""Sweeps whose workers and parents are killed at random: no row is lost, changed or doubled.

    python tests/robustness/sweeps_killed.py [kills] [seed]

A sweep in processes of its own is started, and after a random time one of its workers, the parent,
or all of them get SIGKILL. Rows that are in the file stay as they are, with their times; the sweep
is started again until it is complete, and has the rows of one that was never killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

import pmldesign as pml
from pmldesign.comparison import sweeping
from pmldesign.store import Kind, opened

STUDY = """
workloads = ["prefix:{n}", "all-range:{n}"]
n = [4, 8, 12, 20, 30, 40, 50, 60]
p = [2, 4, inf]
strategies = ["least-norm", "tree", "identity"]
guarantees = ["dp:1,delta=1e-6", "zcdp:0.5"]
"""
COMMAND = [sys.executable, "-m", "pmldesign", "sweep", "study.toml", "--jobs", "2"]
MOST, LONGEST = 500_000, 0.3
"""Bytes of the log, and seconds from then on, until the kill, at most; a whole sweep writes about
as many."""


def rows(path: Path) -> dict[tuple[str, int], tuple[object, ...]]:
    """Every row by its key."""
    with opened(path, Kind.SWEEP, sweeping.TABLES, new=False) as database:
        found = database.execute("SELECT unit, number, * FROM rows").fetchall()
    return {(unit, number): row for unit, number, *row in found}


def workers_of(parent: int) -> list[int]:
    """The processes below one, without those that only count what others use."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    tracker = b"resource_tracker"
    return [int(pid) for pid in found if tracker not in Path(f"/proc/{pid}/cmdline").read_bytes()]


def run(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
    """Start a sweep and kill a part of it; what was killed, and the exit code."""
    process = subprocess.Popen(
        COMMAND,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    log, more = folder / "study.sqlite-wal", int(rng.integers(MOST))
    while process.poll() is None and not (log.exists() and log.stat().st_size >= more):
        time.sleep(0.01)
    time.sleep(rng.uniform(0, LONGEST))
    target = str(rng.choice(["worker", "worker", "parent", "all"]))
    with suppress(ProcessLookupError, FileNotFoundError):
        if target == "all":
            os.killpg(process.pid, signal.SIGKILL)
        elif target == "parent":
            process.kill()
        elif children := workers_of(process.pid):
            os.kill(int(rng.choice(children)), signal.SIGKILL)
    _, errors = process.communicate()
    if b"Traceback" in errors:
        raise AssertionError(errors.decode())
    return target, process.returncode


def main(kills: int, seed: int) -> None:
    """Kill sweeps, and compare their rows with those of a whole one."""
    rng, count, sweeps = np.random.default_rng(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.toml").write_text(STUDY)
        whole = pml.sweep(folder / "study.toml", folder / "whole.sqlite").to_records()
        path = folder / "study.sqlite"
        while count < kills:
            path.unlink(missing_ok=True)
            kept, code = {}, 1
            while code != 0:
                target, code = run(rng, folder)
                count += code != 0 or target == "worker"
                found = rows(path) if path.exists() else {}
                assert kept.items() <= found.items(), "a row was lost or computed again"
                print(f"{count:4} {target:6} exit code {code:3}, {len(found)} rows", flush=True)
                kept = found
            result = pml.sweep(folder / "study.toml", path)
            assert (result.computed, result.complete) == (0, True)
            pairs = zip(result.to_records(), whole, strict=True)
            assert all({**a, "seconds": 0} == {**b, "seconds": 0} for a, b in pairs)
            sweeps += 1
    print(f"{count} kills, {sweeps} sweeps are complete and alike")


if __name__ == "__main__":
    main(*map(int, (sys.argv[1:] + ["100", "0"][len(sys.argv) - 1 :])[:2]))
