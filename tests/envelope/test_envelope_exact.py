"""The exact envelope: against enumeration, CVXPY, exact arithmetic, and its own certificates."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pmldesign.envelope import (
    Channel,
    binary_envelope,
    closed_failure_bound,
    closed_failure_probability,
    cvar_bound,
    envelope_curve,
    envelope_plateaus,
    exact_envelope,
    failure_program,
    leakage_quantile,
    maximal_leakage_bound,
    pointwise_leakage,
    quantized_gaussian,
    quantized_laplace,
    randomized_response,
)
from pmldesign.errors import InvalidInputError

DELTAS = st.floats(0.001, 0.999)


@st.composite
def channels(draw, max_secrets=6, max_outputs=9):
    """Random channels: dense, nearly deterministic, with zeros, with ties."""
    k, y = draw(st.integers(2, max_secrets)), draw(st.integers(1, max_outputs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        matrix = rng.dirichlet(np.full(y, 10.0 ** draw(st.integers(-1, 1))), k)
    else:
        matrix = rng.integers(0, 4, (k, y)).astype(float)
        matrix[:, 0] += 1
        matrix /= matrix.sum(axis=1, keepdims=True)
    prior = np.full(k, 1 / k) if draw(st.booleans()) else rng.dirichlet(np.full(k, 3.0))
    return Channel(matrix, prior)


def assert_certified(channel, delta, value):
    """Both ends follow from the returned post-processing and dual alone, and meet."""
    reached = channel.post_process(value.post_processing)
    assert leakage_quantile(reached, delta) >= value.lower - 1e-12
    assert closed_failure_bound(channel, value.dual, value.upper) <= delta
    assert 0 <= value.gap <= 1e-8
    assert (value.dual >= 0).all()


@given(channels(), DELTAS)
def test_certified_from_both_sides_and_between_the_bounds(channel, delta):
    value = exact_envelope(channel, delta)
    assert_certified(channel, delta, value)
    below = max(binary_envelope(channel, delta), leakage_quantile(channel, delta))
    cvar = cvar_bound(channel, delta)
    assert below <= value.upper + 1e-12
    assert value.lower <= cvar + 1e-12
    assert cvar <= maximal_leakage_bound(channel, delta) + 1e-12


@settings(max_examples=10)
@given(channels(), DELTAS, st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_post_processing_never_raises_the_envelope(channel, delta, symbols, seed):
    rng = np.random.default_rng(seed)
    processed = channel.post_process(rng.dirichlet(np.full(symbols, 0.3), channel.shape[1]))
    upper = exact_envelope(channel, delta).upper
    assert exact_envelope(processed, delta).lower <= upper
    assert leakage_quantile(processed, delta) <= upper


@settings(max_examples=10)
@given(channels(), DELTAS, st.integers(0, 2**32 - 1))
def test_order_splitting_and_naming_of_outputs_do_not_matter(channel, delta, seed):
    rng = np.random.default_rng(seed)
    k, y = channel.shape
    rows, columns = rng.permutation(k), rng.permutation(2 * y)
    split = np.hstack([0.3 * channel.matrix, 0.7 * channel.matrix])[rows][:, columns]
    other = Channel(split, channel.prior[rows])
    assert other.reduced().shape[1] <= y
    expected = exact_envelope(channel, delta).value
    assert exact_envelope(other, delta).value == pytest.approx(expected, abs=1e-8)


@given(channels(max_secrets=4, max_outputs=5), st.floats(0.02, 0.98))
@settings(max_examples=5)
def test_cvxpy_program_agrees(channel, share):
    level = pointwise_leakage(channel).max() * share
    assume(level > 1e-6)  # at 0 every post-processing reaches the threshold and none exceeds it
    ours = closed_failure_probability(channel, level)
    program = failure_program(channel, level)
    program.solve(solver="CLARABEL")
    assert ours == pytest.approx(program.value, abs=1e-6)


@given(channels(max_secrets=4, max_outputs=5), DELTAS)
@settings(max_examples=5)
def test_cvxpy_program_brackets_the_envelope(channel, delta):
    value = exact_envelope(channel, delta)
    at, above = failure_program(channel, value.lower), failure_program(channel, value.upper + 1e-5)
    for program in (at, above):
        program.solve(solver="CLARABEL")
    assert at.value >= delta - 1e-6
    assert above.value <= delta + 1e-6


def quantile_of_all(matrices, channel, delta):
    """The largest right delta-quantile over many post-processings, shape (n, y, z)."""
    joint = np.einsum("xy,nyz->nxz", channel.matrix, matrices)
    masses = np.einsum("x,nxz->nz", channel.prior, joint)
    used = masses > 1e-15
    leakage = np.where(used, joint.max(axis=1) / np.where(used, masses, 1), 0)
    order = np.argsort(-leakage, axis=1)
    reached = np.cumsum(np.take_along_axis(masses, order, axis=1), axis=1)
    first = (reached >= delta * (1 - 1e-12)).argmax(axis=1)
    return log(np.take_along_axis(leakage, order, axis=1)[np.arange(len(first)), first].max())


def all_grid_post_processings(outputs, parts, symbols):
    """Every output split into equal parts, and every map of the parts to symbols."""
    rows = [
        np.bincount(chosen, minlength=symbols) / parts
        for chosen in combinations_with_replacement(range(symbols), parts)
    ]
    return np.array([np.array(choice) for choice in product(rows, repeat=outputs)])


@pytest.mark.parametrize("parts", [2, 4])
def test_brute_force_meets_a_closed_form_on_erasure_channels(parts):
    # P = [[a, 0, 1-a], [0, a, 1-a]], uniform: symbols 1 and 2 share the erasure mass they need,
    # ratio (a/2 * 2 + (delta - a)/2 ... ) so e^eps_c = (2a + delta - a)/delta = 1 + a/delta
    a = 0.6
    channel = Channel([[a, 0, 1 - a], [0, a, 1 - a]], [0.5, 0.5])
    grid = all_grid_post_processings(3, parts, 3)
    for share in np.arange(0, parts, 2) / parts:  # both symbols take share / 2 of the erasure
        delta = a + (1 - a) * share
        expected = log(1 + a / delta)
        assert quantile_of_all(grid, channel, delta) == pytest.approx(expected, abs=1e-12)
        assert exact_envelope(channel, delta).value == pytest.approx(expected, abs=1e-11)


@pytest.mark.sweep(seed=4)
@pytest.mark.parametrize("seed", range(12))
def test_no_deterministic_map_of_split_outcomes_does_better(seed):
    rng = np.random.default_rng(seed)
    k, y = int(rng.integers(2, 5)), 3
    channel = Channel(rng.dirichlet(np.full(y, 0.7), k), rng.dirichlet(np.full(k, 3.0)))
    grid = all_grid_post_processings(y, 5, 3)
    for delta in (0.1, 0.35, 0.6, 0.85):
        value = exact_envelope(channel, delta)
        assert quantile_of_all(grid, channel, delta) <= value.upper
        # split as the returned post-processing asks, and cut the largest part once more
        best = quantile_of_all(partitions_of_split(value.post_processing), channel, delta)
        assert value.lower - 1e-12 <= best <= value.upper


def partitions_of_split(post_processing):
    """All set partitions of the parts that a post-processing splits the outcomes into."""
    parts = [(y, w) for y, row in enumerate(post_processing) for w in row if w > 1e-12]
    largest = max(parts, key=lambda part: part[1])
    parts.remove(largest)
    parts += [(largest[0], 0.4 * largest[1]), (largest[0], 0.6 * largest[1])]
    matrices = []
    for labels in restricted_growth(len(parts)):
        matrix = np.zeros((len(post_processing), len(parts)))
        for (y, weight), z in zip(parts, labels, strict=True):
            matrix[y, z] += weight
        matrices.append(matrix)
    return np.array(matrices)


def restricted_growth(length):
    """Labels of all set partitions of `length` things."""
    labels = [[0]]
    for _ in range(length - 1):
        labels = [[*head, z] for head in labels for z in range(max(head) + 2)]
    return labels


@pytest.mark.parametrize("seed", range(6))
def test_certificate_holds_in_exact_arithmetic(seed):
    # integers / 60 and a rational prior: recompute both ends with fractions, without rounding
    rng = np.random.default_rng(seed)
    k, y = 4, 6
    counts = rng.multinomial(60, rng.dirichlet(np.ones(y)), k)
    weights = rng.integers(1, 9, k)
    prior = [Fraction(int(w), int(weights.sum())) for w in weights]
    P = [[Fraction(int(c), 60) for c in row] for row in counts]
    q = [sum(prior[x] * P[x][j] for x in range(k)) for j in range(y)]
    kept = [j for j in range(y) if q[j] > 0]
    delta = Fraction(37, 100)
    value = exact_envelope(Channel(counts / 60, weights / weights.sum()), 0.37)

    t = Fraction(exp(value.upper))
    bound = Fraction(0)
    useful = [x for x in range(k) if max(P[x][j] / q[j] for j in kept) > t]
    for j in kept:
        gains = [Fraction(value.dual[x]) * (P[x][j] / q[j] - t) for x in useful]
        bound += q[j] * max(Fraction(0), 1 + max(gains, default=Fraction(-1)))
    assert bound <= delta

    Z = [[Fraction(w) for w in row] for row in value.post_processing]
    symbols = range(len(Z[0]))
    mass = [sum(q[j] * Z[i][z] for i, j in enumerate(kept)) for z in symbols]
    leaks = [
        max(sum(P[x][j] * Z[i][z] for i, j in enumerate(kept)) for x in range(k)) / mass[z]
        if mass[z]
        else Fraction(0)
        for z in symbols
    ]
    reached = sum(mass[z] for z in symbols if leaks[z] >= Fraction(exp(value.lower - 1e-12)))
    assert reached >= delta * (1 - Fraction(1, 10**12))


@pytest.mark.sweep
@pytest.mark.parametrize("build", [quantized_laplace, quantized_gaussian])
@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_quantised_noise_is_certified_at_every_scale(build, scale):
    channel = build(np.full(12, 1 / 12), scale=scale, cells=30)
    for delta in (1e-4, 0.2, 0.7, 0.999):
        assert_certified(channel, delta, exact_envelope(channel, delta))


def test_a_channel_that_tells_nothing_and_one_that_tells_everything():
    silent = Channel([[0.3, 0.7], [0.3, 0.7]], [0.4, 0.6])
    assert exact_envelope(silent, 0.5).value == pytest.approx(0, abs=1e-12)
    open_ = Channel(np.eye(3), [0.2, 0.3, 0.5])
    # all of x = 1, then 2 diluted: levels 1/p_x, plateaus end where the mass p_1 + ... is used up
    assert exact_envelope(open_, 0.2).value == pytest.approx(log(5), abs=1e-11)
    assert exact_envelope(open_, 0.999).value == pytest.approx(log(2), abs=0.01)


def test_one_value_of_the_secret_cannot_leak():
    assert exact_envelope(Channel([[0.5, 0.5]], [1.0]), 0.3).value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("missing", [2.0**-53, 2.0**-52, 1e-14, 1e-13])
def test_delta_next_to_one(missing):
    """Every output of uniform randomized response leaks the same: the envelope is constant."""
    value = exact_envelope(randomized_response(np.full(3, 1 / 3), epsilon=1.0), 1 - missing)
    assert value.lower <= log(3 * exp(1) / (exp(1) + 2)) <= value.upper
    assert value.gap <= 1e-12


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_delta_outside_the_open_interval_is_refused(delta):
    channel = Channel([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5])
    for function in (
        exact_envelope,
        binary_envelope,
        cvar_bound,
        maximal_leakage_bound,
        leakage_quantile,
    ):
        with pytest.raises(InvalidInputError, match=r"delta must be in \(0, 1\)"):
            function(channel, delta)
    with pytest.raises(InvalidInputError, match="delta must be in"):
        envelope_curve(channel, [0.5, delta])


@given(channels())
@settings(max_examples=4)
def test_curve_is_monotone_continuous_and_flat_on_its_plateaus(channel):
    curve = envelope_curve(channel, np.linspace(0.02, 0.98, 5))
    assert (np.diff(curve.upper) <= 1e-8).all()
    assert (curve.upper - curve.lower <= 1e-8).all()
    assert (np.diff(curve.breakpoints) > 0).all()
    for plateau in curve.plateaus:
        assert 0 <= plateau.start < plateau.end <= 1
        if plateau.end - plateau.start < 1e-8:
            continue  # no room for the points below
        inside = np.clip([plateau.start + 1e-9, plateau.end - 1e-9], 1e-9, 1 - 1e-9)
        for delta in inside:
            assert exact_envelope(channel, delta).value == pytest.approx(plateau.level, abs=1e-8)
        if plateau.end < 1 - 1e-3:
            assert exact_envelope(channel, plateau.end + 1e-3).upper < plateau.level
        if plateau.start > 1e-3:
            assert exact_envelope(channel, plateau.start - 1e-3).lower > plateau.level


def test_first_plateau_is_the_largest_leakage():
    # up to the mass of the leakiest outputs nothing is gained by mixing
    channel = Channel([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], [0.5, 0.5])
    first = envelope_plateaus(channel)[0]
    assert first.level == pytest.approx(log(7 / 4))
    assert (first.start, first.end) == pytest.approx((0, 0.8))


def test_curve_needs_a_delta():
    with pytest.raises(InvalidInputError, match="at least one"):
        envelope_curve(Channel([[1.0]], [1.0]), [])
