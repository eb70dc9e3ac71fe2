"""Amplification by sampling: against integrals, simulated data, closed forms and dp-accounting."""

import itertools
import math
from functools import reduce

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy import stats

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import (
    FAR,
    ZCDP,
    ApproxDP,
    ApproxPML,
    Neighbours,
    PureDP,
    gaussian_delta,
    loss_at,
    on_a_line,
    one_step,
    parts_of,
    sampled_delta,
)
from pmldesign.strategies import Strategy, as_participation, with_participation
from pmldesign.verifier.streams import drawn_steps


def sampled(matrix, every, rate):
    schema = as_participation(f"sampled,every={every},rate={rate}")
    return with_participation(Strategy("C", matrix), schema)


def curve(rate, sigma, rounds):
    """What noise of standard deviation sigma on a strategy of unit columns satisfies."""
    strategy = sampled(np.eye(rounds), 1, rate)
    return strategy.sampling.curve(strategy.sensitivity, sigma)


def closed_form(rate, sigma, epsilon):
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
        exact = closed_form(rate, sigma, epsilon)
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
        expected = accountant.get_epsilon(1e-6)  # on a coarser grid, which rounds up as well
        assert expected * (1 - 1e-5) <= found <= expected * (1 + 1e-6)


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


def signed_profile(shift, epsilon):
    """delta(eps) of N(shift, 1) and N(0, 1) at any eps, also a negative one."""
    x = epsilon / shift - shift / 2
    return np.exp(stats.norm.logsf(x)) - np.exp(epsilon + stats.norm.logsf(x + shift))


def of_one_removed(rate, shift, epsilon):
    """The closed form for a record that is removed, at any eps; 1 - e^eps below log(1 - q)."""
    inside = 1 + np.expm1(epsilon) / rate
    lost = rate * signed_profile(shift, np.log(np.maximum(inside, 1e-300)))
    return np.where(inside > 1e-300, lost, -np.expm1(epsilon))


@pytest.mark.parametrize(
    ("rate", "shift", "epsilon"),
    [(0.3, 0.4, 1.5), (1e-3, 0.9, 0.7), (1e-7, 2.0, 0.1), (0.02, 1.5, 4.0), (1e-5, 3.0, 9.0)],
)
def test_tiny_deltas_of_one_and_two_steps(rate, shift, epsilon):
    """Closed form, and its integral over the first of two steps; down to 1e-25."""
    exact = float(of_one_removed(rate, shift, epsilon))
    assert exact < 1e-5
    assert exact <= curve(rate, 1 / shift, 1).delta(epsilon) <= exact * (1 + 2e-3)
    x = np.linspace(-12, shift + 14, 2_000_001)
    losses = np.logaddexp(math.log1p(-rate), math.log(rate) + shift * x - shift**2 / 2)
    parts = np.exp(losses - x**2 / 2) * of_one_removed(rate, shift, epsilon - losses)
    exact = float(parts.sum()) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    found = curve(rate, 1 / shift, 2).delta(epsilon)
    assert exact * (1 - 1e-7) <= found <= exact * (1 + 2e-3)


def composed(losses, rounds, epsilon):
    """Delta of the sum of k losses on a grid; sums of positive products lose nothing."""
    masses = reduce(np.convolve, [np.exp(losses.logs)] * rounds)
    sums = losses.step * (rounds * losses.first + np.arange(masses.size))
    above = sums > epsilon
    return rounds * losses.lost - float(masses[above] @ np.expm1(epsilon - sums[above]))


@pytest.mark.parametrize("seed", range(60))
def test_transforms_are_above_exact_sums_and_close_to_them(seed):
    """On coarse grids, where sums are enumerated: tilts, windows, rare losses, their rounding."""
    rng = np.random.default_rng(seed)
    rate, ratio = float(10 ** rng.uniform(-9, -0.01)), float(10 ** rng.uniform(-2, 1))
    rounds, ends = int(2 ** rng.uniform(0, 5)), (-FAR, ratio + FAR)
    low, high = (float(loss_at(x, ratio, rate)) for x in ends)
    epsilon = high * float(rng.uniform(0, 1.2)) * rng.choice([1, min(rounds, 3)])
    step = 2.0 ** math.ceil(math.log2((high - low) / 256))
    numbers = (math.floor(low / step), math.ceil(high / step))
    for planned, losses, again in zip(
        on_a_line(ratio, rate, step),
        one_step(ratio, rate, step),
        drawn_steps._steps(ratio, rate, step, numbers),
        strict=True,
    ):
        np.testing.assert_allclose(np.exp(again.logs), np.exp(losses.logs), rtol=1e-9, atol=1e-300)
        exact = composed(losses, rounds, epsilon)
        found = rounds * losses.lost + sum(
            part.delta(losses, rounds, epsilon) for part in parts_of(planned, rounds, epsilon)
        )
        verified = rounds * again.lost + sum(
            drawn_steps._delta(case, step, epsilon, drawn_steps._window(case, step, epsilon))
            for case in drawn_steps._cases(again, rounds, epsilon)
        )
        for bound in (found, verified):
            assert exact * (1 - 1e-12) <= bound <= exact * (1 + 1e-3) + 1e-33


