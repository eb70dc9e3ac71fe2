"""Strategies given by a recurrence: C, its variances and its distances against matrices."""

from itertools import combinations

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import FactorStrategy, as_participation, sums_of, with_participation
from pmldesign.workloads import RunningWorkload, as_workload
from pmldesign_solvers.streams import RunningSums

L2 = Neighbours.ADD_REMOVE, "l2"


def recurrence(rng, n, count, rates=None):
    """C, and its entries from the definition."""
    rates = rng.uniform(0.5, 1, n - 1) if rates is None else rates
    sums = RunningSums(rates, rng.uniform(0.5, 2, n), rng.uniform(0.5, 2, n))
    d, g = rng.uniform(0.1, 1, n), rng.uniform(0, 1, (n, count))
    decays = rng.uniform(0.3, 1, (n, count))
    entries = np.diag(d)
    for i in range(n):
        for j in range(i):
            entries[i, j] = g[i] @ np.prod(decays[j + 1 : i + 1], axis=0)
    return FactorStrategy("own", sums, d, g, decays), entries


def patterns(n, times, apart, *, fixed):
    for size in range(1, times + 1):
        for steps in combinations(range(n), size):
            gaps = np.diff(steps)
            if ((gaps == apart) if fixed else (gaps >= apart)).all():
                yield list(steps)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 3), (17, 1), (40, 2)])
def test_entries_variances_and_products_are_those_of_the_matrix(n, count):
    strategy, C = recurrence(np.random.default_rng(n), n, count)
    sums, X = strategy.sums, C.T @ C
    q, h = np.sqrt(sums.query_squares), np.sqrt(sums.step_squares)
    workload = RunningWorkload(sums.rates, q, h)
    L = workload.to_dense() @ np.linalg.inv(C)
    assert np.allclose(strategy.matrix, C, rtol=1e-13)
    assert np.allclose(strategy.variances(workload), (L**2).sum(axis=1), rtol=1e-10)
    assert np.allclose(sums_of(strategy)[1], (L**2).sum(axis=1), rtol=1e-10)
    other = np.ones((1, n))
    total = ((other @ np.linalg.inv(C)) ** 2).sum()
    assert strategy.variances(as_workload(other)) == pytest.approx([total])
    shares, decays = strategy.generators
    for i, j in combinations(range(n), 2):
        entry = shares[j] @ np.prod(decays[i + 1 : j + 1], axis=0)
        assert entry == pytest.approx(X[i, j], rel=1e-12)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("how", ["every", "min-sep"])
@pytest.mark.parametrize(("n", "k", "b"), [(1, 1, 1), (1, 3, 2), (6, 6, 1), (9, 3, 2), (9, 2, 7)])
def test_no_pattern_is_farther_than_the_sensitivity(n, k, b, how, written, monkeypatch):
    if not written:
        monkeypatch.setattr("pmldesign.strategies.participation.distances.MATRIX_CELLS", 0)
    for seed in range(8):
        strategy, C = recurrence(np.random.default_rng([seed, n]), n, 1 + seed % 3)
        together = patterns(n, k, b, fixed=how == "every")
        exact = max(np.linalg.norm(C[:, steps].sum(axis=1)) for steps in together)
        asked = with_participation(strategy, as_participation(f"{k},{how}={b}"))
        assert exact * (1 - 1e-15) <= asked.sensitivity_under(*L2)
        if written and (how == "every" or k == 2):
            assert asked.sensitivity_under(*L2) <= exact * (1 + 1e-12)


