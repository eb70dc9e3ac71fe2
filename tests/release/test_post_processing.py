"""Non-negative and whole numbers, and quantiles: consistent, no worse than clamping, covered."""

import numpy as np
import pytest
from fast_sampler import fast_sampler
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import lsq_linear, nnls

from pmldesign.designs import factorize
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import Neighbours, PureDP
from pmldesign.releases import (
    as_schema,
    cut_intervals,
    nearest_whole,
    nonnegative_cells,
    parse_queries,
    prepare,
    running_whole,
    whole_cells,
)
from pmldesign.workloads import DenseWorkload, parse_workload

SCHEMA = as_schema(
    {
        "attributes": [
            {"name": "sex", "keys": ["F", "M"]},
            {"name": "age", "cuts": list(range(0, 101, 10))},
        ]
    }
)


def plan_for(text, guarantee, **options):
    queries = parse_queries(text, SCHEMA).workload
    found = factorize(queries, neighbours=guarantee.neighbours)
    made = mechanism(found.strategy, queries, guarantee=guarantee, noise="laplace")
    return prepare(made, schema=SCHEMA, **options)


def test_the_program_is_solved_as_by_an_active_set_method():
    generator = np.random.default_rng(0)
    queries = DenseWorkload(generator.integers(-1, 2, (12, 6)).astype(float))
    for _ in range(5):
        cells = generator.normal(0, 3, 6)
        exact, _ = nnls(queries.to_dense(), queries.matvec(cells))
        assert np.allclose(nonnegative_cells(queries, cells), exact, atol=1e-3)


@given(st.integers(0, 10**6))
def test_no_noise_makes_the_total_error_larger_than_that_of_clamped_answers(seed):
    generator = np.random.default_rng(seed)
    queries = DenseWorkload(generator.integers(0, 2, (9, 6)).astype(float))
    x = generator.poisson(0.7, 6).astype(float)
    cells = x + generator.normal(0, 10 ** generator.uniform(-1, 2), 6)
    truth, clamped = queries.matvec(x), np.maximum(queries.matvec(cells), 0)
    error = np.linalg.norm(queries.matvec(nonnegative_cells(queries, cells)) - truth)
    # the search for the nearest point ends a little before it
    assert error <= np.linalg.norm(clamped - truth) * (1 + 1e-3) + 1e-4


def test_sums_of_many_rare_cells_stay_where_they_were_released():
    """Cells that can only move up must not carry their sums along."""
    queries, generator = (
        parse_workload("histogram:4*histogram:400+histogram:4*total:400"),
        (np.random.default_rng(1)),
    )
    x = np.where(generator.random(1600) < 0.02, 30.0, 0.0)
    truth = queries.matvec(x)
    cells = x + generator.laplace(0, 2, 1600)
    rows = cells.reshape(4, 400)
    rows += (x.reshape(4, 400).sum(1) - rows.sum(1))[:, None] / 400  # as if measured by themselves
    released = queries.matvec(cells)
    off = queries.matvec(nonnegative_cells(queries, cells)) - truth
    assert np.abs(off[1600:]).max() < 10
    assert (off**2).sum() < ((np.maximum(released, 0) - truth) ** 2).sum() / 2


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_post_processing_is_consistent_and_no_worse_than_clamping(neighbours):
    plan = plan_for("sex*age + sex", PureDP(0.5, neighbours), nonnegative=True, integers=True)
    histogram = np.array([0, 0, 0, 1, 0, 40, 60, 2, 0, 0] * 2)
    queries = plan.noise.mechanism.workload
    whole = queries.whole
    truth = whole.matvec(histogram.astype(float))
    sample, errors = fast_sampler(3), np.zeros(2)
    for _ in range(40):
        table = plan.publish(histogram, sample).table
        assert (table.estimate >= 0).all()
        assert (table.estimate == np.rint(table.estimate)).all()
        assert table.estimate[:10].sum() == table.estimate[20]
        assert (table.lower <= table.estimate).all()
        assert (table.estimate <= table.upper).all()
        if neighbours is Neighbours.REPLACE:
            assert table.estimate[20:].sum() == histogram.sum()
        errors[0] += ((table.estimate - truth) ** 2).sum()
    sample = fast_sampler(3)
    for _ in range(40):
        y = plan.noise.measure(histogram, sampler=sample)
        cells = plan.noise.lattice.estimator.estimate(y)
        if neighbours is Neighbours.REPLACE:
            cells += histogram.sum() / 20 - cells.mean()
        errors[1] += ((whole.matvec(np.maximum(cells, 0)) - truth) ** 2).sum()
    assert errors[0] < errors[1]


