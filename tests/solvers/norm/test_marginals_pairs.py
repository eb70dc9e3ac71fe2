"""gamma_(p) of marginals where neighbours replace a record."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.strategies import TablesStrategy
from pmldesign.workloads import TablesWorkload
from pmldesign_solvers.norm import SolverOptions, Status, solve_marginals, solve_norm
from pmldesign_solvers.operators import Deadline
from pmldesign_solvers.structure import cell_pairs

exponents = st.sampled_from([2.0, 2.5, 4.0, 20.0, math.inf])


def solve(workload, p, **options):
    return solve_marginals(
        workload.domain,
        workload.subsets,
        workload.weights,
        p,
        relation="replace",
        options=SolverOptions(**options),
    )


@st.composite
def collections(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda s: max(s) > 1))
    every = [t for k in range(len(sizes) + 1) for t in itertools.combinations(range(len(sizes)), k)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
    if not any(sizes[i] > 1 for t in chosen for i in t):
        chosen.append(tuple(range(len(sizes))))
    weights = draw(
        st.lists(st.sampled_from([0.3, 1.0, 2.5]), min_size=len(chosen), max_size=len(chosen))
    )
    return TablesWorkload(sizes, dict.fromkeys(chosen), weights[: len(dict.fromkeys(chosen))])


@given(collections(), exponents)
def test_it_is_the_norm_of_the_matrix(workload, p):
    own = solve(workload, p)
    assert own.status is Status.OPTIMAL
    assert own.certificate.gap <= 1e-6
    dense = solve_norm(workload, p, relation="replace").certificate
    assert own.certificate.lower <= dense.upper * (1 + 1e-12)
    assert dense.lower <= own.certificate.upper * (1 + 1e-12)


def pair_weights(sizes, rho):
    """Of ordered pairs of cells, from those of the attributes in which they differ."""
    cells = np.array(list(itertools.product(*map(range, sizes))))
    differ = cells[:, None] != cells
    labels = rho[0, 1:]
    open_ = (differ & (labels > 0)).any(axis=2) & ~(differ & (labels == 0)).any(axis=2)
    W = rho[0, 0] * open_ / max(open_.sum(), 1)
    for row in rho[1:]:
        here = ~(differ & (labels == 0)).any(axis=2)
        for number in np.unique(labels[labels > 0]):
            members = labels == number
            here &= differ[:, :, members].sum(axis=2) == row[1:][members][0]
        W = W + row[0] * here / here.sum()
    return W


@given(collections(), exponents, st.integers(1, 3))
def test_the_bounds_are_those_of_the_arrays(workload, p, steps):
    found = solve(workload, p, max_steps=steps)
    A = workload.to_dense()
    centred = A - A.mean(axis=1, keepdims=True)
    # upper: the strategy, written out
    R = TablesStrategy("s", workload.domain, found.residuals, found.precisions).matrix
    distance = max(np.linalg.norm(R[:, :1] - R, axis=0).max(), 0)
    L = centred @ np.linalg.pinv(R, 1e-11)
    np.testing.assert_allclose(L @ R, centred, atol=1e-8 * np.abs(A).max())
    value = np.linalg.norm(np.linalg.norm(L, axis=1), p) * distance
    assert value <= found.certificate.upper * (1 + 1e-12)
    assert value >= found.certificate.upper * (1 - 1e-8)
    # lower: the Laplacian of weights of pairs, which are written out
    q = math.inf if p == 2 else 1 if p == math.inf else p / (p - 2)
    each = np.repeat(found.dual_u, [count for _, count in workload.part_rows])
    assert np.linalg.norm(each, q) <= 1 + 1e-10
    W = 2 * pair_weights(workload.domain, found.dual_w)
    assert W.sum() == pytest.approx(2)
    laplacian = np.diag(W.sum(axis=1)) - W
    values = np.linalg.eigvalsh(centred.T * each @ centred)  # no smaller than what is summed
    roots = np.linalg.eigvals(laplacian @ (centred.T * each @ centred)).real
    nuclear = np.sqrt(np.maximum(roots, 0)).sum()
    assert found.certificate.lower <= nuclear * (1 + 1e-5) + 1e-6 * math.sqrt(values.max())


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_histogram(n, p):
    # R = P/sqrt 2, L = P sqrt 2: n^(1/p) (2 (n - 1)/n)^(1/2)
    found = solve(TablesWorkload([n], [(0,)]), p).certificate
    exact = n ** (1 / p) * math.sqrt(2 * (n - 1) / n)
    assert found.lower <= exact * (1 + 1e-12)
    assert found.upper >= exact * (1 - 1e-12)
    assert found.gap < 1e-6


def test_a_histogram_of_many_cells_over_a_hundred_attributes():
    # all cells of 10^99 as one marginal: sqrt 2 times that of add-remove neighbours, but for 10^-99
    workload = TablesWorkload([10] * 12, [tuple(range(12))])
    found = solve(workload, 2.0).certificate
    assert found.lower <= math.sqrt(2e12) <= found.upper * (1 + 1e-9)
    assert found.gap < 1e-6


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_all_pairs_of_a_hundred_attributes(p):
    subsets = list(itertools.combinations(range(100), 2))
    found = solve(TablesWorkload([10] * 100, subsets), p)
    assert found.status is Status.OPTIMAL
    assert found.certificate.gap <= 1e-6


@settings(max_examples=10)
@given(collections(), exponents)
def test_sets_that_are_not_listed_still_have_true_bounds(workload, p):
    exact = solve(workload, p).certificate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_pairs, "MAX_TYPES", 0)
        found = solve(workload, p)
    assert found.certificate.lower <= exact.upper
    assert found.certificate.upper >= exact.lower
    assert found.status in (Status.OPTIMAL, Status.STRUCTURED)


@settings(max_examples=10)
@given(collections(), exponents)
def test_the_total_and_attributes_of_one_value_change_nothing(workload, p):
    one = solve(workload, p).certificate
    subsets = [*workload.subsets, *([] if () in workload.subsets else [()])]
    weights = [*workload.weights, *([] if () in workload.subsets else [7.0])]
    wider = [tuple({*subset, len(workload.domain)}) for subset in subsets]
    other = solve(TablesWorkload([*workload.domain, 1], wider, weights), p).certificate
    assert max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + 1e-12)


@pytest.mark.parametrize(("sizes", "subsets"), [([3, 4], [()]), ([1, 4], [(), (0,)])])
def test_the_total_alone_is_refused(sizes, subsets):
    with pytest.raises(ValueError, match="nothing but the total"):
        solve(TablesWorkload(sizes, subsets), 2.0)


def test_interrupts_and_limits_leave_true_bounds():
    workload = TablesWorkload([2, 3, 4, 5], list(itertools.combinations(range(4), 2)))
    exact = solve(workload, math.inf).certificate

    def stop(step):
        raise KeyboardInterrupt

    for options, status in [
        ({"max_steps": 1}, Status.ITERATION_LIMIT),
        ({"deadline": Deadline(1e-9)}, Status.TIME_LIMIT),
        ({"callback": stop}, Status.INTERRUPTED),
    ]:
        found = solve(workload, math.inf, rel_gap=1e-9, **options)
        assert found.status is status
        assert found.certificate.lower <= exact.upper
        assert found.certificate.upper >= exact.lower
