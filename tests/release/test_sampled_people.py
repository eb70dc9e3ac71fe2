"""A public sample of people is counted by the schema, in the order of its cells."""

import json
import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.releases import as_schema, count_people

ATTRIBUTES = [
    {"name": "sex", "keys": ["M", "F"]},
    {"name": "age", "cuts": [0, 30, 60, 100]},
]
PLACES = {"name": "place", "levels": ["state", "county"], "keys": {"a": ["x", "y"], "b": ["z"]}}
RNG = np.random.default_rng(1)


def sample(people=900):
    columns = {
        "id": np.arange(people),
        "sex": RNG.choice(["F", "M"], people, p=[0.6, 0.4]),
        "age": RNG.integers(0, 100, people),
        "county": RNG.choice(["x", "y", "z"], people),
        "pay": RNG.integers(0, 9, people),
    }
    return pl.DataFrame(columns)


def said(arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"impossible": [{"sex": "M", "age": "[60, 100)"}]},
        {"attributes": [PLACES, ATTRIBUTES[0]]},
        {"person": "id"},
    ],
)
def test_people_and_their_counts_have_the_same_limits(ending, more, tmp_path):
    schema, people, counts = tmp_path / "s.json", tmp_path / f"p.{ending}", tmp_path / "n.csv"
    content = {"attributes": ATTRIBUTES, "outside": "drop", **more}
    schema.write_text(json.dumps(content))
    frame = sample()
    frame.write_csv(people) if ending == "csv" else frame.write_parquet(people)
    by_hand = {(sex, low): 0 for sex in "MF" for low in (0, 30, 60)}
    for sex, age in frame.select("sex", "age").rows():
        by_hand[sex, 30 * min(age // 30, 2)] += 1
    found = count_people(people, as_schema(content))
    if "attributes" not in more:
        wanted = [n for cell, n in by_hand.items() if "impossible" not in more or cell != ("M", 60)]
        assert found.tolist() == wanted
    counts.write_text("".join(f"{n}\n" for n in found))
    queries = "sex + place:levels" if "attributes" in more else "sex*age"
    asked = ["calibrate", queries, "--schema", schema, "--epsilon", "2", "--noise", "laplace"]
    one, other = (said([*asked, "--alpha", f"sample:{file}"]) for file in (people, counts))
    assert one == other
    assert "from a public sample of" in one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": [{"name": "pay", "low": 0, "high": 8, "unit": 1}]}, "schema has numbers"),
        (
            {"attributes": [{"name": "sex", "keys": ["F"]}]},
            "row .*, column 'sex': 'M' is not a key",
        ),
        ({"attributes": [*ATTRIBUTES, {"name": "q", "keys": ["1"]}]}, "have no column 'q'"),
        ({"rows_per_person": 2, "person": "id"}, "rows_per_person must be 1 under PML"),
    ],
)
def test_samples_that_are_refused(change, message, tmp_path):
    schema, people = tmp_path / "s.json", tmp_path / "p.csv"
    schema.write_text(json.dumps({"attributes": ATTRIBUTES, **change}))
    sample().write_csv(people)
    name = json.loads(schema.read_text())["attributes"][0]["name"]
    asked = ["optimize", f"{name}:sum" if name == "pay" else name, "--schema", str(schema)]
    result = CliRunner().invoke(main, [*asked, "--epsilon", "2", "--alpha", f"sample:{people}"])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    assert re.search(message, result.output), result.output
