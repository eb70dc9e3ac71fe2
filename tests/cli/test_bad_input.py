"""What can be wrong on the command line: one line that says so, an exit code, nothing written.

Nothing is solved first: the solvers raise here if they are reached.
"""

import math
import os
import pickle

import numpy as np
import pytest

import pmldesign as pml
from pmldesign_solvers.oracle import programs

INPUT, VACUOUS, INFEASIBLE, FILE = 2, 4, 5, 6


@pytest.fixture
def no_solve(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("the solve began before the arguments were checked")

    monkeypatch.setattr("pmldesign.designs.one_matrix.solve_norm", refuse)
    monkeypatch.setattr(programs, "solve", refuse)


@pytest.fixture
def refused(run, tmp_path):
    def check(*arguments, code, says, stdin=None):
        before = sorted(tmp_path.rglob("*"))
        result = run(*arguments, stdin=stdin)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert says in result.stderr
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--p", "1.9"], INPUT, "p must be in [2, inf], got 1.9"),
        (["--p", "nan"], INPUT, "--p must be in [2, inf], got nan"),
        (["--p", "-inf"], INPUT, "p must be in [2, inf]"),
        (["--p", "abc"], INPUT, "abc"),
        (["--epsilon", "0"], INPUT, "epsilon must be positive and finite, got 0"),
        (["--epsilon", "-1"], INPUT, "epsilon must be positive and finite, got -1"),
        (["--epsilon", "inf"], INPUT, "epsilon must be positive and finite, got inf"),
        (["--epsilon", "nan"], INPUT, "epsilon must be positive and finite, got nan"),
        (["--epsilon", "1", "--delta", "0"], INPUT, "delta must be in (0, 1), got 0"),
        (["--epsilon", "1", "--delta", "1"], INPUT, "delta must be in (0, 1), got 1"),
        (["--epsilon", "1", "--delta", "nan"], INPUT, "delta must be in (0, 1), got nan"),
        (["--delta", "1e-6"], INPUT, "need --epsilon; add for example --epsilon 1"),
        (["--alpha", "0.1"], INPUT, "need --epsilon; add for example --epsilon 1"),
        (["--epsilon", "1", "--alpha", "0.3"], INPUT, "(0, 1/k] = (0, 0.25] for k = 4 cells"),
        (["--epsilon", "1", "--alpha", "0"], INPUT, "alpha must be in (0, 1/k]"),
        (["--epsilon", "1", "--alpha", "nan"], INPUT, "alpha must be in (0, 1/k]"),
        (
            ["--epsilon", "1", "--alpha", "0.1", "--neighbours", "add-remove"],
            INPUT,
            "remove --neighbours",
        ),
        (["--epsilon", "1", "--neighbours", "both"], INPUT, "add-remove"),
        (["--epsilon", "1", "--noise", "uniform"], INPUT, "laplace"),
        (["--guarantee", "pml:1,alpha=0.1,delta=0.1,failure=both"], INPUT, "slack"),
        (["--epsilon", "1.4", "--alpha", "0.25"], VACUOUS, "nobody is protected"),
        (["--epsilon", "3", "--alpha", "0.1", "--delta", "0.1"], VACUOUS, "log(1/min alpha)"),
        (["--epsilon", "1", "--noise", "gaussian"], INFEASIBLE, "use --noise laplace"),
        (
            ["--epsilon", "1", "--alpha", "0.1", "--noise", "gaussian"],
            INFEASIBLE,
            "use --noise laplace",
        ),
        (["--unknown"], INPUT, "see pmldesign "),
    ],
)
@pytest.mark.parametrize("command", ["optimize", "compare"])
def test_options_of_both_commands(refused, no_solve, command, options, code, says):
    if command == "compare" and options == ["--p", "abc"]:
        says = "such as 2,4,inf; got 'abc'"
    refused(command, "prefix:4", *options, code=code, says=says)


