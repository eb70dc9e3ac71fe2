"""The command `envelope`, and how it reads channels and priors."""

import io
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from scipy import io as scipy_io
from scipy import sparse

from pmldesign.cli import main
from pmldesign.envelope import (
    Channel,
    cvar_bound,
    exact_envelope,
    leakage_quantile,
    randomized_response,
)
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import load_channel, read_channel, read_prior
from pmldesign.plots import draw_envelope

RR3 = ["rr:3,eps=1", "--prior", "0.2,0.3,0.5"]
MATRIX = np.array([[0.5, 0.25, 0.25], [0.125, 0.0, 0.875]])


def run(*arguments, **options):
    return CliRunner().invoke(main, ["envelope", *arguments], catch_exceptions=False, **options)


def test_json_at_one_delta():
    report = json.loads(run(*RR3, "--failure-probability", "0.5", "--json").stdout)
    channel = randomized_response([0.2, 0.3, 0.5], epsilon=1)
    assert report["exact"] == exact_envelope(channel, 0.5).upper
    assert report["cvar"] == cvar_bound(channel, 0.5)
    assert report["quantile"] == leakage_quantile(channel, 0.5)
    assert report["binary"] < report["exact_lower"] <= report["exact"]
    assert report["exact"] < report["cvar"] < report["maximal"]
    assert (report["secrets"], report["outputs"], report["delta"]) == (3, 3, 0.5)


def test_table_shows_the_same_numbers():
    result = run(*RR3, "--failure-probability", "0.5")
    rows = [re.split(r"  +", line) for line in result.stdout.splitlines()]
    values = {row[0]: row[1] for row in rows}
    assert values["exact envelope"] == "0.584265 nats"
    assert values["CVaR bound, from above"] == "0.654570 nats"
    assert result.exit_code == 0


def test_curve_and_plateaus():
    report = json.loads(run(*RR3, "--curve", "--points", "4", "--json").stdout)
    assert report["curve"]["delta"] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert report["curve"]["exact"][3] == pytest.approx(0.45155, abs=5e-6)
    assert len(report["curve"]["plateaus"]) == 3
    assert "delta" not in report
    lines = run(*RR3, "--curve", "--points", "4").stdout.splitlines()
    assert lines[6].split() == ["delta", "binary", "exact", "cvar", "maximal"]
    binary, exact = map(float, lines[10].split()[1:3])
    assert 0 < exact - report["curve"]["exact"][3] < 1e-6
    assert 0 < report["curve"]["binary"][3] - binary < 1e-6


def test_plot_is_written_and_what_it_shows(tmp_path, unarranged):
    path = tmp_path / "curve.png"
    assert run(*RR3, "--points", "3", "--plot", str(path)).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    deltas = np.array([0.2, 0.8])
    axes = Figure().subplots()
    draw_envelope(axes, deltas, {"exact envelope": deltas, "Theorem 3": deltas})
    assert [line.get_label() for line in axes.lines] == ["Theorem 3", "exact envelope"]
    assert axes.get_xlabel()
    assert "nats" in axes.get_ylabel()


def test_output_is_the_post_processing(tmp_path):
    path = tmp_path / "post.csv"
    report = json.loads(run(*RR3, "--failure-probability", "0.5", "--json", "-o", str(path)).stdout)
    channel = randomized_response([0.2, 0.3, 0.5], epsilon=1)
    processed = channel.post_process(np.loadtxt(path, delimiter=","))
    assert leakage_quantile(processed, 0.5) == pytest.approx(report["exact"], abs=1e-10)


@pytest.mark.parametrize("extension", ["npy", "npz", "csv", "mtx"])
def test_channel_and_prior_from_files(tmp_path, extension):
    path, prior = tmp_path / f"channel.{extension}", tmp_path / f"prior.{extension}"
    write = {
        "npy": np.save,
        "npz": np.savez,
        "csv": lambda p, a: np.savetxt(p, np.atleast_2d(a), delimiter=",", fmt="%.17g"),
        "mtx": lambda p, a: scipy_io.mmwrite(p, np.atleast_2d(a), precision=17),
    }[extension]
    write(path, MATRIX)
    write(prior, np.array([0.25, 0.75]))
    loaded = load_channel(str(path), str(prior))
    np.testing.assert_array_equal(loaded.matrix, MATRIX)
    assert loaded.prior.tolist() == [0.25, 0.75]
    report = json.loads(
        run(str(path), "--prior", str(prior), "--failure-probability", "0.1", "--json").stdout
    )
    assert report["exact"] == exact_envelope(Channel(MATRIX, [0.25, 0.75]), 0.1).upper


