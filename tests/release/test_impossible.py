"""Combinations that cannot be are no cells: against lists of all records that can be."""

import itertools
import json

import duckdb
import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner
from fast_sampler import no_noise

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.releases import Query, as_schema, count_people, exact_noise, people_of, prepare

SEX, AGE = ["F", "M"], ["[0, 15)", "[15, 40)", "[40, 90)"]
MARRIED = ["yes", "no"]
ATTRIBUTES = [
    {"name": "sex", "keys": SEX},
    {"name": "age", "cuts": [0, 15, 40, 90]},
    {"name": "married", "keys": MARRIED},
]
NEVER = [
    {"age": "[0, 15)", "married": "yes"},
    {"sex": "M", "age": ["[15, 40)", "[40, 90)"], "married": "no"},
]
SCHEMA = {"attributes": ATTRIBUTES, "impossible": NEVER}
CAN = [
    (sex, age, married)
    for sex, age, married in itertools.product(SEX, AGE, MARRIED)
    if not (age == AGE[0] and married == "yes")
    and not (sex == "M" and age != AGE[0] and married == "no")
]
YEARS = dict(zip(AGE, (3, 20, 50), strict=True))


def table(cells):
    rows = [(sex, YEARS[age], married) for sex, age, married in cells]
    return pl.DataFrame(rows, schema=["sex", "age", "married"], orient="row")


def matrix_of(parts):
    """Rows of the queries on the cells that can be, from the definition."""
    rows = []
    for names in parts:
        values = [
            v if n in names else [None] for n, v in zip("sam", (SEX, AGE, MARRIED), strict=True)
        ]
        for wanted in itertools.product(*values):
            rows.append(
                [all(w in (None, v) for w, v in zip(wanted, cell, strict=True)) for cell in CAN]
            )
    return np.array(rows, dtype=float)


QUERIES = [("sex*age*married", ["sam"]), ("sex*age + age*married + total", ["sa", "am", ""])]


@pytest.mark.parametrize(("text", "parts"), QUERIES)
def test_queries_are_about_the_cells_that_can_be(text, parts):
    queries = pml.workload(text, schema=SCHEMA)
    assert (queries.to_dense() == matrix_of(parts)).all()
    best = pml.factorize(queries)
    assert best.certificate.gap < 1e-5
    assert best.certificate.upper == pytest.approx(
        pml.factorize(matrix_of(parts)).certificate.lower, rel=1e-4
    )
    # more cells can only be harder
    assert (
        best.certificate.upper
        < pml.factorize(pml.workload(text, schema={"attributes": ATTRIBUTES})).certificate.lower
    )


def test_closed_form_of_the_cells_that_are_left():
    queries = pml.workload("sex*age*married", schema=SCHEMA)
    for relation, square in (("add-remove", len(CAN)), ("replace", 2 * (len(CAN) - 1))):
        best = pml.factorize(queries, neighbours=relation).certificate
        assert best.lower == pytest.approx(np.sqrt(square), rel=1e-5)
        assert best.upper == pytest.approx(np.sqrt(square), rel=1e-5)


@pytest.mark.parametrize("relation", Neighbours)
def test_no_record_that_can_be_moves_the_lattice_farther(relation):
    form = as_schema(SCHEMA)
    queries = pml.workload("sex*age + age*married + total", schema=form)
    for noise, order in (("gaussian", 2), ("laplace", 1)):
        guarantee = pml.ZCDP(0.5, relation) if order == 2 else pml.PureDP(1.0, relation)
        design = pml.factorize(queries, neighbours=relation)
        noisy = exact_noise(pml.mechanism(design, guarantee=guarantee, noise=noise))
        moves = [noisy.lattice.image(count_people(table([cell]), form)) for cell in CAN]
        if relation is Neighbours.REPLACE:
            moves = [a - b for a, b in itertools.combinations(moves, 2)]
        longest = max(int((np.abs(move.astype(object)) ** order).sum()) for move in moves)
        assert longest <= noisy.sensitivity
        assert longest >= noisy.sensitivity * (1 - 1e-6)


def test_impossible_cells_are_answered_by_zero_without_noise(tmp_path):
    cells = [CAN[i] for i in np.random.default_rng(3).integers(0, len(CAN), 60)]
    queries = pml.workload("age*married + sex*age*married", schema=SCHEMA)
    noisy = pml.mechanism("identity", queries, guarantee=pml.PureDP(1.0), noise="laplace")
    published = noisy.release(table(cells), schema=SCHEMA)
    truth = matrix_of(["am", "sam"])
    never = ~truth.any(axis=1)
    assert never.sum() == 1 + 4
    for column in ("estimate", "standard_deviation", "lower", "upper"):
        assert (getattr(published.table, column)[never] == 0).all()
    assert (published.table.standard_deviation[~never] > 1).all()
    assert published.manifest["cells"] == len(CAN)
    again = published.measurements.ask(pml.workload("sex:share", schema=SCHEMA), schema=SCHEMA)
    assert again.table.estimate.size == 2
    prepared = prepare(noisy, schema=SCHEMA, nonnegative=True, integers=True)
    exact = prepared.publish(prepared.counts(table(cells)), no_noise)
    counts = np.array([cells.count(cell) for cell in CAN])
    assert np.allclose(exact.table.estimate, truth @ counts)
    published.save(tmp_path / "t.csv")
    assert not pml.verify(tmp_path / "t.manifest.json").failures


