"""One rule for values of all formats: no person decides how the values of others are read."""

import csv
import itertools
import math
from datetime import date, datetime
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, count_people, draft_schema, private_draft

KEYS = {"name": "a", "keys": ["1", "true", "x", "2020-01-02", "0.7"], "outside": "other"}
CUTS = {"name": "a", "cuts": [0, 0.7, 1, 2], "outside": "other"}
SCHEMAS = [as_schema({"attributes": [column]}) for column in (KEYS, CUTS)]
VALUES = {
    "number": [1, 1.0, Decimal("1"), Decimal("1.0"), 0, 0.7, np.int64(1), np.float32(0.7), 1e-5],
    "truth value": [True, False, np.bool_(True)],
    "text": ["1", "x", "true", "True", "01", "1.0", "0.7", "1e-05", "2020-01-02 00:00:00"],
    "date": [date(2020, 1, 2), date(2020, 1, 3)],
    "": [None, math.nan, ""],
}


def objects_of_polars(values):
    return pl.DataFrame({"a": pl.Series(values, dtype=pl.Object)})


def objects_of_pandas(values):
    import pandas as pd

    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


def inferred_by_pandas(values):
    import pandas as pd

    return pd.DataFrame({"a": [0.7 if isinstance(v, np.float32) else v for v in values]})


PANDAS = find_spec("pandas") is not None
MAKERS = [objects_of_polars, *([objects_of_pandas] if PANDAS else [])]


def expected(column, value):
    """The cell of a value, by itself: what a person reads in its text."""
    text = "" if value is None or value != value else str(value)
    as_number = math.nan if text in ("", "x") or ":" in text else _float(text)
    if column is CUTS:
        inside = 0 <= as_number < 2
        return (0 if as_number < 0.7 else 1 if as_number < 1 else 2) if inside else 3
    same = {"1": 0, "1.0": 0, "true": 1, "True": 1, "x": 2, "0.7": 4}
    return 3 if text.startswith("2020-01-02") else same.get(text, 5)


def _float(text):
    try:
        return float(text)
    except ValueError:
        return math.nan


@pytest.mark.parametrize("column", [KEYS, CUTS], ids=["keys", "cuts"])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", VALUES)
def test_objects_of_one_kind_are_read_cell_by_cell(kind, make, column):
    """Python calls values equal that differ: Decimal("1.0") == 1, and 01 looks like it."""
    schema = as_schema({"attributes": [column]})
    values = [*VALUES[kind], *VALUES[""]]
    counts = np.zeros(schema.cells, dtype=int)
    np.add.at(counts, [expected(column, value) for value in values], 1)
    assert count_people(make(values), schema).tolist() == counts.tolist()


@pytest.mark.parametrize("make", MAKERS)
def test_objects_of_several_kinds_are_refused(make):
    for first, second in itertools.permutations([v for kind, v in VALUES.items() if kind], 2):
        with pytest.raises(InvalidInputError, match=r"column 'a' has a .* and a .* as text"):
            count_people(make([first[-1], None, second[0]]), SCHEMAS[0])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("last", [1, 1.0, True, Decimal("1.0"), Decimal("1")])
def test_one_person_after_a_hundred_texts_moves_nobody(make, last):
    """Libraries look at the first hundred objects of a column, and merge those that are equal."""
    schema = SCHEMAS[0]
    for before in ([1] * 50, [True] * 50, [Decimal("1.0")] * 50):
        counted = []
        for values in (["x"] * 100 + before, [*["x"] * 100, *before, last]):
            with pytest.raises(InvalidInputError, match="column 'a' has"):
                count_people(make(values), schema)
        for values in (before, [*before, last]):
            try:
                counted.append(count_people(make(values), schema))
            except InvalidInputError:
                assert isinstance(last, bool) != isinstance(before[0], bool)
        if len(counted) == 2:
            assert abs(counted[1] - counted[0]).sum() == 1


