import numpy as np
import pytest
from certified import assert_certified

from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import ScalingProblem, solve_norm, warm_start
from pmldesign_solvers.operators import NEVER, DenseOperator, MergedWorkload


def problem(matrix, p):
    return ScalingProblem(MergedWorkload(DenseOperator(np.asarray(matrix, dtype=float))), p)


def prefix(n):
    return np.tril(np.ones((n, n)))


def discounted(n, rate):
    row, column = np.indices((n, n))
    return np.tril(rate ** np.maximum(row - column, 0))


def gap(problem, u, w):
    point = problem.evaluate(*problem.normalise(u, w))
    return point.upper / point.lower - 1


@pytest.mark.parametrize("cells", [512, 499])
def test_extrapolation_follows_both_ends_and_the_drift(cells):
    def weights(n):
        j = np.arange(n)
        x = (j + 0.5) / n
        ends = 1 / (1 + j) ** 2 - 2 / (n - j) ** 2
        return np.sin(3 * x) + np.log2(n) * x * (1 - x) / 5 + ends

    sizes = [-(-cells // 4), -(-cells // 2)]
    guess = warm_start.extrapolated(weights(sizes[0]), weights(sizes[1]), cells)
    error = guess - weights(cells)
    error -= error.mean()
    # the formula for corners misses x/5 of the drift, x <= 3/16; stretched ends are off by 3/4
    assert np.abs(error).max() < 0.05


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize(
    "matrix", [prefix(256), prefix(300), discounted(256, 0.99)], ids=["256", "300", "discounted"]
)
def test_starts_are_far_better_than_equal_weights(matrix, p):
    workload = problem(matrix, p)
    equal = gap(workload, *map(np.ones, workload.shape))
    assert gap(workload, *warm_start.start(workload, 1e-6, NEVER)) < equal / 3


@pytest.mark.parametrize(
    "matrix",
    [
        prefix(255),
        np.vstack([prefix(300), np.eye(300)]),
        prefix(300)[:, np.random.default_rng(0).permutation(300)],
        prefix(300)[np.random.default_rng(0).permutation(300)],
        np.random.default_rng(0).standard_normal((300, 300)),
        prefix(300)[:, np.maximum(np.arange(300), 1)],
        prefix(300) - np.outer(np.ones(300), prefix(300).mean(axis=0)),
    ],
    ids=["small", "tall", "columns", "rows", "random", "repeated", "singular"],
)
def test_nothing_is_guessed_where_neighbours_differ_or_repeat(matrix):
    assert warm_start.start(problem(matrix, 4), 1e-6, NEVER) is None


@pytest.mark.parametrize("p", [2, 3, np.inf])
def test_solutions_are_those_of_the_shuffled_workload(p):
    # which gets no start
    matrix = parse_workload("window:256,100").to_dense()
    order = np.random.default_rng(1).permutation(256)
    ordered = solve_norm(DenseOperator(matrix), p)
    shuffled = solve_norm(DenseOperator(matrix[order][:, order[::-1]]), p)
    assert_certified(ordered, matrix, p=p, rel_gap=1e-6)
    assert ordered.certificate.lower <= shuffled.certificate.upper
    assert shuffled.certificate.lower <= ordered.certificate.upper
