"""Running sums without an end: infinite columns, errors at every step, and the least ones."""

import json
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from flint import arb, ctx, fmpq
from recorded import Recorded

from pmldesign.cli import main
from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.privacy import ZCDP, ApproxDP, PureDP
from pmldesign.streams import (
    Designed,
    Encoder,
    Endless,
    EndlessStrategy,
    FloatingGaussian,
    Journal,
    Stream,
    certified_ratios,
    endless_stream,
    least_deviations,
)

N, BUFFERS = 300, 16


@pytest.fixture(scope="module")
def strategy():
    return EndlessStrategy()


@pytest.fixture(scope="module")
def matrix(strategy):
    """The first rows of C from its definition."""
    steps = np.arange(1, N + 1)
    epochs = np.searchsorted(strategy.starts, steps, side="right") - 1
    lags = np.arange(N)[:, None]
    c = (np.exp(strategy.log_decays * lags) * strategy.weights).sum(axis=1)
    toeplitz = np.tril(c[np.abs(np.subtract.outer(steps, steps))])
    return strategy.falls[epochs][:, None] * toeplitz * strategy.levels[epochs]


def impulse(strategy, first, count):
    """A column of C as the encoder has it, in fractions, from its first step on."""
    rows = Encoder(Endless()).recurrence.encoder()
    rows.resume(first - 1, [0] * BUFFERS)
    units = [rows.take(2**40)] + [rows.take(0) for _ in range(count - 1)]
    return [Fraction(unit, 2**112) for unit in units]


def infinite_square(strategy, first):
    """The squared norm of a whole column by the definition, in balls."""
    d = [arb(whole) / arb(2) ** 96 for whole in strategy.whole_decays]
    begins = [first, *(start for start in strategy.starts if start > first)]
    gains = [
        [arb(gain) / arb(2) ** 128 for gain in strategy.whole_gains(strategy.epoch(begin))]
        for begin in begins
    ]
    total = arb(0)
    for m, n in combinations_with_replacement(range(len(d)), 2):
        q = d[m] * d[n]
        left = [q ** (begin - first) for begin in begins] + [arb(0)]
        terms = zip(gains, pairwise(left), strict=True)
        total += (1 + (m < n)) * sum(g[m] * g[n] * (x - y) for g, (x, y) in terms) / (1 - q)
    return (arb(strategy.whole_levels[strategy.epoch(first)]) / arb(2) ** 52) ** 2 * total


def test_infinite_columns_are_at_most_as_long_as_claimed(strategy):
    rng = np.random.default_rng(0)
    firsts = {strategy.starts[e] for e in (0, 5, 60, 185)}
    firsts |= {start - 1 for start in (3, 2**20)} | {int(2.0**e) for e in rng.uniform(0, 48, 2)}
    with ctx.workprec(192):
        for first in firsts:
            square = infinite_square(strategy, first)
            assert square < arb(strategy.sensitivity) ** 2
            if first in strategy.starts:  # the longest of its epoch
                assert square > 1 - 1e-9


def test_the_encoder_has_these_columns(strategy):
    off = Encoder(Endless()).recurrence.drift()
    for first in (1, 2, 7, 255):
        column = impulse(strategy, first, 400)
        with ctx.workprec(192):
            begins = [first, *(s for s in strategy.starts if first < s < first + 400), first + 400]
            level = arb(strategy.whole_levels[strategy.epoch(first)]) / arb(2) ** 52
            for begin in begins[:-1]:
                gains = strategy.whole_gains(strategy.epoch(begin))
                meant = level * sum(
                    arb(g) / arb(2) ** 128 * (arb(d) / arb(2) ** 96) ** (begin - first)
                    for g, d in zip(gains, strategy.whole_decays, strict=True)
                )
                found = column[begin - first]
                assert abs(arb(fmpq(found.numerator, found.denominator)) - meant) < off
        assert sum(entry**2 for entry in column) < Fraction(strategy.sensitivity) ** 2