def test_sparse_files_columns_and_standard_input(tmp_path):
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(MATRIX))
    np.testing.assert_array_equal(read_channel(tmp_path / "s.npz"), MATRIX)
    (tmp_path / "p.csv").write_text("p\n0.25\n0.75\n")
    assert read_prior(tmp_path / "p.csv").tolist() == [0.25, 0.75]
    text = "0.5,0.25,0.25\n0.125,0,0.875\n"
    piped = run("-", "--prior", "uniform", "--failure-probability", "0.3", "--json", input=text)
    assert (
        json.loads(piped.stdout)["exact"] == exact_envelope(Channel(MATRIX, [0.5, 0.5]), 0.3).upper
    )


def test_a_one_dimensional_channel_file_is_one_row(tmp_path):
    np.save(tmp_path / "c.npy", [0.25, 0.75])
    assert read_channel(tmp_path / "c.npy").shape == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*RR3], "--failure-probability"),
        ([*RR3, "--curve", "-o", "x.csv"], "--failure-probability"),
        (["rr:3,eps=1", "--failure-probability", "0.1"], "Missing option '--prior'"),
        ([*RR3, "--curve", "--points", "1"], "is not in the range"),
    ],
)
def test_wrong_usage(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert re.search(message, result.stderr)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            [*RR3, "--failure-probability", "0"],
            InvalidInputError,
            "--failure-probability must be in",
        ),
        (
            [*RR3, "--failure-probability", "nan"],
            InvalidInputError,
            "--failure-probability must be in",
        ),
        (
            ["rr:3,eps=1", "--prior", "0.5,0.5", "--failure-probability", "0.1"],
            InvalidInputError,
            "3 entries",
        ),
        (
            ["missing.csv", "--prior", "uniform", "--failure-probability", "0.1"],
            FileError,
            "cannot read",
        ),
        (
            ["rr:3,eps=1", "--prior", "missing.csv", "--failure-probability", "0.1"],
            FileError,
            "cannot read",
        ),
        (
            ["no-such-name", "--prior", "uniform", "--failure-probability", "0.1"],
            FileError,
            "no extension",
        ),
        ([*RR3, "--plot", "no/such/folder/x.png"], FileError, "there is no folder"),
        ([*RR3, "--plot", "x.bmp"], FileError, r"\.png, \.pdf, \.svg"),
        (
            [*RR3, "--failure-probability", "0.1", "-o", "no/such/x.csv"],
            FileError,
            "there is no folder",
        ),
    ],
)
def test_errors_name_the_argument(arguments, error, message):
    result = run(*arguments)
    assert result.exit_code == error.exit_code
    assert re.search(f"^error: .*{message}", result.stderr)


def test_files_that_hold_no_channel_are_refused(tmp_path):
    np.save(tmp_path / "nan.npy", [[np.nan, 1.0]])
    with pytest.raises(InvalidInputError, match="got nan"):
        load_channel(str(tmp_path / "nan.npy"), "uniform")
    np.save(tmp_path / "complex.npy", [[1j, 1.0]])
    with pytest.raises(InvalidInputError, match="real numbers"):
        read_channel(tmp_path / "complex.npy")
    np.save(tmp_path / "square.npy", np.eye(2))
    with pytest.raises(InvalidInputError, match="one row or one column"):
        read_prior(tmp_path / "square.npy")
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}]), allow_pickle=True)
    (tmp_path / "pickled.npy").write_bytes(buffer.getvalue())
    with pytest.raises(FileError, match="pickled"):
        read_channel(tmp_path / "pickled.npy")
