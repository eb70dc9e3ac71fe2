import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.workloads import parse_workload
from pmldesign_solvers.eigen.tridiagonal_inverse import decompose

seeds = st.integers(0, 2**32 - 1)


def markov(n, seed):
    """The inverse of a random tridiagonal matrix, and a scale."""
    rng = np.random.default_rng(seed)
    bidiagonal = np.eye(n) - np.diag(rng.uniform(-1, 1, n - 1) * rng.integers(0, 2, n - 1), 1)
    precision = bidiagonal.T @ np.diag(rng.uniform(0.1, 1, n)) @ bidiagonal
    return np.linalg.inv(precision), rng.uniform(0.1, 1, n)


def assert_decomposes(gram, scale):
    values, vectors = decompose(gram, scale)
    scaled = scale[:, None] * gram * scale
    assert np.allclose((vectors * values) @ vectors.T, scaled, rtol=0, atol=1e-9 * values[-1])
    assert np.allclose(vectors.T @ vectors, np.eye(len(gram)), rtol=0, atol=1e-9)
    assert np.allclose(values, np.linalg.eigvalsh(scaled), rtol=1e-8, atol=1e-12 * values[-1])


@given(st.integers(2, 12), seeds)
def test_it_decomposes_markov_chains(n, seed):
    assert_decomposes(*markov(n, seed))


@given(st.integers(3, 12), seeds)
def test_it_leaves_other_matrices_alone(n, seed):
    gram, scale = markov(n, seed)
    corner = np.zeros((n, n))
    corner[0, -1] = corner[-1, 0] = 1e-6 * gram[0, 0]
    assert decompose(gram + corner, scale) is None


@pytest.mark.parametrize("name", ["prefix:60", "histogram:60"])
def test_weighted_running_sums_are_markov_chains(name):
    rng = np.random.default_rng(0)
    workload = parse_workload(name)
    assert_decomposes(workload.gram(rng.uniform(0.01, 1, 60)), rng.uniform(0.01, 1, 60))


def test_ranges_are_one_only_while_they_weigh_the_same():
    # sum over ranges that contain cells a <= b: (a + 1)(n - b)
    workload, scale = parse_workload("all-range:20"), np.ones(20)
    weights = np.ones(workload.shape[0])
    assert_decomposes(workload.gram(weights), scale)
    weights[5] = 2.0
    assert decompose(workload.gram(weights), scale) is None
