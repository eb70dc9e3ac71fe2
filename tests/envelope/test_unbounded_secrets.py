"""Secrets without bounds under Gaussian noise: an infinite envelope, events of log 1/delta."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import pmldesign as pml

NOISE = 0.7
OUTPUT = np.hypot(1.0, NOISE)  # of a standard Gaussian secret


def of_secret(low, high, secret):
    return norm.cdf((high - secret) / NOISE) - norm.cdf((low - secret) / NOISE)


@pytest.mark.parametrize("events", [2, 10, 200])
def test_a_partition_of_which_every_event_leaks_as_much_as_is_wanted(events):
    """Each event is a piece of the middle, and a far interval that one secret is sure to reach."""
    centres = 40.0 + 20.0 * np.arange(events)
    far = np.array([(c - 8, c + 8) for c in centres])
    ends = OUTPUT * norm.ppf(np.arange(events + 1) / events)
    total = 0.0
    for (low, high), start, stop in zip(far, ends[:-1], ends[1:], strict=True):
        mass = norm.cdf(stop / OUTPUT) - norm.cdf(start / OUTPUT)
        mass += norm.sf(low / OUTPUT) - norm.sf(high / OUTPUT)
        reached = of_secret(low, high, (low + high) / 2)
        assert np.log(reached / mass) == pytest.approx(np.log(events), abs=1e-9)
        total += mass
    assert total == pytest.approx(1.0, abs=1e-12)


def test_the_exact_envelope_grows_with_the_range_of_the_secret():
    values = []
    for reach in (6.0, 12.0, 24.0, 48.0):
        secrets = np.arange(-reach, reach + 1e-9, 2.0)
        ends = np.concatenate([[-np.inf], np.arange(-reach, reach + 1e-9, 1.0), [np.inf]])
        matrix = of_secret(ends[:-1], ends[1:], secrets[:, None])
        prior = np.exp(-(secrets**2) / 2)
        prior = np.maximum(prior, 1e-250)
        matrix = np.maximum(matrix, 1e-250)
        channel = pml.envelope.Channel(matrix / matrix.sum(axis=1)[:, None], prior / prior.sum())
        values.append(pml.envelope.exact_envelope(channel, 0.2).lower)
    assert values == sorted(values)
    assert np.exp(values[-1] - values[0]) > 3


def test_a_single_event_of_probability_delta_leaks_the_logarithm_of_its_inverse():
    for delta in (0.3, 1e-3):
        start = OUTPUT * norm.isf(delta)
        leaks = [np.log(norm.sf((start - x) / NOISE) / delta) for x in (start, start + 3, 100.0)]
        assert leaks == sorted(leaks)
        assert leaks[-1] == pytest.approx(-np.log(delta), abs=1e-12)


def exceeded(density, delta, noise):
    """The probability that an output leaks more than log 1/delta, by the trapezoidal rule."""
    x = np.linspace(-9, 9, 6001)
    prior = density(x) / density(x).sum()

    def shortfall(y):
        return np.log(prior @ norm.pdf((y - x) / noise) / norm.pdf(0.0)) - np.log(delta)

    start = brentq(shortfall, 0.0, 9.0)
    return 2 * float(prior @ norm.sf((start - x) / noise))


@pytest.mark.parametrize(
    ("noise", "last"), [(0.25, 0.002637), (0.5, 0.18799), (1.0, 0.62937), (2.0, 0.88514)]
)
def test_outputs_leak_more_than_that_with_a_smaller_probability_for_small_delta(noise, last):
    for delta in (last * 0.99, last / 10, last / 1000, last * 1.01):
        mass = 2 * norm.sf(np.sqrt(-2 * np.log(delta) - np.log(1 + 1 / noise**2)))
        assert (mass < delta) == (delta < last)
        found = exceeded(lambda x: np.exp(-(x**2) / 2), delta, noise)
        assert found == pytest.approx(mass, rel=1e-8)


def test_and_so_they_do_about_a_strongly_log_concave_secret():
    for delta, value in ((0.3, 0.189182), (0.1, 0.0448551), (1e-4, 2.14715e-5)):  # by mpmath
        found = exceeded(lambda x: np.exp(-(x**2) / 2 - x**4), delta, 0.5)
        assert found == pytest.approx(value, rel=1e-5)
        assert found < delta
