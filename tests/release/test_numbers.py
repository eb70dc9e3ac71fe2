"""Numbers of people: mixtures of cells, their sums, means and shares, against enumeration."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pandas
import polars as pl
import pytest
from click.testing import CliRunner
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Neighbours
from pmldesign.release import as_schema, count_people, exact_noise, prepare

KEYS = {"name": "sex", "keys": ["F", "M"]}
PLAIN = {"name": "income", "low": 0, "high": 3, "unit": 1}
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
WIDE = {"name": "income", "low": 0, "high": 1000, "unit": 1}


def schema_of(*attributes, **more):
    return as_schema({"attributes": list(attributes), **more})


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
        search_time=0.05,
    )
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


def test_answers_without_noise_are_those_of_the_file(tmp_path):
    entry = {"name": "income", "low": 0, "high": 1000, "unit": 0.5, "cuts": [100, 500]}
    schema = schema_of(KEYS, entry)
    generator = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "sex": generator.choice(["F", "M"], 500),
            "income": generator.lognormal(5, 1.5, 500).round(3),
        }
    )
    counted = frame.with_columns(v=((pl.col("income").clip(0, 1000) * 2 + 0.5).floor() / 2))
    queries = "sex*income:mean + sex*income:sum + income + income:sums + income:linear,0,0,1,1"
    design = pml.mechanism(
        np.eye(12), pml.workload(queries, schema=schema), guarantee=pml.PureDP(1.0), noise="laplace"
    )
    files = [
        frame,
        pandas.DataFrame(frame.to_dict(as_series=False)),
        tmp_path / "p.csv",
        tmp_path / "p.parquet",
    ]
    frame.write_csv(files[2])
    frame.write_parquet(files[3])
    v, tables = counted["v"].to_numpy(), []
    by_sex = counted.group_by("sex").agg(mean=pl.col("v").mean(), sum=pl.col("v").sum()).sort("sex")
    places = np.searchsorted([100, 500], v, side="right")
    expected = [
        *by_sex["mean"], *by_sex["sum"], *np.bincount(places), *np.bincount(places, v),
        np.clip((v - 100) / 400, 0, 1).sum(),
    ]  # fmt: skip
    for data in files:
        release = design.release(data, schema=schema, sampler=no_noise)
        table = release.to_frame()
        np.testing.assert_allclose(table["estimate"], expected, rtol=1e-6)
        tables.append(table)
        assert (table["lower"] <= table["estimate"]).all()
        assert (table["estimate"] <= table["upper"]).all()
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0]["income"].to_list() == [
        "mean", "mean", "sum", "sum", "[0, 100)", "[100, 500)", "[500, 1000]",
        "sum of [0, 100)", "sum of [100, 500)", "sum of [500, 1000]", "linear,0,0,1,1",
    ]  # fmt: skip
    assert tables[0].height == release.manifest["queries"]


def groups_of(sizes, generator, entry):
    """Groups of people of given sizes: counts of the ends, and the true means."""
    high = entry["high"]
    means = generator.uniform(0.05, 0.95, len(sizes)) * high
    sums = np.rint(sizes * means).astype(np.int64)
    return np.stack([sizes * high - sums, sums], axis=1).ravel(), sums / sizes


class Counted:
    """A release that is prepared, of counts that are known: 1000 groups need no file of people."""

    def __init__(self, queries, groups, guarantee, noise, entry=WIDE, **options):
        schema = schema_of({"name": "county", "keys": list(range(groups))}, entry)
        asked = pml.workload(queries, schema=schema)
        ends = np.eye(2 * groups)  # the best for means, and then a release of independent numbers
        design = pml.mechanism(ends, asked, guarantee=guarantee, noise=noise)
        self.prepared = prepare(design, schema=schema, sampler=no_noise, **options)

    def table(self, counts, seed):
        return self.prepared.publish(counts, fast_sampler(seed)).table


@pytest.mark.parametrize(
    ("noise", "guarantee"),
    [("gaussian", pml.ApproxDP(0.5, 1e-6)), ("laplace", pml.PureDP(0.2))],
)
def test_intervals_of_means_cover_as_often_as_they_say(noise, guarantee):
    generator = np.random.default_rng(5)
    sizes = np.rint(10 ** generator.uniform(0.5, 3, 100)).astype(np.int64)
    counts, means = groups_of(sizes, generator, WIDE)
    made = Counted("county*income:mean", 100, guarantee, noise)
    covered = []
    for seed in range(60):
        table = made.table(counts, seed)
        covered.append((table.lower <= means) & (means <= table.upper))
    share, trials = np.mean(covered), 6000
    assert abs(share - 0.95) < 4 * math.sqrt(0.95 * 0.05 / trials) + 0.002


def test_simultaneous_intervals_of_means_hold_together():
    generator = np.random.default_rng(6)
    sizes = np.full(20, 50)
    counts, means = groups_of(sizes, generator, WIDE)
    made = Counted("county*income:mean", 20, pml.PureDP(0.5), "laplace", simultaneous=True)
    single = Counted("county*income:mean", 20, pml.PureDP(0.5), "laplace")
    tables = [made.table(counts, seed) for seed in range(60)]
    held = [((t.lower <= means) & (means <= t.upper)).all() for t in tables]
    assert np.mean(held) >= 0.9
    alone = [single.table(counts, seed) for seed in range(60)]
    assert np.mean([((t.lower <= means) & (means <= t.upper)).all() for t in alone]) < 0.5


@pytest.mark.filterwarnings("error")
def test_a_count_near_zero_has_a_wide_or_one_sided_interval():
    sizes = np.array([0, 1, 5, 10**6])
    sums = np.array([0, 1000, 5000, 5 * 10**8])
    counts = np.stack([sizes * 1000 - sums, sums], axis=1).ravel()
    made = Counted("county*income:mean + county", 4, pml.PureDP(0.1), "laplace")
    for seed in range(20):
        table = made.table(counts, seed)
        lower, upper, people = table.lower[:4], table.upper[:4], table.estimate[4:]
        assert (lower >= 0).all()
        assert (upper <= 1000).all()
        assert (lower <= upper).all()
        missing = np.isnan(table.estimate[:4])
        assert (missing == (people <= 0)).all()
        # an end of the range is within, unless both numbers are clear
        assert ((lower == 0) | (upper == 1000))[:2].all() or people[:2].max() > 60
        assert upper[3] - lower[3] < 1
    text = table._printed()
    assert all(entry == "" or math.isfinite(float(entry)) for entry in text["estimate"])


def test_the_interval_of_a_mean_is_fiellers():
    # Gaussian noise: the ends of the interval solve a quadratic equation
    made = Counted("county*income:mean", 2, pml.ApproxDP(1.0, 1e-6), "gaussian")
    counts = np.array([60_000, 40_000, 200_000, 700_000])
    table = made.prepared.publish(counts, no_noise).table
    (part,) = made.prepared.parts
    z = 1.959963984540054
    deviation = made.prepared.noise.of_answers.deviations[0]
    for i, (low, up) in enumerate(counts.reshape(2, 2) / 1000):
        u, v = up * 1000, low * 1000  # in units of the sum, with independent noise
        roots = np.roots([(u + v) ** 2 - 2 * z**2 * deviation**2,
                          -2 * u * (u + v) + 2 * z**2 * deviation**2,
                          u**2 - z**2 * deviation**2])  # fmt: skip
        ends = np.sort(np.real(roots)) * 1000
        width = ends[1] - ends[0]
        assert ends[0] - 0.005 * width <= table.lower[i] <= ends[0] + 1e-6 * width
        assert ends[1] - 1e-6 * width <= table.upper[i] <= ends[1] + 0.005 * width
    assert part.number == 2


def test_shares_add_up_and_lie_between_0_and_1():
    schema = schema_of(KEYS, {"name": "age", "cuts": [0, 18, 65, 120]})
    frame = pl.DataFrame({"sex": ["F"] * 30 + ["M"] * 10, "age": [10] * 10 + [40] * 25 + [80] * 5})
    made = pml.mechanism(
        np.eye(6),
        pml.workload("sex*age:share", schema=schema),
        guarantee=pml.PureDP(1.0),
        noise="laplace",
    )
    table = made.release(frame, schema=schema, sampler=no_noise).to_frame()
    np.testing.assert_allclose(table["estimate"], [1 / 3, 2 / 3, 0, 0, 1 / 2, 1 / 2], atol=1e-6)
    assert table["age"].to_list()[:2] == ["share of [0, 18)", "share of [18, 65)"]
    assert table["lower"].min() >= 0
    assert table["upper"].max() <= 1
    whole = made.release(frame, schema=schema, sampler=fast_sampler(1), nonnegative=True)
    shares = whole.table.estimate.reshape(2, 3).sum(axis=1)
    np.testing.assert_allclose(shares, 1, atol=1e-5)


def test_a_public_number_of_records_makes_means_sharper():
    sizes = {"sex": ["F"] * 50, "income": [400] * 50}
    schema = schema_of(KEYS, WIDE)
    asked = pml.workload("income:mean", schema=schema)
    for neighbours in Neighbours:
        made = pml.mechanism(
            [[1, 0, 1, 0], [0, 1, 0, 1]],
            asked,
            guarantee=pml.PureDP(1.0, neighbours),
            noise="laplace",
        )
        table = made.release(pl.DataFrame(sizes), schema=schema, sampler=no_noise).table
        np.testing.assert_allclose(table.estimate, 400, atol=1e-4)
        if neighbours == "replace":  # N is exact: the noise of the sum, over N
            assert table.standard_deviation[0] == pytest.approx(
                1000 * made.factorization.deviations[0] * made.scale * math.sqrt(2) / 1000 / 50,
                rel=0.01,
            )


def test_suppressed_estimates_are_missing_and_intervals_stay():
    sizes = np.array([2, 10_000])
    sums = np.array([900, 5 * 10**6])
    counts = np.stack([sizes * 1000 - sums, sums], axis=1).ravel()
    made = Counted("county*income:mean + county", 2, pml.PureDP(0.1), "laplace")
    plain = made.table(counts, 1)
    strict = schema_of({"name": "county", "keys": [0, 1]}, WIDE, suppress={"relative_error": 0.3})
    assert strict.digest != made.prepared.schema.digest
    table = plain.without_noisy(strict.suppress)
    clear = plain.standard_deviation <= 0.3 * np.abs(plain.estimate)
    assert clear.any()
    assert not clear.all()
    assert (np.isnan(table.estimate) == ~clear).all()
    assert (table.lower == plain.lower).all()
    assert (table.upper == plain.upper).all()
    frame = pl.DataFrame({"county": ["0", "1"], "income": [5, 7]})
    design = made.prepared.noise.mechanism
    release = design.release(frame, schema=strict, sampler=no_noise)
    assert np.isnan(release.table.estimate).all()
    assert release.manifest["suppress"] == {"relative_error": 0.3}
    assert release.to_frame()["estimate"].null_count() == 4


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
        ("income", "'histogram' is none of sum, mean, linear; write for example income:sum"),
        ("income:median", "none of sum, mean, linear"),
        ("income:sum,3", "none of"),
        ("income:linear,1", "value of a function at each of the 2 points 0, 3 of 'income'"),
        ("income:mean,0", "of how many people"),
        ("sex:share*income:mean", "one mean or share"),
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
    private = pml.mechanism(np.eye(4), asked, guarantee=pml.PML(1.0, alpha=0.1), noise="laplace")
    with pytest.raises(InvalidInputError, match="PML is about the cell that a record is in"):
        private.release(rows, schema=schema)
    made = pml.mechanism(np.eye(4), asked, guarantee=pml.PureDP(1.0), noise="laplace")
    with pytest.raises(InvalidInputError, match="leave integers out"):
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
            asked, guarantee=pml.PureDP(1.0), noise="laplace", known=known, search_time=0.05
        )
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
    words += ["--max-std", "5"] if command == "target" else ["--epsilon", "1"]
    words += ["--noise", "laplace"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "mixtures of cells" in result.stderr
