"""Public functions with arguments of wrong types: an error that says which one, and no crash."""

import inspect

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.arguments import whole

WRONG = {
    "str": "x",
    "None": None,
    "bool": True,
    "masked": np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 1], [0, 0]]),
    "object": np.array([object(), None], dtype=object),
}
NOISY = pml.mechanism(np.eye(4), "prefix:4", guarantee=pml.PureDP(1))
CHANNEL = pml.randomized_response([0.5, 0.3, 0.2], epsilon=1)
RIGHT = {
    "alpha": 0.1,
    "cells": 3,
    "channel": CHANNEL,
    "confidence": 0.9,
    "counts": [5, 6, 7],
    "data": "none.csv",
    "delta": 0.1,
    "deltas": [0.1, 0.2],
    "design": NOISY,
    "dual": [0.1, 0.2, 0.3],
    "epsilon": 0.1,
    "event": [1, 0, 1],
    "first": CHANNEL,
    "guarantee": pml.ApproxDP(1, 1e-6),
    "guarantees": [None],
    "k": 3,
    "later": [np.eye(3)],
    "matrix": np.eye(3),
    "mechanism": NOISY,
    "mu": 1,
    "name": "tree",
    "noise": "gaussian",
    "order": 2,
    "path": "none.npz",
    "prior": [0.5, 0.3, 0.2],
    "releases": [NOISY],
    "rho": 1,
    "scale": 1,
    "second": np.eye(3),
    "strategies": ["tree"],
    "strategy": np.eye(4),
    "study": "none.toml",
    "targets": 3.0,
    "text": "laplace:0.1",
    "value": np.eye(4),
    "values": 3.0,
    "weights": [1, 1, 1, 1],
    "workload": "prefix:4",
    "workloads": ["prefix:4"],
}
FLAGS = {"allow_vacuous", "integers", "leave_out", "nonnegative", "reviewed", "simultaneous"}
FLAGS |= {"streaming", "by_part", "solver", "same_people", "counted"}
"""Taken by their truth; the solver is looked at where it is used."""
WORDS = {"known", "method", "name", "neighbours", "noise", "participation", "quantiles", "side"}
WORDS |= {"budget", "ledger", "output", "path", "people", "plan", "published", "schema"}
"""Texts and paths: arrays are no mistake that anybody makes."""
CLASSES = [
    *(pml.PureDP, pml.ApproxDP, pml.PML, pml.ApproxPML, pml.EnvelopePML),
    *(pml.ZCDP, pml.GaussianDP, pml.RenyiDP, pml.Channel, pml.DesignOptions),
]
ELSEWHERE = {
    *("draft_schema", "named_workloads", "plot", "progress", "sweep"),  # any object; no argument
    *("error_bounds.neighbours", "baseline.others", "PureDP.known", "ApproxDP.known"),
    *("ZCDP.known", "GaussianDP.known", "RenyiDP.known", "alpha_curve.epsilon"),
    *("PureDP.published", "ApproxDP.published", "ZCDP.published", "GaussianDP.published"),
    "RenyiDP.published",
    *("compare_all.jobs.None", "release_tables.sampler"),
    *(
        "workload.schema",
        "strategy.workload",
        "read_workload.note",
        "parse_channel.prior.None",
        "calibrate.known",
    ),
}
"""Not meant for callers, or where that value has a meaning."""


def cases():
    functions = [value for name in pml.__all__ if inspect.isfunction(value := getattr(pml, name))]
    for function in [*functions, *CLASSES]:
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            for kind in WRONG:
                path = [function.__name__, parameter.name, kind]
                names = {".".join(path[:count]) for count in (1, 2, 3)}
                meant = kind == "None" and parameter.default is None
                meant |= kind == "bool" and parameter.name == "own_grid"
                array = kind in ("masked", "object") and parameter.name in WORDS
                if not (names & ELSEWHERE or parameter.name in FLAGS or meant or array):
                    yield pytest.param(function, parameter.name, kind, id=".".join(path))


@pytest.mark.parametrize(("function", "name", "kind"), [*cases()])
def test_a_wrong_type_is_refused_by_name(tmp_path, monkeypatch, function, name, kind):
    monkeypatch.chdir(tmp_path)
    parameters = inspect.signature(function).parameters
    arguments = {
        other: RIGHT[other]
        for other, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    with pytest.raises((TypeError, ValueError, pml.PmldesignError)) as caught:
        function(**{**arguments, name: WRONG[kind]})
    message = str(caught.value)
    assert "\n" not in message
    own = isinstance(caught.value, pml.PmldesignError)
    assert own or name in message or "os.PathLike" in message


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pml.factorize("prefix:4", p="2"), "p must be a number, got '2'"),
        (lambda: pml.factorize("prefix:4", max_steps=1.5), "max_steps must be a whole number"),
        (lambda: pml.factorize("prefix:4", max_steps=True), "max_steps must be a whole number"),
        (lambda: pml.ApproxDP("1", 1e-6), "epsilon must be a number, got '1'"),
        (lambda: pml.PureDP(np.True_), "epsilon must be a number"),
        (lambda: pml.ApproxDP(1, None), "delta must be a number, got None"),
        (lambda: pml.mechanism("tree", np.eye(4), guarantee=1), "guarantee must be such as"),
        (lambda: pml.compare("prefix:4", "tree"), "strategies must be a list, got 'tree'"),
        (lambda: pml.compare_all("prefix:4", ["tree"]), "workloads must be a list, got"),
        (
            lambda: pml.factorize("a.npy"),
            r"pmldesign.workload\('a.npy'\) reads",
        ),
        (lambda: pml.compose("x"), "releases must be a list of mechanisms"),
        (lambda: pml.compose(["x"]), "release 0 must be a mechanism"),
        (lambda: pml.maximal_leakage(None), "channel must be Channel"),
        (lambda: pml.workload(WRONG["masked"]), "workload must have no masked entries"),
        (lambda: pml.strategy(WRONG["masked"]), "must have no masked entries"),
        (lambda: pml.PML(1, np.ma.masked_array([0.1, 0.2], [0, 1])), "alpha of cell 1 must be"),
        (lambda: pml.calibrate(np.eye(2), "dp", noise="laplace"), "guarantee must be such as"),
        (lambda: pml.factorize("prefix:4", participation="4,min-sep=0"), "min-sep"),
        (lambda: pml.factorize("prefix:4", participation="0,every=2"), "steps"),
    ],
)
def test_what_is_wrong_and_what_to_give_is_said(call, says):
    with pytest.raises(pml.InvalidInputError, match=says):
        call()


def test_numbers_of_any_type_are_numbers():
    assert pml.PureDP(np.float32(3)) == pml.PureDP(np.int64(3)) == pml.PureDP(3)
    assert type(pml.PureDP(np.float32(3)).epsilon) is float
    assert whole("k", np.uint8(2)) == 2
    found = pml.factorize("prefix:4", p=np.float32(4), max_steps=np.int16(90), rel_gap=1e-3)
    assert found.p == 4
    with pytest.raises(pml.InvalidInputError, match="epsilon must be positive and finite"):
        pml.PureDP(10**400)


def test_masked_arrays_with_nothing_masked_are_arrays():
    whole_array = np.ma.masked_array(np.eye(3), mask=False)
    assert pml.workload(whole_array).to_dense().tolist() == np.eye(3).tolist()
    assert pml.strategy(whole_array).matrix.tolist() == np.eye(3).tolist()
    assert pml.PML(1, np.ma.masked_array([0.1, 0.2], [0, 0])).alpha == (0.1, 0.2)
