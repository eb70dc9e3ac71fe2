"""Slack and envelope bounds against integration, enumeration, simulation and linear programming.

No test here uses the package's formulas for what it checks them against: densities, event sums and
the exact worst post-processing (a linear program) are computed from the definition.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leakages import gaussian_envelope_delta, gaussian_slack_delta, laplace_leakage_bound
from scipy.optimize import linprog
from scipy.special import ndtr


def vertices(least):
    return least + (1 - least.sum()) * np.eye(len(least))


def exact_slack_on_a_line(means, sigma, epsilon, least, points=400_000):
    """sup over r, priors and E of P_r(E) - e^eps P_Y(E) for one record, by the trapezoidal rule."""
    y, width = np.linspace(min(means) - 12 * sigma, max(means) + 12 * sigma, points, retstep=True)
    of = {m: np.exp(-(((y - m) / sigma) ** 2) / 2) for m in means}
    densities = [of[m] for m in means]
    worst = 0.0
    for prior in vertices(least):
        total = math.exp(epsilon) * sum(p * law for p, law in zip(prior, densities, strict=True))
        worst = max(worst, *(np.maximum(law - total, 0.0).sum() * width for law in of.values()))
    return worst / (sigma * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(
    ("means", "sigma", "epsilon", "alpha", "exact", "bound"),
    [([0, 1, 2], 1, 0.5, 0.1, 0.44319, 0.44400), ([0, 1], 2, 0.5, 0.15, 0.02580, 0.02580)],
)
def test_slack_check_values(means, sigma, epsilon, alpha, exact, bound):
    value = gaussian_slack_delta([means], scale=sigma, epsilon=epsilon, alpha=alpha)
    assert exact - 5e-6 <= value <= bound + 5e-6
    integral = exact_slack_on_a_line(means, sigma, epsilon, np.full(len(means), alpha))
    assert integral == pytest.approx(exact, abs=5e-6)


@pytest.mark.parametrize("sigma", [0.5, 1.3, 4.0])
@pytest.mark.parametrize("least", [(0.15, 0.15), (0.1, 0.4), (0.3, 0.7)])
@pytest.mark.parametrize("epsilon", [0.05, 0.4, 0.8])
def test_slack_is_exact_for_two_cells(sigma, least, epsilon):
    exact = exact_slack_on_a_line([0.0, 1.0], sigma, epsilon, np.array(least))
    bound = gaussian_slack_delta([[0.0, 1.0]], scale=sigma, epsilon=epsilon, alpha=least)
    assert bound == pytest.approx(exact, abs=1e-9)


def test_slack_is_exact_for_two_cells_in_closed_form():
    # E = {y < y*} with (1 - e^eps p) P_r(y*) = e^eps (1 - p) P_j(y*): two normal probabilities
    p, epsilon, sigma = 0.2, 0.6, 1.5
    log_odds = math.log((1 - math.exp(epsilon) * p) / (math.exp(epsilon) * (1 - p)))
    cut = 0.5 + sigma**2 * log_odds
    gain = (1 - math.exp(epsilon) * p) * ndtr(cut / sigma)
    loss = math.exp(epsilon) * (1 - p) * ndtr((cut - 1) / sigma)
    bound = gaussian_slack_delta([[0.0, 1.0]], scale=sigma, epsilon=epsilon, alpha=p)
    assert bound == pytest.approx(gain - loss, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("least", [(0.1, 0.15, 0.3), (0.2, 0.3, 0.5)])
def test_slack_is_exact_for_cells_with_two_different_columns(sigma, least):
    # cells 0 and 2 look the same: knowing which of them tells the output nothing
    means, epsilon = [0.0, 1.0, 0.0], 0.3
    exact = exact_slack_on_a_line(means, sigma, epsilon, np.array(least))
    bound = gaussian_slack_delta([means], scale=sigma, epsilon=epsilon, alpha=least)
    assert bound == pytest.approx(exact, abs=1e-9)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), epsilon=st.floats(0.05, 1.0))
def test_splitting_a_cell_changes_nothing(seed, epsilon):
    rng = np.random.default_rng(seed)
    R, alpha = rng.standard_normal((3, 4)), 0.8 * rng.dirichlet(np.ones(4))
    copies = np.array([0, 1, 1, 2, 3, 1])
    split = alpha[copies] / np.bincount(copies)[copies]
    for delta_of in (gaussian_slack_delta, gaussian_envelope_delta):
        whole = delta_of(R, scale=1.3, epsilon=epsilon, alpha=alpha)
        parts = delta_of(R[:, copies], scale=1.3, epsilon=epsilon, alpha=split)
        assert parts == pytest.approx(whole, rel=1e-6, abs=1e-15)
        # rounded upwards
        assert parts >= whole * (1 - 1e-12) or delta_of is gaussian_envelope_delta


def mixture_densities(R, sigma, priors, grid):
    """Densities of the output given the first record's cell, summed over the other records."""
    result = np.zeros((R.shape[1], len(grid)))
    for rest in itertools.product(range(R.shape[1]), repeat=len(priors) - 1):
        weight = np.prod([prior[v] for prior, v in zip(priors[1:], rest, strict=True)])
        means = R.T + R[:, list(rest)].sum(axis=1)
        squares = ((grid[None] - means[:, None, :]) ** 2).sum(axis=2)
        result += weight * np.exp(-squares / (2 * sigma**2))
    return result


