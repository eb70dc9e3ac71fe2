"""gamma_(p) of marginals: the dense solver, closed forms, published numbers, invariances."""

import math
from decimal import Decimal, localcontext
from itertools import chain, combinations

import numpy as np
import pytest
from certified import CHECK_P, dual_exponent, factorization_value, p_norm
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.certificate import marginals
from pmldesign_solvers.norm import SolverOptions, Status, solve_marginals, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator
from pmldesign_solvers.structure import residual_spaces

exponents = st.sampled_from((2.0, 2.0 + 1e-7, 2.5, 4.0, 16.0, 1000.0, 1e6, np.inf))


def all_subsets(attributes, lengths):
    return list(chain.from_iterable(combinations(range(attributes), k) for k in lengths))


@st.composite
def collections(draw, attributes=3, largest=4, spread=1.0):
    d = draw(st.integers(1, attributes))
    sizes = draw(st.lists(st.integers(1, largest), min_size=d, max_size=d))
    subset = st.sets(st.integers(0, d - 1)).map(lambda chosen: tuple(sorted(chosen)))
    subsets = draw(st.lists(subset, min_size=1, max_size=12, unique=True))
    exponent = st.lists(st.floats(-spread, spread), min_size=len(subsets), max_size=len(subsets))
    return sizes, subsets, 10 ** np.array(draw(exponent))


def marginal_matrix(sizes, subsets, weights):
    """A by its definition, and the number of rows of each marginal."""
    blocks = []
    for subset, weight in zip(subsets, weights, strict=True):
        block = np.ones((1, 1))
        for attribute, size in enumerate(sizes):
            block = np.kron(block, np.eye(size) if attribute in subset else np.ones((1, size)))
        blocks.append(weight * block)
    return np.vstack(blocks), [len(block) for block in blocks]


def projector(sizes, residual):
    """Onto the vectors that sum to zero over the attributes in T and are constant over others."""
    product = np.ones((1, 1))
    for attribute, size in enumerate(sizes):
        mean = np.full((size, size), 1 / size)
        product = np.kron(product, np.eye(size) - mean if attribute in residual else mean)
    return product


@given(collections(), exponents)
def test_it_agrees_with_the_dense_solver(collection, p):
    A, _ = marginal_matrix(*collection)
    ours = solve_marginals(*collection, p)
    dense = solve_norm(DenseOperator(A), p)
    assert ours.status is Status.OPTIMAL
    assert ours.certificate.gap <= 1e-6
    assert ours.certificate.lower <= dense.certificate.upper
    assert dense.certificate.lower <= ours.certificate.upper


@given(collections(), exponents)
def test_the_certificate_holds_for_the_matrix(collection, p):
    sizes, _, weights = collection
    A, rows = marginal_matrix(*collection)
    found = solve_marginals(*collection, p)
    n = A.shape[1]
    # the symmetric root of G is a strategy, and the reconstruction is A R^+
    R = np.sqrt(n) * sum(
        np.sqrt(length / math.prod(sizes[i] - 1 for i in residual)) * projector(sizes, residual)
        for length, residual in zip(found.precisions, found.residuals, strict=True)
    )
    L = A @ np.linalg.pinv(R, rcond=1e-10)
    assert np.allclose(L @ R, A, atol=1e-7 * weights.max())
    assert np.allclose(np.linalg.norm(R, axis=0), 1)
    assert factorization_value(R, L, p) == pytest.approx(found.certificate.upper, rel=1e-7)
    u = np.repeat(found.dual_u, rows)
    assert p_norm(u, dual_exponent(p)) <= 1 + 1e-11
    nuclear = np.linalg.svd(np.sqrt(u)[:, None] * A / np.sqrt(n), compute_uv=False).sum()
    assert nuclear == pytest.approx(found.certificate.lower, rel=1e-7)
    assert found.certificate.lower <= nuclear * (1 + 1e-13)


