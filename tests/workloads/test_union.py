"""Unions of workloads, against the stacked matrix, and what is said about their attributes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import BASELINES, baseline
from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    MarginalsWorkload,
    UnionWorkload,
    as_marginals,
    by_attribute,
    parse_workload,
    products_over,
)
from pmldesign.workloads import union as union_module

NAMES = ("histogram", "total", "prefix", "all-range")


@st.composite
def unions(draw):
    """Products over the same attributes, now and then one that is not."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    cells = math.prod(sizes)
    parts = []
    for _ in range(draw(st.integers(2, 4))):
        kind = draw(st.sampled_from(["product"] * 3 + ["marginals", "dense"]))
        if kind == "product":
            names = [f"{draw(st.sampled_from(NAMES))}:{size}" for size in sizes]
            parts.append(parse_workload("*".join(names)))
        elif kind == "marginals":
            parts.append(MarginalsWorkload(sizes, [(), (0,)], [1.0, draw(st.sampled_from([1, 2]))]))
        else:
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            parts.append(DenseWorkload(rng.normal(size=(2, cells))))
    return UnionWorkload(parts)


def stacked(union):
    return np.vstack([part.to_dense() for part in union.parts])


@given(unions(), st.integers(0, 2**32 - 1))
def test_it_is_the_stacked_matrix(union, seed):
    rng = np.random.default_rng(seed)
    A = stacked(union)
    m, n = A.shape
    assert union.shape == (m, n)
    np.testing.assert_array_equal(union.to_dense(), A)
    u, X = rng.uniform(size=m), rng.normal(size=(n, n))
    X = X + X.T
    np.testing.assert_allclose(union.gram(u), A.T @ (u[:, None] * A), atol=1e-10)
    np.testing.assert_allclose(union.row_quadratic(X), np.diag(A @ X @ A.T), atol=1e-10)
    np.testing.assert_allclose(union.column_squares(), (A**2).sum(axis=0), rtol=1e-12)
    assert union.longest_column() >= (A**2).sum(axis=0).max()
    for trailing in ((), (2,)):
        x, y = rng.normal(size=(n, *trailing)), rng.normal(size=(m, *trailing))
        np.testing.assert_allclose(union.matvec(x), A @ x, atol=1e-10)
        np.testing.assert_allclose(union.rmatvec(y), A.T @ y, atol=1e-10)


@given(unions())
def test_merged_rows_and_columns_are_those_of_the_matrix(union):
    merged, dense = union.merge(), DenseWorkload(stacked(union)).merge()
    np.testing.assert_array_equal(merged.row_of, dense.row_of)
    np.testing.assert_array_equal(merged.column_of, dense.column_of)
    np.testing.assert_array_equal(merged.operator.to_dense(), dense.operator.to_dense())


def test_a_large_union_is_not_merged_unless_something_is_zero(monkeypatch):
    monkeypatch.setattr(union_module, "MERGED_ENTRIES", 1)
    monkeypatch.setattr(UnionWorkload, "row_quadratic", None)  # products of matrices: seconds
    whole = parse_workload("prefix:4+prefix:4")
    assert whole.merge().operator is whole
    assert whole.merge().row_of.tolist() == list(range(8))
    hole = UnionWorkload([DenseWorkload([[1.0, 0, 2]]), DenseWorkload([[1.0, 0, 0], [0, 0, 0]])])
    assert hole.merge().operator.shape == (2, 2)
    assert hole.merge().column_of.tolist() == [0, -1, 1]
    assert hole.merge().row_of.tolist() == [0, 1, -1]


@given(unions())
def test_the_products_of_a_union_are_its_rows(union):
    parts = products_over(union, union.sizes)
    if parts is None:
        assert union.sizes == union.shape[1:]
        return
    dense = [part[0] if len(part) == 1 else KroneckerWorkload(part) for part in parts]
    np.testing.assert_array_equal(np.vstack([one.to_dense() for one in dense]), stacked(union))
    assert all(tuple(f.shape[1] for f in part) == union.sizes for part in parts)


@given(unions())
def test_what_is_asked_about_the_attributes_covers_the_cells_once(union):
    asked = by_attribute(union)
    assert math.prod(one.shape[1] for one in asked) == union.shape[1]
    assert tuple(one.shape[1] for one in asked) == union.sizes


def test_attributes_of_unions_keep_each_distinct_factor_once():
    union = parse_workload("prefix:4*total:3+prefix:4*histogram:3+total:4*histogram:3")
    assert isinstance(union, UnionWorkload)
    assert union.sizes == (4, 3)
    assert union.attribute(0).name == "prefix:4+total:4"
    assert union.attribute(1).name == "total:3+histogram:3"
    same = parse_workload("prefix:4*total:3+prefix:4*histogram:3").attribute(0)
    assert same.name == "prefix:4"


def test_attributes_too_large_for_a_matrix_are_refused():
    text = "prefix:65536*total:2+total:65536*histogram:2"
    for ask in (lambda: parse_workload(text).attribute(0), lambda: factorize(text)):
        with pytest.raises(InvalidInputError, match="Gram matrix of prefix:65536 as a matrix"):
            ask()


def test_where_the_attributes_differ_there_is_one():
    union = parse_workload("prefix:2*histogram:6+prefix:3*histogram:4")
    assert union.sizes == (12,)
    assert union.attribute(0) is union
    assert by_attribute(union) == (union,)


