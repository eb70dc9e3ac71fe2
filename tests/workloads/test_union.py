"""Unions of workloads: their norms, their baselines, and what does not parse."""

import math

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import BASELINES, baseline
from pmldesign.workloads import TablesWorkload, UnionWorkload, parse_workload


def test_attributes_too_large_for_a_matrix_are_refused():
    text = "prefix:65536*total:2+total:65536*histogram:2"
    with pytest.raises(InvalidInputError, match="Gram matrix of prefix:65536"):
        factorize(text)


@pytest.mark.parametrize("known", BASELINES, ids=lambda known: known.name)
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_every_baseline_is_over_the_cells_of_a_union(known, weight):
    tables = TablesWorkload([4, 2], [(0,), (1,)], [weight, 1.0])
    union = UnionWorkload([tables, parse_workload("prefix:4*histogram:2")])
    strategy = baseline(known.name, union)
    assert strategy.cells == 8
    strategy.require_answers(union)


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
    dense = factorize(union.to_dense(), p=p).certificate
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
        ("histogram:2*total:3*histogram:2+total:2*histogram:3*total:2", [(0, 2), (1,)]),
    ],
)
def test_totals_and_histograms_are_marginals(text, subsets, p):
    workload = parse_workload(text)
    parts = [parse_workload(part) for part in text.split("+")]
    A = np.vstack([part.to_dense() for part in parts])
    assert workload.counts
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
    workload = parse_workload(text)
    assert workload.repeats or not workload.counts


def test_an_attribute_of_one_value_may_be_counted_or_summed():
    # the same query twice counts twice, whatever it is called
    parts = [TablesWorkload([3, 1], [(0,)]), TablesWorkload([3, 1], [(0, 1)])]
    for p in (2.0, 4.0):
        norm = factorize(UnionWorkload(parts), p=p).certificate
        assert norm.upper == pytest.approx(2 ** (1 / p) * 3 ** (1 / p), rel=1e-5)
