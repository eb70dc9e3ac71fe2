"""From people to a published table: consistent numbers, intervals, and a manifest without data."""

import csv
import hashlib
import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from fast_sampler import fast_sampler, no_noise

from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, Neighbours, PureDP
from pmldesign.releases import as_schema, parse_queries, prepare, release
from pmldesign.strategies import baseline
from pmldesign.workloads import DenseWorkload, parse_workload

CONTENT = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 50, 65, 120]},
        {"name": "region", "keys": list("ABC")},
    ]
}
SCHEMA = as_schema(CONTENT)
TEXT = "sex*age + sex + region"


def some_people(number=500, seed=4):
    generator = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "sex": generator.choice(["F", "M"], number),
            "age": generator.integers(0, 120, number),
            "region": generator.choice(list("ABC"), number),
        }
    )


def designed(guarantee, text=TEXT, schema=SCHEMA):
    queries = parse_queries(text, schema).workload
    found = factorize(queries, neighbours=guarantee.neighbours)
    noise = "gaussian" if isinstance(guarantee, ApproxDP) else "laplace"
    return mechanism(found.strategy, queries, guarantee=guarantee, noise=noise)


GUARANTEES = [
    PureDP(1.0),
    ApproxDP(1.0, 1e-6),
    ApproxDP(1.0, 1e-6, Neighbours.REPLACE),
    PML(1.0, 1 / 60),
]
IDS = ["pure", "approximate", "replace", "pml"]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=IDS)
def test_sums_agree_to_the_last_printed_digit(guarantee, tmp_path):
    release(designed(guarantee), some_people(), schema=CONTENT).save(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert list(rows[0]) == [
        *SCHEMA.names,
        "estimate",
        "standard_deviation",
        "lower",
        "upper",
    ]
    value = {(r["sex"], r["age"], r["region"]): Fraction(r["estimate"]) for r in rows}
    ages = SCHEMA.attributes[1].labels
    for sex in "FM":
        assert sum(value[sex, age, "*"] for age in ages) == value[sex, "*", "*"]
    total = sum(value["*", "*", region] for region in "ABC")
    assert total == value["F", "*", "*"] + value["M", "*", "*"]
    if guarantee.neighbours is Neighbours.REPLACE:
        assert total == pytest.approx(500, abs=1e-3)
    for row in rows:
        assert Fraction(row["lower"]) <= Fraction(row["estimate"]) <= Fraction(row["upper"])


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=IDS)
def test_without_noise_the_table_is_that_of_the_data(guarantee):
    people = some_people()
    found = release(designed(guarantee), people, schema=SCHEMA, sampler=no_noise)
    by = people.group_by("sex").len().sort("sex")["len"].to_list()
    columns = found.table.columns()
    assert columns["estimate"][10:12] == pytest.approx(by, abs=1e-3)
    assert "not private" in json.dumps(found.manifest["guarantee"])
    assert "not private" in found.manifest["noise"]["sampler"]


def test_the_worst_query_is_covered_and_the_standard_deviation_right():
    made = designed(ApproxDP(1.0, 1e-6))
    people = some_people()
    truth = release(made, people, schema=SCHEMA, sampler=no_noise).table.estimate
    runs, sample = 200, fast_sampler(8)
    plan = prepare(made, schema=SCHEMA)
    histogram = plan.counts(people)
    tables = [plan.publish(histogram, sample).table for _ in range(runs)]
    inside = np.mean([(t.lower <= truth) & (truth <= t.upper) for t in tables], axis=0)
    assert inside.min() > 0.95 - 5 * np.sqrt(0.05 * 0.95 / runs)
    spread = np.std([t.estimate for t in tables], axis=0)
    assert np.allclose(spread, tables[0].standard_deviation, rtol=5 / np.sqrt(2 * runs))


def test_the_manifest_holds_nothing_of_the_data():
    made = designed(PureDP(1.0))
    first, second = (
        release(made, some_people(number, seed), schema=SCHEMA).manifest
        for number, seed in ((500, 4), (77, 5))
    )
    assert first == second
    assert "records" not in first
    assert first["guarantee"]["neighbours"] == "add-remove"
    assert Fraction(first["lattice"]["sensitivity"]) / Fraction(
        first["noise"]["parameter"]
    ) <= Fraction(1)
    replace = designed(PureDP(1.0, Neighbours.REPLACE))
    assert release(replace, some_people(77), schema=SCHEMA).manifest["records"] == 77


def test_rows_per_person_scale_the_noise():
    made = designed(ApproxDP(1.0, 1e-6))
    four = as_schema({**CONTENT, "rows_per_person": 4})
    tables = [
        release(made, some_people(500), schema=schema, sampler=no_noise).table
        for schema in (SCHEMA, four)
    ]
    ratio = tables[1].standard_deviation / tables[0].standard_deviation
    assert np.allclose(ratio, 4, rtol=2e-6)
    replace = designed(ApproxDP(1.0, 1e-6, Neighbours.REPLACE))
    with pytest.raises(InvalidInputError, match="exactly 4 rows, and 501"):
        release(replace, some_people(501), schema=four)
    with pytest.raises(InvalidInputError, match="under PML"):
        release(designed(PML(1.0, 1 / 60)), some_people(500), schema=four)


def test_a_histogram_needs_no_schema(tmp_path):
    queries = parse_workload("prefix:4")
    made = mechanism(baseline("identity", queries), queries, guarantee=PureDP(1.0))
    found = release(made, np.array([5, 0, 7, 1]), sampler=no_noise)
    assert found.table.columns()["query"] == ["0", "1", "2", "3"]
    assert found.table.estimate.tolist() == [5, 5, 12, 13]
    assert found.to_frame().shape == (4, 5)
    found.save(tmp_path / "t.parquet")
    frame = pl.read_parquet(tmp_path / "t.parquet")
    assert frame["estimate"].to_list() == [5, 5, 12, 13]
    written = json.loads((tmp_path / "t.manifest.json").read_text())
    digest = hashlib.sha256((tmp_path / "t.parquet").read_bytes()).hexdigest()
    hashes = written.pop("sha256")
    assert hashes["table"] == digest
    assert {key: hashes[key] for key in found.manifest["sha256"]} == found.manifest["sha256"]
    assert written == {key: found.manifest[key] for key in written}
    with pytest.raises(FileError, match=r"ends in .csv or .parquet"):
        found.save(tmp_path / "t.txt")


def test_queries_with_fractions_are_answered_too():
    queries = DenseWorkload([[0.5, 0.25, 0.0], [0.1, 0.2, 0.3], [1, 1, 1]])
    made = mechanism(baseline("identity", queries), queries, guarantee=PureDP(1.0))
    found = release(made, [10, 20, 30], sampler=no_noise)
    assert found.table.estimate == pytest.approx([10, 14, 60], abs=1e-4)


def test_what_does_not_fit_together_is_refused():
    queries = parse_workload("prefix:4")
    made = mechanism(baseline("identity", queries), queries, guarantee=PureDP(1.0))
    with pytest.raises(InvalidInputError, match="the schema has 30 cells, the workload 4"):
        release(made, some_people(), schema=SCHEMA)
    with pytest.raises(InvalidInputError, match="draft"):
        release(designed(PureDP(1.0)), some_people(), schema={**CONTENT, "reviewed": False})
    with pytest.raises(InvalidInputError, match="needs a guarantee"):
        release(mechanism(baseline("identity", queries), queries), [1, 2, 3, 4])
