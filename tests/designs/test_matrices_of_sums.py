"""A matrix of running sums is designed as what it is."""

import numpy as np
import pytest
import scipy

from pmldesign.designs import factorize
from pmldesign.files import verify_file, write_strategy
from pmldesign.workloads import as_workload, weighted

N = 24
ONES = np.tril(np.ones((N, N)))
WEIGHTS = np.random.default_rng(0).uniform(0.1, 9.0, N)


def test_a_matrix_is_no_worse_than_its_name(tmp_path):
    asked = {"participation": "3,every=8"}
    named = factorize(f"prefix:{N}", **asked).certificate
    for matrix in (ONES, 3 * ONES, scipy.sparse.csr_array(ONES)):
        found = factorize(matrix, **asked).certificate
        assert found.upper == pytest.approx(matrix[0, 0] * named.upper, rel=1e-5)
        assert found.lower == pytest.approx(matrix[0, 0] * named.lower, rel=1e-5)
    heavy = factorize(weighted(as_workload(f"prefix:{N}"), WEIGHTS), **asked).certificate
    found = factorize(WEIGHTS[:, None] * ONES, **asked).certificate
    assert found.upper == pytest.approx(heavy.upper, rel=1e-4)
    np.save(tmp_path / "a.npy", ONES)
    write_strategy(tmp_path / "s.npz", factorize(ONES, **asked))
    assert verify_file(tmp_path / "s.npz", workload=str(tmp_path / "a.npy")).holds


def test_weights_are_found_to_the_last_digit():
    for matrix, queries, steps in (
        (ONES, np.ones(N), np.ones(N)),
        (WEIGHTS[:, None] * ONES, WEIGHTS**2, np.ones(N)),
        (ONES * WEIGHTS, np.ones(N), WEIGHTS**2),
        (np.ones((1, 1)), np.ones(1), np.ones(1)),
    ):
        for given in (matrix, scipy.sparse.csr_array(matrix)):
            sums = as_workload(given).running_sums
            assert np.array_equal(sums.query_squares, queries)
            assert np.array_equal(sums.step_squares, steps)


def test_other_matrices_are_none():
    nearly = ONES.copy()
    nearly[5, 3] = np.nextafter(1.0, 2.0)
    others = [ONES.T, ONES - np.eye(N), np.eye(N), ONES[:, :5], -ONES, 0 * ONES, 1e60 * ONES]
    for matrix in (*others, nearly, np.ones((N, 1)), np.ones((1, N)), np.ones((N, N))):
        assert as_workload(matrix).running_sums is None
        assert as_workload(scipy.sparse.csr_array(matrix)).running_sums is None
