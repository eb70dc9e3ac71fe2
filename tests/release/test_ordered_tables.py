"""Releases of running sums and ranges in tables over domains of which no histogram is formed."""

import numpy as np
import polars as pl
import pytest
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.privacy import Neighbours, Noise
from pmldesign.releases import (
    as_schema,
    exact_noise,
    half_widths,
    lattice_of,
    parse_queries,
    prepare,
)
from pmldesign.strategies import (
    WeightedTablesStrategy,
    kinds_of_tables,
)
from pmldesign.workloads import RECORDS, TablesWorkload, parse_workload

SIZES = (12, 3, 10, 6, 6, 6, 6, 6, 6)  # 1.7e7 cells
NAMES = ("age", "sex", "income", "a", "b", "c", "d", "e", "f")
ATTRIBUTES = [
    {"name": "age", "cuts": [*range(13)]},
    {"name": "sex", "keys": ["F", "M", "X"]},
    {"name": "income", "cuts": [*range(11)]},
    *({"name": name, "keys": [*range(6)]} for name in NAMES[3:]),
]
SCHEMA = {"attributes": ATTRIBUTES}
TEXT = "age:prefix*sex + age:prefix*income:all-range + a*b + income:all-range"
GUARANTEES = [
    pml.PureDP(1.0),
    pml.ApproxDP(1.0, 1e-6),
    pml.ApproxDP(1.0, 1e-6, pml.Neighbours.REPLACE),
]


@pytest.fixture(scope="module")
def people():
    generator = np.random.default_rng(0)
    codes = {n: generator.integers(0, size, 2000) for n, size in zip(NAMES, SIZES, strict=True)}
    return pl.DataFrame({**codes, "sex": np.array(["F", "M", "X"])[codes["sex"]]})


def counted(people, *names):
    codes = [people[name].to_numpy() for name in names]
    codes = [np.searchsorted(["F", "M", "X"], c) if c.dtype.kind not in "iu" else c for c in codes]
    counts = np.zeros([SIZES[NAMES.index(name)] for name in names])
    np.add.at(counts, tuple(codes), 1)
    return counts


def made(guarantee, text=TEXT):
    queries = pml.workload(text, schema=SCHEMA)
    noise = "gaussian" if isinstance(guarantee, pml.ApproxDP) else "laplace"
    return pml.optimize(queries, guarantee=guarantee, noise=noise, effort="quick").best


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_running_sums_and_ranges_are_those_of_the_people_and_agree(guarantee, people):
    prepared = prepare(made(guarantee), schema=SCHEMA)
    counts = prepared.counts(people)
    exact = prepared.publish(counts, no_noise).table
    first, second, third, fourth = np.split(exact.estimate, [36, 36 + 660, 732])
    assert np.allclose(first.reshape(12, 3), counted(people, "age", "sex").cumsum(0), atol=1e-3)
    assert np.allclose(third, counted(people, "a", "b").ravel(), atol=1e-3)
    where = parse_workload("all-range:10")
    of_income = counted(people, "income")
    assert np.allclose(fourth, where.matvec(of_income), atol=1e-3)
    of_both = counted(people, "age", "income").cumsum(0)
    expected = np.array([where.matvec(row) for row in of_both])
    assert np.allclose(second.reshape(12, 55), expected, atol=1e-3)
    noisy = prepared.publish(counts, fast_sampler(1)).table
    whole = np.rint(noisy.estimate * 10.0**noisy.decimals).astype(int)
    first, second, third, fourth = np.split(whole, [36, 36 + 660, 732])
    assert (second.reshape(12, 55)[-1] == fourth).all()  # all ages
    labels = noisy.labels
    everything = [i for i, text in enumerate(labels["income"][732:]) if text == "*"]
    assert first.reshape(12, 3)[-1].sum() == third.sum() == fourth[everything[0]]
    assert labels["age"][:6:3] == ["[0, 1)", "[0, 2)"]
    assert labels["sex"][:3] == ["F", "M", "X"]
    # of one release the parts inside are 0.74 to 1, as its errors go together
    several = [prepared.publish(counts, fast_sampler(seed)).table.estimate for seed in range(30)]
    inside = np.abs(several - exact.estimate) <= prepared.widths + 1e-3
    assert inside.mean() > 0.9


def test_intervals_of_laplace_noise_cover_as_often_as_they_say():
    """Against quantiles of simulated noise, for the narrowest and the widest queries."""
    prepared = prepare(made(pml.PureDP(1.0), "age:prefix*sex + income:all-range"), schema=SCHEMA)
    noise = prepared.noise
    assert isinstance(noise.lattice.estimator, WeightedTablesStrategy)
    sample, runs = np.random.default_rng(3), 3000
    answers = []
    for _ in range(runs):
        drawn = sample.laplace(0, noise.scale, noise.lattice.units.size) * noise.lattice.units
        answers.append(noise.lattice.estimator.answer(noise.mechanism.workload, drawn))
    covered = (np.abs(answers) <= prepared.widths).mean()
    assert abs(covered - 0.95) < 0.006  # of a run dependent; the design depends on the clock
    ratios = prepared.widths / noise.of_answers.deviations
    assert 1.9 < ratios.min() <= ratios.max() < 2.2  # the bound by moments has 4.13


