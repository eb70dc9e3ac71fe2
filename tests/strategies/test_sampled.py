"""Amplification by sampling: against integrals, simulated data, closed forms and dp-accounting."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy import stats

import pmldesign as pml
from pmldesign import errors
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ZCDP, ApproxDP, ApproxPML, Neighbours, PureDP, gaussian_delta
from pmldesign.strategies import Strategy, as_participation, with_participation


def sampled(matrix, every, rate):
    schema = as_participation(f"sampled,every={every},rate={rate}")
    return with_participation(Strategy("C", matrix), schema)


def curve(rate, sigma, rounds):
    """What noise of standard deviation sigma on a strategy of unit columns satisfies."""
    strategy = sampled(np.eye(rounds), 1, rate)
    return strategy.sampling.curve(strategy.sensitivity, sigma)


def one_step(rate, sigma, epsilon):
    """The exact delta of one step: a record removed is a mixture, which amplifies in closed form.

    (1 - q) Q + q R - e^eps Q = q (R - e^eps' Q), e^eps' = 1 + (e^eps - 1)/q; and for a record
    added Q - e^eps ((1 - q) Q + q R) = (1 - e^eps (1 - q)) Q - e^eps q R.
    """
    removed = rate * gaussian_delta(1.0, sigma, math.log1p(math.expm1(epsilon) / rate))
    left = 1 - math.exp(epsilon) * (1 - rate)
    if left <= 0:
        return removed
    other = math.log(math.exp(epsilon) * rate / left)
    split = 0.5 - other * sigma**2  # Q is above where the observation is below this
    added = left * stats.norm.cdf(split / sigma) - math.exp(epsilon) * rate * stats.norm.cdf(
        (split - 1) / sigma
    )
    return max(removed, added)


@pytest.mark.parametrize(("rate", "sigma"), [(0.1, 1.5), (0.5, 8.0), (0.9, 6.0), (0.01, 3.0)])
def test_one_step_is_the_closed_form(rate, sigma):
    found = curve(rate, sigma, 1)
    for epsilon in (0.0, 0.05, 0.3):
        exact = one_step(rate, sigma, epsilon)
        assert exact - 1e-12 <= found.delta(epsilon) <= exact * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize(("rate", "rounds"), [(0.3, 2), (0.05, 2), (0.7, 3)])
def test_few_steps_are_integrals(rate, rounds):
    """The mass of P above e^eps Q on a grid of observations, a record removed or added."""
    sigma, points = 2.0, 481 // rounds
    line = np.linspace(-6 * sigma, 6 * sigma + 1, points)
    before = stats.norm.pdf(line, 0, sigma)
    after = (1 - rate) * before + rate * stats.norm.pdf(line, 1, sigma)
    many = [
        reduce(np.multiply.outer, [density * (line[1] - line[0])] * rounds)
        for density in (before, after)
    ]
    found = curve(rate, sigma, rounds)
    for epsilon in (0.05, 0.4):
        exact = max(
            np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (many, reversed(many))
        )
        assert found.delta(epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-8)


def banded(cells, bands, seed):
    """Lower triangular, with columns of norm 1."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(np.triu(rng.uniform(-1, 1, (cells, cells)), 1 - bands))
    np.fill_diagonal(matrix, rng.uniform(0.5, 1, cells))
    return matrix / np.linalg.norm(matrix, axis=0)


@pytest.mark.parametrize(("cells", "bands"), [(5, 2), (6, 3), (3, 3), (2, 4), (4, 1)])
def test_simulated_outputs_of_banded_strategies(cells, bands):
    """All n outputs at once, every set of steps for which the record may be drawn."""
    rate, sigma, epsilon, count = 0.3, 1.5, 0.25, 200_000
    matrix = banded(cells, bands, 3)
    strategy = sampled(matrix, bands, rate)
    claimed = strategy.sampling.curve(strategy.sensitivity, sigma).delta(epsilon)
    rng, most = np.random.default_rng(4), 0.0
    for first in range(min(bands, cells)):
        steps = np.arange(first, cells, bands)
        sets = list(itertools.product([0, 1], repeat=steps.size))
        chances = np.array([np.prod(np.where(s, rate, 1 - rate)) for s in sets])
        moves = np.array([matrix[:, steps] @ np.array(s) for s in sets])
        drawn = moves[rng.choice(len(sets), count, p=chances)]
        noise = sigma * rng.standard_normal((count, cells))
        for outputs, sign in ((drawn + noise, 1), (noise, -1)):
            # log of the density with the record over that without it
            exponents = (outputs @ moves.T - (moves**2).sum(axis=1) / 2) / sigma**2
            losses = sign * np.log(np.exp(exponents) @ chances)
            parts = np.maximum(0, -np.expm1(epsilon - losses))
            error = 5 * parts.std() / np.sqrt(count)
            assert parts.mean() <= claimed + error
            most = max(most, parts.mean() + error)
    assert claimed <= most * (1 + 1e-3)  # and no less is true


def test_sampling_is_what_dp_accounting_says_of_sgd_and_of_bands():
    """b = 1 is DP-SGD; for b bands published accountants compose ceil(n / b) of the same steps."""
    for bands, cells, rate in ((1, 100, 0.05), (16, 200, 0.1), (16, 208, 0.1)):
        noisy = mechanism(
            f"banded:{bands}", f"prefix:{cells}", participation=f"sampled,every={bands},rate={rate}"
        )
        sigma = 3.0
        longest = noisy.strategy.sampling.longest
        found = noisy.strategy.sampling.curve(noisy.sensitivity, sigma * longest).epsilon(1e-6)
        step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
        accountant = PLDAccountant().compose(step, math.ceil(cells / bands))
        assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-6)


