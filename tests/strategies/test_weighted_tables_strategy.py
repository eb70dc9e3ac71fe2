import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.errors import InvalidInputError
from pmldesign.factorization import answer
from pmldesign.privacy import PML, Neighbours, calibrate
from pmldesign.strategies import Strategy, WeightedTablesStrategy
from pmldesign.workloads import RECORDS, TablesWorkload, as_workload
from pmldesign_solvers.structure import cell_pairs

SIZES = [(2, 3), (3, 1, 2), (2, 2, 3)]


@st.composite
def tables(draw):
    sizes = draw(st.sampled_from(SIZES))
    every = [
        tuple(i for i in range(len(sizes)) if bits >> i & 1) for bits in range(1 << len(sizes))
    ]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True))
    weights = draw(st.lists(st.floats(0.1, 3), min_size=len(chosen), max_size=len(chosen)))
    asked = [subset for subset in every if any(set(subset) <= set(own) for own in chosen)]
    return WeightedTablesStrategy("own", sizes, chosen, weights), TablesWorkload(sizes, asked)


@settings(max_examples=15)
@given(case=tables(), relation=st.sampled_from(list(Neighbours)), seed=st.integers(0, 99))
def test_it_is_the_strategy_of_its_matrix(case, relation, seed):
    own, workload = case
    if relation is Neighbours.REPLACE and not any(
        own.sizes[i] > 1 for subset in own.subsets for i in subset
    ):
        return
    known = answer(own, workload, relation)
    plain = answer(Strategy("plain", own.matrix), workload, relation)
    queries = as_workload(known.workload.to_dense())
    np.testing.assert_allclose(known.variances, plain.variances, rtol=1e-8, atol=1e-12)
    for norm in ("l1", "l2"):
        expected = plain.strategy.sensitivity_under(relation, norm)
        assert known.strategy.sensitivity_under(relation, norm) == pytest.approx(expected)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(own.cells, 2))
    np.testing.assert_allclose(known.strategy.measure(x), known.strategy.matrix @ x, atol=1e-12)
    y = rng.normal(size=known.strategy.shape[0])
    expected = queries.to_dense() @ np.linalg.pinv(known.strategy.matrix, rcond=1e-10) @ y
    np.testing.assert_allclose(known.strategy.answer(known.workload, y), expected, atol=1e-9)
    records = rng.integers(0, own.sizes, size=(20, len(own.sizes)))
    histogram = np.bincount(np.ravel_multi_index(records.T, own.sizes), minlength=own.cells)
    np.testing.assert_allclose(
        known.strategy.measure_records(records), known.strategy.matrix @ histogram, atol=1e-12
    )


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_profile_is_that_of_the_matrix(monkeypatch, norm):
    own = WeightedTablesStrategy("own", (2, 3, 2), [(0,), (0, 1)], [0.3, 0.7])
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 4)
    profile = own.distance_profile(norm)
    order = 1 if norm == "l1" else 2
    columns = own.matrix[:, ::2]  # the third attribute is not looked at
    distances = np.linalg.norm(columns[:, 1:] - columns[:, :1], ord=order, axis=0)
    listed = np.repeat(profile.distances, profile.counts.astype(int))
    np.testing.assert_allclose(np.sort(listed), np.sort(distances))
    assert (profile.copies, profile.columns) == (2, 6)


def test_pml_of_the_profile_and_of_the_matrix_agree(monkeypatch):
    own = WeightedTablesStrategy("own", (3, 4), [(0,), (1,), (0, 1)], [0.3, 0.5, 0.2])
    guarantee = PML(1.0, 0.05)
    exact = calibrate(own.beside(RECORDS), guarantee, noise="laplace").scale
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 4)
    assert calibrate(own.beside(RECORDS), guarantee, noise="laplace").scale == pytest.approx(
        exact, rel=1e-5
    )
    monkeypatch.setattr(cell_pairs, "MAX_TYPES", 1)
    assert calibrate(own.beside(RECORDS), guarantee, noise="laplace").scale > exact


def test_domains_of_any_size():
    own = WeightedTablesStrategy("own", (10,) * 50, [(0, 1), (2,)], [1.0, 2.0])
    workload = TablesWorkload((10,) * 50, [(0,), (2,)])
    # table (0,) sums 10 cells of (0, 1), or the total of (2,) is a hair better known through both
    assert own.sensitivity_under(Neighbours.ADD_REMOVE, "l1") == 3
    values = own.variances(workload)
    # lambda_() = 1/100 + 4/10, lambda_0 = 1/100, lambda_2 = 4/10; v = (1/lambda_() + 9/lambda)/100
    expected = [(1 / 0.41 + 9 / 0.01) / 100, (1 / 0.41 + 9 / 0.4) / 100]
    np.testing.assert_allclose(values, np.repeat(expected, 10))
    records = np.random.default_rng(0).integers(0, 10, size=(100, 50))
    exact = np.concatenate(list(workload.of_records(records)))
    np.testing.assert_allclose(own.answer(workload, own.measure_records(records)), exact)


def test_refusals():
    own = WeightedTablesStrategy("own", (2, 3), [()], [1.0])
    with pytest.raises(InvalidInputError, match="nothing but the number of records"):
        own.beside(RECORDS)
    with pytest.raises(InvalidInputError, match=r"does not measure the residual \(0,\)"):
        own.variances(TablesWorkload((2, 3), [(0,)]))
    with pytest.raises(InvalidInputError, match="takes 1 measurements"):
        own.estimate(np.zeros(2))
    assert own.normalised().sensitivity == pytest.approx(1)
    assert math.isclose(own.sensitivity, 1)
