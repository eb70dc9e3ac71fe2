"""Running sums beside jax-privacy: error, memory and time of streams, in one run.

    python benchmarks/streams.py [--limit SECONDS]

Every strategy is measured alike: rmse = (tr A X^-1 A^T)^(1/2) sens / n^(1/2), from its matrix
or its Toeplitz coefficients, in float64, with the sensitivity of `pmldesign` for its participation.
Writes results/streams.csv and results/streams.md. Contestants of jax-privacy 2.0.0
(`matrix_factorization`): dense.optimize, toeplitz.optimize_banded_toeplitz and
buffered_toeplitz.optimize, each with its own stopping rule, in a process of its own with a limit of
time; seconds are processor time, compilation included; the limit is one of the clock.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from pmldesign.designs import factorize
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.toeplitz import ToeplitzStrategy
from pmldesign.strategies.participation.distances import sensitivity
from pmldesign.strategies.participation.schema import Participation, as_participation
from pmldesign.streams.recurrences import lower_triangular, recurrence_of
from pmldesign_solvers.participation import reciprocal

RESULTS = Path(__file__).parent / "results"
CASES: tuple[tuple[int, str | None], ...] = (
    (256, None),
    (256, "4,min-sep=64"),
    (1024, None),
    (1024, "16,min-sep=64"),
)
PEERS = ("dense", "toeplitz", "buffered_toeplitz")
DENSE_CELLS = 1024
"""Steps up to which dense.optimize is tried: it misses the limit beyond."""
HEADER = ("steps", "participation", "strategy", "rmse", "lower", "numbers of state", "seconds")


def own(n: int, text: str | None) -> tuple[float, float, int, float]:
    """Rmse, its lower bound, numbers of state and seconds of the own design."""
    begin = time.process_time()
    best = factorize(f"prefix:{n}", participation=text, buffers=None if text else 8, rel_gap=1e-5)
    seconds = time.process_time() - begin
    state = recurrence_of(lower_triangular(best.strategy)).memory
    root = n**0.5
    return best.certificate.upper / root, best.certificate.lower / root, state, seconds


def peer(name: str, n: int, text: str | None) -> None:
    """Print what a contestant makes of a case, as JSON: run in a process of its own."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax_privacy.matrix_factorization import buffered_toeplitz, dense, toeplitz

    schema = as_participation(text) or Participation(1, n)
    begin = time.process_time()
    reach = schema.reach(n)
    if name == "dense":
        bands = None if schema.fixed or reach == 1 else schema.apart
        found = dense.optimize(
            n,
            epochs=reach if schema.fixed else 1,
            bands=bands,
            equal_norm=bands is not None,
        )
        state = schema.apart - 1 if bands else n - 1
    elif name == "toeplitz":
        bands = n if reach == 1 else schema.apart
        found = toeplitz.optimize_banded_toeplitz(n, bands)
        state = bands - 1
    else:
        blt = buffered_toeplitz.optimize(
            n=n, min_sep=schema.apart, max_participations=reach, error="mean"
        )
        found, state = blt.toeplitz_coefs(n), len(blt.buf_decay)
    values = np.asarray(found, dtype=np.float64)
    seconds = time.process_time() - begin
    rmse = _measured(values, n, schema)
    print(json.dumps([rmse, state, seconds]))


def _measured(values: np.ndarray, n: int, schema: Participation) -> float:
    """The rmse of a matrix C, or of Toeplitz coefficients."""
    if values.ndim == 2:
        error = float(((np.tril(np.ones((n, n))) @ np.linalg.inv(values)) ** 2).sum())
        return (error / n) ** 0.5 * sensitivity(Strategy("peer", values), schema, "l2")
    coefficients = np.zeros(n)
    coefficients[: values.size] = values
    answers = np.cumsum(reciprocal(coefficients))
    strategy = ToeplitzStrategy("peer", coefficients, answers, 1.0)
    return float(np.cumsum(answers**2).mean()) ** 0.5 * sensitivity(strategy, schema, "l2")


def run(limit: float) -> list[list[object]]:
    """All rows."""
    rows: list[list[object]] = []
    for n, text in CASES:
        rmse, lower, state, seconds = own(n, text)
        rows.append([n, text or "once", "own", rmse, lower, state, seconds])
        for name in PEERS:
            if name == "dense" and n > DENSE_CELLS:
                continue
            command = [sys.executable, __file__, "--peer", name, "--case", str(n), text or ""]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=limit, check=True
                )
            except subprocess.TimeoutExpired:
                rows.append(
                    [n, text or "once", name, "", lower, "", f"over {limit:g} by the clock"]
                )
                continue
            value, state, seconds = json.loads(done.stdout.splitlines()[-1])
            rows.append([n, text or "once", name, value, lower, state, seconds])
            print(rows[-1], flush=True)
    return rows


def table(rows: list[list[object]]) -> str:
    """As Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for row in rows:
        cells = [f"{cell:.5g}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, or be a contestant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a contestant")
    parser.add_argument("--peer", choices=PEERS)
    parser.add_argument("--case", nargs=2)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.peer, int(arguments.case[0]), arguments.case[1] or None)
        return
    rows = run(arguments.limit)
    with (RESULTS / "streams.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([HEADER, *rows])
    (RESULTS / "streams.md").write_text(table(rows))


if __name__ == "__main__":
    main()
