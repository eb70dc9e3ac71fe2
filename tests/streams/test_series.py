"""Several series and windows on line: exact answers, variances, and how far neighbours get."""

import json

import numpy as np
import pytest
from recorded import Recorded

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP
from pmldesign.streams import (
    Designed,
    Encoder,
    FloatingGaussian,
    Journal,
    endless_stream,
    lower_triangular,
)

GUARANTEE = ApproxDP(1.0, 1e-6)
N, D = 20, 3


def noisy(strategy, workload):
    return mechanism(strategy, workload, guarantee=GUARANTEE, noise="gaussian")


def designed(text):
    return noisy(factorize(text).strategy, text)


@pytest.mark.parametrize(
    ("text", "design"),
    [
        (f"prefix:{N}", f"prefix:{N}"),
        (f"window:{N},6", f"window:{N},6"),
        (f"window:{N},6", f"prefix:{N}"),  # differences of two running sums
        (f"window:{N},1", f"prefix:{N}"),
        (f"prefix:{N}*histogram:{D}", f"prefix:{N}*histogram:{D}"),
        (f"window:{N},6*histogram:{D}", f"window:{N},6*histogram:{D}"),
    ],
)
def test_answers_are_the_queries_plus_the_reconstructed_noise(text, design):
    found = noisy(factorize(design).strategy, text)
    series = found.workload.shape[1] // N
    rng = np.random.default_rng(1)
    noise = rng.integers(-(10**9), 10**9, N * series)
    x = rng.normal(size=(N, series))
    stream = found.stream(noise=Recorded(noise.tolist()))
    values, deviations = [], []
    for first, last in ((0, 1), (1, 2), (2, 17), (17, N)):  # one by one, and in blocks
        block = x[first:last] if series > 1 else x[first:last, 0]
        answers = stream.steps(block.tolist()) if last > 1 else None
        if answers is None:
            answer = stream.step(block.tolist()[0])
            answers = [answer.value], [answer.standard_deviation]
        values += np.reshape(answers[0], (-1, series)).tolist()
        deviations += list(answers[1])
    exact = found.workload.to_dense() @ x.ravel()
    errors = np.array(values) - exact.reshape(N, series)
    assert np.array(deviations) == pytest.approx(
        found.standard_deviations.reshape(N, series)[:, 0], rel=1e-5
    )
    # the errors are A C^-1 times the noise of their series
    A = found.workload.to_dense()[::series, ::series]
    C = stream.strategy.strategy.matrix
    unit = 2.0**stream.encoder.grid_exponent
    recovered = C @ np.linalg.solve(A, errors) / unit
    assert np.sort(recovered.ravel()) == pytest.approx(np.sort(noise), abs=1e5)


@pytest.mark.parametrize("participation", [None, "3,min-sep=5", "4,every=5"])
def test_neighbours_in_several_series_are_within_the_sensitivity(participation):
    """A person is in another series at every step, and its inputs lie next to grid points."""
    design = factorize(f"prefix:{N}", participation=participation)
    strategy = lower_triangular(design.strategy)
    first = Encoder(Designed(strategy), D)
    single = Encoder(Designed(strategy))
    assert single.sensitivity <= first.sensitivity <= single.sensitivity * (1 + 2e-6)
    rng = np.random.default_rng(2)
    times = 1 if participation is None else int(participation[0])
    farthest = 0.0
    for _ in range(40):
        steps = rng.integers(0, N - 5 * (times - 1)) + 5 * np.arange(times)
        x = rng.normal(size=(N, D))
        other = x.copy()
        other[steps, rng.integers(0, D, times)] += rng.choice([-1.0, 1.0], times)
        outputs = []
        for table in (x, other):
            encoders = [first.another() for _ in range(D)]
            pairs = zip(encoders, table.T, strict=True)
            outputs.append([encoder.encode(column.tolist()) for encoder, column in pairs])
        moved = np.linalg.norm(np.subtract(*outputs).astype(float)) * 2.0**first.grid_exponent
        farthest = max(farthest, moved)
        assert moved <= first.sensitivity
    assert farthest > 0.4


