"""On-line release of running sums: exact outputs, exact variances, states that are used once."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import Recorded

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP
from pmldesign.strategies import StreamStrategy
from pmldesign.streams import (
    COEFFICIENT_BITS,
    INPUT_BITS,
    KEPT_BITS,
    Designed,
    DiscreteGaussian,
    Encoder,
    FloatingGaussian,
    Stream,
    VectorStream,
    dyadic,
)
from pmldesign_solvers.streams import SIZE, BlockRows, Nodes, RunningSums


@pytest.fixture(scope="module")
def designed():
    return factorize("decay:30,0.9", buffers=4, rel_gap=1e-2)


@pytest.fixture(scope="module")
def exact_matrix(designed):
    """The matrix C that an encoder has, as fractions."""
    found = designed.strategy.factor
    n = len(found.diagonal)
    rows = BlockRows(found.diagonal, found.gains, found.decays)
    (part,) = rows.blocks_from(0)
    T, R, F = (
        fractions(values, COEFFICIENT_BITS)
        for values in (part.triangles, part.readings, part.fading)
    )
    kept = fractions(part.kept, KEPT_BITS)
    C = [[Fraction(0)] * n for _ in range(n)]
    for j in range(n):
        block, place = divmod(j, SIZE)
        for i in range(j, min(n, (block + 1) * SIZE)):
            C[i][j] = T[block][i % SIZE][place]
        state = F[block][place]
        for later in range(block + 1, len(kept)):
            for i in range(later * SIZE, min(n, (later + 1) * SIZE)):
                C[i][j] = sum(r * z for r, z in zip(R[later][i % SIZE], state, strict=True))
            state = [k * z for k, z in zip(kept[later], state, strict=True)]
    return C


def fractions(values, bits):
    """Nested lists of the nearest multiples of 2^-bits."""
    if values.ndim == 0:
        return Fraction(round(float(values) * 2.0**bits), 2**bits)
    return [fractions(part, bits) for part in values]


def test_blocks_define_the_matrix_of_the_strategy(designed, exact_matrix):
    assert np.allclose(np.array(exact_matrix, dtype=float), designed.strategy.matrix, atol=1e-14)


@given(st.lists(st.floats(-1e6, 1e6), min_size=30, max_size=30))
@settings(max_examples=4)
def test_outputs_are_the_nearest_points_of_the_grid(designed, exact_matrix, inputs):
    encoder = Encoder(Designed(designed.strategy))
    grid = Fraction(2) ** encoder.grid_exponent
    found = encoder.encode(inputs)
    off = grid * (Fraction(1, 2) + Fraction(1, 2**30)) + Fraction(encoder.recurrence.drift())
    rounded = [Fraction(dyadic(x), 2**INPUT_BITS) for x in inputs]
    for row, y in zip(exact_matrix, found, strict=True):
        exact = sum(c * x for c, x in zip(row, rounded, strict=True))
        assert abs(y * grid - exact) <= off


@given(st.floats(-(2.0**53), 2.0**53))
def test_inputs_are_rounded_down_to_whole_numbers(x):
    below = Fraction(x) - Fraction(dyadic(x), 2**INPUT_BITS)
    assert 0 <= below < Fraction(1, 2**INPUT_BITS)
    for short in (np.float32(x), np.float16(x % 2048)):
        assert dyadic(short) == dyadic(float(short))


@pytest.mark.parametrize("size", [1.0, 1e14])
def test_outputs_in_blocks_are_those_one_by_one(size):
    n = 1500  # more blocks than are made at a time
    sums = RunningSums(np.full(n - 1, 0.999), np.ones(n), np.ones(n))
    nodes = factorize("decay:300,0.999", buffers=6, rel_gap=1e-3).strategy.nodes
    strategy = StreamStrategy("long", sums, np.ones(n), np.ones(n), nodes).normalised()
    random = np.random.default_rng(5)
    for inputs in (size * random.normal(size=n), random.integers(-size, size, n, endpoint=True)):
        single, block, resumed = (Encoder(Designed(strategy)) for _ in range(3))
        values = inputs.tolist()
        outputs = [single.take(x) for x in values]
        together = [y for a, b in ((0, 7), (7, 1300), (1300, n)) for y in block.encode(values[a:b])]
        # a sum of broken parts of the grid is rounded once in blocks, and never one by one
        assert max(abs(a - b) for a, b in zip(outputs, together, strict=True)) <= 1
        assert sum(a != b for a, b in zip(outputs, together, strict=True)) <= 1
        assert single.state == block.state
        assert together[:500] == resumed.encode(inputs[:500])
        resumed.resume(500, resumed.state)
        assert resumed.encode(values[500:]) == pytest.approx(together[500:], abs=1)
        exact = strategy.measure(inputs.astype(float))
        grid = 2.0**single.grid_exponent
        assert np.allclose(np.array(outputs) * grid, exact, rtol=1e-9, atol=1e-9 * size + grid)


def test_sensitivity_covers_columns_and_rounding(designed, exact_matrix):
    encoder, C = Encoder(Designed(designed.strategy)), exact_matrix
    longest = max(float(sum(row[j] ** 2 for row in C)) for j in range(len(C))) ** 0.5
    grid = 2.0**encoder.grid_exponent
    assert encoder.sensitivity >= longest + 2 * np.sqrt(30) * grid / 2
    assert encoder.sensitivity <= 1 + 2e-6
    base = np.random.default_rng(0).normal(size=30) * 100
    for j in range(30):
        pair = [
            Encoder(Designed(designed.strategy)).encode(base + t * np.eye(30)[j]) for t in (0, 1)
        ]
        moved = np.linalg.norm(np.subtract(*pair).astype(float)) * grid
        assert moved <= encoder.sensitivity


def test_answers_are_sums_plus_the_reconstructed_noise(designed):
    noise = np.random.default_rng(1).integers(-(10**9), 10**9, 30).tolist()
    stream = Stream(Designed(designed.strategy), 1.0, Recorded(noise))
    x = np.random.default_rng(2).normal(size=30)
    values, deviations = stream.steps(x)
    unit = 2.0**stream.encoder.grid_exponent
    L = designed.reconstruction()
    A = designed.workload.to_dense()
    assert values == pytest.approx(A @ x + L @ noise * unit, abs=1e-5)
    assert deviations == pytest.approx(stream.scale * np.linalg.norm(L, axis=1), rel=1e-9)
    again = Stream(Designed(designed.strategy), 1.0, Recorded(noise))
    singly = [again.step(value) for value in x]
    assert [answer.value for answer in singly] == pytest.approx(values, rel=1e-12)
    assert [answer.standard_deviation for answer in singly] == deviations.tolist()


def test_scale_is_that_of_the_mechanism(designed):
    made = mechanism(
        designed.strategy, designed.workload, guarantee=ApproxDP(1, 1e-6), noise="gaussian"
    )
    stream = made.stream(noise=FloatingGaussian(0))
    assert made.scale <= stream.scale <= made.scale * (1 + 2e-6)
    assert stream.noise.draw(stream.scale, 1) != stream.noise.draw(stream.scale, 1)
    plain = mechanism(designed.strategy, designed.workload, noise="laplace")
    with pytest.raises(InvalidInputError, match="needs Gaussian noise"):
        plain.stream()


def test_a_design_goes_on_line_with_a_guarantee(designed):
    """That of its mechanism; without a guarantee it is told what to give."""
    made = mechanism(
        designed.strategy, designed.workload, guarantee=ApproxDP(1, 1e-6), noise="gaussian"
    )
    with pytest.raises(InvalidInputError, match=r"needs a guarantee.*give guarantee=pml\.ApproxDP"):
        designed.stream()
    stream = designed.stream(guarantee=ApproxDP(1, 1e-6), noise=FloatingGaussian(1))
    _, deviations = stream.steps([1.0] * 30)
    expected = made.stream(noise=FloatingGaussian(2)).steps([1.0] * 30)[1]
    assert deviations.tolist() == expected.tolist()


def test_simulated_variances(designed):
    width = 40_000
    stream = VectorStream(designed.strategy, 2.0, width, seed=3)
    sums = np.zeros(width)
    for t in range(30):
        value, deviation = stream.step(np.full(width, t))
        sums = 0.9 * sums + t
        assert np.std(value - sums) == pytest.approx(deviation, rel=6 / np.sqrt(2 * width))
    with pytest.raises(InvalidInputError, match="all are taken"):
        stream.step(sums)


def test_exact_noise_has_the_scale_that_was_asked_for():
    drawn = np.array(DiscreteGaussian().draw(1000.0, 1000), dtype=float)
    assert drawn.std() == pytest.approx(1000, rel=6 / np.sqrt(2000))
    assert abs(drawn.mean()) < 6 * 1000 / np.sqrt(1000)


def test_a_resumed_stream_is_the_same(designed):
    x = np.arange(30.0)
    whole = Stream(Designed(designed.strategy), 1.0, Recorded(range(30)))
    first = Stream(Designed(designed.strategy), 1.0, Recorded(range(30)))
    head, _ = first.steps(x[:11])
    second = Stream(Designed(designed.strategy), 1.0, Recorded(range(11, 30)))
    second.resume(json.loads(json.dumps(first.save())))
    tail, _ = second.steps(x[11:])
    assert np.concatenate([head, tail]) == pytest.approx(whole.steps(x)[0], rel=1e-12)
    with pytest.raises(InvalidInputError, match="has 30 steps, of which 30 are taken"):
        second.step(1.0)


def test_inputs_are_checked_before_a_step(designed):
    stream = Stream(Designed(designed.strategy), 1.0, Recorded([0] * 30))
    for wrong in (float("nan"), float("inf"), 1e300, "1", None):
        with pytest.raises(InvalidInputError, match="input of a stream"):
            stream.steps([1.0, wrong])
    with pytest.raises(InvalidInputError, match="at most 2"):
        stream.steps(np.full(30, np.iinfo(np.int64).min))  # whose absolute value is itself
    for wrong in (5, (x for x in range(3))):
        with pytest.raises(InvalidInputError, match="steps takes a list of inputs, got"):
            stream.steps(wrong)
    assert stream.time == 0


def test_noise_that_would_be_cut_off_is_refused():
    with pytest.raises(InvalidInputError, match="larger epsilon"):
        DiscreteGaussian().draw(2.0**57, 1)


@pytest.mark.parametrize("seed", range(4))
def test_outputs_of_neighbours_are_no_farther_apart_than_the_sensitivity(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 50))
    sums = RunningSums(rng.uniform(0.2, 1, n - 1), np.ones(n), np.ones(n))
    nodes = Nodes(np.array([0.05, 0.7, 3.0]), rng.uniform(0.1, 2, 3))
    strategy = StreamStrategy("own", sums, np.ones(n), rng.uniform(0.9, 1, n), nodes).normalised()
    for _ in range(20):
        inputs = rng.uniform(-1e9, 1e9, n)
        other, j = inputs.copy(), int(rng.integers(n))
        other[j] += rng.choice([-1, 1])
        change = abs(Fraction(other[j]) - Fraction(inputs[j]))
        encoder = Encoder(Designed(strategy))
        grid = Fraction(2) ** encoder.grid_exponent
        pair = encoder.encode(inputs.tolist()), Encoder(Designed(strategy)).encode(other.tolist())
        square = sum(((a - b) * grid) ** 2 for a, b in zip(*pair, strict=True))
        assert square <= (max(change, 1) * Fraction(encoder.sensitivity)) ** 2


def test_growing_states_are_refused():
    sums = RunningSums(np.full(9, 3.0), np.ones(10), np.ones(10))
    rising = StreamStrategy(
        "rising",
        sums,
        np.ones(10),
        np.full(10, 0.1),
        factorize("prefix:10", buffers=3).strategy.nodes,
    )
    with pytest.raises(InvalidInputError, match="grows along the stream"):
        Encoder(Designed(rising.normalised()))


def test_blocks_of_steps_answer_as_single_steps_do():
    best = factorize("decay:200,0.97", buffers=6, rel_gap=1e-3)
    noisy = mechanism(best.strategy, best.workload, guarantee=ApproxDP(1.0, 1e-6), noise="gaussian")
    values = np.random.default_rng(3).integers(0, 9, 200).tolist()
    quiet = [noisy.stream(noise=FloatingGaussian(seed=1)) for _ in range(2)]
    for stream in quiet:
        stream.scale = 1e-12
    together = np.concatenate([quiet[0].steps(part)[0] for part in (values[:7], values[7:])])
    single = np.array([quiet[1].step(value).value for value in values])
    exact = best.workload.matvec(np.array(values, dtype=float))
    assert np.allclose(together, exact, atol=1e-3)
    assert np.allclose(single, exact, atol=1e-3)
    assert np.allclose(together, single, rtol=0, atol=1e-3)
