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
from counted_files import answered, both

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.release import DIALECTS, as_schema, count_people, people_of, query_text
from pmldesign.release.people import comma_separated

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


@pytest.mark.parametrize(
    ("numbers", "person"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_a_database_counts_what_the_reader_of_files_counts(tmp_path, numbers, person):
    rng, outcomes = np.random.default_rng(11), set()
    with duckdb.connect() as connection:
        for _ in range(12):
            found = both(rng, tmp_path, connection, numbers=numbers, person=person)
            in_file, in_database, about = found
            if in_database == "untold":  # a text that no database reads as a number or a key
                assert numbers or person, about
            else:
                assert in_file == in_database, about
                outcomes.add(in_file == "refused" or any(in_file))
    assert outcomes == {True, False}


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
        assert found.description[-1][0] == "parts"
        answer = found.fetchall()
    # 4.05 is 4.1 (1 of 60 steps above 4), D = lcm(40, 60) = 120
    parts = {("2019", "F", "4"): 118, ("2019", "F", "10"): 2, ("2020.0", "F", "0"): 120}
    parts |= {("2019", "M", "10"): 120, ("2020", "M", "0"): 120}
    assert {tuple(values): int(count) for *values, count in answer} == parts
    counts = count_people(answered(answer, schema), schema).reshape(2, 2, 3)
    assert counts.tolist() == [[[0, 118, 2], [0, 0, 120]], [[120, 0, 0], [120, 0, 0]]]


def test_everybody_has_as_many_rows_as_are_kept_whatever_the_others_have():
    schema = as_schema({**PERSONS, "attributes": PERSONS["attributes"][:2], "person": "id"})
    text, kept = query_text(schema, "duckdb", "people", key="key"), {}
    with duckdb.connect() as connection:
        for who in "ab":
            as_table(connection, [row for row in VISITS if row[0] == who] * 3)
            ((*kept[who], count),) = connection.execute(text).fetchall()
            assert count == 1
        as_table(connection, VISITS[::-1])
        answer = connection.execute(text).fetchall()
    assert sorted(answer) == sorted((*kept[who], 1) for who in "ab")
    assert query_text(schema, "duckdb") != query_text(schema, "duckdb")  # a key for each


def test_rows_of_nobody_and_values_that_a_database_does_not_read_are_refused():
    people = {**PERSONS, "attributes": PERSONS["attributes"][:2], "person": "id"}
    one = {**PERSONS, "attributes": PERSONS["attributes"][2:]}
    for content, row, message in (
        (people, (None, "2019", "F", "1"), "1 rows have no value in id"),
        (people, ("nan", "2019", "F", "1"), "1 rows have no value in id"),  # a number in a text
        (people, ("a", "2019e0", "F", "1"), "did not tell the cell of '2019e0'"),
        (people, ("a", "2021", "F", "1"), "'2021' is none of the keys"),
        (one, ("a", "2019", "F", " 1"), "did not tell the cell of ' 1'"),
        (one, ("a", "2019", "F", None), "there is no value"),
    ):
        schema = as_schema(content)
        with duckdb.connect() as connection:
            as_table(connection, [row, *VISITS])
            found = connection.execute(query_text(schema, "duckdb", "people")).fetchall()
        with pytest.raises(InvalidInputError, match=message):
            count_people(answered(found, schema), schema)


def test_what_queries_do_not_count_exactly_is_refused():
    number = {"name": "x", "low": 0, "high": 1e14, "unit": 1e13}
    long = {"name": "x", "low": 0.0001, "high": 100000000000.0001, "unit": 1e10}
    key = {"name": "a", "keys": ["?", "b"]}
    many = [{"name": f"x{i}", "low": 0, "high": 2**20, "unit": 1} for i in range(4)]
    for content, message in (
        ({"attributes": [{**number, "high": 1e14 + 0.5, "unit": 0.5}]}, "parts of 1/"),
        ({"attributes": [long]}, "more than 14 digits"),
        ({"attributes": [key], "person": "id"}, "begins with"),
        ({"attributes": many}, "no more than 2"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            query_text(as_schema(content), "duckdb")
    people = as_schema(
        {"attributes": [{**key, "keys": ["b"]}], "person": "id", "rows_per_person": 2}
    )
    with pytest.raises(InvalidInputError, match="exactly so many rows is not seen in counts"):
        count_people(answered([], people), people, exactly=True)


def test_parts_that_do_not_fit_together_are_refused():
    number = {"low": -500, "high": 500, "unit": 1e-6}
    schema = as_schema({"attributes": [{"name": "x", **number}, {"name": "y", **number}]})
    rows = [("-500", "-500", 2**62 - 1), ("500", "500", 2**62 - 1), ("500", "-500", 2**62)]
    with pytest.raises(InvalidInputError, match="do not fit into 64 bits"):
        count_people(answered(rows, schema), schema)


def test_counts_of_persons_and_numbers_are_those_of_the_query(tmp_path):
    (tmp_path / "counts.csv").write_text("year,sex,n\n2019,F,1\n")
    schema = as_schema({**PERSONS, "attributes": PERSONS["attributes"][:2], "person": "id"})
    people = people_of(tmp_path / "counts.csv", schema, counted=True)
    with pytest.raises(InvalidInputError, match="counts are called kept_records; found is 'n'"):
        count_people(people, schema)


def test_counts_of_a_file_and_of_a_table_are_those_of_people(folder, monkeypatch):
    schema = as_schema(CONTENT)
    for size in (8, 2**24):
        monkeypatch.setattr(comma_separated, "PIECE", size)  # all of them count
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
def test_queries_with_persons_and_numbers_are_of_the_dialect(dialect):
    for more in ({}, {"one_per": "year"}, {"one_per": "cell"}):
        schema = as_schema({**PERSONS, "person": ["id", "more"], **more})
        (query,) = sqlglot.parse(query_text(schema, dialect, "a.people"), read=dialect)
        assert [column.alias for column in query.selects] == ["year", "sex", "income", "kept_parts"]
        assert {table.name for table in query.find_all(sqlglot.exp.Table)} >= {"people", "kept"}
        assert not list(query.find_all(sqlglot.exp.Command))
    assert "TYPEOF" not in query.sql() or dialect == "duckdb"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_are_of_the_dialect(folder, dialect):
    text = run(folder, "sql", "sex*age", "--dialect", dialect, "--table", "a.people").output
    (query,) = sqlglot.parse(text, read=dialect)
    assert [column.alias for column in query.expressions] == ["sex", "age", "code", "records"]
    assert {table.name for table in query.find_all(sqlglot.exp.Table)} >= {"people"}
    assert "{table}" in run(folder, "sql", "sex", "--dialect", dialect).output
    if dialect in ("postgres", "duckdb"):  # names are quoted
        assert '"sex" AS value_0' in text
    refused = run(folder, "sql", "sex", "--dialect", dialect, "--table", "a;b")
    assert refused.exit_code == 2
    assert "'a;b' is no name of a table" in refused.stderr
    casts = {"postgres": "CAST({} AS DOUBLE PRECISION)", "bigquery": "SAFE_CAST({} AS FLOAT64)"}
    cast = casts.get(dialect, "TRY_CAST({} AS DOUBLE)").format("CAST(value_1 AS @)")
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
        ([["sex", "age", "code", "n"], ["F", 1, 1, "1_0"]], "'1_0' is no count"),
        ([["sex", "age", "code", "n"], ["F", 1, 1, "\u0663"]], "'\u0663' is no count"),
        ([["sex", "age", "code", "n"], ["F", 1, 1, "9" * 5000]], f"'{'9' * 40}' is no count"),
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


@pytest.mark.parametrize("counted", [np.arange(4), [1, 2], None, True])
def test_counts_are_a_file(counted):
    with pytest.raises(
        InvalidInputError, match=r"^counted says, true or false, .* without a schema$"
    ):
        people_of(
            np.arange(4), as_schema({"attributes": [{"name": "a", "keys": [1]}]}), counted=counted
        )
