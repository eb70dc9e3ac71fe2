"""Queries by names of attributes: what they ask, and what is meant by wrong ones."""

import re

import numpy as np
import polars as pl
import pytest
from sex_and_age import SCHEMA

from pmldesign.errors import InvalidInputError
from pmldesign.releases import (
    as_schema,
    count_people,
    parse_queries,
)

THREE_LARGE = [{"name": name, "cuts": list(range(300))} for name in "abc"]


def test_labels_of_ranges_have_all_digits():
    cuts = [0, 1234567, 1234568, 0.1 + 1234569, 10**20]
    (attribute,) = as_schema({"attributes": [{"name": "a", "cuts": cuts}]}).attributes
    assert attribute.range_label(1, 3) == "[1234567, 1234569.1)"
    assert attribute.labels[3] == "[1234569.1, 1e+20)"
    form = as_schema({"attributes": [{"name": "a", "cuts": cuts}]})
    with pytest.raises(InvalidInputError, match=re.escape("'1e21' is outside the bins")):
        count_people(pl.DataFrame({"a": ["1e21"]}), form)


def test_queries_by_name_are_those_of_sums_over_the_other_attributes():
    schema = as_schema(
        {"attributes": [*SCHEMA["attributes"], {"name": "region", "keys": ["N", "S"]}]}
    )
    x = np.random.default_rng(2).integers(0, 99, (2, 3, 2))
    queries = parse_queries("region*sex + age:prefix + total + age:all-range*sex", schema)
    answers = queries.workload.matvec(x.ravel().astype(float))
    ranges = [x[:, a:b, :].sum(axis=(1, 2)) for a in range(3) for b in range(a + 1, 4)]
    expected = [x.sum(1).ravel(), x.sum((0, 2)).cumsum(), [x.sum()], np.array(ranges).T.ravel()]
    assert answers.tolist() == np.concatenate(expected).tolist()
    labels = queries.labels()
    rows = list(zip(*labels.values(), strict=True))
    assert labels.keys() == {"sex", "age", "region"}
    assert rows[:5] == [
        ("F", "*", "N"),
        ("F", "*", "S"),
        ("M", "*", "N"),
        ("M", "*", "S"),
        ("*", "[0, 18)", "*"),
    ]
    assert rows[5:8] == [("*", "[0, 35)", "*"), ("*", "*", "*"), ("*", "*", "*")]
    assert rows[9] == ("F", "[0, 35)", "*")
    assert len(rows) == len(answers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sexx", "did you mean 'sex'"),
        ("sex, age", r"write sex\*age for combinations, sex \+ age for each alone"),
        ("sum(age)", "write age for the counts of its values; for sums and means give it low and"),
        ("mean(income)", r"no attribute 'mean\(income\)'; it has sex, age"),
        ("sex*sex", "named twice"),
        ("age:haar", "none of histogram"),
        ("age:window", "takes 2 sizes"),
        ("sex*", r"no attribute ''; write names on both sides of \* and \+"),
        ("AGE", "did you mean 'age'"),
    ],
)
def test_wrong_queries_are_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        assert parse_queries(text, as_schema(SCHEMA)).workload


@pytest.mark.parametrize("text", ["e:prefix", "sex*e:all-range", "sex + e : window,1"])
@pytest.mark.parametrize("keys", [["12years", "9years"], [1, 2]])
def test_sums_over_keys_need_an_order(text, keys):
    """Codes that are numbers are in no order by themselves: 1 is married, 2 is single."""
    entry = {"name": "e", "keys": keys}
    with pytest.raises(InvalidInputError, match=r"keys of 'e' are in none; .*\"ordered\": true"):
        parse_queries(text, as_schema({"attributes": [SCHEMA["attributes"][0], entry]}))
    with pytest.raises(InvalidInputError, match="prefix:2"):
        parse_queries(
            "marginals:2,prefix2,ways=1",
            as_schema({"attributes": [*SCHEMA["attributes"][:1], entry]}),
        )
    ordered = as_schema({"attributes": [SCHEMA["attributes"][0], {**entry, "ordered": True}]})
    assert parse_queries(text, ordered).workload.shape[1] == 4
    assert parse_queries("marginals:2,prefix2,ways=1", ordered).workload.shape[1] == 4


def test_of_a_large_domain_only_tables_are_asked():
    large = as_schema({"attributes": THREE_LARGE})
    assert parse_queries("a*b + c", large).workload.subsets == ((0, 1), (2,))
    running = parse_queries("a:prefix*b + c", large).workload
    assert running.shape == (299**2 + 299, large.cells)
    both = parse_queries("a:prefix + a", large).workload
    assert both.shape == (2 * 299, large.cells)
