"""Known answers: privacy and answers against all small databases with the same ones."""

import json
import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.norm import solve_norm
from pmldesign_solvers.operators import DenseOperator

RECORDS = 3
NAME = "histogram:2*total:3"
GROUPS = [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [0, 0, 0, 0, 1]]


def databases(cells):
    """All histograms of RECORDS records."""
    chosen = combinations_with_replacement(range(cells), RECORDS)
    return [np.bincount(records, minlength=cells) for records in chosen]


def neighbours(known):
    """Pairs of databases with the same known answers that differ in one record."""
    every = databases(known.shape[1])
    for x in every:
        for y in every:
            if np.abs(x - y).sum() == 2 and np.allclose(known @ x, known @ y):
                yield x, y


def known_queries(groups, rng):
    """Queries that tell exactly these groups apart, and nothing else."""
    count = max(groups) + 1
    return (rng.standard_normal((count, count)) + 2 * np.eye(count))[:, groups]


@pytest.mark.sweep
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_loss_on_all_small_databases_is_what_the_guarantee_says(groups, noise):
    rng = np.random.default_rng(len(groups) + groups[1])
    known, queries = known_queries(groups, rng), rng.integers(-2, 3, (6, 5))
    guarantee = pml.ApproxDP(1, 1e-6)
    noisy = pml.optimize(queries, guarantee=guarantee, noise=noise, known=known).best
    order = 2 if noise == "gaussian" else 1
    measured = noisy.strategy.matrix
    losses = [np.linalg.norm(measured @ (x - y), order) for x, y in neighbours(known)]
    shift = max(losses) / noisy.scale
    if noise == "laplace":
        assert shift == pytest.approx(1, rel=1e-12)
        assert shift <= 1 + 1e-14
    else:  # the profile of two Gaussians
        delta = norm.cdf(shift / 2 - 1 / shift) - math.e * norm.cdf(-shift / 2 - 1 / shift)
        assert 0.999e-6 < delta <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("groups", GROUPS)
def test_what_is_not_measured_is_a_function_of_the_known_answers(groups):
    rng = np.random.default_rng(3)
    known, queries = known_queries(groups, rng), rng.standard_normal((4, 5))
    noisy = pml.optimize(
        queries, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian", known=known
    ).best
    left = queries - noisy.reconstruction() @ noisy.strategy.matrix
    for x in databases(5):
        for y in databases(5):
            if np.allclose(known @ x, known @ y):
                assert left @ x == pytest.approx(left @ y, abs=1e-12)


def test_databases_with_the_same_two_margins_differ_by_no_single_record():
    margins = np.vstack([np.kron(np.eye(2), np.ones(2)), np.kron(np.ones(2), np.eye(2))])
    assert not list(neighbours(margins))
    with pytest.raises(InvalidInputError, match="tell all cells apart"):
        pml.optimize("histogram:4", guarantee=pml.PureDP(1), known=margins)
    with pytest.raises(InvalidInputError, match="do not tell how many records"):
        pml.optimize(np.eye(8), guarantee=pml.PureDP(1), known=np.kron(margins, [1, 1]))


@pytest.mark.parametrize("p", [2, 4, math.inf])
def test_the_norm_of_a_product_is_a_product_of_norms(p):
    first, second = np.tril(np.ones((3, 3))), np.array([[1, 0, 0, 2], [1, 1, 0, 0], [0, 1, 3, 1.0]])
    design = pml.factorize(np.kron(first, second), p=p, known="histogram:3*total:4")
    added = pml.factorize(first, p=p).certificate
    replaced = pml.factorize(second, p=p, neighbours="replace").certificate
    assert design.certificate.gap <= 1e-6
    assert design.certificate.lower <= added.upper * replaced.upper * (1 + 1e-12)
    assert design.certificate.upper >= added.lower * replaced.lower * (1 - 1e-12)


@pytest.mark.parametrize(("p", "power"), [(2, 2), (4, 4), (math.inf, math.inf)])
def test_queries_within_groups_are_solved_group_by_group(p, power):
    rng = np.random.default_rng(1)
    blocks = [rng.standard_normal((4, 3)), rng.standard_normal((3, 5))]
    both = np.block([[blocks[0], np.zeros((4, 5))], [np.zeros((3, 3)), blocks[1]]])
    groups = np.repeat([0, 1], [3, 5])
    solution = solve_norm(DenseOperator(both), p, relation="replace", groups=groups)
    single = [pml.factorize(block, p=p, neighbours="replace").certificate for block in blocks]
    lower = np.linalg.norm([part.lower for part in single], power)
    upper = np.linalg.norm([part.upper for part in single], power)
    assert solution.certificate.lower <= upper * (1 + 1e-12)
    assert solution.certificate.upper >= lower * (1 - 1e-12)
    assert solution.certificate.gap <= 1e-6


