"""People with several rows of numbers: every person of small schemas, by the definition."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from counted_files import code_of, parts_of
from fast_sampler import no_noise

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.releases import as_schema, count_people, exact_noise, prepare
from pmldesign.verifier import KEY, digest_of

SEX = {"name": "sex", "keys": ["F", "M"]}
PAY = {"name": "pay", "low": 0, "high": 2, "unit": 1}
KNOT = {"name": "pay", "low": 0, "high": 2, "unit": 0.5, "knots": [1]}
BINS = {"name": "pay", "low": 0, "high": 2, "unit": 1, "cuts": [1]}
CASES = [
    ([SEX, PAY], {}, "sex*pay:sum + sex"),
    ([PAY, SEX], {"one_per": "sex"}, "pay:sum + sex"),
    ([SEX, PAY], {"one_per": "cell"}, "sex*pay:sum + total"),
    ([KNOT, SEX], {"one_per": "cell"}, "pay:linear,0,1,0 + sex*pay:sum"),
    ([SEX, BINS], {"one_per": "sex"}, "sex*pay + pay:sums"),
    ([PAY], {"one_per": "cell"}, "pay:sum + total"),
]


def record(attributes, row):
    """The cells of a row, from the definition of the mixture."""
    shares = [Fraction(1)]
    for entry, value in zip(attributes, row, strict=True):
        if "keys" in entry:
            own = [Fraction(int(key == value)) for key in entry["keys"]]
        else:
            inner = entry.get("knots", entry.get("cuts", []))
            points = [Fraction(p) for p in (entry["low"], *inner, entry["high"])]
            ends = [*itertools.pairwise(points)]
            inside = [a <= value < b or value == b == points[-1] for a, b in ends]
            pairs = [
                ((b - value) / (b - a), (value - a) / (b - a)) if here else (0, 0)
                for here, (a, b) in zip(inside, ends, strict=True)
            ]
            own = [Fraction(part) for pair in pairs for part in pair]
            if "cuts" not in entry:
                own = [
                    (pairs[i][0] if i < len(pairs) else 0) + (pairs[i - 1][1] if i else 0)
                    for i in range(len(points))
                ]
        shares = [a * b for a in shares for b in own]
    return shares


def persons(attributes, times, one_per):
    """Everybody with up to k rows, as lists of rows."""
    values = []
    for entry in attributes:
        if "keys" in entry:
            values.append(entry["keys"])
        else:
            steps = int((entry["high"] - entry["low"]) / entry["unit"])
            values.append([Fraction(entry["unit"]) * i for i in range(steps + 1)])
    rows = [*itertools.product(*values)]
    told = [i for i, entry in enumerate(attributes) if "keys" in entry]
    for count in range(times + 1):
        for chosen in itertools.combinations_with_replacement(rows, count):
            classes = {tuple(row[i] for i in told) for row in chosen}
            if one_per is None or len(classes) == count:
                yield chosen


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("attributes", "more", "queries"), CASES)
def test_nobody_moves_the_lattice_farther_than_the_sensitivity(
    attributes, more, queries, noise, relation
):
    for times in (1, 2, 3):
        content = {"attributes": attributes, "person": "id", "rows_per_person": times, **more}
        form = as_schema(content)
        gaussian = noise == "gaussian"
        promise = pml.ZCDP(0.5, relation) if gaussian else pml.PureDP(1.0, relation)
        design = pml.factorize(
            pml.workload(queries, schema=form),
            neighbours=relation,
            participation=form.participation and str(form.participation),
        )
        made = pml.mechanism(design, guarantee=promise, noise=noise)
        noisy = exact_noise(made, denominator=form.denominator)
        images = {}
        everybody = [*persons(attributes, times, form.one_per)]
        most = max(map(len, everybody))
        for rows in everybody:
            cells = sum((np.array(record(attributes, row)) for row in rows), np.zeros(1, int))
            counts = np.broadcast_to(cells * form.denominator, form.cells).astype(np.int64)
            if len(rows) == most or relation is Neighbours.ADD_REMOVE:
                images[noisy.lattice.image(counts).astype(float).tobytes()] = None
        found = np.array([np.frombuffer(image) for image in images])
        order = 2 if gaussian else 1
        others = found if relation is Neighbours.REPLACE else np.zeros((1, found.shape[1]))
        moves = (np.linalg.norm(found - other, order, axis=1).max() for other in others)
        farthest = max(moves) ** order
        assert farthest <= noisy.sensitivity * (1 + 1e-12)
        if form.one_per is None:
            assert farthest >= noisy.sensitivity * (1 - 1e-6)


def rows_of(people):
    return pl.DataFrame(people, schema=["id", "sex", "pay"], orient="row")


WIDE = [SEX, {"name": "pay", "low": 0, "high": 1000, "unit": 1}]
FORMS = [{}, {"one_per": "sex"}, {"one_per": "cell"}]


@pytest.mark.parametrize("more", FORMS, ids=str)
def test_each_person_keeps_up_to_k_of_their_rows(more, tmp_path):
    rng = np.random.default_rng(4)
    form = as_schema({"attributes": WIDE, "person": "id", "rows_per_person": 2, **more})
    others = [(f"p{i}", "F", int(rng.integers(0, 1001))) for i in range(30)]
    many = [("new", str(rng.choice(["F", "M"])), 500 + i // 2) for i in range(40)]
    before = count_people(rows_of(others), form)
    rows_of([*others[:9], *many, *others[9:]]).write_csv(tmp_path / "p.csv")
    rows_of([*others[:9], *many, *others[9:]]).write_parquet(tmp_path / "p.parquet")
    for data in (rows_of([*many, *others]), tmp_path / "p.csv", tmp_path / "p.parquet"):
        moved = (count_people(data, form) - before).reshape(2, 2)
        assert moved.sum() == 2 * form.denominator
        sums = moved @ np.array([0, 1])
        counts = moved.sum(axis=1) // form.denominator
        if more:
            assert counts.tolist() == [1, 1]
        held = Counter(row[1] for row in many)
        for sex, (count, total) in zip("FM", zip(counts, sums, strict=True), strict=True):
            own = sorted({row[2] for row in many if row[1] == sex})
            kept = itertools.combinations_with_replacement(own, int(count))
            assert count <= held[sex]
            assert total in map(sum, kept)


def test_sums_of_people_who_fit_are_those_of_the_file():
    rng = np.random.default_rng(5)
    people = [
        (f"p{i}", sex, int(rng.integers(-50, 1100))) for i in range(200) for sex in ("F", "M")
    ]
    content = {"attributes": WIDE, "person": "id", "one_per": "sex"}
    made = pml.mechanism(
        "identity",
        pml.workload("sex*pay:sum + sex*pay:mean", schema=content),
        guarantee=pml.ApproxDP(1, 1e-6),
        noise="gaussian",
    )
    prepared = prepare(made, schema=content)
    assert (
        "up to 2 of them with one for each of 2 values" in (prepared.manifest["guarantee"]["words"])
    )
    table = prepared.publish(prepared.counts(rows_of(people)), no_noise).table
    sums = [sum(min(max(p, 0), 1000) for _, s, p in people if s == sex) for sex in "FM"]
    assert table.estimate == pytest.approx([*sums, *(total / 200 for total in sums)], rel=1e-6)
    with pytest.raises(InvalidInputError, match="attribute with keys or cuts"):
        as_schema({**content, "one_per": "pay"})


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    "entry",
    [
        {"low": 0, "high": 100, "unit": 1},
        {"low": -3, "high": 7, "unit": 0.1, "knots": [0, 2.5]},
        {"low": 0, "high": 1e6, "unit": 0.25, "cuts": [1000]},
        {"low": -1e14, "high": 1e14, "unit": 1e8},
        {"low": 1e14, "high": 1e14 + 2, "unit": 1},
    ],
    ids=str,
)
def test_many_numbers_are_rounded_as_their_digits(entry, text):
    form = as_schema({"attributes": [{"name": "v", **entry, "outside": "drop"}]})
    rng = np.random.default_rng(6)
    low, high, unit = entry["low"], entry["high"], entry["unit"]
    steps = rng.integers(-5, int((high - low) / unit) + 5, 300)
    values = [low + float(s) * unit for s in steps]
    values += [low + (float(s) + 0.5) * unit for s in steps]
    values += rng.uniform(low - unit, high + unit, 300).tolist()
    values += [low, high, 0.0, -1.0, 1e18, 2.5, 0.05, 0.15, 1e300, -1e300, math.inf, math.nan]
    written = [repr(v) for v in values] if text else [*map(float, values)]
    (number,) = form.attributes
    codes = [code_of(number, value) for value in written]
    expected = parts_of(form, [(code,) for code in codes if code >= 0])
    for data in (pl.DataFrame({"v": written}), pd.DataFrame({"v": written})):
        assert count_people(data, form).tolist() == expected


FILES = [
    ("year*sex*pay:sum + year*pay:mean", {"one_per": "year"}, "year"),
    ("sex*pay:sum", {"one_per": "cell", "rows_per_person": 3}, "sex"),
    ("year*sex + pay:mean", {"one_per": "year"}, None),
    ("sex*pay:mean", {"rows_per_person": 3}, "total"),
    ("year*pay:mean + year:prefix", {"one_per": "year"}, "add-remove"),
]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("text", "more", "known"), FILES)
def test_measurements_of_persons_are_asked_and_verified(text, more, known, noise, tmp_path):
    years = {"name": "year", "keys": ["1", "2", "3"], "ordered": True}
    content = {"attributes": [years, *WIDE], "person": "id", **more}
    frame = pl.DataFrame(
        [(i, y, "FM"[(i + y) % 2], 7 * i + y) for i in range(50) for y in (1, 2, 3)],
        schema=["id", "year", "sex", "pay"],
        orient="row",
    )
    if more.get("one_per") == "cell":  # three different cells each
        content["attributes"] = [{**years, "keys": ["1", "2", "3"]}, *WIDE]
    queries = pml.workload(text, schema=content)
    relation = "add-remove" if known == "add-remove" else "replace"
    public = None
    if known not in (None, "add-remove"):
        public = known if known == "total" else pml.workload(known, schema=content)
    promise = pml.ApproxDP(1, 1e-6, relation) if noise == "gaussian" else pml.PureDP(1, relation)
    made = pml.optimize(queries, guarantee=promise, noise=noise, known=public, effort="quick").best
    published = made.release(frame, schema=content)
    path = tmp_path / "m.npz"
    published.measurements.save(path)
    checked = pml.verify(path, schema=content)
    assert not checked.failures, checked.failures
    assert "sensitivity of R" in {check.name for check in checked.checks}
    again = published.measurements.ask(queries, schema=content)
    assert again.table.estimate.tolist() == published.table.estimate.tolist()
    assert again.table.lower.tolist() == published.table.lower.tolist()
    # a release that understates the sensitivity by a factor of two is found
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    header = json.loads(str(arrays.pop("header")))
    header["manifest"]["lattice"]["unit"] /= 2
    arrays["units"] = arrays["units"] / 2
    header[KEY] = digest_of({name: value for name, value in header.items() if name != KEY}, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    checked = pml.verify(path, schema=content)
    assert {c.name for c in checked.failures} == {"sensitivity of R"}
