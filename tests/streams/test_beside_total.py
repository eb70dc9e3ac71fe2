"""Streams whose total is public: replace neighbours, on line."""

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from recorded import Recorded

from pmldesign.cli import main
from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, ApproxPML, Neighbours
from pmldesign.strategies import Strategy, uncentred
from pmldesign.streams import (
    BesideTotal,
    Encoder,
    FloatingGaussian,
    Journal,
    Stream,
    endless_stream,
    on_line,
    on_line_of,
)
from pmldesign.workloads import RunningWorkload, as_workload

PRIORS = ApproxPML(1.0, 1e-3, 0.05)
PUBLIC = ApproxDP(1.0, 1e-6, neighbours=Neighbours.REPLACE)


def rough(n):
    rng = np.random.default_rng(n)
    return RunningWorkload(np.ones(n - 1), np.exp(rng.normal(0, 1.5, n)))


def kinds():
    """Name, strategy, workload: recurrences and matrices, with few steps and rough weights."""
    for n in (8, 33):
        found = factorize(f"prefix:{n}", neighbours="replace", buffers=6, rel_gap=1e-1)
        yield f"buffers {n}", found.strategy, found.workload.whole
    sums = rough(24)
    yield "add-remove", factorize(sums, buffers=3, rel_gap=1e-1).strategy, sums
    rng = np.random.default_rng(0)
    for n in (2, 3, 20):
        found = factorize(f"prefix:{n}", neighbours="replace", rel_gap=1e-2)
        yield f"dense {n}", found.strategy, found.workload.whole
        tall = Strategy("tall", rng.normal(size=(n + 3, n)))
        yield f"tall {n}", tall, as_workload(f"prefix:{n}")
    equal = np.eye(5)
    equal[3] = equal[2]  # beside the total two columns of the same direction
    equal[3, 3] = 1e-3
    yield "nearly equal", Strategy("equal", equal), as_workload("prefix:5")
    yield "windows", Strategy("one", np.eye(9)), as_workload("window:9,3")


@pytest.fixture(scope="module", params=list(kinds()), ids=lambda kind: kind[0])
def kind(request):
    _, strategy, workload = request.param
    return strategy, workload, on_line_of(strategy, workload, Neighbours.REPLACE)


def columns(encoder):
    """C' in whole numbers as the encoder goes through it, a column for each step and a zero one."""
    steps = encoder.recurrence.cells
    found = []
    for j in range(steps):
        rows = encoder.recurrence.encoder()
        # of 2^40 in place of 1, so that what states lose by rounding down does not count
        taken = [rows.take(2**80 if t == j else 0) for t in range(steps)]
        found.append([Fraction(y, 2**152) for y in taken])
    return [*found, [Fraction(0)] * steps]


def test_no_pair_of_neighbours_is_farther_apart_than_claimed(kind):
    """Every pair of steps, the last one included, in rational arithmetic."""
    encoder = Encoder(kind[2])
    most = Fraction(encoder.sensitivity) ** 2
    far = max(
        sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        for a, b in combinations(columns(encoder), 2)
    )
    assert most * (1 - Fraction(1, 10**5)) < far < most


def test_outputs_of_neighbours_are_at_most_the_sensitivity_apart(kind):
    """With the rounding of inputs, states and outputs: a number moves from any step to another."""
    rng = np.random.default_rng(1)
    steps = Encoder(kind[2]).recurrence.cells
    for _ in range(40):
        x, amount = rng.normal(0, 1e3, steps + 1), rng.choice([1.0, -1.0, 1 / 3, 0.7])
        i, j = rng.choice(steps + 1, 2, replace=False)
        other = x.copy()
        other[i], other[j] = x[i] - amount, x[j] + amount
        encoder = Encoder(kind[2])
        pair = [Encoder(kind[2]).encode(data[:-1].tolist()) for data in (x, other)]
        unit = Fraction(2) ** encoder.grid_exponent
        square = sum(((a - b) * unit) ** 2 for a, b in zip(*pair, strict=True))
        assert square <= Fraction(encoder.sensitivity) ** 2


def test_answers_are_the_queries_with_the_errors_beside_the_total(kind):
    """Deviations are those of a normal vector that is known to sum to what it sums to."""
    strategy, workload, made = kind
    stream = Stream(made, 1.0, FloatingGaussian(0))
    n = strategy.cells
    x = np.random.default_rng(2).normal(size=n)
    _, deviations = stream.steps(x[:-1].tolist())
    R, A = uncentred(strategy).matrix, workload.to_dense()
    R = R / max(np.linalg.norm(R[:, i] - R[:, j]) for i, j in combinations(range(n), 2))
    kernel = np.linalg.svd(np.ones((1, n)))[2][1:].T  # histograms that sum to zero
    L = A @ kernel @ np.linalg.pinv(R @ kernel, 1e-11)
    expected = stream.encoder.sensitivity * np.linalg.norm(L, axis=1)[:-1]
    assert deviations == pytest.approx(expected, rel=1e-6)
    quiet = Stream(made, 1.0, Recorded([0] * n))
    assert quiet.steps(x[:-1].tolist())[0] == pytest.approx((A @ x)[:-1], abs=1e-4)
    with pytest.raises(InvalidInputError, match=f"got 1 more: the sum of all {n} is public"):
        stream.step(1.0)


