"""Quantiles by group: of the data without noise, covered by their intervals, refused in words."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, prepare

CUTS = [0, 10, 20, 40, 80]
AGE = {"name": "age", "cuts": CUTS, "outside": "drop"}
SEX = {"name": "sex", "keys": ["F", "M"]}


def schema_of(*attributes):
    return as_schema({"attributes": list(attributes)})


def designed(queries, schema, guarantee=None, noise="laplace", **options):
    asked = pml.workload(queries, schema=schema)
    chosen = pml.mechanism("identity", asked, guarantee=guarantee or pml.PureDP(1.0), noise=noise)
    return prepare(chosen, schema=schema, **options)


def quantile(values, q, cuts):
    """Of values spread evenly in their bins, by a plain loop."""
    below, target = 0.0, q * len(values)
    for low, high in itertools.pairwise(cuts):
        inside = sum(low <= value < high for value in values)
        if inside and below + inside >= target:
            return low + (target - below) / inside * (high - low)
        below += inside
    raise AssertionError


def test_without_noise_they_are_those_of_the_people():
    rng = np.random.default_rng(1)
    people = pl.DataFrame({"sex": rng.choice(["F", "M"], 400), "age": rng.integers(0, 80, 400)})
    schema = schema_of(SEX, AGE)
    plan = designed("sex*age:quantile(0.1,0.5) + age:quantile(0.99) + sex", schema)
    table = plan.publish(plan.counts(people), no_noise).table
    of_sex = {sex: people.filter(pl.col("sex") == sex)["age"].to_list() for sex in "FM"}
    expected = [quantile(of_sex[sex], q, CUTS) for sex in "FM" for q in (0.1, 0.5)]
    expected += [quantile(people["age"].to_list(), 0.99, CUTS), *map(len, of_sex.values())]
    np.testing.assert_allclose(table.estimate, expected, atol=1e-5)
    assert table.labels["age"] == [
        "quantile 0.1", "quantile 0.5", "quantile 0.1", "quantile 0.5", "quantile 0.99", "*", "*",
    ]  # fmt: skip
    assert plan.manifest["queries"] == 7
    assert plan.manifest["asked"] == 2 * 2 * 5 + 5 + 2


def test_of_numbers_with_cuts_they_are_those_of_the_bins():
    entry = {"name": "income", "low": 0, "high": 100, "unit": 1, "cuts": [10, 50]}
    schema = schema_of(SEX, entry)
    values = [3, 5, 20, 30, 40, 45, 60, 99]
    people = pl.DataFrame({"sex": ["F"] * 8, "income": values})
    plan = designed("sex*income:quantile(0.5) + sex*income:mean", schema)
    table = plan.publish(plan.counts(people), no_noise).table
    assert table.estimate[0] == pytest.approx(quantile(values, 0.5, [0, 10, 50, 100]))
    assert table.estimate[2] == pytest.approx(np.mean(values), abs=1e-4)
    assert math.isnan(table.estimate[1])  # no men


@pytest.mark.parametrize(
    ("noise", "guarantee"),
    [("laplace", pml.PureDP(0.3)), ("gaussian", pml.ApproxDP(0.5, 1e-6))],
)
def test_intervals_cover_as_often_as_they_say(noise, guarantee):
    rng = np.random.default_rng(2)
    schema = schema_of({"name": "state", "keys": list(range(40))}, AGE)
    cells = rng.integers(50, 150, (40, 4))
    people = [np.repeat([5, 15, 25, 50], row) for row in cells]
    truth = np.array([quantile(values, q, CUTS) for values in people for q in (0.25, 0.5)])
    plan = designed("state*age:quantile(0.25,0.5)", schema, guarantee, noise)
    sample, inside = fast_sampler(3), []
    for _ in range(50):
        table = plan.publish(cells.ravel(), sample).table
        assert (table.lower <= table.estimate).all()
        assert (table.estimate <= table.upper).all()
        inside.append((table.lower <= truth) & (truth <= table.upper))
    assert 0.94 < np.mean(inside) < 0.96  # 4,000 intervals


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cells", [[0, 0, 0], [1, 0, 0], [0, 0, 500], [300, 5, 0], [0, 400, 0]])
def test_bins_without_an_end_have_no_estimate_inside(cells):
    schema = schema_of({"name": "age", "cuts": [None, 18, 65, None]})
    plan = designed("age:quantile(0.5)", schema)
    table = plan.publish(np.array(cells), no_noise).table
    (estimate,), (lower,), (upper,) = table.estimate, table.lower, table.upper
    middle = int(np.argmax(np.cumsum(cells) * 2 >= sum(cells))) if sum(cells) else 0
    if middle == 1:
        assert 18 <= lower < estimate < upper <= 65
    else:
        assert math.isnan(estimate)
        assert math.isnan(lower) or middle == 2
        assert math.isnan(upper) or middle == 0
    for seed in range(20):
        noisy = plan.publish(np.array(cells), fast_sampler(seed)).table
        for column in (noisy.estimate, noisy.lower, noisy.upper):
            assert np.isnan(column).all() or ((column >= 18).all() and (column <= 65).all())


def test_one_bin_and_ties_of_empty_bins():
    plan = designed("age:quantile(0.5)", schema_of({"name": "age", "cuts": [0, 10]}))
    assert plan.publish(np.array([7]), no_noise).table.estimate == pytest.approx(5)
    schema = schema_of({"name": "age", "cuts": [0, 1, 2, 3, 4]})
    plan = designed("age:quantile(0.5)", schema)
    table = plan.publish(np.array([4, 0, 0, 4]), no_noise).table
    assert table.estimate == pytest.approx(1)  # any number from 1 to 3 has half of them below
    assert table.lower[0] <= 1
    assert table.upper[0] >= 3


def test_they_are_answered_from_measurements_and_verified(tmp_path):
    schema = schema_of(SEX, AGE)
    people = pl.DataFrame({"sex": ["F", "M"] * 200, "age": list(range(80)) * 5})
    asked = pml.workload("sex*age", schema=schema)
    made = pml.optimize(asked, pml.PureDP(1.0), effort="quick").best
    release = made.release(people, schema=schema)
    table = release.measurements.ask("sex*age:quantile(0.5)", schema=schema).table
    assert (np.abs(table.estimate - 40) < 10).all()
    plan = designed("sex*age:quantile(0.5)", schema)
    published = plan.publish(plan.counts(people), fast_sampler(1))
    assert published.manifest["asked"] == 10
    own = pml.mechanism(
        "identity", pml.workload("sex*age:quantile(0.5)", schema=schema), guarantee=pml.PureDP(1.0)
    ).release(people, schema=schema)
    own.save(tmp_path / "t.csv")
    own.measurements.save(tmp_path / "m.npz")
    for name in ("t.manifest.json", "m.npz"):
        assert not pml.verify(tmp_path / name).failures


@pytest.mark.parametrize(
    ("attributes", "queries", "message"),
    [
        ([AGE], "age:quantile(1)", r"quantiles are in \(0, 1\), such as age:quantile"),
        ([AGE], "age:quantile()", r"quantiles are in \(0, 1\)"),
        ([AGE], "age:quantile(x)", r"quantiles are in \(0, 1\)"),
        ([SEX], "sex:quantile(0.5)", "give it cuts"),
        ([{**AGE, "outside": "rest"}], "age:quantile(0.5)", "the key 'rest' have no place"),
        ([{"name": "born", "cuts": ["2000-01-01", None]}], "born:quantile(0.5)", "give it cuts"),
        ([AGE, SEX], "age:quantile(0.5)*sex:share", "one mean, share or quantile"),
        (
            [{"name": "income", "low": 0, "high": 9, "unit": 1}],
            "income:quantile(0.5)",
            "give it cuts",
        ),
    ],
)
def test_what_has_no_quantiles_is_refused(attributes, queries, message):
    with pytest.raises(InvalidInputError, match=message):
        pml.workload(queries, schema=schema_of(*attributes))


def test_the_accuracy_is_told_for_each_table():
    entry = {"name": "income", "low": 0, "high": 100, "unit": 1}
    place = {"name": "place", "levels": ["state", "county"], "keys": {"A": ["a", "b"], "B": ["c"]}}
    people = pl.DataFrame({"sex": ["F", "M"] * 9, "age": [15] * 18, "income": [50] * 18})
    schema = as_schema({"attributes": [SEX, AGE, entry], "suppress": {"relative_error": 0.5}})
    plan = designed("sex*age + total + sex*income:mean", schema)
    table = plan.publish(plan.counts(people), no_noise).table
    found = {each.table: each for each in table.accuracy}
    assert [*found] == ["sex*age", "total", "sex*income:mean"]
    assert [each.rows for each in found.values()] == [8, 1, 2]
    assert found["sex*age"].without == 6  # cells without people, of 8
    half = (table.upper - table.lower) / 2
    assert found["sex*age"].typical == np.median(half[:8])
    assert found["sex*income:mean"].largest == half[9:].max()
    nested = schema_of(place, SEX)
    plan = designed("state*sex + county", nested)
    rows = plan.publish(np.arange(6), no_noise).table.accuracy
    assert [(each.table, each.rows) for each in rows] == [
        ("state*sex", 4), ("county", 3),
    ]  # fmt: skip
