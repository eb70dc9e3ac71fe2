"""Who is one person: equal numbers, instants and texts, in every format and type of column."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, count_people, people_of, query_text

FORM = as_schema({"attributes": [{"name": "kind", "keys": ["a", "b"]}], "person": "id"})
TEXTS = {
    "0": ["0", "0.0", "-0", "-0.0", "0.000"],
    "1": ["1", "1.0", "1.00"],
    "100": ["100", "100.0"],
    "-7": ["-7", "-7.0"],
    **{text: [text] for text in ("01", "01.5", "1.1", "1.10", "7e10", "1e5", "a", "A", " 1", "1.")},
    "2.5": ["2.5"],
    "9007199254740993": ["9007199254740993", "9007199254740993"],
    "9007199254740992": ["9007199254740992"],
}
"""Persons, with the texts that each has in a .csv or a column of texts."""


def people(data, form=FORM):
    """How many people there are, each of whom keeps one row."""
    return int(count_people(data, form).sum())


def table(ids, kinds="ab"):
    return {"id": ids, "kind": [kinds[place % 2] for place in range(len(ids))]}


def pandas_of(frame):
    """The same in pandas, without a library between."""
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns}).astype(
        {name: "float32" for name, kind in frame.schema.items() if kind == pl.Float32}
    )


def test_texts_of_a_whole_number_are_one_person(tmp_path):
    ids = [text for texts in TEXTS.values() for text in texts]
    frame = pl.DataFrame(table(ids))
    frame.write_csv(tmp_path / "p.csv")
    frame.write_parquet(tmp_path / "p.parquet")
    coded = frame.with_columns(pl.col("id").cast(pl.Categorical))
    coded.write_parquet(tmp_path / "coded.parquet")
    pandas = pd.DataFrame(table(ids))
    for data in (
        *(tmp_path / name for name in ("p.csv", "p.parquet", "coded.parquet")),
        frame,
        coded,
        pandas,
        pandas.astype({"id": object}),
        pandas.astype({"id": "category"}),
    ):
        assert people(data) == len(TEXTS)
        for texts in TEXTS.values():  # nobody has a second row
            assert people(pl.DataFrame(table(texts))) == 1


FLOATING = [
    (pl.Float64, [1.0, 2.0, None]),
    (pl.Float64, [1.0, 2.0**53]),
    (pl.Float64, [1.0, np.nan]),
    (pl.Float32, [1.0, 2.0]),
    (pl.Float32, [2.0**24, 2.0**24 + 1]),
]


@pytest.mark.parametrize(("kind", "ids"), FLOATING)
def test_numbers_in_floating_point_are_refused_on_every_path(tmp_path, kind, ids):
    """2^24 + 1 is 2^24 in 32 bits: rows of several people would be one person's."""
    frame = pl.DataFrame(table(ids), schema_overrides={"id": kind})
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_ipc(tmp_path / "p.arrow")
    frame.write_ipc_stream(tmp_path / "stream.arrow")
    numpy = np.float64 if kind == pl.Float64 else np.float32
    numbers = np.array([np.nan if x is None else x for x in ids], dtype=numpy)
    pandas = pd.DataFrame(table(numbers))
    with duckdb.connect(str(tmp_path / "p.db")) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{tmp_path}/p.parquet'")
    sources = [tmp_path / name for name in ("p.parquet", "p.arrow", "stream.arrow")]
    sources += [frame, pandas, pandas.astype({"id": "Float64"}), pandas.astype({"id": object})]
    sources += [pandas.astype({"id": "category"}), frame.with_columns(objects(frame["id"]))]
    sources += [pd.DataFrame(table(np.array([2048, 2049], dtype=np.float16)))]
    for data in [*sources, f"duckdb:///{tmp_path}/p.db#people"]:
        with pytest.raises(InvalidInputError, match="column 'id' has numbers in floating point"):
            people(data)
    text = query_text(FORM, "duckdb", "people")  # where no program looks at types
    with duckdb.connect(str(tmp_path / "p.db"), read_only=True) as connection:
        remarks = {row[-1] for row in connection.execute(text).fetchall()}
    assert remarks == {"no person"}


def objects(column):
    return pl.Series(column.name, column.to_list(), dtype=pl.Object)


def test_numbers_of_several_types_are_one_person_if_they_are_equal():
    """A column of objects has them: what a file of texts tells apart, numbers do not."""
    ones = [1, np.int8(1), Decimal("1"), Decimal("1.00")]
    others = [Decimal("1.10"), Decimal("1.1"), Decimal("11e-1"), Decimal(-0), 0]
    large = [10**20, 10**20 + 1, Decimal(10**20)]
    ids = [*ones, *others, *large]
    assert people(pd.DataFrame(table(np.array(ids, dtype=object)))) == len(set(ids)) == 5


def test_whole_numbers_are_told_apart_at_any_size(tmp_path):
    cases = [
        (pl.UInt64, [2**64 - 1, 2**64 - 2, 2**63, 2**63]),
        (pl.Int64, [2**53, 2**53 + 1, -(2**63), -(2**63)]),
        (pl.Decimal(38, 2), [Decimal("1.00"), Decimal("1.10"), Decimal(10**30), Decimal(10**30)]),
    ]
    for kind, ids in cases:
        frame = pl.DataFrame(table(ids), schema_overrides={"id": kind})
        frame.write_parquet(tmp_path / "p.parquet")
        frame.write_csv(tmp_path / "p.csv")
        for data in (frame, tmp_path / "p.parquet", tmp_path / "p.csv"):
            assert people(data) == 3


