"""The noise of training: rows of C^-1 z, whatever C is kept as, for one process and once."""

import copy
import os
import pickle

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP
from pmldesign.strategies import Strategy
from pmldesign.streams import CountedNormal, lower_triangular

N = 120


def buffers(name):
    return factorize(name, buffers=4, rel_gap=1e-1).strategy


def scaled_bands(_name):
    rng = np.random.default_rng(1)
    return Strategy("bands", np.eye(N) + np.tril(np.triu(rng.uniform(0, 1, (N, N)), -4), -1))


FORMS = {
    "4 buffers": buffers,
    "1 pole": lambda name: factorize(name, participation="3,every=40", buffers=1).strategy,
    "7 bands": lambda _: "banded:7",
    "5 bands, all different": scaled_bands,
    "1 band": lambda _: "banded:1",
    "fixed epochs": lambda name: factorize(name, participation="3,every=40").strategy,
    "tree": lambda _: "tree",
}


@pytest.fixture(scope="module", params=[f"prefix:{N}", f"decay:{N},0.3"])
def name(request):
    return request.param


@pytest.fixture(scope="module", params=FORMS)
def noisy(request, name):
    return mechanism(
        FORMS[request.param](name), name, guarantee=ApproxDP(1, 1e-6), noise="gaussian"
    )