@pytest.mark.parametrize("known", BASELINES, ids=lambda known: known.name)
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_every_baseline_is_over_the_cells_of_a_union(known, weight):
    tables = MarginalsWorkload([4, 2], [(0,), (1,)], [weight, 1.0])
    union = UnionWorkload([tables, parse_workload("prefix:4*histogram:2")])
    strategy = baseline(known.name, union)
    assert strategy.cells == 8
    strategy.require_answers(union)


def test_flattened_labelled_and_named():
    union = UnionWorkload([parse_workload("prefix:2+total:2*total:1"), parse_workload("total:2")])
    assert len(union.parts) == 3
    assert union.name == "prefix:2+total:2*total:1+total:2"
    labels = [union.row_label(i) for i in range(4)]
    own = [f"{part.name} {part.row_label(i)}" for part in union.parts for i in range(part.shape[0])]
    assert labels == own
    assert UnionWorkload(union.parts, name="mine").name == "mine"


def test_what_is_no_union():
    with pytest.raises(InvalidInputError, match="at least two workloads, got 1"):
        UnionWorkload([parse_workload("prefix:2")])
    with pytest.raises(InvalidInputError, match="'prefix:4' has 4 cells, 'prefix:5' has 5"):
        parse_workload("prefix:4+prefix:5")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prefix:4+", "empty part; write a union"),
        ("+prefix:4", "empty part"),
        ("prefix:4++prefix:4", "empty part"),
        ("+", "empty part"),
        ("prefix:4+prefix:2*", "empty factor"),
        ("prefix:4+nonsense:4", "unknown workload 'nonsense'"),
        ("prefix:4+prefix", "takes 1 size, got 0"),
        ("total:0", "total"),
        (
            "prefix:256*prefix:256*prefix:256+prefix:256*prefix:256*prefix:256",
            "has 33554432 queries; a union",
        ),
        ("marginals:10^100,ways=2+prefix:10", "cells"),
        ("prefix:10+marginals:10^100,ways=2", "cells"),
        ("prefix:10+marginals:10^400,ways=1", "has 1.00e.400"),
        ("marginals:10^400,ways=1+prefix:10", "1.00e.400 cells"),
    ],
)
def test_what_does_not_parse(text, words):
    with pytest.raises(InvalidInputError, match=words) as refused:
        parse_workload(text)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
@pytest.mark.parametrize("text", ["prefix:5", "prefix:3*histogram:2", "marginals:2,3,ways=1"])
def test_asked_twice_the_norm_grows_by_the_root_of_two(text, p):
    one = parse_workload(text)
    once, twice = factorize(one, p=p), factorize(UnionWorkload([one, one]), p=p)
    factor = 2 ** (1 / p)
    assert twice.certificate.lower <= factor * once.certificate.upper
    assert twice.certificate.upper >= factor * once.certificate.lower
    assert twice.certificate.gap <= 1e-6


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_the_norm_is_that_of_the_stacked_matrix(p):
    union = parse_workload("prefix:4*total:3+total:4*histogram:3+prefix:12")
    dense = factorize(stacked(union), p=p).certificate
    found = factorize(union, p=p).certificate
    assert found.gap <= 1e-6
    assert dense.lower <= found.upper
    assert found.lower <= dense.upper


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("text", "subsets"),
    [
        ("total:4+histogram:4", [(), (0,)]),
        ("histogram:2*total:3+total:2*histogram:3", [(0,), (1,)]),
        ("marginals:2,3,ways=2+total:2*total:3", [(0, 1), ()]),
        ("histogram:2*total:1+histogram:2*histogram:1*total:1", None),
        ("histogram:2*total:3*histogram:2+total:2*histogram:3*total:2", [(0, 2), (1,)]),
    ],
)
def test_totals_and_histograms_are_marginals(text, subsets, p):
    workload = parse_workload(text)
    parts = [parse_workload(part) for part in text.split("+")]
    A = np.vstack([part.to_dense() for part in parts])
    if subsets is None:  # other attributes
        assert isinstance(workload, UnionWorkload)
        return
    assert isinstance(workload, MarginalsWorkload)
    assert list(workload.subsets) == subsets
    assert workload.name == text
    np.testing.assert_array_equal(workload.to_dense(), A)
    found, dense = factorize(workload, p=p).certificate, factorize(A, p=p).certificate
    assert found.lower <= dense.upper
    assert found.upper >= dense.lower
    assert max(found.gap, dense.gap) <= 1e-6


@pytest.mark.parametrize(
    "text",
    ["histogram:4+histogram:4", "prefix:4+total:4", "total:2*total:3+total:6", "haar:2+total:2"],
)
def test_what_is_no_union_of_marginals(text):
    assert as_marginals([parse_workload(part) for part in text.split("+")]) is None


def test_an_attribute_of_one_value_may_be_counted_or_summed():
    # the same query twice counts twice, whatever it is called
    parts = [MarginalsWorkload([3, 1], [(0,)]), MarginalsWorkload([3, 1], [(0, 1)])]
    found = as_marginals(parts)
    assert found is not None
    for p in (2.0, 4.0):
        norm = factorize(found, p=p).certificate
        assert norm.upper == pytest.approx(2 ** (1 / p) * 3 ** (1 / p), rel=1e-5)
