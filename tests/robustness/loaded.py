"""Designs do not depend on how busy the machine is: ten of them twice, once with four processes.

    python tests/robustness/loaded.py [--effort normal]

The same question has the same rows, to the last digit, and so has the strategy: searches stop by
work, and no time limit is set. tests/designs/test_busy_machine.py does the same with little work.
"""

import argparse
import subprocess
import sys
from contextlib import contextmanager

import numpy as np

import pmldesign as pml
from pmldesign_solvers.operators import Effort

BUSY = 4
"""Processes that compete with the designs."""
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**5))"
"""Ends when its parent has ended, however that came."""
REPLACED = pml.PureDP(1.0, "replace")
QUESTIONS = {
    "prefix:40": {"p": 4.0},
    "prefix:5*prefix:4+histogram:5*total:4": {"p": np.inf},
    "marginals:5,4,3,ways=2": {"guarantee": pml.PureDP(1.0)},
    "prefix:16": {"guarantee": pml.PureDP(1.0)},
    "all-range:12": {"guarantee": REPLACED, "noise": "laplace"},
    "haar:8": {"guarantee": pml.PML(1.0, 1 / 16)},
    "prefix:8": {"guarantee": pml.EnvelopePML(1.0, 1e-6, 1 / 8), "noise": "gaussian"},
    "parity:5,1": {"guarantee": pml.PureDP(2.0)},
    "prefix:6*histogram:4+histogram:6*total:4": {"guarantee": pml.PureDP(1.0), "noise": "laplace"},
    "prefix:1100": {"guarantee": pml.PureDP(1.0), "noise": "laplace"},
}
"""Of every kind of search, and of norms without one."""


def digits(text, **asked):
    """All rows of a question, its bounds and its strategy, in all digits."""
    found = pml.optimize(text, **asked)
    norm, strategy = found.certificate, found.best.strategy
    rows = [(row.strategy, row.noise, row.scale, row.error) for row in found.rows]
    probes = np.random.default_rng(0).standard_normal((strategy.shape[1], 2))
    measured = b"".join(strategy.measure(x).tobytes() for x in probes.T)
    return rows, (norm.lower, norm.upper), measured


@contextmanager
def busy():
    """Four processes that take all the time they get."""
    processes = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def differing(**options):
    """The questions whose digits depend on the other processes."""
    idle = {text: digits(text, **asked, **options) for text, asked in QUESTIONS.items()}
    with busy():
        loaded = {text: digits(text, **asked, **options) for text, asked in QUESTIONS.items()}
    return [text for text in QUESTIONS if idle[text] != loaded[text]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--effort", choices=[*Effort], default="normal", help="of each search")
    different = differing(effort=parser.parse_args().effort)
    print(f"{len(QUESTIONS)} designs, {len(different)} depend on the load", *different)
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
