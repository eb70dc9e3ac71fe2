"""Files whose arrays were changed, and all claims made to be what `verify` computes from them.

Nothing contradicts anything there. What is false shows beside an honest file for the same queries:
its upper bound is above every lower one.
"""

import numpy as np
import pytest
from flint import arb_mat, ctx
from forgery import fitted

import pmldesign as pml
from pmldesign.files import strategies as writer
from pmldesign.strategies import (
    IdentityAndRows,
    ProductStrategy,
    Strategy,
    WeightedTablesStrategy,
)
from pmldesign.verifier import Verdict, read_archive
from pmldesign.verifier.forms import form, written


def honest(path, name, **options):
    """A file of a design, its header and its arrays."""
    best = pml.factorize(name, **options)
    promise = pml.ApproxDP(1.0, 1e-6, options.get("neighbours", "add-remove"))
    pml.write(path, best, mechanism=pml.mechanism(best, guarantee=promise, noise="gaussian"))
    return read_archive(path)


def claims(result, name):
    """Whether `verify` takes a number for true."""
    return any(c.name == name and c.verdict is Verdict.HOLDS for c in result.checks)


@pytest.fixture
def unwritten(monkeypatch):
    """Small strategies in the files and the checks of large ones."""
    monkeypatch.setattr(writer, "WRITTEN_ENTRIES", 10)
    monkeypatch.setattr(form, "MOST_CELLS", 3)


def one_weight(arrays):
    arrays["dual_u"] = np.ones(1)


def small_weights(arrays):
    arrays["dual_u"] = np.full_like(arrays["dual_u"], 1e-3)


def other_weights(arrays):
    arrays["dual_u"] = np.linspace(0.1, 0.01, arrays["dual_u"].size)


@pytest.mark.parametrize(
    ("name", "options", "change"),
    [
        ("prefix:40", {"p": np.inf, "buffers": 3}, one_weight),
        ("prefix:40", {"p": 4.0, "buffers": 3}, one_weight),
        ("prefix:40", {"p": np.inf, "buffers": 3, "neighbours": "replace"}, one_weight),
        ("all-range:20", {"buffers": 3}, one_weight),
        ("all-range:20", {"buffers": 3}, small_weights),
        ("all-range:20", {"buffers": 3}, other_weights),
    ],
)
def test_dual_weights_of_a_stream_are_of_its_queries(name, options, change, tmp_path, unwritten):
    """At p = inf the norm of weights is their sum: that of one is less than that of forty."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, name, **options)
    assert header["form"] in ("stream", "all ranges")
    best = header["upper"]
    change(arrays)
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)


def test_dual_weights_are_of_steps_that_there_are(tmp_path, unwritten):
    """The norm of longer streams is larger."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "prefix:10", participation="4,every=4")
    assert header["form"] == "epochs"
    best = header["upper"]
    arrays["dual_u"], arrays["dual_w"] = np.full(16, 1 / 16), np.tile(np.eye(4) + 0.5, (4, 1, 1))
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)


