"""pmldesign workload: the list of names, what a workload is, and its matrix in a file."""

import math

import numpy as np
import pytest

from pmldesign.files import read_workload
from pmldesign.workloads import named_workloads, parse_workload


def test_without_an_argument_all_names_are_listed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "places.csv").write_text("state,county\nAL,Autauga\nAL,Baldwin\n")
    text = run("workload").stdout
    listed = run.json("workload")
    assert len(listed) == len(named_workloads())
    for entry in listed:
        assert set(entry) == {"usage", "description", "example"}
        assert entry["usage"] in text
        queries = parse_workload(entry["example"])
        if math.prod(queries.shape) < 10**7:  # of more, distinct columns take long to tell
            assert run("workload", entry["example"]).exit_code == 0


def test_json_has_the_documented_keys(run):
    assert run.json("workload", "window:6,2*histogram:2") == {
        "workload": "window:6,2*histogram:2",
        "queries": 12,
        "cells": 12,
        "distinct_queries": 12,
        "distinct_cells": 12,
        "output": None,
    }
    # the table has one row for each of 23 age groups and 2 sexes, 2 sexes, and the total
    census = run.json("workload", "census-p12")
    assert (census["queries"], census["cells"], census["distinct_cells"]) == (49, 232, 46)


@pytest.mark.parametrize("extension", ["npy", "npz", "csv", "mtx"])
def test_the_matrix_is_written_and_reads_back(run, tmp_path, extension):
    name = f"w.{extension}"
    result = run("workload", "prefix:5", "-o", name)
    assert result.exit_code == 0
    assert name in result.stdout
    np.testing.assert_array_equal(read_workload(name).to_dense(), np.tril(np.ones((5, 5))))
    again = run.json("workload", name)
    assert (again["queries"], again["cells"]) == (5, 5)


def test_standard_input(run):
    result = run("workload", "-", stdin="1,1,0\n0,0,0\n1,1,0\n")
    facts = dict(line.rsplit("  ", 1) for line in result.stdout.splitlines())
    facts = {key.strip(): value for key, value in facts.items()}
    assert facts == {
        "workload": "standard input",
        "queries": "3",
        "cells": "3",
        "distinct queries": "1",
        "distinct cells": "1",
    }
