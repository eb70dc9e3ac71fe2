"""Least p-th moments against linear programs, numerical integration and enumerated mechanisms."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog, minimize_scalar

from pmldesign.error_bounds import (
    BoundProblem,
    all_bounds,
    least_deviation,
    least_moment,
    least_moment_root,
    staircase_deviation,
    staircase_moment_root,
)
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import PML, ApproxDP, GaussianDP, PureDP
from pmldesign.workloads import as_workload


@pytest.mark.parametrize("p", [2.5, 7])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.4, 0.05), (1, 0.4), (2, 0.02)])
def test_it_is_the_value_of_the_linear_program_over_all_laws(p, epsilon, delta):
    """Over the laws on 20 cosets c + Z, of whatever form."""
    lattice = np.arange(-9, 10)
    x = np.concatenate([lattice + c for c in np.arange(-10, 10) / 20])
    size, count, growth = lattice.size, x.size, math.exp(epsilon)
    ahead = np.kron(np.eye(20), np.eye(size) - growth * np.eye(size, k=1))
    behind = np.kron(np.eye(20), np.eye(size) - growth * np.eye(size, k=-1))
    zero, one = np.zeros((count, count)), np.eye(count)
    sums = np.zeros((2, 3 * count))
    sums[0, count : 2 * count] = sums[1, 2 * count :] = 1
    found = linprog(
        np.concatenate([np.abs(x / 3) ** p, np.zeros(2 * count)]),
        A_ub=np.vstack([np.hstack([ahead, -one, zero]), np.hstack([behind, zero, -one]), sums]),
        b_ub=np.concatenate([np.zeros(2 * count), [delta, delta]]),
        A_eq=np.concatenate([np.ones(count), np.zeros(2 * count)])[None, :],
        b_eq=[1.0],
    )
    value = 3 * found.fun ** (1 / p)
    bound = least_moment_root(p, epsilon, delta)
    assert bound <= value * (1 + 1e-7)
    assert value <= bound * 1.005  # cosets are 1/20 apart


@pytest.mark.parametrize("p", [2, 3, 6.5, 40])
@pytest.mark.parametrize("epsilon", [0.02, 0.7, 4.0])
def test_without_delta_it_is_the_geometric_law(p, epsilon):
    i = np.arange(1, int(12 * (p + 10) / epsilon) + 10, dtype=float)
    terms = p * np.log(i) - epsilon * i
    moment = math.exp(terms.max() / p) * (2 * np.exp(terms - terms.max()).sum()) ** (1 / p)
    expected = moment * math.tanh(epsilon / 2) ** (1 / p)
    assert least_moment_root(p, epsilon) == pytest.approx(expected, rel=3e-9)
    assert least_moment_root(p, epsilon) <= expected


def test_small_epsilon_is_the_exponential_law():
    # sum i^p e^(-eps i) tends to Gamma(p + 1)/eps^(p + 1)
    for p in (2, 5, 9.5):
        limit = math.exp(math.lgamma(p + 1) / p)
        assert 1e-7 * least_moment_root(p, 1e-7) == pytest.approx(limit, rel=1e-6)


@settings(max_examples=5)
@given(st.floats(0.02, 6), st.floats(1e-9, 0.95), st.floats(2, 30))
def test_order(epsilon, delta, p):
    least = least_moment_root(p, epsilon, delta)
    assert least_deviation(epsilon, delta) <= least * (1 + 1e-6)  # E |z|^p >= (E z^2)^(p/2)
    assert least <= least_moment_root(p + 0.5, epsilon, delta) * (1 + 1e-6)
    assert least <= least_moment_root(p, epsilon) * (1 + 1e-9)
    assert least_moment_root(p, epsilon) <= staircase_moment_root(p, epsilon) * (1 + 1e-9)
    assert staircase_moment_root(p, epsilon) < math.exp(math.lgamma(p + 1) / p) / epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 4])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.03, 0.45, 0.7, 1 - 1e-9])
def test_at_two_it_is_the_least_variance(epsilon, delta):
    expected = least_deviation(epsilon, delta)
    assert least_moment_root(2, epsilon, delta) == pytest.approx(expected, rel=1e-5, abs=0)


@pytest.mark.parametrize("p", [2, 3.5, 12])
@pytest.mark.parametrize("epsilon", [0.3, 1, 5])
def test_staircase_by_integration_of_its_density(p, epsilon):
    steps = int((p + 60) / epsilon) + 3

    def moment(g):
        edges = np.sort(np.concatenate([np.arange(steps), np.arange(steps) + g]))
        heights = np.exp(-epsilon * np.floor(edges[:-1] + (1 - g) + 1e-12))
        unit = p / epsilon
        pieces = [
            height * quad(lambda x: (x / unit) ** p, low, high)[0]
            for (low, high), height in zip(pairwise(edges), heights, strict=True)
        ]
        return unit * (sum(pieces) / (heights * np.diff(edges)).sum()) ** (1 / p)

    best = minimize_scalar(moment, bounds=(1e-6, 1 - 1e-6), method="bounded")
    assert staircase_moment_root(p, epsilon) == pytest.approx(best.fun, rel=1e-6)
    assert staircase_moment_root(2, epsilon) == pytest.approx(
        staircase_deviation(epsilon), rel=1e-8
    )


def named(found, name):
    return next(bound for bound in found if bound.name == name)


def random_law(generator, reach, queries):
    """A law on {-reach, ..., reach}^queries: a random one, or truncated geometric coordinates."""
    x = np.arange(-reach, reach + 1)
    if generator.integers(3) == 0:
        shape = (x.size,) * queries
        weights = generator.dirichlet(np.full(x.size**queries, generator.uniform(0.2, 3)))
        return weights.reshape(shape)
    a, b = generator.integers(0, reach + 1, 2)
    one = np.exp(-generator.uniform(0.05, 2) * np.abs(x)) * ((x <= a) & (x >= -b))
    one = one + one[::-1] if generator.integers(2) else one
    joint = np.ones(())
    for _ in range(queries):
        joint = np.multiply.outer(joint, one / one.sum())
    return joint


def exact_delta(law, step, epsilon):
    """The larger hockey-stick divergence of the law and its translate, on all points of either."""
    far = [(2, 2)] * law.ndim
    here = np.pad(law, far)
    there = np.roll(here, step, axis=tuple(range(law.ndim)))
    growth = math.exp(epsilon)
    return max(
        np.maximum(here - growth * there, 0).sum(), np.maximum(there - growth * here, 0).sum()
    )


def attack(generator, cases):
    """Errors over the bounds, where the (epsilon, delta) of a mechanism is enumerated."""
    for _ in range(cases):
        m, n = int(generator.integers(1, 4)), int(generator.integers(1, 4))
        neighbours = "replace" if n > 1 and generator.integers(2) else "add-remove"
        p, epsilon = generator.choice([2.5, 3, 4, 8, 20]), generator.uniform(0.05, 2.5)
        A = generator.integers(-1, 2, (m, n))
        reach = int(generator.integers(1, 6))
        law = random_law(generator, reach, m)
        steps = A.T
        if neighbours == "replace":
            steps = [first - second for i, first in enumerate(A.T) for second in A.T[:i]]
        delta = max(exact_delta(law, tuple(step), epsilon) for step in steps)
        if not 1e-12 < delta < 1 - 1e-6:
            continue
        x = np.abs(np.arange(-reach, reach + 1.0)) ** p
        axes = range(m)
        moments = [law.sum(axis=tuple(set(axes) - {axis})) @ x for axis in axes]
        guarantee = ApproxDP(epsilon, delta * (1 + 1e-9), neighbours)
        workload, shifts = as_workload(A.astype(float)), guarantee.shifts(n)
        problem = BoundProblem(workload, p, guarantee, shifts, norm_lower=0, norm_upper=9)
        least = least_moment(problem, norm_alone=False).value
        error = sum(moments) ** (1 / p)
        assert least <= error * (1 + 1e-9), (A, p, epsilon, delta)
        yield least / error if error else 0.0


def test_no_enumerated_mechanism_is_below_a_bound():
    ratios = list(attack(np.random.default_rng(5), 200))
    assert len(ratios) > 150
    assert max(ratios) > 0.95  # truncated geometric laws come close to it


@pytest.mark.parametrize(("p", "bound"), [(10, 5.53), (100, 38.7)])
def test_eight_counts(p, bound):
    found = all_bounds(
        as_workload("histogram:8"), norm_lower=8 ** (1 / p), norm_upper=9, p=p, guarantee=PureDP(1)
    )
    (least,) = [each.value for each in found if each.name == "least moment"]
    # geometric noise on the counts has this error: Gamma(p + 1) up to the lattice
    assert bound <= least <= 8 ** (1 / p) * math.exp(math.lgamma(p + 1) / p)


@pytest.mark.parametrize("matrix", [np.eye(3), np.ones((1, 4)), np.ones((4, 1)), np.zeros((2, 2))])
def test_degenerate_shapes(matrix):
    def bound(neighbours):
        guarantee = PureDP(0.5, neighbours)
        return named(
            all_bounds(as_workload(matrix), norm_lower=0, norm_upper=9, p=4, guarantee=guarantee),
            "least moment",
        ).value

    rows = np.abs(matrix).max(axis=1)
    expected = least_moment_root(4, 0.5) * (rows**4).sum() ** 0.25
    assert bound("add-remove") == pytest.approx(expected, rel=1e-9)
    if matrix.shape[1] > 1:
        spread = np.ptp(matrix, axis=1)
        expected = least_moment_root(4, 0.5) * (spread**4).sum() ** 0.25
        assert bound("replace") == pytest.approx(expected, rel=1e-9)


def test_where_it_does_not_speak():
    eye = as_workload("histogram:4")
    options = {"norm_lower": 1, "norm_upper": 2}
    for p in (2, math.inf):
        assert not named(all_bounds(eye, p=p, guarantee=PureDP(1), **options), "least moment").holds
    assert not named(all_bounds(eye, p=4, guarantee=GaussianDP(1), **options), "least moment").holds
    assert not named(
        all_bounds(eye, p=4, guarantee=PureDP(1), norm_alone=True, **options), "least moment"
    ).holds
    under = named(all_bounds(eye, p=4, guarantee=PML(0.5, 0.1), **options), "least moment")
    assert under.holds
    assert not under.for_every_mechanism


def test_extreme_and_wrong_arguments():
    assert 0 <= least_moment_root(3, 1000.0, 1e-300) < 1e-60
    assert least_moment_root(3, 5e-7, 1e-9) > 1e5
    assert 0 <= least_moment_root(1e4, 5e-324, 0.5) < math.inf
    for p, epsilon, delta in ((1, 1, 0.1), (3, 0, 0.1), (3, 1, 1), (3, 1, math.nan)):
        with pytest.raises(InvalidInputError):
            least_moment_root(p, epsilon, delta)
