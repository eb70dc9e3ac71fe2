"""Streams of strategies without K numbers of state: participations, and any triangular matrix."""

import json
from fractions import Fraction

import numpy as np
import pytest
from recorded import Recorded
from scipy import linalg

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP
from pmldesign.strategies import Participation, Strategy, with_participation
from pmldesign.streams import (
    COEFFICIENT_BITS,
    INPUT_BITS,
    Designed,
    Encoder,
    FloatingGaussian,
    Stream,
    dyadic,
    lower_triangular,
)
from pmldesign.workloads import as_workload


def banded(n, width):
    rows = np.random.default_rng(0).uniform(0.7, 1.4, n)
    toeplitz = np.tril(linalg.toeplitz(0.5 / np.arange(1.0, n + 1)))
    return Strategy("banded", rows[:, None] * np.triu(toeplitz, 1 - width))


@pytest.fixture(scope="module", params=["3,every=8", "3,min-sep=8", "2,min-sep=4"])
def noisy(request):
    strategy = banded(24, 8 if request.param[0] == "3" else 24)
    if "every" in request.param:
        strategy = factorize("decay:24,0.95", participation=request.param, rel_gap=1e-3).strategy
    return mechanism(
        strategy,
        "decay:24,0.95",
        guarantee=ApproxDP(1.0, 1e-6),
        noise="gaussian",
        participation=request.param,
    )


def test_answers_are_sums_plus_the_reconstructed_noise(noisy):
    n = 24
    noise = np.random.default_rng(1).integers(-(10**9), 10**9, n).tolist()
    x = np.random.default_rng(2).normal(size=n)
    stream = noisy.stream(noise=Recorded(noise))
    values, deviations = stream.steps(x)
    C = lower_triangular(noisy.strategy).matrix
    A = noisy.workload.to_dense()
    L = A @ np.linalg.inv(C)
    unit = 2.0**stream.encoder.grid_exponent
    assert values == pytest.approx(A @ x + L @ noise * unit, abs=1e-5)
    assert deviations == pytest.approx(stream.scale * np.linalg.norm(L, axis=1), rel=1e-9)
    assert deviations == pytest.approx(noisy.standard_deviations, rel=1e-5)


def test_outputs_are_the_nearest_points_of_the_grid(noisy):
    strategy = lower_triangular(noisy.strategy)
    whole = np.rint(strategy.matrix * 2.0**COEFFICIENT_BITS).astype(np.int64).tolist()
    inputs = np.random.default_rng(3).normal(size=24) * 1e6
    encoder = Encoder(Designed(strategy))
    grid = Fraction(2) ** encoder.grid_exponent
    for row, y in zip(whole, encoder.encode(inputs.tolist()), strict=True):
        exact = sum(
            Fraction(c * dyadic(x), 2 ** (COEFFICIENT_BITS + INPUT_BITS))
            for c, x in zip(row, inputs.tolist(), strict=True)
        )
        assert abs(y * grid - exact) <= grid / 2 + Fraction(2) ** -60


def test_outputs_of_neighbours_are_no_farther_apart_than_the_sensitivity(noisy):
    rng = np.random.default_rng(4)
    strategy = lower_triangular(noisy.strategy)
    schema = strategy.participation
    farthest = 0.0
    for _ in range(60):
        gaps = np.full(schema.times - 1, schema.apart)
        if not schema.fixed:
            gaps = gaps + rng.integers(0, 2, gaps.size)
        steps = np.concatenate([[0], np.cumsum(gaps)])
        steps += rng.integers(0, 24 - steps[-1])
        x = rng.normal(size=24) * 1e3
        other = x.copy()
        other[steps] += rng.choice([1.0, 1.0, -1.0]) * rng.choice([1.0, 0.5], steps.size)
        encoder = Encoder(Designed(strategy))
        pair = encoder.encode(x.tolist()), Encoder(Designed(strategy)).encode(other.tolist())
        moved = np.linalg.norm(np.subtract(*pair).astype(float)) * 2.0**encoder.grid_exponent
        farthest = max(farthest, moved)
        assert moved <= encoder.sensitivity
    assert encoder.sensitivity <= 1 + 2e-6
    assert farthest > 0.5