@pytest.mark.parametrize(
    "text", ["1.23457E+17", "1E+17", "1.2345678901234568e+17", "1.5e17", "9007199254740992.0"]
)
def test_texts_of_rounded_numbers_are_refused(tmp_path, text):
    (tmp_path / "p.csv").write_text(f"id,kind\n1,a\n{text},b\n")
    for data in (tmp_path / "p.csv", pd.DataFrame(table(["1", text]))):
        with pytest.raises(InvalidInputError, match=r"row 2, column 'id'.* a number that was r"):
            people(data)


def test_instants_are_one_person_whatever_their_time_zone(tmp_path):
    start = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    hours = [start + timedelta(hours=h) for h in (0, 1, 1)]  # half past two, twice
    local = pl.Series(hours).dt.convert_time_zone("Europe/Berlin")
    frame = pl.DataFrame(table(local))
    frame.write_parquet(tmp_path / "p.parquet")
    zones = [ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=3)), UTC]
    several = [hour.astimezone(zone) for hour, zone in zip(hours, zones, strict=True)]
    for data in (
        tmp_path / "p.parquet",
        frame,
        pandas_of(frame),
        pd.DataFrame(table(np.array(several, dtype=object))),
    ):
        assert people(data) == 2


def test_bytes_are_one_person_if_they_are_equal(tmp_path):
    ids = [b"\xff\x00", b"\xff\x00", b"\xff", b"61", b"a", b"a"]
    frame = pl.DataFrame(table(ids))
    frame.write_parquet(tmp_path / "p.parquet")
    for data in (tmp_path / "p.parquet", frame, pd.DataFrame(table(ids))):
        assert people(data) == 4
    with pytest.raises(InvalidInputError, match=r"a bytes .* and a text"):
        people(pd.DataFrame(table([b"a", "a"])))


def test_lists_are_nobody(tmp_path):
    """As texts, {"a,b", "c"} would be {"a", "b,c"}."""
    structs = [{"x": "a,b", "y": "c"}, {"x": "a", "y": "b,c"}]
    for ids in (structs, [["a"], ["b"]]):
        frame = pl.DataFrame(table(ids))
        frame.write_parquet(tmp_path / "p.parquet")
        for data in (tmp_path / "p.parquet", frame):
            with pytest.raises(InvalidInputError, match="column 'id' holds lists or structs"):
                people(data)


@pytest.mark.parametrize(
    ("kind", "ids", "expected"),
    [
        ("VARCHAR", [text for texts in TEXTS.values() for text in texts], len(TEXTS)),
        ("DECIMAL(9, 2)", [Decimal("1.00"), Decimal("1.10"), Decimal("-0.00"), Decimal(0)], 3),
        ("HUGEINT", [2**100, 2**100 + 1, 2**100], 2),
    ],
)
def test_databases_tell_the_same_people_apart(tmp_path, kind, ids, expected):
    with duckdb.connect(str(tmp_path / "p.db")) as connection:
        connection.execute(f"CREATE TABLE people (id {kind}, kind VARCHAR)")
        rows = [(str(x), "a") for x in ids]  # whole numbers beyond 2^64 are rounded by old versions
        connection.executemany(f"INSERT INTO people VALUES (CAST(? AS {kind}), ?)", rows)
    assert people(people_of(f"duckdb:///{tmp_path}/p.db#people", FORM)) == expected


KEYS = {"name": "kind", "keys": [0, 1, 2.5, "01", "1.10x"], "outside": "drop"}


def test_values_of_the_same_number_have_the_same_key(tmp_path):
    """Of columns to count by: keys are compared as numbers, whatever their type."""
    form = as_schema({"attributes": [KEYS]})
    texts = ["-0.0", "-0", "0.00", "1", "1.0", "2.50", "01", "1.10x"]
    expected = [3, 2, 1, 1, 1]
    pl.DataFrame({"kind": texts}).write_csv(tmp_path / "p.csv")
    for data in (tmp_path / "p.csv", pl.DataFrame({"kind": texts})):
        assert count_people(data, form).tolist() == expected
    for kind in (pl.Float64, pl.Float32, pl.Decimal(5, 2)):
        numbers = pl.DataFrame({"kind": [-0.0, 0.0, 1.0, 2.5, 2.5]}).cast(kind)
        numbers.write_parquet(tmp_path / "p.parquet")
        for data in (tmp_path / "p.parquet", numbers, pandas_of(numbers)):
            assert count_people(data, form).tolist() == [2, 1, 2, 0, 0]


def test_one_row_for_each_value_is_one_for_each_number():
    form = as_schema({"attributes": [{**KEYS, "ordered": True}], "person": "id", "one_per": "kind"})
    data = {"id": ["x"] * 6, "kind": ["0", "-0.0", "0.0", "1", "1.0", "2.50"]}
    assert count_people(pl.DataFrame(data), form).tolist() == [1, 1, 1, 0, 0]
    with duckdb.connect() as connection:
        connection.register("people", pd.DataFrame(data))
        found = connection.execute(query_text(form, "duckdb", "people")).fetchall()
    assert sorted(found) == [("0", 1, None), ("1", 1, None), ("2.5", 1, None)]
