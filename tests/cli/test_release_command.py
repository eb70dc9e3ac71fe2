"""pmldesign release and pmldesign schema: from a file of people to the published table."""

import csv
import hashlib
import json
import signal

import numpy as np
import pytest

from pmldesign.cli import process
from pmldesign.designs import flow
from pmldesign.releases import Ledger, read_ledger
from pmldesign.streams import Stream

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 120]},
    ]
}
QUICK = ["--effort", "quick"]
ASK = ["release", "sex*age + sex", "people.csv", "--schema", "schema.json", *QUICK, "--epsilon", 1]


@pytest.fixture
def people(run, tmp_path):
    generator = np.random.default_rng(1)
    with (tmp_path / "people.csv").open("w") as handle:
        handle.write("sex,age\n")
        for sex, age in zip(
            generator.choice(["F", "M"], 300), generator.integers(0, 99, 300), strict=True
        ):
            handle.write(f"{sex},{age}\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def test_people_become_a_table_and_a_manifest(run, people):
    result = run(*ASK, "--strategy", "s.npz", "-o", "t.csv")
    assert result.exit_code == 6
    designed = run("optimize", "sex*age + sex", "--schema", "schema.json", "-o", "s.npz")
    assert designed.exit_code == 0, designed.stderr
    result = run(*ASK, "--strategy", "s.npz", "-o", "t.csv", "--level", 0.9)
    assert result.exit_code == 0, result.stderr
    with (people / "t.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 8
    assert {row["sex"] for row in rows} == {"F", "M"}
    manifest = json.loads((people / "t.manifest.json").read_text())
    assert manifest["intervals"] == {"level": 0.9, "simultaneous": False}
    assert manifest["guarantee"]["epsilon"] == 1
    assert "discrete laplace" in result.stdout


def test_every_published_file_is_named(run, people):
    result = run(*ASK, "--noise", "laplace", "--known", "sex", "-o", "t.csv")
    assert result.exit_code == 0, result.stderr
    assert "t.csv, t.known.csv and t.manifest.json" in result.stdout


def test_a_strategy_file_answers_its_own_queries_with_its_guarantee(run, people):
    run(
        "optimize",
        "sex*age + sex",
        "--schema",
        "schema.json",
        "--epsilon",
        2,
        "-o",
        "s.npz",
        *QUICK,
    )
    words = ["release", "s.npz", "people.csv", "--schema", "schema.json", "-o", "t.csv"]
    for more, epsilon in (([], 2), (["--epsilon", 3], 3)):
        result = run(*words, *more)
        assert result.exit_code == 0, result.stderr
        manifest = json.loads((people / "t.manifest.json").read_text())
        assert manifest["workload"] == "sex*age + sex"
        assert manifest["guarantee"]["epsilon"] == epsilon
    np.savez(people / "plain.npz", np.eye(6))
    result = run("release", "plain.npz", "people.csv", "--schema", "schema.json", "-o", "t.csv")
    assert result.exit_code == 2
    assert "needs a guarantee" in result.stderr


@pytest.mark.parametrize("made", ["add-remove", "replace"])
def test_neighbours_alone_do_not_change_the_guarantee_of_a_file(run, people, made):
    asked = ["--epsilon", 1, "--delta", 1e-6]
    design = ["optimize", "prefix:4", "--noise", "gaussian", "--neighbours", made, "-o", "s.npz"]
    run(*design, *asked)
    np.save("counts.npy", np.arange(4))
    release = ["release", "s.npz", "counts.npy", "-o", "t.csv", "--neighbours"]
    stream = ["stream", "s.npz", "--neighbours"]
    (other,) = {"add-remove", "replace"} - {made}
    for command in (release, stream):
        assert run(*command, made, stdin="1\n").exit_code == 0
        refused = run(*command, other, stdin="1\n")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr == (
            f"error: the guarantee of the file is for {made} neighbours, and --neighbours {other}"
            " does not change it; remove --neighbours, or design for it\n"
        )
    if made == "add-remove":  # a guarantee of its own may have other neighbours
        assert run(*release, other, *asked).exit_code == 0


def test_budgets_that_protect_nobody_get_a_line(run, people):
    """Under add-remove whatever the number of records, which is private."""
    ask = ["release", "sex", "people.csv", "--schema", "schema.json", *QUICK, "-o", "t.csv"]
    for options, epsilon, delta in (
        (["--epsilon", 50], True, False),
        (["--epsilon", 1, "--delta", 0.1], False, False),
        (["--epsilon", 10, "--delta", 0.1, "--neighbours", "replace"], False, True),
        (["--epsilon", 1, "--delta", 0.001, "--neighbours", "replace"], False, False),
    ):
        result = run(*ask, *options)
        assert result.exit_code == 0, result.stderr
        assert ("epsilon 50 hardly protects anybody" in result.stderr) == epsilon
        assert ("delta 0.1 is more than one in 300 records" in result.stderr) == delta
        assert ("delta 0.1 is large" in result.stderr) == (0.1 in options)


@pytest.mark.parametrize(
    ("queries", "data", "schema"),
    [("sex:total*age", "people.csv", ["--schema", "schema.json"]), ("prefix:3", "h.csv", [])],
)
def test_a_strategy_with_weights_answers_the_queries_without_them(
    run, people, queries, data, schema
):
    (people / "h.csv").write_text("5\n3\n4\n")
    asked = [*schema, "--weights", "h.csv", "--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian"]
    designed = run("optimize", queries, *asked, "-o", "w.npz")
    assert designed.exit_code == 0, designed.stderr
    released = run("release", "w.npz", data, *schema, "-o", "t.csv")
    assert released.exit_code == 0, released.stderr
    assert f"workload   {queries}: 3 queries" in released.stdout


def test_every_command_takes_names_of_attributes(run, people):
    named = ["--schema", "schema.json"]
    by_name, by_size = "sex*age:prefix + sex", "histogram:2*prefix:3+histogram:2*total:3"
    for first, text in ((named, by_name), ([], by_size)):
        assert run("workload", text, *first, "-o", f"{len(first)}.npy").exit_code == 0
    matrices = [np.load(people / f"{n}.npy") for n in (0, 2)]
    assert matrices[0].tolist() == matrices[1].tolist()
    pairs = [
        run.json("calibrate", text, *first, "--epsilon", 1, "--workload", text)
        for first, text in ((named, by_name), ([], by_size))
    ]
    assert pairs[0]["error"] == pairs[1]["error"]
    lists = [
        run.json("bounds", text, *first, "--epsilon", 1)
        for first, text in ((named, by_name), ([], by_size))
    ]
    values = [[bound["value"] for bound in bounds] for bounds in lists]
    assert values[0] == pytest.approx(values[1])
    leaks = [
        run.json("leakage", text, *first, "--scale", 2, "--alpha", 0.1)
        for first, text in ((named, by_name), ([], by_size))
    ]
    assert leaks[0] == leaks[1]
    rows = run.table("compare", by_name.replace(" ", ""), "age", *named, "--strategies", "identity")
    assert [row["workload"] for row in rows] == [by_name.replace(" ", ""), "age"]


def test_a_draft_is_made_and_refused(run, people):
    result = run("schema", "draft", "people.csv", "-o", "draft.json")
    assert result.exit_code == 0
    assert "review it" in result.stderr
    draft = json.loads((people / "draft.json").read_text())
    assert draft["reviewed"] is False
    assert json.loads(run("schema", "draft", "people.csv").stdout) == draft
    ask = ["release", "sex", "people.csv", "--schema", "draft.json", "--epsilon", 1, "-o", "t.csv"]
    result = run(*ask)
    assert result.exit_code == 2
    assert "draft" in result.stderr
    assert not (people / "t.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("X,3", "row 301, column 'sex': 'X' is not a key"),
        ("F,300", "row 301, column 'age': '300' is outside"),
        ("F,3,4", "line 302 has 3 values for 2 columns"),
    ],
)
def test_bad_people_leave_nothing_behind(run, people, line, message):
    with (people / "people.csv").open("a") as handle:
        handle.write(line + "\n")
    before = sorted(people.iterdir())
    result = run(*ASK, "-o", "t.csv", "--ledger", "l.jsonl", "--budget", "epsilon=1")
    assert result.exit_code in (2, 6)
    assert message in result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert sorted(people.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["release", "prefix:2", "x.npy", "-o", "t.csv"], 2, "needs a guarantee"),
        (
            ["release", "prefix:2", "x.npy", *QUICK, "--epsilon", 1, "-o", "t.txt"],
            6,
            "ends in .csv",
        ),
        (
            ["release", "prefix:2", "x.npy", *QUICK, "--epsilon", 1, "-o", "no/t.csv"],
            6,
            "no folder",
        ),
        (
            ["release", "prefix:2", "x.npy", *QUICK, "--epsilon", 1, "-o", "t.csv"],
            6,
            "No such file",
        ),
        (
            ["release", "age", "people.csv", "--epsilon", 1, "-o", "t.csv"],
            2,
            "names of attributes need --schema",
        ),
        ([*ASK, "-o", "people.csv"], 6, "'people.csv' would be replaced"),
        ([*ASK, "--ledger", "t.csv", "--budget", "epsilon=1", "-o", "t.csv"], 6, "be replaced"),
        ([*ASK, "--budget", "epsilon=1", "-o", "t.csv"], 2, "needs a ledger"),
        ([*ASK, "--level", 1, "-o", "t.csv"], 2, "level must be in"),
        ([*ASK[:-1], 1e-17, "-o", "t.csv"], 2, "take a larger epsilon"),
        (["schema", "draft", "nobody.csv"], 6, "no such file"),
        (["schema", "draft", "schema.json"], 6, "ends in .csv"),
    ],
)
def test_refusals_are_one_line_with_a_code(run, people, words, code, message):
    result = run(*words)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert not (people / "t.csv").exists()


