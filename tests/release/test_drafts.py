"""Drafts of schemas: what they take from the data, and what they leave to be reviewed."""

import csv
import json
import math
from datetime import date

import numpy as np
import polars as pl
import pytest
from sex_and_age import write

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.releases import (
    as_schema,
    count_people,
    draft_schema,
    read_schema,
)


def test_a_draft_is_refused_until_it_is_reviewed(tmp_path):
    generator = np.random.default_rng(1)
    rows = [(str(generator.choice(["F", "M"])), f"{a:.1f}") for a in generator.uniform(3, 97, 200)]
    path = write(tmp_path / "people.csv", rows)
    draft = draft_schema(path)
    assert draft["attributes"][0] == {"name": "sex", "keys": ["F", "M"]}
    assert draft["attributes"][1]["cuts"] == [*range(0, 101, 10)]
    schema = as_schema(draft)
    with pytest.raises(InvalidInputError, match="draft"):
        schema.require_release(Neighbours.ADD_REMOVE)
    assert count_people(path, schema).sum() == 200
    del draft["reviewed"]
    (tmp_path / "schema.json").write_text(json.dumps(draft))
    read_schema(tmp_path / "schema.json").require_release(Neighbours.REPLACE)
    (tmp_path / "schema.json").write_text("{")
    with pytest.raises(FileError, match="not JSON"):
        read_schema(tmp_path / "schema.json")


def test_a_draft_has_the_keys_of_every_kind_of_column(tmp_path):
    frame = pl.DataFrame(
        {"b": [True, False], "f": [2.0, math.nan], "d": [date(2020, 1, 2), None], "l": [[1], [2]]}
    )
    frame.write_parquet(tmp_path / "people.parquet")
    for data in (tmp_path / "people.parquet", frame):
        keys = {entry["name"]: entry["keys"] for entry in draft_schema(data)["attributes"]}
        assert keys == {"b": ["false", "true"], "f": ["2"], "d": ["2020-01-02"]}


def test_a_draft_is_a_schema_and_says_what_it_leaves_out(tmp_path):
    names = ["sex", "estimate", "a*b", "end ", "code", "mark", "large", "none"]
    with (tmp_path / "people.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(names)
        for i in range(100):
            writer.writerow(
                ["FM"[i % 2], i % 3, i % 3, i % 3, f"{i:03}", "*xy"[i % 3], f"1_{i}", ""]
            )
    draft = draft_schema(tmp_path / "people.csv")
    assert draft["attributes"] == [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "mark", "keys": ["x", "y"]},
    ]
    assert "left out: estimate, a*b, end , code, large, none" in draft["notes"]
    assert as_schema(draft).sizes == (2, 2)
    (empty,) = [note for note in draft["notes"] if "end a release" in note]
    assert empty.startswith("rows without a key or number, in mark, end")
    with pytest.raises(InvalidInputError, match="is not a key"):
        count_people(tmp_path / "people.csv", as_schema(draft))
    for entry in draft["attributes"]:
        entry["outside"] = "other"
    assert count_people(tmp_path / "people.csv", as_schema(draft)).sum() == 100


@pytest.mark.parametrize(
    ("text", "lacks"),
    [("", True), ("nan", True), ("inf", True), ("*", True), ("old", False), ("7", False)],
)
def test_a_draft_says_where_rows_have_nothing_that_it_reads(tmp_path, text, lacks):
    with (tmp_path / "people.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["sex", "age"], *(["F", age] for age in range(60))])
        csv.writer(handle).writerow(["F", text])
    draft = draft_schema(tmp_path / "people.csv")
    assert any("without a key or number, in age," in note for note in draft["notes"]) == lacks
    if text != "7":
        return
    assert count_people(tmp_path / "people.csv", as_schema(draft)).sum() == 61


@pytest.mark.parametrize(
    "numbers",
    [
        [10**15 + i for i in range(60)],
        [-(10**18) - 1000 * i for i in range(60)],
        [2**53 - i for i in range(60)],
        [1 + i * 2.0**-52 for i in range(60)],
        [i * 5e-324 for i in range(60)],
        [10.0**300 * i for i in range(60)],
        [-1.7e308, 1.7e308, *range(58)],
        [0.1 * i for i in range(60)],
        [1e22 + 4e6 * i for i in range(60)],
    ],
    ids=lambda numbers: f"{numbers[1]}",
)
def test_drafted_cuts_hold_numbers_of_any_size(tmp_path, numbers):
    write(tmp_path / "people.csv", [(repr(number),) for number in numbers], header="a")
    (tmp_path / "schema.json").write_text(json.dumps(draft_schema(tmp_path / "people.csv")))
    schema = read_schema(tmp_path / "schema.json")
    counts = count_people(tmp_path / "people.csv", schema)
    assert counts.sum() == 60
    (attribute,) = schema.attributes
    assert len(counts) <= 60
    for low, high, label in zip(attribute.cuts, attribute.cuts[1:], attribute.labels, strict=False):
        assert label == attribute.range_label(*[attribute.labels.index(label) + i for i in (0, 1)])
        assert [*map(float, label[1:-1].split(", "))] == [low, high]


def test_a_draft_notices_columns_that_tell_others(tmp_path):
    """Lecturers tell their department; numbers that all differ tell nothing."""
    rows = [
        {"department": i % 4 // 2, "lecturer": f"l{i % 4}", "id": float(i), "sex": "FM"[i % 3 == 0]}
        for i in range(2000)
    ]
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "people.csv")
    frame.write_parquet(tmp_path / "people.parquet")
    changed = frame.with_columns(
        department=pl.when(pl.int_range(2000) == 1999).then(0).otherwise(pl.col("department"))
    )
    for data in (frame, tmp_path / "people.csv", tmp_path / "people.parquet"):
        unordered, different, told = draft_schema(data)["notes"]
        assert '"ordered": true' in unordered
        assert different.startswith("'id' has another value in each row")
        assert told.startswith("'lecturer' tells 'department'")
        assert '"levels"' in told
    assert len(draft_schema(changed)["notes"]) == 2
    assert draft_schema(frame.select("id"))["notes"] == [different]


def test_a_draft_notices_rows_without_a_value_and_numbers_of_people(tmp_path):
    frame = pl.DataFrame(
        {
            "id": [*range(1, 101)],
            "age": [None if i == 7 else i / 2 for i in range(100)],
            "sex": ["" if i == 9 else "FM"[i % 2] for i in range(100)],
            "visits": [i // 2 for i in range(100)],
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    for data in (frame, tmp_path / "people.csv"):
        _, empty, different = draft_schema(data)["notes"]
        assert empty.startswith("rows without a key or number, in age, sex, end a release")
        assert different.startswith("'id' has another value")
    draft = {**draft_schema(frame), "reviewed": True}
    with pytest.raises(
        InvalidInputError, match=r"row 8, column 'age': there is no value; 1 more rows are refused"
    ):
        count_people(frame, as_schema(draft))
    assert count_people(frame, as_schema({**draft, "outside": "drop"})).sum() == 98
