"""From people to counts: every value in its cell, others refused by row and column."""

from datetime import date

import numpy as np
import polars as pl
import pytest
from sex_and_age import SCHEMA, write

from pmldesign.errors import FileError, InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.releases import (
    as_schema,
    count_people,
    read_histogram,
)

ROWS = [("F", "17"), ("M", "18"), ("M", "34.9"), ("F", "0"), ("M", "119")]


def test_rows_are_counted_in_their_cells(tmp_path):
    expected = [2, 0, 0, 0, 2, 1]  # F x 3 bins, M x 3 bins
    path = write(tmp_path / "people.csv", ROWS)
    schema = as_schema(SCHEMA)
    assert count_people(path, schema).tolist() == expected
    frame = pl.DataFrame(
        {"age": [float(a) for _, a in ROWS], "extra": 0, "sex": [s for s, _ in ROWS]}
    )
    assert count_people(frame, schema).tolist() == expected
    frame.write_parquet(tmp_path / "people.parquet")
    frame.write_ipc(tmp_path / "people.arrow")
    for name in ("people.parquet", "people.arrow"):
        assert count_people(tmp_path / name, schema).tolist() == expected


def test_the_histogram_is_that_of_a_plain_loop(tmp_path):
    generator = np.random.default_rng(3)
    ages, sexes = generator.uniform(0, 120, 500), generator.choice(["F", "M"], 500)
    counts = np.zeros((2, 3), dtype=int)
    for sex, age in zip(sexes, ages, strict=True):
        counts["FM".index(sex), 0 if age < 18 else 1 if age < 35 else 2] += 1
    frame = pl.DataFrame({"sex": sexes, "age": ages})
    frame.write_csv(tmp_path / "people.csv")
    for data in (frame, tmp_path / "people.csv"):
        assert (count_people(data, as_schema(SCHEMA)) == counts.ravel()).all()


@pytest.mark.parametrize("cut", [0.1, 0.30000000000000004, 1e-300, 123456789.123456789])
def test_cuts_are_exact_at_their_ends(tmp_path, cut):
    content = {"attributes": [{"name": "x", "cuts": [-1.5, cut, 1e9]}]}
    values = [-1.5, np.nextafter(cut, -1), cut, np.nextafter(cut, 1e9), np.nextafter(1e9, 0)]
    frame = pl.DataFrame({"x": values})
    frame.write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(repr, map(float, values))))
    for data in (frame, tmp_path / "x.parquet", tmp_path / "x.csv"):
        assert count_people(data, as_schema(content)).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("F", "3"), ("X", "3")], "row 2, column 'sex': 'X' is not a key; keys are F, M"),
        (
            [("F", "3"), ("M", "120")],
            r"row 2, column 'age': '120' is outside the bins \[0, 18\) to",
        ),
        ([("F", "3"), ("M", "-1"), ("X", "1")], "row 2, column 'age'"),
        ([("F", "old")], "row 1, column 'age': 'old' is not a number"),
        ([("F", "nan")], "row 1, column 'age': 'nan' is not a number"),
        ([("", "3")], "row 1, column 'sex': there is no value"),
        ([("sex", "age")], "row 1, column 'sex': 'sex' is not a key"),
        ([("F", "1_0")], "row 1, column 'age': '1_0' is not a number"),
        ([("F", "\u0663")], "row 1, column 'age': .* is not a number"),
    ],
)
def test_bad_values_are_refused_by_row_and_column(tmp_path, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        count_people(write(tmp_path / "people.csv", rows), as_schema(SCHEMA))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([date(2020, 1, 1)] * 2, "row 1, column 'age': '2020-01-01' is not a number"),
        ([[1], [2]], "column 'age' holds lists or structs"),
        ([3, None], "row 2, column 'age': there is no value"),
        ([3.0, float("nan")], "row 2, column 'age': there is no value"),
    ],
)
def test_other_types_of_columns_are_refused_by_row(tmp_path, values, message):
    frame = pl.DataFrame({"sex": ["F", "M"], "age": values})
    frame.write_parquet(tmp_path / "people.parquet")
    for data in (frame, tmp_path / "people.parquet"):
        with pytest.raises(InvalidInputError, match=message):
            count_people(data, as_schema(SCHEMA))