@given(collections(), exponents, st.integers(0, 2**32 - 1))
def test_any_weights_and_any_precisions_give_bounds(collection, p, seed):
    rng = np.random.default_rng(seed)
    spaces = residual_spaces(*collection[:2])
    u = rng.exponential(size=len(spaces.cells)) * rng.integers(0, 2, len(spaces.cells))
    u[rng.integers(len(u))] = 1.0
    precisions = 10 ** rng.uniform(-3, 3, len(spaces.dimensions))
    best = solve_marginals(*collection, p).certificate
    assert marginals.lower_bound(spaces, collection[2], u, p) <= best.upper
    assert best.lower <= marginals.upper_bound(spaces, collection[2], precisions, p)


def exact(values):
    return np.array([Decimal(value) for value in values], dtype=object)


def root(values):
    return np.array([value.sqrt() for value in values], dtype=object)


@given(collections(attributes=6, largest=20, spread=3.0), st.sampled_from((2.0, 4.0, np.inf)))
def test_both_bounds_are_rounded_outwards(collection, p):
    sizes, subsets, weights = collection
    found = solve_marginals(*collection, p)
    with localcontext(prec=60):
        s, u, c = map(exact, (found.precisions, found.dual_u, weights))
        m = exact([math.prod(sizes[i] for i in S) for S in subsets])
        d = exact([math.prod(sizes[i] - 1 for i in T) for T in found.residuals])
        below = np.array([[int(set(T) <= set(S)) for T in found.residuals] for S in subsets])
        value = d @ root(below.T @ (c**2 * u / m))
        v = c**2 / m**2 * (below @ (d**2 / s))
        if p == 2:
            dual, spread = max(u), m @ v
        elif p == 4:
            dual, spread = (m @ u**2).sqrt(), (m @ v**2).sqrt()
        else:
            dual, spread = m @ u, max(v)
        lower, upper = value / dual.sqrt(), (spread * sum(s)).sqrt()
        assert Decimal(found.certificate.lower) <= lower
        assert upper <= Decimal(found.certificate.upper)
        assert float(lower) == pytest.approx(found.certificate.lower, rel=1e-11)
        assert float(upper) == pytest.approx(found.certificate.upper, rel=1e-11)


@given(collections(attributes=8, largest=10_000, spread=5.0), exponents)
def test_every_collection_is_solved(collection, p):
    found = solve_marginals(*collection, p)
    assert found.status is Status.OPTIMAL
    assert found.certificate.gap <= 1e-6
    assert found.steps < 100


@pytest.mark.parametrize("p", CHECK_P)
def test_one_marginal_is_the_identity_of_its_cells(p):
    # m^(1/p), whatever the other attributes are; times the weight
    found = solve_marginals([7] * 50, [(3, 8, 11)], np.array([2.0]), p)
    assert found.certificate.lower == pytest.approx(2 * 343 ** (1 / p), rel=1e-11)
    assert found.certificate.gap <= 1e-11


@pytest.mark.parametrize("p", CHECK_P)
def test_disjoint_singles_are_the_marginals_of_a_product_when_all_are_asked(p):
    # all subsets of the attributes: A = (x)_i [1^T; I], so that gamma is a product
    sizes = [2, 7, 3, 11]
    whole = solve_marginals(
        sizes, all_subsets(4, range(5)), np.ones(16), p, options=SolverOptions(rel_gap=1e-9)
    )
    factors = [
        solve_marginals(
            [size], [(), (0,)], np.ones(2), p, options=SolverOptions(rel_gap=1e-9)
        ).certificate.lower
        for size in sizes
    ]
    assert whole.certificate.lower == pytest.approx(math.prod(factors), rel=1e-8)


def test_published_total_error_of_residual_planner():
    # Xiao, He, Zhang and Kifer (2023): all marginals of up to 3 of 100 attributes of 10 values
    subsets = all_subsets(100, range(4))
    found = solve_marginals([10] * 100, subsets, np.ones(len(subsets)), 2.0)
    assert round(found.certificate.lower, 2) == round(found.certificate.upper, 2) == 3861644.97


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_all_three_way_marginals_of_a_hundred_attributes(p):
    subsets = all_subsets(100, [3])
    found = solve_marginals([10] * 100, subsets, np.ones(len(subsets)), p)
    assert len(found.residuals) == 1 + 100 + 4950 + 161_700
    assert found.status is Status.OPTIMAL
    # by symmetry u is the same for all: sum_k C(100, k) 9^k sqrt(C(100 - k, 3 - k) / 1000) m^(-1/q)
    uniform = sum(
        math.comb(100, k) * 9**k * math.sqrt(math.comb(100 - k, 3 - k) / 1000) for k in range(4)
    )
    queries = 1000 * math.comb(100, 3)
    value = uniform * queries ** (1 / p - 0.5)
    assert found.certificate.lower <= value * (1 + 1e-13)
    assert value <= found.certificate.upper * (1 + 1e-13)


