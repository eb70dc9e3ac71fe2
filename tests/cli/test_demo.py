"""pmldesign demo: its folder, its script, and the commands of that."""

import csv
import json
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import pmldesign as pml
from pmldesign.cli import DEMONSTRATIONS, MEANS


@pytest.fixture
def quiet(monkeypatch):
    """The lines of the script without a shell."""
    lines = []
    monkeypatch.setattr("pmldesign.cli.demo._run", lambda line, folder: lines.append(line))
    return lines


def test_a_norm_from_one_line_to_a_report(run, quiet, tmp_path, monkeypatch, unarranged):
    result = run("demo", "norm")
    assert result.exit_code == 0, result.output
    assert "pmldesign-norm/report.html" in result.stdout.replace("\\", "/")
    monkeypatch.chdir("pmldesign-norm")
    for line in quiet:
        assert run(*shlex.split(line)[1:]).exit_code == 0
    assert "2.1113" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["people", "stream"])
def test_commands_of_the_script_do_what_the_demonstration_says(
    run, quiet, tmp_path, monkeypatch, unarranged, kind
):
    folder = tmp_path / "shown"
    monkeypatch.setattr("pmldesign.cli.demo._first_lines", lambda path: "")
    assert run("demo", kind, folder).exit_code == 0
    assert [line for line in (folder / "run.sh").read_text().splitlines() if line in quiet] == quiet
    monkeypatch.chdir(folder)
    for line in quiet:
        words, _, source = line.partition(" <")
        given = (folder / source.split()[0]).read_text() if source else None
        briefly = ("--effort", "quick") if " target " in words else ()
        result = run(*shlex.split(words)[1:], *briefly, stdin=given)
        assert result.exit_code == 0, result.output
        if source:
            (folder / DEMONSTRATIONS[kind].table).write_text(result.stdout)
    with (folder / DEMONSTRATIONS[kind].table).open() as handle:
        rows = [*csv.reader(handle)]
    if kind == "people":  # half of 5,000 are women; intervals reach 5 to both sides
        women = sum(float(row[3]) for row in rows if row[0] == "F")
        assert 2300 < women < 2700
        assert all(float(row[6]) - float(row[5]) <= 10.001 for row in rows[1:])
    else:
        assert len(rows) == 365


def test_means_of_the_panel_are_those_of_pandas(run, quiet, tmp_path, monkeypatch):
    folder = tmp_path / "shown"
    monkeypatch.setattr("pmldesign.cli.demo._first_lines", lambda path: "")
    assert run("demo", "panel", folder).exit_code == 0
    monkeypatch.chdir(folder)
    for line in quiet:
        result = run(*shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
        assert "up to 8 of them with one for each of 8 values, count as one record" in result.output
    men, panel = pandas.read_csv("young_men.csv"), pandas.read_csv("panel.csv")
    hours = men.hours.clip(0, 4000)
    truth = [*hours.groupby(men.year).mean(), *hours.groupby(men.union).mean()]
    assert len(men) == 545 * 8
    assert (abs(panel.estimate - truth) < 6 * panel.standard_deviation).all()
    assert panel.standard_deviation.between(15, 200).all()
    schema = json.loads(Path("schema.json").read_text())
    made = pml.mechanism(
        "identity",
        pml.workload(MEANS, schema=schema),
        guarantee=pml.ApproxDP(1, 1e-6),
        noise="gaussian",
    )
    exact = made.release("young_men.csv", schema=schema, sampler=lambda _, __, n: np.zeros(n, int))
    assert exact.table.estimate == pytest.approx(truth, rel=1e-6)


def test_a_folder_with_files_is_left_alone(run, quiet, tmp_path):
    (tmp_path / "pmldesign-people").mkdir()
    (tmp_path / "pmldesign-people" / "mine.txt").write_text("mine")
    result = run("demo")
    assert result.exit_code == 2
    assert "not an empty folder" in result.stderr
    assert not quiet


def test_commands_run_in_the_shell_until_one_fails(run, monkeypatch):
    commands = ("pmldesign --version > shown.txt", "exit 6", "touch late.txt")
    made = DEMONSTRATIONS["norm"].__class__("-", lambda draw: {}, commands)
    monkeypatch.setattr("pmldesign.cli.demo.DEMONSTRATIONS", {"norm": made})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    result = run("demo", "norm")
    assert result.exit_code == 1
    assert "exit code 6" in result.stderr
    assert Path("pmldesign-norm/shown.txt").read_text() == f"pmldesign {pml.__version__}\n"
    assert not Path("pmldesign-norm/late.txt").exists()


def test_a_missing_extra_is_told_before_anything_is_written(run, monkeypatch, tmp_path):
    monkeypatch.setattr("pmldesign.errors.find_spec", lambda _: None)
    result = run("demo", "norm", tmp_path / "shown")
    assert result.exit_code == 2
    assert "pip install '.[release,plot,verify]'" in result.stderr
    assert not (tmp_path / "shown").exists()


def test_a_folder_that_cannot_be_made_is_named(run, tmp_path):
    (tmp_path / "file").touch()
    result = run("demo", "norm", "file/inner")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "cannot make the folder" in result.stderr
    assert "write another name as FOLDER" in result.stderr
