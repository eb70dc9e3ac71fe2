"""Known sums of places beyond the cells that are written out: design, file, checks and tables."""

import csv
import json

import numpy as np
import pytest

STATES, COUNTIES = 9, 1030
GAUSSIAN = ("--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian")
QUERIES = "state*sex + county*sex + county + state"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A schema of 2,060 cells, and people in it."""
    path = tmp_path_factory.mktemp("places")
    states = np.random.default_rng(1).integers(0, STATES, COUNTIES)
    rows = [f"s{state},c{i}" for i, state in enumerate(states)]
    (path / "places.csv").write_text("\n".join(["state,county", *rows]))
    place = {"name": "place", "levels": ["state", "county"], "file": "places.csv"}
    sex = {"name": "sex", "keys": ["F", "M"]}
    (path / "schema.json").write_text(json.dumps({"attributes": [place, sex]}))
    rng = np.random.default_rng(2)
    people = [
        f"c{i},{s}" for i, s in zip(rng.integers(0, COUNTIES, 5000), "FM" * 2500, strict=True)
    ]
    (path / "people.csv").write_text("\n".join(["county,sex", *people]))
    return path


def test_every_command_takes_known_counts_of_a_level(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    about = ("--schema", "schema.json", "--known", "state", *GAUSSIAN)
    best = run("optimize", QUERIES, *about, "--rel-gap", 0.05, "-o", "best.npz")
    assert best.exit_code == 0, best.stderr
    checked = run("verify", "best.npz", "--schema", "schema.json")
    assert checked.exit_code == 0, checked.stdout
    rows = run.table("compare", QUERIES, *about, "--strategies", "equal-shares,identity")
    assert {row["strategy"] for row in rows} == {"equal-shares", "identity"}
    answered = ("--workload", QUERIES)
    made = run.json("calibrate", "best.npz", *about, *answered)
    assert made["sensitivity"] == pytest.approx(1)
    alone = run("calibrate", "best.npz", *about)
    assert (alone.exit_code, "give --workload" in alone.stderr) == (2, True)
    steps = ("--noise", "gaussian", "--nonnegative", "--integers", "-o", "tables.csv")
    known = ("--schema", "schema.json", "--known", "state")
    done = run("release", "best.npz", "people.csv", *known, *steps)
    assert done.exit_code == 0, done.stderr
    table = list(csv.DictReader((folder / "tables.csv").read_text().splitlines()))
    public = {
        row["place"]: int(row["records"])
        for row in csv.DictReader((folder / "tables.known.csv").read_text().splitlines())
    }
    for state, count in public.items():
        rows = [row for row in table if row["state"] == state]
        for level, sex in (("*", "*"), ("*", "FM"), ("c", "*"), ("c", "FM")):
            parts = [
                float(row["estimate"])
                for row in rows
                if (row["county"] == "*") == (level == "*") and row["sex"] in sex
            ]
            assert sum(parts) == count
    assert sum(public.values()) == 5000
    assert min(float(row["estimate"]) for row in table) >= 0


def test_known_tables_with_other_attributes_are_refused(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    known = ("--schema", "schema.json", "--known", "state*sex")
    refused = run("optimize", QUERIES, *known, *GAUSSIAN)
    assert refused.exit_code == 2
    assert "counts of places" in refused.stderr
    nothing = run("optimize", "state", "--schema", "schema.json", "--known", "county", *GAUSSIAN)
    assert "answer all" in nothing.stderr
