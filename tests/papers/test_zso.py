"""Statements of [ZSO], Context-aware privacy bounds for linear queries, by direct computation."""

import itertools
import math

import numpy as np
import pytest
from exact_pml import (
    extreme_priors,
    haar_differences,
    laplace_leakage_of_first,
    random_priors,
)
from leakages import laplace_leakage_bound

from pmldesign.privacy import extreme_output_leakage

STRATEGIES = {
    "prefix 4": np.tril(np.ones((4, 4))),
    "histogram 3": np.eye(3),
    "one row": np.array([[0.0, 1.0, 2.0, 5.0]]),
    "signed": np.array([[1.0, -1.0, 0.0], [2.0, 1.0, -1.0]]),
    "equal columns": np.array([[0.0, 0.0, 1.0], [1.0, 1.0, -2.0]]),
}


def reached(R, alpha, scale, records):
    """Leakage at y = (n - 1) R e_t + R e_r, worst r and t, with the priors of the docs page."""
    cells = R.shape[1]
    vertices = extreme_priors(np.full(cells, alpha))
    worst = 0.0
    for r, t in itertools.product(range(cells), repeat=2):
        farthest = np.abs(R - R[:, [r]]).sum(axis=0).argmax()
        priors = np.array([vertices[farthest]] + [vertices[t]] * (records - 1))
        output = (records - 1) * R[:, t] + R[:, r]
        worst = max(worst, laplace_leakage_of_first(R, priors, output[None], scale)[0])
    return worst


@pytest.mark.parametrize(
    ("alpha", "theorem_2", "reached_by"),
    [
        (0.01, 4.07957, {1: 4.26163, 2: 4.26151, 4: 4.26128}),
        (0.10, 1.91842, {1: 2.13129, 2: 2.12997}),
        (0.125, 1.69866, {1: 1.91233, 2: 1.90893, 4: 1.90264}),
    ],
)
def test_theorem_2_is_exceeded_on_the_difference_workload(alpha, theorem_2, reached_by):
    W = haar_differences()
    assert extreme_output_leakage(W, scale=1, alpha=alpha) == pytest.approx(theorem_2, abs=5e-6)
    assert laplace_leakage_bound(W, scale=1, alpha=alpha) == pytest.approx(reached_by[1], abs=5e-6)
    for records, value in reached_by.items():
        exact = reached(W, alpha, 1.0, records)
        assert exact == pytest.approx(value, abs=5e-6)
        assert exact > theorem_2 + 0.18
        assert exact <= laplace_leakage_bound(W, scale=1, alpha=alpha) + 1e-12


@pytest.mark.sweep
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.05, 0.6, 1.0])
def test_corollary_1_is_the_worst_case_of_one_record(name, scale, share):
    R = STRATEGIES[name]
    least = np.full(R.shape[1], share / R.shape[1])
    bound = laplace_leakage_bound(R, scale=scale, alpha=share / R.shape[1])
    axis = np.arange(R.min() - 1, R.max() + 1.01, 0.5)  # contains every entry of R
    if len(axis) ** len(R) > 20_000:
        axis = axis[::2]
    outputs = np.array(list(itertools.product(axis, repeat=len(R))))
    rng = np.random.default_rng(1)
    for prior in random_priors(rng, least, 5):
        assert laplace_leakage_of_first(R, prior[None], outputs, scale).max() <= bound + 1e-12
    # the leakage is convex in the prior, so its maximum is at a vertex
    worst = max(
        laplace_leakage_of_first(R, prior[None], outputs, scale).max()
        for prior in extreme_priors(least)
    )
    assert worst == pytest.approx(bound, abs=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("records", [2, 3, 4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_corollary_1_is_never_exceeded_with_more_records(name, records):
    R = STRATEGIES[name]
    cells = R.shape[1]
    rng = np.random.default_rng(records)
    for _ in range(40):
        scale = rng.uniform(0.2, 4)
        least = rng.dirichlet(np.ones(cells)) * rng.uniform(0.02, 1)
        bound = laplace_leakage_bound(R, scale=scale, alpha=least)
        priors = random_priors(rng, least, records)
        if rng.random() < 0.5:
            priors[0] = rng.choice(extreme_priors(least))
        picked = rng.integers(cells, size=(200, records))
        outputs = R.T[picked].sum(axis=1) + rng.laplace(scale=scale, size=(200, len(R)))
        outputs[:100] = R.T[picked[:100]].sum(axis=1)
        assert laplace_leakage_of_first(R, priors, outputs, scale).max() <= bound + 1e-12


def test_extreme_outputs_reach_theorem_2_in_the_limit():
    W = haar_differences()
    vertices = extreme_priors(np.full(8, 0.1))
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=7)))
    outputs = 50 * np.hstack([np.ones((len(signs), 1)), signs])
    worst = max(laplace_leakage_of_first(W, p[None], outputs, 1.0).max() for p in vertices)
    assert worst == pytest.approx(extreme_output_leakage(W, scale=1, alpha=0.1), abs=1e-12)


def test_both_bounds_agree_for_the_histogram_and_for_two_cells():
    for cells in (2, 3, 6):
        for R in (np.eye(cells), np.random.default_rng(cells).standard_normal((3, 2))):
            alpha = 0.9 / R.shape[1]
            both = [
                f(R, scale=0.7, alpha=alpha)
                for f in (laplace_leakage_bound, extreme_output_leakage)
            ]
            assert both[0] == pytest.approx(both[1], rel=1e-12)


def test_remark_2_limits_and_order():
    W = haar_differences()
    dp = 6.0  # two cells under different top nodes differ by 2 in one row and 1 in four
    alphas = [0.125, 0.05, 1e-3, 1e-8, 1e-300]
    values = [laplace_leakage_bound(W, scale=1, alpha=alpha) for alpha in alphas]
    assert values == sorted(values)
    assert all(value <= min(dp, math.log(1 / a)) for value, a in zip(values, alphas, strict=True))
    assert values[-1] == pytest.approx(dp, rel=1e-14)
    assert extreme_output_leakage(W, scale=1, alpha=1e-300) == pytest.approx(dp, rel=1e-14)


def test_tightness_condition_of_corollary_1_is_not_necessary():
    # the condition asks each row to order all pairs of cells the same way whichever comes first,
    # which only a constant row does; yet one record attains the bound
    R = STRATEGIES["one row"]
    assert reached(R, 0.1, 1.0, 1) == pytest.approx(
        laplace_leakage_bound(R, scale=1, alpha=0.1), rel=1e-12
    )
    differences = R[0][:, None] - R[0][None, :]
    assert (differences > 0).any()
    assert (differences < 0).any()


def test_dp_beyond_the_entropy_of_the_rarest_cell_still_bounds_the_leakage():
    epsilon, cells = math.log(10), 4
    for prior in extreme_priors(np.full(cells, 0.1)):
        outputs = np.random.default_rng(2).laplace(scale=2 / epsilon, size=(2000, cells))
        outputs = np.vstack([outputs, np.eye(cells)])
        leaked = laplace_leakage_of_first(np.eye(cells), prior[None], outputs, 2 / epsilon)
        # log( 10 / (0.9 + 0.1 * 10) )
        assert leaked.max() <= math.log(10 / 1.9) + 1e-12
    assert math.log(10 / 1.9) < 1.661 < epsilon
