"""Strategies for running sums with K buffers, against their matrices."""

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, Neighbours, PureDP
from pmldesign.strategies import Strategy, StreamStrategy, streaming_form
from pmldesign.workloads import RunningWorkload, parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.streams import RunningSums


@pytest.fixture(scope="module", params=["prefix:40", "decay:40,0.8", "weights"])
def designed(request):
    if request.param != "weights":
        return factorize(request.param, p=3, buffers=4, rel_gap=1e-2)
    rng = np.random.default_rng(3)
    workload = RunningWorkload(
        rng.uniform(0.5, 1, 29), 10 ** rng.uniform(-1, 1, 30), 10 ** rng.uniform(-1, 1, 30)
    )
    return factorize(workload, p=2, buffers=5, rel_gap=1e-2)


def test_factorization(designed):
    strategy, A = designed.strategy, designed.workload.to_dense()
    R, L = strategy.matrix, designed.reconstruction()
    assert isinstance(strategy, StreamStrategy)
    np.testing.assert_allclose(designed.workload.row_sizes(), A.max(axis=1), rtol=1e-13)
    assert pytest.approx(A, abs=1e-12 * np.abs(A).max()) == L @ R
    assert (np.triu(R, 1) == 0).all()
    assert (R >= 0).all()
    size = np.linalg.norm(R, axis=0).max()
    assert size == pytest.approx(1, rel=1e-11)
    assert strategy.sensitivity >= size
    variances = strategy.variances(designed.workload)
    assert variances == pytest.approx((L**2).sum(axis=1), rel=1e-9)
    value = (variances ** (designed.p / 2)).sum() ** (1 / designed.p)
    assert designed.certificate.lower <= value <= designed.certificate.upper
    for power in (1, 2.5, np.inf):
        assert strategy.variance_norm(designed.workload, power) == pytest.approx(
            np.linalg.norm(variances, power), rel=1e-9
        )


def test_all_else_is_that_of_the_matrix(designed):
    strategy = designed.strategy
    plain = Strategy("plain", strategy.matrix)
    x = np.random.default_rng(0).normal(size=(strategy.cells, 2))
    assert strategy.measure(x) == pytest.approx(plain.matrix @ x)
    assert strategy.estimate(strategy.measure(x[:, 0])) == pytest.approx(x[:, 0])
    for relation in Neighbours:
        for norm in ("l1", "l2"):
            exact = plain.sensitivity_under(relation, norm)
            assert exact <= strategy.sensitivity_under(relation, norm) * (1 + 1e-12)
            assert strategy.sensitivity_under(relation, norm) <= exact * (1 + 1e-9)
    other = parse_workload(f"total:{strategy.cells}")
    assert strategy.variances(other) == pytest.approx(plain.variances(other))
    assert streaming_form(strategy).matrix == pytest.approx(strategy.matrix)
    with pytest.raises(InvalidInputError, match="cells"):
        strategy.variances(parse_workload("prefix:7"))


def test_distances_are_bounded_where_they_are_too_many(designed, monkeypatch):
    exact = {norm: designed.strategy.sensitivity_under("replace", norm) for norm in ("l1", "l2")}
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 8)
    for norm, value in exact.items():
        bound = designed.strategy.sensitivity_under(Neighbours.REPLACE, norm)
        assert value <= bound <= 2 * value


def test_every_guarantee_that_needs_column_norms(designed):
    plain = Strategy("plain", designed.strategy.matrix)
    for guarantee in (ApproxDP(1, 1e-6), PureDP(0.5), ApproxDP(1, 1e-6, neighbours="replace")):
        ours = mechanism(designed.strategy, designed.workload, guarantee=guarantee, p=designed.p)
        same = mechanism(plain, designed.workload, guarantee=guarantee, p=designed.p)
        assert ours.noise is same.noise
        assert ours.scale == pytest.approx(same.scale, rel=1e-6)
        assert ours.error(designed.p) == pytest.approx(same.error(designed.p), rel=1e-6)


