"""Noise is drawn for one process: forks, copies, pools and threads never answer with it again."""

import copy
import gc
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from recorded import Recorded

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import ZCDP, Noise
from pmldesign.releases import draw
from pmldesign.strategies import Strategy
from pmldesign.streams import (
    Designed,
    DiscreteGaussian,
    FloatingGaussian,
    Journal,
    Stream,
    Sums,
    VectorStream,
    endless_stream,
    question_of,
    require_resumable,
)
from pmldesign.workloads import RunningWorkload, as_workload

N = 30


@pytest.fixture(scope="module")
def strategy():
    return factorize(f"decay:{N},0.9", buffers=4, rel_gap=1e-1).strategy


def exact(strategy, _folder):
    return Stream(Designed(strategy), 1.0, DiscreteGaussian())


def fast(strategy, _folder):
    return Stream(Designed(strategy), 1.0, FloatingGaussian())


def banded(_strategy, _folder):
    matrix = np.eye(N) + 0.5 * np.eye(N, k=-1)
    matrix /= np.linalg.norm(matrix, axis=0).max()
    return Stream(
        Designed(Strategy("band", matrix), as_workload(f"prefix:{N}")), 1.0, FloatingGaussian()
    )


def endless(_strategy, _folder):
    return endless_stream(ZCDP(0.5), noise=FloatingGaussian())


def vectors(strategy, _folder):
    return VectorStream(strategy, 1.0, 1)


def kept(strategy, folder):
    return Journal(Stream(Designed(strategy), 1.0, DiscreteGaussian()), folder / "state")


def kept_fast(strategy, folder):
    return Journal(Stream(Designed(strategy), 1.0, FloatingGaussian()), folder / "state")


MADE = [exact, fast, banded, endless, vectors, kept, kept_fast]


@pytest.fixture(params=MADE)
def taken(request, strategy, tmp_path):
    """A stream of each kind that has answered a step, so that noise is drawn ahead."""
    if request.param in (exact, kept):
        pytest.importorskip("opendp")
    stream = request.param(strategy, tmp_path)
    stream.step(1.0 if not isinstance(stream, VectorStream) else [1.0])
    return stream


def value_of(stream, x):
    """The answer to x, as one number."""
    if isinstance(stream, VectorStream):
        return float(stream.step([x])[0][0])
    return stream.step(x).value


