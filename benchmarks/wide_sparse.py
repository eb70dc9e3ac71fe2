"""Wide and sparse workloads, and tall ones at p = inf: gap, processor time and memory.

    python benchmarks/wide_sparse.py [--density 0.05]

Each has a process of its own, so that the memory is that of one. One thread: set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy

import pmldesign as pml

CASES = ((200, 100_000, 2.0), (200, 100_000, 4.0), (200, 100_000, np.inf), (100_000, 200, np.inf))


def ones(size: int) -> Any:
    """The entries."""
    return np.ones(size)


def line(case: tuple[int, int, float], density: float) -> str:
    """What the solution of one workload of random zeros and ones took."""
    m, n, p = case
    rng = np.random.default_rng(1)
    workload = scipy.sparse.random_array((m, n), density=density, rng=rng, data_sampler=ones)
    start = time.process_time()
    certificate = pml.factorize(workload, p=p, rel_gap=1e-6).certificate
    seconds = time.process_time() - start
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    bounds = f"{certificate.lower:.7g} to {certificate.upper:.7g}, gap {certificate.gap:.1e}"
    return f"{m} x {n}, p = {p:g}: {bounds}, {seconds:.0f} s, {megabytes:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--density", type=float, default=0.05)
    density = parser.parse_args().density
    for case in CASES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            print(process.submit(line, case, density).result(), flush=True)


if __name__ == "__main__":
    main()
