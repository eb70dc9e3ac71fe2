"""Files of strategies with structure: what they are made of, there and back, and damaged ones."""

import functools
import json

import numpy as np
import pytest

from pmldesign.designs import dispatch as solving
from pmldesign.designs import factorize
from pmldesign.errors import FileError, InvalidInputError
from pmldesign.files import read_strategy, strategies, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, Neighbours
from pmldesign.workloads import (
    KroneckerWorkload,
    parse_workload,
)

UNION = "prefix:4*histogram:3+total:4*histogram:3+prefix:4*total:3+histogram:4*prefix:3"
BLOCKS = "prefix:4*histogram:3+histogram:4*total:3"


@pytest.fixture
def structured(monkeypatch):
    """Every union of products is too large for one matrix."""
    monkeypatch.setattr(solving, "DENSE_CELLS", 1)
    monkeypatch.setattr("pmldesign.designs.structured.LOOSE", 0.0)


@pytest.fixture
def as_parts(monkeypatch):
    """Products are written as their factors, however small."""
    monkeypatch.setattr(strategies, "WRITTEN_ENTRIES", 10)


WRITTEN = [
    "prefix:4*prefix:3*histogram:2",
    UNION,
    BLOCKS,
    "prefix:4*total:3+histogram:4*total:3",
    "marginals:2,3,2,upto=2",
    "marginals:3,upto=0",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_round_trip(structured, as_parts, tmp_path, text):
    made, path = factorize(text, p=4), tmp_path / "s.npz"
    guarantee = ApproxDP(1.0, 1e-6)
    noisy = mechanism(made.strategy, made.workload, guarantee=guarantee, noise="gaussian", p=4)
    write_strategy(path, made, mechanism=noisy)
    again = read_strategy(path)
    assert again.name == "s.npz"
    assert type(again) is type(made.strategy)
    np.testing.assert_allclose(again.matrix, made.strategy.matrix, rtol=1e-14, atol=0)
    for relation in Neighbours:
        for norm in ("l1", "l2"):
            assert again.sensitivity_under(relation, norm) == pytest.approx(
                made.strategy.sensitivity_under(relation, norm), rel=1e-12
            )
    np.testing.assert_allclose(
        again.variances(made.workload), made.strategy.variances(made.workload), rtol=1e-9
    )
    with np.load(path, allow_pickle=False) as arrays:
        header = json.loads(str(arrays["header"]))
        assert "strategy" not in arrays
        assert ("weights" in arrays) == (text == UNION)
        if len(made.dual_factors) == 1:
            np.testing.assert_array_equal(arrays["dual_u"], made.dual_u)
        else:
            parts = [arrays[f"dual_u_{i}"] for i in range(len(made.dual_factors))]
            np.testing.assert_allclose(functools.reduce(np.kron, parts), made.dual_u, rtol=1e-12)
    assert header["scale"] == noisy.scale
    assert (header["lower"], header["upper"]) == (made.certificate.lower, made.certificate.upper)


def test_a_product_with_structured_factors_is_written_too(structured, as_parts, tmp_path):
    inner = parse_workload("prefix:4*total:3+total:4*histogram:3")
    factors = [inner, parse_workload("marginals:2,3,ways=1")]
    made = factorize(KroneckerWorkload(factors))
    write_strategy(tmp_path / "s.npz", made)
    again = read_strategy(tmp_path / "s.npz")
    np.testing.assert_allclose(
        again.variances(made.workload), made.strategy.variances(made.workload), rtol=1e-8
    )


def test_a_small_product_is_written_out(tmp_path):
    made = factorize("prefix:4*prefix:3")
    write_strategy(tmp_path / "s.npz", made)
    with np.load(tmp_path / "s.npz") as arrays:
        np.testing.assert_array_equal(arrays["strategy"], made.strategy.matrix)
        np.testing.assert_allclose(
            arrays["reconstruction"] @ arrays["strategy"], made.workload.to_dense(), atol=1e-12
        )


def damaged(kind):
    """The arrays of a file with one thing wrong."""
    product = {"factor_0": np.eye(2), "factor_1": np.eye(3), "weights": np.ones(6)}
    tables = {
        "sizes": np.array([2, 3]),
        "residuals": np.array([[-1, -1], [0, -1], [0, 1]]),
        "precisions": np.ones(3),
    }
    blocks = {
        "free": np.array(0),
        "combinations": np.array([0, -1]),
        "basis_0": np.eye(2),
        "block_0": np.eye(3),
    }
    wrong = {
        "a free attribute out of range": blocks | {"free": np.array(2)},
        "no free attribute": {k: v for k, v in blocks.items() if k != "free"},
        "a combination without its block": blocks | {"combinations": np.array([0, 1])},
        "combinations of another shape": blocks | {"combinations": np.array([0, 0, 0])},
        "combinations that are no whole numbers": blocks | {"combinations": np.array([0.0, 0.5])},
        "no combinations": {k: v for k, v in blocks.items() if k != "combinations"},
        "a basis that is not orthonormal": blocks | {"basis_0": np.ones((2, 2))},
        "no basis": {k: v for k, v in blocks.items() if k != "basis_0"},
        "a block that is not used": blocks | {"block_1": np.eye(3)},
        "a block of zeros": blocks | {"block_0": np.zeros((3, 3))},
        "a block that is not finite": blocks | {"block_0": np.full((3, 3), np.nan)},
        "weights of another shape": product | {"weights": np.ones(5)},
        "weights of two dimensions": product | {"weights": np.ones((6, 1))},
        "a weight of zero": product | {"weights": np.zeros(6)},
        "a weight that is not finite": product | {"weights": np.full(6, np.nan)},
        "weights that are text": product | {"weights": np.array(["a"] * 6)},
        "weights that are complex": product | {"weights": np.full(6, 1 + 1j)},
        "a missing factor": {k: v for k, v in product.items() if k != "factor_1"},
        "a missing first factor": {k: v for k, v in product.items() if k != "factor_0"},
        "a factor of zeros": product | {"factor_1": np.zeros((3, 3))},
        "a factor of one dimension": product | {"factor_1": np.ones(3)},
        "a dependent factor": product | {"factor_1": np.ones((3, 3))},
        "a factor that is not finite": product | {"factor_0": np.full((2, 2), np.inf)},
        "a residual out of range": tables | {"residuals": np.array([[5, -1], [0, -1], [0, 1]])},
        "a residual twice": tables | {"residuals": np.array([[0, -1], [0, -1], [0, 1]])},
        "an attribute twice": tables | {"residuals": np.array([[0, 0], [0, -1], [0, 1]])},
        "too few precisions": tables | {"precisions": np.ones(2)},
        "a negative precision": tables | {"precisions": np.array([1.0, -1, 1])},
        "precisions that are complex": tables | {"precisions": np.ones(3) + 1j},
        "a size of zero": tables | {"sizes": np.array([2, 0])},
        "a size of one": tables | {"sizes": np.array([2, 1])},
        "sizes that are no whole numbers": tables | {"sizes": np.array([2.5, 3])},
        "residuals that are no whole numbers": tables
        | {"residuals": np.array([[-1, -1], [0.5, -1], [0, 1]])},
        "residuals of one dimension": tables | {"residuals": np.array([0, 1, 1])},
        "no sizes": {k: v for k, v in tables.items() if k != "sizes"},
        "no precisions": {k: v for k, v in tables.items() if k != "precisions"},
    }
    return wrong if kind is None else wrong[kind]


@pytest.mark.parametrize("kind", list(damaged(None)))
def test_damaged_files(tmp_path, kind):
    arrays = damaged(kind)
    form = next(
        name
        for name, key in (
            ("blocks", "block_0"),
            ("coordinates", "residuals"),
            ("product", "weights"),
        )
        if key in arrays
    )
    header = np.array(json.dumps({"format": 1, "form": form}))
    np.savez(tmp_path / "s.npz", header=header, **arrays)
    with pytest.raises((FileError, InvalidInputError), match=r"s\.npz|weight|residual|attribute"):
        read_strategy(tmp_path / "s.npz")


@pytest.mark.parametrize("options", [{"buffers": 4}, {"participation": "4,every=4"}])
def test_errors_are_those_of_the_matrix_in_whatever_order_poles_are(options, tmp_path):
    path, workload = tmp_path / "s.npz", parse_workload("prefix:16")
    write_strategy(path, factorize(workload, rel_gap=1e-3, **options))
    with np.load(path) as file:
        arrays = {**file}
    arrays["poles"] = np.roll(arrays["poles"], 1)  # another strategy, which may be too
    np.savez(path, **arrays)
    strategy = read_strategy(path)
    answers = np.tril(np.ones((16, 16))) @ np.linalg.inv(strategy.matrix)
    assert strategy.variances(workload) == pytest.approx((answers**2).sum(axis=1), rel=1e-9)