def test_intervals_stay_valid_after_post_processing():
    plan = plan_for("sex*age + sex", PureDP(0.5), nonnegative=True, integers=True)
    histogram = np.array([0, 0, 0, 1, 0, 40, 60, 2, 0, 0] * 2)
    truth = plan.noise.mechanism.workload.matvec(histogram.astype(float))
    sample, runs = fast_sampler(6), 100
    tables = [plan.publish(histogram, sample).table for _ in range(runs)]
    inside = np.array([(t.lower <= truth) & (truth <= t.upper) for t in tables])
    assert inside.mean() > 0.95 - 5 * np.sqrt(0.05 * 0.95 / (runs * 4))


@given(arrays(float, st.integers(1, 30), elements=st.floats(0, 1e6)))
def test_whole_cells_round_every_running_sum_or_every_cell(cells):
    running, nearest = running_whole(cells), nearest_whole(cells)
    for whole in (running, nearest):
        assert (whole >= 0).all()
        assert (whole == np.rint(whole)).all()
        assert abs(whole.sum() - cells.sum()) <= 0.5 + 1e-6
    assert np.abs(np.cumsum(running) - np.cumsum(cells)).max() <= 0.5 + 1e-6
    assert np.abs(nearest - cells).max() <= 1
    for histogram, best in (("histogram", nearest), ("prefix", running)):
        queries = parse_workload(f"{histogram}:{len(cells)}")
        chosen = whole_cells(queries, cells)
        off = np.linalg.norm(queries.matvec(chosen - cells))
        assert off <= np.linalg.norm(queries.matvec(best - cells)) + 1e-6


def test_whole_counts_of_rare_cells_are_no_worse_than_rounded_ones():
    queries, generator = parse_workload("histogram:1000"), np.random.default_rng(7)
    made = mechanism("identity", queries, guarantee=PureDP(1.0))
    x = np.where(generator.random(1000) < 0.05, generator.poisson(5, 1000), 0)
    plan = prepare(made, nonnegative=True, integers=True)
    table = plan.publish(x, fast_sampler(4)).table
    plain = prepare(made).publish(x, fast_sampler(4)).table
    clamped = np.rint(np.maximum(plain.estimate, 0))
    assert ((table.estimate - x) ** 2).sum() <= ((clamped - x) ** 2).sum()


def test_a_public_number_of_records_cuts_intervals():
    made = mechanism("tree", "prefix:4", guarantee=PureDP(0.1, Neighbours.REPLACE))
    plan = prepare(made, nonnegative=True)
    for seed in range(20):
        table = plan.publish(np.array([0, 1, 0, 2]), fast_sampler(seed)).table
        assert (table.lower >= 0).all()
        assert (table.upper <= 3).all()
        assert (table.lower <= table.estimate).all()
        assert (table.estimate <= table.upper).all()


def test_cut_intervals_hold_the_estimate():
    lower, upper = cut_intervals(
        np.array([-3.5, -9.0, 2.2]),
        np.array([4.5, -2.0, 3.9]),
        np.array([1.0, 0.0, 5.0]),
        largest=3.0,
        whole=True,
    )
    assert lower.tolist() == [0, 0, 3]
    assert upper.tolist() == [3, 0, 5]


def test_only_sums_of_cells_are_known_to_be_non_negative():
    assert parse_workload("prefix:4*histogram:2+histogram:4*total:2").non_negative
    assert parse_workload("marginals:2,3,ways=1").non_negative
    assert not parse_workload("haar:4").non_negative
    assert not parse_workload("prefix:4*haar:4").non_negative


@pytest.mark.parametrize("seed", range(5))
def test_running_sums_get_the_closest_sums_that_never_fall(seed):
    """Against the least squares problem over cells of at least 0."""
    generator = np.random.default_rng(seed)
    queries = parse_workload("prefix:12")
    cells = generator.normal(1, 5, 12)
    target = np.maximum(np.cumsum(cells), 0.0)
    matrix = queries.to_dense()
    closest = matrix @ lsq_linear(matrix, target, (0.0, np.inf), tol=1e-14).x
    assert np.allclose(matrix @ nonnegative_cells(queries, cells), closest, atol=1e-6)
