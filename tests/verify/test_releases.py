"""Releases of random schemas verify; other schemas, units and sensitivities do not."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from forgery import write
from random_releases import NOISES, random_case, released, verified

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.files import strategies as writer
from pmldesign.verifier import read_archive, read_object

KEYS = {"attributes": [{"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 40, 90]}]}
PEOPLE = pl.DataFrame({"sex": ["F", "M", "F"], "age": [12, 30, 77]})
UNSEEN = {"strategy", "queries", "method", "sampler"}


@pytest.mark.parametrize("noise", NOISES)
def test_releases_of_random_schemas_verify(noise, tmp_path):
    """`tests/robustness/released.py` makes 300."""
    rng, count = np.random.default_rng(NOISES.index(noise)), 0
    while count < 8:
        case = random_case(rng, noise)
        try:
            published = released(case)
        except (pml.InvalidInputError, pml.VacuousGuaranteeError):
            continue
        for result in verified(published, case, tmp_path):
            assert not result.failures, (case, result.failures)
            assert {check.name for check in result.unchecked} <= UNSEEN
        count += 1


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["laplace", "cube", "gaussian"])
@pytest.mark.parametrize(
    ("attributes", "queries"),
    [
        ([{"name": "age", "low": 0, "high": 50, "unit": 1}], "age:mean,4000 + total"),
        (
            [
                {"name": "y", "keys": [1, 2, 3]},
                {"name": "inc", "low": 0, "high": 9, "unit": 1, "knots": [3]},
            ],
            "y*inc:mean,20 + y",
        ),
    ],
)
def test_numbers_on_a_rounded_lattice_verify(attributes, queries, noise, relation, tmp_path):
    """Units are those of whole records over D, and entries may be off by more than these."""
    schema = {"attributes": attributes}
    people = pl.DataFrame({"age": [3, 44, 12], "y": [1, 2, 2], "inc": [3, 4, 9]})
    promise = pml.PureDP(1, relation)
    if noise == "gaussian":
        promise = pml.ApproxDP(1, 1e-6, relation)
    asked = pml.workload(queries, schema=schema)
    noisy = pml.mechanism("workload", asked, guarantee=promise, noise=noise)
    published = noisy.release(people, schema=schema)
    lattice = published.manifest["lattice"]
    assert lattice["bias_of_an_entry"] > lattice["unit"]
    published.save(tmp_path / "t.csv")
    published.measurements.save(tmp_path / "m.npz")
    for name in ("t.csv", "m.npz"):
        result = pml.verify(tmp_path / name, schema=schema)
        assert not result.failures
        assert "schema" not in {check.name for check in result.unchecked}
    content, arrays = read_archive(tmp_path / "m.npz")
    stated = Fraction(content["manifest"]["lattice"]["sensitivity"])
    content["manifest"]["lattice"]["sensitivity"] = str(int(stated * 2 // 3))
    parameter = content["manifest"]["noise"]
    if noise != "gaussian":
        parameter["parameter"] *= 2 / 3
        write(tmp_path / "m.npz", content, arrays)
        failed = {check.name for check in pml.verify(tmp_path / "m.npz").failures}
        assert "sensitivity of R" in failed


@pytest.mark.parametrize("rows", ["2,one-per=cell", "3,one-per=cell"])
@pytest.mark.parametrize("strategy", ["workload", "identity"])
def test_rows_of_a_person_in_tables_verify(strategy, rows, tmp_path):
    """Under replace the bound is that of what is measured without the total."""
    for queries in ("marginals:2,3,ways=1", "marginals:2,3,2,ways=2"):
        promise = pml.ApproxDP(1, 1e-6, "replace")
        noisy = pml.mechanism(
            strategy, queries, guarantee=promise, noise="gaussian", participation=rows
        )
        counts = np.full(noisy.workload.shape[1], 6)
        noisy.release(counts).measurements.save(tmp_path / "m.npz")
        assert not pml.verify(tmp_path / "m.npz").failures


def test_another_schema_is_told(tmp_path):
    """Two keys that change places, or one with another name, are another schema."""
    noisy = pml.mechanism("identity", pml.workload("sex*age", schema=KEYS), guarantee=pml.PureDP(1))
    published = noisy.release(PEOPLE, schema=KEYS)
    published.save(tmp_path / "t.csv")
    published.measurements.save(tmp_path / "m.npz")
    others = [["M", "F"], ["F", "N"], ["F", "M"]]
    for keys, same in zip(others, (False, False, True), strict=True):
        sex = {"name": "sex", "keys": keys}
        schema = {"attributes": [sex, KEYS["attributes"][1]]}
        (tmp_path / "s.json").write_text(json.dumps(schema))
        for name in ("t.csv", "m.npz"):
            failed = [c.name for c in pml.verify(tmp_path / name, schema=schema).failures]
            assert failed == ([] if same else ["schema"])
            words = ["verify", str(tmp_path / name), "--schema", str(tmp_path / "s.json")]
            assert CliRunner().invoke(main, words).exit_code == (8 if same else 7)
    unchecked = {check.name for check in pml.verify(tmp_path / "t.csv").unchecked}
    assert "schema" in unchecked
    pml.mechanism("identity", "histogram:2", guarantee=pml.PureDP(1)).release([3, 4]).save(
        tmp_path / "t.csv"
    )
    failed = {check.name for check in pml.verify(tmp_path / "t.csv", schema=KEYS).failures}
    assert failed == {"schema"}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("queries", "promise", "noise"),
    [
        ("histogram:4", pml.PureDP(1), "laplace"),
        ("prefix:6", pml.ZCDP(1, "replace"), "gaussian"),
        ("prefix:6", pml.PureDP(1), "cube"),
        ("marginals:3,4,ways=1", pml.PureDP(1), "laplace"),
    ],
)
def test_noise_is_of_no_other_units(queries, promise, noise, exact, tmp_path):
    """Twice the units state twice the noise that was drawn."""
    design = pml.factorize(queries, neighbours=promise.neighbours)
    noisy = pml.mechanism(design, guarantee=promise, noise=noise)
    published = noisy.release(np.arange(design.workload.shape[1]))
    path = tmp_path / "m.npz"
    published.measurements.save(path)
    assert not pml.verify(path).failures
    content, arrays = read_archive(path)
    content["manifest"]["lattice"]["unit"] *= 2
    content["manifest"]["lattice"]["exact"] = exact
    coarser = {**arrays, "units": 2 * arrays["units"]}
    write(path, content, coarser)
    assert pml.verify(path).failures
    write(path, content, {**coarser, "measured": 2 * arrays["measured"]})
    assert [check.name for check in pml.verify(path).failures] == ["sensitivity of R"]


def test_measured_values_are_whole_multiples_of_the_units(tmp_path):
    path = tmp_path / "m.npz"
    noisy = pml.mechanism("identity", "histogram:4", guarantee=pml.PureDP(1))
    noisy.release(np.arange(4)).measurements.save(path)
    content, arrays = read_archive(path)
    arrays["measured"][2] += arrays["units"][0] / 3
    write(path, content, arrays)
    assert "measurements" in {check.name for check in pml.verify(path).failures}


def test_a_query_whose_answer_is_public_may_have_a_row_of_rounding(tmp_path, monkeypatch):
    """The total among all ranges: L is A times an inverse, whose row for it is rounding alone."""
    monkeypatch.setattr(writer, "WRITTEN_ENTRIES", 1)
    noisy = pml.mechanism(
        "identity", "all-range:7", guarantee=pml.PureDP(1, "replace"), noise="laplace"
    )
    pml.write(tmp_path / "s.npz", noisy)
    assert "right_inverse" in read_archive(tmp_path / "s.npz")[1]
    assert pml.verify(tmp_path / "s.npz").holds


def test_a_manifest_states_in_how_many_parts_records_are(tmp_path):
    noisy = pml.mechanism("identity", "histogram:4", guarantee=pml.PureDP(1))
    noisy.release(np.arange(4)).save(tmp_path / "t.csv")
    path = tmp_path / "t.manifest.json"
    for parts in (None, 0, 1.0, "1"):
        content = read_object(path)
        content["lattice"]["denominator"] = parts
        write(tmp_path / "other.manifest.json", content, {})
        result = pml.verify(tmp_path / "other.manifest.json")
        assert "claims" in {check.name for check in result.failures}