def channel_on_a_grid(R, sigma, priors, step):
    """The output rounded to a grid: rows are cells of the first record, columns outputs."""
    low = len(priors) * R.min(axis=1) - 7 * sigma
    high = len(priors) * R.max(axis=1) + 7 * sigma
    axes = [np.arange(a, b, step) for a, b in zip(low, high, strict=True)]
    grid = np.array(list(itertools.product(*axes)))
    channel = mixture_densities(R, sigma, priors, grid)
    return channel / channel.sum(axis=1, keepdims=True)


def binned_channel(R, sigma, priors, step):
    """The output of one query put into bins: a post-processing, without discretization error."""
    low, high = len(priors) * R.min() - 7 * sigma, len(priors) * R.max() + 7 * sigma
    edges = np.concatenate([[-np.inf], np.arange(low, high, step), [np.inf]])
    channel = np.zeros((R.shape[1], len(edges) - 1))
    for rest in itertools.product(range(R.shape[1]), repeat=len(priors) - 1):
        weight = np.prod([prior[v] for prior, v in zip(priors[1:], rest, strict=True)])
        means = R[0] + R[0, list(rest)].sum()
        channel += weight * np.diff(ndtr((edges - means[:, None]) / sigma), axis=1)
    return channel


@pytest.mark.parametrize("records", [1, 2, 3])
def test_slack_is_never_exceeded_in_one_and_two_dimensions(records):
    rng = np.random.default_rng(records)
    for R in (np.array([[0.0, 1.0, 3.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])):
        for _ in range(6):
            least = rng.dirichlet(np.ones(3)) * rng.uniform(0.05, 1)
            sigma, epsilon = rng.uniform(0.5, 3), rng.uniform(0.01, 1)
            bound = gaussian_slack_delta(R, scale=sigma, epsilon=epsilon, alpha=least)
            for prior in vertices(least):
                priors = np.vstack([prior, rng.permutation(vertices(least))[: records - 1]])
                channel = channel_on_a_grid(R, sigma, priors, sigma / 8)
                excess = np.maximum(channel - math.exp(epsilon) * (prior @ channel), 0)
                # Riemann sums of Gaussians at step sigma/8 are exact to 1e-12; kinks cost 1e-3
                assert excess.sum(axis=1).max() <= bound + 1e-3


def test_bounds_hold_in_eight_dimensions_by_simulation():
    cells, sigma, epsilon, draws = 8, 1.2, 0.7, 60_000
    least = np.full(cells, 0.05)
    slack = gaussian_slack_delta(np.eye(cells), scale=sigma, epsilon=epsilon, alpha=least)
    envelope = gaussian_envelope_delta(np.eye(cells), scale=sigma, epsilon=epsilon, alpha=least)
    rng = np.random.default_rng(8)
    noise = rng.normal(scale=sigma, size=(draws, cells))
    for far, prior in enumerate(vertices(least)[:2]):
        r = 2 if far else 3
        logs = (noise + np.eye(cells)[r]) / sigma**2  # log density up to a common term
        posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
        ratio = posterior[:, r] / (posterior @ prior)
        penalty = np.maximum(0, 1 - math.exp(epsilon) / ratio)
        error = 4 * penalty.std() / math.sqrt(draws)
        assert penalty.mean() <= slack + error
        assert penalty.mean() >= 0.3 * slack  # the bound is not idle
        cell = rng.choice(cells, size=draws, p=prior)
        logs = (noise + np.eye(cells)[cell]) / sigma**2
        posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
        fails = posterior.max(axis=1) / (posterior @ prior) > math.exp(epsilon)
        assert fails.mean() <= envelope + 4 * math.sqrt(0.25 / draws)


def closed_failure_probability(channel, prior, epsilon):
    """The largest P(leakage(Z) > eps) over all post-processings Z of a finite channel, exactly.

    Outcomes above the threshold with the same best guess x merge without loss, so w_xy, the share
    of output y sent to symbol x, is all there is to choose.
    """
    k, outputs = channel.shape
    q = prior @ channel
    gains = channel - math.exp(epsilon) * q
    bounds = np.zeros((k, k * outputs))
    for x in range(k):
        bounds[x, x * outputs : (x + 1) * outputs] = -gains[x]
    shares = np.hstack([np.eye(outputs)] * k)
    program = linprog(
        -np.tile(q, k),
        A_ub=np.vstack([bounds, shares]),
        b_ub=np.concatenate([np.zeros(k), np.ones(outputs)]),
        method="highs",
    )
    assert program.status == 0
    return -program.fun


def failure_probability(channel, prior, epsilon):
    q = prior @ channel
    # strictly above: 1e-12 keeps outputs exactly at the threshold out
    fails = (channel > math.exp(epsilon) * (1 + 1e-12) * q).any(axis=0)
    return q[fails].sum()


def greedy_merge(channel, prior, epsilon, best):
    """One symbol that takes the outputs most in favour of cell `best` while it still fails."""
    q = prior @ channel
    order = np.argsort(-channel[best] / q)
    mass = np.cumsum(channel[best][order]) / np.cumsum(q[order])
    taken = order[: int((mass > math.exp(epsilon)).sum())]
    processing = np.eye(channel.shape[1])
    if len(taken):
        processing[taken] = 0
        processing[taken, taken[0]] = 1
    return processing


@pytest.mark.parametrize("seed", range(8))
def test_envelope_survives_every_post_processing(seed):
    rng = np.random.default_rng(seed)
    R = rng.integers(-2, 3, (1, 3)) + np.array([[0.0, 0.0, 3.0]])
    least = rng.dirichlet(np.ones(3)) * rng.uniform(0.1, 1)
    sigma = rng.uniform(0.7, 4)
    epsilon = rng.uniform(0.05, 0.9) * laplace_leakage_bound(R, scale=0, alpha=least)
    bound = gaussian_envelope_delta(R, scale=sigma, epsilon=epsilon, alpha=least)
    for prior, records in itertools.product(vertices(least), (1, 2)):
        priors = np.array([prior, *vertices(least)[: records - 1]])
        channel = binned_channel(R, sigma, priors, sigma / 6)
        worst = closed_failure_probability(channel, prior, epsilon)
        assert worst <= bound + 1e-9
        assert failure_probability(channel, prior, epsilon) <= worst + 1e-9
        outputs = channel.shape[1]
        processings = [greedy_merge(channel, prior, epsilon, best) for best in range(3)]
        processings += [rng.dirichlet(np.full(5, 0.1), outputs) for _ in range(20)]
        processings += [np.eye(4)[rng.integers(4, size=outputs)] for _ in range(20)]
        for processing in processings:
            after = channel @ processing
            after = after[:, after.sum(axis=0) > 0]
            assert failure_probability(after, prior, epsilon) <= worst + 1e-9


def test_merging_raises_the_plain_failure_probability():
    # why the envelope is needed: a greedy merge fails far more often than the output itself
    R, prior, epsilon = np.array([[0.0, 1.0]]), np.array([0.5, 0.5]), 0.3
    channel = binned_channel(R, 2.0, prior[None], 0.3)
    plain = failure_probability(channel, prior, epsilon)
    merged = failure_probability(channel @ greedy_merge(channel, prior, epsilon, 0), prior, epsilon)
    bound = gaussian_envelope_delta(R, scale=2.0, epsilon=epsilon, alpha=0.5)
    assert plain < merged - 0.05
    assert merged <= bound


def test_envelope_bound_is_tight_to_a_factor():
    # for two cells and a known prior only the sum over r and the Markov step are lost
    prior, epsilon, sigma = np.array([0.5, 0.5]), 0.4, 1.5
    channel = binned_channel(np.array([[0.0, 1.0]]), sigma, prior[None], 0.05)
    exact = closed_failure_probability(channel, prior, epsilon)
    bound = gaussian_envelope_delta([[0.0, 1.0]], scale=sigma, epsilon=epsilon, alpha=0.5)
    assert exact <= bound <= 1.01 * exact


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), sigma=st.floats(0.7, 20), epsilon=st.floats(0.05, 1))
def test_bounds_are_monotone_and_invariant(seed, sigma, epsilon):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((3, 4))
    least = 0.05 + rng.dirichlet(np.ones(4)) * 0.3
    for bound in (gaussian_slack_delta, gaussian_envelope_delta):
        value = bound(R, scale=sigma, epsilon=epsilon, alpha=least)
        assert 0 <= value <= 1
        slack = 1e-9 * value + 1e-300
        assert bound(R, scale=1.1 * sigma, epsilon=epsilon, alpha=least) <= value + slack
        assert bound(R, scale=sigma, epsilon=1.1 * epsilon, alpha=least) <= value + slack
        assert bound(R, scale=sigma, epsilon=epsilon, alpha=0.9 * least) >= value - slack
        rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        order = rng.permutation(4)
        same = bound(
            5 * rotation @ R[:, order] + 1, scale=5 * sigma, epsilon=epsilon, alpha=least[order]
        )
        assert same == pytest.approx(value, rel=1e-6, abs=1e-200)


