"""Queries that join two attributes of a schema by name, against people counted one by one."""

import itertools

import numpy as np
import pytest
from fast_sampler import no_noise

import pmldesign as pml
from pmldesign.errors import InvalidInputError

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 10, 20, 30]},
        {"name": "wealth", "keys": ["a", "b", "c", "d"], "ordered": True},
    ]
}
JOINS = {"at-most": lambda i, j: i + j, "within": lambda i, j: abs(i - j)}


def people():
    rng = np.random.default_rng(5)
    rows = [
        (rng.choice(["F", "M"]), int(rng.integers(0, 30)), rng.choice(["a", "b", "c", "d"]))
        for _ in range(200)
    ]
    return [dict(zip(("sex", "age", "wealth"), row, strict=True)) for row in rows]


@pytest.mark.parametrize("kind", JOINS)
def test_tables_are_those_counted_one_by_one(kind, tmp_path):
    queries = f"sex*age&wealth:{kind} + age&wealth:{kind} + sex*age"
    asked = pml.workload(queries, schema=SCHEMA)
    noisy = pml.mechanism("identity", asked, guarantee=pml.PureDP(1), noise="laplace")
    data, path = people(), tmp_path / "people.csv"
    lines = [",".join(map(str, row.values())) for row in data]
    path.write_text("\n".join(["sex,age,wealth", *lines]))
    table = noisy.release(path, schema=SCHEMA, sampler=no_noise).table
    value = [JOINS[kind](row["age"] // 10, "abcd".index(row["wealth"])) for row in data]
    levels = range(6 if kind == "at-most" else 4)
    counted = [
        sum(v <= c and row["sex"] in sex for v, row in zip(value, data, strict=True))
        for sex in ("F", "M", "FM")
        for c in levels
    ]
    estimates = np.asarray(table.estimate)
    np.testing.assert_allclose(estimates[: len(counted)], counted, atol=1e-3)
    assert len(estimates) == len(counted) + 6
    firsts = list(itertools.islice(zip(*table.labels.values(), strict=True), len(levels)))
    assert {sex for sex, _, _ in firsts} == {"F"}
    assert [int(age.split()[-1]) for _, age, _ in firsts] == [*levels]
    assert {wealth for _, _, wealth in firsts} == {"with age"}


NAMES = "abcdefgh"
LARGE = {
    "attributes": [
        {"name": name, "keys": [*map(str, range(10))], "ordered": True} for name in NAMES
    ]
}


@pytest.mark.parametrize("sampler", [no_noise, None])
def test_pairs_that_overlap_over_a_domain_of_any_size(tmp_path, sampler):
    queries = "a&b:at-most + b&c:within + 2*c:prefix + g&h:at-most"
    asked = pml.workload(queries, schema=LARGE)
    assert asked.shape == (58, 10**8)
    records = np.random.default_rng(0).integers(0, 10, (300, 8))
    lines = [",".join(map(str, record)) for record in records]
    (tmp_path / "p.csv").write_text("\n".join([",".join(NAMES), *lines]))
    noisy = pml.optimize(asked, guarantee=pml.ApproxDP(1.0, 1e-6), rel_gap=0.2).best
    options = {} if sampler is None else {"sampler": sampler}
    found = noisy.release(tmp_path / "p.csv", schema=LARGE, **options)
    a, b, c, g, h = records.T[[0, 1, 2, 6, 7]]
    counted = [(a + b <= level).sum() for level in range(19)]
    counted += [(abs(b - c) <= level).sum() for level in range(10)]
    counted += [(c <= level).sum() for level in range(10)]
    counted += [(g + h <= level).sum() for level in range(19)]
    off = np.asarray(found.table.estimate) - counted
    spread = noisy.scale * np.sqrt(noisy.variances) / np.repeat([1, 2, 1], [29, 10, 19])
    assert np.abs(off / spread).max() <= (1e-3 if sampler else 7)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("sex&wealth:within", "follow each other in the schema"),
        ("wealth&age:within", "follow each other in the schema"),
        ("age&wealth&sex:within", "follow each other in the schema"),
        ("age&nobody:within", "follow each other in the schema"),
        ("age&wealth:prefix", "none of at-most, within"),
        ("age&wealth", "none of at-most, within"),
        ("sex&age:at-most", '"ordered": true'),
        ("age*age&wealth:within", "named twice"),
        ("age&wealth:within*wealth", "named twice"),
    ],
)
def test_what_is_refused(asked, message):
    with pytest.raises(InvalidInputError, match=message):
        pml.workload(asked, schema=SCHEMA)


def test_numbers_are_not_joined():
    number = {"name": "income", "low": 0, "high": 9, "unit": 1}
    schema = {"attributes": [SCHEMA["attributes"][1], number]}
    with pytest.raises(InvalidInputError, match="is a number"):
        pml.workload("age&income:within", schema=schema)


def test_what_a_release_determines_of_a_joined_table_is_said_by_its_name(tmp_path):
    sexes = pml.workload("sex", schema=SCHEMA)
    noisy = pml.mechanism("workload", sexes, guarantee=pml.PureDP(1), noise="laplace")
    lines = [",".join(map(str, row.values())) for row in people()]
    (tmp_path / "people.csv").write_text("\n".join(["sex,age,wealth", *lines]))
    found = noisy.release(tmp_path / "people.csv", schema=SCHEMA, sampler=no_noise)
    with pytest.raises(InvalidInputError, match=r"it determines sex$"):
        found.measurements.ask("sex*age&wealth:within")