def test_simulated_variances(noisy):
    width = 20_000
    stream = noisy.vector_stream(width, seed=5)
    sums = np.zeros(width)
    for t in range(24):
        value, deviation = stream.step(np.full(width, float(t)))
        sums = 0.95 * sums + t
        assert deviation == pytest.approx(noisy.standard_deviations[t], rel=1e-9)
        assert np.std(value - sums) == pytest.approx(deviation, rel=6 / np.sqrt(2 * width))
    with pytest.raises(InvalidInputError, match="all are taken"):
        stream.step(sums)


def test_vectors_in_blocks_are_vectors_one_by_one(noisy):
    x = np.random.default_rng(6).normal(size=(24, 3))
    block, single = (noisy.vector_stream(3, seed=7) for _ in range(2))
    together = np.concatenate([block.steps(x[:5])[0], block.steps(x[5:])[0]])
    assert np.allclose(together, [single.step(row)[0] for row in x], rtol=1e-12)


def test_a_resumed_stream_is_the_same(noisy):
    x = np.arange(24.0)
    whole = noisy.stream(noise=Recorded(range(24)))
    first, second = (
        noisy.stream(noise=Recorded(range(11))),
        noisy.stream(noise=Recorded(range(11, 24))),
    )
    head, _ = first.steps(x[:11])
    second.resume(json.loads(json.dumps(first.save())))
    tail = [second.step(value).value for value in x[11:]]
    assert np.concatenate([head, tail]) == pytest.approx(whole.steps(x)[0], rel=1e-12)


def test_many_steps_at_once_are_single_ones():
    noise = np.random.default_rng(8).integers(-(10**9), 10**9, 200).tolist()
    noisy = mechanism(banded(200, 50), "prefix:200", participation="4,min-sep=50")
    block, single = (noisy.stream(noise=Recorded(noise)) for _ in range(2))
    x = np.random.default_rng(9).normal(size=200)
    together = np.concatenate([block.steps(part)[0] for part in (x[:70], x[70:])])
    assert together == pytest.approx([single.step(value).value for value in x], abs=1e-9)
    assert block.encoder.recurrence.memory == 49  # banded: the last b - 1 inputs


def test_any_strategy_of_full_rank_goes_on_line():
    noisy = mechanism("tree", "prefix:16", guarantee=ApproxDP(1.0, 1e-6), noise="gaussian")
    stream = noisy.stream(noise=FloatingGaussian(0))
    _, deviations = stream.steps(np.ones(16).tolist())
    assert deviations == pytest.approx(noisy.standard_deviations, rel=1e-5)


def test_what_is_no_stream_is_refused_in_a_line():
    guarantee = ApproxDP(1.0, 1e-6)
    laplace = mechanism("identity", "prefix:8", guarantee=guarantee, noise="laplace")
    with pytest.raises(InvalidInputError, match="needs Gaussian noise"):
        laplace.stream()
    ranges = mechanism("identity", "all-range:8", guarantee=guarantee, noise="gaussian")
    with pytest.raises(InvalidInputError, match=r"sums or windows over 8 steps.*all-range:8"):
        ranges.stream()
    mixed = Strategy("mixed", np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0])
    with pytest.raises(InvalidInputError, match="not lower triangular"):
        Stream(Designed(mixed, as_workload("prefix:8")), 1.0)


def test_schema_of_the_strategy_counts_once_it_is_given():
    strategy = Strategy("triangle", np.tril(np.ones((6, 6))) / 3)
    once, twice = (
        Encoder(Designed(with_participation(strategy.scaled(0.5), Participation(times, 2))))
        for times in (1, 2)
    )
    assert twice.sensitivity > 1.5 * once.sensitivity