def test_each_series_has_noise_of_its_own():
    stream = designed(f"prefix:{N}*histogram:2").stream(noise=FloatingGaussian(seed=1))
    values, _ = stream.steps(np.zeros((N, 2)).tolist())
    noise = np.linalg.solve(np.tril(np.ones((N, N))), values)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.7
    assert len(np.unique(noise)) == 2 * N


@pytest.mark.parametrize("text", [f"prefix:{N}*histogram:{D}", f"window:{N},6*histogram:{D}"])
def test_a_state_of_several_series_goes_on(text, tmp_path):
    found = designed(text)
    x = np.arange(N * D).reshape(N, D).tolist()
    noise = np.random.default_rng(3).integers(-(10**9), 10**9, N * D).tolist()
    whole, _ = found.stream(noise=Recorded([0] * N * D)).steps(x)
    first, second = found.stream(noise=Recorded([0] * 99)), found.stream(noise=Recorded([0] * 99))
    head, _ = first.steps(x[:9])
    second.resume(json.loads(json.dumps(first.save())))
    tail, _ = second.steps(x[9:])
    assert np.concatenate([head, tail]) == pytest.approx(whole, abs=1e-7)
    for values in (x[:9], x[9:]):  # and in files
        journal = Journal(found.stream(noise=Recorded(noise)), tmp_path / "state")
        answers, _ = journal.steps(values)
        again = journal.again(len(values), values[-1]) if journal.position == 9 else None
        assert again is None or again.value == tuple(answers[-1])
        with pytest.raises(InvalidInputError, match="was answered already, for another number"):
            journal.again(1, [5, 1, 2])
        journal.close()
    other = designed(f"prefix:{N}*histogram:2").stream()
    with pytest.raises(InvalidInputError, match="another strategy, workload or guarantee"):
        other.resume(first.save())


def test_inputs_of_several_series_count_together_or_not_at_all():
    found = designed(f"prefix:{N}*histogram:{D}").stream()
    for wrong in ([1.0, 2.0], [1.0, 2.0, np.nan], 3.0, [1.0, [2.0], 3.0], [1e300, 0.0, 0.0]):
        with pytest.raises(InvalidInputError):
            found.steps([[1.0, 2.0, 3.0], wrong])
        assert found.time == 0
        assert found.encoder.state == Encoder(found.strategy).state


def test_files_of_products_are_those_of_one_series(tmp_path):
    for text in (f"prefix:{N}*histogram:{D}", "prefix:300*histogram:40"):
        design = factorize(text)
        write_strategy(tmp_path / "s.npz", design)
        strategy = read_strategy(tmp_path / "s.npz")
        one = factorize(text.split("*")[0])
        stream = noisy(strategy, text).stream()
        alone = noisy(one.strategy, one.workload).stream()
        assert stream.scale == pytest.approx(alone.scale, rel=1e-5)
        assert stream._sums._deviations == pytest.approx(alone._sums._deviations, rel=1e-3)
    other = mechanism("identity", f"prefix:{N}*prefix:{D}", guarantee=GUARANTEE, noise="gaussian")
    with pytest.raises(InvalidInputError, match="a stream answers running sums or windows"):
        other.stream()
    tilted = np.kron(np.eye(N), np.diag([1.0, 2.0, 3.0]))
    other = mechanism(tilted, f"prefix:{N}*histogram:{D}", guarantee=GUARANTEE, noise="gaussian")
    with pytest.raises(
        InvalidInputError, match="not series of 20 steps that are measured alike; design"
    ):
        other.stream()


def test_several_series_without_an_end(tmp_path):
    guarantee = ApproxDP(1e6, 1e-6)
    stream = endless_stream(guarantee, series=2)
    values, deviations = stream.steps([[1, 10]] * 40)
    alone = endless_stream(guarantee)
    assert deviations == pytest.approx(alone.steps([1] * 40)[1], rel=1e-12)
    exact = np.outer(np.arange(1, 41), [1, 10])
    assert np.abs(values - exact).max() < 8 * deviations.max()
    again = endless_stream(guarantee, series=2)
    again.resume(json.loads(json.dumps(stream.save())))
    assert np.abs(np.array(again.step([1, 10]).value) - [41, 410]).max() < 8 * deviations.max()