def test_a_known_total_is_replace():
    guarantee = pml.ApproxDP(1, 1e-6)
    total = pml.optimize("prefix:8", guarantee=guarantee, noise="gaussian", known="total").best
    replaced = pml.optimize(
        "prefix:8", guarantee=pml.ApproxDP(1, 1e-6, "replace"), noise="gaussian"
    ).best
    assert total.guarantee == replaced.guarantee
    assert total.rmse == replaced.rmse
    again = pml.optimize(
        "prefix:8", guarantee=guarantee, noise="gaussian", known=np.ones((2, 8))
    ).best
    assert again.guarantee == replaced.guarantee


def test_knowing_more_never_costs_more():
    errors = [
        pml.optimize(
            "prefix:8", guarantee=pml.ZCDP(0.1), noise="gaussian", known=np.kron(np.eye(g), [1] * c)
        ).best.rmse
        for g, c in ((1, 8), (2, 4), (4, 2))
    ]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize(
    "guarantee", [pml.PureDP(1), pml.ZCDP(0.5), pml.GaussianDP(1), pml.RenyiDP(8, 0.5)]
)
def test_the_guarantee_says_what_is_not_protected(guarantee):
    promise = pml.mechanism(
        "identity", "histogram:6", guarantee=guarantee, noise="laplace", known=NAME
    ).guarantee
    assert promise.neighbours == "replace"
    assert f"the answers to '{NAME}' are public" in promise.describe(6)
    assert "not protected" in promise.describe(6)
    assert NAME in repr(promise)
    assert promise.to_json()["known"] == NAME
    assert "known" not in guarantee.to_json()


def test_known_answers_of_strategy_and_guarantee_agree():
    design = pml.factorize("prefix:6", known=NAME)
    with pytest.raises(InvalidInputError, match="same known answers"):
        pml.calibrate(design, pml.PureDP(1, "replace"), noise="laplace")
    with pytest.raises(InvalidInputError, match="same known answers"):
        pml.calibrate("prefix:6", pml.PureDP(1, "replace", NAME), noise="laplace")
    with pytest.raises(InvalidInputError, match="use `neighbours='replace'`"):
        pml.PureDP(1, known=NAME)
    with pytest.raises(InvalidInputError, match="differential privacy"):
        pml.optimize("prefix:6", guarantee=pml.PML(1, 0.01), known=NAME)
    with pytest.raises(InvalidInputError, match="was made for the known answers"):
        pml.mechanism(design, guarantee=pml.PureDP(1), known="histogram:3*total:2")


def test_least_budget_beside_known_answers():
    budget = pml.least_budget(
        "prefix:6", pml.ApproxDP(1, 1e-6), targets=3, known=NAME, noise="gaussian"
    )
    noisy = budget.mechanism
    assert noisy.standard_deviations.max() <= 3
    assert budget.at_least <= budget.enough <= budget.at_least * (1 + 1e-5)
    again = pml.optimize("prefix:6", guarantee=noisy.guarantee, p=math.inf, known=NAME).best
    assert again.max_std <= 3 * (1 + 1e-5)


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="pmldesign")
    assert result.exit_code == 0, result.output
    return result


def test_commands_and_files(tmp_path):
    path = tmp_path / "known.npz"
    words = ("prefix:6", "--known", NAME, "--epsilon", 1, "--delta", 1e-6)
    result = run("optimize", *words, "--noise", "gaussian", "-o", path)
    assert "warning" in result.stderr
    assert "not protected" in result.stdout
    verified = json.loads(run("verify", path, "--json").stdout)
    assert all(check["verdict"] == "holds" for check in verified["checks"])
    design = json.loads(run("optimize", *words, "--noise", "gaussian", "--json").stdout)
    calibrated = json.loads(
        run(
            "calibrate", path, *words[1:], "--noise", "gaussian", "--workload", "prefix:6", "--json"
        ).stdout
    )
    assert calibrated["rmse"] == pytest.approx(design["strategies"][0]["rmse"], rel=1e-6)
    compared = json.loads(run("compare", *words, "--json").stdout)
    assert compared["guarantee_numbers"]["known"] == NAME
    listed = json.loads(run("bounds", *words, "--json").stdout)
    lower = [bound["value"] for bound in listed if bound["kind"] == "lower" and bound["holds"]]
    assert 0 < max(lower) <= design["strategies"][0]["error"] * (1 + 1e-9)
    refused = CliRunner().invoke(main, ["optimize", *map(str, words), "--neighbours", "add-remove"])
    assert refused.exit_code == 2
    assert "leave --neighbours out" in refused.output


def test_a_file_with_altered_groups_is_refuted(tmp_path):
    path = tmp_path / "known.npz"
    pml.write(
        path, pml.optimize("prefix:6", guarantee=pml.PureDP(1), noise="laplace", known=NAME).best
    )
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["groups"] = np.array([0, 0, 0, 0, 1, 1])
    np.savez(path, **arrays)
    verification = pml.verify(path)
    assert verification.failures
