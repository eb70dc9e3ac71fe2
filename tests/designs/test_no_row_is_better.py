"""No row of a table is better than the design, whatever is asked for and however little time."""

import dataclasses
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.comparison import tasks
from pmldesign.designs import error_seconds, rivals, row_seconds
from pmldesign.errors import InvalidInputError, PmldesignError
from pmldesign.privacy import Neighbours, Noise
from pmldesign.strategies import baseline
from pmldesign.workloads import as_workload

BASELINES = ("tree", "haar", "identity", "workload", "square-root", "weighted-tree:3", "banded:2")
NAMED = ("prefix:2", "prefix:7", "haar:4", "window:6,3", "decay:6,0.3", "all-range:4")
GUARANTEES = (
    None,
    pml.PureDP(0.7),
    pml.ApproxDP(1.0, 1e-5),
    pml.ApproxDP(8.0, 1e-9),
    pml.ZCDP(0.1),
)
ON_PRIORS = (
    pml.PML(0.5, 0.1),
    pml.ApproxPML(0.5, 1e-6, 0.1),
    pml.EnvelopePML(0.8, 1e-3, 0.1),
)
LIMITS = ({}, {"max_steps": 1}, {"rel_gap": 0.5}, {"time_limit": 1e-3})


def random_workload(rng):
    if rng.random() < 0.5:
        return as_workload(str(rng.choice(NAMED)))
    m, n = rng.integers(1, 7), rng.integers(2, 7)
    matrix = rng.integers(-1, 3, (m, n)) * rng.choice([0.1, 1.0, 10.0], (m, 1))
    matrix[0, :2] = 1.0, 2.0
    return as_workload(matrix)


def random_question(rng):
    """Arguments of `compare`."""
    asked = dict(LIMITS[rng.integers(len(LIMITS))])
    guarantee = GUARANTEES[rng.integers(len(GUARANTEES))]
    noise, p = str(rng.choice(["auto", "gaussian", "laplace"])), 2.0
    kind = str(rng.choice(["add-remove", "replace", "participation", "priors"]))
    if kind == "participation":
        times, apart = rng.integers(1, 4, 2)
        asked["participation"] = f"{times},{rng.choice(['every', 'min-sep'])}={apart}"
    else:
        p = float(rng.choice([2.0, 4.0, math.inf]))
    if kind == "priors":
        guarantee = ON_PRIORS[rng.integers(len(ON_PRIORS))]
    elif kind == "replace":
        if guarantee is None:
            asked["neighbours"] = kind
        else:
            guarantee = dataclasses.replace(guarantee, neighbours=kind)
    return {"guarantee": guarantee, "noise": noise, "p": p, "search_time": 0.01, **asked}


@pytest.mark.sweep(seed=10)
@pytest.mark.parametrize("seed", range(30))
def test_the_design_is_the_best_row(seed):
    rng = np.random.default_rng(seed)
    workload, asked = random_workload(rng), random_question(rng)
    names = []
    for name in BASELINES:
        try:
            pml.compare(workload, [name], **asked)
            names.append(name)
        except PmldesignError:
            continue
    try:
        rows = pml.compare(workload, ["design", *names], **asked).rows
    except pml.InfeasibleError:
        return  # Gaussian noise for a guarantee without delta
    for row in rows[1:]:
        assert rows[0].error <= row.error * (1 + 1e-6), (workload.name, asked, row.strategy)
    assert rows[0].ratio == 1.0


@pytest.mark.parametrize(
    "line",
    [
        "prefix:2 --noise laplace",
        "prefix:7 --noise laplace --neighbours replace",
        "prefix:9 --noise laplace --participation 3,every=3",
        "prefix:9 --epsilon 1 --participation 3,min-sep=2",
        "decay:9,0.1 --epsilon 5 --delta 1e-9 --participation 2,every=4",
        "prefix:33 --max-steps 1",
        "prefix:33 --rel-gap 0.5 --p 4",
        "histogram:6",
        "prefix:6 --noise laplace --known total",
        "parity:5,5 --epsilon 1 --delta 1e-9 --noise laplace",
        "total:4*all-range:2*total:3 --epsilon 3 --neighbours replace --p 4",
        "prefix:3 --epsilon 1 --delta 1e-6 --alpha 0.1 --noise gaussian --time-limit 1e-3",
        "haar:4 --epsilon 0.8 --delta 1e-3 --alpha 0.2 --noise gaussian --p inf --time-limit 1e-3",
    ],
)
def test_the_table_of_optimize_begins_with_the_design(line):
    asked = ["optimize", *line.split(), "--search-time", "0.05", "--json"]
    answer = CliRunner().invoke(main, asked)
    assert answer.exit_code in (0, 3), answer.output
    rows = json.loads(answer.stdout)["strategies"]
    assert rows[0]["name"] == "design"
    assert rows[0]["ratio"] == 1.0
    for row in rows[1:]:
        assert rows[0]["error"] <= row["error"] * (1 + 1e-6), row


