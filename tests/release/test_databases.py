"""People who are counted in their database: the same counts as of a file, whatever is in it."""

import csv
import json
import re
from dataclasses import replace

import duckdb
import numpy as np
import pytest
import sqlglot
from click.testing import CliRunner
from counted_files import both

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.release import DIALECTS, as_schema, count_people, people_of, query_text

CONTENT = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 65, 120]},
        {"name": "code", "keys": [1, 2], "outside": "other"},
    ]
}
ROWS = [("F", 17, "1"), ("M", 18, "2.0"), ("M", 64, "x"), ("F", 0, "02"), ("F", 119, None)]
COUNTS = [[1, 0, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 0]]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(CONTENT))
    with duckdb.connect(str(tmp_path / "people.db")) as connection:
        connection.execute("CREATE TABLE people (sex VARCHAR, age INTEGER, code VARCHAR, more INT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, 7)", ROWS)
        found = connection.execute(query_text(as_schema(CONTENT), "duckdb", "people")).fetchall()
    with (tmp_path / "counts.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerows([("sex", "age", "code", "records"), *found])
    return tmp_path


def run(folder, *words):
    words = [*words, "--schema", str(folder / "schema.json")]
    return CliRunner().invoke(main, list(map(str, words)), prog_name="pmldesign")


def test_a_database_counts_what_the_reader_of_files_counts(tmp_path):
    rng, outcomes = np.random.default_rng(11), set()
    with duckdb.connect() as connection:
        for _ in range(50):
            in_file, in_database, about = both(rng, tmp_path, connection)
            assert in_file == in_database, about
            outcomes.add(in_file == "refused" or any(in_file))
    assert outcomes == {True, False}


def test_counts_of_a_file_and_of_a_table_are_those_of_people(folder):
    schema = as_schema(CONTENT)
    for people in (
        people_of(folder / "counts.csv", schema, counted=True),
        people_of(f"duckdb:///{folder}/people.db#people", schema),
    ):
        assert count_people(people, schema).reshape(6, 3).tolist() == COUNTS


def test_releases_of_counts_and_of_tables(folder):
    asked = ["--epsilon", 1, "--search-time", 0.1, "-o", folder / "t.csv"]
    ledger = ["--ledger", folder / "ledger", "--people", "panel"]
    result = run(folder, "release", "sex*age", folder / "counts.csv", "--counted", *asked)
    assert result.exit_code == 0, result.output
    source = f"duckdb:///{folder}/people.db#people"
    for words in ([*ledger, "--budget", "epsilon=2"], ledger):
        result = run(folder, "release", "sex*age", "--sql", source, *asked, *words)
        assert result.exit_code == 0, result.output
    with (folder / "t.csv").open() as handle:
        assert len(list(csv.DictReader(handle))) == 6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_are_of_the_dialect(folder, dialect):
    text = run(folder, "sql", "sex*age", "--dialect", dialect, "--table", "a.people").output
    (query,) = sqlglot.parse(text, read=dialect)
    assert [column.alias for column in query.expressions] == ["sex", "age", "code", "records"]
    assert {table.name for table in query.find_all(sqlglot.exp.Table)} >= {"people"}
    assert "{table}" in run(folder, "sql", "sex", "--dialect", dialect).output
    if dialect in ("postgres", "duckdb"):  # names are quoted
        assert 'CAST("sex" AS TEXT)' in text
    casts = {"postgres": "CAST({} AS DOUBLE PRECISION)", "bigquery": "SAFE_CAST({} AS FLOAT64)"}
    cast = casts.get(dialect, "TRY_CAST({} AS DOUBLE)").format("CAST(text_1 AS @)")
    assert re.search(re.escape(cast).replace("@", "[A-Z]+"), text)


def test_places_are_counted_by_their_lowest_level():
    content = {
        "attributes": [
            {
                "name": "place",
                "levels": ["state", "county"],
                "keys": {"A": ["a1", "a2"], "B": ["b1"]},
            },
            {"name": "records", "keys": ["x", "y"]},
        ]
    }
    schema = as_schema(content)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people (county VARCHAR, records VARCHAR)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [("a2", "x"), ("b1", "y")])
        answer = connection.execute(query_text(schema, "duckdb", "people"))
        assert [column[0] for column in answer.description] == ["county", "records", "records_"]
        assert sorted(answer.fetchall()) == [("a2", "x", 1), ("b1", "y", 1)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["sex", "age"], ["F", 1]], "counts have a column for each of sex, age, code"),
        ([["sex", "age", "code", "n", "m"]], "one more, such as records; found are sex"),
        ([["sex", "age", "code", "n"], ["F", 1, 1, -1]], "'-1' is no count"),
        ([["sex", "age", "code", "n"], ["F", 1, 1, 1.5]], "'1.5' is no count"),
        ([["sex", "age", "code", "n"], ["F", 1, 1, ""]], "'None' is no count"),
        ([["sex", "age", "code", "n"], ["X", 1, 1, 1]], "row 1, column 'sex': 'X' is none of"),
        ([["sex", "age", "code", "n"], ["F", "[0, 18)", 1, 1]], "is not a number"),
    ],
)
def test_false_counts_are_refused(folder, rows, message):
    with (folder / "bad.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
    people = people_of(folder / "bad.csv", as_schema(CONTENT), counted=True)
    with pytest.raises(InvalidInputError, match=message.replace("[", r"\[").replace(")", r"\)")):
        count_people(people, as_schema(CONTENT))


def test_missing_cells_are_zero_and_equal_ones_add_up(folder):
    with (folder / "few.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(
            [["code", "n", "sex", "age"], [1, 2, "F", 3], ["1.0", 5, "F", 4]]
        )
    people = people_of(folder / "few.csv", as_schema(CONTENT), counted=True)
    assert count_people(people, as_schema(CONTENT)).tolist() == [7] + [0] * 17


def test_sources_that_are_none(folder):
    schema = as_schema(CONTENT)
    for address, error in (
        (f"duckdb:///{folder}/none.db#people", FileError),
        (f"duckdb:///{folder}/people.db#nobody", FileError),
        (f"duckdb:///{folder}/schema.json#people", FileError),
        (f"duckdb:///{folder}/people.db", InvalidInputError),
        (f"duckdb:///{folder}/people.db#a b c;", (FileError, InvalidInputError)),
    ):
        with pytest.raises(error):
            count_people(people_of(address, schema), schema)
    with pytest.raises(InvalidInputError, match="need a schema"):
        people_of(f"duckdb:///{folder}/people.db#people", None)
    asked = ["--epsilon", 1, "-o", folder / "t.csv"]
    for words in (
        ["sex"],
        ["sex", folder / "counts.csv", "--sql", "duckdb:///x#y"],
        ["sex", "--sql", "postgresql://host/db#people"],
    ):
        assert run(folder, "release", *words, *asked).exit_code == 2
    nan = as_schema({"attributes": [{"name": "a", "keys": ["NaN", "b"]}]})
    with pytest.raises(InvalidInputError, match="missing number"):
        query_text(nan, "duckdb")


def test_texts_of_other_kinds_of_attributes_stay_as_they_are():
    plain = as_schema({"attributes": [{"name": "a", "keys": [1, 2], "outside": "drop"}]})
    (attribute,) = plain.attributes

    class Clipped(type(attribute)):
        """Reads +5 as a number, which is no key."""

    other = replace(plain, attributes=(Clipped(**vars(attribute)),))
    assert "IN ('1', '2')" in query_text(plain, "duckdb")
    assert "IN (" not in query_text(other, "duckdb")


def test_a_database_is_opened_for_reading_alone(folder):
    before = (folder / "people.db").read_bytes()
    made = pml.mechanism("identity", "histogram:18", guarantee=pml.PureDP(1.0))
    pml.release_tables(made, f"duckdb:///{folder}/people.db#people", schema=CONTENT)
    assert (folder / "people.db").read_bytes() == before
