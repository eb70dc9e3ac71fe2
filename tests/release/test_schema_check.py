"""pmldesign schema check: what a release makes of data, against a plain loop over the rows."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from counted_files import RefusedError, code_of, drawn_column, drawn_people, drawn_schema, of_polars

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.releases import as_schema, check_schema, count_people

FORM = {
    "attributes": [
        {"name": "sex", "keys": ["Male", "Female"]},
        {"name": "state", "keys": ["01", "02", "72"], "outside": "drop"},
        {"name": "age", "cuts": [0, 18, 85, 120]},
        {"name": "size", "keys": ["é", "10"], "outside": "other"},
    ]
}
ODD = [
    ("sex", " Male", "similar to 'Male' without the blanks around it"),
    ("sex", "b'Female'", "similar to 'Female' without b and the marks around it"),
    ("sex", '"Male"', "similar to 'Male' without the marks around it"),
    ("sex", "female", "similar to 'Female' in the other case"),
    ("sex", "Femal", "similar to 'Female'"),
    ("sex", "x", ""),
    ("state", "1", "similar to '01' with other leading zeros"),
    ("age", "31,5", "31.5 with a decimal point is one"),
    ("age", "120", "the end of the last bin [85, 120), which does not contain it"),
    ("age", "130", "above the last bin [85, 120); cuts that end with null have no upper end"),
    ("age", "-1", "below the first bin"),
    ("size", "e\u0301", "similar to 'é' in another Unicode form"),
    ("size", "1e1", "similar to '10' as the same number"),
]


@pytest.mark.parametrize(("name", "text", "hint"), ODD)
def test_values_without_a_key_are_listed_with_a_similar_key(name, text, hint):
    row = {"sex": "Male", "state": "01", "age": "31", "size": "10"}
    frame = pl.DataFrame([row, {**row, name: text}, {**row, name: text}])
    found = check_schema(frame, FORM)
    (attribute,) = found.attributes
    (value,) = attribute.values
    assert (attribute.name, attribute.rows, value.text, value.rows) == (name, 2, text, 2)
    assert value.hint == hint
    if attribute.outside == "refuse":
        assert found.remarks == {"refused": 2}
        with pytest.raises(pml.errors.InvalidInputError, match="row 2, ") as error:
            count_people(frame, as_schema(FORM))
        assert hint in str(error.value)


def test_a_check_counts_as_a_plain_loop():
    rng = np.random.default_rng(3)
    for trial in range(10):
        schema = drawn_schema(rng, 2, numbers=bool(trial % 2), person=trial > 4)
        rows = int(rng.integers(0, 15))
        columns = {a.name: drawn_column(rng, a, rows) for a in schema.attributes}
        people = drawn_people(rng, schema, rows)
        found = check_schema(of_polars({**columns, **people}), schema)
        assert found.rows == rows
        expected = {}
        for attribute in schema.attributes:
            codes = []
            for value in columns[attribute.name][1]:
                try:
                    codes.append(code_of(attribute, value))
                except RefusedError:
                    codes.append(-1)
            if attribute.outside in ("refuse", "drop"):
                expected[attribute.name] = codes.count(-1)
        told = {each.name: each.rows for each in found.attributes if each.name in expected}
        assert told == {name: number for name, number in expected.items() if number}


def test_kept_rows_are_shown_for_each_k(tmp_path):
    rows = [(f"p{i}", kind) for i in range(10) for kind in "abc"[: 1 + i % 3] * 2]
    frame = pl.DataFrame(rows, schema=["id", "kind"], orient="row")
    form = {"attributes": [{"name": "kind", "keys": list("abc")}], "person": "id"}
    for more in ({"rows_per_person": 3}, {"rows_per_person": 3, "one_per": "cell"}):
        found = check_schema(frame, {**form, **more})
        assert found.persons == 10
        for k, kept in found.kept.items():
            once = as_schema({**form, **more, "rows_per_person": k})
            assert count_people(frame, once).sum() == kept
    frame.write_csv(tmp_path / "p.csv")
    (tmp_path / "s.json").write_text(json.dumps(form))
    words = ["schema", "check", str(tmp_path / "p.csv"), "--schema", str(tmp_path / "s.json")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "all of them match a key" in result.output
    shown = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert (shown["rows"], shown["persons"], shown["attributes"]) == (38, 10, [])


def test_dropped_rows_are_told_on_standard_error(tmp_path):
    (tmp_path / "p.csv").write_text("sex\nF\n F\nM\n")
    form = {"attributes": [{"name": "sex", "keys": ["F", "M"], "outside": "drop"}]}
    (tmp_path / "s.json").write_text(json.dumps(form))
    files = [str(tmp_path / "p.csv"), "--schema", str(tmp_path / "s.json")]
    asked = ["release", "sex", *files, "--epsilon", "1", "-o", str(tmp_path / "t.csv")]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    assert result.stderr == "warning: 1 rows were dropped, as the schema says\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count_people(pl.DataFrame({"sex": ["F"]}), as_schema(form))  # nothing is lost


def test_releases_with_persons_say_that_intervals_cover_kept_rows():
    form = {"attributes": [{"name": "kind", "keys": ["a", "b"]}], "person": "id"}
    frame = pl.DataFrame({"id": ["1", "1", "2"], "kind": ["a", "b", "a"]})
    noisy = pml.mechanism("identity", pml.workload("kind", schema=form), guarantee=pml.PureDP(1.0))
    cover = noisy.release(frame, schema=form).manifest["intervals"]["cover"]
    assert cover.startswith("intervals cover counts of the rows that were kept of each person")
    plain = pml.mechanism("identity", "histogram:2", guarantee=pml.PureDP(1.0))
    assert "cover" not in plain.release([1, 2]).manifest["intervals"]
