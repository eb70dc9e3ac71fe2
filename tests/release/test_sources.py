"""One reader: every source has the counts of a plain loop, and no record moves others."""

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from counted_files import as_csv, by_definition, counted, everywhere, in_database, sources

import pmldesign as pml
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.releases import (
    KINDS,
    as_schema,
    count_people,
    key_sql,
    key_text,
    label_of,
    publish,
    query_text,
)

SEX = as_schema({"attributes": [{"name": "sex", "keys": ["F", "M"], "outside": "drop"}]})
PANEL = as_schema({"attributes": [{"name": "sex", "keys": ["F", "M"]}], "person": "id"})


def test_every_source_has_the_counts_of_a_plain_loop(tmp_path):
    rng, outcomes = np.random.default_rng(5), set()
    for trial in range(16):
        numbers, person = bool(trial % 2), bool(trial // 2 % 2)
        expected, found, about = everywhere(rng, tmp_path, numbers=numbers, person=person)
        assert all(counts == expected for counts in found.values()), (expected, found, about)
        outcomes.add(expected == "refused")
    assert outcomes == {False, True}


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de"])
def test_collations_merge_neither_values_nor_persons(tmp_path, collation):
    """Of 300 x F and one f, stored first, a query that groups by collated texts counts no F."""
    address = f"duckdb:///{tmp_path}/p.db#people"
    with duckdb.connect(str(tmp_path / "p.db")) as connection:
        connection.execute(
            f"CREATE TABLE people (sex VARCHAR COLLATE {collation}, id VARCHAR COLLATE {collation})"
        )
        rows = [("f", "x"), *[("F", f"p{i}") for i in range(300)], ("M", "Ann"), ("M", "ann")]
        connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
    assert count_people(address, SEX).tolist() == [300, 2]
    with duckdb.connect(str(tmp_path / "p.db")) as connection:
        connection.execute("DELETE FROM people WHERE DECODE(ENCODE(sex)) = 'f'")
        connection.execute("INSERT INTO people VALUES ('M', 'É'), ('M', 'E')")
    assert count_people(address, PANEL).tolist() == [300, 4]


def test_texts_in_other_databases_lose_their_collation():
    for dialect, words in (
        ("postgres", "CONVERT_FROM(CONVERT_TO("),
        ("bigquery", "SAFE_CONVERT_BYTES_TO_STRING("),
        ("snowflake", "TO_BINARY("),
        ("spark", "DECODE(ENCODE("),
    ):
        text = query_text(PANEL, dialect, "people")
        assert text.count(words) >= 2, text  # the value and the identifier
        assert "TEXT_OF" not in text


def test_keys_in_a_query_are_those_of_python():
    rng = np.random.default_rng(1)
    pieces = ["-", "+", ".", "0", "1", "20", "5", "e5", " ", "é"]
    texts = ["".join(rng.choice(pieces, rng.integers(1, 6))) for _ in range(3000)]
    for _ in range(3000):
        date = f"{rng.choice([0, 1, 1900, 1970, 2000, 2023, 9999]):04}-{rng.integers(0, 14):02}"
        clock = f"{rng.integers(0, 26):02}:{rng.choice([0, 30, 60]):02}"
        part = rng.choice(["", ":00", ":59", ":07.50", ":60"])
        zone = rng.choice(["", "", "Z", "+00", " +0545", "-11:30", "+14:00", "+1"])
        texts.append(f"{date}-{rng.integers(0, 33):02}{rng.choice(list('T '))}{clock}{part}{zone}")
    texts += ["TRUE", "False", "truE", "nan", "2020-02-29T00:00Z", "2023-02-29T00:00Z"]
    frame = pd.DataFrame({"i": range(len(texts)), "t": np.array(texts, dtype=object)})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        found = connection.execute(f"SELECT {key_sql('t', KINDS)} FROM frame ORDER BY i").fetchall()
    assert [key for (key,) in found] == [*map(key_text, texts)]
    assert sum(key.startswith("@") for (key,) in found) > 100
    assert all(key_text(label_of(key)) == key for (key,) in found if len(label_of(key)) < 30)


@pytest.mark.parametrize("more", [{"high": 2}, {"high": 4, "cuts": [2]}, {"high": 4, "knots": [2]}])
def test_numbers_of_one_unit_between_points_count(tmp_path, more):
    """Their parts are whole records: D = 1."""
    form = as_schema({"attributes": [{"name": "x", "low": 0, "unit": 2, **more}]})
    columns = {"x": ("text", ["0", "2", "1", "0.9", "5", "3"])}
    expected = by_definition(form, columns, {})
    assert sum(expected) == 6
    for data in sources(np.random.default_rng(0), tmp_path, columns).values():
        assert count_people(data, form).tolist() == expected


@pytest.mark.parametrize("cuts", [2000, 6000])
def test_many_cuts_and_keys_and_knots_are_counted(cuts):
    """An expression of one condition in another for each of them has ended the process."""
    ages = {"name": "age", "cuts": [*range(cuts + 1)]}
    codes = {"name": "code", "keys": [f"k{i}" for i in range(cuts)]}
    knots = {"name": "pay", "low": 0, "high": cuts, "unit": 1, "knots": [*range(1, cuts)]}
    frame = pl.DataFrame({"age": [0, 7, cuts - 1], "code": ["k0", "k7", f"k{cuts - 1}"]})
    frame = frame.with_columns(pay=pl.col("age"))
    for entry in (ages, codes, knots):
        counts = count_people(frame, as_schema({"attributes": [entry]}))
        assert np.flatnonzero(counts).tolist() == [0, 7, cuts - 1]


def test_no_neighbour_is_farther_than_one_row(tmp_path):
    """Rows of persons with collations, numbers and odd dtypes, with and without one more person."""
    rng = np.random.default_rng(2)
    for trial in range(6):
        _, found, about = everywhere(rng, tmp_path, numbers=True, person=bool(trial % 2))
        schema, columns, people = about
        one = {name: (kind, values[1:]) for name, (kind, values) in columns.items()}
        rest = {name: (kind, values[1:]) for name, (kind, values) in people.items()}
        if people:
            who = [*zip(*(values for _, values in people.values()), strict=True)]
            same = [not who or other != who[0] for other in who]
            one = {n: (k, [*np.array(v, dtype=object)[same]]) for n, (k, v) in columns.items()}
            rest = {n: (k, [*np.array(v, dtype=object)[same]]) for n, (k, v) in people.items()}
        both = {**one, **rest}
        for name, data in {
            "csv": as_csv(tmp_path / "less.csv", both),
            "duckdb": in_database(rng, tmp_path / "less.db", both),
        }.items():
            less = counted(data, schema)
            if "refused" in (less, found[name]):
                continue
            moved = np.abs(np.array(less) - np.array(found[name])).sum()
            assert moved <= schema.rows_per_person * schema.denominator, about


def test_streams_flow_once_and_are_counted(tmp_path):
    class Reader:
        """A stream that is empty after it was asked for once."""

        def __init__(self, frame):
            self.frame = frame

        def __arrow_c_stream__(self, requested_schema=None):
            frame, self.frame = self.frame, self.frame.clear()
            return frame.__arrow_c_stream__(requested_schema)

    frame = pl.DataFrame({"sex": ["F", "M", "F"]})
    assert count_people(Reader(frame), SEX).tolist() == [2, 1]
    with duckdb.connect() as connection:
        connection.register("t", pd.DataFrame({"sex": ["F", "M", "F"]}))
        assert count_people(connection.sql("SELECT * FROM t"), SEX).tolist() == [2, 1]
    frame.write_ipc(tmp_path / "file.arrow")
    frame.write_ipc_stream(tmp_path / "stream.arrow")
    for name in ("file.arrow", "stream.arrow"):
        assert count_people(tmp_path / name, SEX).tolist() == [2, 1]


def test_folders_and_patterns_are_all_of_their_files(tmp_path):
    for number in range(3):
        frame = pl.DataFrame({"sex": ["F", "M", "F"][number:], "more": number})
        frame.write_csv(tmp_path / f"p-{number}.csv")
        (tmp_path / "parts").mkdir(exist_ok=True)
        frame.write_parquet(tmp_path / "parts" / f"{number}.parquet")
    for data in (tmp_path / "parts", f"{tmp_path}/p-*.csv", f"{tmp_path}/parts/*.parquet"):
        assert count_people(data, SEX).tolist() == [4, 2]
    (tmp_path / "p-3.csv").write_text("more,sex\n1,F\n")
    with pytest.raises(FileError, match=r"p-3\.csv has other columns than p-0\.csv"):
        count_people(f"{tmp_path}/p-*.csv", SEX)
    (tmp_path / "p[*].csv").write_text("sex\nF\n")  # a name, not a pattern
    assert count_people(tmp_path / "p[*].csv", SEX).tolist() == [1, 0]
    with pytest.raises(FileError, match="no file of people"):
        count_people(f"{tmp_path}/q-*.csv", SEX)


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ([" F", " M"], "2 rows with .* dropped .similar to 'F' without the blanks around it."),
        (["f", "M"], "similar to 'F' in the other case"),
        (["b'F'", "M"], "similar to 'F' without b and the marks around it"),
        (["x", "y"], "no row of the data counts"),
    ],
)
def test_a_key_that_lost_all_its_records_is_reported(values, hint):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count_people(pl.DataFrame({"sex": values * 2}), SEX)
    said = " ".join(str(warning.message) for warning in caught)
    assert hint.split(" .")[-1].strip(".") in said or hint in said


