"""Measurements that are kept: published answers again, further questions, several releases."""

import csv
import io
import json
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from fast_sampler import fast_sampler
from scipy.special import erfcx

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.releases import as_schema, coarser
from pmldesign.verifier import read_archive
from pmldesign_solvers.search import laplace_half_widths

CONTENT = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 50, 120]},
        {"name": "region", "keys": list("ABC")},
    ]
}
SCHEMA = as_schema(CONTENT)
COUNTS = np.random.default_rng(2).integers(0, 60, 24)
GAUSSIAN, REPLACE = pml.ApproxDP(1, 1e-6), pml.ApproxDP(1, 1e-6, "replace")


def released(text, guarantee=GAUSSIAN, noise="gaussian", *, seed=1, strategy=None, **options):
    """From a histogram, in the cells of the schema."""
    queries = pml.workload(text, schema=SCHEMA)
    design = strategy or pml.factorize(queries, neighbours=guarantee.neighbours)
    made = pml.mechanism(design, queries, guarantee=guarantee, noise=noise)
    return pml.release(made, people(COUNTS), schema=CONTENT, **options)


def people(counts):
    import polars as pl

    cells = np.repeat(np.arange(24), counts)
    sex, age, region = np.unravel_index(cells, SCHEMA.sizes)
    ages = np.array([5, 20, 40, 70])[age]
    return pl.DataFrame(
        {"sex": np.array(["F", "M"])[sex], "age": ages, "region": np.array(list("ABC"))[region]}
    )


def text_of(table):
    handle = io.BytesIO()
    table.write_csv(handle)
    return handle.getvalue().decode()


def rows_of(table):
    return [tuple(row) for row in csv.reader(io.StringIO(text_of(table)))][1:]


