"""Sums, means and shares of people: their values and their intervals, against the file."""

import math

import numpy as np
import pandas
import polars as pl
import pytest
from fast_sampler import fast_sampler, no_noise
from number_schemas import KEYS, WIDE, schema_of

import pmldesign as pml
from pmldesign.privacy import Neighbours
from pmldesign.releases import prepare


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
        tables.append({name: table[name].to_list() for name in table.columns})
        assert (table["lower"] <= table["estimate"]).all()
        assert (table["estimate"] <= table["upper"]).all()
    assert all(table == tables[0] for table in tables)
    assert tables[0]["income"] == [
        "mean", "mean", "sum", "sum", "[0, 100)", "[100, 500)", "[500, 1000]",
        "sum of [0, 100)", "sum of [100, 500)", "sum of [500, 1000]", "linear,0,0,1,1",
    ]  # fmt: skip
    assert len(tables[0]["income"]) == release.manifest["queries"]


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