def products(generator, *, public):
    sizes = (3, 4, 2)
    designs = {1: np.vstack([np.eye(4), generator.normal(size=(2, 4))])}
    if generator.random() < 0.5:
        designs[0] = generator.normal(size=(5, 3))
    sets = [(0, 1), (1, 2), (0,), (2,)] if generator.random() < 0.5 else [(0, 1, 2), (), (1,)]
    weights = generator.uniform(0.3, 1, len(sets))
    strategy = WeightedTablesStrategy("own", sizes, sets, weights, designs)
    return strategy.beside(RECORDS) if public else strategy


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rows_by_kind_are_those_of_the_pseudo_inverse(seed, public):
    strategy = products(np.random.default_rng(seed), public=public)
    tables = TablesWorkload([3, parse_workload("prefix:4"), 2], [(0, 1), (2,)], [1.0, 1.7])
    dense = tables.to_dense()
    if public:
        dense = dense - dense.mean(axis=1, keepdims=True)
    exact = np.sort(np.abs(dense @ np.linalg.pinv(strategy.matrix, 1e-11)))
    rows = []
    for part in kinds_of_tables(strategy, tables, 10**6, 37):
        kinds = [
            np.sort(np.repeat(values, counts.astype(int)))
            for chunk in part.chunks
            for values, counts in zip(*chunk, strict=True)
        ]
        rows += [kinds[place] for place in part.places]
    assert np.allclose(rows, exact, atol=1e-12)
    assert kinds_of_tables(strategy, tables, 10, 37) is None


@pytest.mark.parametrize("neighbours", [*Neighbours])
@pytest.mark.parametrize("seed", range(3))
def test_no_two_neighbours_are_farther_apart_than_the_sensitivity(seed, neighbours):
    """The map to the lattice rounds, so that differences depend on where they start."""
    generator = np.random.default_rng(seed)
    strategy = products(generator, public=False)
    lattice = lattice_of(strategy, None, 20)
    cells = strategy.cells
    units = np.eye(cells, dtype=np.int64)
    for x in generator.integers(0, 1000, (3, cells)):
        images = [lattice.image(x + unit).astype(object) for unit in units]
        if neighbours is Neighbours.ADD_REMOVE:
            differences = [image - lattice.image(x) for image in images]
        else:
            differences = [a - b for a in images for b in images]
        for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
            power = 1 if noise is Noise.LAPLACE else 2
            exact = max((abs(row) ** power).sum() for row in differences)
            value, _ = lattice.sensitivity(neighbours, noise)
            assert exact <= value <= exact * (1 + 1e-3)
        measured = lattice.image(x).astype(float) * lattice.units
        assert np.allclose(measured, strategy.matrix @ x, atol=2 * lattice.bias)


def test_a_histogram_of_ordered_tables_is_estimated_from_measurements():
    queries = parse_workload("marginals:prefix24,20,prefix20,ways=2")  # 9600 cells
    best = pml.optimize(queries, guarantee=pml.PureDP(1.0), noise="laplace", effort="quick").best
    x = np.random.default_rng(5).integers(0, 10**6, queries.shape[1])
    exact = best.release(x, sampler=no_noise).table.estimate
    assert np.allclose(exact, queries.matvec(x.astype(float)), rtol=1e-9, atol=1e-2)
    noise = exact_noise(best)
    ratios = half_widths(noise.of_answers, 0.95) / noise.of_answers.deviations
    assert isinstance(noise.lattice.estimator, WeightedTablesStrategy)
    assert ratios.max() < 2.3


def test_marginals_are_written_with_the_sizes_of_the_schema():
    schema = as_schema(SCHEMA)
    text = "marginals:prefix12,3,10,6,6,6,6,6,6,ways=2"
    queries = parse_queries(text, schema)
    assert queries.workload.subsets == parse_workload(text).subsets
    labels = queries.labels()
    assert labels["age"][:7:3] == ["[0, 1)", "[0, 2)", "[0, 3)"]
    assert len(labels["sex"]) == queries.workload.shape[0]
    with pytest.raises(pml.InvalidInputError, match="is not about attributes with 12,3,10"):
        parse_queries("marginals:2,3,ways=1", schema)
    several = text + "+marginals:all-range12,3,10,6,6,6,6,6,6,ways=1"
    asked = parse_queries(several.replace(",ways=1", ",upto=1"), schema).workload
    assert [len(asked.ways[(i,)]) for i in range(9)] == [2, 1, 1, 1, 1, 1, 1, 1, 1]
    with pytest.raises(pml.InvalidInputError, match="has one twice"):
        _ = parse_queries("age:prefix*sex + sex*age:prefix", schema).workload


SEVERAL = "age:prefix*sex + age:all-range + age*income + income:prefix"


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_an_attribute_asked_in_several_ways(guarantee, people):
    prepared = prepare(made(guarantee, SEVERAL), schema=SCHEMA)
    counts = prepared.counts(people)
    exact = prepared.publish(counts, no_noise).table
    ages = counted(people, "age")
    expected = [
        counted(people, "age", "sex").cumsum(0).ravel(),
        parse_workload("all-range:12").matvec(ages),
        counted(people, "age", "income").ravel(),
        counted(people, "income").cumsum(),
    ]
    assert np.allclose(exact.estimate, np.concatenate(expected), atol=1e-3)
    noisy = prepared.publish(counts, fast_sampler(1)).table
    whole = np.rint(noisy.estimate * 10.0**noisy.decimals).astype(int)
    sums, ranges, both, last = np.split(whole, [36, 36 + 78, 36 + 78 + 120])
    assert (both.reshape(12, 10).sum(axis=0).cumsum() == last).all()
    of_age = both.reshape(12, 10).sum(axis=1)
    assert (sums.reshape(12, 3).sum(axis=1) == of_age.cumsum()).all()
    assert np.allclose(ranges, parse_workload("all-range:12").matvec(of_age.astype(float)))
    assert noisy.labels["age"][36:49:12] == ["[0, 1)", "[1, 2)"]