CASES = {
    "tables": ("sex*age + region", GAUSSIAN, "gaussian", {}),
    "laplace": ("sex*age + region", pml.PureDP(1), "laplace", {}),
    "ranges": ("sex*age:prefix", GAUSSIAN, "gaussian", {}),
    "replace": ("sex*age + region", REPLACE, "gaussian", {}),
    "pml": ("sex*region", pml.PML(1, 1 / 60), "laplace", {}),
    "nonnegative": ("sex*age*region", pml.PureDP(0.1), "laplace", {"nonnegative": True}),
    "integers": (
        "sex*age + region",
        REPLACE,
        "gaussian",
        {"nonnegative": True, "integers": True, "simultaneous": True, "level": 0.8},
    ),
    "weighted": ("2*sex + age", GAUSSIAN, "gaussian", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_released_queries_have_the_answers_that_were_published(case, tmp_path):
    text, guarantee, noise, options = CASES[case]
    published = released(text, guarantee, noise, **options)
    published.measurements.save(tmp_path / "m.npz")
    held = pml.read(tmp_path / "m.npz", schema=CONTENT)
    asked = {name: value for name, value in options.items() if name != "level"}
    answers = held.ask(text, schema=CONTENT, **asked)
    assert text_of(answers.table) == text_of(published.table)
    values = {row[:3]: row[3] for row in rows_of(published.table)}
    for part in text.replace("2*", "").split(" + "):  # and one by one
        for row in rows_of(held.ask(part, schema=CONTENT, **asked).table):
            assert values[row[:3]] == row[3]
    assert held.manifests[0] == published.manifest
    failed = pml.verify(tmp_path / "m.npz").failures
    assert not failed


STRUCTURES = [
    ("prefix:16", "tree", pml.PureDP(1), "laplace"),
    ("prefix:64", None, GAUSSIAN, "gaussian"),
    ("all-range:12", None, REPLACE, "gaussian"),
    ("marginals:4,3,2,ways=2", None, REPLACE, "gaussian"),
    ("histogram:4*prefix:5", None, GAUSSIAN, "gaussian"),
    ("parity:4,1", None, pml.PureDP(1), "cube"),
    ("histogram:1", "identity", pml.PureDP(1), "laplace"),
]


@pytest.mark.parametrize(("name", "strategy", "guarantee", "noise"), STRUCTURES)
def test_measurements_of_every_structure_are_read_back(name, strategy, guarantee, noise, tmp_path):
    design = strategy or pml.factorize(name, neighbours=guarantee.neighbours)
    made = pml.mechanism(design, name, guarantee=guarantee, noise=noise)
    published = pml.release(made, np.arange(made.workload.shape[1]))
    published.measurements.save(tmp_path / "m.npz")
    answers = pml.read(tmp_path / "m.npz").ask(name)
    assert text_of(answers.table) == text_of(published.table)
    assert not pml.verify(tmp_path / "m.npz").failures


def test_known_answers_come_along(tmp_path):
    made = pml.mechanism(
        "identity", "histogram:6", guarantee=pml.PureDP(1), known="prefix:3*total:2"
    )
    published = pml.release(made, np.arange(6))
    published.measurements.save(tmp_path / "m.npz")
    held = pml.read(tmp_path / "m.npz")
    table = held.ask("prefix:3*total:2").table
    assert table.estimate.tolist() == [1, 6, 15]
    assert not table.standard_deviation.any()
    assert text_of(held.ask("histogram:6").table) == text_of(published.table)


def further(strategy, count, seed):
    """Random queries that it determines, also with few entries."""
    rng = np.random.default_rng(seed)
    mixes = rng.normal(size=(count, len(strategy.matrix)))
    mixes[::3] = rng.integers(-1, 2, mixes[::3].shape) * (rng.random(mixes[::3].shape) < 0.3)
    mixes[~mixes.any(axis=1), 0] = 1.0
    return mixes @ strategy.matrix


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_further_questions_have_exact_variances_and_intervals(noise):
    promise = GAUSSIAN if noise == "gaussian" else pml.PureDP(1)
    held = released("sex*age + region", promise, noise).measurements
    queries = further(held.strategy, 200, 3)
    (law,) = held.laws
    table = held.ask(queries).table
    G = held.strategy.matrix.T @ held.strategy.matrix
    variances = np.einsum("ij,jk,ik->i", queries, np.linalg.pinv(G, rcond=1e-9), queries)
    assert table.standard_deviation == pytest.approx(law.deviation * np.sqrt(variances), rel=1e-6)
    draw, L = fast_sampler(5), queries @ np.linalg.pinv(held.strategy.matrix, rcond=1e-9)
    drawn = draw(law.kind, law.scale, 20_000 * law.units.size).reshape(20_000, -1) * law.units
    misses = np.abs(drawn @ L.T) > (table.upper - table.lower) / 2
    assert misses.mean() == pytest.approx(0.05, abs=0.001)
    assert misses.mean(axis=0) == pytest.approx(0.05, abs=0.008)


def test_intervals_of_laplace_beside_gaussian_noise_are_those_of_the_closed_form():
    """P(|V| > h) of Laplace(b) + N(0, g^2), by completing the square."""
    for b, g in ((1.0, 0.3), (0.2, 1.0), (1.0, 1.0)):
        (h,) = laplace_half_widths(np.array([[b]]), 0.05, gaussian=np.array([g]))
        tail = math.erfc(h / (g * math.sqrt(2)))
        for sign in (1, -1):
            z = (g / b - sign * h / g) / math.sqrt(2)
            tail += sign * math.exp(-(h**2) / (2 * g**2)) * float(erfcx(z)) / 2
        assert tail == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("noises", [("gaussian", "gaussian"), ("laplace", "gaussian")])
def test_two_releases_are_never_worse_than_one(noises, tmp_path):
    paths, held = [tmp_path / "one.npz", tmp_path / "two.npz"], []
    for path, noise, text in zip(paths, noises, ("sex*age", "age*region"), strict=True):
        promise = GAUSSIAN if noise == "gaussian" else pml.PureDP(0.5)
        held.append(released(text, promise, noise).measurements)
        held[-1].save(path)
    both = pml.read(*paths, schema=CONTENT)
    for text, part in (("sex*age + age", held[0]), ("age:prefix + region", held[1])):
        alone = part.ask(text, schema=CONTENT).table.standard_deviation
        together = both.ask(text, schema=CONTENT).table.standard_deviation
        assert (together <= alone * (1 + 1e-9)).all()
        assert (together < alone * 0.999).any()
    queries = np.vstack([further(part.strategy, 50, 4) for part in held])
    table = both.ask(queries).table
    information = sum(
        part.strategy.matrix.T @ part.strategy.matrix / part.laws[0].deviation ** 2 for part in held
    )
    inverse = np.linalg.pinv(information, rcond=1e-10)
    variances = np.einsum("ij,jk,ik->i", queries, inverse, queries)
    assert table.standard_deviation == pytest.approx(np.sqrt(variances), rel=1e-6)
    errors, draw = [], fast_sampler(6)
    for part in held:
        (law,) = part.laws
        drawn = draw(law.kind, law.scale, 10_000 * law.units.size).reshape(10_000, -1) * law.units
        errors.append(drawn @ part.strategy.matrix / law.deviation**2)
    misses = np.abs(sum(errors) @ inverse @ queries.T) > (table.upper - table.lower) / 2
    assert misses.mean() == pytest.approx(0.05, abs=0.002)


def test_what_several_releases_promise_together(tmp_path):
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for path in paths:
        released("sex", pml.PureDP(0.25), "laplace").measurements.save(path)
    result = run("ask", *paths, "sex", tmp=tmp_path)
    assert pml.PureDP(0.5).describe(24) in " ".join(result.output.split())


def run(*words, tmp):
    (tmp / "schema.json").write_text(json.dumps(CONTENT))
    words = [*map(str, words), "--schema", str(tmp / "schema.json")]
    return CliRunner().invoke(main, words, prog_name="pmldesign")


def test_releases_of_other_people_are_not_combined(tmp_path):
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    released("sex", GAUSSIAN).measurements.save(paths[0])
    released("sex", REPLACE).measurements.save(paths[1])
    made = pml.mechanism("identity", "histogram:24", guarantee=GAUSSIAN)
    pml.release(made, COUNTS).measurements.save(paths[2])
    for other in paths[1:]:
        with pytest.raises(InvalidInputError, match="not of the same people"):
            pml.read(paths[0], other)


def test_what_is_not_determined_is_said_with_the_nearest(tmp_path):
    released("sex*age + region", GAUSSIAN).measurements.save(tmp_path / "m.npz")
    result = run("ask", tmp_path / "m.npz", "sex*region + age", tmp=tmp_path)
    assert result.exit_code == 2
    assert "6 of 10 queries are not determined" in result.output
    assert "the first is sex=F, region=A" in result.output
    assert "determines sex + region" in result.output
    held = pml.read(tmp_path / "m.npz", schema=CONTENT)
    nearest = held.ask("sex*region + age", schema=CONTENT, nearest=True).table
    # the projection of an interaction on both main effects: F/3 + A/2 - total/6
    tables = held.ask("sex + region + total", schema=CONTENT).table.estimate
    expected = tables[0] / 3 + tables[2] / 2 - tables[-1] / 6
    assert nearest.estimate[0] == pytest.approx(expected, abs=0.01)
    assert nearest.labels["differs"][6:] == ["0"] * 4
    # the part that is missing: norm^2 of (I - 1/2) x (I - 1/3) of a unit vector, over that of it
    assert float(nearest.labels["differs"][0]) == pytest.approx(math.sqrt(1 / 2 * 2 / 3), abs=1e-3)


def test_measurements_that_know_their_schema_are_asked_by_names(tmp_path):
    measured = released("sex*age", GAUSSIAN).measurements
    measured.save(tmp_path / "m.npz")
    there = pml.read(tmp_path / "m.npz")
    held = pml.read(tmp_path / "m.npz", schema=CONTENT)
    expected = text_of(held.ask("age:prefix", schema=CONTENT).table)
    assert text_of(held.ask("age:prefix").table) == expected
    assert text_of(measured.ask("age:prefix").table) == expected
    with pytest.raises(InvalidInputError, match="need `schema`"):
        there.ask("age:prefix")
    with pytest.raises(InvalidInputError, match="give the schema"):
        there.to_mbi()


def test_files_of_answers_say_what_was_done_to_them(tmp_path):
    released("sex*age", GAUSSIAN).measurements.save(tmp_path / "m.npz")
    for words, marks in (([], {None}), (["--nonnegative", "--integers"], {"nonnegative integers"})):
        asked = ["sex", *words, "-o", tmp_path / "a.csv"]
        assert run("ask", tmp_path / "m.npz", *asked, tmp=tmp_path).exit_code == 0
        with (tmp_path / "a.csv").open() as handle:
            assert {row.get("afterwards") for row in csv.DictReader(handle)} == marks


def test_another_schema_and_other_files_are_refused(tmp_path):
    held = released("sex", GAUSSIAN).measurements
    other = {"attributes": [*CONTENT["attributes"][:2], {"name": "region", "keys": list("ABD")}]}
    with pytest.raises(InvalidInputError, match="not that of the release"):
        held.ask("sex", schema=other)
    pml.write(tmp_path / "s.npz", pml.factorize("prefix:4"))
    held.save(tmp_path / "m.npz")
    for name in ("s.npz", "none.npz", "m.csv"):
        with pytest.raises(FileError):
            pml.read(tmp_path / "m.npz", tmp_path / name)
    header, arrays = read_archive(tmp_path / "m.npz")
    for name in ("measured", "units"):
        kept = {key: array for key, array in arrays.items() if key != name}
        np.savez(tmp_path / "bad.npz", header=np.array(json.dumps(header)), **kept)
        with pytest.raises(FileError, match="damaged"):
            pml.read(tmp_path / "bad.npz")


def test_a_changed_value_is_noticed(tmp_path):
    released("sex", GAUSSIAN).measurements.save(tmp_path / "m.npz")
    header, arrays = read_archive(tmp_path / "m.npz")
    arrays["measured"] += 1.0
    np.savez(tmp_path / "m.npz", header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(FileError, match="changed after it was written"):
        pml.read(tmp_path / "m.npz")


def test_measurements_for_synthetic_data_are_those_of_tables(monkeypatch):
    """With a stand-in of what is used of the package mbi, which is large."""
    mbi = ModuleType("mbi")
    mbi.Domain = lambda names, sizes: SimpleNamespace(attributes=names, shape=sizes)
    mbi.LinearMeasurement = lambda *values: SimpleNamespace(
        **dict(zip(("noisy_measurement", "clique", "stddev", "query"), values, strict=True))
    )
    mbi.__spec__ = SimpleNamespace(name="mbi")
    monkeypatch.setitem(sys.modules, "mbi", mbi)
    held = released("sex*age + region", GAUSSIAN).measurements
    domain, found = held.to_mbi(CONTENT)
    assert domain.attributes == SCHEMA.names
    assert {part.clique for part in found} >= {("region",)}
    assert all(set(part.clique) < set(SCHEMA.names) for part in found)
    assert sum(len(part.noisy_measurement) for part in found) == len(held.values)
    x, asked, measured = COUNTS.reshape(SCHEMA.sizes), [], []
    for part in found:
        axes = [i for i, name in enumerate(SCHEMA.names) if name not in part.clique]
        table = x.sum(axis=tuple(axes)).ravel()
        asked += part.query(SimpleNamespace(datavector=lambda table=table: table)).tolist()
        measured += part.noisy_measurement.tolist()
        assert part.stddev == pytest.approx(held.laws[0].deviation)
    exact = held.strategy.matrix @ COUNTS
    assert sorted(asked) == pytest.approx(sorted(exact), abs=1e-6)
    assert np.abs(np.array(measured) - np.array(asked)).max() < 8 * held.laws[0].deviation


def test_one_release_is_not_combined_with_itself(tmp_path):
    held = released("sex", GAUSSIAN).measurements
    held.save(tmp_path / "m.npz")
    held.coarser(pml.GaussianDP(0.05)).save(tmp_path / "public.npz")
    for other in ("m.npz", "public.npz"):
        with pytest.raises(InvalidInputError, match="versions of one release"):
            pml.read(tmp_path / "m.npz", tmp_path / other)


@pytest.mark.parametrize(
    "promise", [pml.ApproxDP(0.3, 1e-6), pml.GaussianDP(0.05), pml.ZCDP(1e-3)], ids=str
)
def test_a_coarser_version_has_the_noise_of_its_guarantee(promise, tmp_path):
    text = "sex*age + region"
    held = released(text, GAUSSIAN).measurements
    public = held.coarser(promise)
    public.save(tmp_path / "public.npz")
    assert not pml.verify(tmp_path / "public.npz").failures
    direct = released(text, promise).measurements
    assert public.laws[0].deviation == pytest.approx(direct.laws[0].deviation, rel=1e-6)
    assert public.manifests[0]["guarantee"] == direct.manifests[0]["guarantee"]
    # what was added, over many draws: variances add up, and nothing depends on the values
    draws = [coarser(held, promise, fast_sampler(seed)).values - held.values for seed in range(300)]
    units = held.laws[0].units
    assert (np.rint(public.values / units) * units == public.values).all()
    added = public.laws[0].deviation ** 2 - held.laws[0].deviation ** 2
    assert np.var(draws) == pytest.approx(added, rel=0.06)
    correlation = np.mean(draws, axis=0) @ held.values / np.linalg.norm(held.values)
    assert abs(correlation) < 5 * math.sqrt(added / 300)


def test_a_version_that_is_not_coarser_is_refused():
    held, other = released("sex", GAUSSIAN).measurements, pml.ApproxDP(0.5, 1e-6, "replace")
    for promise in (GAUSSIAN, pml.ApproxDP(2, 1e-6), pml.PureDP(0.1), other):
        with pytest.raises(InvalidInputError):
            held.coarser(promise)
    with pytest.raises(InvalidInputError, match="add-remove"):
        released("sex", REPLACE).measurements.coarser(other)
    with pytest.raises(InvalidInputError, match="Gaussian"):
        released("sex", pml.PureDP(1), "laplace").measurements.coarser(pml.ApproxDP(0.1, 1e-6))