def test_a_missing_column_and_a_missing_file_are_named(tmp_path):
    path = write(tmp_path / "people.csv", [("F", "1")], header="sex,years")
    with pytest.raises(InvalidInputError, match="no column 'age'; columns are sex, years"):
        count_people(path, as_schema(SCHEMA))
    for header, alike in (("sex, age", "' age'"), ("sex,AGE", "'AGE'")):
        write(path, [("F", "1")], header=header)
        with pytest.raises(InvalidInputError, match=f"did you mean {alike}"):
            count_people(path, as_schema(SCHEMA))
    with pytest.raises(InvalidInputError, match="got LazyFrame; collect what is lazy"):
        count_people(pl.LazyFrame({"sex": ["F"], "age": [1]}), as_schema(SCHEMA))
    with pytest.raises(FileError, match="no such file"):
        count_people(tmp_path / "nobody.csv", as_schema(SCHEMA))
    with pytest.raises(InvalidInputError, match="data frame, got list"):
        count_people([1, 2], as_schema(SCHEMA))


def test_other_values_get_a_key_or_are_dropped(tmp_path):
    path = write(tmp_path / "people.csv", [("F", "3"), ("X", "200"), ("", "1")])
    content = {
        "attributes": [
            {"name": "sex", "keys": ["F", "M"], "outside": "other"},
            {"name": "age", "cuts": [0, 120], "outside": "drop"},
        ]
    }
    schema = as_schema(content)
    assert schema.sizes == (3, 1)
    assert count_people(path, schema).tolist() == [1, 0, 1]
    schema.require_release(Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInputError, match="depend on the data"):
        schema.require_release(Neighbours.REPLACE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": []}, "no attributes"),
        ({"attributes": 3}, 'needs "attributes"'),
        ({"attributs": 1}, "'attributs'; known are"),
        ({"rows_per_person": 0}, "rows_per_person must be a whole number"),
        ({"attributes": [{"name": "a"}]}, 'either "keys" or "cuts"'),
        ({"attributes": [{"name": "a*b", "keys": [1]}]}, "a name is printable"),
        ({"attributes": [{"name": "a ", "keys": [1]}]}, "without blanks at its ends"),
        ({"attributes": [{"name": "lower", "keys": [1]}]}, "no column of the published table"),
        ({"attributes": [{"name": "a", "keys": []}]}, "at least one key"),
        ({"attributes": [{"name": "a", "keys": [1, "1"]}]}, "different"),
        ({"attributes": [{"name": "a", "keys": [1, "1.0"]}]}, "2 and 2.0 are the same"),
        ({"attributes": [{"name": "a", "keys": [True, "TRUE"]}]}, "so are true and True"),
        ({"attributes": [{"name": "a", "keys": ["*"]}]}, "different printable"),
        ({"attributes": [{"name": "a", "cuts": [1, 1]}]}, "must increase"),
        ({"attributes": [{"name": "a", "cuts": [True, 2]}]}, "must be numbers"),
        ({"attributes": [{"name": "a", "keys": [1], "outside": 3}]}, "outside must be"),
        ({"attributes": [{"name": "a", "keys": [1], "outside": "*"}]}, "outside must be"),
        ({"attributes": [{"name": "a", "cuts": [0, 1], "outside": "a\nb"}]}, "outside must be"),
        ({"one_per": ["sex"]}, 'one_per must be "cell" or an attribute'),
        ({"one_per": {}}, 'one_per must be "cell" or an attribute'),
        ({"attributes": [{"name": "a", "keys": [1], "ordered": 1}]}, "ordered must be"),
        ({"attributes": [{"name": "a", "cuts": [1, 2], "ordered": False}]}, "true for cuts"),
        ({"attributes": [{"name": "a", "keys": [1]}] * 2}, "occurs twice"),
    ],
)
def test_wrong_schemas_are_refused(change, message):
    with pytest.raises(InvalidInputError, match=message):
        as_schema({**SCHEMA, **change})


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, -2, 3], "cell 1 .* has -2"),
        ([1, 2.5, 3], "cell 1 .* has 2.5"),
        ([1, np.nan, 3], "cell 1 .* has nan"),
        ([[1], [-2], [3]], r"cell 1 \(from 0: row 2, column 1\) has -2"),
        ([1, 2], "of 3 counts"),
        ([2**52, 2**52, 1], r"2\^53"),
        ([1, 1e300, 1], r"cell 1 .* has 1e\+300"),
        ([1, [2], 3], "rows of one length"),
        (["a", "b", "c"], "must hold real numbers"),
    ],
)
def test_wrong_histograms_are_refused(counts, message):
    with pytest.raises(InvalidInputError, match=message):
        read_histogram(counts, 3)


def test_a_histogram_may_be_a_row_a_column_or_a_file(tmp_path):
    (tmp_path / "x.csv").write_text("3\n0\n5\n")
    for data in (tmp_path / "x.csv", [3, 0, 5], np.array([[3, 0, 5]])):
        assert read_histogram(data, 3).tolist() == [3, 0, 5]