def test_bytes_are_read_as_utf_8(tmp_path):
    frame = pl.DataFrame({"sex": [b"F", b"M", "é".encode()]})
    frame.write_parquet(tmp_path / "p.parquet")
    form = as_schema({"attributes": [{"name": "sex", "keys": ["F", "M", "é"]}]})
    for data in (frame, tmp_path / "p.parquet", pd.DataFrame({"sex": [b"F", b"M", "é".encode()]})):
        assert count_people(data, form).tolist() == [1, 1, 1]
    wrong = pl.DataFrame({"sex": [b"F", b"\xff"]})
    with pytest.raises((FileError, InvalidInputError)):
        count_people(wrong, form)


def test_releases_of_one_ledger_keep_the_same_rows(tmp_path, monkeypatch):
    kept = []
    form = {"attributes": [{"name": "kind", "keys": list("abcd")}], "person": "id"}
    path, seen = tmp_path / "p.csv", publish.count_people

    def counted_people(*arguments, **options):
        kept.append(seen(*arguments, **options).tolist())
        return np.array(kept[-1])

    monkeypatch.setattr(publish, "count_people", counted_people)
    rows = [(str(i), kind) for i in range(60) for kind in "abcd"]
    pl.DataFrame(rows, schema=["id", "kind"], orient="row").write_csv(path)
    noisy = pml.mechanism("identity", pml.workload("kind", schema=form), guarantee=pml.PureDP(1.0))
    for ledger in ("one.db", "one.db", "two.db", None, None):
        begun = ledger is None or (tmp_path / ledger).exists()
        more = {} if begun else {"budget": "epsilon=9", "population": "panel"}
        more |= {} if ledger is None else {"ledger": tmp_path / ledger}
        noisy.release(path, schema=form, **more)
    assert kept[0] == kept[1]
    assert len({*map(tuple, kept)}) == 4
    assert all(sum(counts) == 60 for counts in kept)


def test_a_ledger_remembers_all_files_of_a_folder(tmp_path):
    form = {"attributes": [{"name": "sex", "keys": ["F", "M"]}]}
    (tmp_path / "parts").mkdir()
    for name in ("a", "b"):
        pl.DataFrame({"sex": ["F", "M"]}).write_parquet(tmp_path / "parts" / f"{name}.parquet")
    noisy = pml.mechanism("identity", pml.workload("sex", schema=form), guarantee=pml.PureDP(1.0))
    paid = {"ledger": tmp_path / "l.db", "schema": form}
    noisy.release(tmp_path / "parts", budget="epsilon=9", **paid)
    noisy.release(tmp_path / "parts", **paid)
    pl.DataFrame({"sex": ["F", "F"]}).write_parquet(tmp_path / "parts" / "b.parquet")
    with pytest.raises(InvalidInputError, match="differs from the data of earlier"):
        noisy.release(tmp_path / "parts", **paid)