def test_the_noise_is_that_of_the_mechanism():
    noisy = mechanism(
        factorize("prefix:40", neighbours="replace", buffers=8, rel_gap=1e-1),
        guarantee=PUBLIC,
        noise="gaussian",
    )
    stream = noisy.stream(noise=FloatingGaussian(0))
    assert stream.encoder.recurrence.memory == 9  # one more than buffers
    _, deviations = stream.steps([0] * 39)
    assert deviations == pytest.approx(noisy.standard_deviations[:-1], rel=2e-6)
    assert (deviations >= noisy.standard_deviations[:-1] * (1 - 1e-9)).all()


def test_beside_the_total_is_less_noise_than_without(monkeypatch):
    """Of a strategy for add-remove neighbours; the bound for many steps is the longest column's."""
    strategy = factorize("prefix:60", buffers=6).strategy
    made = on_line_of(strategy, None, Neighbours.REPLACE)
    _, deviations = Stream(made, 1.0, FloatingGaussian(0)).steps([0] * 59)
    plain = np.sqrt(2.0 * strategy.variances(as_workload("prefix:60")))
    assert (deviations < plain[:-1]).all()
    monkeypatch.setattr(on_line, "WRITTEN_CELLS", 8)
    many = on_line_of(strategy, None, Neighbours.REPLACE)
    exact = Encoder(made).sensitivity
    assert exact <= Encoder(many).sensitivity <= 1.2 * exact


def test_a_stream_goes_on_where_it_was(tmp_path):
    strategy = factorize("prefix:50", neighbours="replace", buffers=8, rel_gap=1e-1).strategy
    made = on_line_of(strategy, None, Neighbours.REPLACE)
    noise, x = list(range(49)), np.arange(49.0)
    whole, _ = Stream(made, 1.0, Recorded(noise)).steps(x)
    for start, stop in ((0, 17), (17, 18), (18, 49)):
        journal = Journal(Stream(made, 1.0, Recorded(noise[start:])), tmp_path / "state")
        assert journal.steps(x[start:stop])[0] == pytest.approx(whole[start:stop], rel=1e-12)
        journal.close()
    other = Stream(on_line_of(strategy, None), 1.0, Recorded(noise))
    state = json.loads(json.dumps(Stream(made, 1.0, Recorded(noise)).save()))
    with pytest.raises(InvalidInputError, match="another strategy, workload or guarantee"):
        other.resume(state)


def test_the_command_takes_what_is_public(tmp_path):
    """A file made for replace, or another one with --neighbours."""

    def run(*options, lines="1\n2\n3\n", code=0):
        found = CliRunner().invoke(main, ["stream", *map(str, options)], input=lines)
        assert found.exit_code == code, found.output
        return found

    made = mechanism(
        factorize("prefix:12", neighbours="replace", buffers=8, rel_gap=1e-1),
        guarantee=PUBLIC,
        noise="gaussian",
    )
    write_strategy(tmp_path / "public.npz", made)
    found = run(tmp_path / "public.npz", "--state", tmp_path / "state")
    assert "one record is replaced (the number of records is public)" in found.stderr
    assert "11 steps are answered; the sum of all 12 is public" in found.stderr
    given = [float(line.split(",")[2]) for line in found.stdout.splitlines()]
    assert given == pytest.approx(made.standard_deviations[:3], rel=2e-6)
    more = run(tmp_path / "public.npz", "--state", tmp_path / "state", lines="4\n" * 8)
    assert len(more.stdout.splitlines()) == 8
    write_strategy(tmp_path / "plain.npz", factorize("prefix:12", buffers=3))
    promise = ["--epsilon", 1, "--delta", 1e-6]
    wide, narrow = (
        float(run(tmp_path / "plain.npz", *promise, *also).stdout.split(",")[2].split()[0])
        for also in (["--neighbours", "replace"], [])
    )
    assert narrow < wide < np.sqrt(2.0) * narrow
    for options, reason in (
        (["--workload", "decay:12,0.9"], "in which nothing fades and no step has a weight"),
        (["--participation", "2,min-sep=3"], "under add-remove neighbours"),
        (["--series", "north,south"], "has one series, got 2"),
    ):
        refused = run(tmp_path / "plain.npz", *promise, "--neighbours", "replace", *options, code=2)
        assert reason in refused.stderr
    assert "no total" in run("prefix:inf", *promise, "--neighbours", "replace", code=2).stderr


def test_what_is_refused():
    strategy = factorize("prefix:9", buffers=3).strategy
    with pytest.raises(InvalidInputError, match="Gaussian noise and add-remove"):
        mechanism(strategy, "prefix:9", guarantee=PRIORS, noise="gaussian").stream()
    with pytest.raises(InvalidInputError, match="measures nothing"):
        BesideTotal(Strategy("one", [[1.0]]), as_workload("prefix:1"))
    with pytest.raises(InvalidInputError, match="no total is public that nobody knows"):
        endless_stream(PUBLIC)
    noisy = mechanism(strategy, "prefix:9", guarantee=PUBLIC, noise="gaussian")
    with pytest.raises(InvalidInputError, match="of numbers also replace"):
        noisy.vector_stream(2)
    with pytest.raises(InvalidInputError, match="of numbers also replace"):
        noisy.training_noise(2)
