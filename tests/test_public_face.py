"""`import pmldesign as pml`: names, what is accepted, how objects show themselves."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import pmldesign as pml
from pmldesign.designs import DesignArguments
from pmldesign.mechanisms import ReleaseArguments
from pmldesign.releases import Answers
from pmldesign.strategies import as_strategy
from pmldesign.workloads import as_workload

DP = pml.ApproxDP(1, 1e-6)
PREFIX = np.tril(np.ones((4, 4)))


class Frame:
    """What is needed of a data frame."""

    columns = ("a", "b", "c", "d")
    index = ("first", "second", "third", "fourth")

    def to_numpy(self):
        return PREFIX


WORKLOADS = {
    "name": "prefix:4",
    "matrix": PREFIX,
    "list": PREFIX.tolist(),
    "sparse": sparse.csr_array(PREFIX),
    "data frame": Frame(),
    "object": as_workload("prefix:4"),
}
STRATEGIES = {
    "matrix": PREFIX,
    "list": PREFIX.tolist(),
    "sparse": sparse.csr_array(PREFIX),
    "object": as_strategy(PREFIX),
    "mechanism": pml.mechanism(PREFIX, "prefix:4"),
    "workload": as_workload("prefix:4"),
}


def modules():
    package = importlib.import_module("pmldesign")
    yield package
    for found in pkgutil.walk_packages(package.__path__, "pmldesign."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def test_no_function_has_the_name_of_a_module():
    for module in modules():
        package = module.__name__ if hasattr(module, "__path__") else module.__package__
        siblings = {
            name for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__)
        }
        public = {
            name
            for name, value in vars(module).items()
            if (inspect.isfunction(value) or inspect.isclass(value))
            and (module.__name__ == package or value.__module__ == module.__name__)
        }
        assert not public & siblings, module.__name__
        if module.__name__ != "pmldesign":
            assert package.rpartition(".")[2] not in public, module.__name__
    names = {name for _, name, _ in pkgutil.iter_modules(pml.__path__)}
    submodules = {name for name in pml.__all__ if inspect.ismodule(getattr(pml, name))}
    assert names & set(pml.__all__) == submodules == {"envelope", "plots", "streams"}


def test_every_public_name_is_there_and_says_what_it_is_for():
    assert dir(pml) == sorted(pml.__all__)
    for name in pml.__all__:
        value = getattr(pml, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert value.__doc__, name
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", pml.__version__)
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = pml.optimise


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, pmldesign; print(sorted(n for n in sys.modules if n in {names}))"
    heavy = {"numpy", "scipy", "cvxpy", "click", "rich", "importlib.metadata"}
    shown = subprocess.run(
        [sys.executable, "-c", code.format(names=heavy)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("given", [*WORKLOADS.values()], ids=WORKLOADS)
def test_a_workload_is_taken_in_every_form(given):
    expected = pml.factorize("prefix:4", rel_gap=1e-3)
    assert pml.workload(given).to_dense().tolist() == PREFIX.tolist()
    assert pml.factorize(given, rel_gap=1e-3).certificate.gap <= 1e-3
    noisy = pml.optimize(given, guarantee=DP, rel_gap=1e-3, noise="gaussian").best
    # the norm is known to 1e-3, so is the error
    unit = pml.mechanism(expected, guarantee=DP, noise="gaussian")
    assert noisy.error() == pytest.approx(unit.error(), rel=2e-3)
    assert pml.mechanism(np.eye(4), given, guarantee=DP).error() > 0
    assert pml.mechanism("tree", given, guarantee=DP).error() > 0
    (row,) = pml.compare(given, strategies=["identity"]).rows
    assert row.error == pytest.approx(np.sqrt(10))  # variances 1, 2, 3 and 4
    bounds = pml.bounds(given, guarantee=DP, rel_gap=1e-3)
    assert [bound.name for bound in bounds if bound.holds]
    assert pml.strategy("workload", given).matrix.tolist() == PREFIX.tolist()
    assert pml.baseline("tree", as_workload(given)).cells == 4


@pytest.mark.parametrize("given", [*STRATEGIES.values()], ids=STRATEGIES)
def test_a_strategy_is_taken_in_every_form(given):
    assert pml.strategy(given).matrix.tolist() == PREFIX.tolist()
    scale = pml.calibrate(given, pml.PureDP(1), noise="laplace").scale
    assert scale == 4  # a record in the first cell counts in all four sums
    assert pml.envelope.leakage(given, scale=2, alpha=0.1)["dp"] == 1.5
    noisy = pml.mechanism(given, "prefix:4", guarantee=pml.PureDP(1))
    assert noisy.scale == 4
    (row,) = pml.compare("prefix:4", strategies=[given], guarantee=pml.PureDP(1)).rows
    assert row.scale == 4


def test_a_factorization_brings_its_workload_exponent_and_relation():
    best = pml.factorize("prefix:4", p=4, neighbours="replace")
    noisy = pml.mechanism(best)
    assert (noisy.p, noisy.neighbours) == (4, pml.Neighbours.REPLACE)
    assert noisy.error() == noisy.error(4) != noisy.error(2)
    again = pml.mechanism(noisy, guarantee=pml.PML(0.5, 0.1))
    assert again.p == 4
    assert again.guarantee == pml.PML(0.5, 0.1)
    with pytest.raises(pml.InvalidInputError, match="a workload is needed beside a strategy"):
        pml.mechanism(np.eye(4))
    with pytest.raises(pml.InvalidInputError, match="factorize for p"):
        pml.bounds(best, guarantee=pml.PML(0.5, 0.1), p=2)
    with pytest.raises(pml.InvalidInputError, match="use `neighbours='add-remove'`"):
        pml.bounds(best, guarantee=DP)
    direct = pml.bounds("prefix:4", guarantee=pml.PML(0.5, 0.1), p=4)
    for one, other in zip(pml.bounds(best, guarantee=pml.PML(0.5, 0.1)), direct, strict=True):
        assert one == other


def test_optimize_returns_the_best_row_first_and_no_name_twice():
    result = pml.optimize("prefix:4", DP, effort="quick")
    rows = list(result)
    assert rows == [*result.rows]
    assert rows[0].strategy == "design"
    assert rows[0].error == result.best.error()
    assert rows[0].ratio == 1.0
    assert [row.error for row in rows[1:]] == sorted(row.error for row in rows[1:])
    names = [row.strategy for row in rows]
    assert len(names) == len(set(names))
    assert {"tree", "haar", "identity", "workload"} <= set(names)
    assert result.best.guarantee == DP
    assert result.certificate.lower <= result.certificate.upper
    assert result.bound.value <= result.best.error()


@pytest.mark.parametrize("function", [pml.factorize, pml.optimize, pml.compare])
def test_functions_that_design_show_and_take_every_option_of_a_design(function):
    shown = inspect.signature(function).parameters
    options = [field.name for field in dataclasses.fields(pml.DesignOptions)]
    assert [*DesignArguments.__annotations__] == options
    assert {*options, "p"} <= {*shown}
    assert all(shown[name].kind is shown[name].KEYWORD_ONLY for name in options)
    with pytest.raises(
        pml.InvalidInputError, match="max_steps must be a whole number of at least 1"
    ):
        function(
            "prefix:4", **({"strategies": ["tree"]} if function is pml.compare else {}), max_steps=0
        )


def test_queries_of_a_data_frame_are_called_by_its_index():
    assert pml.workload(Frame()).row_label(1) == "query 'second'"
    with pytest.raises(pml.InvalidInputError, match="cannot answer query 'third'"):
        pml.mechanism(np.eye(4)[:2], Frame())


FRAMES = {
    "Int64": lambda rows: pd.DataFrame(rows, dtype="Int64"),
    "converted": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "boolean": lambda rows: pd.DataFrame(rows).astype("boolean"),
    "bool and float": lambda rows: pd.DataFrame(rows).astype({0: bool, 1: float, 2: int}),
    "polars": lambda rows: pl.DataFrame(rows).with_columns(pl.first().cast(pl.Boolean)),
}


@pytest.mark.parametrize("frame", [*FRAMES.values()], ids=FRAMES)
def test_columns_of_numbers_of_any_dtype_are_numbers(frame):
    given = frame(PREFIX)
    assert pml.workload(given).to_dense().tolist() == PREFIX.tolist()
    assert pml.strategy(given).matrix.tolist() == PREFIX.tolist()


@pytest.mark.parametrize("column", [["1", "2"], pd.array([1, None], dtype="Int64"), [1, "x"]])
def test_columns_that_are_no_numbers_are_refused(column):
    for read in (pml.workload, pml.strategy):
        with pytest.raises(pml.InvalidInputError, match=r"must hold real numbers|finite"):
            read(pd.DataFrame({"a": column, "b": [1.0, 2.0]}))


def test_files_are_read(tmp_path):
    np.save(tmp_path / "queries.npy", PREFIX)
    for path in (tmp_path / "queries.npy", str(tmp_path / "queries.npy")):
        assert pml.workload(path).to_dense().tolist() == PREFIX.tolist()
        assert pml.strategy(path).matrix.tolist() == PREFIX.tolist()


@pytest.mark.parametrize("given", [3, None, object(), {"a": 1}])
def test_what_is_no_workload_or_strategy_is_refused(given):
    with pytest.raises(pml.InvalidInputError, match="a workload is"):
        pml.workload(given)
    with pytest.raises(pml.InvalidInputError, match="a strategy is"):
        pml.strategy(given)


def objects():
    best = pml.factorize("prefix:4")
    yield pml.workload("prefix:4"), ["prefix:4", "4 queries on 4 cells"]
    yield pml.strategy("tree", "prefix:4"), ["tree", "7 measurements of 4 cells"]
    yield best, ["prefix:4", "gamma_(2)", "add-remove", "optimal"]
    yield pml.mechanism(best, guarantee=DP), ["prefix:4", "scale", "rmse", "ApproxDP"]
    yield pml.compare("prefix:4", strategies=["tree", "identity"]), ["prefix:4"]
    yield pml.bounds(best, guarantee=DP)[0], ["at least"]
    yield pml.bounds(best, guarantee=DP), ["bounds on the error"]
    yield pml.optimize("prefix:4", DP, effort="quick"), ["prefix:4", "err_2"]
    yield pml.least_budget("prefix:4", pml.ZCDP(1), targets=5, noise="gaussian"), ["rho"]
    yield pml.mechanism(best, None, DP, noise="gaussian").stream(), ["Stream", "0 steps"]
    yield pml.Budget(1, 1e-6, 0), ["Budget", "epsilon 1"]
    yield pml.Plan.parse("4*laplace:0.1"), ["4 releases", "laplace:0.1"]
    yield pml.Ledger("postgresql://me:secret@host/db", "panel"), ["host/db", "panel"]
    yield pml.Targets(np.arange(1, 100)), ["standard deviation"]
    yield pml.OwnMechanism("mine", np.eye(99), lambda *_: 2.0), ["mine", "l1"]
    channel = pml.envelope.randomized_response([0.5, 0.3, 0.2], epsilon=1)
    yield channel, ["3 secrets", "3 outputs"]
    yield pml.envelope.exact_envelope(channel, 0.1), ["delta 0.1"]
    yield pml.envelope.envelope_curve(channel, [0.01, 0.1]), ["2 deltas"]
    keys = [{"name": "sex", "keys": ["F", "M"]}, {"name": "age", "cuts": [*range(100)]}]
    yield pml.Schema.of({"attributes": keys, "rows_per_person": 2}), ["sex (2)", "age (99)"]
    published = pml.mechanism("identity", "histogram:40", pml.PureDP(1)).release(range(40))
    yield published, ["histogram:40", "discrete laplace", "40 answers"]
    yield published.measurements, ["histogram:40", "40 values", "discrete laplace"]
    yield published.measurements.ask("total:40"), ["1 answers"]
    yield pml.calibrate(PREFIX, DP, noise="laplace"), ["laplace noise of scale 4"]


@pytest.mark.parametrize(("shown", "words"), [*objects()], ids=lambda value: type(value).__name__)
def test_objects_show_themselves(shown, words):
    text, page = repr(shown), shown._repr_html_()
    assert len(text.splitlines()) <= 5
    assert len(text) <= 400
    assert "secret@" not in text
    assert page.startswith("<table>")
    assert page.endswith("</table>")
    for word in words:
        assert word in text
        assert word in page or isinstance(shown, tuple | Answers)


def test_what_verification_shows(tmp_path):
    pml.write(tmp_path / "s.npz", pml.mechanism(np.eye(4), "prefix:4", guarantee=DP))
    shown = pml.verify(tmp_path / "s.npz")
    assert repr(shown).startswith("Verification of strategy 's.npz': ")
    assert len(repr(shown)) <= 400
    assert shown._repr_html_().count("<tr>") == len(shown.checks)


def test_frames_are_of_the_library_of_the_data_and_have_the_same_columns():
    """Without a data frame they are of pandas, if it is installed."""
    people = {"sex": ["F", "M", "F"]}
    queries = pml.workload("sex", schema={"attributes": [{"name": "sex", "keys": ["F", "M"]}]})
    noisy = pml.mechanism("identity", queries, pml.PureDP(1))
    columns = ["sex", "estimate", "standard_deviation", "lower", "upper"]
    for library in (pl, pd):
        frame = noisy.release(library.DataFrame(people)).to_frame()
        assert isinstance(frame, library.DataFrame)
        assert [*frame.columns] == columns
    (answers,) = [noisy.release(pl.DataFrame(people)).measurements.ask("sex").to_frame()]
    assert isinstance(answers, pd.DataFrame)
    assert [*answers.columns] == columns
    shown = pml.compare("prefix:4", DP, strategies=["tree"]).to_frame()
    result = pml.optimize("prefix:4", DP, effort="quick").to_frame()
    assert [*shown.columns] == [*result.columns]
    channel = pml.envelope.randomized_response([0.5, 0.3, 0.2], epsilon=1)
    curve = pml.envelope.envelope_curve(channel, [0.01, 0.1]).to_frame()
    assert [*curve.columns] == ["delta", "lower", "upper"]


def test_a_page_escapes_what_a_name_holds():
    shown = as_workload(PREFIX)
    shown.name = "<b>"
    assert "<b>" not in shown._repr_html_()


def test_names_are_few_and_those_of_submodules_in_the_reference_are_there():
    assert len(dir(pml)) <= 60
    text = (Path(__file__).parent.parent / "docs" / "reference" / "python.md").read_text()
    for module, name in re.findall(r"^\.\. auto\w+:: pmldesign\.(\w+)\.(\w+)$", text, re.MULTILINE):
        assert getattr(getattr(pml, module), name).__doc__, name


def test_the_release_of_a_mechanism_has_the_options_of_release():
    parameters = [*inspect.signature(pml.release).parameters]
    assert ["mechanism", "data", "schema", *ReleaseArguments.__annotations__] == parameters


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pml.optimize("prefix:4", epsilon=1), r"guarantee=pmldesign.PureDP\(1\)"),
        (lambda: pml.calibrate(PREFIX, epsilon=1, delta=1e-6, noise="gaussian"), "ApproxDP"),
        (lambda: pml.mechanism("tree", "prefix:4", rho=0.5), r"pmldesign.ZCDP\(0.5\)"),
        (lambda: pml.compare("prefix:4", alpha=0.1, epsilon=1, strategies=[]), "PML"),
        (lambda: pml.bounds("prefix:4", 1), "guarantee must be such as PureDP"),
        (lambda: pml.factorize("prefix:4", rel_gapp=1), "did you mean 'rel_gap'"),
        (lambda: pml.release(None, [1], levels=0.9), "did you mean 'level'"),
        (
            lambda: pml.verify("s.npz", colour=1),
            "verify has no argument 'colour'; it has",
        ),
    ],
)
def test_a_guarantee_is_an_object_and_unknown_names_are_refused(call, says):
    with pytest.raises(pml.InvalidInputError, match=says):
        call()