def test_sums_of_numbers_beside_what_cannot_be():
    form = {
        "attributes": [*ATTRIBUTES[1:], {"name": "pay", "low": 0, "high": 10, "unit": 1}],
        "impossible": NEVER[:1],
    }
    rows = [(20, "yes", 3), (50, "no", 10), (3, "no", 0)]
    frame = pl.DataFrame(rows, schema=["age", "married", "pay"], orient="row")
    queries = pml.workload("age*married*pay:sum + pay:mean", schema=form)
    noisy = pml.mechanism("identity", queries, guarantee=pml.PureDP(1.0), noise="laplace")
    prepared = prepare(noisy, schema=form)
    exact = prepared.publish(prepared.counts(frame), no_noise).table
    assert exact.estimate[:6] == pytest.approx([0, 0, 3, 0, 0, 10])
    assert exact.estimate[6] == pytest.approx(13 / 3, abs=1e-4)
    with pytest.raises(InvalidInputError, match="'pay' has low and high"):
        as_schema({**form, "impossible": [{"pay": "0", "married": "yes"}]})


@pytest.mark.parametrize("make", ["csv", "parquet", "polars", "pandas", "counted", "person"])
def test_rows_that_cannot_be_are_refused_or_dropped(make, tmp_path):
    cells = [*CAN, ("F", AGE[0], "yes"), *CAN]
    frame = table(cells)
    told = "sex=F, age=.0, 15., married=yes is impossible by the schema"
    content, row = SCHEMA, len(CAN) + 1
    if make == "person":
        content = {**SCHEMA, "person": "id", "rows_per_person": 2}
        frame = frame.with_columns(pl.Series("id", [f"p{i // 2}" for i in range(len(cells))]))
    form, dropping = as_schema(content), as_schema({**content, "outside": "drop"})
    data = frame
    if make == "csv":
        data = tmp_path / "d.csv"
        frame.write_csv(data)
    elif make == "parquet":
        data = tmp_path / "d.parquet"
        frame.write_parquet(data)
    elif make == "pandas":
        data = pandas.DataFrame(frame.to_dict(as_series=False))
    for schema in (form, dropping):
        if make == "counted":
            frame.write_parquet(tmp_path / "d.parquet")
            source = f"(SELECT * FROM '{tmp_path}/d.parquet')"
            answer = duckdb.sql(Query(schema, source, "key").counts)
            answer.write_csv(str(tmp_path / "counts.csv"))
            data = people_of(tmp_path / "counts.csv", schema, counted=True)
        if schema is form:
            where = "impossible values" if make == "counted" else f"row {row}: {told}"
            with pytest.raises(InvalidInputError, match=where):
                count_people(data, schema)
        else:
            assert count_people(data, schema).tolist() == [2] * len(CAN)
    if make == "counted":  # a file that no query wrote
        (tmp_path / "counts.csv").write_text('sex,age,married,records\nF,"[0, 15)",yes,1\n')
        with pytest.raises(InvalidInputError, match="impossible values"):
            count_people(data, form)
    form.require_release(Neighbours.REPLACE)
    with pytest.raises(InvalidInputError, match=r'outside "drop".* is for add-remove'):
        dropping.require_release(Neighbours.REPLACE)


@pytest.mark.parametrize(
    ("never", "message"),
    [
        ({"age": "x"}, "must be a list of combinations"),
        ([{}], "must be a list of combinations"),
        (["age"], "must be a list of combinations"),
        ([{"size": "x"}], "the schema has no attribute 'size'; it has sex, age, married"),
        ([{"sex": "X"}], "'sex' has no value 'X'; it has F, M"),
        ([{"sex": []}], "'sex' has no value ''"),
        ([{"sex": ["F", "M"]}], "no cell is left"),
    ],
)
def test_lists_that_are_none(never, message):
    with pytest.raises(InvalidInputError, match=message):
        as_schema({"attributes": ATTRIBUTES, "impossible": never})


def test_shapes_that_cannot_take_it_are_refused():
    keys = [{"name": f"a{i}", "keys": [*map(str, range(50))]} for i in range(2)]
    never = [{"a0": "1", "a1": "2"}]
    with pytest.raises(InvalidInputError, match="at most 2048 cells that can be, here are 2499"):
        as_schema({"attributes": keys, "impossible": never})
    many = [{"name": f"a{i}", "keys": [*map(str, range(50))]} for i in range(9)]
    with pytest.raises(InvalidInputError, match="at most 2048 cells that can be"):
        as_schema({"attributes": many, "impossible": never})
    places = {"name": "place", "levels": ["state"], "keys": ["a", "b"]}
    with pytest.raises(InvalidInputError, match="'place' has levels"):
        as_schema({"attributes": [places, keys[0]], "impossible": [{"a0": "1", "place": "a"}]})


def test_every_command_takes_them(tmp_path):
    schema, data = tmp_path / "s.json", tmp_path / "d.csv"
    schema.write_text(json.dumps(SCHEMA))
    table([*CAN, *CAN]).write_csv(data)
    given = ["--schema", str(schema), "--epsilon", "1"]
    asked = ["sex*age + age*married", *given]
    out, file = str(tmp_path / "t.csv"), str(tmp_path / "o.npz")
    commands = [
        ["optimize", *asked, "--noise", "laplace", "--effort", "quick", "-o", file],
        ["verify", file, "--schema", str(schema)],
        ["release", file, str(data), "--schema", str(schema), "-o", out],
        ["compare", *asked, "--noise", "laplace", "--effort", "quick"],
        ["bounds", *asked],
        ["calibrate", "sex*age + married", *given],
        ["target", *asked[:3], "--std", "5", "--noise", "gaussian", "--delta", "1e-6"],
        ["release", *asked, str(data), "--known", "sex", "-o", out, "--effort", "quick"],
    ]
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, (command, result.output)
        if command[0] not in ("verify", "calibrate", "release"):
            assert "12 queries on 8 cells" in result.output
