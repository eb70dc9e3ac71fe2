"""Tables of people over domains of which no histogram is formed."""

import itertools

import numpy as np
import polars as pl
import pytest
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import Noise
from pmldesign.releases import all_within, consistent_tables, exact_noise, lattice_of, prepare
from pmldesign.strategies import IdentityAndRows, TablesStrategy, WeightedTablesStrategy
from pmldesign.workloads import TablesWorkload, parse_workload

NAMES = [f"a{i}" for i in range(9)]
SCHEMA = {"attributes": [{"name": name, "keys": list(range(8))} for name in NAMES]}  # 8^9 cells
TEXT = "a0*a1 + a1*a2 + a3 + a4*a5*a6"
GUARANTEES = [
    pml.PureDP(1.0),
    pml.PureDP(1.0, pml.Neighbours.REPLACE),
    pml.ApproxDP(1.0, 1e-6),
    pml.ApproxDP(1.0, 1e-6, pml.Neighbours.REPLACE),
    pml.PML(1.0, 1e-9),
]


@pytest.fixture(scope="module")
def people():
    generator = np.random.default_rng(0)
    return pl.DataFrame({name: generator.integers(0, 8, 3000) for name in NAMES})


def counted(people, names):
    counts = np.zeros([8] * len(names))
    np.add.at(counts, tuple(people[name].to_numpy() for name in names), 1)
    return counts.ravel()


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_tables_are_those_of_the_people_and_their_sums_agree(guarantee, people):
    queries = pml.workload(TEXT, schema=SCHEMA)
    noise = "gaussian" if isinstance(guarantee, pml.ApproxDP) else "laplace"
    made = pml.optimize(queries, guarantee=guarantee, noise=noise, effort="quick").best
    exact = made.release(people, schema=SCHEMA, sampler=no_noise)
    truth = [counted(people, names.split("*")) for names in TEXT.split(" + ")]
    assert np.allclose(exact.table.estimate, np.concatenate(truth), atol=1e-3)
    noisy = made.release(people, schema=SCHEMA, sampler=fast_sampler(1))
    whole = np.rint(noisy.table.estimate * 10.0**noisy.table.decimals).astype(int)
    first, second, third, fourth = np.split(whole, [64, 128, 136])
    assert (first.reshape(8, 8).sum(0) == second.reshape(8, 8).sum(1)).all()
    assert first.sum() == third.sum() == fourth.sum()
    public = guarantee.neighbours is pml.Neighbours.REPLACE
    assert noisy.manifest.get("records") == (3000 if public else None)
    assert list(noisy.table.labels) == NAMES
    inside = np.abs(noisy.table.estimate - np.concatenate(truth)) <= noisy.table.upper - (
        noisy.table.estimate
    )
    assert inside.mean() > 0.9


def test_intervals_of_large_tables_cover_as_often_as_they_say(people):
    queries = pml.workload("a0*a1 + a2", schema=SCHEMA)
    made = pml.optimize(queries, guarantee=pml.PureDP(1.0), effort="quick").best
    exact = made.release(people, schema=SCHEMA, sampler=no_noise).table
    plan = prepare(made, schema=SCHEMA)
    counts, sample = plan.counts(people), fast_sampler(2)
    runs = [plan.publish(counts, sample).table for _ in range(60)]
    inside = [(t.lower <= exact.estimate) & (exact.estimate <= t.upper) for t in runs]
    assert abs(np.mean(inside) - 0.95) < 0.01  # 4320 intervals, some of them dependent


def test_what_needs_a_histogram_is_refused(people):
    queries = pml.workload("a0*a1", schema=SCHEMA)
    made = pml.optimize(queries, guarantee=pml.PureDP(1.0), effort="quick").best
    for options in ({"nonnegative": True}, {"integers": True}):
        with pytest.raises(pml.InvalidInputError, match="does not fit into memory"):
            made.release(people, schema=SCHEMA, **options)


def test_rounded_tables_agree_and_are_close():
    sizes, generator = (3, 4, 1, 2), np.random.default_rng(3)
    x = generator.normal(0, 30, sizes)
    tables = {
        subset: x.sum(axis=tuple(set(range(4)) - set(subset))).ravel()
        for subset in all_within(((0, 1, 2), (1, 3)))
    }
    whole = consistent_tables(sizes, tables, 10.0)
    for small, large in itertools.permutations(whole, 2):
        if set(small) < set(large):
            axes = tuple(axis for axis, i in enumerate(large) if i not in small)
            assert (whole[large].sum(axis=axes) == whole[small]).all()
    for subset, table in tables.items():
        assert np.abs(whole[subset].ravel() / 10 - table).max() <= 0.05 * table.size


def lattices():
    sizes, generator = (2, 3, 1, 2), np.random.default_rng(4)
    sets = [(0, 1), (1, 3), (2,), (0,)]
    weighted = WeightedTablesStrategy("own", sizes, sets, generator.uniform(0.3, 2, 4))
    yield weighted, TablesWorkload(sizes, [(0, 1), (3,)])
    residuals = [(), (0,), (1,), (0, 1), (3,)]
    yield (
        TablesStrategy("own", sizes, residuals, generator.uniform(0.3, 2, 5)),
        TablesWorkload(sizes, [(0, 1), (3,)]),
    )
    rows = generator.normal(size=(2, 12))
    yield IdentityAndRows("own", generator.uniform(0.1, 1, 12), rows), parse_workload("prefix:12")


LATTICES = list(lattices())


@pytest.mark.parametrize(("strategy", "queries"), LATTICES, ids=["weighted", "residual", "rows"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_sensitivities_are_those_of_every_pair_of_columns(strategy, queries, neighbours):
    made = mechanism(strategy, queries, guarantee=pml.PureDP(1.0, neighbours))
    lattice = lattice_of(made.strategy, made.workload, 20)
    cells = queries.shape[1]
    columns = [lattice.image(row).astype(object) for row in np.eye(cells, dtype=np.int64)]
    differences = columns
    if neighbours == "replace":
        differences = [a - b for a, b in itertools.combinations(columns, 2)]
    for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
        power = 1 if noise is Noise.LAPLACE else 2
        exact = max((abs(column) ** power).sum() for column in differences)
        value, tight = lattice.sensitivity(made.neighbours, noise)
        assert exact <= value <= exact * (1 + 1e-4)
        assert value == exact or not tight


@pytest.mark.parametrize(("strategy", "queries"), LATTICES, ids=["weighted", "residual", "rows"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_measurements_without_noise_give_the_answers(strategy, queries, neighbours):
    made = mechanism(strategy, queries, guarantee=pml.PureDP(1.0, neighbours), noise="laplace")
    noisy = exact_noise(made)
    assert noisy.lattice.bias == 0
    x = np.random.default_rng(6).integers(0, 10**7, queries.shape[1])
    measured = noisy.measure(x, sampler=no_noise)
    answers = noisy.lattice.estimator.answer(made.workload, measured)
    if neighbours == "replace":
        answers = answers + queries.matvec(np.full(len(x), x.sum() / len(x)))
    assert np.allclose(answers, queries.matvec(x.astype(float)), rtol=1e-9, atol=1e-3)


def test_a_release_of_too_many_answers_is_refused_by_its_size():
    keys = [{"name": name, "keys": list(range(40_000))} for name in "ab"]
    schema = {"attributes": keys}
    asked = pml.workload("a*b", schema=schema)
    made = pml.optimize(asked, pml.ApproxDP(1.0, 1e-6), noise="gaussian").best
    with pytest.raises(pml.InvalidInputError, match="answers from"):
        made.release({"a": [1], "b": [1]}, schema=schema)
