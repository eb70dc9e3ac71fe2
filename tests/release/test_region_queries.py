"""Places that nest in a schema: levels by name, people counted, releases that agree and cover."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
from fast_sampler import fast_sampler

from pmldesign import ApproxDP, PureDP, mechanism, release, workload
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.releases import as_schema, count_people, parse_queries, prepare, read_schema
from pmldesign.strategies import equal_shares

PLACES = """code,state,county,tract,people
9,AL,Autauga,1,12
9,AL,Autauga,2,7
9,AL,Baldwin,3,1
9,DC,,4,0
9,DC,,5,3
9,VA,Fairfax,,5
"""
LEVELS = ["state", "county", "tract"]
SEX = {"name": "sex", "keys": ["F", "M"]}
AGE = {"name": "age", "cuts": [0, 18, 65]}
NESTED = {"AL": {"Autauga": ["1", "2"], "Baldwin": [3]}, "DC": {"": [4, 5]}, "VA": {"Fairfax": []}}


def place(**entries):
    return {"name": "place", "levels": LEVELS, **entries}


def schema_of(folder, *attributes, **entries):
    """A schema file, and its places in a folder beside it."""
    (folder / "geo").mkdir(exist_ok=True)
    (folder / "geo" / "places.csv").write_text(PLACES)
    entry = place(file="geo/places.csv", **entries)
    path = folder / "schema.json"
    path.write_text(json.dumps({"attributes": [*attributes, entry]}))
    return read_schema(path)


@pytest.fixture
def schema(tmp_path):
    return schema_of(tmp_path, SEX, AGE)


def people(folder, rows):
    path = folder / "people.csv"
    path.write_text("sex,tract,age\n" + "".join(f"{s},{t},{a}\n" for s, t, a in rows))
    return path


def random_people(rng, count):
    tracts = ["1", "2", "3", "4", "5", "Fairfax"]
    return [(rng.choice(["F", "M"]), rng.choice(tracts), rng.integers(0, 65)) for _ in range(count)]


ABOVE = {
    "1": ("AL", "Autauga"),
    "2": ("AL", "Autauga"),
    "3": ("AL", "Baldwin"),
    "4": ("DC", ""),
    "5": ("DC", ""),
    "Fairfax": ("VA", "Fairfax"),
}


def test_answers_are_those_of_counting(tmp_path, schema):
    """Every row of labels, against people that are counted one by one."""
    rows = random_people(np.random.default_rng(1), 300)
    histogram = count_people(people(tmp_path, rows), schema)
    asked = "state*sex + county*sex*age + tract + total + age + place*sex"
    queries = parse_queries(asked, schema)
    answers = queries.workload.matvec(histogram)
    labels = queries.labels()
    assert list(labels) == ["state", "county", "tract", "sex", "age"]
    exact = Counter()
    for sex, tract, age in rows:
        state, county = ABOVE[tract]
        lowest = "" if tract == "Fairfax" else tract
        bin_ = "[0, 18)" if age < 18 else "[18, 65)"
        exact["state", state, "*", "*", sex, "*"] += 1
        if county:
            exact["county", state, county, "*", sex, bin_] += 1
        if lowest:
            exact["tract", state, county, tract, "*", "*"] += 1
        exact["total", "*", "*", "*", "*", "*"] += 1
        exact["age", "*", "*", "*", "*", bin_] += 1
        exact["place", state, county, lowest or "*", sex, "*"] += 1
    parts = [part.name for part in queries.workload.parts]
    names = [text.partition("*")[0] for text in parts]
    kinds = np.repeat(names, [count for _, count in queries.workload.part_rows])
    found = dict(zip(zip(kinds, *labels.values(), strict=True), answers, strict=True))
    assert len(found) == len(answers)
    assert {key: value for key, value in found.items() if value} == exact


def test_nested_keys_are_the_same_as_a_file(schema):
    other = as_schema({"attributes": [SEX, AGE, place(keys=NESTED)]})
    assert other.digest == schema.digest
    assert other.attributes[0].labels == schema.attributes[0].labels
    without = as_schema({"attributes": [SEX, AGE]})
    assert without.digest != schema.digest


def test_all_levels_and_weights(schema):
    every = parse_queries("place:levels*sex", schema).workload
    assert [part.name for part in every.parts] == [
        "total*sex",
        "state*sex",
        "county*sex",
        "tract*sex",
    ]
    weighted = parse_queries("2*state*sex + 0.5*tract", schema).workload
    plain = parse_queries("state*sex + tract", schema).workload
    np.testing.assert_allclose(weighted.unweighted.to_dense(), plain.to_dense())
    scales = np.repeat([2.0, 0.5], [count for _, count in plain.part_rows])
    np.testing.assert_allclose(weighted.to_dense(), scales[:, None] * plain.to_dense())
    assert weighted.name == "2*state*sex + 0.5*tract"


def test_a_single_outermost_place_is_the_root(tmp_path):
    keys = {"US": {"AL": ["a", "b"], "VA": ["c"]}}
    entry = {"name": "place", "levels": ["nation", "state", "county"], "keys": keys}
    queries = parse_queries("nation*sex + state", as_schema({"attributes": [entry, SEX]}))
    assert queries.labels()["nation"] == ["US"] * 4
    assert queries.labels()["state"] == ["*", "*", "AL", "VA"]
    with pytest.raises(InvalidInputError, match="'total' twice"):
        parse_queries("nation + total", as_schema({"attributes": [entry]})).workload  # noqa: B018


def test_unknown_places_are_refused_dropped_or_taken_together(tmp_path):
    data = people(tmp_path, [("F", "1", 3), ("M", "77", 3), ("M", "", 3)])
    with pytest.raises(InvalidInputError, match="row 2, column 'tract': '77' is not a key"):
        count_people(data, schema_of(tmp_path, SEX, AGE))
    assert count_people(data, schema_of(tmp_path, SEX, AGE, outside="drop")).sum() == 1
    assert count_people(data, schema_of(tmp_path, SEX, AGE, outside="3")).sum() == 3
    elsewhere = schema_of(tmp_path, SEX, AGE, outside="elsewhere")
    queries = parse_queries("state", elsewhere)
    answers = queries.workload.matvec(count_people(data, elsewhere))
    assert dict(zip(queries.labels()["state"], answers, strict=True))["elsewhere"] == 2


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (place(), "either"),
        (place(file="geo/places.csv", keys={}), "either"),
        (place(file=3), "either"),
        ({"name": "place", "levels": [], "keys": {}}, "levels must be"),
        ({"name": "place", "levels": ["a", "a"], "keys": {}}, "levels must be"),
        ({"name": "place", "levels": ["a*b", "c"], "keys": {"x": ["y"]}}, "without"),
        ({"name": "place", "levels": ["state", "town"], "file": "geo/places.csv"}, "'town'"),
        ({"name": "place", "levels": ["a", "b"], "keys": {"x": {"y": []}}}, "keys nest"),
        ({"name": "place", "levels": ["a", "b"], "keys": {"x": ["1"], "y": ["1.0"]}}, "told apart"),
        ({"name": "state", "levels": LEVELS, "keys": NESTED}, "'state' occurs twice"),
        ({"name": "sex", "levels": LEVELS, "keys": NESTED}, "'sex' occurs twice"),
        (place(keys=NESTED, ordered=True), "'ordered'"),
        (place(keys=NESTED, outside=3), "outside must be"),
    ],
)
def test_bad_levels_are_refused(tmp_path, entry, message):
    schema_of(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        as_schema({"attributes": [SEX, entry]}, tmp_path)


def test_other_bad_schemas(tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.csv"):
        as_schema({"attributes": [place(file="nowhere.csv")]}, tmp_path)
    other = {"name": "work", "levels": ["a", "b"], "keys": {"x": ["y"]}}
    with pytest.raises(InvalidInputError, match="both have levels"):
        as_schema({"attributes": [place(keys=NESTED), other]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("town", "no attribute or level 'town'"),
        ("state*county", "names 'state' and 'county'"),
        ("state*sex*sex", "named twice"),
        ("state + state", "'state' twice"),
        ("county*age:prefix + state*age", "'age' is for prefix:2 and histogram:2; write the same"),
        ("county*sex:prefix", '"ordered": true'),
        ("county*age:median", "'median' is none of histogram"),
        ("county*sex:share", "asked for counts or ranges"),
        ("state:levels", "write the name of a level"),
        ("place:prefix", "place:levels"),
        ("0*state", "weight"),
        ("2x*state", "weight"),
    ],
)
def test_bad_queries_are_refused(schema, text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_queries(text, schema).workload  # noqa: B018


TEXT = "state*sex + county*sex*age + total"


@pytest.mark.parametrize("guarantee", [PureDP(1.0), ApproxDP(1.0, 1e-6, neighbours="replace")])
def test_released_parts_agree_to_the_last_digit(tmp_path, schema, guarantee):
    """Sex over ages, counties over states, states over the nation: as numbers that were printed."""
    data = people(tmp_path, random_people(np.random.default_rng(2), 500))
    asked = "total + state*sex + place*sex*age + county*age + county"
    queries = workload(asked, schema=schema)
    noisy = mechanism(equal_shares(queries), queries, guarantee=guarantee)
    release(noisy, data, schema=schema).save(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    digits = {len(row["estimate"].partition(".")[2]) for row in rows}
    assert len(digits) == 1
    values = {
        tuple(row[name] for name in (*LEVELS, "sex", "age")): round(
            float(row["estimate"]) * 10 ** digits.copy().pop()
        )
        for row in rows
    }
    sums = Counter()
    for (state, county, tract, sex, age), value in values.items():
        if "*" in (sex, age) or (tract == "*" and county != "Fairfax"):
            continue
        sums[state, "*", "*", sex, "*"] += value
        sums["*", "*", "*", "*", "*"] += value
        if county:
            sums[state, county, "*", "*", "*"] += value
            sums[state, county, "*", "*", age] += value
    assert len(sums) == 3 * 2 + 1 + 3 * 3
    for key, value in sums.items():
        assert values[key] == value


def test_weights_are_of_errors_and_not_of_what_is_published(tmp_path, schema):
    rows = random_people(np.random.default_rng(5), 200)
    queries = workload("10*state + tract", schema=schema)
    noisy = mechanism(equal_shares(queries), queries, guarantee=ApproxDP(1.0, 1e-6))
    prepared = prepare(noisy, schema=schema, sampler=fast_sampler(6))
    table = prepared.publish(prepared.counts(people(tmp_path, rows)), fast_sampler(6)).table
    assert table.labels["state"][:3] == ["AL", "DC", "VA"]
    assert abs(table.estimate[:3].sum() - 200) < 100


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_cover_at_every_level(tmp_path, schema, noise):
    """Of 100 releases, with a sampler of NumPy: binomial, three standard deviations and a half."""
    rows = random_people(np.random.default_rng(3), 200)
    data = people(tmp_path, rows)
    queries = workload(TEXT, schema=schema)
    exact = queries.matvec(count_people(data, schema).astype(float))
    guarantee = ApproxDP(1.0, 1e-6) if noise == "gaussian" else PureDP(1.0)
    noisy = mechanism(equal_shares(queries), queries, guarantee=guarantee, noise=noise)
    sampler = fast_sampler(4)
    prepared = prepare(noisy, schema=schema, sampler=sampler)
    counts = prepared.counts(data)
    held = np.zeros(len(exact))
    times = 100
    for _ in range(times):
        table = prepared.publish(counts, sampler).table
        held += (table.lower <= exact) & (exact <= table.upper)
    for part in np.split(held, np.cumsum([count for _, count in queries.part_rows])[:-1]):
        share = part.mean() / times
        assert abs(share - 0.95) <= 3.5 * np.sqrt(0.95 * 0.05 / times)


@pytest.mark.parametrize("text", ["2*sex*age + 0.5*age + sex", "3*sex", "2*sex*age:prefix + age"])
def test_weights_of_attributes_without_levels(text):
    """Each product times its weight, the queries as without; names may begin with digits."""
    twice = {"name": "2nd", "keys": ["y", "n"]}
    schema = as_schema({"attributes": [SEX, AGE, twice]})
    weighted = parse_queries(text, schema).workload
    products = [part.strip() for part in text.split("+")]
    heads = [part.partition("*") for part in products]
    numbers = [float(head) if head[0].isdigit() else 1.0 for head, _, _ in heads]
    bare = [
        rest if head[0].isdigit() else part
        for part, (head, _, rest) in zip(products, heads, strict=True)
    ]
    rows = [parse_queries(part, schema).workload.to_dense() for part in bare]
    exact = [number * matrix for number, matrix in zip(numbers, rows, strict=True)]
    np.testing.assert_allclose(weighted.to_dense(), np.vstack(exact))
    np.testing.assert_allclose(weighted.unweighted.to_dense(), np.vstack(rows))
    assert weighted.unweighted.name == " + ".join(bare)
    assert parse_queries("2nd*sex", schema).workload.shape == (4, 8)
