"""Designs for cube noise: closed forms, gradients, where they are chosen, and their files."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import pmldesign as pml
from pmldesign.designs import baselines, is_small, optimize
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_guarantee, read_noise, verify_file, write_strategy
from pmldesign.privacy import Noise
from pmldesign.workloads import as_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.operators import Work
from pmldesign_solvers.search import CubeProblem, cubes, log_moments, rank_of, unit_error


@pytest.mark.parametrize(
    ("name", "error"), [("parity:6,1", 10.584), ("marginals:2^6,ways=1", 12.001)]
)
def test_few_binary_questions(name, error):
    """Signs of all six questions: c_r of 6 or 7 measurements, (r + 1)(r + 2)/3."""
    best = pml.optimize(name, guarantee=pml.PureDP(1), effort="quick").best
    assert best.noise is Noise.CUBE
    assert best.error() <= error
    assert best.sensitivity <= 1 + 1e-12


@pytest.mark.parametrize("seed", [0, 1])
def test_random_questions_of_yes_and_no(seed):
    A = np.random.default_rng(seed).integers(0, 2, (6, 60)).astype(float)

    def enough(step):
        if step.number == 2 + 2 * seed:
            raise KeyboardInterrupt

    solution = cubes.solve(A, 2.0, replace=False, callback=enough)
    assert solution.error < 10.25
    # its own error, from the definition
    R = solution.strategy
    L = A @ np.linalg.pinv(R, 1e-11)
    assert np.allclose(L @ R, A, atol=1e-9)
    assert np.abs(R).max() == pytest.approx(1)
    assert math.sqrt(7 * 8 / 3) * np.linalg.norm(L) == pytest.approx(solution.error, rel=1e-9)


@pytest.mark.parametrize("rows", [4, 5])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_gradient_by_differences(replace, p, rows):
    generator = np.random.default_rng(6)
    problem = CubeProblem.of(generator.standard_normal((4, 7)), p, replace=replace)
    x = generator.standard_normal(rows * (problem.rank + replace))
    value, gradient = problem.log_error(x, 8)
    expected = approx_fprime(x, lambda y: problem.log_error(y, 8)[0], 1e-7)
    assert gradient == pytest.approx(expected, abs=1e-4 * np.abs(expected).max())
    assert math.isfinite(value)


@pytest.mark.parametrize("p", [4, 10, 64])
@pytest.mark.parametrize("k", [1, 5, 17])
def test_moments_are_those_of_the_series(k, p):
    """log_moments takes Cauchy's integral, unit_error a product of power series."""
    generator = np.random.default_rng(k)
    rows = generator.standard_normal((4, k)) * 10.0 ** generator.uniform(-6, 6, (4, k))
    logs, slopes = log_moments(rows, p)
    radial = math.lgamma(k + 1 + p) - math.lgamma(k + 1) + math.lgamma(p + 1)
    expected = [p * math.log(unit_error(row[None], p)) - radial for row in rows]
    assert logs == pytest.approx(expected, abs=1e-9)
    assert (slopes * rows).sum(axis=1) == pytest.approx(p)  # Euler: homogeneous of degree p


@pytest.mark.parametrize("p", [4.0, 10.0])
@pytest.mark.parametrize(("seed", "replace"), [(0, False), (3, False), (1, True)])
def test_no_worse_than_the_design_for_variances(seed, replace, p):
    """Norms of the rows of L in place of their moments, without that start, lost 3 % of seed 0."""
    A = np.random.default_rng(seed).integers(-2, 3, (3, 4)).astype(float)
    A -= A.mean(axis=1, keepdims=True) * replace
    found, plain = (cubes.solve(A, q, replace=replace) for q in (p, 2.0))
    R = plain.strategy
    largest = (np.ptp(R, axis=1) if replace else np.abs(R)).max()
    least = largest * unit_error(A @ np.linalg.pinv(R, 1e-11), p)
    assert found.error <= least * (1 + 1e-9)


@pytest.mark.parametrize("p", [2.0, 4.0])
def test_ctrl_c_during_either_search_keeps_the_best_so_far(p, monkeypatch):
    """A design at p = 4 begins with a search at p = 2."""
    descended, followed = cubes._descended, []

    def interrupt(problem, *arguments):
        followed.append(problem.p)
        if followed.count(p) == 3:
            raise KeyboardInterrupt
        return descended(problem, *arguments)

    monkeypatch.setattr(cubes, "_descended", interrupt)
    A = np.random.default_rng(0).integers(-2, 3, (3, 4)).astype(float)
    found = cubes.solve(A, 4.0, replace=False)
    assert found.status is Status.INTERRUPTED
    assert followed[-1] == p
    assert found.error <= min(start.before for start in found.starts) * (1 + 1e-12)


@pytest.mark.parametrize("replace", [False, True])
def test_never_worse_than_a_start(replace):
    generator = np.random.default_rng(9)
    A = generator.standard_normal((5, 12))
    if replace:
        A -= A.mean(axis=1, keepdims=True)
    spread = np.ptp(A, axis=1).max() if replace else np.abs(A).max()
    plain = math.sqrt(6 * 7 / 3) * math.sqrt(5) * spread
    solution = cubes.solve(A, 2.0, replace=replace, starts=[A], work=Work(2e9))
    assert solution.error <= plain * (1 + 1e-9)
    assert all(start.after <= start.before * (1 + 1e-12) for start in solution.starts)


