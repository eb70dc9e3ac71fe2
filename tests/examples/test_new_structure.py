"""A structure from outside the package: four edits, and everything works with it."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.designs import ROUTES
from pmldesign.files import FORMS
from pmldesign.privacy import Neighbours
from pmldesign.releases import exact_noise
from pmldesign.verifier import FORMS as STATED
from pmldesign.verifier import KEY, digest_of, read_archive
from pmldesign.workloads import NAMES

DP = pml.ApproxDP(1.0, 1e-6)
CASES = [(24, 5), (24, 8), (7, 7), (6, 1), (1, 1)]


@pytest.fixture(scope="module")
def cyclic():
    folder = str(Path(__file__).parents[2] / "examples" / "new_structure")
    before, stated = [[*rows] for rows in (NAMES, FORMS, ROUTES)], dict(STATED)
    sys.path.insert(0, folder)
    try:
        import cyclic

        cyclic.register()
        yield cyclic
    finally:
        sys.path.remove(folder)
        for rows, kept in zip((NAMES, FORMS, ROUTES), before, strict=True):
            rows[:] = kept
        STATED.clear()
        STATED.update(stated)


def written_out(cells, width):
    """The windows, one by one."""
    rows = [np.arange(cells) - start for start in range(cells)]
    return np.array([(row % cells < width).astype(float) for row in rows])


@pytest.mark.parametrize(("cells", "width"), CASES)
def test_the_queries_are_windows(cyclic, cells, width):
    workload, A = pml.workload(f"cyclic:{cells},{width}"), written_out(cells, width)
    assert isinstance(workload, cyclic.CyclicWorkload)
    np.testing.assert_array_equal(workload.to_dense(), A)
    np.testing.assert_array_equal(workload.rmatvec(np.eye(cells)), A.T)


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
@pytest.mark.parametrize(("cells", "width"), CASES)
def test_the_design_is_as_good_as_that_of_the_matrix(cyclic, cells, width, p):
    made = pml.factorize(f"cyclic:{cells},{width}", p=p)
    assert isinstance(made.strategy, cyclic.CyclicStrategy)
    other = pml.factorize(written_out(cells, width), p=p).certificate
    assert made.certificate.lower <= other.upper
    assert other.lower <= made.certificate.upper
    assert made.certificate.gap < 1e-11
    R = pml.strategy(made.strategy.matrix)
    assert np.allclose(
        made.strategy.variances(made.workload), R.variances(made.workload), rtol=1e-8
    )
    for relation in Neighbours:
        for norm in ("l1", "l2"):
            exact = R.sensitivity_under(relation, norm)
            stated = made.strategy.sensitivity_under(relation, norm)
            assert exact * (1 - 1e-14) <= stated <= exact * (1 + 1e-12)
    x = np.random.default_rng(0).normal(size=(cells, 2))
    assert np.allclose(made.strategy.measure(x), R.measure(x))
    assert np.allclose(
        made.workload.matvec(made.strategy.estimate(R.measure(x))), made.workload.matvec(x)
    )


@pytest.mark.parametrize("neighbours", [*Neighbours])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_every_function_of_the_package_takes_it(cyclic, tmp_path, neighbours, noise):
    path, guarantee = tmp_path / "day.npz", pml.ApproxDP(1.0, 1e-6, neighbours)
    made = pml.factorize("cyclic:24,8")
    noisy = pml.mechanism(made, guarantee=guarantee, noise=noise)
    pml.write(path, noisy)
    again = pml.strategy(path)
    if neighbours is Neighbours.ADD_REMOVE:
        assert read_archive(path)[0]["form"] == "cyclic"
        assert isinstance(again, cyclic.CyclicStrategy)
    calibrated = pml.calibrate(again, guarantee, noise=noise)
    assert calibrated.scale == pytest.approx(noisy.scale, rel=1e-12)
    result = pml.verify(path)
    assert result.holds, result.failures
    x, lattice = np.arange(24), exact_noise(noisy)
    measured = lattice.measure(x, sampler=lambda _kind, _scale, count: np.zeros(count, dtype=int))
    answers = lattice.lattice.estimator.answer(noisy.workload, measured)
    assert np.allclose(answers, noisy.workload.matvec(x.astype(float)), rtol=1e-9)
    assert len(noisy.release(x).table.estimate) == 24


def test_verification_sees_what_is_forged(cyclic, tmp_path):
    path = tmp_path / "day.npz"
    made = pml.factorize("cyclic:24,5")
    pml.write(path, made, mechanism=pml.mechanism(made, guarantee=DP))
    header, arrays = read_archive(path)
    for kernel in (
        arrays["kernel"] * 1.001,
        np.roll(arrays["kernel"], 1) + 1e-3,
        arrays["kernel"][1:],
    ):
        forged = {**arrays, "kernel": kernel}
        changed = {**header, KEY: digest_of({k: v for k, v in header.items() if k != KEY}, forged)}
        np.savez(path, header=np.array(json.dumps(changed)), **forged)
        assert pml.verify(path).failures


def test_every_command_takes_it(cyclic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("day.npy", np.arange(24))

    def run(line):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "cyclic:N,W" in run("workload")
    said = run("optimize cyclic:24,8 --epsilon 1 --delta 1e-6 --noise gaussian -o day.npz --json")
    best = json.loads(said)
    s = np.abs(np.fft.fft(np.arange(24) < 8)).sum() / 24
    assert best["norm"]["lower"] <= s * math.sqrt(24) <= best["norm"]["upper"]
    line = "calibrate day.npz --workload cyclic:24,8 --epsilon 2 --delta 1e-6 --noise gaussian"
    noise = json.loads(run(line + " --json"))
    assert noise["sensitivity"] == pytest.approx(1.0, rel=1e-9)
    assert "those of a circulant matrix" in run("verify day.npz")
    run("release day.npz day.npy -o answers.csv")
    assert len(Path("answers.csv").read_text().splitlines()) == 25