@pytest.mark.parametrize(
    ("participation", "workload", "p"),
    [
        ("2,every=6", "prefix:12", 2.0),
        ("12,every=1", "decay:12,0.8", 2.0),
        ("3,every=5", "prefix:12", np.inf),
        ("3,min-sep=4", "decay:12,0.8", 2.0),
        ("12,min-sep=1", "prefix:12", np.inf),
    ],
)
def test_designs_with_one_buffer_keep_one_number_and_no_pattern_is_farther(
    participation, workload, p
):
    best = pml.factorize(workload, p=p, participation=participation, buffers=1)
    schema = as_participation(participation)
    C = best.strategy.matrix
    exact = max(
        np.linalg.norm(C[:, steps].sum(axis=1))
        for steps in patterns(12, schema.times, schema.apart, fixed=schema.fixed)
    )
    assert exact * (1 - 1e-15) <= best.strategy.sensitivity <= 1 + 1e-9
    L = as_workload(workload).to_dense() @ np.linalg.inv(C)
    spread = np.linalg.norm(np.linalg.norm(L, axis=1), ord=p)
    assert spread <= best.certificate.upper * (1 + 1e-9)
    assert best.certificate.lower <= spread * best.strategy.sensitivity
    # rank 1 below the diagonal: one number of state
    assert np.linalg.matrix_rank(C[6:, :6], tol=1e-9) == 1


def test_one_buffer_is_better_than_published_ones():
    # jax-privacy's buffered linear Toeplitz mechanism with one buffer has 8.60
    best = pml.factorize("prefix:128", participation="8,every=16", buffers=1)
    assert best.certificate.upper / np.sqrt(128) <= 8.2
    assert best.certificate.lower / np.sqrt(128) >= 7.5


def test_more_buffers_are_no_worse_and_few_are_kept():
    norms = [
        pml.factorize("prefix:16", participation="3,min-sep=3", buffers=count).certificate.upper
        for count in (1, 2, 8)
    ]
    assert norms[2] <= norms[1] <= norms[0]


def test_a_stream_of_one_pole_goes_through_its_state(tmp_path):
    best = pml.factorize("prefix:16", p=np.inf, participation="3,min-sep=5", buffers=1)
    noisy = pml.mechanism(best, "prefix:16", guarantee=pml.ZCDP(0.5), noise="gaussian")
    pml.write(tmp_path / "s.npz", noisy)
    assert pml.verify(tmp_path / "s.npz").holds
    again = pml.strategy(tmp_path / "s.npz")
    assert np.array_equal(again.matrix, best.strategy.matrix)
    stream = noisy.stream()
    answers = [stream.step(1) for _ in range(16)]
    assert stream.encoder.recurrence.memory == 1
    deviations = noisy.scale * np.sqrt(best.strategy.variances(as_workload("prefix:16")))
    assert np.allclose([answer.standard_deviation for answer in answers], deviations, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("diagonal", [[0.0, 1.0]]),
        ("gains", [[[-1.0], [1.0]]]),
        ("decays", [[[0.0], [1.1]]]),
        ("decays", [[[0.0, 0.0], [1.0, 1.0]]]),
        ("diagonal", [[1.0, np.inf]]),
    ],
)
def test_other_numbers_are_refused(name, values):
    sums = RunningSums(np.ones(1), np.ones(2), np.ones(2))
    numbers = {"diagonal": [1.0, 1.0], "gains": [[1.0], [1.0]], "decays": [[0.0], [1.0]]}
    with pytest.raises(InvalidInputError, match=name):
        FactorStrategy("own", sums, **(numbers | {name: values[0]}))


@pytest.mark.parametrize(
    ("workload", "participation", "buffers", "words"),
    [
        ("prefix:12", None, 1, "buffers must be from 2 to 128, got 1"),
        ("prefix:12", "1,every=3", 1, "buffers must be from 2"),
        ("prefix:12", "2,every=3", 0, "buffers must be"),
        ("histogram:12", "2,every=3", 1, "strategies with 1 buffer are for running sums"),
        ("sgd:12,0.5", "2,every=3", 1, "strategies with 1 buffer are for running sums"),
        ("histogram:12", "2,every=3", 2, "buffers are for running sums"),
    ],
)
def test_what_has_no_such_buffers_is_refused(workload, participation, buffers, words):
    with pytest.raises(InvalidInputError, match=words):
        pml.factorize(workload, participation=participation, buffers=buffers)
