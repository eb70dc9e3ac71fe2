"""A study as a TOML file says it: what it asks for, and what is refused."""

from pathlib import Path

import pytest

import pmldesign as pml
from pmldesign.comparison import read_study

STUDY = {
    "workloads": ["prefix:{n}"],
    "n": [3, 6],
    "p": [2, float("inf")],
    "strategies": ["least-norm", "tree"],
    "guarantees": ["dp:0.5,delta=1e-6", "dp:1,delta=1e-6"],
}


def test_sizes_between_are_spaced_by_equal_ratios():
    study = read_study(
        {
            "workloads": ["prefix:{n}"],
            "strategies": ["tree"],
            "n": {"from": 10, "to": 1000, "count": 3},
        }
    )
    assert [asked.told for asked in study.workloads] == ["prefix:10", "prefix:100", "prefix:1000"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload": ["prefix:4"]}, "unknown key 'workload'; known are workloads, n, p"),
        ({"workloads": []}, "workloads must be a list of names"),
        ({"workloads": ["prefx:4"]}, "did you mean prefix"),
        ({"strategies": ["oak"]}, "strategy must be one of design, least-norm"),
        ({"n": [0]}, "n must be a whole number of at least 1, got 0"),
        ({"n": {"from": 4}}, "got the keys from"),
        ({"n": {"from": 9, "to": 4, "count": 2}}, "from must not be above to"),
        ({"p": [1]}, "p must be"),
        ({"p": ["two"]}, "p must be a number, got 'two'"),
        (
            {"noise": "white"},
            "noise must be one of auto, gaussian, laplace, integer-laplace, cube, got 'white'",
        ),
        ({"guarantees": "dp:delta=0.1"}, "dp starts with epsilon"),
        ({"guarantees": ["zcdp:1,delta=0.1"]}, "'delta' is not a key of zcdp"),
        ({"guarantees": ["zcdp:-1"]}, "rho must be"),
        ({"guarantees": [{"epsilon": 1}]}, 'guarantees must be texts such as "dp:1,delta=1e-6"'),
        ({"guarantees": "pml:1,alpha=none.csv"}, "cannot read 'none.csv'"),
        ({"guarantees": "dp:-1"}, "epsilon must be"),
        ({"n": {"from": 10, "to": 1000, "count": 10**9}}, "count of n must be at most 1000000"),
        ({"n": {"from": 1, "to": 10**9, "count": 400_000}}, r"has \d+ rows; at most 1000000 are"),
        ({"participation": ["twice"]}, "participation must be such as"),
        ({"participation": "2,every=4", "neighbours": "replace"}, "participation"),
        ({"weights": [3]}, 'weights must be texts such as "w.csv", got 3'),
        ({"rel_gap": "small"}, "rel_gap must be a number"),
    ],
)
def test_a_study_that_is_none_is_refused(tmp_path, change, message):
    with pytest.raises(pml.PmldesignError, match=message):
        pml.sweep(STUDY | change, tmp_path / "rows.sqlite")
    assert not [*tmp_path.iterdir()]


def test_a_size_that_is_missing_is_named(tmp_path):
    with pytest.raises(pml.InvalidInputError, match="gives none: add n = 64"):
        read_study({"workloads": ["prefix:{n}"], "strategies": ["tree"]})
    (tmp_path / "broken.toml").write_text("workloads = [")
    with pytest.raises(pml.FileError, match="as TOML"):
        read_study(tmp_path / "broken.toml")
    with pytest.raises(pml.FileError, match="cannot read"):
        read_study(tmp_path / "none.toml")


@pytest.mark.parametrize(("name", "size"), [("study", 15 * 3 * 3), ("streams", 3 * 2)])
def test_the_studies_of_the_examples_are_read(name, size):
    folder = Path(__file__).parents[2] / "examples" / "lp_error"
    assert read_study(folder / f"{name}.toml").size == size