def test_outputs_of_neighbours_are_at_most_the_sensitivity_apart(strategy):
    rng = np.random.default_rng(1)
    for first, change in ((1, 1.0), (1, -1.0), (2, 1.0), (37, 0.3), (128, 1.0)):
        data = rng.choice([0.0, 0.1, 1e6, -3.7, 2.0**-40], 400).tolist()
        other = list(data)
        other[first - 1] += change
        apart = [
            x - y
            for x, y in zip(
                Encoder(Endless()).encode(data), Encoder(Endless()).encode(other), strict=True
            )
        ]
        encoder = Encoder(Endless())
        assert all(step == 0 for step in apart[: first - 1])
        square = sum(step**2 for step in apart) * Fraction(2) ** (2 * encoder.grid_exponent)
        assert 0 < square <= Fraction(encoder.sensitivity) ** 2


def test_rounding_cannot_add_up_to_more_than_the_noise_pays_for(strategy):
    encoder = Encoder(Endless())
    off = Fraction(2) ** encoder.grid_exponent * (Fraction(1, 2) + Fraction(1, 2**30))
    off += Fraction(encoder.recurrence.drift())
    added = Fraction(encoder.sensitivity) - Fraction(strategy.sensitivity)
    assert 4 * 2**48 * off**2 <= added**2


def test_deviations_are_those_of_the_matrix(strategy, matrix):
    stream = Stream(Endless(), 1.0, FloatingGaussian())
    _, deviations = stream.steps([0.0] * N)
    errors = np.cumsum(np.linalg.inv(matrix), axis=0)
    assert np.allclose(deviations / stream.scale, np.sqrt((errors**2).sum(axis=1)), rtol=1e-10)


def test_deviation_of_a_late_step_is_that_of_its_row(strategy):
    """The row of A C^-1 by elimination from its end: C^T l = 1."""
    last = 6000
    epochs = np.searchsorted(strategy.starts, np.arange(1, last + 1), side="right") - 1
    decays, state = np.exp(strategy.log_decays), np.zeros(BUFFERS)
    total, square = strategy.weights.sum(), 0.0
    for epoch in epochs[::-1]:
        state = decays * state
        # kappa sum_m (w_m rho l + state_m) = 1
        entry = (1.0 / strategy.levels[epoch] - state.sum()) / (strategy.falls[epoch] * total)
        state += strategy.weights * strategy.falls[epoch] * entry
        square += entry**2
    stream = Stream(Endless(), 1.0, FloatingGaussian())
    stream._sums.go_on(last - 1, 0.0)
    assert stream._sums.take(0.0)[1] / stream.scale == pytest.approx(np.sqrt(square), rel=1e-9)


def test_answers_are_the_sums_without_noise(strategy):
    rng = np.random.default_rng(2)
    inputs = rng.integers(-5, 100, 700)
    stream = Stream(Endless(), 1e-9, Recorded([0] * 700))
    values, _ = stream.steps(inputs.tolist())
    assert np.allclose(values, np.cumsum(inputs), atol=1e-4)


def test_least_deviations_are_nuclear_norms_below_certified_optima():
    for n in (1, 2, 5, 31, 32, 33, 34, 200):
        values = np.linalg.svd(np.tri(n), compute_uv=False)
        (least,) = least_deviations(np.array([float(n)]))
        assert least <= values.mean()
        assert least == pytest.approx(values.mean(), rel=1e-4)
    steps = np.arange(1.0, 3000.0)
    assert (np.diff(least_deviations(steps)) > 0).all()
    large = 10**6
    angles = (2 * np.arange(1, large + 1) - 1) * np.pi / (4 * large + 2)
    (least,) = least_deviations(np.array([float(large)]))
    assert least <= (0.5 / np.sin(angles)).mean() < least * (1 + 1e-5)
    for n in (16, 100):
        best = factorize(f"prefix:{n}", p=np.inf, rel_gap=1e-4)
        assert least_deviations(np.array([float(n)]))[0] < best.certificate.lower


