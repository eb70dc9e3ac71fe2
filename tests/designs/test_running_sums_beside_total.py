"""Running sums whose total is public: designs as streams, their files, and attacks on both."""

import json

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, choose, factorize
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import StreamStrategy, renamed
from pmldesign.verifier import KEY, digest_of, read_archive
from pmldesign.workloads import RECORDS, RunningWorkload, as_workload, given_invariants


@pytest.fixture(scope="module")
def best():
    return factorize("prefix:120", neighbours="replace", buffers=5)


@pytest.fixture(scope="module")
def noisy(best):
    guarantee = pml.ApproxDP(1, 1e-6, "replace")
    return pml.mechanism(best, guarantee=guarantee, noise="gaussian")


@pytest.mark.parametrize(
    ("workload", "asked", "name"),
    [
        ("prefix:601", {}, "running sums and all ranges"),
        ("prefix:600", {}, "one matrix"),
        ("prefix:8", {"buffers": 2}, "running sums and all ranges"),
        ("decay:700,0.9", {}, "one matrix"),
        ("prefix:601", {"method": "primal"}, "one matrix"),
    ],
)
def test_routes(workload, asked, name):
    options = DesignOptions(neighbours="replace", **asked)
    assert choose(as_workload(workload), options).name == name


def test_buffers_are_refused_where_there_are_none():
    for workload in ("prefix:7", "decay:20,0.5"):
        with pytest.raises(InvalidInputError, match="more than 7 steps in which nothing fades"):
            factorize(workload, neighbours="replace", buffers=2)


def test_the_design_is_what_its_matrix_says(best, noisy):
    strategy = best.strategy
    assert isinstance(strategy, StreamStrategy)
    assert strategy.buffers == 5
    R, A = strategy.matrix, np.tril(np.ones((120, 120)))
    gram = R.T @ R
    apart = np.sqrt((np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram).clip(0))
    assert apart.max() == pytest.approx(1, abs=1e-9)
    # the error of least squares on x - x_mean, from R without its total
    centre = np.eye(120) - 1 / 120
    errors = A @ centre @ np.linalg.pinv(R @ centre, rcond=1e-11)
    roots = np.linalg.norm(errors, axis=1)
    assert noisy.error() == pytest.approx(noisy.scale * np.linalg.norm(roots), rel=1e-6)
    assert best.certificate.upper == pytest.approx(np.linalg.norm(roots), rel=1e-6)
    np.testing.assert_allclose(
        strategy.beside(RECORDS).variances(given_invariants(best.workload, RECORDS)),
        roots**2,
        atol=1e-8,
    )


def test_weighted_queries_beside_the_total():
    rng = np.random.default_rng(5)
    n = 600  # beyond the cells up to which the strategy is written out beside the total
    workload = RunningWorkload(np.ones(n - 1), rng.uniform(1, 3, n))
    sums = workload.running_sums
    nodes = factorize("prefix:120", buffers=4, rel_gap=1).strategy.nodes
    strategy = StreamStrategy("s", sums, rng.uniform(1, 3, n), rng.uniform(1, 3, n), nodes)
    beside = strategy.beside(RECORDS)
    R = strategy.matrix - strategy.matrix.mean(axis=1, keepdims=True)
    errors = workload.to_dense() @ np.linalg.pinv(R, rcond=1e-11)
    expected = (errors**2).sum(axis=1)
    found = beside.variances(given_invariants(workload, RECORDS))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * expected.max())
    norm = beside.variance_norm(given_invariants(workload, RECORDS), 2)
    assert norm == pytest.approx(np.linalg.norm(expected), rel=1e-6)


@pytest.mark.parametrize("cells", [10, 2048])
def test_files_hold(tmp_path, monkeypatch, best, noisy, cells):
    """By all pairs of steps, and by the longest column."""
    monkeypatch.setattr("pmldesign.verifier.streams.running_sums.MOST_CELLS", cells)
    path = tmp_path / "sums.npz"
    pml.write(path, best, mechanism=noisy)
    result = pml.verify(path)
    if cells == 2048:
        assert result.holds, result.failures
        assert not result.unchecked
    claims = {check.name: check for check in result.checks}
    assert claims["lower"].computed == pytest.approx(claims["lower"].claimed, rel=1e-6)
    assert claims["error"].verdict == "holds"
    longest = best.strategy.sensitivity if cells == 10 else 1
    assert claims["sensitivity"].computed == pytest.approx(
        2**0.5 * longest if cells == 10 else 1, rel=1e-8
    )
    again = pml.read(path)
    np.testing.assert_array_equal(again.w, best.strategy.w)


def test_pml_of_many_steps_is_on_the_safe_side(tmp_path, monkeypatch, best):
    guarantee = pml.ApproxPML(1, 1e-4, 1e-3)
    exact = pml.mechanism(best, guarantee=guarantee, noise="gaussian").scale
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 10)
    monkeypatch.setattr("pmldesign.strategies.structured.LEAST_BESIDE", 10)
    strategy = renamed(best.strategy, "many steps")
    bound = pml.mechanism(strategy, best.workload, guarantee=guarantee, noise="gaussian")
    assert exact <= bound.scale <= 1.1 * exact
    profile = strategy.distance_profile("l2")
    distances = np.linalg.norm(strategy.matrix[:, :, None] - strategy.matrix[:, None, :], axis=0)
    assert profile.columns == 120
    assert profile.distances.min() >= distances.max() * (1 - 1e-12)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 10)
    path = tmp_path / "sums.npz"
    pml.write(path, best, mechanism=bound)
    found = {check.name: check.verdict for check in pml.verify(path).checks}
    assert found["guarantee"] == found["achieved"] == "holds"


def _less_distance(header, arrays):
    arrays["weights_of_poles"] = 1.01 * arrays["weights_of_poles"]


def _more_lower(header, arrays):
    header["lower"] *= 1.001


def _less_upper(header, arrays):
    header["upper"] *= 0.999


def _even_starts(header, arrays):
    arrays["dual_w"][0] = 1.0


def _negative_ends(header, arrays):
    arrays["dual_w"][1, 3] *= -1.0


def _one_weight(header, arrays):
    arrays["w"][60] *= 1.2


@pytest.mark.parametrize(
    "alter", [_less_distance, _more_lower, _less_upper, _even_starts, _negative_ends, _one_weight]
)
def test_altered_files_do_not(tmp_path, best, noisy, alter):
    path = tmp_path / "sums.npz"
    pml.write(path, best, mechanism=noisy)
    header, arrays = read_archive(path)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    alter(header, arrays)
    header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    assert not pml.verify(path).holds
