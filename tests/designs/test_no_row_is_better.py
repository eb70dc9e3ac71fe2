"""No row of a table is better than the design, whatever is asked for and however little time."""

import dataclasses
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import PmldesignError
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
LIMITS = ({}, {"max_steps": 1}, {"rel_gap": 0.5}, {"time_limit": 1e-9})


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
    return {"guarantee": guarantee, "noise": noise, "p": p, "effort": "quick", **asked}


@pytest.mark.sweep(seed=10)
@pytest.mark.parametrize("seed", range(30))
def test_the_design_is_the_best_row(seed):
    rng = np.random.default_rng(seed)
    workload, asked = random_workload(rng), random_question(rng)
    names = []
    for name in BASELINES:
        try:
            pml.compare(workload, strategies=[name], **asked)
            names.append(name)
        except PmldesignError:
            continue
    try:
        rows = pml.compare(workload, strategies=["design", *names], **asked).rows
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
        "prefix:33 --rel-gap 0.5 --p 4",
        "histogram:6",
        "prefix:6 --noise laplace --known total",
        "parity:5,5 --epsilon 1 --delta 1e-9 --noise laplace",
        "total:4*all-range:2*total:3 --epsilon 3 --neighbours replace --p 4",
        "prefix:3 --epsilon 1 --delta 1e-6 --alpha 0.1 --noise gaussian --time-limit 1e-9",
        "haar:4 --epsilon 0.8 --delta 1e-3 --alpha 0.2 --noise gaussian --p inf --time-limit 1e-9",
    ],
)
def test_the_table_of_optimize_begins_with_the_design(line):
    asked = ["optimize", *line.split(), "--effort", "quick", "--json"]
    answer = CliRunner().invoke(main, asked)
    assert answer.exit_code in (0, 3), answer.output
    rows = json.loads(answer.stdout)["strategies"]
    assert rows[0]["name"] == "design"
    assert rows[0]["ratio"] == 1.0
    for row in rows[1:]:
        assert rows[0]["error"] <= row["error"] * (1 + 1e-6), row


def test_a_design_for_replace_is_not_worse_than_that_for_add_remove():
    """Where the strategy for add-remove neighbours has the smaller distances."""
    text = "marginals:prefix20,9,prefix25,16,7,ways=2"
    design = pml.factorize(text, p=math.inf, neighbours="replace")
    single = pml.factorize(text, p=math.inf).strategy
    other = pml.mechanism(single, text, p=math.inf, neighbours="replace")
    assert design.certificate.upper <= other.factorization.norm(math.inf) * (1 + 1e-6)
    reached = pml.mechanism(design).factorization.norm(math.inf)
    assert reached <= design.certificate.upper <= reached * (1 + 1e-6)