def in_a_child(work):
    """What a forked process makes of some work, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as handle:
        said = handle.read().decode()
    os.waitpid(child, 0)
    return said


def test_a_forked_process_takes_no_step(taken):
    said = in_a_child(lambda: value_of(taken, 5.0))
    assert "was made in another process" in said
    assert type(taken).__name__ in said
    value_of(taken, 2.0)  # the parent goes on


def test_a_child_of_a_child_takes_no_step(taken):
    assert "another process" in in_a_child(lambda: in_a_child(lambda: value_of(taken, 5.0)))


def test_blocks_states_and_generators_are_refused_in_a_child(strategy):
    stream, noise = fast(strategy, None), FloatingGaussian()
    for work in (
        lambda: stream.steps([1.0, 2.0]),
        stream.save,
        lambda: stream.resume({}),
        lambda: noise.draw(1.0, 3),
        lambda: Stream(Designed(strategy), 1.0, noise).step(1.0),
    ):
        assert "was made in another process" in in_a_child(work)


def test_a_stream_that_is_made_in_a_child_is_its_own(strategy):
    pytest.importorskip("opendp")
    exact(strategy, None).step(1.0)  # the library is loaded and has drawn before the fork
    said = {in_a_child(lambda: exact(strategy, None).step(1.0).value) for _ in range(6)}
    assert len({float(value) for value in said}) == 6


def test_a_number_of_a_process_that_comes_again_is_another_process(taken, monkeypatch):
    here = os.getpid()

    def work():
        monkeypatch.setattr(os, "getpid", lambda: here)
        return value_of(taken, 1.0)

    assert "another process" in in_a_child(work)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_by_name(taken, copied):
    with pytest.raises(InvalidInputError, match=f"a {type(taken).__name__} cannot be copied"):
        copied(taken)
    with pytest.raises(InvalidInputError, match="a FloatingGaussian cannot be copied"):
        copied(FloatingGaussian(3))


_inherited = []


def _step_of_the_inherited(x):
    try:
        return value_of(_inherited[0], x)
    except InvalidInputError as error:
        return str(error)


def test_pools_of_forked_processes_take_no_step(taken):
    _inherited[:] = [taken]
    gc.collect()
    try:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            said = pool.map(_step_of_the_inherited, [1.0, 2.0, 3.0, 4.0], chunksize=1)
    finally:
        _inherited.clear()
    assert all("was made in another process" in str(answer) for answer in said)
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(InvalidInputError):
        pool.apply(value_of, (taken, 1.0))  # goes there as a pickle


class Numbered:
    """Noise that tells which of its numbers were handed out, slowly enough for a race."""

    publishable = False

    def __init__(self):
        self.given = 0

    def draw(self, scale, count):
        first, self.given = self.given, self.given + 3
        threading.Event().wait(0.001)
        return [(first + k) << 50 for k in range(3)]


def test_threads_share_a_stream_without_sharing_noise(strategy, monkeypatch):
    """Every number of noise is in one answer, and every input counts once."""
    noise = Numbered()
    stream = Stream(Designed(strategy), 1.0, noise)
    ys = []
    monkeypatch.setattr(stream._decoders[0], "take", ys.append)
    monkeypatch.setattr(stream._sums, "take", lambda _x: (0.0, 0.0))
    threads = [
        threading.Thread(target=lambda: [stream.step(0) for _ in range(5)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stream.time == N
    numbers = sorted(round(y / stream._unit) >> 50 for y in ys)
    assert numbers == list(range(N))


def test_a_draw_that_fails_leaves_no_input_behind(strategy):
    """A retry after a failed draw counts its input once, in steps and in blocks."""
    once = Stream(Designed(strategy), 1.0, Recorded([0] * N))
    expected = [once.step(x).value for x in (1.0, 2.0, 3.0, 4.0)]
    stream = Stream(Designed(strategy), 1.0, Failing([1, 1, 2]))
    found = []
    for attempt in (
        lambda: [stream.step(1.0).value],
        lambda: [stream.step(2.0).value],
        lambda: stream.steps([3.0, 4.0])[0],
    ):
        with pytest.raises(OSError, match="no noise"):
            attempt()
        found.extend(attempt())
    assert found == pytest.approx(expected, rel=1e-12)


class Failing:
    """Noise of zeros, so many at a time; every other draw fails."""

    publishable = False

    def __init__(self, counts):
        self.fails, self.counts = False, list(counts)

    def draw(self, scale, count):
        self.fails = not self.fails
        if self.fails:
            raise OSError("no noise")
        return [0] * self.counts.pop(0)


@pytest.mark.parametrize("kind", [Stream, VectorStream])
def test_a_step_that_broke_off_is_the_last(strategy, monkeypatch, kind):
    plain = kind is Stream
    stream = (
        Stream(Designed(strategy), 1.0, FloatingGaussian())
        if plain
        else VectorStream(strategy, 1.0, 1)
    )
    x = 1.0 if plain else [1.0]

    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sums, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.step(x)
    monkeypatch.undo()
    for again in (lambda: stream.step(x), stream.save):
        with pytest.raises(InvalidInputError, match=f"a step of this {kind.__name__} broke off"):
            again()


def test_refused_inputs_are_no_steps_that_broke_off(strategy):
    stream, vector = fast(strategy, None), vectors(strategy, None)
    for wrong in (float("nan"), 1e300):
        with pytest.raises(InvalidInputError, match="input of a stream"):
            stream.step(wrong)
    with pytest.raises(InvalidInputError, match="a step takes 1 finite numbers"):
        vector.step([np.nan])
    stream.step(1.0)
    vector.step([1.0])


def test_vectors_that_are_saved_go_on_with_new_noise(strategy, tmp_path):
    """The variance after a resume is that of one stream, whenever the state was saved."""
    width = 20_000
    for before in ([3], [3, 14], [17]):
        stream = VectorStream(strategy, 1.0, width)
        for count in before:
            stream.steps(np.ones((count, width)))
        np.savez(tmp_path / "saved.npz", **stream.save())
        again = VectorStream(strategy, 1.0, width)
        with np.load(tmp_path / "saved.npz") as saved:
            again.resume(saved)
        time = sum(before)
        sums, deviations = again.steps(np.ones((N - time, width)))
        exact_sums = (1 - 0.9 ** np.arange(1, N + 1)) / 0.1
        errors = sums - exact_sums[time:, None]
        assert errors.std(axis=1) == pytest.approx(deviations, rel=6 / np.sqrt(2 * width))
        other, _ = stream.steps(np.ones((N - time, width)))
        assert not np.isclose(other, sums, atol=1e-6).any(axis=0).sum() > width / 100


def test_a_state_goes_on_in_a_new_stream_of_the_same_guarantee_alone(strategy):
    first = fast(strategy, None)
    first.steps([1.0, 2.0])
    saved = first.save()
    other = factorize(f"decay:{N},0.8", buffers=4, rel_gap=1e-1).strategy
    for stream in (
        Stream(Designed(strategy), 1.0 + 1e-6, FloatingGaussian()),
        Stream(Designed(other), 1.0, FloatingGaussian()),
        Stream(Designed(strategy, as_workload(f"prefix:{N}")), 1.0, FloatingGaussian()),
        VectorStream(strategy, 1.0, 2),
    ):
        with pytest.raises(InvalidInputError, match="another strategy, workload or guarantee"):
            stream.resume(saved)
    with pytest.raises(InvalidInputError, match="only a new one goes on"):
        first.resume(saved)
    with pytest.raises(InvalidInputError, match="takes no seed"):
        Stream(Designed(strategy), 1.0, FloatingGaussian(7)).resume(saved)
    with pytest.raises(InvalidInputError, match="takes no seed"):
        VectorStream(strategy, 1.0, 1, seed=7).resume(saved)
    with pytest.raises(InvalidInputError, match="no saved state, or one of an earlier version"):
        fast(strategy, None).resume({"time": 2, "encoder": [], "decoder": [], "sum": "0x0.0p+0"})
    fast(strategy, None).resume(saved)


@pytest.mark.parametrize("kind", [fast, endless, vectors])
def test_damaged_states_are_refused_by_name_and_go_no_further(strategy, kind):
    first = kind(strategy, None)
    value_of(first, 1.0)
    saved = first.save()
    damaged = []
    for key in saved:
        damaged.append({other: saved[other] for other in saved if other != key})
    for key in {"identity", "answers", "time", "encoder", "decoder", "kept"} & {*saved}:
        cut = saved[key][:-1] if np.ndim(saved[key]) else -1
        damaged += [{**saved, key: value} for value in (None, "zz", cut)]
    for state in damaged:
        stream = kind(strategy, None)
        with pytest.raises(InvalidInputError, match=r"no saved state|state belongs to|used once"):
            stream.resume(state)
        if stream.time:
            with pytest.raises(InvalidInputError, match="broke off"):
                value_of(stream, 1.0)
    kind(strategy, None).resume(first.save())


def test_the_sampler_of_releases_draws_anew_in_every_process():
    pytest.importorskip("opendp")
    draw(Noise.GAUSSIAN, 1e15, 3)
    drawn = {in_a_child(lambda: draw(Noise.GAUSSIAN, 1e15, 1).tolist()) for _ in range(6)}
    assert len(drawn) == 6


def test_a_state_knows_every_entry_of_its_strategy_and_queries():
    """Strategies of which all answers have the same variances, and weights of any one query."""
    answers, swapped = np.eye(3) + np.tril(np.full((3, 3), 0.2), -1), np.eye(3)
    answers[2, :2] = 0.5, 0.1
    swapped[1:, 0], swapped[2, 1] = 0.2, 0.5
    swapped[2, 0] = 0.1
    sums = np.tril(np.ones((3, 3)))
    first, other = (
        Sums(question_of(Strategy("C", np.linalg.solve(L, sums)), as_workload("prefix:3")), 1.0)
        for L in (answers, swapped)
    )
    with pytest.raises(InvalidInputError, match="another strategy, workload or guarantee"):
        require_resumable({"identity": first.identity, "time": 1}, other.identity, 0, seeded=False)
    weights = np.ones((2, 100))
    weights[1, 7] = 2.0
    first, other = (
        Sums(question_of(Strategy("I", np.eye(100)), RunningWorkload(np.ones(99), u)), 1.0)
        for u in weights
    )
    state = {"identity": first.identity, "time": 1}
    assert require_resumable(state, first.identity, 0, seeded=False) == 1
    with pytest.raises(InvalidInputError, match="another strategy, workload or guarantee"):
        require_resumable(state, other.identity, 0, seeded=False)
