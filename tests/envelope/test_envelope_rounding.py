"""What the envelope rounds, again in exact arithmetic, for hostile channels."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pmldesign.envelope import (
    Channel,
    binary_envelope,
    closed_failure_bound,
    closed_failure_probability,
    cvar_bound,
    envelope_plateaus,
    exact_envelope,
    maximal_leakage_bound,
    parse_channel,
)
from pmldesign.errors import InvalidInputError

TINY = Fraction(1, 10**45)


def hostile(seed):
    """A channel, a prior of up to 60 orders of magnitude, and a delta at any scale."""
    rng = np.random.default_rng(seed)
    k, y = int(rng.integers(2, 6)), int(rng.integers(2, 8))
    matrix = [
        lambda: rng.dirichlet(np.full(y, 10.0 ** rng.uniform(-1, 1)), k),
        lambda: rng.choice([0.5, 0.25, 0.125, 0.2, 0.1], (k, y)),
        lambda: np.eye(max(k, y))[:k],
        lambda: 10.0 ** rng.uniform(-rng.choice([3, 12, 30]), 0, (k, y)),
    ][seed % 4]()
    prior = 10.0 ** rng.uniform(-rng.choice([0, 3, 9, 20, 60]), 0, k)
    prior /= prior.sum()
    delta = [
        rng.uniform(0.001, 0.999),
        10.0 ** rng.uniform(-30, -0.1),
        min(prior.min() * 10.0 ** rng.uniform(-2, 3), 0.5),
        1 - 10.0 ** rng.uniform(-15, -1),
    ][int(rng.integers(4))]
    return Channel(matrix / matrix.sum(axis=1, keepdims=True), prior), float(delta)


def exactly(channel):
    """P, q and r as fractions, for rows and a prior that sum to 1."""
    prior = [Fraction(value) for value in channel.prior.tolist()]
    prior = [value / sum(prior) for value in prior]
    rows = [[Fraction(value) for value in row] for row in channel.matrix.tolist()]
    rows = [[value / sum(row) for value in row] for row in rows]
    masses = [
        sum(p * row[y] for p, row in zip(prior, rows, strict=True)) for y in range(len(rows[0]))
    ]
    return rows, masses, [[v / q for v, q in zip(row, masses, strict=True)] for row in rows]


def exponential(value, margin):
    """e^value times 1 + margin, in 60 digits."""
    with mpmath.workdps(60):
        fraction, exponent = mpmath.frexp(mpmath.exp(mpmath.mpf(value)))
        whole = Fraction(int(mpmath.floor(fraction * mpmath.mpf(2) ** 190)))
        return whole * Fraction(2) ** (int(exponent) - 190) * (1 + margin)


def worst_mean(values, masses, delta):
    left, total = delta, Fraction(0)
    for value, mass in sorted(zip(values, masses, strict=True), reverse=True):
        taken = min(mass, left)
        total, left = total + taken * value, left - taken
    return total / delta


def dual_value(ratios, masses, dual, threshold):
    useful = [x for x, row in enumerate(ratios) if max(row) > threshold]
    return sum(
        q
        * max(
            0, 1 + max((Fraction(dual[x]) * (ratios[x][y] - threshold) for x in useful), default=-1)
        )
        for y, q in enumerate(masses)
    )


def mass_that_reaches(rows, masses, post_processing, threshold):
    split = [[Fraction(value) for value in row] for row in post_processing.tolist()]
    split = [[value / sum(row) for value in row] for row in split]
    reached = Fraction(0)
    for z in range(len(split[0])):
        mass = sum(q * split[y][z] for y, q in enumerate(masses))
        given = max(sum(value * split[y][z] for y, value in enumerate(row)) for row in rows)
        reached += mass if given >= threshold * mass else 0
    return reached


@pytest.mark.parametrize("seeds", range(4))
def test_hostile_channels_in_exact_arithmetic(seeds):
    for seed in range(10 * seeds, 10 * seeds + 10):
        channel, delta = hostile(seed)
        rows, masses, ratios = exactly(channel)
        value = exact_envelope(channel, delta)
        assert 0 <= value.gap <= 1e-8
        upper, lower = exponential(value.upper, -TINY), exponential(value.lower, -TINY)
        assert dual_value(ratios, masses, value.dual.tolist(), upper) <= Fraction(delta)
        assert closed_failure_bound(channel, value.dual, value.upper) <= delta
        assert mass_that_reaches(rows, masses, value.post_processing, lower) >= Fraction(delta)

        leakiest = [max(column) for column in zip(*ratios, strict=True)]
        cvar = worst_mean(leakiest, masses, Fraction(delta))
        assert (
            cvar
            <= exponential(cvar_bound(channel, delta), TINY)
            <= cvar * (1 + Fraction(1, 10**12))
        )
        binary = max(worst_mean(row, masses, Fraction(delta)) for row in ratios)
        reached = exponential(binary_envelope(channel, delta), -TINY)
        assert binary * (1 - Fraction(1, 10**12)) <= reached <= binary
        largest = sum(max(column) for column in zip(*rows, strict=True)) / Fraction(delta)
        assert min(largest, max(leakiest)) <= exponential(
            maximal_leakage_bound(channel, delta), TINY
        )
        assert binary_envelope(channel, delta) <= value.upper
        assert (
            value.lower
            <= cvar_bound(channel, delta)
            <= maximal_leakage_bound(channel, delta) + 1e-13
        )


@pytest.mark.parametrize("rare", [0.3, 1e-9, 1e-18, 1e-80, 1e-280])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 3.0])
def test_a_rare_secret_that_is_told(rare, ratio):
    # identity channel: symbol 0 has mass p and ratio 1/p, and is diluted to mass delta and ratio
    # 1/delta; the mean of V counts the common output with V = 1/(1 - p)
    delta = rare * ratio
    channel = Channel(np.eye(2), [rare, 1 - rare])
    with mpmath.workdps(400):
        p, d = mpmath.mpf(channel.prior[0]), mpmath.mpf(delta)
        envelope = -mpmath.log(max(p, d))
        cvar = mpmath.log((1 + max(d - p, 0) / (1 - p)) / d) if d > p else envelope
        for bound in (exact_envelope(channel, delta).upper, cvar_bound(channel, delta)):
            assert envelope <= bound
        assert cvar <= cvar_bound(channel, delta) <= cvar + 1e-12
        assert binary_envelope(channel, delta) <= envelope
    assert exact_envelope(channel, delta).gap <= 1e-11


def test_a_prior_that_used_to_abort_the_solver():
    rows = [[0.5, 0.25, 0.125, 0.125], [0.125, 0.5, 0.25, 0.125], [0.2, 0.2, 0.2, 0.4]]
    prior = np.array([0.9999999928268309, 5.5e-9, 1.6e-9, 1.0e-11])
    channel = Channel([*rows, [0.125, 0.125, 0.25, 0.5]], prior / prior.sum())
    for delta in (0.3128, 1e-9, 1e-12):
        assert exact_envelope(channel, delta).gap <= 1e-11


def test_plateaus_of_rare_values_keep_their_digits():
    # the identity channel leaks log(1/p_x) until symbols leak too much: first plateau (0, p_x)
    prior = np.array([1e-40, 1e-18, 1.0])
    first, second, *_ = envelope_plateaus(Channel(np.eye(3), prior))
    assert (first.start, first.end) == pytest.approx((0, 1e-40), rel=1e-12)
    # at level 1e18 symbol 1 has surplus 1 - 1e18 * 1e-40, which lets it take 1e-18 of output 2
    assert second.level == pytest.approx(np.log(1e18))
    assert (second.start, second.end) == pytest.approx((1e-18, 2e-18), rel=1e-9)


@pytest.mark.parametrize("rare", [1e-5, 1e-20, 1e-200])
def test_small_failure_probabilities_keep_their_digits(rare):
    # symbol 0 holds mass p at ratio 1/p; diluted with output 1 to ratio t it has mass 1/t
    channel = Channel(np.eye(2), [rare, 1 - rare])
    for share in (0.25, 0.75):
        level = np.log(share / rare)
        value = closed_failure_probability(channel, level)
        assert value == pytest.approx(rare / share, rel=1e-9)
        assert exact_envelope(channel, value).upper <= level + 1e-12


def test_what_double_precision_cannot_hold_is_refused():
    with pytest.raises(InvalidInputError, match="at least 1e-300 or never, got less for output 0"):
        Channel(np.eye(2), [1e-310, 1])
    with pytest.raises(InvalidInputError, match="at least 1e-290, got 1e-300"):
        exact_envelope(Channel(np.eye(2), [0.5, 0.5]), 1e-300)
    # cells of quantised noise that nothing reaches are left out
    assert parse_channel("gaussian:2,scale=0.01329,cells=51").shape[1] < 51
