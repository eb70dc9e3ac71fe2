"""The query for databases: its text in every dialect, and its answers in files."""

import csv
import json
import re

import duckdb
import numpy as np
import pytest
import sqlglot
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.releases import DIALECTS, as_schema, count_people, people_of, query_text

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
        found = connection.sql(query_text(as_schema(CONTENT), "duckdb", "people"))
        found.write_csv(str(tmp_path / "counts.csv"))
    return tmp_path


def run(folder, *words):
    words = [*words, "--schema", str(folder / "schema.json")]
    return CliRunner().invoke(main, list(map(str, words)), prog_name="pmldesign")


PERSONS = {
    "attributes": [
        {"name": "year", "keys": [2019, 2020]},
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "income", "low": 0, "high": 10, "unit": 0.1, "knots": [4]},
    ]
}
VISITS = [
    ("a", "2019", "F", "4.05"),
    ("a", "2020.0", "F", "-3"),
    ("b", "2019", "M", "10.5"),
    ("b", "2020", "M", "0.04999"),
]


def as_table(connection, rows):
    connection.execute(
        "CREATE OR REPLACE TABLE people (id VARCHAR, year VARCHAR, sex VARCHAR, income VARCHAR)"
    )
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)


def test_numbers_are_parts_of_the_ends_of_their_intervals():
    schema = as_schema(PERSONS)
    with duckdb.connect() as connection:
        as_table(connection, VISITS)
        found = connection.execute(query_text(schema, "duckdb", "people"))
        assert [column[0] for column in found.description][-2:] == ["parts", "remark"]
        answer = found.fetchall()
    # 4.05 is 4.1 (1 of 60 steps above 4), D = lcm(40, 60) = 120
    parts = {("2019", "F", "4"): 118, ("2019", "F", "10"): 2, ("2020", "F", "0"): 120}
    parts |= {("2019", "M", "10"): 120, ("2020", "M", "0"): 120}
    assert {tuple(values): int(count) for *values, count, _ in answer} == parts


def test_everybody_has_as_many_rows_as_are_kept_whatever_the_others_have():
    schema = as_schema({**PERSONS, "attributes": PERSONS["attributes"][:2], "person": "id"})
    text, kept = query_text(schema, "duckdb", "people", key="key"), {}
    with duckdb.connect() as connection:
        for who in "ab":
            as_table(connection, [row for row in VISITS if row[0] == who] * 3)
            ((*kept[who], count, remark),) = connection.execute(text).fetchall()
            assert (count, remark) == (1, None)
        as_table(connection, VISITS[::-1])
        answer = connection.execute(text).fetchall()
    assert sorted(answer) == sorted((*kept[who], 1, None) for who in "ab")
    assert query_text(schema, "duckdb") != query_text(schema, "duckdb")  # a key for each


@pytest.mark.parametrize(
    ("attributes", "row", "remark"),
    [
        (slice(2), (None, "2019", "F", "1"), (None, None, "no person")),
        (slice(2), ("nan", "2019", "F", "1"), (None, None, "no person")),
        (slice(2), ("1E+17", "2019", "F", "1"), (None, None, "no person")),
        (slice(2), ("a", "2021", "F", "1"), ("2021", None, "refused")),
        (slice(2), ("a", "2019", None, "1"), (None, None, "refused")),
        (slice(2, 3), ("a", "2019", "F", "x1"), ("x1", "refused")),
    ],
)
def test_rows_that_end_a_release_have_a_remark(tmp_path, attributes, row, remark):
    content = {**PERSONS, "attributes": PERSONS["attributes"][attributes], "person": "id"}
    schema = as_schema(content)
    with duckdb.connect() as connection:
        as_table(connection, [row, *VISITS])
        found = connection.sql(query_text(schema, "duckdb", "people"))
        (wrong,) = [line for line in found.fetchall() if line[-1]]
        assert (*wrong[:-2], wrong[-1]) == remark
        assert wrong[-2] == 1
        found.write_csv(str(tmp_path / "counts.csv"))
    with pytest.raises(InvalidInputError, match=r"which are refused|is not a"):
        count_people(people_of(tmp_path / "counts.csv", schema, counted=True), schema)


