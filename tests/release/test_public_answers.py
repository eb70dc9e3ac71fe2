"""Releases beside public answers: privacy on the lattice, and what is published exactly."""

import csv
import json
import math
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from fast_sampler import fast_sampler, no_noise

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import InvalidInputError
from pmldesign.releases import as_schema, exact_noise, prepare, public_counts

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 120]},
    ]
}
GROUPS = [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [0, 0, 0, 0, 1]]
GUARANTEES = {"gaussian": pml.ApproxDP(1, 1e-6), "laplace": pml.PureDP(1)}


def known_queries(groups):
    return np.eye(max(groups) + 1)[:, groups]


def within(groups):
    """Pairs of cells that the known answers count alike."""
    return [(i, j) for i, j in combinations(range(len(groups)), 2) if groups[i] == groups[j]]


def test_attributes_called_as_columns_beside_them_keep_their_labels():
    keys = {"cells": ["a", "b"], "records": ["c", "d"]}
    form = as_schema({"attributes": [{"name": n, "keys": k} for n, k in keys.items()]})
    rows = public_counts.PublicCounts((np.arange(2), np.arange(2, 4)), (5, 7)).rows(form)
    assert rows == [
        {"cells": "a", "records": "*", "cells_": "0-1", "records_": 5},
        {"cells": "b", "records": "*", "cells_": "2-3", "records_": 7},
    ]


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("strategy", ["design", "identity", "queries"])
def test_whole_measurements_of_neighbours_are_no_farther_apart_than_is_said(
    groups, noise, strategy
):
    queries = np.random.default_rng(len(groups) + groups[1]).integers(-2, 3, (3, 5))
    known, guarantee = known_queries(groups), GUARANTEES[noise]
    if strategy == "design":
        noisy = pml.optimize(queries, guarantee=guarantee, noise=noise, known=known).best
    else:
        measured = queries if strategy == "queries" else np.eye(5)
        noisy = pml.mechanism(measured, queries, guarantee=guarantee, noise=noise, known=known)
    lattice_noise = exact_noise(noisy)
    image = lattice_noise.lattice.image
    columns = [image(column).astype(object) for column in np.eye(5, dtype=np.int64)]
    power = 2 if noise == "gaussian" else 1
    distances = [sum(abs(columns[i] - columns[j]) ** power) for i, j in within(groups)]
    assert max(distances) <= lattice_noise.sensitivity <= max(distances) * (1 + 1e-9) + 1
    if noise == "laplace":
        assert lattice_noise.pure_epsilon <= 1


@pytest.mark.parametrize("groups", GROUPS)
def test_answers_are_those_of_the_data_but_for_noise_on_what_is_not_public(groups):
    generator = np.random.default_rng(groups[1])
    queries = np.vstack([generator.integers(-2, 3, (3, 5)), 3 * known_queries(groups)])
    x = generator.integers(0, 1000, 5)
    noisy = pml.optimize(
        queries, guarantee=pml.PureDP(1), noise="laplace", known=known_queries(groups)
    ).best
    silent = noisy.release(x, sampler=no_noise).table
    assert silent.estimate == pytest.approx(queries @ x, abs=1e-3)
    table = noisy.release(x, sampler=fast_sampler(1)).table
    exact = table.standard_deviation == 0
    assert exact[3:].all()
    assert not exact[:3].all()
    for column in (table.estimate, table.lower, table.upper):
        assert column[exact] == pytest.approx((queries @ x)[exact], abs=0)
    plan = prepare(noisy, sampler=no_noise)
    counts = plan.counts(x)
    draws = [plan.publish(counts, fast_sampler(seed)).table.estimate for seed in range(200)]
    assert np.std(draws, axis=0) == pytest.approx(table.standard_deviation, rel=0.3)


def test_no_release_under_replace_loses_what_is_common_to_all_cells():
    queries = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [5, 6, 6, 5], [0.5, 0.5, 0.5, 0.75]])
    x = np.array([100, 200, 300, 400])
    noisy = pml.optimize(queries, guarantee=pml.ApproxDP(1, 1e-6, "replace"), noise="gaussian").best
    table = noisy.release(x, sampler=no_noise).table
    assert table.estimate == pytest.approx(queries @ x, abs=1e-3)
    whole = pml.mechanism(
        "identity", queries[:3], guarantee=pml.PureDP(1, "replace"), noise="laplace"
    ).release(x, sampler=fast_sampler(2))
    assert whole.table.estimate[0] == 1000
    assert whole.table.lower[0] == whole.table.upper[0] == 1000


@pytest.mark.parametrize("options", [{"nonnegative": True}, {"integers": True}])
def test_processed_tables_keep_the_public_numbers(options):
    x = np.array([0, 3, 0, 2, 1, 0, 0, 50])
    queries = pml.workload("histogram:8+histogram:2*total:4")
    noisy = pml.optimize(
        queries, guarantee=pml.PureDP(0.2), known="histogram:2*total:4", noise="laplace"
    ).best
    for seed in range(5):
        table = noisy.release(x, sampler=fast_sampler(seed), **options).table
        sums = table.estimate[:8].reshape(2, 4).sum(axis=1)
        assert sums == pytest.approx([5, 51], abs=1e-9 if "integers" in options else 1e-3)
        assert table.estimate[8:] == pytest.approx([5, 51], abs=0)
        if "nonnegative" in options:
            assert (table.estimate >= 0).all()
            assert (table.upper[:4] <= 5).all()


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="pmldesign")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "people.csv").open("w") as handle:
        handle.write("sex,age\n" + "F,7\nM,20\nF,90\n" * 40)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return tmp_path


