"""python -m fuzz [--seed N] [--cases N] [--first N]: run cases, and show those that fail."""

import argparse
import collections
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from .cases import draw
from .processes import faults, run

KINDS = ("traceback", "abort", "hang", "memory", "warning", "nan", "code", "message", "left")
STRATEGIES = (
    ["prefix:4"],
    ["prefix:4", "--epsilon=1", "--delta=1e-6", "--neighbours=replace", "--effort=quick"],
    ["prefix:3", "--epsilon=1", "--effort=quick"],
    ["marginals:2,3,ways=1"],
    ["marginals:2,2,2,upto=2", "--neighbours=replace"],
)
"""Strategy files: a matrix, with noise, without a certificate, residuals."""
LARGE = {
    "product": {
        "factor_0": np.tri(2),
        "factor_1": np.eye(3),
        "factor_2": np.tri(2),
        "weights": np.ones(12),
    },
    "blocks": {
        "free": np.array(0),
        "combinations": np.array([0, 1, -1]),
        "basis_0": np.linalg.qr(np.array([[1.0, 1, 0], [1, 0, 1], [1, 0, 0]]))[0],
        "block_0": np.tri(2),
        "block_1": np.eye(2),
    },
}
"""Strategy files of products and blocks, as they are written for many cells."""
OTHERS = (
    ["compare", "prefix:4", "--epsilon=1", "--effort=quick"],
    ["bounds", "prefix:3", "--epsilon=1", "--delta=1e-6"],
    ["optimize", "prefix:2", "--epsilon=0.5", "--delta=1e-6", "--alpha=0.1", "--effort=quick"],
    ["optimize", "prefix:3", "--method=dual"],
    ["leakage", "prefix:3", "--scale=1", "--alpha=0.1"],
    ["envelope", "rr:3,eps=1", "--prior=uniform", "--failure-probability=0.1"],
)
"""Run once before the first fork, so that what they import is imported."""


SEX, AGE = {"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 18, 65, 120]}
PLACE = {"name": "place", "levels": ["state", "county"], "keys": {"A": ["1", "2"], "B": ["3"]}}
INCOME = {"name": "income", "low": 0, "high": 10, "unit": 1}
GAUSSIAN = ("--epsilon=1", "--delta=1e-6", "--noise=gaussian")
RELEASES = (
    ("sex*age", [SEX, AGE], ("--epsilon=1",)),
    ("total", [SEX, AGE], ("--epsilon=1", "--noise=cube")),
    ("state*age:prefix+county*sex", [PLACE, SEX, AGE], GAUSSIAN),
    ("sex*income:sum", [SEX, INCOME], GAUSSIAN),
    ("sex*age", [SEX, AGE], GAUSSIAN),
)
"""Releases of few people: plain, with cube noise, beside levels, of numbers, and one to be paid."""
PEOPLE = b"id,sex,age,state,county,income\n1,F,20,A,1,3\n2,M,70,B,3,9.5\n3,M,5,A,2,11\n"


def samples(folder: Path) -> dict[str, list[bytes]]:
    """Files of every kind; on the way everything is imported."""
    found = []
    for index, arguments in enumerate(STRATEGIES):
        path = folder / f"{index}.npz"
        _prepare(["optimize", *arguments, f"--output={path}"])
        found.append(path.read_bytes())
    for form, arrays in LARGE.items():
        header = np.array(json.dumps({"format": 1, "form": form}))
        np.savez(path, header=header, **arrays)
        found.append(path.read_bytes())
    for arguments in OTHERS:
        _prepare(arguments)
    return {"strategy": found, **of_people(folder)}


def of_people(folder: Path) -> dict[str, list[bytes]]:
    """Measurements, manifests and ledgers of a few people.

    They are made in another process: the threads of polars would be missing after a fork.
    """
    child = os.fork()
    if child == 0:
        try:
            _release(folder)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the samples of people were not made")
    names = {"measurements": "m*.npz", "manifest": "r*.manifest.json", "ledger": "l*.db"}
    return {
        kind: [path.read_bytes() for path in sorted(folder.glob(name))]
        for kind, name in names.items()
    }


def _release(folder: Path) -> None:
    data = folder / "people.csv"
    data.write_bytes(PEOPLE)
    for index, (asked, attributes, options) in enumerate(RELEASES):
        schema, output = folder / f"{index}.json", folder / f"r{index}.csv"
        schema.write_text(json.dumps({"attributes": attributes}))
        words = ["release", asked, str(data), f"--schema={schema}", f"--output={output}", *options]
        words = [*words, f"--measurements={folder / f'm{index}.npz'}", "--effort=quick"]
        _prepare(words)
    paid = [*words, "--budget=epsilon=3,delta=1e-6", "--population=panel"]
    _prepare([*paid, f"--ledger={folder / 'l0.db'}"])
    _prepare([*paid, f"--ledger={folder / 'l1.db'}", "--plan=2*gaussian:1,1e-6"])


def _prepare(arguments: list[str]) -> None:
    from pmldesign.cli import main

    result = CliRunner().invoke(main, arguments, prog_name="pmldesign")
    if result.exit_code:
        raise RuntimeError(f"{shlex.join(arguments)}: {result.output}")


def keep(folder: Path, target: Path, case, outcome, kinds: list[str]) -> None:
    """Leave a failed case where it can be looked at, and repeated."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    (target / "stdin").write_bytes(case.stdin)
    (target / "stdout").write_text(outcome.stdout)
    (target / "stderr").write_text(outcome.stderr)
    (target / "command").write_text(f"{', '.join(kinds)}\n{shlex.join(case.arguments)}\n")


def main() -> int:
    """Run the cases; 1 if one of them has a fault."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--keep", type=Path, help="a folder for the cases that fail")
    parser.add_argument("--slow", type=float, default=5.0, help="show cases of more seconds")
    asked = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    codes: collections.Counter[int] = collections.Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        ready = samples(Path(scratch))
        for index in range(asked.first, asked.first + asked.cases):
            case = draw(asked.seed, index, ready)
            folder = Path(scratch) / f"case-{index}"
            folder.mkdir()
            outcome = run(case, folder)
            kinds = faults(case, outcome)
            codes[outcome.code] += 1
            counts.update(kinds)
            if kinds or outcome.seconds > asked.slow:
                last = (outcome.stderr.splitlines() or [""])[-1]
                text = f"{index}: {','.join(kinds) or 'slow'} ({outcome.seconds:.1f} s)"
                print(f"{text} pmldesign {shlex.join(case.arguments)} | {last[:200]}", flush=True)
                if asked.keep and kinds:
                    keep(folder, asked.keep / str(index), case, outcome, kinds)
            shutil.rmtree(folder)
    seconds = time.perf_counter() - start
    print(f"{asked.cases} cases of seed {asked.seed} in {seconds:.0f} s; exit codes", end=" ")
    print(", ".join(f"{code}: {count}" for code, count in sorted(codes.items())))
    print(", ".join(f"{kind} {counts[kind]}" for kind in KINDS))
    return 1 if counts else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
