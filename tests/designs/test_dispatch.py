"""Which workload goes to which solver."""

import numpy as np
import pytest

from pmldesign.designs import ROUTES, DesignOptions, choose, solve
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.workloads import RegionsWorkload, TablesWorkload, as_workload
from pmldesign_solvers.trees import Tree


def beside(workload, known):
    return with_known(workload, None, known)[0]


COUNTIES = RegionsWorkload("counties", Tree([-1] + [0] * 600), np.ones(601))
TABLE = [
    ("prefix:8", {}, "one matrix"),
    ("prefix:8", {"method": "primal"}, "one matrix"),
    ("prefix:4*prefix:4", {"method": "dual"}, "one matrix"),
    ("prefix:4*prefix:4", {}, "product"),
    ("prefix:4*prefix:4", {"neighbours": "replace"}, "one matrix"),
    ("prefix:64*prefix:64", {"neighbours": "replace"}, "product"),
    ("marginals:2,3,4,ways=2", {}, "tables of counts"),
    ("marginals:10^100,ways=2", {"neighbours": "replace"}, "tables of counts"),
    ("prefix:8*total:8+total:8*prefix:8", {}, "one matrix"),
    ("prefix:64*histogram:64+total:64*prefix:64", {}, "union of products"),
    ("prefix:64*histogram:64+total:64*prefix:64", {"neighbours": "replace"}, None),
    (np.eye(3), {}, "one matrix"),
    ("at-most:10^5,ways=2", {}, "overlapping tables"),
    ("prefix:1025", {}, "running sums and all ranges"),
    ("prefix:1025", {"neighbours": "replace"}, "running sums and all ranges"),
    ("prefix:8", {"buffers": 3}, "running sums and all ranges"),
    ("all-range:6000", {}, "running sums and all ranges"),
    (TablesWorkload([3, 4], [(0,), (1,)]), {}, "tables of counts"),
    (TablesWorkload([as_workload("prefix:3"), 4], [(0, 1)]), {}, "product"),
    ("histogram:3*total:4", {}, "product"),
    ("histogram:3*total:4", {"neighbours": "replace"}, "tables of counts"),
    ("marginals:2^40,ways=40", {}, "tables of counts"),
    (
        beside("prefix:8", "histogram:2*total:4"),
        {"neighbours": "replace"},
        "public answers",
    ),
    (
        beside("prefix:50*histogram:50", "total:50*histogram:50"),
        {"neighbours": "replace"},
        "public answers",
    ),
    (
        beside("marginals:50,50,3,ways=2", "histogram:50*total:50*total:3"),
        {"neighbours": "replace"},
        "public answers",
    ),
    (beside("prefix:1025", "total"), {}, "running sums and all ranges"),
    (COUNTIES, {}, "regions that nest"),
    (COUNTIES, {"neighbours": "replace"}, "regions that nest"),
    ("marginals:prefix60,prefix50,4,ways=2", {}, "union of products"),
    (np.arange(2049.0)[None], {"neighbours": "replace"}, "one matrix"),
    (
        np.arange(4096.0)[None] // 2,
        {"neighbours": "replace"},
        "one matrix",
    ),
    (
        np.arange(24000.0)[None] // 12,
        {"neighbours": "replace"},
        "one matrix",
    ),
]


@pytest.mark.parametrize(("workload", "asked", "name"), TABLE)
def test_which_workload_goes_where(workload, asked, name):
    chosen = choose(as_workload(workload), DesignOptions(**asked)).name
    assert chosen == (name or "union of products")


def test_the_last_route_takes_everything_and_names_differ():
    assert len({way.name for way in ROUTES}) == len(ROUTES) <= 8
    assert ROUTES[-1].accepts(as_workload("prefix:2"), DesignOptions())
    assert {name for *_, name in TABLE if name} == {way.name for way in ROUTES}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rel_gap": 0}, "rel_gap must be positive"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1"),
        ({"time_limit": -1}, "time_limit must be positive"),
        ({"method": "newton"}, "method must be one of"),
        ({"buffers": 1}, "buffers must be from 2 to"),
        ({"neighbours": "near"}, "neighbours must be"),
    ],
)
def test_options_are_checked_where_they_are_made(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        DesignOptions(**wrong)


def test_buffers_are_refused_where_there_are_none():
    with pytest.raises(InvalidInputError, match="buffers are for running sums"):
        solve(as_workload("histogram:4"), 2.0, DesignOptions(buffers=3))
