"""pmldesign sweep on the command line; what it computes is in tests/comparison/test_sweep.py."""

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from pmldesign.cli import main
from pmldesign.designs import flow

STUDY = """
workloads = ["prefix:{n}"]
n = [2, 3]
strategies = ["least-norm", "tree"]
guarantees = ["pml:0.5,delta=0.1,alpha=0.1", "pml:0.5,delta=0.1,alpha=0.4"]
"""


def rows():
    """The rows of a sweep that is done, as a table."""
    assert CliRunner().invoke(main, ["sweep", "study.toml", "--table", "rows.csv"]).exit_code in (
        0,
        3,
    )
    with Path("rows.csv").open(newline="") as handle:
        return [*csv.DictReader(handle)]


@pytest.fixture
def study(run):
    Path("study.toml").write_text(STUDY)
    return "study.toml"


def test_rows_go_into_a_file_of_the_name_of_the_study(run, study):
    shown = run("sweep", study)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[:2] == ["rows     8 of 8", "file     study.sqlite"]
    assert "2 have no numbers" in shown.stdout  # alpha = 0.4 on three cells
    table = rows()
    assert [row["workload"] for row in table] == ["prefix:2"] * 4 + ["prefix:3"] * 4
    again = run.json("sweep", study)
    assert (again["rows"], again["present"], again["computed"], again["refused"]) == (8, 8, 0, 2)
    assert run.json("sweep", study, "--restart")["computed"] == 8


def test_a_norm_that_stopped_early_is_an_exit_code(run, study):
    Path(study).write_text('workloads = ["prefix:40"]\nstrategies = ["least-norm"]\np = 4\n'
                           "rel_gap = 1e-12\ntime_limit = 1e-9\n")  # fmt: skip
    shown = run("sweep", study)
    assert shown.exit_code == 3
    assert "1 rows rest on a norm that was not found to the gap" in shown.stderr
    assert [row["status"] for row in rows()] == ["time_limit"]


def test_a_norm_without_bounds_that_meet_is_no_error(run, study):
    """As for optimize, where two steps exactly two apart have bounds that stay apart."""
    Path(study).write_text('workloads = ["histogram:6"]\nstrategies = ["least-norm"]\n'
                           'participation = ["2,every=2"]\n')  # fmt: skip
    assert run("sweep", study).exit_code == 0
    (row,) = rows()
    assert row["status"] == "done"
    assert float(row["norm_lower"]) < float(row["norm_upper"])


def test_ctrl_c_keeps_what_is_done(run, study, monkeypatch):
    solve = flow.solve

    def interrupted(workload, p, options):
        if workload.name == "prefix:3":
            raise KeyboardInterrupt
        return solve(workload, p, options)

    with monkeypatch.context() as context:
        context.setattr(flow, "solve", interrupted)
        shown = run("sweep", study, "--table", "part.csv")
    assert shown.exit_code == 3
    assert "error: interrupted: the same command goes on from there" in shown.stderr
    assert len(Path("part.csv").read_text().splitlines()) == 1 + 4
    assert run.json("sweep", study)["present"] == 4


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["none.toml"], 6, "cannot read 'none.toml'"),
        (["study.toml", "-o", "rows.txt"], 6, "ends in .sqlite"),
        (["study.toml", "--jobs", "0"], 2, "jobs must be a whole number of at least 1, got 0"),
        (["study.toml", "--address", "tcp://a:1"], 2, "--backend dask"),
        (["study.toml", "--backend", "slurm"], 2, "'slurm'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(run, study, options, code, words):
    shown = run("sweep", *options)
    assert shown.exit_code == code
    assert words in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["study.toml"]