def test_without_any_time_rows_that_were_asked_for_count_all_the_same(monkeypatch):
    """A busy machine: time is over before anything is looked at."""
    monkeypatch.setattr(rivals, "BEYOND", -1e9)
    asked = {"guarantee": pml.ApproxPML(0.8, 1e-3, 0.3), "noise": "gaussian", "time_limit": 1e-3}
    design, *rows = pml.compare("prefix:3", ["design", "identity"], **asked).rows
    assert design.error <= rows[0].error * (1 + 1e-6)


def test_a_row_that_is_left_out_takes_no_time_with_the_design(monkeypatch):
    def refused(name, *_):
        if name == "workload":
            raise InvalidInputError("it takes minutes")

    monkeypatch.setattr(tasks, "require_quick", refused)
    monkeypatch.setattr(rivals, "require_quick", refused)
    seen = []
    monkeypatch.setattr(
        rivals, "baseline", lambda name, workload: seen.append(name) or baseline(name, workload)
    )
    asked = ["design", "tree:3", "workload"]
    (shown,) = pml.compare_all(["prefix:5"], asked, max_steps=1, rel_gap=1e-12, leave_out=True)
    assert [row.strategy for row in shown.rows] == ["design", "tree:3"]
    assert "tree:3" in seen
    assert "workload" not in seen


def test_a_design_for_replace_is_not_worse_than_that_for_add_remove():
    """Where the strategy for add-remove neighbours has the smaller distances."""
    text = "marginals:prefix20,9,prefix25,16,7,ways=2"
    design = pml.factorize(text, p=math.inf, neighbours="replace")
    single = pml.factorize(text, p=math.inf).strategy
    other = pml.mechanism(single, text, p=math.inf, neighbours="replace")
    assert design.certificate.upper <= other.factorization.norm(math.inf) * (1 + 1e-6)
    reached = pml.mechanism(design).factorization.norm(math.inf)
    assert reached <= design.certificate.upper <= reached * (1 + 1e-6)


def test_rows_under_replace_are_weighed_by_all_cells():
    """2,044 cells of three attributes: their matrix tells the distances."""
    union = as_workload("prefix:4*total:7*prefix:73+all-range:4*histogram:7*prefix:73")
    assert row_seconds("tree", union, None, Neighbours.ADD_REMOVE) < 0.1
    assert row_seconds("tree", union, None, Neighbours.REPLACE) > 10
    large = as_workload("prefix:64*histogram:64+histogram:64*prefix:64")
    assert row_seconds("identity", large, None, Neighbours.REPLACE) < 0.1


def test_the_exact_error_of_laplace_noise_counts_where_it_takes_the_whole_strategy():
    """A tree over 12,754 steps: variances follow from a recurrence, fourth moments do not."""
    asked = as_workload("decay:12754,0.99"), pml.PureDP(1.0), Neighbours.ADD_REMOVE
    for p in (2.0, math.inf):
        assert row_seconds("tree", *asked, p=p) < 0.1
    assert row_seconds("tree", *asked, p=4.0) > 1000
    gaussian = pml.ZCDP(0.5)
    assert row_seconds("identity", asked[0], gaussian, asked[2], p=4.0) > 1  # Laplace may be better


def test_rows_of_minutes_are_estimated_without_their_strategies(monkeypatch):
    """A tree over 10,130 steps takes seconds and gigabytes to write."""
    monkeypatch.setattr(rivals, "baseline", None)
    asked = as_workload("window:10130,5"), pml.PureDP(1.0, "replace"), Neighbours.REPLACE
    assert row_seconds("tree", *asked, p=4.0) > 1000


def test_half_widths_of_baselines_count_where_they_take_the_whole_strategy():
    """Trees and the like over 4,560 cells: their variances are products, L takes their inverse."""
    tables = as_workload("marginals:4,prefix57,prefix20,ways=1")
    asked, laplace = (tables, pml.ZCDP(0.5, "replace"), Neighbours.REPLACE), Noise.LAPLACE
    for name in ("identity", "tree", "haar"):
        strategy = baseline(name, tables)
        entries = math.prod(strategy.shape)
        deviations = row_seconds(name, *asked, p=math.inf)
        assert row_seconds(name, *asked, p=math.inf, level=0.95) >= deviations + entries / 2e7
        assert error_seconds(strategy, tables, laplace, math.inf, 0.95) >= entries / 2e7
        assert error_seconds(strategy, tables, Noise.GAUSSIAN, math.inf, 0.95) == 0
    many = as_workload("prefix:20000")  # moments bound half-widths
    assert error_seconds(baseline("identity", many), many, laplace, math.inf, 0.95) == 0
