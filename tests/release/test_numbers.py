"""Numbers of people are mixtures of cells: records, sensitivities, norms, against enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from number_schemas import KEYS, PLAIN, schema_of

import pmldesign as pml
from pmldesign.privacy import Neighbours
from pmldesign.releases import as_schema, count_people, exact_noise, parse_queries

KNOTS = {"name": "income", "low": -1, "high": 2, "unit": 0.5, "knots": [0]}
BINS = {"name": "income", "low": 0, "high": 3, "unit": 1, "cuts": [1]}
HOURS = {"name": "hours", "low": 0, "high": 2, "unit": 1}
SMALL = [
    ([PLAIN], "income:sum + total"),
    ([KEYS, PLAIN], "sex*income:mean + sex*income:sum"),
    ([KNOTS], "income:linear,1,0,0 + income:sum + total"),
    ([KEYS, BINS], "sex*income + income:sums"),
    ([PLAIN, HOURS], "income:sum + hours:sum + income:sum*hours:sum"),
]


def rounded(entry, value):
    """The value that counts, by the words of the docs: clipped, rounded, halves upwards."""
    low, high, unit = (Fraction(str(entry[key])) for key in ("low", "high", "unit"))
    clipped = min(max(Fraction(str(value)), low), high)
    return low + math.floor((clipped - low) / unit + Fraction(1, 2)) * unit


def weights(entry, value):
    """How much of a record is in each cell, from the definition of the mixture."""
    if "keys" in entry:
        return [Fraction(int(key == value)) for key in entry["keys"]]
    inner = entry.get("knots", entry.get("cuts", []))
    points = [Fraction(str(point)) for point in (entry["low"], *inner, entry["high"])]
    number = rounded(entry, value)
    pairs = [*itertools.pairwise(points)]
    inside = [a <= number < b for a, b in pairs]
    inside[-1] |= number == points[-1]
    both = [
        ((b - number) / (b - a), (number - a) / (b - a)) if here else (Fraction(0), Fraction(0))
        for here, (a, b) in zip(inside, pairs, strict=True)
    ]
    if "cuts" in entry:
        return [share for pair in both for share in pair]
    cells = [Fraction(0)] * len(points)
    for k, (lower, upper) in enumerate(both):
        cells[k] += lower
        cells[k + 1] += upper
    return cells


def record(attributes, values):
    cells = [Fraction(1)]
    for entry, value in zip(attributes, values, strict=True):
        cells = [a * b for a in cells for b in weights(entry, value)]
    return cells


def all_values(entry):
    if "keys" in entry:
        return entry["keys"]
    unit = Fraction(str(entry["unit"])) / 2  # values between are rounded
    steps = int((Fraction(str(entry["high"])) - Fraction(str(entry["low"]))) / unit)
    return [float(Fraction(str(entry["low"])) + k * unit) for k in range(-1, steps + 2)]


def people(attributes, rows):
    columns = zip(*rows, strict=True)
    return pl.DataFrame({a["name"]: list(c) for a, c in zip(attributes, columns, strict=True)})


@pytest.mark.parametrize(("attributes", "_"), SMALL)
def test_records_are_the_mixtures_of_the_definition(attributes, _):
    schema = schema_of(*attributes)
    for values in itertools.product(*map(all_values, attributes)):
        counts = count_people(people(attributes, [values]), schema)
        expected = [share * schema.denominator for share in record(attributes, values)]
        assert counts.tolist() == expected
        assert counts.sum() == schema.denominator


@pytest.mark.parametrize(("attributes", "queries"), SMALL)
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "cube"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_records_are_farther_apart_than_the_sensitivity(attributes, queries, noise, neighbours):
    schema = schema_of(*attributes)
    guarantee = pml.ApproxDP(1.0, 1e-5, neighbours)
    if noise != "gaussian":
        guarantee = pml.PureDP(1.0, neighbours)
    design = pml.optimize(
        pml.workload(queries, schema=schema),
        guarantee=guarantee,
        noise="gaussian" if noise == "gaussian" else "laplace",
        effort="quick",
    ).best
    design = pml.mechanism(design.strategy, design.workload, guarantee=guarantee, noise=noise)
    noisy = exact_noise(design, denominator=schema.denominator)
    values = itertools.product(*({*map(rounded_of(a), all_values(a))} for a in attributes))
    cells = {tuple(record(attributes, row)) for row in values}
    whole = [np.array([int(s * schema.denominator) for s in row], dtype=object) for row in cells]
    size = {
        "laplace": lambda y: int(np.abs(y).sum()),
        "gaussian": lambda y: int((y * y).sum()),
        "cube": lambda y: int(np.abs(y).max()),
    }[noise]

    def largest(vectors):
        images = [noisy.lattice.image(x.astype(np.int64)).astype(object) for x in vectors]
        pairs = itertools.combinations(images, 2)
        return max(map(size, images if neighbours == "add-remove" else [a - b for a, b in pairs]))

    assert largest(whole) <= noisy.sensitivity
    ends = largest(schema.denominator * np.eye(schema.cells, dtype=int))  # records or their limits
    if noisy.exact:
        assert ends == noisy.sensitivity
    else:
        assert noisy.sensitivity * (1 - 1e-5) <= ends <= noisy.sensitivity
    if noise != "gaussian":
        assert Fraction(noisy.sensitivity) / Fraction(noisy.scale) <= 1


def rounded_of(entry):
    return (lambda value: value) if "keys" in entry else (lambda v: float(rounded(entry, v)))


def test_sums_of_squares_are_above_by_what_the_knots_leave():
    rng = np.random.default_rng(9)
    pay = rng.integers(0, 1001, 300)
    knots = {"name": "income", "low": 0, "high": 1000, "unit": 1, "knots": [100, 250, 600]}
    form = as_schema({"attributes": [knots]})
    counts = count_people(pl.DataFrame({"income": pay}), form)
    queries = pml.workload("income:sum2 + income:sum", schema=form)
    squares, total = queries.to_dense() @ counts / form.denominator
    assert total == pytest.approx(pay.sum())
    ends = np.array([0, 100, 250, 600, 1000])
    place = np.minimum(np.searchsorted(ends, pay, side="right"), 4) - 1
    above = ((pay - ends[place]) * (ends[place + 1] - pay)).sum()
    assert squares == pytest.approx((pay.astype(float) ** 2).sum() + above)
    assert 0 <= above <= (np.diff(ends)[place] ** 2).sum() / 4
    exact = as_schema({"attributes": [{**PLAIN, "knots": [1, 2]}]})
    whole = count_people(pl.DataFrame({"income": [0, 1, 2, 3, 3]}), exact)
    (answer,) = pml.workload("income:sum2", schema=exact).to_dense() @ whole / exact.denominator
    assert answer == 0 + 1 + 4 + 9 + 9


def test_every_output_of_a_sum_keeps_epsilon():
    # one measurement: the sum of numbers 0, 1, 2, 3, in its own grid
    schema = schema_of(PLAIN)
    made = pml.mechanism(
        [[0.0, 3.0]],
        pml.workload("income:sum", schema=schema),
        guarantee=pml.PureDP(0.5),
        noise="laplace",
    )
    noisy = exact_noise(made, denominator=schema.denominator)
    q = math.exp(-1 / noisy.scale)
    step = noisy.lattice.image(np.array([2, 1])) - noisy.lattice.image(np.array([3, 0]))
    outputs = np.arange(-40, 41) * int(step[0])

    def law(centre):
        return np.log((1 - q) / (1 + q)) - np.abs(outputs - centre) / noisy.scale

    losses = []
    for value in range(4):
        image = int(noisy.lattice.image(np.array([3 - value, value]))[0])
        losses.append(np.abs(law(image) - law(0)).max())
    np.testing.assert_allclose(losses, [0, 0.5 / 3, 1 / 3, 0.5], rtol=1e-6, atol=1e-12)
    assert max(losses) <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("queries", "low", "norm"),
    [
        ("income:sum + total", 0, (1 + math.sqrt(5)) / 2),
        ("income:sum", 0, 1.0),
        ("income:mean", 0, math.sqrt(2)),  # both ends, with noise of their own
    ],
)
def test_norms_of_sums_and_counts(queries, low, norm):
    schema = schema_of({"name": "income", "low": low, "high": low + 1, "unit": 1})
    certificate = pml.factorize(pml.workload(queries, schema=schema)).certificate
    assert certificate.lower <= norm * (1 + 1e-12)
    assert norm * (1 - 1e-12) <= certificate.upper
    assert certificate.upper <= norm * (1 + 1e-6)


def test_by_state_and_sex_the_norm_is_a_product():
    states = {"name": "state", "keys": list(range(50))}
    schema = schema_of(states, KEYS, {"name": "income", "low": 0, "high": 1, "unit": 0.01})
    asked = pml.workload("state*sex*income:sum + state*sex", schema=schema)
    certificate = pml.factorize(asked).certificate
    norm = math.sqrt(100) * (1 + math.sqrt(5)) / 2
    assert norm * (1 - 1e-6) <= certificate.lower <= certificate.upper <= norm * (1 + 1e-6)


@pytest.mark.parametrize(
    ("queries", "told"),
    [
        ("income:sum + sex", ("income:sum", "sex", 1e5, 1e-5)),
        ("sex + sex*income:mean", ("sex*income:mean", "sex", 1e5, 1e-5)),
        ("income:mean,100 + sex", ("income:mean,100", "sex", 1e3, 1e-3)),
        ("0.01*income:sum + sex", ("income:sum", "sex", 1e3, 1e-5)),
        ("income:sum + 500*sex", ("income:sum", "sex", 200, 0.005)),
        ("income:mean,1000 + sex", None),
        ("0.00001*income:sum + sex", None),
        ("income:sum + sex*income:sum", None),
        ("sex + total", None),
    ],
)
def test_sums_in_units_far_from_those_of_counts_are_told(queries, told):
    income = {"name": "income", "low": 0, "high": 100000, "unit": 1}
    schema = as_schema({"attributes": [KEYS, income]})
    assert parse_queries(queries, schema).unlike() == (told and pytest.approx(told))