def test_a_single_query_has_a_single_dual_weight(tmp_path):
    """A row that is repeated twelve times has a larger norm."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "total:12", participation="4,every=3")
    arrays["dual_u"], arrays["dual_w"] = np.ones(12), np.full((3, 4, 4), 1 / 50)
    best = header["upper"]
    result = fitted(path, header, arrays)
    assert not claims(result, "lower") or header["lower"] <= best, (header["lower"], best)


def unwritten_file(path, strategy, name, neighbours):
    """A file of a strategy that is not written out, its header and its arrays."""
    promise = pml.ApproxDP(1.0, 1e-6, neighbours)
    pml.write(path, pml.mechanism(strategy, name, guarantee=promise, noise="gaussian"))
    return read_archive(path)


def least_rmse(queries, rows, header):
    """Of all reconstructions, in 400 digits; under replace on differences of cells."""
    A, R = pml.workload(queries).to_dense(), np.asarray(rows)
    if header["neighbours"] == "replace":
        A, R = (part[:, 1:] - part[:, :1] for part in (A, R))
    with ctx.workdps(400):
        gram = arb_mat(R.tolist()).transpose() * arb_mat(R.tolist())
        asked = arb_mat(A.tolist())
        inverse = asked * gram.solve(asked.transpose())
        total = float(sum(inverse[i, i] for i in range(len(A))))
    return header["scale"] * np.sqrt(total / len(A))


def is_below(result, header, rows):
    """Whether a file claims less than the least error, and `verify` takes it for true."""
    true = least_rmse(header["workload"], rows, header)
    return claims(result, "rmse") and header["rmse"] < true * (1 - 1e-6)


@pytest.mark.parametrize("least", [1e-4, 1e-7, 1e-9])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_what_an_identity_hardly_measures(neighbours, least, tmp_path, unwritten):
    """Variances are differences there, of which rounding may leave nothing."""
    path = tmp_path / "s.npz"
    strategy = IdentityAndRows("rows", np.ones(8), np.ones((1, 8)))
    header, arrays = unwritten_file(path, strategy, "prefix:8", neighbours)
    few = np.ones((int(neighbours == "add-remove"), 8))
    header["form"], arrays = "rows", {"diagonal": np.ones(8), "rows": few}
    assert fitted(path, header, arrays).holds
    arrays["diagonal"][0] = least
    result = fitted(path, header, arrays)
    rows = np.vstack([np.diag(arrays["diagonal"]), arrays["rows"]])
    assert not is_below(result, header, rows)


@pytest.mark.parametrize("least", [1e-4, 1e-7, 1e-9])
def test_designs_that_hardly_measure(least, tmp_path, unwritten):
    path = tmp_path / "s.npz"
    designs = {0: np.eye(5), 1: np.eye(4)}
    strategy = WeightedTablesStrategy("products", (5, 4), [(0, 1)], [1.0], designs)
    header, arrays = unwritten_file(path, strategy, "prefix:5*prefix:4", "add-remove")
    assert fitted(path, header, arrays).holds
    arrays["design_0"] = np.eye(5) - (1 - least) / 5
    result = fitted(path, header, arrays)
    assert not is_below(result, header, np.kron(arrays["design_0"], np.eye(4)))


@pytest.mark.parametrize("size", [4, 6])
def test_designs_of_other_attributes(size, tmp_path, unwritten):
    path = tmp_path / "s.npz"
    strategy = WeightedTablesStrategy(
        "products", (5, 4), [(0, 1)], [1.0], {0: np.eye(5), 1: np.eye(4)}
    )
    header, arrays = unwritten_file(path, strategy, "prefix:5*prefix:4", "add-remove")
    arrays["design_0"] = np.eye(size)
    assert fitted(path, header, arrays).failures


def test_a_total_that_a_product_does_not_measure(tmp_path, unwritten):
    """Nothing comes off the variance of a query from which the total is not to be had."""
    path = tmp_path / "s.npz"
    strategy = ProductStrategy("p", [Strategy("a", np.eye(3)), Strategy("b", np.eye(4))])
    header, arrays = unwritten_file(path, strategy, "sum:1,2,4*prefix:4", "replace")
    header["form"], arrays = "product", {"factor_0": np.eye(3), "factor_1": np.eye(4)}
    assert fitted(path, header, arrays).holds
    arrays["factor_0"] = np.array([[1.0, 2.0, 4.0]])
    result = fitted(path, header, arrays)
    A = pml.workload(header["workload"]).to_dense()
    R = np.kron(arrays["factor_0"], arrays["factor_1"])
    A, R = A[:, 1:] - A[:, :1], R[:, 1:] - R[:, :1]
    true = header["scale"] * np.linalg.norm(A @ np.linalg.pinv(R)) / 2
    assert claims(result, "rmse")
    assert header["rmse"] >= true * (1 - 1e-6)


@pytest.mark.parametrize("first", [1e3, 1e9, 1e13])
def test_sums_beside_a_total_that_is_hardly_known(first, tmp_path, unwritten):
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "prefix:12", buffers=3, neighbours="replace")
    assert header["form"] == "stream"
    arrays["w"][0] *= first
    result = fitted(path, header, arrays)
    rows = next(written.stream_rows(arrays))
    assert not is_below(result, header, rows)


@pytest.mark.parametrize("change", [-1.0, 3.0])
def test_weights_of_epochs_are_those_of_matrices(change, tmp_path, unwritten):
    """Of weights that are not positive semidefinite X may be no R^T R."""
    path = tmp_path / "s.npz"
    header, arrays = honest(path, "prefix:12", participation="4,every=3")
    assert header["form"] == "epochs"
    arrays["epoch_weights"][0, 0, 1:] *= change
    assert fitted(path, header, arrays).failures
