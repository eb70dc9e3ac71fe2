"""A workload that is made with a schema carries it: errors are about persons, as in the release."""

import numpy as np
import polars as pl
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError

SEX = {"name": "sex", "keys": ["F", "M"]}
MONTH = {"name": "month", "cuts": [1, 2, 3, 4]}
INCOME = {"name": "income", "low": 0, "unit": 10, "high": 100}
PLACES = {
    "name": "county",
    "levels": ["state", "county"],
    "regions": {"N": ["N1", "N2"], "S": ["S1"]},
}
PERSON = {"person": "id", "rows_per_person": 4}
PEOPLE = {
    "id": [1, 1, 2, 3, 3, 3, 4],
    "sex": ["F", "M", "F", "M", "M", "F", "F"],
    "month": [1, 2, 3, 1, 2, 3, 1],
    "income": [5, 50, 20, 99, 0, 60, 35],
}
SCHEMAS = {
    "rows": ("sex*month + sex", {"attributes": [SEX, MONTH], **PERSON}),
    "one per month": (
        "sex*month",
        {"attributes": [SEX, MONTH], "person": "id", "one_per": "month"},
    ),
    "one per cell": ("sex*month", {"attributes": [SEX, MONTH], **PERSON, "one_per": "cell"}),
    "numbers": ("sex*income:sum + sex", {"attributes": [SEX, INCOME], **PERSON}),
    "single rows": ("sex*month", {"attributes": [SEX, MONTH]}),
    "a sum of single rows": ("sex*income:sum", {"attributes": [SEX, INCOME]}),
}


def designs(queries, guarantee, noise):
    """The largest standard deviation by every public function that makes a mechanism."""
    asked = {"noise": noise, "effort": "quick", "time_limit": 5}
    best = pml.optimize(queries, guarantee, **asked).best
    yield best, best.max_std
    noisy = pml.mechanism("identity", queries, guarantee=guarantee, noise=noise)
    yield noisy, noisy.max_std
    again = pml.mechanism(pml.factorize(queries), guarantee=guarantee, noise=noise)
    yield again, again.max_std
    shown = pml.compare(queries, guarantee, strategies=["identity"], noise=noise)
    yield noisy, shown.rows[0].max_std


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("text", "schema"), [*SCHEMAS.values()], ids=SCHEMAS)
def test_designs_have_the_errors_of_the_release(text, schema, noise):
    guarantee = pml.ApproxDP(1, 1e-6)
    queries = pml.workload(text, schema=schema)
    for made, stated in designs(queries, guarantee, noise):
        published = made.release(pl.DataFrame(PEOPLE))
        assert published.table.standard_deviation.max() == pytest.approx(stated, rel=1e-4)
        assert published.manifest["sha256"]["schema"] == queries.schema.digest
        same = made.release(pl.DataFrame(PEOPLE), schema=schema)
        assert same.manifest["noise"] == published.manifest["noise"]


def test_a_person_costs_as_many_rows_as_the_schema_allows():
    """Laplace noise on counts: one row of a person has the scale 1 / epsilon, four have four."""
    for rows in (1, 4):
        schema = {"attributes": [SEX], "person": "id", "rows_per_person": rows}
        queries = pml.workload("sex", schema=schema)
        assert ("one record is all rows of one person" in repr(queries)) == (rows > 1)
        noisy = pml.mechanism("identity", queries, guarantee=pml.PureDP(1), noise="laplace")
        assert noisy.max_std == pytest.approx(2**0.5 * rows)
        assert pml.calibrate(queries, pml.PureDP(1), noise="laplace").scale == pytest.approx(rows)
        found = pml.least_budget(queries, pml.PureDP(1), targets=5, noise="laplace")
        assert found.enough == pytest.approx(2**0.5 * rows / 5, rel=1e-4)
        bounds = pml.bounds(queries, pml.ApproxDP(1, 1e-6))
        gaussian = next(bound for bound in bounds if bound.name == "Gaussian mechanisms")
        unit = pml.mechanism("identity", queries, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
        assert gaussian.value == pytest.approx(unit.error(), rel=1e-4)


def test_weights_and_levels_keep_the_schema(tmp_path):
    schema = pml.Schema.of(SCHEMAS["rows"][1])
    queries = pml.workload("sex*month", schema=schema, weights=np.arange(1, 7))
    assert queries.schema is schema
    noisy = pml.mechanism("identity", queries, guarantee=pml.PureDP(1), noise="laplace")
    published = noisy.release(pl.DataFrame(PEOPLE))
    assert published.table.standard_deviation == pytest.approx(np.full(6, 4 * 2**0.5), rel=1e-4)
    written = published.save(tmp_path / "t.csv")
    assert [path.name for path in written] == ["t.csv", "t.manifest.json"]
    published.measurements.save(tmp_path / "m.npz")
    asked = pml.read(tmp_path / "m.npz").ask(pml.workload("sex", schema=schema))
    assert asked.table.labels["sex"] == ["F", "M"]
    checked = pml.verify(tmp_path / "t.csv", workload=pml.workload("sex*month", schema=schema))
    assert not checked.failures
    assert "schema" not in {check.name for check in checked.unchecked}


def test_a_schema_is_not_contradicted():
    queries = pml.workload("sex", schema={"attributes": [SEX], **PERSON})
    with pytest.raises(
        InvalidInputError, match="the schema counts all rows of one person, up to 4"
    ):
        pml.optimize(queries, pml.PureDP(1), participation="2,any")
    with pytest.raises(InvalidInputError, match="the schema has 2 cells, the workload 3"):
        pml.workload(np.eye(3), schema={"attributes": [SEX]})
    plain = pml.workload("histogram:2")
    assert pml.workload(plain, schema={"attributes": [SEX]}).schema is not None
    assert plain.schema is None
    pml.mechanism("identity", plain, pml.PureDP(1, "replace"))  # which keeps the queries beside
    again = pml.workload(plain, schema={"attributes": [SEX], "person": "id", "rows_per_person": 2})
    noisy = pml.mechanism("identity", again, pml.PureDP(1, "replace"), noise="laplace")
    row = pml.mechanism("identity", plain, pml.PureDP(1, "replace"), noise="laplace")
    assert noisy.scale == pytest.approx(2 * row.scale)
    numbers = pml.workload("income:sum", schema={"attributes": [INCOME]})
    for call in (pml.optimize, lambda *given: pml.mechanism("workload", *given)):
        with pytest.raises(InvalidInputError, match="PML is about the cell that a record is in"):
            call(numbers, pml.PML(1, 0.1))
