"""People with several rows: what is kept depends on their rows alone, and the noise covers it."""

import json
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, count_people

pytestmark = pytest.mark.filterwarnings("ignore:.*dropped")  # kinds that no key has
RNG = np.random.default_rng(8)
KEY = "a key"
ATTRIBUTES = [
    {"name": "year", "keys": ["2019", "2020", "2021"], "ordered": True},
    {"name": "kind", "keys": ["a", "b", "c", "d"], "outside": "drop"},
]


def schema(**more):
    return as_schema({"attributes": ATTRIBUTES, "person": "id", **more})


FORMS = [
    schema(rows_per_person=1),
    schema(rows_per_person=3),
    schema(rows_per_person=3, one_per="cell"),
    schema(rows_per_person=2, one_per="year"),
    schema(one_per="year"),
]


def rows_of(people):
    """A table of (id, year, kind)."""
    return pl.DataFrame(people, schema=["id", "year", "kind"], orient="row")


def some_people(count=40, most=9):
    ids = np.repeat(np.arange(count), RNG.integers(1, most, count))
    years, kinds = RNG.integers(2019, 2022, len(ids)), RNG.choice(list("abcdx"), len(ids))
    return [(f"p{i}", str(y), str(k)) for i, y, k in zip(ids, years, kinds, strict=True)]


def histogram(people, form):
    """The counts with a key that is always the same."""
    return count_people(rows_of(people), form, key=KEY)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_person_keeps_what_the_schema_allows(form):
    people = some_people()
    counts = histogram(people, form)
    expected = 0
    for person in {row[0] for row in people}:
        inside = [row[1:] for row in people if row[0] == person and row[2] != "x"]
        kinds = {None: inside, "cell": set(inside), "year": {year for year, _ in inside}}
        alone = histogram([row for row in people if row[0] == person], form)
        assert alone.sum() == min(len(kinds[form.one_per]), form.rows_per_person)
        table = alone.reshape(3, 4)
        held = Counter(inside)
        for (y, year), (k, kind) in product(enumerate(["2019", "2020", "2021"]), enumerate("abcd")):
            assert table[y, k] <= held[year, kind]
        if form.one_per == "cell":
            assert table.max(initial=0) <= 1
        if form.one_per == "year":
            assert table.sum(axis=1).max() <= 1
        expected = expected + alone
    # what a person keeps does not depend on the others
    assert (counts == expected).all()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_order_and_format_do_not_matter(form, tmp_path):
    people = some_people()
    counts = histogram(people, form)
    shuffled = [people[i] for i in RNG.permutation(len(people))]
    assert (histogram(shuffled, form) == counts).all()
    rows_of(shuffled).write_csv(tmp_path / "p.csv")
    rows_of(shuffled).write_parquet(tmp_path / "p.parquet")
    for name in ("p.csv", "p.parquet"):
        assert (count_people(tmp_path / name, form, key=KEY) == counts).all()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_person_with_forty_rows_changes_at_most_k_cells(form):
    others = some_people()
    many = [
        ("new", str(RNG.integers(2019, 2022)), str(RNG.choice(list("abcd")))) for _ in range(40)
    ]
    place = len(others) // 2
    together = [*others[:place], *many, *others[place:]]
    moved = histogram(together, form) - histogram(others, form)
    assert moved.min() >= 0
    assert moved.sum() <= form.rows_per_person


def test_the_key_is_drawn_afresh_and_rows_without_a_person_are_refused(tmp_path):
    form = schema(rows_per_person=1)
    people = [("one", "2019", kind) for kind in "abcd"]
    kept = {tuple(count_people(rows_of(people), form)) for _ in range(40)}
    assert len(kept) > 1
    for missing in (None, ""):
        with pytest.raises(InvalidInputError, match="row 5, column 'id': there is no value"):
            count_people(rows_of([*people, (missing, "2019", "a")]), form)
    (tmp_path / "p.csv").write_text("id,year,kind\n1,2019,a\n,2019,b\n")
    with pytest.raises(InvalidInputError, match="row 2, column 'id': there is no value"):
        count_people(tmp_path / "p.csv", form)
    for text in ("nan", "NaN", "NAN"):  # what programs write for a number that is missing
        wrong = rows_of([*people, (text, "2019", "a"), (text, "2020", "a")])
        wrong.write_csv(tmp_path / "p.csv")
        for data in (
            wrong,
            wrong.with_columns(pl.col("id").cast(pl.Categorical)),
            tmp_path / "p.csv",
        ):
            with pytest.raises(InvalidInputError, match=f"row 5, .*: '{text}' is a missing number"):
                count_people(data, form)
    with pytest.raises(InvalidInputError, match="no column 'id'"):
        count_people(rows_of(people).drop("id"), form)
    with pytest.raises(InvalidInputError, match="row 1, column 'year'"):
        count_people(rows_of([("one", "2022", "a")]), form)


