"""The sensitivity of small matrices of every shape, against all patterns with all signs."""

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError, VerificationError
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    FactorStrategy,
    Strategy,
    as_participation,
    with_participation,
    without_participation,
)

KINDS = (
    "normal",
    "positive",
    "one row",
    "one row of ones",
    "one column",
    "two rows",
    "zero columns",
    "zero rows",
    "ties",
    "equal columns",
    "banded",
    "diagonal",
)


def random_matrix(rng, kind):
    """A matrix of up to 7 rows and columns, not all zero."""
    rows, cells = (int(size) for size in rng.integers(1, 8, 2))
    rows = {"one row": 1, "one row of ones": 1, "two rows": 2}.get(kind, rows)
    cells = 1 if kind == "one column" else cells
    matrix = rng.normal(size=(rows, cells))
    if kind == "positive":
        matrix = np.abs(matrix)
    elif kind == "one row of ones":
        matrix = np.ones((1, cells))
    elif kind == "zero columns":
        matrix[:, rng.random(cells) < 0.5] = 0.0
    elif kind == "zero rows":
        matrix[rng.random(rows) < 0.5] = 0.0
    elif kind == "ties":
        matrix = rng.integers(-1, 2, (rows, cells)).astype(float)
    elif kind == "equal columns":
        matrix = matrix[:, rng.integers(0, max(1, cells // 2), cells)]
    elif kind == "banded":
        low, high = rng.integers(0, 3, 2)
        matrix = np.tril(np.triu(matrix, -low), high)
    elif kind == "diagonal":
        matrix = np.eye(rows, cells) * matrix
    return matrix if matrix.any() else np.ones((rows, cells))


@cache
def neighbouring_differences(cells, times, apart, fixed):
    """Every pattern with every sign, shape (n, N); the first sign is 1."""
    found = []
    for size in range(1, times + 1):
        for steps in combinations(range(cells), size):
            gaps = np.diff(steps)
            if not ((gaps == apart) if fixed else (gaps >= apart)).all():
                continue
            for signs in product([1.0], *[[1.0, -1.0]] * (size - 1)):
                found.append(np.zeros(cells))
                found[-1][list(steps)] = signs
    return np.array(found).T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbours_are_farther_apart_than_the_sensitivity(kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    for _ in range(21):
        matrix = random_matrix(rng, kind)
        times, apart = (int(number) for number in rng.integers(1, 6, 2))
        how = str(rng.choice(["every", "min-sep"]))
        moved = matrix @ neighbouring_differences(matrix.shape[1], times, apart, how == "every")
        schema = as_participation(f"{times},{how}={apart}")
        for norm, order in (("l2", 2), ("l1", 1)):
            exact = np.linalg.norm(moved, ord=order, axis=0).max()
            strategy = with_participation(Strategy("random", matrix), schema)
            shown = strategy.sensitivity_under(Neighbours.ADD_REMOVE, norm)
            assert shown >= exact * (1 - 1e-15), (matrix, schema, norm)
            if norm == "l1" or (len(matrix) == 1 and how == "every") or matrix.shape[1] == 1:
                assert shown <= exact * (1 + 1e-12), (matrix, schema, norm)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_over_several_series_are_no_farther_apart(kind):
    """Series are measured alike: a person changes one of two, or both by a vector of norm 1."""
    rng = np.random.default_rng(KINDS.index(kind))
    turns = np.exp(2j * np.pi * np.arange(8) / 8)  # both series as the parts of a number
    for _ in range(6):
        matrix = random_matrix(rng, kind)[:, :4]
        matrix = matrix if matrix.any() else np.ones_like(matrix)
        times, apart = (int(number) for number in rng.integers(1, 5, 2))
        how = str(rng.choice(["every", "min-sep"]))
        steps = neighbouring_differences(matrix.shape[1], times, apart, how == "every").T
        every = np.array(list(product(*[turns] * (steps.shape[1] - 1), [1.0])))
        turned = (steps[:, None] * every).reshape(-1, steps.shape[1])
        exact = np.linalg.norm(matrix @ turned.T, axis=0).max()
        schema = as_participation(f"{times},{how}={apart}")
        strategy = with_participation(Strategy("random", matrix), schema)
        assert strategy.sensitivity_under(Neighbours.ADD_REMOVE, "l2") >= exact * (1 - 1e-14)


@pytest.mark.parametrize("call", [pml.factorize, pml.optimize, pml.bounds])
@pytest.mark.parametrize("workload", ["prefix:4*histogram:3", "prefix:1*histogram:3"])
def test_cells_of_products_are_no_steps(call, workload):
    promise = {} if call is pml.factorize else {"guarantee": pml.ApproxDP(1, 1e-6)}
    with pytest.raises(InvalidInputError, match="design prefix:"):
        call(workload, participation="2,min-sep=2", **promise)
    with pytest.raises(InvalidInputError, match="design prefix:"):
        pml.compare(workload, strategies=["identity"], participation="2,min-sep=2")
    with pytest.raises(InvalidInputError, match="design prefix:"):
        pml.mechanism("identity", workload, participation="2,min-sep=2")


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("factor", [1 / 3, 1.0, 7.3e9])
def test_a_scaled_strategy_has_no_neighbours_farther_apart_than_it_says(norm, factor):
    rng = np.random.default_rng(4)
    differences = neighbouring_differences(6, 3, 2, False)
    for _ in range(20):
        schema = as_participation("3,min-sep=2")
        strategy = with_participation(Strategy("R", rng.standard_normal((5, 6))), schema)
        known = strategy.sensitivity_under(Neighbours.ADD_REMOVE, norm)
        scaled = strategy.scaled(factor)
        stated = scaled.sensitivity_under(Neighbours.ADD_REMOVE, norm)
        moved = np.linalg.norm(scaled.matrix @ differences, ord=1 if norm == "l1" else 2, axis=0)
        assert moved.max() <= stated * (1 + 1e-15)
        assert stated == pytest.approx(factor * known, rel=1e-14)


def test_a_scaled_stream_has_the_factor_that_its_weights_give():
    stream = pml.factorize("prefix:40", buffers=4).strategy
    before, scaled = stream.factor, stream.scaled(0.3)
    alone = stream.with_nodes(scaled.nodes)
    assert np.allclose(scaled.factor.diagonal, alone.factor.diagonal, rtol=1e-13)
    assert np.allclose(scaled.factor.gains, alone.factor.gains, rtol=1e-12)
    assert np.allclose(scaled.factor.diagonal, 0.3 * before.diagonal, rtol=1e-13)


@pytest.mark.parametrize("participation", ["3,every=4", "3,min-sep=4", "2,min-sep=5"])
@pytest.mark.parametrize("source", ["pole", "buffers", "haar", "banded:12", "design"])
def test_the_l1_sensitivity_of_streams_is_exact(source, participation, tmp_path):
    given = source
    if source in ("pole", "buffers", "design"):
        buffers = {"pole": 1, "buffers": 4}.get(source)
        options = {"buffers": buffers} if buffers else {"rel_gap": 1e-3}
        given = pml.factorize("prefix:12", participation=participation, **options)
    promise = {"guarantee": pml.PureDP(1), "participation": participation}
    noisy = pml.mechanism(given, "prefix:12", noise="laplace", **promise)
    schema = as_participation(participation)
    differences = neighbouring_differences(12, schema.times, schema.apart, schema.fixed)
    exact = np.abs(noisy.strategy.matrix @ differences).sum(axis=0).max()
    assert exact * (1 - 1e-12) <= noisy.sensitivity <= exact * (1 + 1e-9)
    pml.write(tmp_path / "s.npz", noisy)
    assert pml.verify(tmp_path / "s.npz").holds


@pytest.mark.parametrize(
    ("workload", "participation", "exact"),
    [
        ("total:365", "12,min-sep=30", 12.0),
        ("total:365", "12,every=30", 12.0),
        ("total:365", "20,min-sep=30", 13.0),
        ("total:12", "4,min-sep=2", 4.0),
        (np.ones((1, 5)), "5,min-sep=1", 5.0),
        (np.ones((1, 5)), "5,every=1", 5.0),
        (np.ones((2, 5)), "5,min-sep=1", 5.0 * np.sqrt(2.0)),
        (np.array([[3.0, 0, 0, -4.0]]), "2,min-sep=2", 7.0),
        (np.array([[3.0, 0, 0, -4.0]]), "2,min-sep=3", 7.0),
        (np.array([[3.0, 0, 0, -4.0]]), "2,min-sep=4", 4.0),
    ],
)
def test_a_person_adds_up_in_a_single_sum(workload, participation, exact):
    noisy = pml.mechanism(
        "workload",
        workload,
        guarantee=pml.ZCDP(0.5),
        noise="gaussian",
        participation=participation,
    )
    assert exact <= noisy.sensitivity <= exact * (1 + 1e-12)
    assert exact <= noisy.scale <= exact * (1 + 1e-9)


@pytest.mark.parametrize("part", [0.3, 0.999, 1.3])
@pytest.mark.parametrize(
    ("strategy", "workload", "participation"),
    [
        ("workload", "total:365", "12,min-sep=30"),
        ("workload", np.array([[1.0, -1.0, 1.0, -1.0, 1.0]]), "5,min-sep=1"),
        ("square-root", "prefix:6000", "12,min-sep=500"),
        ("design", "prefix:12", "3,every=4"),
    ],
)
def test_measurements_contradict_wrong_sensitivities(
    strategy, workload, participation, part, monkeypatch
):
    if strategy == "design":
        strategy = pml.factorize(workload, participation=participation, rel_gap=1e-3)
    kind = "pmldesign.strategies.participation.distances.sensitivity"
    right = pml.mechanism(strategy, workload, participation=participation).sensitivity
    schema = as_participation(participation)
    single = getattr(strategy, "strategy", None) or pml.mechanism(strategy, workload).strategy
    once = without_participation(single).sensitivity
    wrong = part * right if part < 1 else part * once * schema.times
    monkeypatch.setattr(kind, lambda *_: wrong)
    fresh = with_participation(single, schema)
    with pytest.raises(VerificationError, match="report it"):
        fresh.sensitivity_under(Neighbours.ADD_REMOVE, "l2")


def test_long_streams_of_decays_close_to_one_after_fast_ones():
    """The logarithms of products are large, steps of them next to nothing: all round down."""
    n, half, apart = 4000, 2000, 1500
    decays = np.ones((n, 1))
    decays[:half], decays[half:] = 1e-300, 1 - 0.51 * np.spacing(690.8 * half)
    rest = 1 - decays[-1, 0]
    gains = np.full((n, 1), np.sqrt(rest * (2 - rest)))  # X_ij = decay^|i - j| for late steps
    gains[:half], gains[-1] = 0, 1
    diagonal = np.append(np.full(n - 1, gains[half, 0]), 1.0)
    sums = pml.workload(f"prefix:{n}").running_sums
    once = FactorStrategy("late", sums, diagonal, gains, decays)
    strategy = with_participation(once, as_participation(f"2,every={apart}"))
    person = np.zeros(n)
    person[[half, half + apart]] = 1
    farthest = np.linalg.norm(once.measure(person))
    value = strategy.sensitivity_under(pml.Neighbours.ADD_REMOVE, "l2")
    assert farthest <= value <= farthest * (1 + 1e-6)