HEXAGON = math.sqrt(20 / 3 * 2)
"""Three cells whose number is public, each measured: c_3^2 = 20/3, and norm(L)_F^2 = 2."""
SIGNS = math.sqrt(10 * 3 / 4)
"""Three cells by four measurements of signs, R^T R = 4: c_4^2 = 10, and norm(L)_F^2 = 3/4."""


@pytest.mark.parametrize(("replace", "least"), [(True, HEXAGON), (False, SIGNS)])
def test_one_measurement_more_than_the_rank(replace, least):
    """As many measurements as the rank have 3.7436 and 2.8883 at least."""
    A = np.eye(3) - replace / 3
    solution = cubes.solve(A, 2.0, replace=replace)
    assert solution.error <= least * (1 + 1e-9)
    R = solution.strategy
    L, k = A @ np.linalg.pinv(R, 1e-11), len(R)
    assert np.allclose(L @ R, A, atol=1e-9)
    assert (np.ptp(R, axis=1) if replace else np.abs(R)).max() <= 1 + 1e-12
    assert math.sqrt((k + 1) * (k + 2) / 3) * np.linalg.norm(L) <= solution.error * (1 + 1e-9)


def test_at_a_large_exponent_no_worse_than_the_queries():
    """Sparse rows of L have smaller moments than their variances tell: 5 % here, at p = 10."""
    queries = "marginals:prefix3,prefix3,3,upto=1"
    guarantee = pml.PureDP(0.5, "replace")
    best = pml.optimize(queries, guarantee=guarantee, p=10, effort="quick").best
    plain = pml.mechanism("workload", queries, guarantee=guarantee, noise="cube", p=10)
    assert best.error(10) <= plain.error(10) * (1 + 1e-9)


@pytest.mark.parametrize("matrix", [np.ones((1, 5)), np.ones((4, 1)), np.eye(3)[:, [0, 0, 1]]])
def test_degenerate_workloads(matrix):
    result = optimize(matrix, pml.PureDP(1), noise="cube", effort="quick")
    found = result.searches[Noise.CUBE].mechanism
    rank = np.linalg.matrix_rank(matrix)
    assert found.strategy.shape[0] == rank == rank_of(matrix)
    L = found.reconstruction()
    assert np.allclose(L @ found.strategy.matrix, matrix, atol=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2.0, 10.0])
@pytest.mark.parametrize("scale", [2.0**996, 2.0**120, 2.0**-900])
def test_questions_of_any_size_are_designed_alike(scale, p):
    matrix = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    plain, scaled = (
        optimize(A, pml.PureDP(1), p=p, noise="cube", effort="quick").searches[Noise.CUBE]
        for A in (matrix, matrix * scale)
    )
    assert scaled.mechanism.error(p) == pytest.approx(plain.mechanism.error(p) * scale, rel=1e-6)


def test_many_questions_are_not_tried():
    assert not is_small(as_workload("prefix:32"))
    assert not is_small(as_workload("prefix:1024"))
    assert not is_small(as_workload(np.zeros((2, 3))))
    found = optimize("prefix:24", pml.PureDP(1), effort="quick")
    assert list(found.searches) == [Noise.LAPLACE]
    with pytest.raises(InvalidInputError, match="rank up to 16"):
        optimize("prefix:24", pml.PureDP(1), noise="cube")
    with pytest.raises(InvalidInputError, match="targets are for Gaussian and Laplace noise"):
        pml.least_budget("parity:4,1", pml.PureDP(1), targets=10, noise="cube")


@pytest.mark.sweep
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2, 4, math.inf])
def test_files_are_verified_and_altered_ones_fail(neighbours, p, tmp_path):
    guarantee = pml.PureDP(0.8, neighbours)
    found = optimize("parity:4,1", guarantee, p=p, noise="cube", effort="quick")
    noisy = found.searches[Noise.CUBE].mechanism
    path = tmp_path / "cube.npz"
    write_strategy(path, noisy)
    assert read_guarantee(path) == guarantee
    assert read_noise(path) == "cube"
    assert verify_file(path).holds
    for change in (
        {"scale": noisy.scale * 0.99},
        {"sensitivity": noisy.sensitivity * 0.99},
        {"noise": "laplace"},
        {"error": noisy.error(p) * 0.999},
        {"max_std": noisy.max_std * 0.999},
    ):
        alter(path, tmp_path / "altered.npz", change)
        assert not verify_file(tmp_path / "altered.npz").holds, change


def alter(source, target, change):
    """The file with other claims, and with the digest that belongs to them."""
    import json

    from pmldesign.verifier import KEY, digest_of

    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays.pop("header"))) | change
    header.pop(KEY)
    header[KEY] = digest_of(header, arrays)
    np.savez(target, header=np.array(json.dumps(header)), **arrays)


@pytest.mark.parametrize(("module", "name"), [(cubes, "_descended"), (baselines, "baseline")])
def test_ctrl_c_in_a_part_that_finds_nothing_better_ends_the_work(module, name, monkeypatch):
    """A comparison went on with its next design, as this one was not called interrupted."""

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    assert not optimize("histogram:6", pml.PureDP(1.0)).interrupted
    monkeypatch.setattr(module, name, interrupt)
    found = optimize("histogram:6", pml.PureDP(1.0))
    assert found.interrupted
    assert "cube-search" not in [row.strategy for row in found.candidates]