@pytest.mark.parametrize("command", ["optimize", "compare"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--rel-gap", "0"], "--rel-gap must be positive"),
        (["--rel-gap", "nan"], "--rel-gap must be positive"),
        (["--time-limit", "0"], "--time-limit must be positive"),
        (["--time-limit", "-1"], "--time-limit must be positive"),
    ],
)
def test_limits_of_both_commands(refused, no_solve, command, options, says):
    refused(command, "prefix:4", *options, code=INPUT, says=says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "simplex"], "scaling"),
        (["--solver", "MOSEK"], "clarabel"),
    ],
)
def test_limits_and_methods_of_optimize(refused, no_solve, options, says):
    refused("optimize", "prefix:4", *options, code=INPUT, says=says)


def test_a_program_too_large_names_the_other_method(refused, no_solve):
    refused("optimize", "prefix:201", "--method", "dual", code=INPUT, says="use method 'scaling'")


@pytest.mark.parametrize("command", ["workload", "optimize", "compare"])
@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("prefix:0", INPUT, "must be from 1 to"),
        ("prefix:abc", INPUT, "for example prefix:64"),
        ("prefix:-3", INPUT, "must be from 1 to"),
        ("prefix:1.5", INPUT, "not a whole number"),
        ("prefix", INPUT, "takes 1 size, got 0"),
        ("prefx:4", INPUT, "did you mean prefix?"),
        ("prefix:4*", INPUT, "empty factor"),
        ("", INPUT, "try prefix:64"),
        ("missing.npy", FILE, "No such file"),
        ("./missing", FILE, "has no extension"),
        ("folder.npy", FILE, "directory"),
        ("folder", FILE, "has no extension"),
        (".", FILE, "has no extension"),
    ],
)
def test_workload_arguments(refused, no_solve, tmp_path, command, name, code, says):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "folder").mkdir()
    refused(command, name, code=code, says=says)