def own_csv(frame, path):
    """The .csv of a frame, by its own library where that can."""
    if not isinstance(frame, pl.DataFrame):
        frame.to_csv(path, index=False)
    elif frame.schema["a"] == pl.Object:
        with path.open("w", newline="") as handle:
            rows = (["" if value is None or value != value else value] for value in frame["a"])
            csv.writer(handle).writerows([["a"], *rows])
    else:
        frame.write_csv(path)
    return path


@pytest.mark.parametrize("make", [*MAKERS, *([inferred_by_pandas] if PANDAS else [])])
def test_one_person_moves_one_cell_and_a_frame_is_its_csv(tmp_path, make):
    draw = np.random.default_rng(7)
    pool = list(itertools.chain.from_iterable(VALUES.values()))
    accepted = 0
    for trial in range(16):
        allowed = [pool, VALUES["number"], VALUES["truth value"] + VALUES[""], VALUES["text"]]
        chosen = allowed[trial % 4]
        values = [chosen[i] for i in draw.integers(len(chosen), size=draw.integers(1, 6))]
        person, other = int(draw.integers(len(values))), chosen[int(draw.integers(len(chosen)))]
        neighbours = {
            1: [*values[:person], *values[person + 1 :]],
            2: [*values[:person], other, *values[person + 1 :]],
        }
        for schema in SCHEMAS:
            try:
                counts = count_people(frame := make(values), schema)
                assert (
                    counts.tolist()
                    == count_people(own_csv(frame, tmp_path / "a.csv"), schema).tolist()
                )
                for moved, changed in neighbours.items():
                    assert abs(counts - count_people(make(changed), schema)).sum() <= moved
                accepted += 1
            except InvalidInputError:
                continue
    assert accepted > 16


TYPED = [
    (pl.Float32, [0.7, 1.0, 0.1, None]),
    (pl.Float64, [0.7, 1.0, 2.0, None]),
    (pl.Int8, [1, 0, None]),
    (pl.Decimal(10, 1), [Decimal("0.7"), Decimal("1.0"), None]),
    (pl.Boolean, [True, False, None]),
    (pl.String, ["1", "1.0", "True", "0.7", "01", None]),
    (pl.Categorical, ["1", "1.0", "0.7", "x", None]),
    (pl.Enum(["1", "0.7", "x"]), ["1", "0.7", "x", None]),
    (pl.Date, [date(2020, 1, 2), date(2020, 1, 3), None]),
    (pl.Datetime, [datetime(2020, 1, 2), datetime(2020, 1, 2, 3), None]),
]
TYPED_BY_PANDAS = [
    ("Int64", [1, 0, None]),
    ("Float64", [0.7, 1.0, None]),
    ("float32", [0.7, 1.0, None]),
    ("boolean", [True, False, None]),
    ("string", ["1", "x", "01", None]),
    ("str", ["1", "x", "01", None]),
    ("category", ["1", "x", "01", None]),
    ("category", [1, 0, None]),
    ("datetime64[ns]", ["2020-01-02", "2020-01-03", None]),
    ("datetime64[ns]", ["2020-01-02", "2020-01-02 03:00", None]),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["keys", "cuts"])
