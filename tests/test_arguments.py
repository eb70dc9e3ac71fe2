"""Public functions with arguments of wrong types: an error that says which one, and no crash."""

import inspect
import itertools
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmldesign as pml
from pmldesign.arguments import whole
from pmldesign.comparison import compare_all
from pmldesign.privacy import Noise
from pmldesign.strategies import Participation, Strategy, with_participation
from pmldesign.streams import FloatingGaussian, Journal, endless_stream


class Elsewhere:
    """As a tensor in the memory of another device, which numpy does not get at."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


WRONG = {
    "str": "x",
    "None": None,
    "bool": True,
    "masked": np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 1], [0, 0]]),
    "object": np.array([object(), None], dtype=object),
    "scalar": np.array("2"),
    "nested": [[1, 2], [3]],
    "device": Elsewhere(),
    "table": pd.DataFrame({"a": ["x"]}),
    "missing": pd.NA,
}
OFTEN = with_participation(Strategy("sums", np.tril(np.ones((6, 6)))), Participation(2, 2))
NOISY = pml.mechanism(np.eye(4), "prefix:4", guarantee=pml.PureDP(1))
ENVELOPE = [name for name in dir(pml.envelope) if not name.startswith("_")]
CHANNEL = pml.envelope.randomized_response([0.5, 0.3, 0.2], epsilon=1)
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
FLAGS = {"allow_vacuous", "counted", "integers", "leave_out", "nonnegative", "fractions", "restart"}
FLAGS |= {"confirm_same_population", "simultaneous", "streaming"}
CLASSES = [
    *(pml.PureDP, pml.ApproxDP, pml.PML, pml.ApproxPML, pml.EnvelopePML),
    *(pml.ZCDP, pml.GaussianDP, pml.RenyiDP, pml.envelope.Channel, pml.DesignOptions),
]
ELSEWHERE = {
    "sweep",
    *("bounds.neighbours", "least_budget.neighbours", "baseline.others"),
    *("compare_all.jobs.None", "release.sampler"),
    *(
        "workload.schema",
        "strategy.workload",
        "parse_channel.prior.None",
        "read.schema.str",
        "write.value.matrix",
        "calibrate.known",
    ),
}
"""Not meant for callers, or where that value has a meaning."""


def cases():
    """A wrong value for every parameter of every public function, of each kind in turn."""
    kinds = itertools.cycle(WRONG)
    names = [(pml, name) for name in pml.__all__] + [(pml.envelope, name) for name in ENVELOPE]
    values = [getattr(module, name) for module, name in names]
    for function in [*filter(inspect.isfunction, values), *CLASSES]:
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            for kind in itertools.islice(kinds, len(WRONG)):
                path = [function.__name__, parameter.name, kind]
                names = {".".join(path[:count]) for count in (1, 2, 3)}
                meant = kind == "None" and parameter.default is None
                meant |= kind == "bool" and parameter.name in FLAGS
                meant |= parameter.name == "solver"  # looked at where it is used
                if not (names & ELSEWHERE or meant):
                    yield pytest.param(function, parameter.name, kind, id=".".join(path))
                    next(kinds)  # the next parameter begins with another kind
                    break


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
    with pytest.raises(pml.PmldesignError) as caught:
        function(**{**arguments, name: WRONG[kind]})
    assert "\n" not in str(caught.value)


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
        (
            lambda: pml.compare("prefix:4", strategies="tree"),
            "strategies must be a list, got 'tree'",
        ),
        (lambda: compare_all("prefix:4", ["tree"]), "workloads must be a list, got"),
        (
            lambda: pml.factorize("a.npy"),
            r"pmldesign.workload\('a.npy'\) reads",
        ),
        (lambda: pml.compose("x"), "releases must be a list of mechanisms"),
        (lambda: pml.compose(["x"]), "release 0 must be a mechanism"),
        (lambda: pml.envelope.maximal_leakage(None), "channel must be Channel"),
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


PEOPLE = {"sex": ["F", "M", "F"], "age": [31, 17, 64]}
SCHEMA = {"attributes": [{"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [0, 18, 65]}]}
TABLES = pml.mechanism("identity", pml.workload("sex*age", schema=SCHEMA), guarantee=pml.PureDP(1))
STREAMED = pml.factorize("prefix:4").stream(guarantee=pml.ApproxDP(1, 1e-6))
GAUSSIAN = pml.mechanism(np.eye(4), "prefix:4", guarantee=pml.ZCDP(1))


def released(**options):
    return TABLES.release(pd.DataFrame(PEOPLE), schema=SCHEMA, **options)


@pytest.mark.parametrize("wrong", ["no", None, 1, np.ma.masked, pd.NA, WRONG["device"]])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("allow_vacuous", partial(pml.calibrate, np.eye(4), pml.PureDP(1), noise="laplace")),
        ("allow_vacuous", partial(pml.mechanism, NOISY, guarantee=pml.PML(1, 0.1))),
        ("streaming", partial(pml.optimize, "prefix:4", guarantee=pml.PureDP(1))),
        ("by_part", partial(pml.Targets, 3.0)),
        *((name, released) for name in ("simultaneous", "nonnegative", "integers")),
        ("confirm_same_population", partial(released, ledger="none.jsonl")),
        *((name, partial(released().measurements.ask, "sex")) for name in ("nearest", "integers")),
    ],
)
def test_a_flag_is_true_or_false_and_no_text_that_says_no(name, call, wrong):
    with pytest.raises(pml.InvalidInputError, match=f"{name} must be True or False"):
        call(**{name: wrong})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda wrong: GAUSSIAN.privacy.delta(wrong), "epsilon"),
        (lambda wrong: GAUSSIAN.privacy.deltas(wrong), "epsilons"),
        (lambda wrong: NOISY.privacy.delta(wrong), "epsilon"),
        (lambda wrong: NOISY.privacy.deltas(wrong), "epsilons"),
        (lambda wrong: NOISY.least_error(wrong), "p must"),
        (lambda wrong: NOISY.factorization.norm(wrong), "p must"),
        (lambda wrong: NOISY.factorization.sensitivity(wrong), "noise"),
        (lambda wrong: NOISY.factorization.unit_error(wrong, 2), "noise"),
        (lambda wrong: NOISY.strategy.answer(wrong, np.ones(4)), "workload"),
        (lambda wrong: NOISY.strategy.sensitivity_for(wrong, Noise.LAPLACE), "neighbours"),
        (lambda wrong: pml.PML(1, 0.1).describe(wrong), "cells must"),
        (lambda wrong: pml.factorize("prefix:4").stream(guarantee=wrong), "guarantee"),
        (lambda wrong: GAUSSIAN.vector_stream(2).step(wrong), "vector"),
        (lambda wrong: GAUSSIAN.vector_stream(2).steps(wrong), "vectors"),
        (lambda wrong: STREAMED.resume(wrong), "saved state"),
        (lambda wrong: released().save(wrong), "path must|table ends in"),
        (lambda wrong: pml.Plan(wrong), "releases"),
        (lambda wrong: endless_stream(wrong), "guarantee"),
        (lambda wrong: Journal(wrong, Path("none")), "stream must be a Stream"),
        (lambda wrong: Journal(STREAMED, wrong), "path must be a Path"),
    ],
)
@pytest.mark.parametrize("kind", [*WRONG])
def test_a_method_refuses_a_wrong_type_by_name(call, says, kind):
    with pytest.raises(pml.PmldesignError, match=says):
        call(WRONG[kind])


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "None"])
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda wrong: NOISY.error(wrong), "p must"),
        (lambda wrong: pml.Targets(3.0, level=wrong), "level must"),
        (lambda wrong: GAUSSIAN.stream(noise=wrong), "noise must be a source"),
        (lambda wrong: FloatingGaussian(wrong), "seed"),
        (lambda wrong: GAUSSIAN.vector_stream(2, seed=wrong), "seed"),
    ],
)
def test_what_may_be_left_out_is_refused_by_name_too(call, says, kind):
    with pytest.raises(pml.PmldesignError, match=says):
        call(WRONG[kind])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pml.workload([[1, 2], [3]]), "workload must have rows of one length"),
        (
            lambda: pml.envelope.closed_failure_bound(CHANNEL, [0.1, 0.2], 0.1),
            "each of the 3 secrets",
        ),
        (
            lambda: pml.envelope.closed_failure_bound(CHANNEL, [0.1, np.nan, 0.2], 0.1),
            "dual must be finite",
        ),
        (
            lambda: pml.workload("prefix:4", weights=np.True_),
            "weights must hold real numbers, got True",
        ),
        (lambda: NOISY.privacy.delta(np.nan), "epsilon must be finite and at least 0"),
        (lambda: NOISY.privacy.delta(-1), "epsilon must be finite and at least 0"),
        (lambda: NOISY.release(np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0])), "no masked entries"),
        (lambda: STREAMED.step(np.array(2)), r"must be a number, got array\(2\)"),
        (lambda: STREAMED.steps(np.array(2)), "steps takes a list of inputs"),
        (lambda: STREAMED.step("2"), "an input of a stream must be a number, got '2'"),
        (lambda: STREAMED.steps(np.ma.array(np.ones(4), mask=[0, 1, 0, 0])), "got masked"),
        (lambda: long_stream().steps(np.ma.array(np.ones(300), mask=np.eye(300)[5])), "got masked"),
        (lambda: GAUSSIAN.vector_stream(2).step(np.ma.array([1, 2], mask=[0, 1])), "no masked"),
        (lambda: NOISY.strategy.sensitivity_under("Replace", "l2"), "neighbours must be"),
        (lambda: NOISY.strategy.sensitivity_under("replace", "L1"), "norm must be 'l1', 'l2'"),
        (lambda: NOISY.strategy.sensitivity_for("replace", "l1"), "noise must be gaussian"),
        (lambda: OFTEN.sensitivity_under("add-removed", "l2"), "neighbours must be"),
        (lambda: OFTEN.sensitivity_under("add-remove", "L1"), "norm must be 'l1', 'l2'"),
        (lambda: OFTEN.sensitivity_under("add-remove", "linf"), "cube noise is for one partic"),
        (lambda: OFTEN.sensitivity_for("add-remove", "cube"), "cube noise is for one partic"),
        (lambda: OFTEN.sensitivity_for("add-remove", None), "noise must be 'gaussian'"),
    ],
)
def test_nothing_is_taken_for_something_else(call, says):
    with pytest.raises(pml.InvalidInputError, match=says):
        call()


def long_stream():
    return pml.mechanism("identity", "prefix:512", guarantee=pml.ZCDP(1)).stream()


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
