import numpy as np
import scipy
from threadpoolctl import threadpool_info

from pmldesign_solvers.operators import DenseOperator
from pmldesign_solvers.search import AddRemoveL1, SearchOptions, single_thread
from pmldesign_solvers.search import laplace as l1_strategies


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_one_thread_inside_and_as_many_as_before_outside():
    scipy.linalg.get_blas_funcs("dot")  # SciPy brings a library of its own
    before = blas_threads()
    with single_thread():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_a_search_has_one_thread():
    seen = []
    l1_strategies.solve(
        DenseOperator(np.tri(3)),
        2.0,
        scale=AddRemoveL1(1.0),
        options=SearchOptions(restarts=1, callback=lambda _: seen.append(set(blas_threads()))),
    )
    assert seen
    assert all(found == {1} for found in seen)