def test_limits():
    R = np.array([[0.0, 1.0, 3.0]])
    # alpha -> 0: slack tends to the DP profile of the farthest pair
    profile = ndtr(1.5 - 0.5 / 3) - math.exp(0.5) * ndtr(-1.5 - 0.5 / 3)
    tiny = gaussian_slack_delta(R, scale=1, epsilon=0.5, alpha=1e-12)
    assert tiny == pytest.approx(profile, rel=1e-9)
    # no noise: P_r(E) = 1 and P_Y(E) = alpha
    exposed = gaussian_slack_delta(R, scale=0, epsilon=0.5, alpha=0.1)
    assert exposed == pytest.approx(1 - math.exp(0.5) * 0.1)
    assert gaussian_envelope_delta(R, scale=0, epsilon=0.5, alpha=0.3) == 1
    for bound in (gaussian_slack_delta, gaussian_envelope_delta):
        assert bound(R, scale=1, epsilon=math.log(10) + 1e-9, alpha=0.1) == 0
        assert bound(np.ones((2, 3)), scale=1, epsilon=0.5, alpha=0.1) == 0


def test_with_many_cells_a_sample_of_them_chooses_c_nearly_as_well():
    rng = np.random.default_rng(0)
    strategy, least = rng.normal(size=(5, 200)), np.full(200, 1 / 400)
    scale, epsilon = 40.0, 0.7
    found = gaussian_envelope_delta(strategy, scale=scale, epsilon=epsilon, alpha=1 / 400)

    # E (V - c)_+ / (e^eps - c) on a grid of c, with the profile written out
    distances = np.linalg.norm(strategy[:, :, None] - strategy[:, None, :], axis=0) / scale
    best = np.inf
    for c in 1 + np.linspace(0, 0.999, 200) * np.expm1(epsilon):
        shifted = np.log(c * (1 - least[0]) / (1 - c * least[0]))
        t = np.where(distances > 0, distances, 1)
        profile = ndtr(t / 2 - shifted / t) - np.exp(shifted) * ndtr(-t / 2 - shifted / t)
        profile = np.where(distances > 0, profile, 0)
        total = profile @ least + (1 - least.sum()) * profile.max(axis=1)
        best = min(best, (1 - c * least[0]) / (1 - least[0]) * total.sum() / (np.exp(epsilon) - c))
    assert best * (1 - 1e-3) <= found <= best * (1 + 1e-3)


@pytest.mark.parametrize("alpha", [0.003, 0.02])
def test_profiles_of_many_pairs_are_at_most_a_millionth_of_the_distance_above(alpha, monkeypatch):
    R = np.random.default_rng(5).standard_normal((6, 40))
    for delta_of in (gaussian_slack_delta, gaussian_envelope_delta):
        exact = delta_of(R, scale=3.0, epsilon=0.5, alpha=alpha)
        with monkeypatch.context() as patch:
            patch.setattr("pmldesign.privacy.gaussian_leakage.MANY_PAIRS", 0)
            looked_up = delta_of(R, scale=3.0, epsilon=0.5, alpha=alpha)
        assert exact * (1 - 1e-12) <= looked_up <= exact * (1 + 1e-4)