def test_a_strategy_file_has_the_weights_and_nodes(designed, tmp_path):
    path = tmp_path / "stream.npz"
    write_strategy(path, designed)
    again = read_strategy(path)
    assert isinstance(again, StreamStrategy)
    assert again.matrix == pytest.approx(designed.strategy.matrix, rel=1e-12)
    with np.load(path) as arrays:
        assert sum(arrays[name].size for name in arrays.files) < 10 * designed.strategy.cells


def test_damaged_nodes_are_refused(designed, tmp_path):
    path = tmp_path / "stream.npz"
    write_strategy(path, designed)
    with np.load(path) as arrays:
        kept = dict(arrays)
    np.savez(path, **{**kept, "poles": -kept["poles"]})
    with pytest.raises(InvalidInputError, match="poles must be"):
        read_strategy(path)


def test_long_running_sums_go_to_the_streams_solver():
    found = factorize("prefix:1500", rel_gap=1e-4)
    assert isinstance(found.strategy, StreamStrategy)
    assert found.status is Status.OPTIMAL
    assert found.eigendecompositions == 0


def test_variances_of_running_sums_are_computed_once_for_all_norms(monkeypatch):
    strategy = factorize("prefix:40", buffers=6).strategy
    workload, spread, seen = parse_workload("prefix:40"), RunningSums.spread, []

    def counted(*arguments):
        seen.append(1)
        return spread(*arguments)

    monkeypatch.setattr(RunningSums, "spread", counted)
    norms = [strategy.variance_norm(workload, power) for power in (1, 2, np.inf)]
    assert len(seen) <= 1
    exact = np.square(np.tri(40) @ np.linalg.inv(strategy.matrix)).sum(axis=1)
    best = [exact.sum(), np.linalg.norm(exact), exact.max()]
    np.testing.assert_allclose(norms, best, rtol=1e-8)


def test_too_few_buffers_are_said():
    found = factorize("prefix:100", buffers=3)
    assert found.status is Status.BUFFERS
    assert found.strategy.buffers == 3
    with pytest.raises(InvalidInputError, match="buffers must be from 2 to 128, got 1"):
        factorize("prefix:100", buffers=1)
    with pytest.raises(InvalidInputError, match="buffers are for running sums"):
        factorize("histogram:100", buffers=4)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_decay_workload(rate):
    workload = parse_workload(f"decay:6,{rate}")
    lag = np.subtract.outer(np.arange(6), np.arange(6))
    A = np.where(lag >= 0, rate ** np.maximum(lag, 0), 0.0)
    assert workload.to_dense() == pytest.approx(A)
    x = np.arange(12.0).reshape(6, 2)
    assert workload.matvec(x) == pytest.approx(A @ x)
    assert workload.rmatvec(x[:, 0]) == pytest.approx(A.T @ x[:, 0])
    weights = np.arange(1.0, 7)
    assert workload.gram(weights) == pytest.approx(A.T @ np.diag(weights) @ A)
    assert workload.column_squares() == pytest.approx((A**2).sum(axis=0))
    X = x @ x.T
    assert workload.row_quadratic(X) == pytest.approx(np.diag(A @ X @ A.T))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decay:6,0", "above 0 and at most 1, got 0"),
        ("decay:6,1.5", "above 0 and at most 1, got 1.5"),
        ("decay:6,x", "'x' is not a decimal number"),
        ("decay:6", "takes 2 sizes, got 1"),
        ("decay:6.5,0.5", "'6.5' is not a whole number"),
    ],
)
def test_decay_refuses(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_workload(text)


@pytest.mark.parametrize(
    ("rates", "message"),
    [([0.5, -1], "rates must be positive"), ([[1.0]], "rates must have shape")],
)
def test_running_workload_refuses(rates, message):
    with pytest.raises(InvalidInputError, match=message):
        RunningWorkload(rates)