class Marker:
    """Leaves a file behind when unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


ARRAYS = {
    "nan": (np.array([[1.0, np.nan]]), INPUT, "entry (0, 1) is nan"),
    "inf": (np.array([[1.0], [-np.inf]]), INPUT, "entry (1, 0) is -inf"),
    "complex": (np.array([[1j]]), INPUT, "complex128"),
    "text": (np.array([["a"]]), INPUT, "real numbers"),
    "empty": (np.zeros((0, 3)), INPUT, "shape (0, 3)"),
    "vector": (np.ones(3), INPUT, "shape (3,)"),
    "cube": (np.ones((2, 2, 2)), INPUT, "shape (2, 2, 2)"),
    "objects": (np.array([[Marker()]], dtype=object), FILE, "pickled"),
}


@pytest.mark.parametrize("command", ["workload", "optimize", "compare"])
@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_that_are_no_workload(refused, no_solve, tmp_path, command, kind):
    array, code, says = ARRAYS[kind]
    np.save(tmp_path / "w.npy", array, allow_pickle=True)
    refused(command, "w.npy", code=code, says=says)


@pytest.mark.parametrize("name", ["w.npy", "w.npz"])
def test_plain_pickles_are_never_loaded(refused, no_solve, tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Marker()))
    refused("optimize", name, code=FILE, says=name)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", FILE, "standard input is empty"),
        ("a,b\n", INPUT, "no numbers"),
        ("1,0\n1\n", FILE, "line 2 has 1 fields"),
        ("1,0\n1,x\n", INPUT, "'x' is not a number"),
        ("1,nan\n", INPUT, "entry (0, 1) is nan"),
    ],
)
def test_standard_input_that_is_no_workload(refused, no_solve, text, code, says):
    refused("optimize", "-", stdin=text, code=code, says=says)


def test_a_workload_of_zeros(refused, tmp_path):
    np.save(tmp_path / "w.npy", np.zeros((2, 2)))
    refused("optimize", "w.npy", code=INPUT, says="is zero")


@pytest.mark.parametrize("entries", [[1e200, 1e200], [1e-200, 1e-200], [1e-160, 1e160]])
def test_workloads_whose_squares_leave_float64(run, tmp_path, entries):
    np.save(tmp_path / "w.npy", np.diag(entries))
    shown = run.json("optimize", "w.npy")
    # for a diagonal matrix the norm is that of the diagonal, and measuring the cells attains it
    norm, root = math.hypot(*entries), math.hypot(*entries) / math.sqrt(2)
    assert shown["norm"]["lower"] <= norm * (1 + 1e-15)
    assert shown["norm"]["upper"] >= norm * (1 - 1e-15)
    assert shown["norm"]["gap"] <= 1e-6
    for row in shown["strategies"]:
        if row["name"] in ("design", "identity"):
            assert row["rmse"] == pytest.approx(root, rel=1e-6)
            assert row["max_std"] == pytest.approx(max(entries), rel=1e-6)


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        ("workload", "-o", "w.npy"),
        ("optimize", "-o", "s.npz"),
        ("compare", "--table", "rows.csv"),
        ("compare", "--plot", "errors.png"),
    ],
)
@pytest.mark.parametrize("wrong", ["no folder", "a folder", "extension", "no extension", "a file"])
def test_outputs_are_checked_before_the_solve(
    refused, no_solve, tmp_path, command, option, name, wrong
):
    (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("kept")
    path, says = {
        "no folder": (f"missing/{name}", "there is no folder"),
        "a folder": (name, "it is a folder"),
        "extension": ("result.exe", "end"),
        "no extension": ("result", "end"),
        "a file": (f"file/{name}", "there is no folder"),
    }[wrong]
    refused(command, "prefix:4", option, path, code=FILE, says=says)


def test_outputs_in_a_folder_that_refuses_files(refused, no_solve):
    # /proc takes no new files, whoever asks
    refused("optimize", "prefix:4", "-o", "/proc/s.npz", code=FILE, says="cannot write")


@pytest.mark.parametrize(
    ("strategies", "code", "says"),
    [
        ("least-norm,nothing", INPUT, "strategy must be one of design, least-norm, identity"),
        ("least-norm,tre", INPUT, "did you mean 'tree'?"),
        ("tree:1", INPUT, "at least 2, got 'tree:1'"),
        ("tree:x", INPUT, "try tree:4"),
        ("least-norm,", INPUT, "strategy must be one of"),
        ("missing.npz", FILE, "No such file"),
        ("least-norm,wide.npy", INPUT, "measures 5 cells, workload 'prefix:4' has 4"),
        ("least-norm,part.npy", INPUT, "cannot answer row 3 (cells 0 to 3)"),
        ("pickle.npz", FILE, "pickle.npz"),
    ],
)
def test_strategies_that_cannot_be_compared(refused, no_solve, tmp_path, strategies, code, says):
    np.save(tmp_path / "wide.npy", np.eye(5))
    np.save(tmp_path / "part.npy", np.eye(4)[:3])
    objects = np.array([[Marker()]], dtype=object)
    np.savez(tmp_path / "pickle.npz", header=np.array("{}"), strategy=objects)
    refused("compare", "prefix:4", "--strategies", strategies, code=code, says=says)


def test_alpha_files(refused, no_solve, tmp_path):
    np.savetxt(tmp_path / "three.csv", np.full(3, 0.1))
    np.savetxt(tmp_path / "much.csv", np.full(4, 0.3))
    start = ["optimize", "prefix:4", "--epsilon", "1", "--alpha"]
    refused(*start, "three.csv", code=INPUT, says="each of the k = 4 cells, got 3")
    refused(*start, "much.csv", code=INPUT, says="sum of at most 1")
    refused(*start, "missing.csv", code=FILE, says="No such file")
    np.save(tmp_path / "long.npy", np.full((2, 3), np.longdouble(10) ** 400))  # beyond a double
    refused(*start, "long.npy", code=INPUT, says="one row or one column")


def test_commands(refused, run):
    refused("design", "prefix:4", code=INPUT, says="No such command 'design'")
    refused("--unknown", code=INPUT, says="see pmldesign --help")
    refused("optimize", code=INPUT, says="Missing argument 'WORKLOAD'")
    refused("workload", "prefix:4", "prefix:5", code=INPUT, says="unexpected extra argument")
    refused("workload", "-o", "w.npy", code=INPUT, says="try for example prefix:64")
    refused("compare", "prefix:4", "--p", "2,,4", code=INPUT, says="such as 2,4,inf")
    bare = run()
    assert bare.exit_code == 2
    assert "optimize" in bare.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--solver", "SCS"], "--solver is for --method primal or dual"),
        (["--solver", "clarabel", "--method", "scaling"], "--solver is for --method primal"),
        (["--guarantee", "dp:1,delta=0.1,failure=slack"], "'failure' is not a key of dp"),
        (["--guarantee", "pml:1,alpha=0.1,failure=slack"], "failure needs a delta"),
        (["--p", "20000", "--noise", "laplace"], "at most 10000 or inf for Laplace noise"),
        (["--p", "20000", "--epsilon", "1"], "at most 10000 or inf for Laplace noise"),
        (
            ["--p", "20000", "--epsilon", "1", "--delta", "1e-6", "--noise", "laplace"],
            "or --noise gaussian",
        ),
        (["--streaming", "--neighbours", "replace"], "--streaming is for add-remove"),
        (["--streaming", "--epsilon", "1", "--alpha", "0.1"], "--streaming is for add-remove"),
    ],
)
def test_options_that_do_nothing_or_cannot_be_met(refused, no_solve, options, says):
    refused("optimize", "prefix:4", *options, code=INPUT, says=says)


@pytest.mark.parametrize("rows", ["1,1,0\n1,1,0\n", "1,0,0\n0,1,0\n", "1,0,1\n0,1,0\n"])
def test_streaming_of_cells_that_no_query_tells_apart(refused, no_solve, rows):
    says = "needs a workload of rank 3"
    refused("optimize", "-", "--streaming", stdin=rows, code=INPUT, says=says)


def test_streaming_of_a_product_with_such_a_factor(refused, no_solve):
    says = "needs a workload of rank 12"
    refused("optimize", "prefix:3*parity:2,1", "--streaming", code=INPUT, says=says)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("1,1,1\n0,1,1\n0,0,1\n", "row 0 needs cell 2, which comes later"),
        ("1,0,0\n0,0,1\n0,1,0\n", "row 1 needs cell 2, which comes later"),
    ],
)
def test_streaming_of_queries_that_need_later_cells(refused, no_solve, rows, says):
    refused("optimize", "-", "--streaming", stdin=rows, code=INPUT, says=says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["optimise", "prefix:4"], "No such command 'optimise'; did you mean 'optimize'?"),
        (["optimize", "prefix:4", "--noise", "gausian"], "did you mean 'gaussian'?"),
        (["optimize", "prefix:4", "--method", "dul"], "did you mean 'dual'?"),
        (["optimize", "prefix:4", "--epsilom", "1"], "--epsilon"),
        (["compare", "prefix:4", "--strategies", "tre"], "did you mean 'tree'?"),
        (["compare", "prefix:4", "--strategies", "least-nrom"], "did you mean 'least-norm'?"),
        (["optimize", "prefxi:4"], "did you mean prefix?"),
    ],
)
def test_mistyped_words_get_the_nearest(refused, no_solve, words, says):
    refused(*words, code=INPUT, says=says)


def test_exponents_of_laplace_noise_are_checked_before_any_design(refused, no_solve):
    options = ["--p", "2,20000", "--strategies", "least-norm", "--epsilon", "1"]
    refused("compare", "prefix:4", *options, code=INPUT, says="at most 10000 or inf")


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("optimize prefix:4 --epsilon 1 --plot a.svg", "plot"),
        ("compare prefix:4 --report a.html", "plot"),
        ("compare prefix:4 --jobs 2", "jobs"),
        ("sweep study.toml --backend dask", "dask"),
        ("sweep study.toml --backend ray", "ray"),
        ("ledger plan 2*laplace:0.1", "release"),
        ("release histogram:3 counts.csv --epsilon 1 -o a.csv", "release"),
        ("release histogram:3 counts.csv --epsilon 1 -o a.parquet", "release"),
        ("release sex people.csv --schema schema.json --epsilon 1 -o a.csv", "release"),
        ("schema draft people.csv", "release"),
        ("verify strategy.npz", "verify"),
    ],
)
def test_a_missing_extra_is_refused_alike_everywhere(
    refused, no_solve, tmp_path, monkeypatch, line, extra
):
    monkeypatch.setattr("pmldesign.errors.find_spec", lambda _: None)
    (tmp_path / "counts.csv").write_text("1\n2\n3\n")
    (tmp_path / "people.csv").write_text("sex\nF\nM\n")
    (tmp_path / "schema.json").write_text('{"attributes": [{"name": "sex", "keys": ["F", "M"]}]}')
    (tmp_path / "study.toml").write_text('workloads = ["prefix:4"]\nstrategies = ["tree"]\n')
    pml.write(tmp_path / "strategy.npz", pml.mechanism(np.eye(4), "prefix:4"))
    refused(*line.split(), code=INPUT, says=f"repository with: pip install '.[{extra}]'")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["bounds", "prefix:4", "--p", 1], "--p must be in [2, inf], got 1.0"),
        (["bounds", "prefix:4", "--time-limit", -1], "--time-limit must be positive"),
        (["bounds", "prefix:4", "--rel-gap", 0], "--rel-gap must be positive"),
        (["calibrate", "prefix:4", "--p", "nan"], "--p must be in [2, inf], got nan"),
        (["target", "prefix:4", "--effort", "hard"], "'hard' is not one of 'quick', 'normal'"),
    ],
)
def test_a_wrong_number_is_named_before_what_is_missing(refused, options, says):
    refused(*options, code=INPUT, says=says)


def test_options_that_do_not_exist_are_compared_without_their_dashes(run):
    told = run("optimize", "prefix:4", "--epsilom", "1").stderr
    assert "mean --epsilon?" in told.replace("'", "")  # which click has from 8.3 on
    for command, option in (("target", "--epsilon"), ("envelope", "--alpha"), ("stream", "--tree")):
        refused = run(command, "prefix:4", option, "1").stderr
        assert "mean" not in refused
        assert refused.endswith(f"; see pmldesign {command} --help\n")


def test_an_option_without_a_value_points_to_the_help_of_its_command(refused):
    says = "requires an argument; see pmldesign optimize --help"
    refused("optimize", "prefix:4", "-o", code=INPUT, says=says)
    refused("verify", "--schema", code=INPUT, says="see pmldesign verify --help")
    refused("--nonsense", code=INPUT, says="see pmldesign --help")


@pytest.mark.parametrize(
    "words",
    [
        "schema draft people.csv -o people.csv",
        "schema draft people.csv -o link.csv",
        "schema draft people.csv --private --epsilon 1 --delta 1e-6 -o people.csv",
        "schema draft people.csv --private --epsilon 1 --delta 1e-6 --ledger spent -o spent",
        "optimize w.npz --epsilon 1 -o w.npz",
        "optimize prefix:2 --epsilon 1 --alpha a.csv --table a.csv",
        "compare a.csv --epsilon 1 --table a.csv",
        "compare prefix:2 --strategies design,a.csv --table ./a.csv",
        "workload w.npz -o w.npz",
        "envelope a.csv --prior uniform --failure-probability 0.1 -o a.csv",
        "envelope a.csv --prior uniform --failure-probability 0.1 -o new.csv --table new.csv",
    ],
)
def test_nothing_is_written_over_what_is_read(run, no_solve, tmp_path, words):
    for name in ("people.csv", "a.csv", "w.npz", "spent"):
        (tmp_path / name).write_text("0.5\n0.5\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run(*words.split())
    assert result.exit_code == FILE
    assert "would be replaced; take another name" in result.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