def test_no_answer_is_far_above_the_best_for_its_step(strategy):
    stream = Stream(Endless(), 1.0, FloatingGaussian())
    steps = np.unique(np.concatenate([np.arange(1, 65), np.floor(2 ** np.arange(6, 48, 0.21))]))
    deviations = []
    for step in steps.astype(int).tolist():
        stream._sums.go_on(step - 1, 0.0)
        deviations.append(stream._sums.take(0.0)[1])
    ratios = [
        certified_ratios(stream.identity, int(step) - 1, np.array([deviation]))[0]
        for step, deviation in zip(steps, deviations, strict=True)
    ]
    assert max(ratios) < 1.38
    # no stream can have 1 at all steps: a stream with an end has its optimum there
    assert min(ratios) > 1


@pytest.fixture
def recorded(strategy):
    """What makes a stream with the same little noise each time, from a step on."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(10**12), 10**12, 200).tolist()
    return lambda first: Stream(Endless(), 1.0, Recorded(numbers[first:]))


@pytest.mark.usefixtures("quick_disk")
def test_a_stream_goes_on_where_it_was(strategy, recorded, tmp_path):
    inputs = np.random.default_rng(4).integers(0, 9, 60).tolist()
    whole, deviations = recorded(0).steps(inputs)
    found, done = [], 0
    for count in (1, 2, 4, 16, 1, 30, 6):  # over ends of epochs, too
        journal = Journal(recorded(done), tmp_path / "state")
        assert journal.position == done
        answers = journal.steps(inputs[done : done + count])
        found += zip(*(part.tolist() for part in answers), strict=True)
        journal.close()
        done += count
    assert np.allclose(np.array(found).T, [whole, deviations], rtol=1e-12)
    with pytest.raises(FileError, match="another strategy, workload or guarantee"):
        Journal(Stream(Endless(), 1.1, Recorded([])), tmp_path / "state")
    state = json.loads(json.dumps(recorded(0).save()))
    other = Stream(Designed(factorize("prefix:8", buffers=2).strategy), 1.0, Recorded([]))
    with pytest.raises(InvalidInputError, match="another strategy"):
        other.resume(state)


def test_guarantees(strategy):
    assert endless_stream(ApproxDP(1.0, 1e-6)).step(3).standard_deviation > 1
    first = strategy.falls[0] * strategy.weights.sum() * strategy.levels[0]
    assert endless_stream(ZCDP(0.5)).step(3).standard_deviation == pytest.approx(
        1 / first, rel=2e-6
    )
    with pytest.raises(InvalidInputError, match="has Gaussian noise"):
        endless_stream(PureDP(1.0))


@pytest.mark.usefixtures("quick_disk")
def test_command(tmp_path):
    def run(*options, lines="", code=0):
        found = CliRunner().invoke(main, ["stream", *options], input=lines)
        assert found.exit_code == code, found.output
        return found

    state = str(tmp_path / "state")
    endless = ["prefix:inf", "--guarantee", "zcdp:0.5", "--state", state]
    first = run(*endless, lines="3\n4\n")
    assert "The Renyi divergence of every order" in first.stderr
    rows = [line.split(",") for line in (first.stdout + run(*endless, lines="5\n").stdout).split()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert all(1 < float(row[3]) < 1.38 for row in rows)
    assert run("--replay", state).stdout.split() == [",".join(row) for row in rows]
    assert run(*endless, lines="2,4\n").stdout.strip() == ",".join(rows[1])
    for options, reason in (
        (["--epsilon", "1"], "a stream has Gaussian noise"),
        ([], "prefix:inf needs a guarantee"),
        (
            ["--guarantee", "zcdp:1", "--participation", "4,min-sep=3"],
            "remove --workload and --particip",
        ),
        (
            ["--guarantee", "zcdp:1", "--workload", "prefix:4"],
            "remove --workload and --particip",
        ),
    ):
        assert reason in run("prefix:inf", *options, code=2).stderr
    for name in ("prefix:inf", "prefix:1099511627776"):
        found = CliRunner().invoke(main, ["optimize", name, "--epsilon", "1"])
        assert found.exit_code == 2
        assert "`pmldesign stream prefix:inf`" in found.stderr
