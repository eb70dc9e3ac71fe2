"""--table: the table that is shown, with all its digits or as it is shown for LaTeX."""

import csv
import math
from pathlib import Path

import duckdb
import pytest

DP = ("--epsilon", "1", "--delta", "1e-6")
COMMANDS = {
    "optimize": ("optimize", "prefix:5", *DP, "--noise", "gaussian"),
    "target": ("target", "prefix:5", "--std", "5", "--guarantee", "gdp", "--noise", "gaussian"),
    "compare": ("compare", "prefix:4", "--p", "2,inf", "--strategies", "tree,identity"),
    "bounds": ("bounds", "prefix:4", *DP),
    "leakage": ("leakage", "prefix:4", "--scale", "1,2", "--alpha", "0.1"),
    "alpha curve": ("leakage", "prefix:4", "--scale", "1", "--alpha", "0.1", "--alpha-curve"),
    "envelope": ("envelope", "rr:3,eps=1", "--prior", "uniform", "--failure-probability", "0.1"),
    "curve": ("envelope", "rr:3,eps=1", "--prior", "uniform", "--curve", "--points", "3"),
}


def rows_of(name, document):
    """The rows of the table in what --json prints."""
    if name in ("optimize", "target", "compare"):
        return document["strategies"]
    if name == "bounds":
        return document
    if name == "alpha curve":
        columns = ("share", "leakage_upper")
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*map(document.get, columns), strict=True)
        ]
    if name == "curve":
        columns = ("delta", "exact", "cvar")
        table = zip(*map(document["curve"].get, columns), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in table]
    return document if isinstance(document, list) else [document]


@pytest.mark.parametrize("name", COMMANDS)
def test_csv_has_the_rows_of_json_with_all_digits(run, name):
    shown = run.json(*COMMANDS[name], "--table", "rows.csv")
    expected = rows_of(name, shown)
    with Path("rows.csv").open(newline="") as handle:
        written = [*csv.DictReader(handle)]
    assert len(written) == len(expected)
    shared = set(written[0]) & set(expected[0])
    assert len(shared) >= 2
    for row, values in zip(written, expected, strict=True):
        for column in shared:
            value = values[column]
            assert row[column] == ("" if value is None else str(value))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "envelope"])
def test_latex_has_the_cells_that_are_shown(run, name):
    result = run(*COMMANDS[name], "--table", "rows.tex")
    assert result.exit_code == 0, result.stderr
    begin, top, header, middle, *body, bottom, end = Path("rows.tex").read_text().splitlines()
    columns = header.removesuffix(r" \\").split(" & ")
    assert begin == rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}"
    assert (top, middle, bottom) == (r"\toprule", r"\midrule", r"\bottomrule")
    assert end == r"\end{tabular}"
    printed = {" ".join(line.split()) for line in result.stdout.splitlines()}
    for line in body:
        cells = line.removesuffix(r" \\").split(" & ")
        assert len(cells) == len(columns)
        assert " ".join(cells).replace("\\", "") in printed


def test_parquet_has_the_columns_and_types_of_json(run):
    shown = run.json(*COMMANDS["compare"], "--table", "rows.parquet")["strategies"]
    table = duckdb.read_parquet("rows.parquet")
    shared = set(table.columns) & set(shown[0])
    assert shared >= {"scale", "rmse", "p", "noise"}
    for column in shared:
        got = [value for (value,) in table.project(f'"{column}"').fetchall()]
        told = [row[column] for row in shown]
        assert got == [math.inf if value == "inf" else value for value in told]


def test_another_ending_is_refused_before_any_work(run):
    result = run("bounds", "prefix:4", *DP, "--table", "rows.txt")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "a table ends in .csv, .parquet, .tex" in result.stderr
    assert not [*Path().iterdir()]
