"""Training beside jax-privacy 2.0.0, in one run: noise, privacy, error, and real digits.

    python benchmarks/training.py [--values 1000000] [--runs 20]  # .venv-peers and scikit-learn

Writes results/training.md. Noise: seconds of the clock for a step, in float32, one thread each.
Privacy: epsilon of DP-SGD and of bands by the accountant of jax-privacy and by ours. Error: rmse of
running sums with sigma = 1 and columns of norm 1, `banded.optimize` with its own 100 steps.
Digits: softmax regression on the 1,797 digits of scikit-learn, 1,437 of them for training, cyclic
Poisson sampling, gradients clipped to 1, (4, 1e-5)-DP by one accountant: accuracy on the others.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

import jax
import numpy as np
from jax_privacy import accounting, noise_addition
from jax_privacy.matrix_factorization import banded

import pmldesign as pml
from pmldesign.privacy.sampled_steps import Sampling

RESULTS = Path(__file__).parent / "results" / "training.md"
STEPS, SHARE, EPSILON, DELTA, CLASSES = 256, 1 / 32, 4.0, 1e-5, 10


def step_seconds(values: int) -> list[tuple[str, float]]:
    """Of a step of noise: jax-privacy with 16 bands, ours with 16 bands and with 6 buffers."""
    matrix = banded.ColumnNormalizedBanded.default(1000, 16).inverse_as_streaming_matrix()
    privatizer = noise_addition.matrix_factorization_privatizer(matrix, stddev=1.0, prng_key=0)
    gradient = jax.numpy.zeros(values, jax.numpy.float32)
    state = privatizer.init(gradient)
    update = jax.jit(privatizer.update, donate_argnums=1)
    out = np.empty(values, np.float32)
    ours = {
        "16 bands": pml.mechanism("banded:16", "prefix:1000").training_noise(values),
        "6 buffers": pml.mechanism(
            pml.factorize("prefix:1000", buffers=6, rel_gap=1e-2)
        ).training_noise(values),
    }
    times: dict[str, list[float]] = {"jax-privacy, 16 bands": [], **{name: [] for name in ours}}
    for _ in range(60):  # in turns: other work on the machine is everybody's
        begin = time.perf_counter()
        noisy, state = update(gradient, state)
        noisy.block_until_ready()
        times["jax-privacy, 16 bands"].append(time.perf_counter() - begin)
        for name, noise in ours.items():
            begin = time.perf_counter()
            noise.step(out)
            times[name].append(time.perf_counter() - begin)
    return [(name, float(np.median(seconds[20:]))) for name, seconds in times.items()]


def their_epsilon(sigma: float, bands: int, rate: float) -> float:
    """By the accountant of jax-privacy, of so many steps, bands and records."""
    accountant = accounting.analysis.DpsgdTrainingAccountant(
        accounting.accountants.PldAccountantConfig()
    )
    records = 10_000 * bands
    params = accounting.analysis.DpParams(
        noise_multipliers=sigma,
        num_samples=records,
        delta=DELTA,
        batch_size=round(rate * 10_000),
        cycle_length=bands,
    )
    return float(accountant.compute_epsilon(STEPS, params))


def privacy_rows() -> list[tuple[int, float, float, float]]:
    """Bands, rate, their epsilon and ours, for sigma = 2."""
    rows = []
    for bands, rate in ((1, 0.02), (8, 0.1), (16, 0.2), (48, 0.2)):
        sampling = Sampling(rate, -(-STEPS // bands), 1.0)
        rows.append(
            (bands, rate, their_epsilon(2.0, bands, rate), sampling.curve(1.0, 2.0).epsilon(DELTA))
        )
    return rows


def their_matrix(bands: int) -> Any:
    """C of `banded.optimize`."""
    return np.asarray(banded.optimize(STEPS, bands=bands).materialize(), np.float64)


def error(matrix: Any) -> float:
    """Rmse of running sums with sigma = 1."""
    answers = np.cumsum(np.linalg.inv(matrix), axis=0)
    return float(np.linalg.norm(answers) / STEPS**0.5)


def our_matrix(bands: int) -> Any:
    """C of `factorize`, columns of norm 1."""
    design = pml.factorize(f"prefix:{STEPS}", participation=f"sampled,every={bands},rate=0.1")
    matrix = design.strategy.matrix
    return matrix / np.linalg.norm(matrix, axis=0).max()


def accuracy(matrix: Any, sigma: float, bands: int, seed: int) -> float:
    """Of softmax regression that is trained with the noise of a strategy."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = np.random.default_rng(0).permutation(len(x))
    x = np.hstack([x / 16.0, np.ones((len(x), 1))])[order]
    hot = np.eye(CLASSES)[y[order]]
    count = len(x) * 4 // 5
    part = rng.integers(0, bands, count)
    noise = sigma * np.linalg.solve(matrix, rng.normal(size=(STEPS, x.shape[1] * CLASSES)))
    weights, rate = np.zeros((x.shape[1], CLASSES)), min(1.0, SHARE * bands)
    for step in range(STEPS):
        drawn = np.flatnonzero((part == step % bands) & (rng.random(count) < rate))
        scores = np.exp(x[drawn] @ weights)
        off = scores / scores.sum(axis=1, keepdims=True) - hot[:count][drawn]
        sizes = np.linalg.norm(x[drawn], axis=1) * np.linalg.norm(off, axis=1)
        gradient = x[drawn].T @ (off / np.maximum(1.0, sizes)[:, None])
        weights -= 0.5 * (gradient + noise[step].reshape(weights.shape)) / (SHARE * count)
    right = (x[count:] @ weights).argmax(axis=1) == hot[count:].argmax(axis=1)
    return float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    lines = ["# Training beside jax-privacy", "", "| noise | ms a step |", "|---|---|"]
    lines += [f"| {name} | {1e3 * value:.1f} |" for name, value in step_seconds(asked.values)]
    lines += [
        "",
        "| bands | rate | epsilon, jax-privacy | epsilon, pmldesign |",
        "|---|---|---|---|",
    ]
    lines += [f"| {b} | {q} | {a:.9f} | {c:.9f} |" for b, q, a, c in privacy_rows()]
    lines += ["", "| bands | sigma | rmse, jax-privacy | rmse, pmldesign | digits | digits |"]
    lines += ["|---|---|---|---|---|---|"]
    for bands in (1, 4, 8, 16, 32):
        rounds = -(-STEPS // bands)
        rate = SHARE * bands
        if rate < 1:
            sigma = Sampling(rate, rounds, 1.0).scale(EPSILON, DELTA)
        else:
            sigma = pml.calibrate(
                [[rounds**0.5]], pml.ApproxDP(EPSILON, DELTA), noise="gaussian"
            ).scale
        both = [their_matrix(bands), our_matrix(bands)]
        rights = [
            np.mean([accuracy(matrix, sigma, bands, seed) for seed in range(asked.runs)])
            for matrix in both
        ]
        errors = [f"{sigma * error(matrix):.5f}" for matrix in both]
        shown = [f"{100 * right:.2f} %" for right in rights]
        lines.append(f"| {bands} | {sigma:.4f} | {' | '.join([*errors, *shown])} |")
    RESULTS.write_text("\n".join(lines) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
