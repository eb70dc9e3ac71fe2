"""Bins without an end, bins of dates, and keys that are compared without spaces and case."""

import polars as pl
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.releases import DIALECTS, as_schema, check_schema, count_people, query_text


def schema_of(**attribute):
    return as_schema({"attributes": [{"name": "a", **attribute}]})


@pytest.mark.parametrize(
    ("cuts", "labels", "values", "counts"),
    [
        ([0, 18, 85, None], ["[0, 18)", "[18, 85)", "85+"], ["85", "300", "17.9"], [1, 0, 2]),
        ([None, 0, 10], ["<0", "[0, 10)"], ["-1e300", "-0", "9.5"], [1, 2]),
        ([None, 0.5, None], ["<0.5", "0.5+"], ["0.5", "0.4", "7"], [1, 2]),
        (
            [None, "2000-01-01", "2024-02-29 12:00", None],
            ["before 2000-01-01", "[2000-01-01, 2024-02-29 12:00:00)", "from 2024-02-29 12:00:00"],
            ["1999-12-31 23:59:59.9", "2000-01-01", "2024-02-29T11:59", "2024-02-29T12:00"],
            [1, 2, 1],
        ),
    ],
)
def test_bins_may_be_open_and_of_dates(cuts, labels, values, counts):
    schema = schema_of(cuts=cuts)
    assert list(schema.attributes[0].labels) == labels
    assert count_people(pl.DataFrame({"a": values}), schema).tolist() == counts


@pytest.mark.parametrize(
    ("cuts", "value", "message"),
    [
        ([0, 18, None], "-1", "'-1' is outside the bins \\[0, 18\\) to 18\\+ \\(below the first"),
        ([0, 18, None], "1e400", "'1e400' is not a number"),
        (["2000-01-01", None], "1999-12-31", "'1999-12-31' is outside the bins from 2000-01-01 "),
        (["2000-01-01", None], "2023-02-29", "is not a date such as 2020-01-31"),
        (["2000-01-01", None], "2020-01-01 00:00+01:00", "or a time without an offset"),
        (["2000-01-01", None], "2020", "'2020' is not a date"),
    ],
)
def test_values_outside_of_all_bins_are_refused(cuts, value, message):
    with pytest.raises(InvalidInputError, match=message):
        count_people(pl.DataFrame({"a": [value]}), schema_of(cuts=cuts))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"cuts": [None, None]}, "cuts must be numbers, or dates"),
        ({"cuts": [0, None, 5]}, "first or the last may be null"),
        ({"cuts": [0]}, "at least two"),
        ({"cuts": ["2020-02-30", None]}, "cuts must be numbers, or dates"),
        ({"cuts": ["2020-01-01", 5]}, "cuts must be numbers, or dates"),
        ({"cuts": ["2020-01-02", "2020-01-01"]}, "must increase"),
        ({"cuts": [0, 1], "normalize": True}, "normalize must be true or false, and is for keys"),
        ({"keys": ["F"], "normalize": "yes"}, "normalize must be true or false"),
        ({"keys": ["F", " f"], "normalize": True}, "F and f if normalize is true"),
    ],
)
def test_bins_and_keys_that_are_ambiguous_are_refused(attribute, message):
    with pytest.raises(InvalidInputError, match=message):
        schema_of(**attribute)


def test_keys_are_compared_as_they_are_unless_the_schema_normalizes_them():
    people = pl.DataFrame({"a": ["F", " f ", "M", "m", "É", "é"]})
    normal = schema_of(keys=["F", "M", "é"], normalize=True, outside="drop")
    exact = schema_of(keys=["F", "M", "é"], outside="drop")
    assert count_people(people, normal).tolist() == [2, 2, 1]  # no database changes É alike
    assert count_people(people, exact).tolist() == [1, 1, 1]
    assert normal.digest != exact.digest
    (found,) = check_schema(people, normal).attributes
    assert [value.text for value in found.values] == ["É"]


def test_a_key_for_all_others_may_be_one_of_the_keys_in_another_case():
    schema = schema_of(keys=["F", "Other"], outside="OTHER", normalize=True)
    assert schema.attributes[0].labels == ("F", "Other")
    assert count_people(pl.DataFrame({"a": ["f", "x", "other"]}), schema).tolist() == [1, 2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_of_other_databases_have_no_mark_left(dialect):
    schema = as_schema(
        {
            "attributes": [
                {"name": "sex", "keys": ["F", "M"], "normalize": True},
                {"name": "born", "cuts": [None, "2000-01-01", None]},
                {"name": "age", "cuts": [0, 85, None]},
            ]
        }
    )
    text = query_text(schema, dialect, "people")
    assert "TEXT_OF" not in text
    assert "None" not in text
