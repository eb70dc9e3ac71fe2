"""Tables whose attributes have queries of their own, against the matrix written out by np.kron."""

import re
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import (
    MarginalsWorkload,
    TablesWorkload,
    as_tables,
    as_workload,
    by_attribute,
    products_over,
)

KINDS = ["prefix:{}", "all-range:{}", "histogram:{}", "window:{},1"]


@st.composite
def random_tables(draw):
    texts = draw(
        st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 4)), min_size=1, max_size=3)
    )
    ways = [
        [as_workload(kind.format(size)), as_workload(f"all-range:{size}")] for kind, size in texts
    ]
    tables = [
        dict(zip(s, kinds, strict=True))
        for k in range(len(texts) + 1)
        for s in combinations(range(len(texts)), k)
        for kinds in product((0, 1), repeat=k)
    ]
    chosen = draw(st.lists(st.sampled_from(range(len(tables))), min_size=1, unique=True))
    weights = draw(st.lists(st.floats(0.1, 3), min_size=len(chosen), max_size=len(chosen)))
    return TablesWorkload(ways, [tables[number] for number in chosen], weights)


def written_out(tables):
    rows = []
    for subset, kinds, weight in zip(tables.subsets, tables.kinds, tables.weights, strict=True):
        kind = dict(zip(subset, kinds, strict=True))
        factors = [
            ways[kind[i]].to_dense() if i in kind else np.ones((1, tables.sizes[i]))
            for i, ways in enumerate(tables.ways)
        ]
        rows.append(weight * reduce(np.kron, factors))
    return np.vstack(rows)


