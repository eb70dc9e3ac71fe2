"""Descent with momentum and learning rates: queries by simulation, designs by brute force."""

from itertools import combinations

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs.participation import bounds
from pmldesign.errors import InvalidInputError
from pmldesign.streams import CountedNormal
from pmldesign.workloads import as_workload


def moved(gradients, momentum, rates):
    """How far a model has moved after each step."""
    speed, place, places = 0.0, 0.0, []
    for gradient, rate in zip(gradients, rates, strict=True):
        speed = momentum * speed + gradient
        place = place + rate * speed
        places.append(place)
    return np.array(places)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("schedule", ["", "linear", "cosine"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_queries_are_those_of_descent(n, schedule, momentum):
    rates = {
        "": [1.0] * n,
        "linear": [1 - s / n for s in range(n)],
        "cosine": [np.cos(np.pi * s / (2 * n)) ** 2 for s in range(n)],
    }[schedule]
    text = f"sgd:{n},{momentum}" + (f",rates={schedule}" if schedule else "")
    workload = as_workload(text)
    gradients = np.random.default_rng(n).normal(size=n)
    assert np.allclose(workload.matvec(gradients), moved(gradients, momentum, rates), rtol=1e-12)
    assert workload.name == text
    if n != 2:  # of two steps both are
        assert (workload.running_sums is not None) == (momentum == 0 or n == 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sgd:5,1", "at least 0 and below 1"),
        ("sgd:0,0.5", "cells N"),
        ("sgd:5", "takes 2 sizes"),
        ("sgd:5,0.5,rates=fast", "rates"),
        ("sgd:5,0.5,rates=3", "linear or cosine"),
        ("sgd:5,0.5,seed=3", "unknown option"),
        ("random-range:5,5,seed=cosine", "not a whole number"),
        ("sgd:100000,0.5", "sgd:100000"),
    ],
)
def test_others_are_refused(text, words):
    with pytest.raises(InvalidInputError, match=words):
        pml.workload(text)


def test_running_sums_close_to_descent_are_running_sums_where_it_is_that():
    for text in ("prefix:7", "sgd:7,0,rates=cosine"):
        akin = bounds.akin_sums(as_workload(text), 10)
        assert np.allclose(akin.to_dense(), as_workload(text).to_dense(), rtol=1e-12)
    assert bounds.akin_sums(as_workload("window:7,2"), 10) is None  # the last one leaves steps out
    assert bounds.akin_sums(as_workload("all-range:3"), 10) is None
    assert bounds.akin_sums(as_workload(np.ones((3, 3))), 10) is None  # needs later steps
    assert bounds.akin_sums(as_workload("sgd:7,0.5"), 6) is None


@pytest.mark.parametrize(
    ("text", "participation", "p"),
    [
        ("sgd:10,0.9,rates=cosine", "2,every=5", 2.0),
        ("sgd:6,0.5", "3,min-sep=2", 2.0),
        ("sgd:4,0.5,rates=linear", "4,every=1", 2.0),
        ("sgd:4,0.9", "2,every=2", np.inf),
        ("sgd:2,0.9", "2,min-sep=1", 2.0),
    ],
)
def test_designs_hold_for_all_patterns_and_no_strategy_is_below_the_bound(
    text, participation, p, tmp_path
):
    best = pml.factorize(text, p=p, participation=participation, rel_gap=1e-4)
    times, rest = participation.split(",")
    how, apart = rest.split("=")
    C, A = best.strategy.matrix, as_workload(text).to_dense()
    n = len(A)
    chosen = [
        list(steps)
        for size in range(1, int(times) + 1)
        for steps in combinations(range(n), size)
        if all(g == int(apart) if how == "every" else g >= int(apart) for g in np.diff(steps))
    ]

    def norm(R):
        """For vectors: at least what signs of one kind reach."""
        farthest = max(np.linalg.norm(R[:, steps].sum(axis=1)) for steps in chosen)
        spread = np.linalg.norm(A @ np.linalg.inv(R), axis=1)
        return farthest * np.linalg.norm(spread, ord=p)

    assert norm(C) <= best.certificate.upper * (1 + 1e-9)
    rng = np.random.default_rng(n)
    root = np.tril(np.ones((n, n)))
    others = [np.eye(n), root, root + np.eye(n), np.tril(rng.uniform(0, 1, (n, n))) + np.eye(n)]
    assert all(norm(R) >= best.certificate.lower for R in (C, *others))
    noisy = pml.mechanism(best, guarantee=pml.ZCDP(0.5), noise="gaussian")
    pml.write(tmp_path / "s.npz", best, mechanism=noisy)
    assert pml.verify(tmp_path / "s.npz").holds


def test_participations_are_designed_for_and_noise_of_training_is_made():
    best = pml.factorize("sgd:64,0.9", participation="8,every=8")
    single = pml.mechanism(pml.factorize("sgd:64,0.9"), participation="8,every=8")
    assert best.certificate.upper < 0.8 * single.error(2)
    assert best.certificate.gap <= 0.1
    noise = pml.mechanism(best, guarantee=pml.ZCDP(0.5)).training_noise(2, "float64", 3)
    rows = np.array([noise.step() for _ in range(64)])
    standard, drawn = np.empty((64, 2)), CountedNormal(3)
    for step, row in enumerate(standard):
        drawn.fill(step, row)
    assert np.allclose(best.strategy.matrix @ rows, standard * best.strategy.sensitivity)