@pytest.mark.parametrize(("dtype", "values"), TYPED + (TYPED_BY_PANDAS if PANDAS else []))
def test_columns_of_every_type_are_counted_as_their_csv(tmp_path, dtype, values, schema):
    if isinstance(dtype, str):
        import pandas as pd

        frame = pd.DataFrame({"a": pd.Series(values, dtype=dtype), "b": 1})
        sources = [frame]
    else:
        frame = pl.DataFrame({"a": pl.Series(values, dtype=dtype), "b": 1})
        frame.write_parquet(tmp_path / "people.parquet")
        frame.write_ipc(tmp_path / "people.arrow")
        sources = [frame, tmp_path / "people.parquet", tmp_path / "people.arrow"]
    counts = count_people(own_csv(frame, tmp_path / "people.csv"), schema).tolist()
    assert sum(counts) == len(values)
    for data in sources:
        assert count_people(data, schema).tolist() == counts
        draft = {**draft_schema(data), "outside": "other"}  # takes None
        assert count_people(data, as_schema(draft))[-2] == 1


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_a_number_that_is_missing_is_no_key_in_any_format(tmp_path, dtype):
    frame = pl.DataFrame({"a": pl.Series([0.7, math.nan, math.nan], dtype=dtype)})
    frame.write_parquet(tmp_path / "people.parquet")
    frame.write_ipc(tmp_path / "people.arrow")
    entry = {"name": "a", "keys": ["NaN", "0.7"], "outside": "other"}
    for data in (frame, tmp_path / "people.parquet", tmp_path / "people.arrow"):
        assert count_people(data, as_schema({"attributes": [entry]})).tolist() == [0, 1, 2]
        assert draft_schema(data)["attributes"] == [{"name": "a", "keys": ["0.7"]}]


def test_a_draft_has_a_number_once(tmp_path):
    (tmp_path / "people.csv").write_text("a\n2\n2.0\n02\nTrue\ntrue\n")
    (entry,) = draft_schema(tmp_path / "people.csv")["attributes"]
    assert entry["keys"] == ["02", "2", "true"]


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_several_kinds_are_refused(ordered):
    if PANDAS:
        import pandas as pd

        frame = pd.DataFrame({"a": pd.Categorical([1, "1"], categories=[1, "1"], ordered=ordered)})
        with pytest.raises(InvalidInputError, match=r"a number .* and a text"):
            count_people(frame, SCHEMAS[0])


def test_names_of_columns_are_those_that_a_csv_has(tmp_path):
    """Doubled quotation marks are one, in headers as in values."""
    path, columns = tmp_path / "p.csv", ['say "a"', "b,c", '"']
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([columns, ['x "y"', "1", "2"], ["z", "2", "2"]])
    schema = as_schema(
        {"attributes": [{"name": columns[0], "keys": ["z", 'x "y"']}, {"name": '"', "keys": [2]}]}
    )
    assert count_people(path, schema).tolist() == [1, 1]
    names = [entry["name"] for entry in draft_schema(path)["attributes"]]
    assert names == [columns[0], '"']  # a comma is no part of a name
    tied = as_schema({"attributes": [{"name": '"', "keys": [2]}], "person": columns[0]})
    assert count_people(path, tied).tolist() == [2]


def test_objects_of_a_frame_in_many_pieces():
    """Of which `rows` of polars 1.31 does not come back."""
    piece = pl.DataFrame({"x": pl.Series(["a", "b"], dtype=pl.Object), "y": ["F", "M"]})
    schema = as_schema(
        {"attributes": [{"name": n, "keys": k} for n, k in (("x", ["a", "b"]), ("y", ["F", "M"]))]}
    )
    assert count_people(pl.concat([piece] * 40), schema).tolist() == [40, 0, 0, 40]
    keys = [entry["keys"] for entry in draft_schema(pl.concat([piece] * 40))["attributes"]]
    assert keys == [["a", "b"], ["F", "M"]]


def test_columns_that_are_called_by_numbers_are_left_out_of_drafts():
    if PANDAS:
        import pandas as pd

        frame = pd.DataFrame({0: [1, 2], ("a", "b"): [1, 2], "a": ["x", "y"]})
        draft = draft_schema(frame)
        assert draft["attributes"] == [{"name": "a", "keys": ["x", "y"]}]
        assert "left out: 0, ('a', 'b')" in draft["notes"]
        promise = pml.ApproxDP(1, 1e-6)
        assert private_draft(frame, promise)["attributes"] == []
        with pytest.raises(InvalidInputError, match="there are 0, "):
            private_draft(frame, promise, columns=["b"])
