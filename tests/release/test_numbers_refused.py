"""Schemas, queries, values and designs for numbers of people that are refused."""

import json
import math

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from fast_sampler import no_noise
from number_schemas import KEYS, PLAIN, schema_of

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, count_people


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"low": 0, "high": 5}, "\"unit\", to which they are rounded; 'unit' is missing"),
        ({"knots": [1], "unit": 1}, "'low' is missing, and never read off the data"),
        ({"low": 0, "high": 5, "unit": 2}, "increase by multiples of unit"),
        ({"low": 5, "high": 0, "unit": 1}, "increase by multiples of unit"),
        ({"low": 0, "high": 5, "unit": 0}, "increase by multiples of unit"),
        ({"low": 0, "high": 5, "unit": True}, "must be numbers below 1e15"),
        ({"low": 0, "high": math.inf, "unit": 1}, "must be numbers below 1e15"),
        ({"low": 0, "high": 5, "unit": 1, "knots": 3}, "must be numbers below 1e15"),
        ({"low": 0, "high": 5, "unit": 1, "knots": [2], "cuts": [3]}, "leave one of them out"),
        ({"low": 0, "high": 5, "unit": 1, "outside": "other"}, "has no key for what is none"),
        ({"low": 0, "high": 1e14, "unit": 1}, "too fine; take a larger unit"),
        ({"low": 0, "high": 5, "unit": 1, "keys": [1]}, "has 'keys'; known are"),
    ],
)
def test_schemas_of_numbers_that_are_refused(entry, message):
    with pytest.raises(InvalidInputError, match=message):
        schema_of({"name": "income", **entry})


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ("income", "'histogram' is none of sum, sum2, mean, linear; write for example income:sum"),
        ("income:median", "none of sum, sum2, mean, linear; write income:quantile\\(0.5\\), for"),
        ("median(income)", "write income:quantile\\(0.5\\), for an attribute with cuts; it has"),
        ("sex:median", "share; write sex:quantile\\(0.5\\), for an attribute with cuts"),
        ("percentile(sex)", r"'percentile\(sex\)'; write sex:quantile\(0.5\), for an"),
        ("income:avg", "none of sum, sum2, mean, linear; write for example income:mean"),
        ("sum(income)", r"'sum\(income\)'; write for example income:sum; it has"),
        ("Average( income )", "write for example income:mean; it has"),
        ("count(income)", "write for example income:sum; it has"),
        ("avg(sex)", "write sex for the counts of its values; for sums and means give it low and"),
        ("sex:mean", "share; write sex for the counts of its values; for sums and means give it"),
        ("count(sex)", "write sex for the counts of its values; it has"),
        ("income:sum,3", "none of"),
        ("income:linear,1", "value of a function at each of the 2 points 0, 3 of 'income'"),
        ("income:mean,0", "of how many people"),
        ("sex:share*income:mean", "one mean, share or quantile"),
        ("sex:sum", "none of histogram, total, prefix, all-range, window, share"),
    ],
)
def test_queries_on_numbers_that_are_refused(queries, message):
    with pytest.raises(InvalidInputError, match=message):
        pml.workload(queries, schema=schema_of(KEYS, PLAIN))


def test_values_that_are_no_numbers_follow_the_rule_of_the_schema():
    rows = pl.DataFrame({"income": ["1", "", "inf", "nan", "many", "1e400", "-7", "2.5"]})
    dropping = schema_of({**PLAIN, "outside": "drop"})
    # 1, -7 (clipped to 0) and 2.5 (rounded to 3): three records, a sum of 4
    assert count_people(rows, dropping).tolist() == [3 * 3 - 4, 4]
    for row in (1, 2, 3, 4, 5):
        with pytest.raises(InvalidInputError, match="row 1, column 'income'"):
            count_people(rows[row : row + 1], schema_of(PLAIN))


def test_mixtures_have_no_pml_no_whole_cells_and_no_known_sums():
    schema = schema_of(KEYS, PLAIN)
    asked = pml.workload("sex*income:sum", schema=schema)
    rows = pl.DataFrame({"sex": ["F", "M"], "income": [1, 2]})
    with pytest.raises(InvalidInputError, match="PML is about the cell that a record is in"):
        pml.mechanism(np.eye(4), asked, guarantee=pml.PML(1.0, alpha=0.1), noise="laplace")
    made = pml.mechanism(np.eye(4), asked, guarantee=pml.PureDP(1.0), noise="laplace")
    with pytest.raises(InvalidInputError, match="remove `integers`"):
        made.release(rows, schema=schema, integers=True)


def test_known_answers_may_count_bins_but_tell_no_sums():
    rows = pl.DataFrame({"income": [0, 1, 2, 3]})
    for entry, known in [
        ({**PLAIN, "knots": [1]}, [[1, 1, 0], [0, 0, 1]]),
        ({**PLAIN, "cuts": [1]}, [[1, 0, 1, 1], [0, 1, 0, 0]]),
        ({**PLAIN, "cuts": [1]}, [[1, 1, 0, 0], [0, 0, 1, 1]]),
    ]:
        schema = schema_of(entry)
        asked = pml.workload("income:sum", schema=schema)
        made = pml.optimize(
            asked, guarantee=pml.PureDP(1.0), noise="laplace", known=known, effort="quick"
        ).best
        if known[0] != [1, 1, 0, 0]:
            with pytest.raises(InvalidInputError, match="which single records do not add whole"):
                made.release(rows, schema=schema)
            continue
        release = made.release(rows, schema=schema, sampler=no_noise)
        assert [row["records"] for row in release.known] == [1, 3]
        assert release.table.estimate.tolist() == [6.0]


def test_levels_have_no_sums_beside_them():
    places = {"name": "place", "levels": ["state", "county"], "keys": {"AL": ["A", "B"]}}
    with pytest.raises(InvalidInputError, match="may have cuts or keys but no sums"):
        schema_of(places, PLAIN)


def test_json_of_a_schema_with_numbers_is_read(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"attributes": [PLAIN], "suppress": {"relative_error": 0.3}}))
    assert as_schema(path).suppress == 0.3
    assert as_schema(path).denominator == 3
    with pytest.raises(InvalidInputError, match="a relative error above 0"):
        schema_of(PLAIN, suppress={"relative_error": 0})


@pytest.mark.parametrize("command", ["optimize", "compare", "calibrate", "target", "bounds"])
def test_leakage_is_refused_where_records_are_mixtures_of_cells(tmp_path, command):
    attributes = [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "income", "low": 0, "high": 9, "unit": 1},
    ]
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"attributes": attributes}))
    words = [command, "sex*income:sum + sex", "--schema", str(path), "--alpha", "0.1"]
    words += ["--std", "5"] if command == "target" else ["--epsilon", "1"]
    words += ["--noise", "laplace"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "mixtures of cells" in result.stderr