def test_a_budget_is_kept_by_the_command(run, people):
    words = [*ASK, "--ledger", "l.jsonl", "-o", "t.csv"]
    assert run(*words, "--budget", "epsilon=1").exit_code == 0
    result = run(*words)
    assert result.exit_code == 5
    assert "no room" in result.stderr
    assert "what fits is nothing" in result.stderr


def test_automatic_noise_is_one_for_which_the_ledger_has_room(run, people):
    """Laplace noise would be less here, and such a budget is for Gaussian noise."""
    begun = ["--ledger", "l", "--budget", "epsilon=3,delta=1e-6", "-o", "t.csv"]
    result = run(*ASK, *begun)
    assert result.exit_code == 5
    assert "what fits is Gaussian noise up to epsilon 2.99999 at delta 1e-06" in result.stderr
    assert run(*ASK, *begun, "--delta", 1e-7).exit_code == 0
    manifest = json.loads((people / "t.manifest.json").read_text())
    assert manifest["noise"]["law"] == "discrete gaussian"


def test_the_command_shows_what_a_plan_costs(run):
    shown = run.json("ledger", "plan", "200*laplace:0.01")
    assert shown["releases"] == [{"noise": "laplace", "ratio": 0.01, "count": 200}]
    assert shown["epsilon"] < 0.6
    assert shown["epsilon_without_plan"] == pytest.approx(2)
    assert "epsilon 0.5703" in run("ledger", "plan", "200*laplace:0.01").stdout
    assert run("ledger", "plan", "laplace").exit_code == 2