def drawn(seed, step, width, dtype):
    """The standard normal numbers of a step, by a generator of its own for each block."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    parts = []
    for block in range(-(-width // 2**16)):
        source = np.random.Philox(key=key, counter=[0, 0, block, step])
        count = min(2**16, width - block * 2**16)
        parts.append(np.random.Generator(source).standard_normal(count, dtype=dtype))
    return np.concatenate(parts)


def test_noise_is_a_function_of_the_key_the_step_and_the_block():
    """Blocks end at 2^16 numbers; steps may come in any order, and a block twice is the same."""
    for width in (1, 2**16, 2**16 + 1, 3 * 2**16 - 5):
        source, out = CountedNormal(3), np.empty(width, np.float32)
        for step in (0, 7, 3, 7):
            source.fill(step, out)
            assert (out == drawn(3, step, width, "float32")).all()
    out = [np.empty(2000) for _ in range(2)]
    for values in out:  # other keys
        CountedNormal(None).fill(0, values)
    assert not np.isclose(*out).all()
    blocks = np.array([drawn(3, step, 2**17, "float64") for step in range(8)]).reshape(16, -1)
    assert np.allclose(np.corrcoef(blocks), np.eye(16), atol=6 / 2**8)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-5), ("float64", 1e-13)])
def test_noise_is_the_inverse_of_the_strategy_on_standard_noise(noisy, dtype, rounding):
    """Of decays of 0.3 the products fall to 1e-60, far below single precision."""
    noise = noisy.training_noise(3, dtype, 5, clip=2.0)
    rows = np.array([noise.step() for _ in range(N)])
    assert rows.dtype == dtype
    standard = np.array([drawn(5, step, 3, dtype) for step in range(N)])
    matrix = lower_triangular(noisy.strategy).matrix
    scale = 2.0 * noisy.scale / noisy.sensitivity
    assert np.abs(matrix @ rows / scale - standard).max() <= rounding
    with pytest.raises(InvalidInputError, match=f"the stream has {N} steps, and all are taken"):
        noise.step()


def test_arrays_are_the_strategy(noisy):
    noise = noisy.training_noise(1)
    arrays = noise.arrays()
    steps = np.arange(N)
    if "bands" in arrays:
        bands, made = arrays["bands"], np.zeros((N, N))
        for lag in range(bands.shape[1]):
            made[steps[lag:], steps[lag:] - lag] = bands[lag:, lag]
        assert (bands[steps[:, None] < np.arange(bands.shape[1])] == 0).all()
    else:
        made = np.diag(arrays["diagonal"])
        for i in steps:
            fading = np.ones(arrays["gains"].shape[1])
            for j in range(i - 1, -1, -1):
                fading = fading * arrays["decays"][j + 1]
                made[i, j] = arrays["gains"][i] @ fading
    assert made == pytest.approx(lower_triangular(noisy.strategy).matrix, abs=1e-12)
    assert arrays["scale"] == pytest.approx(noisy.scale / noisy.sensitivity, rel=1e-12)


def test_sums_of_the_noise_have_the_variances_of_the_answers(noisy, name):
    width = 20_000
    noise, rate = noisy.training_noise(width), 0.3 if name.startswith("decay") else 1.0
    out, total = np.empty(width, np.float32), np.zeros(width)
    for deviation in noisy.standard_deviations:
        assert noise.step(out) is out
        total = rate * total + out
        assert total.std() == pytest.approx(deviation, rel=6 / np.sqrt(2 * width))


def made(dtype="float32", seed=None, *, width=4, bands=5):
    return mechanism(f"banded:{bands}", f"prefix:{N}").training_noise(width, dtype, seed)


@pytest.mark.parametrize("form", ["4 buffers", "7 bands"])
def test_a_checkpoint_goes_on_with_the_noise_before_it_and_new_noise(form, tmp_path):
    noisy = mechanism(FORMS[form](f"prefix:{N}"), f"prefix:{N}")
    matrix = lower_triangular(noisy.strategy).matrix
    noise = noisy.training_noise(5000)
    rows = [noise.step() for _ in range(50)]
    np.savez(tmp_path / "state.npz", **noise.save())
    again = noisy.training_noise(5000)
    with np.load(tmp_path / "state.npz") as state:
        again.resume(state)
    assert again.time == 50
    both = [
        matrix @ np.array(rows + [source.step() for _ in range(N - 50)])
        for source in (noise, again)
    ]
    for standard in both:  # independent rows of standard normal numbers
        assert np.allclose(standard @ standard.T / 5000, np.eye(N), atol=6 / np.sqrt(5000))
    apart = (both[0] - both[1]) / np.sqrt(2)
    assert np.abs(apart[:50]).max() < 1e-4
    assert apart[50:].std(axis=1) == pytest.approx(np.ones(N - 50), rel=6 / np.sqrt(10_000))


def test_a_state_is_used_once():
    noise = made()
    noise.step()
    state = noise.save()
    made().resume(state)
    with pytest.raises(InvalidInputError, match="a state is used once"):
        made().resume(state)
    made().resume(noise.save())


def test_states_of_other_noise_are_refused():
    noise = made()
    noise.step()
    for other in (made(width=5), made(bands=6), made("float64")):
        with pytest.raises(InvalidInputError, match="state belongs to"):
            other.resume(noise.save())
    with pytest.raises(InvalidInputError, match="only a new one goes on"):
        noise.resume(noise.save())
    with pytest.raises(InvalidInputError, match="takes no seed"):
        made(seed=3).resume(noise.save())
    with pytest.raises(InvalidInputError, match="no saved state"):
        made().resume({})


def test_generators_of_the_caller_make_no_noise():
    """One that was advanced by a few draws, or a copy, would repeat the noise of other steps."""
    for generator in (np.random.default_rng(5), np.random.Philox(5), np.random.PCG64(5)):
        with pytest.raises(InvalidInputError, match="seed must be a whole number"):
            made(seed=generator)


def test_no_noise_comes_again_after_any_number_of_checkpoints():
    """Steps that run again, from any checkpoint, have noise of their own."""
    noisy = mechanism("banded:1", f"prefix:{N}", guarantee=ApproxDP(1, 1e-6), noise="gaussian")
    states, rows = [], []
    noise = noisy.training_noise(50, "float64")
    for again in range(6):
        for _ in range(5):
            states.append(noise.save())
            rows.append(noise.step())
        noise = noisy.training_noise(50, "float64")
        noise.resume(states[2 * again + 1])  # before steps that were taken
    values = np.sort(np.concatenate(rows))
    assert np.diff(values).min() > 0
    assert np.abs(np.corrcoef(rows) - np.eye(30)).max() < 0.75


def test_noise_is_for_one_process_and_never_copied():
    noise = made()
    noise.step()
    for twin in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidInputError, match="cannot be copied or pickled"):
            twin(noise)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(noise.step())
        except BaseException as error:
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"made in another process" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    noise.step()


def test_a_step_that_broke_off_is_the_last(monkeypatch):
    noise = made()

    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(noise, "_rows", type("Rows", (), {"next": interrupted})())
    with pytest.raises(KeyboardInterrupt):
        noise.step()
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="a step of this CorrelatedNoise broke off"):
        noise.step()


def test_arguments_are_refused_in_a_line():
    noisy = mechanism("square-root", "prefix:8")
    for wrong, said in (
        ({"width": 0}, "width"),
        ({"width": 2, "dtype": "float16"}, "dtype must be float32 or float64, got float16"),
        ({"width": 2, "dtype": "int32"}, "dtype must be float32 or float64, got int32"),
        ({"width": 2, "clip": 0.0}, "clip"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            noisy.training_noise(**wrong)
    with pytest.raises(InvalidInputError, match="out must be of 2 values of float32"):
        noisy.training_noise(2).step(np.empty(2))
    with pytest.raises(InvalidInputError, match="needs Gaussian noise"):
        mechanism("tree", "prefix:8", noise="laplace").training_noise(2)


def test_long_banded_noise_takes_no_matrix():
    noise = mechanism("banded:8", "prefix:1000000").training_noise(2)
    assert np.isfinite(noise.step()).all()
    assert noise.memory == 7