@pytest.mark.parametrize("p", [3.0, np.inf])
def test_marginals_that_take_no_part_in_the_optimum(p):
    # 100 attributes of different sizes, up to 2 ways: many u vanish at p = inf
    sizes = [2 + 3 * i for i in range(100)]
    subsets = all_subsets(100, range(3))
    found = solve_marginals(sizes, subsets, np.ones(len(subsets)), p)
    assert found.status is Status.OPTIMAL
    assert found.certificate.gap <= 1e-6


@given(collections(largest=30), exponents, st.randoms(use_true_random=False))
def test_invariances(collection, p, random):
    sizes, subsets, weights = collection
    value = solve_marginals(*collection, p).certificate.lower
    order = random.sample(range(len(sizes)), len(sizes))
    renamed = [tuple(sorted(order.index(i) for i in subset)) for subset in subsets]
    for other in (
        solve_marginals([sizes[i] for i in order], renamed, weights, p),
        solve_marginals([*sizes, 10**15, 1], subsets, weights, p),
        solve_marginals([*sizes, 1], [(*subset, len(sizes)) for subset in subsets], weights, p),
        solve_marginals(sizes, subsets[::-1], weights[::-1], p),
    ):
        assert other.certificate.lower == pytest.approx(value, rel=3e-6)
    scaled = solve_marginals(sizes, subsets, 1e9 * weights, p).certificate.lower
    assert scaled == pytest.approx(1e9 * value, rel=3e-6)


def test_a_large_domain_does_not_overflow():
    sizes = [2**53] * 60  # 10^957 cells
    found = solve_marginals(sizes, all_subsets(60, range(3)), np.ones(1 + 60 + 1770), np.inf)
    assert found.status is Status.OPTIMAL


def test_limits_stop_it_and_the_bounds_still_hold():
    subsets = all_subsets(8, range(5))
    arguments = (range(2, 10), subsets, np.ones(len(subsets)), np.inf)
    steps = []
    stopped = solve_marginals(*arguments, options=SolverOptions(max_steps=2, callback=steps.append))
    best = solve_marginals(*arguments)
    assert stopped.status is Status.ITERATION_LIMIT
    assert [step.number for step in steps] == [1, 2]
    assert stopped.certificate.gap > 1e-6
    assert stopped.certificate.lower <= best.certificate.upper
    assert best.certificate.lower <= stopped.certificate.upper
    assert (
        solve_marginals(*arguments, options=SolverOptions(deadline=Deadline(0.0))).status
        is Status.TIME_LIMIT
    )


def test_an_interrupt_keeps_the_best_so_far():
    def interrupt(step):
        if step.number == 3:
            raise KeyboardInterrupt

    subsets = all_subsets(8, range(5))
    found = solve_marginals(
        range(2, 10),
        subsets,
        np.ones(len(subsets)),
        np.inf,
        options=SolverOptions(callback=interrupt),
    )
    assert found.status is Status.INTERRUPTED
    assert found.certificate.lower <= found.certificate.upper


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2], [(0,)], np.ones(1), 1.5), r"p must be in \[2, inf\], got 1.5"),
        (([2], [(0,)], np.ones(1), math.nan), "got nan"),
        (([2] * 30, [tuple(range(30))], np.ones(1), 2.0), "1073741824 subsets"),
        (([2**53] * 7, [tuple(range(7))], np.ones(1), 2.0), "up to 1e.100 cells"),
        (([2, 2], [(0,), (1,)], np.array([1.0, 1e80]), 2.0), "may differ by a factor"),
    ],
)
def test_what_is_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve_marginals(*arguments)