@pytest.fixture(scope="module")
def noisy():
    """Banded, of which 48 steps are three rounds of 16."""
    return mechanism(
        "banded:16",
        "prefix:48",
        guarantee=ApproxDP(0.25, 1e-4),
        participation="sampled,every=16,rate=0.1",
    )


def test_a_calibration_is_on_the_private_side_and_spends_all(noisy):
    sampling = noisy.strategy.sampling
    assert (sampling.rate, sampling.rounds) == (0.1, 3)
    at = [sampling.curve(1.0, noisy.scale / much).delta(0.25) for much in (1.0, 1.0 + 2e-6)]
    assert at[0] == noisy.calibration.achieved <= 1e-4 < at[1]
    assert noisy.privacy.epsilon(1e-4) == pytest.approx(0.25, rel=1e-4)
    accountant = PLDAccountant().compose(noisy.dp_event())
    assert accountant.get_epsilon(1e-4) == pytest.approx(0.25, rel=1e-4)


def test_the_scale_of_a_strategy_does_not_matter_and_its_longest_column_counts(noisy):
    other = mechanism(
        noisy.strategy.scaled(8.0), "prefix:48", guarantee=noisy.guarantee, noise="gaussian"
    )
    assert other.rmse == pytest.approx(noisy.rmse, rel=1e-6)
    uneven = sampled(np.diag([1.0, 0.5, 0.25]), 1, 0.5)
    assert uneven.sampling.longest == pytest.approx(1.0, rel=1e-12)


def test_without_the_draws_it_is_fixed_epochs():
    """rate = 1, at any n and b."""
    for cells, every, times in ((20, 7, 3), (21, 7, 3), (22, 7, 4), (5, 7, 1)):
        sampled, fixed = (
            mechanism(
                f"banded:{min(every, cells)}",
                f"prefix:{cells}",
                guarantee=ApproxDP(1.0, 1e-6),
                noise="gaussian",
                participation=schema,
            )
            for schema in (f"sampled,every={every},rate=1", f"{times},every={every}")
        )
        assert sampled.scale == pytest.approx(fixed.scale, rel=1e-9)
        assert sampled.privacy.rho == pytest.approx(fixed.privacy.rho, rel=1e-9)


def test_sampling_never_costs():
    """A smaller rate, and fewer rounds, need less noise; all less than without draws."""
    deltas = [curve(rate, 2.0, 3).delta(0.5) for rate in (0.05, 0.2, 0.6)]
    assert deltas == sorted(deltas)
    assert deltas[-1] < gaussian_delta(math.sqrt(3), 2.0, 0.5)
    assert curve(0.2, 2.0, 2).delta(0.5) < deltas[1]


@pytest.mark.parametrize(
    ("strategy", "schema", "said"),
    [
        ("banded:17", "sampled,every=16,rate=0.1", "has 17 bands"),
        ("square-root", "sampled,every=16,rate=0.1", "has 48 bands"),
        ("tree", "sampled,every=48,rate=0.1", "not lower triangular"),
        ("banded:4", "sampled,share=0.1", "leaves the number of parts to `optimize`"),
        ("banded:4", "sampled,every=16,rate=0", "rate must be positive"),
        ("banded:4", "sampled,every=16,rate=1.5", "at most 1, got 1.5"),
        ("banded:4", "sampled,every=0,rate=0.5", "every must be"),
        ("banded:4", "sampled,every=16,rate=1.2.3", "participation must be such as"),
        ("banded:4", "sampled,every=16", "participation must be such as"),
    ],
)
def test_strategies_and_rates_are_refused_in_a_line(strategy, schema, said):
    with pytest.raises(InvalidInputError, match=said):
        mechanism(strategy, "prefix:48", guarantee=ApproxDP(1, 1e-6), participation=schema)


@pytest.mark.parametrize(
    ("guarantee", "noise"),
    [
        (ZCDP(0.5), "gaussian"),
        (PureDP(1.0), "laplace"),
        (ApproxDP(1.0, 1e-6), "laplace"),
        (ApproxDP(1.0, 1e-6, Neighbours.REPLACE), "gaussian"),
        (ApproxPML(1.0, 1e-6, 0.01), "gaussian"),
    ],
)
def test_other_guarantees_are_refused_in_a_line(guarantee, noise):
    asked = {"guarantee": guarantee, "noise": noise, "participation": "sampled,every=16,rate=0.1"}
    said = r"amplification by sampling|add-remove neighbours|PML"
    with pytest.raises(InvalidInputError, match=said):
        mechanism("banded:4", "prefix:48", **asked)
    with pytest.raises(InvalidInputError, match=said):
        pml.optimize("prefix:48", **asked)


def test_noise_of_training_is_that_of_the_mechanism_and_exact_streams_are_refused(noisy):
    noise = noisy.training_noise(20_000)
    total = np.zeros(20_000)
    for deviation in noisy.standard_deviations:
        total += noise.step()
        assert total.std() == pytest.approx(deviation, rel=6 / np.sqrt(40_000))
    with pytest.raises(InvalidInputError, match="amplification by sampling is for noise in"):
        noisy.stream()


def test_without_dp_accounting_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"pip install 'pmldesign\[training\]'"):
        curve(0.123, 2.0, 1).delta(0.5)


def test_a_schema_is_written_as_it_is_read():
    for text in ("sampled,every=16,rate=0.01", "sampled,share=0.001", "sampled,every=1,rate=1e-05"):
        assert str(as_participation(text)) == text
    assert (
        "drawn with probability 0.01" in as_participation("sampled,every=16,rate=0.01").describe()
    )