ASK = ["sex*age+sex", "people.csv", "--schema", "schema.json", "--effort", "quick"]


def test_the_public_numbers_are_published_beside_the_table(folder):
    result = run("release", *ASK, "--known", "sex", "--epsilon", 1, "-o", "t.csv")
    assert result.exit_code == 0, result.output
    assert "not protected" in result.stdout
    assert "warning" in result.stderr
    with (folder / "t.known.csv").open() as handle:
        assert [list(row.values()) for row in csv.DictReader(handle)] == [
            ["F", "*", "0-2", "80"],
            ["M", "*", "3-5", "40"],
        ]
    with (folder / "t.csv").open() as handle:
        rows = [row for row in csv.DictReader(handle) if row["age"] == "*"]
    assert [float(row["estimate"]) for row in rows] == [80, 40]
    manifest = json.loads((folder / "t.manifest.json").read_text())
    assert manifest["guarantee"]["known"] == "sex"
    assert manifest["records"] == 120
    assert math.isclose(manifest["guarantee"]["epsilon"], 1)
    verified = run("verify", "t.manifest.json", "--json")
    assert verified.exit_code == 8, verified.output  # a manifest has no strategy to check it by
    assert '"verdict": "fails"' not in verified.output
    assert '"verdict": "holds"' in verified.output
    (folder / "t.known.csv").write_text("of an older table")
    assert run("release", *ASK, "--epsilon", 1, "-o", "t.csv").exit_code == 0
    assert [path.name for path in sorted(folder.glob("t.*"))] == ["t.csv", "t.manifest.json"]


def test_a_strategy_file_brings_its_known_answers(folder):
    words = ["--schema", "schema.json", "--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian"]
    assert run("optimize", "sex*age", *words, "--known", "sex", "-o", "s.npz").exit_code == 0
    result = run("release", "s.npz", "people.csv", "--schema", "schema.json", "-o", "t.csv")
    assert result.exit_code == 0, result.output
    assert "warning" in result.stderr
    manifest = json.loads((folder / "t.manifest.json").read_text())
    assert manifest["guarantee"]["known"] == "sex"
    more = ["--schema", "schema.json", "--known", "age", "-o", "u.csv"]
    other = run("release", "s.npz", "people.csv", *more)
    assert other.exit_code == 2
    assert "was made for the known answers" in other.stderr
    assert not (folder / "u.csv").exists()


def test_a_ledger_is_about_one_kind_of_known_answers(folder):
    words = [*ASK, "--epsilon", 0.5, "--ledger", "l"]
    first = run("release", *words, "--known", "sex", "--budget", "epsilon=1", "-o", "t.csv")
    assert first.exit_code == 0, first.output
    for other in (["--known", "age"], ["--neighbours", "replace"], []):
        result = run("release", *words, *other, "-o", "u.csv")
        assert result.exit_code == 2
        assert "costs of different units do not add up" in result.stderr


def test_known_answers_on_other_cells_are_refused():
    with pytest.raises(InvalidInputError, match="must have the same cells"):
        pml.optimize("prefix:6", guarantee=pml.PureDP(1), known="histogram:2*total:4")


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}])
@pytest.mark.parametrize("x", [np.array([0, 3, 0, 2, 1, 0]), np.array([0, 0, 0, 5, 0, 40])])
def test_several_public_tables_are_told_exactly_and_fitted(options, x):
    known = "histogram:2*total:3+total:2*histogram:3"
    queries = pml.workload(f"{known}+histogram:2*histogram:3")
    noisy = pml.optimize(queries, guarantee=pml.PureDP(0.5), known=known, noise="laplace").best
    exact = np.concatenate([x.reshape(2, 3).sum(axis=1), x.reshape(2, 3).sum(axis=0)])
    for seed in range(5):
        table = noisy.release(x, sampler=fast_sampler(seed), **options).table
        assert table.estimate[:5] == pytest.approx(exact, abs=1e-6)
        assert not table.standard_deviation[:5].any()
        cells = table.estimate[5:].reshape(2, 3)
        sums = np.concatenate([cells.sum(axis=1), cells.sum(axis=0)])
        assert sums == pytest.approx(exact, abs=1e-3)
        assert (cells >= 0).all() or not options
    silent = noisy.release(x, sampler=no_noise).table
    assert silent.estimate == pytest.approx(queries.to_dense() @ x, abs=1e-3)
    with pytest.raises(InvalidInputError, match="remove `integers`"):
        noisy.release(x, sampler=no_noise, integers=True)


def test_several_public_tables_are_published_beside_the_table(folder):
    words = [*ASK, "--known", "sex + age", "--epsilon", 1, "-o", "t.csv"]
    assert run("release", *words, "--measurements", "m.npz").exit_code == 0
    with (folder / "t.known.csv").open() as handle:
        listed = {(row["sex"], row["age"]): int(row["records"]) for row in csv.DictReader(handle)}
    assert {count for (sex, _), count in listed.items() if sex == "F"} == {80}
    assert [listed["*", age] for age in ("[0, 18)", "[18, 35)", "[35, 120)")] == [40, 40, 40]
    promise = json.loads((folder / "t.manifest.json").read_text())["guarantee"]
    assert (promise["known"], promise["published"]) == ("", "sex + age")
    checked = run("verify", "m.npz", "--schema", "schema.json", "--json")
    assert '"verdict": "fails"' not in checked.output
    asked = run("ask", "m.npz", "sex + age", "--schema", "schema.json")
    assert asked.exit_code == 0, asked.output