@given(random_tables(), st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_all_operations_are_those_of_the_matrix(tables, random):
    matrix = written_out(tables)
    m, n = tables.shape
    rng = np.random.default_rng(random.randrange(2**32))
    assert matrix.shape == (m, n)
    np.testing.assert_allclose(tables.to_dense(), matrix)
    np.testing.assert_allclose(tables.row_sizes(), matrix.max(axis=1))
    u, x, y = rng.random(m), rng.normal(size=(n, 2)), rng.normal(size=m)
    np.testing.assert_allclose(tables.gram(u), matrix.T @ (u[:, None] * matrix), atol=1e-12)
    np.testing.assert_allclose(
        tables.row_quadratic(x @ x.T), ((matrix @ x) ** 2).sum(axis=1), atol=1e-11
    )
    np.testing.assert_allclose(tables.matvec(x), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(tables.rmatvec(y), matrix.T @ y, atol=1e-12)
    squares = (matrix**2).sum(axis=0)
    np.testing.assert_allclose(tables.column_squares(), squares)
    assert tables.longest_column() >= squares.max()
    distances = squares[:, None] + squares - 2 * matrix.T @ matrix
    assert tables.longest_difference() >= distances.max() * (1 - 1e-12)


def test_ways_that_do_not_fit_are_refused():
    both = [as_workload("prefix:4"), 4]
    tables = TablesWorkload([both, 3], [{0: 1}, {0: 0, 1: 0}, (0,)])
    assert tables.row_label(3) == "row 3 (attribute 0 row 3 (cell 3))"
    assert [queries.name for queries in tables.queries_of(1)] == ["prefix:4", "histogram:3"]
    with pytest.raises(InvalidInputError, match="tables 0 and 2 are the same"):
        TablesWorkload([both], [(0,), {0: 1}, {0: 0}])
    with pytest.raises(InvalidInputError, match="asks attribute 0 in way 2"):
        TablesWorkload([both], [{0: 2}])
    with pytest.raises(InvalidInputError, match="are about \\[4, 5\\] values"):
        TablesWorkload([[as_workload("prefix:4"), 5]], [{0: 1}])


def test_records_are_counted_without_a_histogram():
    tables = as_workload("marginals:prefix4,3,window5/2,upto=2")
    records = np.random.default_rng(0).integers(0, [4, 3, 5], size=(50, 3))
    x = np.bincount(np.ravel_multi_index(records.T, (4, 3, 5)), minlength=60)
    np.testing.assert_allclose(np.concatenate(list(tables.tables(records))), tables.matvec(x))
    huge = as_workload("marginals:prefix100^60,ways=1")
    first, *_ = huge.tables(np.full((2, 60), 98))
    np.testing.assert_array_equal(first, np.where(np.arange(100) >= 98, 2, 0))


def test_names():
    tables = as_workload("marginals: prefix5 , 3^2, window4/2 ,ways=2")
    assert tables.name == "marginals:prefix5,3^2,window4/2,ways=2"
    assert [queries.name for queries in tables.attributes] == [
        "prefix:5",
        "histogram:3",
        "histogram:3",
        "window:4,2",
    ]
    assert isinstance(as_workload("marginals:histogram5,3,ways=2"), MarginalsWorkload)
    adult = as_workload(
        "marginals:prefix85,9,prefix100,16^2,7,15,6,5,2,prefix100^2,prefix99,42,upto=3"
    )
    assert len(adult.subsets) == 470
    assert adult.shape[1] > 10**18


@pytest.mark.parametrize("attribute", ["random-range5/4/seed=3", "decay6/0.9", "window4/2"])
def test_attributes_with_several_arguments_are_read_again(attribute):
    tables = as_workload(f"marginals:{attribute}^2,2,ways=1")
    assert as_workload(tables.name).name == tables.name
    alone = as_workload(re.sub(r"(\D)(\d)", r"\1:\2", attribute, count=1).replace("/", ","))
    np.testing.assert_array_equal(tables.attributes[1].to_dense(), alone.to_dense())


def test_an_explicit_union_is_the_same_tables():
    text = "prefix:300*prefix:400*total:500+total:300*prefix:400*histogram:500"
    union = as_workload(text)
    assert isinstance(union, TablesWorkload)
    assert union.subsets == ((0, 1), (1, 2))
    small = as_workload("prefix:3*total:4+total:3*prefix:4+prefix:3*prefix:4")
    tables = as_tables(small.parts)
    np.testing.assert_array_equal(tables.to_dense(), small.to_dense())
    several = as_workload("prefix:3*total:4+histogram:3*prefix:4")
    tables = as_tables(several.parts)
    assert tables.kinds == ((0,), (1, 0))
    np.testing.assert_array_equal(tables.to_dense(), several.to_dense())
    assert as_tables([*several.parts, several.parts[0]]) is None
    assert as_tables(as_workload("prefix:3*total:4+prefix:3*total:4").parts) is None


def test_tables_are_a_union_of_products():
    tables = as_workload("marginals:prefix3,4,ways=1")
    parts = products_over(tables, (3, 4))
    assert [[one.name for one in part] for part in parts] == [
        ["prefix:3", "total:4"],
        ["total:3", "histogram:4"],
    ]
    assert [one.name for one in by_attribute(tables)] == ["prefix:3", "histogram:4"]
    ((weighted, _),) = products_over(TablesWorkload([3, 4], [(0,)], [2.0]), (3, 4))
    np.testing.assert_array_equal(weighted.to_dense(), 2 * np.eye(3))


def test_row_labels():
    tables = as_workload("marginals:prefix3,2,upto=2")
    assert tables.row_label(0) == "row 0 (total)"
    assert tables.row_label(8) == (
        "row 8 (attribute 0 row 1 (cells 0 to 1); attribute 1 row 0 (cell 0))"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("marginals:prefx85,9,ways=1", "an attribute such as prefix85 takes a name of"),
        ("marginals:marginals3,9,ways=1", "an attribute such as prefix85"),
        ("marginals:prefix,9,ways=1", "an attribute such as prefix85"),
        ("marginals:window5,9,ways=1", "takes 2 sizes, got 1"),
        ("marginals:random-range5/4/sed=3,9", "unknown option 'sed'"),
        ("marginals:prefix5^0,9,ways=1", "repeated 1 to"),
        ("marginals:prefix5,9999999,ways=1", "attribute 1 has 9999999 values"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        as_workload(text)


def test_queries_of_an_attribute_that_are_zero_are_refused():
    with pytest.raises(InvalidInputError, match="queries of attribute 0 are all zero"):
        TablesWorkload([as_workload(np.zeros((2, 3))), 2], [(0, 1)])