def test_ctrl_c_in_the_design_costs_nothing_and_a_signal_after_payment_loses_nothing(
    run, people, monkeypatch, signalled
):
    ask = [*ASK, "--ledger", "ledger", "--budget", "epsilon=1", "-o", "t.csv"]
    with monkeypatch.context() as patch:
        name = "pmldesign.designs.flow.optimize"
        patch.setattr(name, signalled(signal.SIGINT, flow.optimize))
        result = run(*ask)
    assert (result.exit_code, result.stderr) == (1, "error: interrupted before it was done\n")
    assert {path.name for path in people.iterdir()} == {"people.csv", "schema.json"}
    monkeypatch.setattr(Ledger, "_spend", signalled(signal.SIGTERM, Ledger._spend))
    assert run(*ask).exit_code == 143
    assert len(read_ledger(people / "ledger").payments) == 1
    assert json.loads((people / "t.manifest.json").read_text())["sha256"]["table"] == (
        hashlib.sha256((people / "t.csv").read_bytes()).hexdigest()
    )


def test_ctrl_c_after_payment_says_that_the_release_is_there(run, people, monkeypatch, signalled):
    """Exit code 1, nothing to show, made a script pay for another one."""
    monkeypatch.setattr(Ledger, "_spend", signalled(signal.SIGINT, Ledger._spend))
    result = run(*ASK, "--ledger", "ledger", "--budget", "epsilon=1", "-o", "t.csv")
    assert (result.exit_code, (people / "t.csv").exists()) == (3, True)
    said = f"error: {process.UNFINISHED}; written: t.manifest.json, t.csv"
    assert result.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 143)])
def test_an_answer_of_a_stream_that_was_drawn_is_shown(
    run, tmp_path, monkeypatch, signalled, number, code
):
    made = run("optimize", "prefix:8", "--buffers", 2, "--rel-gap", 1, "-o", "s.npz")
    assert made.exit_code == 0, made.stderr
    monkeypatch.setattr(Stream, "steps", signalled(number, Stream.steps))
    options = ["--epsilon", 1, "--delta", 1e-6, "--state", "state"]
    result = run("stream", "s.npz", *options, stdin="1\n1\n1\n")
    assert result.exit_code == code, result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert run("stream", "--replay", "state").stdout == result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"s.npz", "state", "state.log"}


def test_sums_beside_counts_get_a_note_where_they_are_designed(run, people):
    age = {"name": "age", "low": 0, "high": 120, "unit": 1}
    keys = {"name": "sex", "keys": ["F", "M"]}
    (people / "numbers.json").write_text(json.dumps({"attributes": [keys, age], "outside": "drop"}))
    words = ["--schema", "numbers.json", "--epsilon", "1"]
    quick = ["--effort", "quick"]
    for command in (["optimize"], ["compare"]):
        noted = run(*command, "age:sum + sex", *words, *quick)
        assert "write 0.008*age:sum, or for means" in noted.stderr
    release = ["people.csv", *words, "-o", "t.csv", *quick]
    assert "note: an error of 1 counts alike" in run("release", "age:sum + sex", *release).stderr
    assert run("release", "0.01*age:sum + sex", *release).stderr == ""


def test_data_before_the_workload_get_a_hint(run, people):
    words = ["people.csv", "sex*age", "--schema", "schema.json", "--epsilon", "1", "-o", "t.csv"]
    refused = run("release", *words)
    assert refused.exit_code == 6
    assert "WORKLOAD comes first, then DATA" in refused.stderr
    other = run("release", "sex", "none.csv", *words[2:])
    assert other.stderr == "error: cannot read 'none.csv': there is no such file\n"
