"""Rows of noise on the grid of whole measurements: errors, bounds below them, the best row."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.comparison import compare
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import discrete_error, discrete_half_widths, on_own_grid
from pmldesign.privacy import laplace_error

OWN = "integer-laplace"


def geometric_deviation(epsilon):
    """Of the geometric law, from its definition."""
    k = np.arange(-400, 401)
    law = np.exp(-epsilon * np.abs(k))
    return math.sqrt((law / law.sum()) @ k**2.0)


def law_of_sum(coefficients, scale, reach=70):
    """Of sum_j c_j eta_j by convolution, with the places of its entries."""
    k = np.arange(-reach, reach + 1)
    one, total = np.exp(-np.abs(k) / scale), np.ones(1)
    for c in coefficients:
        spread = np.zeros(2 * reach * c + 1)
        spread[::c] = one / one.sum()
        total = np.convolve(total, spread)
    return total, np.arange(len(total)) - len(total) // 2


@pytest.mark.parametrize("p", [2.5, 3, 4, 6, 10])
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.3])
def test_moments_are_those_of_the_law(p, scale):
    rows = [(1,), (3,), (1, 1), (2, 3, 1), (1,) * 6]
    total = 0.0
    for row in rows:
        law, k = law_of_sum(row, scale)
        total += law @ np.abs(k) ** float(p)
    matrix = np.array([[*row, *[0] * (6 - len(row))] for row in rows]) * 0.7
    found = discrete_error(matrix * np.array([1, -1, 1, -1, 1, 1]), scale, p)
    if found is None:
        assert p % 2
        assert scale < 0.1  # where hardly anything is drawn but 0, beyond the digits of a transform
    else:
        assert found == pytest.approx(0.7 * total ** (1 / p), rel=1e-8)


@pytest.mark.parametrize("p", [2.5, 3, 4, 7, 20, 64, 250])
def test_no_moment_exceeds_that_of_laplace_noise(p):
    rng = np.random.default_rng(3)
    for scale in (0.2, 0.9, 20.0):
        single = np.diag(rng.integers(1, 5, 4)).astype(float)
        rows = single if p % 2 else rng.integers(-3, 4, (5, 4)).astype(float)
        assert discrete_error(rows, scale, p) < scale * laplace_error(rows, p=p)
    fine = discrete_error(single, 2000.0, p)
    assert fine == pytest.approx(2000 * laplace_error(single, p=p), rel=1e-5)


@pytest.mark.parametrize("p", [2.5, 3, 4, 6, 10, 64, 250])
@pytest.mark.parametrize("scale", [1 / 599, 1 / 601, 1e-3, 1e-5, 1e-50])
def test_noise_that_is_hardly_ever_other_than_0(p, scale):
    """E |V|^p = 2 q sum_j c_j^p (1 + O(q)): a warning of numpy would be an error."""
    rows = np.array([[1.0, 2.0], [5.0, 0.0], [3.0, -1.0]])
    log_sum = (
        math.log(2)
        - 1 / scale
        + p * math.log(5)
        + math.log1p(((np.array([1.0, 2.0, 3.0, 1.0]) / 5) ** p).sum())
    )
    found = discrete_error(rows, scale, p)
    if scale < 1 / 600 or p % 2 == 0:
        assert found == pytest.approx(math.exp(log_sum / p), rel=1e-9, abs=0)
    else:
        assert found is None
    assert discrete_half_widths(rows, scale, 1e-9).tolist() == [0, 0, 0]


def test_entries_of_every_size_are_no_whole_numbers_of_the_least():
    spread = np.eye(3) + 5e-324 * np.eye(3, k=-1)
    noisy = pml.mechanism(spread, spread, guarantee=pml.PureDP(2))
    assert not on_own_grid(noisy, 2.0, True).own_grid


def test_nothing_measured_and_what_is_not_known():
    assert discrete_error(np.zeros((2, 3)), 0.5, 4.0) == 0
    assert discrete_error(np.array([[1.0, math.pi]]), 0.5, 3.0) is None
    assert discrete_error(np.ones((1, 2)), 0.5, 1000.0) is None


@pytest.mark.parametrize("p", [2, 4, math.inf])
def test_bounds_stay_below_what_attains_them(p):
    """Eight counts at epsilon 3: no mechanism is better than the geometric law."""
    (row,) = compare("histogram:8", strategies=["identity"], p=p, guarantee=pml.PureDP(3)).rows
    assert row.noise == OWN
    law, k = law_of_sum((1,), 1 / 3)
    single = (law @ np.abs(k) ** float(min(p, 4))) ** (1 / min(p, 4))
    if math.isinf(p):
        single = geometric_deviation(3)
    size = single * (1 if math.isinf(p) else 8 ** (1 / p))
    assert row.error == pytest.approx(size, rel=1e-9)
    asked = {"p": p, "guarantee": pml.PureDP(3), "effort": "quick"}
    rows = compare("histogram:8", strategies=["design", "identity"], **asked).rows
    for row in rows:
        assert row.noise == OWN
        assert row.lower_bound <= row.error
        assert row.lower_bound >= row.error * (1 - 1e-6)
        assert row.class_bound is None
        assert row.privacy.rho > 2  # that of a pure guarantee, not of Laplace noise


def test_the_value_at_epsilon_three():
    (row,) = compare("histogram:8", strategies=["identity"], guarantee=pml.PureDP(3)).rows
    assert row.error == pytest.approx(math.sqrt(8) / (math.sqrt(2) * math.sinh(1.5)), rel=1e-12)
    assert row.error == pytest.approx(0.9393, abs=5e-5)
    assert row.rmse == pytest.approx(row.error / math.sqrt(8))
    assert row.max_std == pytest.approx(geometric_deviation(3))


@pytest.mark.parametrize("seed", range(2))
def test_no_bound_exceeds_a_row_of_whole_numbers(seed):
    rng = np.random.default_rng(seed)
    queries = rng.integers(-2, 3, (5, 4)) + 0.0
    strategies = [np.eye(4), np.vstack([np.eye(4), np.ones(4)]), queries + 3 * np.eye(5, 4)]
    for epsilon, p in [(1.3, 4), (4.0, math.inf), (9.0, 2)]:
        asked = {"p": p, "guarantee": pml.PureDP(epsilon), "noise": OWN, "effort": "quick"}
        shown = compare(queries, strategies=["design", *strategies], **asked)
        assert {row.noise for row in shown.rows[1:]} == {OWN}
        assert all(row.lower_bound <= row.error for row in shown.rows)
        assert shown.rows[0].error == min(row.error for row in shown.rows)


def test_the_design_is_the_identity_where_its_grid_is_best():
    names = ["design", "tree", "haar", "identity", "workload"]
    asked = {"guarantee": pml.PureDP(8), "effort": "quick"}
    rows = compare("prefix:64", strategies=names, **asked).rows
    expected = geometric_deviation(8) * math.sqrt(64 * 65 / 2)
    assert rows[0].error == pytest.approx(expected, rel=1e-9)
    assert rows[0].error == min(row.error for row in rows)
    assert rows[0].ratio == rows[3].ratio == 1
    assert all(row.lower_bound < row.error for row in rows)
    assert [row.noise for row in rows] == [OWN] * 4 + ["laplace"]
    best = pml.optimize("prefix:64", **asked).best
    assert best.own_grid
    assert best.error() == pytest.approx(expected, rel=1e-9)
    without = compare("prefix:64", strategies=names[1:], noise="laplace", **asked).rows
    assert {row.noise for row in without} == {"laplace"}
    assert without[2].error == pytest.approx(math.sqrt(64 * 65) / 8)


def test_below_five_percent_it_is_for_those_who_ask():
    promise = pml.PureDP(1)
    (row,) = compare("histogram:8", strategies=["identity"], guarantee=promise).rows
    assert (row.noise, row.error) == ("laplace", pytest.approx(4.0))
    (row,) = compare("histogram:8", strategies=["identity"], guarantee=promise, noise=OWN).rows
    assert (row.noise, row.error) == (OWN, pytest.approx(geometric_deviation(1) * math.sqrt(8)))
    real = np.array([[1.0, math.pi], [0.0, 1.0]])
    (row,) = compare(np.eye(2), strategies=[real], guarantee=pml.PureDP(9), noise=OWN).rows
    assert row.noise == "laplace"
    with pytest.raises(InvalidInputError, match="noise must be one of"):
        compare("histogram:8", strategies=["identity"], guarantee=promise, noise="yes")


def test_integer_valued_noise_is_refused_if_it_is_asked_for_and_impossible():
    """A mechanism with this noise has the law that its guarantee was calibrated for, or is none."""
    made = pml.mechanism("tree", "prefix:8", guarantee=pml.PureDP(0.3), noise=OWN)
    assert made.own_grid
    assert made.noise_name == OWN
    sensitivity, unit = 4, 1  # a record is in 4 sums, so that neighbours differ by 4 at most
    assert sensitivity * unit / made.scale <= 0.3 * (1 + 1e-12)
    real = np.array([[1.0, math.pi], [0.0, 1.0]])
    for strategy, queries, promise in (
        (real, np.eye(2), pml.PureDP(1)),
        ("identity", "histogram:4", pml.ZCDP(1)),
        ("identity", "histogram:4", pml.PML(0.5, 0.25)),
        ("identity", "histogram:4", None),
    ):
        with pytest.raises(InvalidInputError, match="use `noise='laplace'`"):
            pml.mechanism(strategy, queries, guarantee=promise, noise=OWN)


@pytest.mark.parametrize(
    "guarantee",
    [
        pml.PureDP(5, "replace"),
        pml.ZCDP(2),
        pml.PML(0.6, 0.25),
        None,
    ],
)
def test_other_guarantees_have_no_such_rows(guarantee):
    (row,) = compare("prefix:4", strategies=["identity"], guarantee=guarantee, noise=OWN).rows
    assert row.noise != OWN


def test_a_delta_leaves_the_noise_on_the_grid():
    (row,) = compare("histogram:8", strategies=["identity"], guarantee=pml.ApproxDP(3, 1e-9)).rows
    assert row.noise == OWN
    assert row.error == pytest.approx(geometric_deviation(3) * math.sqrt(8))


def test_errors_and_the_expected_maximum_are_those_of_draws():
    made = pml.mechanism("tree", "prefix:8", guarantee=pml.PureDP(6), noise="laplace")
    made = on_own_grid(made, 4)
    assert made.own_grid
    assert replace(made, own_grid=False).error(4) > made.error(4)
    rng, q = np.random.default_rng(5), math.exp(-6 / made.sensitivity)
    shape = 200_000, made.strategy.shape[0]
    draws = rng.geometric(1 - q, shape) - rng.geometric(1 - q, shape)
    errors = draws @ made.reconstruction().T
    assert made.error(2) == pytest.approx(math.sqrt((errors**2).sum(axis=1).mean()), rel=0.01)
    assert made.error(4) == pytest.approx((errors**4.0).sum(axis=1).mean() ** 0.25, rel=0.02)
    assert made.max_std == pytest.approx(errors.std(axis=0).max(), rel=0.02)
    largest = np.abs(errors).max(axis=1).mean()
    assert made.expected_max.value == pytest.approx(largest, abs=5 * made.expected_max[1] + 0.01)


def test_tables_frames_and_sweeps_name_the_noise(tmp_path):
    shown = compare("histogram:4", strategies=["identity"], guarantee=pml.PureDP(3))
    assert shown.to_records()[0]["noise"] == OWN
    assert OWN in shown.to_latex()
    assert OWN in shown._repr_html_()
    assert OWN in repr(shown)
    study = {"workloads": "histogram:4", "strategies": "identity", "guarantees": "dp:3"}
    (record,) = pml.sweep(study, tmp_path / "s.sqlite").to_records()
    assert (record["noise"], record["error"]) == (OWN, shown.rows[0].error)