def test_rows_are_chosen_evenly():
    form = as_schema({"attributes": [{"name": "kind", "keys": ["a", "b", "c"]}], "person": "id"})
    ids = [str(person) for person in range(10_000) for _ in range(3)]
    frame = pl.DataFrame({"id": ids, "kind": ["a", "b", "c"] * 10_000})
    kept = count_people(frame, form, key=KEY)
    assert (np.abs(kept - 10_000 / 3) < 5 * np.sqrt(10_000 * 2 / 9)).all()


def test_several_columns_tell_people_apart():
    form = as_schema(
        {"attributes": ATTRIBUTES[:1], "person": ["house", "id"], "rows_per_person": 1}
    )
    rows = [("x", "yz", "2019"), ("xy", "z", "2019"), ("xy", "z", "2020"), ("x", "yz", "2019")]
    frame = pl.DataFrame(rows, schema=["house", "id", "year"], orient="row")
    assert count_people(frame, form).sum() == 2
    assert count_people(pd.DataFrame(frame.to_dict(as_series=False)), form).sum() == 2


def test_under_replace_everybody_has_exactly_k_rows():
    form = as_schema({"attributes": ATTRIBUTES[:1], "person": "id", "one_per": "year"})
    full = [(str(i), str(year)) for i in range(5) for year in (2019, 2020, 2021)]
    frame = pl.DataFrame(full, schema=["id", "year"], orient="row")
    assert count_people(frame, form, exactly=True).sum() == 15
    with pytest.raises(InvalidInputError, match="exactly 3 rows, and 1 of 5 people have fewer"):
        count_people(frame[1:], form, exactly=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"person": ""}, "person must be the column"),
        ({"person": []}, "person must be the column"),
        ({"person": ["id", "id"]}, "person must be the column"),
        ({"person": 3}, "person must be the column"),
        ({"one_per": "month"}, 'one_per must be "cell" or an attribute'),
        ({"one_per": 3}, "one_per must be"),
    ],
)
def test_schemas_that_are_none(change, message):
    with pytest.raises(InvalidInputError, match=message):
        as_schema({"attributes": ATTRIBUTES, **change})


def test_releases_promise_all_rows_of_one_person(tmp_path):
    form = {"attributes": ATTRIBUTES, "person": "id", "one_per": "year", "rows_per_person": 9}
    schema_file, data = tmp_path / "schema.json", tmp_path / "p.csv"
    schema_file.write_text(json.dumps(form))
    rows_of(some_people()).write_csv(data)
    queries = pml.workload("year*kind", schema=schema_file)
    noisy = pml.mechanism("identity", queries, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
    published = noisy.release(data, schema=schema_file)
    promise = published.manifest["guarantee"]
    assert promise["participation"] == "3,one-per=1x3x4"
    assert promise["words"].endswith(
        "All rows of one person, up to 3 of them with one for each of 3 values, count as one"
        " record here."
    )
    stated = noisy.standard_deviations
    assert np.allclose(published.table.standard_deviation, stated, rtol=1e-4)
    row = pml.mechanism("identity", "histogram:12", noisy.guarantee, noise="gaussian")
    assert np.allclose(stated / row.standard_deviations, np.sqrt(3), rtol=1e-4)
    published.measurements.save(tmp_path / "m.npz")
    assert not pml.verify(tmp_path / "m.npz", schema=schema_file).failures
    published.save(tmp_path / "t.csv")
    verified = pml.verify(tmp_path / "t.manifest.json")
    assert not verified.failures
    # a promise about fewer rows is found
    content = json.loads((tmp_path / "t.manifest.json").read_text())
    for said in ("2,one-per=1x3x4", "3,any", None, "1,any"):
        forged = {**content, "guarantee": {**promise, "participation": said}}
        (tmp_path / "t.manifest.json").write_text(json.dumps(forged))
        wrong = {check.name for check in pml.verify(tmp_path / "t.manifest.json").failures}
        assert wrong & {"persons", "sentence"}, said
    kept = {**form, "attributes": ATTRIBUTES[:1]}
    queries = pml.workload("year", schema=kept)
    leaking = pml.PML(1.0, 0.05)
    for rows in (queries, "histogram:3"):
        with pytest.raises(InvalidInputError, match="rows_per_person must be 1 under PML, got 3"):
            pml.mechanism("identity", rows, leaking, noise="laplace").release(data, schema=kept)


def test_comparisons_promise_all_rows_of_one_person():
    asked = ["compare", "histogram:4", "--epsilon", "1", "--delta", "1e-6", "--noise", "gaussian"]
    result = CliRunner().invoke(main, [*asked, "--participation", "3,one-per=cell"])
    sentence = (
        "All rows of one person, up to 3 of them in different cells, count as one record here."
    )
    assert sum(sentence in line for line in result.output.splitlines()) == 1


def test_bounds_of_several_rows_that_need_not_meet_are_no_failure():
    """Beyond 2,048 cells those of one row need not meet either."""
    asked = ["optimize", "prefix:70*histogram:30", "--neighbours", "replace"]
    result = CliRunner().invoke(main, [*asked, "--participation", "3,one-per=cell"])
    assert result.exit_code == 0, result.output
    assert "here the bounds do not meet" in result.output
