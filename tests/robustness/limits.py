"""Commands with time limits on random workloads of every kind: `make robust`.

    python tests/robustness/limits.py [--cases 40] [--first 0] [--seed 0] [--only KIND]

A limit of T seconds should end within 1.2 T + 3 seconds, with a result. Both count processor time
of one thread, the start of Python included, so that a busy machine does no harm. Prints every
command that takes longer, with what it was doing then, and every one that shows nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from pmldesign.files import load_workload

LIMITS = (1, 2, 5, 10, 20)
SLACK = 1.2, 3.0
"""Part of the limit and seconds on top of it that are allowed."""
FRAMES = 24
"""Lines of the call stacks that are shown of a command that takes too long."""
START = """
import faulthandler, resource, signal, sys, time
time.perf_counter = time.process_time  # the limit, too, counts processor time
faulthandler.register(signal.SIGXCPU, all_threads=True)
resource.setrlimit(resource.RLIMIT_CPU, ({allowed}, {most}))
from pmldesign.cli import main
main()
"""
SHOWN = (0, 2, 3, 4)
"""Exit codes of commands that have shown a result, or refused the question in one line: also as
one that no noise answers, or only noise that protects nobody."""
MOST_COUNTS = 10**6
"""Cells of which the tool writes counts."""
LEAKAGE = 20
"""Seconds for `leakage` and `calibrate`, which take no limit, and for what is not the search of a
`release`: its strategy of least norm and its intervals."""


@dataclass
class Ended:
    """How a command ended: its exit code, processor time, and what it wrote on standard error."""

    code: int
    seconds: float
    errors: str


def run(command: list[str], limit: float, folder: Path) -> Ended:
    """Run a command of pmldesign; its stack is printed when it has used what the limit allows."""
    allowed = int(SLACK[0] * limit + SLACK[1]) + 1
    code = START.format(allowed=allowed, most=5 * allowed)
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=folder,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    spent = after.children_user - before.children_user
    return Ended(
        done.returncode, spent + after.children_system - before.children_system, done.stderr
    )


def verdict(ended: Ended, limit: float) -> str:
    """What is wrong with it, "" for nothing."""
    if ended.code in (-signal.SIGKILL, -signal.SIGXCPU):
        return "nothing after five times what is allowed"
    if ended.seconds > SLACK[0] * limit + SLACK[1]:
        return "late"
    return "" if ended.code in SHOWN else f"exit code {ended.code}"


def dense(rng: np.random.Generator, folder: Path) -> str:
    """A matrix of up to 2000 x 2000, of whole or normal numbers, as a file."""
    m, n = (int(size) for size in 10 ** rng.uniform(1, 3.3, 2))
    matrix = rng.standard_normal((m, n)) if rng.random() < 0.5 else rng.integers(0, 2, (m, n))
    np.save(folder / "dense.npy", matrix.astype(float))
    return "./dense.npy"


def sparse_rows(rng: np.random.Generator, folder: Path) -> str:
    """Queries of few cells, on up to 10^5 of them."""
    m, n = int(10 ** rng.uniform(1.5, 3.5)), int(10 ** rng.uniform(2, 5))
    matrix = sparse.random_array((m, n), density=min(1.0, 20 / n), rng=rng, format="csr")
    matrix.data[:] = 1
    sparse.save_npz(folder / "sparse.npz", matrix)
    return "./sparse.npz"


def tree(rng: np.random.Generator, folder: Path) -> str:
    """A nation, its states and its places."""
    places = int(10 ** rng.uniform(2, 3.6))
    states = int(rng.integers(2, 60))
    state = np.sort(rng.integers(0, states, places))
    above = sparse.csr_array((np.ones(places), (state, np.arange(places))), shape=(states, places))
    every = [sparse.csr_array(np.ones((1, places))), above, sparse.eye_array(places)]
    sparse.save_npz(folder / "tree.npz", sparse.vstack(every).tocsr())
    return "./tree.npz"


def product(rng: np.random.Generator, folder: Path) -> str:
    """A product of two or three attributes."""
    return "*".join(_factors(rng, _sizes(rng)))


def union(rng: np.random.Generator, folder: Path) -> str:
    """Several products over the same attributes."""
    sizes = _sizes(rng)
    return "+".join("*".join(_factors(rng, sizes)) for _ in range(rng.integers(2, 4)))


def _sizes(rng: np.random.Generator) -> list[int]:
    return [int(size) for size in 10 ** rng.uniform(0.5, 2.2, rng.integers(2, 4))]


def _factors(rng: np.random.Generator, sizes: list[int]) -> list[str]:
    kinds = ("prefix", "histogram", "total", "all-range")
    chosen = [str(rng.choice(kinds if size < 60 else kinds[:3])) for size in sizes]
    return [f"{kind}:{size}" for kind, size in zip(chosen, sizes, strict=True)]


def marginals(rng: np.random.Generator, folder: Path) -> str:
    """Tables of plain attributes."""
    count = int(rng.integers(3, 14))
    sizes = ",".join(str(size) for size in rng.integers(2, 12, count))
    return f"marginals:{sizes},{rng.choice(['ways', 'upto'])}={rng.integers(1, min(count, 4))}"


def tables(rng: np.random.Generator, folder: Path) -> str:
    """Tables of plain and ordered attributes."""
    count = int(rng.integers(2, 12))
    sizes = (10 ** rng.uniform(0.5, 2.1, count)).astype(int)
    kinds = rng.choice(["", "prefix"], count)
    every = ",".join(f"{kind}{size}" for kind, size in zip(kinds, sizes, strict=True))
    return f"marginals:{every},{rng.choice(['ways', 'upto'])}={rng.integers(1, min(count, 3))}"


def window(rng: np.random.Generator, folder: Path) -> str:
    """Sums of the last few steps."""
    steps = int(10 ** rng.uniform(1.5, 3.8))
    return f"window:{steps},{rng.integers(2, min(steps, 200))}"


def stream(rng: np.random.Generator, folder: Path) -> str:
    """Running sums and all ranges."""
    kind = str(rng.choice(["prefix", "decay", "all-range"]))
    steps = int(10 ** rng.uniform(1.5, 3.0 if kind == "all-range" else 5.5))
    return f"{kind}:{steps}" + (",0.99" if kind == "decay" else "")


KINDS = (dense, sparse_rows, tree, product, union, marginals, tables, window, stream)
GUARANTEES = (
    [],
    ["--epsilon=1", "--delta=1e-6"],
    ["--epsilon=1"],
    ["--epsilon=1", "--neighbours=replace"],
    ["--guarantee=zcdp:0.5", "--neighbours=replace"],
    ["--epsilon=2", "--delta=1e-6", "--alpha=1e-6"],
    ["--epsilon=2", "--alpha=1e-6"],
)


COMMANDS = (
    "optimize",
    "optimize",
    "optimize",
    "compare",
    "target",
    "bounds",
    "leakage",
    "calibrate",
    "sweep",
    "release",
)


def study(workload: str, p: str, promise: list[str], limit: int) -> str:
    """A study of one design for one guarantee, or none."""
    parts = dict(option.removeprefix("--").split("=") for option in promise)
    kind = "pml" if "alpha" in parts else "dp"
    text = parts.pop("guarantee", f"{kind}:{parts.pop('epsilon', '')}")
    text += "".join(f",{key}={value}" for key, value in parts.items())
    return (
        f'workloads = ["{workload}"]\np = [{p}]\nstrategies = ["design"]\n'
        f"guarantees = {[text] if promise else []}\n"
        f'time_limit = {limit}\neffort = "quick"\n'
    )


def drawn(
    rng: np.random.Generator, folder: Path, kind: str | None, command: str | None
) -> tuple[list[str], int]:
    """A command and its limit."""
    kinds = [make for make in KINDS if kind in (None, make.__name__)]
    make = kinds[rng.integers(len(kinds))]
    workload = make(rng, folder)
    limit = int(rng.choice(LIMITS))
    promise = GUARANTEES[rng.integers(len(GUARANTEES))]
    order = str(rng.choice(["2", "2", "4", "inf"]))
    p = [f"--p={order}"]
    name = command or str(rng.choice(COMMANDS))
    if name == "leakage":
        noise = [[], ["--noise=gaussian", "--epsilon=1"]][rng.integers(2)]
        return [name, workload, "--scale=10", "--alpha=1e-7", *noise], LEAKAGE
    if name == "calibrate":
        return [name, workload, *(promise or ["--guarantee=gdp:0.5"]), *p], LEAKAGE
    if name == "bounds":
        promised = promise or ["--epsilon=1", "--delta=1e-6"]
        return [name, workload, *p, *promised, f"--time-limit={limit}"], limit
    if name == "target":
        spent = [
            option for option in promise if not option.startswith(("--epsilon", "--guarantee"))
        ]
        wanted = str(rng.choice(["--std=5", "--half-width=8"]))
        return [name, workload, *spent, wanted, f"--time-limit={limit}"], limit
    if name == "release":
        counts = folder / "counts.npy"
        asked = workload if not workload.startswith("./") else str(folder / workload)
        cells = load_workload(asked).shape[1]
        if cells > MOST_COUNTS:
            return drawn(rng, folder, kind, command)
        np.save(counts, rng.integers(0, 100, cells))
        promised = promise or ["--epsilon=1"]
        asked_for = [*promised, "--effort=quick", "-o=t.csv"]
        return [name, workload, counts.name, *asked_for], limit + LEAKAGE
    if name == "sweep":
        (folder / "study.toml").write_text(study(workload, order, promise, limit))
        return [name, "study.toml"], limit
    if make in (window, stream) and not promise[1:] and rng.random() < 0.5:
        times, apart = rng.integers(2, 9), rng.integers(2, 40)
        p = [f"--participation={times},{rng.choice(['every', 'min-sep'])}={apart}"]
    if name == "compare":
        p += ["--effort=quick", "--strategies=design"]
    return [name, workload, *p, *promise, f"--time-limit={limit}"], limit


def main() -> int:
    """Run random commands and print those that go wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[make.__name__ for make in KINDS])
    parser.add_argument("--command", choices=COMMANDS)
    asked = parser.parse_args()
    wrong = 0
    for number in range(asked.first, asked.first + asked.cases):
        rng = np.random.default_rng([asked.seed, number])
        with tempfile.TemporaryDirectory() as folder:
            command, limit = drawn(rng, Path(folder), asked.only, asked.command)
            ended = run(command, limit, Path(folder))
            study_of = Path(folder) / "study.toml"
            asked_for = study_of.read_text() if study_of.exists() else ""
        fault = verdict(ended, limit)
        wrong += bool(fault)
        line = f"{number:4} {ended.seconds:6.1f} s  {shlex.join(command)}"
        print(line if not fault else f"{line}\n     {fault}", flush=True)
        if fault:
            shown = [*asked_for.splitlines(), *ended.errors.splitlines()[:FRAMES]]
            print(*(f"     {text}" for text in shown), sep="\n")
    print(f"{wrong} of {asked.cases} went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