def test_what_queries_do_not_count_exactly_is_refused(tmp_path):
    number = {"name": "x", "low": 0, "high": 1e14, "unit": 1e13}
    long = {"name": "x", "low": 0.0001, "high": 100000000000.0001, "unit": 1e10}
    many = [{"name": f"x{i}", "low": 0, "high": 2**20, "unit": 1} for i in range(4)]
    for content, message in (
        ({"attributes": [{**number, "high": 1e14 + 0.5, "unit": 0.5}]}, "parts of 1/"),
        ({"attributes": [long]}, "more than 14 digits"),
        ({"attributes": many}, "fewer than 2"),
        ({"attributes": [{**many[0], "name": f"y{i}", "high": 2} for i in range(7)]}, "up to 6"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            query_text(as_schema(content), "duckdb")
    form = {"attributes": [{"name": "a", "keys": ["b"]}], "person": "id", "rows_per_person": 2}
    people, path = as_schema(form), tmp_path / "counts.csv"
    path.write_text("a,kept_records\nb,2\n")
    with pytest.raises(InvalidInputError, match="do not show that each person"):
        count_people(people_of(path, people, counted=True), people, exactly=True)


def test_parts_that_do_not_fit_together_are_refused(tmp_path):
    number = {"low": -500, "high": 500, "unit": 1e-6}
    schema = as_schema({"attributes": [{"name": "x", **number}, {"name": "y", **number}]})
    rows = [("-500", "-500", 2**62 - 1), ("500", "500", 2**62 - 1), ("500", "-500", 2**62)]
    with (tmp_path / "counts.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([("x", "y", "parts"), *rows])
    with pytest.raises(InvalidInputError, match="do not fit into 64 bits"):
        count_people(people_of(tmp_path / "counts.csv", schema, counted=True), schema)


def test_counts_of_a_file_and_of_a_table_are_those_of_people(folder):
    schema = as_schema(CONTENT)
    for people in (
        people_of(folder / "counts.csv", schema, counted=True),
        people_of(f"duckdb:///{folder}/people.db#people", schema),
    ):
        assert count_people(people, schema).reshape(6, 3).tolist() == COUNTS


def test_releases_of_counts_and_of_tables(folder):
    asked = ["--epsilon", 1, "--effort", "quick", "-o", folder / "t.csv"]
    ledger = ["--ledger", folder / "ledger", "--population", "panel"]
    result = run(folder, "release", "sex*age", folder / "counts.csv", "--counted", *asked)
    assert result.exit_code == 0, result.output
    source = f"duckdb:///{folder}/people.db#people"
    for words in ([*ledger, "--budget", "epsilon=2"], ledger):
        result = run(folder, "release", "sex*age", source, *asked, *words)
        assert result.exit_code == 0, result.output
    with (folder / "t.csv").open() as handle:
        assert len(list(csv.DictReader(handle))) == 6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_with_persons_and_numbers_are_of_the_dialect(dialect):
    instants = {"name": "at", "keys": ["2020-01-01T00:00Z", "true", "1.50", "2020-01-01"]}
    attributes = [*PERSONS["attributes"], instants]
    for more in ({}, {"one_per": "year"}, {"one_per": "cell"}):
        schema = as_schema({"attributes": attributes, "person": ["id", "more"], **more})
        (query,) = sqlglot.parse(query_text(schema, dialect, "a.people"), read=dialect)
        names = ["year", "sex", "income", "at", "kept_parts", "remark"]
        assert [column.alias for column in query.selects] == names
        assert {table.name for table in query.find_all(sqlglot.exp.Table)} >= {"people", "kept"}
        assert not list(query.find_all(sqlglot.exp.Command))
    assert "IS_FLOATING" not in query.sql()
    assert "TEXT_OF" not in query.sql()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_are_of_the_dialect(folder, dialect):
    text = run(
        folder, "schema", "sql", "sex*age", "--dialect", dialect, "--table", "a.people"
    ).output
    (query,) = sqlglot.parse(text, read=dialect)
    names = ["sex", "age", "code", "records", "remark"]
    assert [column.alias for column in query.expressions] == names
    assert {table.name for table in query.find_all(sqlglot.exp.Table)} >= {"people"}
    assert "{table}" in run(folder, "schema", "sql", "sex", "--dialect", dialect).output
    refused = run(folder, "schema", "sql", "sex", "--dialect", dialect, "--table", "a;b")
    assert refused.exit_code == 2
    assert "'a;b' is not the name of a table" in refused.stderr
    casts = {"postgres": "CAST({} AS DOUBLE PRECISION)", "bigquery": "SAFE_CAST({} AS FLOAT64)"}
    cast = casts.get(dialect, "TRY_CAST({} AS DOUBLE)").format("TRIM(@)")
    assert re.search(re.escape(cast).replace("@", ".+"), text)


def test_the_query_of_duckdb_is_the_one_that_is_carried_out(folder):
    text = run(folder, "schema", "sql", "sex*age", "--table", "people").output.removesuffix(";\n")
    with duckdb.connect(str(folder / "people.db")) as connection:
        rows = connection.execute(text).fetchall()
    with (folder / "counts.csv").open() as handle:
        written = [tuple(row) for row in csv.reader(handle)][1:]
    assert sorted(tuple("" if v is None else str(v) for v in row) for row in rows) == sorted(
        written
    )


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
        names = ["county", "records", "records_", "remark"]
        assert [column[0] for column in answer.description] == names
        assert sorted(answer.fetchall()) == [("a2", "x", 1, None), ("b1", "y", 1, None)]


def test_columns_may_have_the_names_of_the_query():
    names = ["remark", "text_0", "value_1", "person_0", "source", "cell_0"]
    content = [{"name": name, "keys": ["x", "y"]} for name in names]
    schema = as_schema({"attributes": content, "person": "key_0", "rows_per_person": 2})
    with duckdb.connect() as connection:
        columns = ", ".join(f"'{'xy'[i % 2]}' AS {name}" for i, name in enumerate(names))
        connection.execute(f"CREATE TABLE people AS SELECT {columns}, 'z' AS key_0")
        found = connection.execute(query_text(schema, "duckdb", "people")).fetchall()
    assert found == [("x", "y", "x", "y", "x", "y", 1, None)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["sex", "age"], ["F", 1]], "with the columns sex, age, code, records and remark"),
        ([["sex", "age", "code", "n"]], "records and remark; found are sex, age, code, n"),
        ([["sex", "age", "code", "records"], ["F", "[0, 18)", 1, -1]], "'-1' is not a count"),
        ([["sex", "age", "code", "records"], ["F", "[0, 18)", 1, 1.5]], "'1.5' is not a count"),
        ([["sex", "age", "code", "records"], ["F", "[0, 18)", 1, ""]], "'None' is not a count"),
        ([["sex", "age", "code", "records"], ["F", "[0, 18)", 1, "1_0"]], "'1_0' is not a count"),
        ([["sex", "age", "code", "records"], ["F", "[0, 18)", 1, "9" * 500]], "is not a count"),
        ([["sex", "age", "code", "records"], ["X", "[0, 18)", 1, 1]], "column 'sex' .* 'X' is not"),
        ([["sex", "age", "code", "records"], ["F", 1, 1, 1]], "column 'age' .* '1' is not"),
        ([["sex", "age", "code", "records"], ["", "[0, 18)", 1, 1]], "no value in a column"),
        ([["sex", "age", "code", "records", "remark"], ["", "", 1, 1, "x"]], "which are refused"),
    ],
)
def test_false_counts_are_refused(folder, rows, message):
    with (folder / "bad.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
    people = people_of(folder / "bad.csv", as_schema(CONTENT), counted=True)
    with pytest.raises(InvalidInputError, match=message):
        count_people(people, as_schema(CONTENT))


def test_missing_cells_are_zero_and_equal_ones_add_up(folder):
    with (folder / "few.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(
            [["code", "records", "sex", "age"], *[[1, n, "F", "[0, 18)"] for n in (2, 5)]]
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
        (f"duckdb:///{folder}/people.db#a b c;", InvalidInputError),
    ):
        with pytest.raises(error):
            count_people(people_of(address, schema), schema)
    with pytest.raises(InvalidInputError, match="need a schema"):
        people_of(f"duckdb:///{folder}/people.db#people", None)
    asked = ["--epsilon", 1, "-o", folder / "t.csv"]
    for words in (
        ["sex"],
        ["sex", "duckdb:///x#y", "--counted"],
        ["sex", "postgresql://host/db#people"],
    ):
        assert run(folder, "release", *words, *asked).exit_code == 2


def test_a_database_is_opened_for_reading_alone(folder):
    before = (folder / "people.db").read_bytes()
    made = pml.mechanism("identity", "histogram:18", guarantee=pml.PureDP(1.0))
    pml.release(made, f"duckdb:///{folder}/people.db#people", schema=CONTENT)
    assert (folder / "people.db").read_bytes() == before


@pytest.mark.parametrize("counted", [np.arange(4), [1, 2], None, True])
def test_counts_are_a_file(counted):
    with pytest.raises(InvalidInputError, match=r"^counted is True if .* without a schema$"):
        people_of(
            np.arange(4), as_schema({"attributes": [{"name": "a", "keys": [1]}]}), counted=counted
        )