def test_masses_of_a_step_are_rounded_to_the_private_side():
    """Connected dots in 60 digits: at least as much at the upper losses, in either direction."""
    mp.mp.dps = 60
    for ratio, rate, bits in ((0.5, 0.01, 6), (3.0, 1e-6, 5), (1e-3, 0.9, 7), (8.0, 0.999, 5)):
        low, high = (float(loss_at(x, ratio, rate)) for x in (-FAR, ratio + FAR))
        step = 2.0 ** math.ceil(math.log2((high - low) / 2**bits))
        removed, added = one_step(ratio, rate, step)
        q, t = mp.mpf(rate), mp.mpf(ratio)
        count = removed.values.size
        levels = [mp.exp(mp.mpf(float(value))) for value in removed.values]
        cuts = [
            (mp.log(inside) + t**2 / 2) / t if (inside := 1 + (level - 1) / q) > 0 else -mp.inf
            for level in levels
        ]
        exact = [mp.mpf(0)] * count
        for i, (a, b) in enumerate(itertools.pairwise(cuts)):
            Q, R = (normal_between(a - shift, b - shift) for shift in (0, t))
            up = ((1 - q) * Q + q * R - levels[i] * Q) / (levels[i + 1] - levels[i])
            exact[i] += Q - up
            exact[i + 1] += up
        tails = {
            "removed": [mass * level for mass, level in zip(exact, levels, strict=True)],
            "added": exact[::-1],
        }
        for losses, masses in ((removed, tails["removed"]), (added, tails["added"])):
            above, exactly = mp.mpf(0), mp.mpf(0)
            for found, mass in zip(np.exp(losses.logs[::-1]), masses[::-1], strict=True):
                above, exactly = above + mp.mpf(float(found)), exactly + mass
                assert above >= exactly * (1 - mp.mpf(10) ** -13)
                assert above <= exactly * (1 + mp.mpf(10) ** -7) + mp.mpf(10) ** -40


def normal_between(low, high):
    """The mass of N(0, 1) between two places."""
    if low > 0:
        return mp.ncdf(-low) - mp.ncdf(-high)
    return mp.ncdf(high) - (mp.ncdf(low) if low > -mp.inf else 0)


@pytest.mark.parametrize(("rounds", "epsilon"), [(4, 2.0), (100, 3.0), (20_000, 6.0)])
def test_tiny_deltas_of_many_steps_that_are_almost_sure(rounds, epsilon):
    """A rate just below 1: Gaussian noise of sqrt(k) times the distance."""
    exact = gaussian_delta(0.6, 1.0, epsilon)
    found = sampled_delta(0.6 / math.sqrt(rounds), 1 - 1e-10, rounds, epsilon, 2**17)
    assert exact < 1e-3
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-2)


@pytest.mark.parametrize("seed", range(8))
def test_a_finer_grid_gives_less(seed):
    """Between the points of a coarse grid, so that bounds of files can be reproduced."""
    rng = np.random.default_rng(seed)
    rate, rounds = float(10 ** rng.uniform(-6, -0.05)), int(10 ** rng.uniform(0, 4))
    ratio, epsilon = float(10 ** rng.uniform(-2, 0.6)), float(10 ** rng.uniform(-1.5, 1))
    found = [sampled_delta(ratio, rate, rounds, epsilon, 2**bits) for bits in (13, 15, 17)]
    deltas = np.maximum(found, 1e-30)
    assert deltas[2] <= deltas[1] * (1 + 1e-7) <= deltas[0] * (1 + 2e-7)
    assert 0 < deltas[2] <= -math.expm1(rounds * math.log1p(-rate))


def test_a_guarantee_that_asks_for_no_noise_or_for_more_than_is_proved_is_refused():
    strategy = sampled(np.eye(100), 1, 1e-7)
    with pytest.raises(pml.VacuousGuaranteeError, match="drawn with probability 1e-05 in all"):
        mechanism(strategy, "prefix:100", guarantee=ApproxDP(1.0, 1e-4))
    with pytest.raises(InvalidInputError, match="delta must be at least 1e-30 for steps"):
        mechanism(strategy, "prefix:100", guarantee=ApproxDP(1.0, 1e-31))
    noisy = mechanism(strategy, "prefix:100", guarantee=ApproxDP(1.0, 1e-30))
    assert 0.999e-30 < noisy.calibration.achieved <= 1e-30


@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-15, 1e-16])
def test_small_deltas_need_little_more_noise(delta):
    """Noise grows with the root of log(1/delta), and no more than what is asked for is achieved."""
    strategy = sampled(np.eye(100), 1, 3.3e-4)
    noisy = mechanism(strategy, "prefix:100", guarantee=ApproxDP(0.669, delta))
    assert noisy.calibration.achieved <= delta
    assert noisy.scale / math.sqrt(-math.log(delta)) == pytest.approx(0.1625, rel=0.03)


def test_a_schema_is_written_as_it_is_read():
    for text in ("sampled,every=16,rate=0.01", "sampled,share=0.001", "sampled,every=1,rate=1e-05"):
        assert str(as_participation(text)) == text
    assert (
        "drawn with probability 0.01" in as_participation("sampled,every=16,rate=0.01").describe()
    )
