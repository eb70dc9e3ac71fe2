"""Marginals: their order and labels, what is refused, and domains too large to write out."""

import math
import re
from itertools import combinations

import numpy as np
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import (
    TablesWorkload,
    all_marginals,
    as_workload,
    distinct_shape,
    parse_workload,
)


def table(sizes, x, subset):
    """The marginal of a histogram, cell by cell, by its definition."""
    counts = np.zeros([sizes[i] for i in subset])
    for cell, count in zip(np.ndindex(*sizes), x, strict=True):
        counts[tuple(cell[i] for i in subset)] += count
    return counts.ravel()


def test_queries_come_marginal_by_marginal_with_the_last_attribute_fastest():
    sizes, subsets = (2, 3, 2), [(), (2, 0), (1,)]
    x = np.random.default_rng(0).integers(0, 9, 12).astype(float)
    workload = TablesWorkload(sizes, subsets, [1.0, 2.0, 0.5])
    assert workload.subsets == ((), (0, 2), (1,))
    assert [count for _, count in workload.part_rows] == [1, 4, 3]
    parts = [table(sizes, x, S) * c for S, c in zip(workload.subsets, (1, 2, 0.5), strict=True)]
    np.testing.assert_array_equal(workload.matvec(x), np.concatenate(parts))


def test_labels_name_attributes_and_values():
    workload = TablesWorkload([2, 3, 4], [(), (0, 2)])
    assert workload.row_label(0) == "row 0 (total)"
    # after the total: row 1 + 4 a + b counts the cells with value a of attribute 0, b of 2
    assert workload.row_label(1 + 4 + 3) == "row 8 (attribute 0 is 1; attribute 2 is 3)"
    last = parse_workload("marginals:10^100,ways=3")
    assert last.row_label(161_699_999) == (
        "row 161699999 (attribute 97 is 9; attribute 98 is 9; attribute 99 is 9)"
    )


@pytest.mark.parametrize("row", range(8))
def test_each_label_says_which_cells_its_row_sums(row):
    workload = TablesWorkload([2, 1, 4], [(0, 1, 2)])
    cell = np.argwhere(workload.to_dense()[row].reshape(2, 1, 4))[0]
    values = "; ".join(f"attribute {i} is {value}" for i, value in enumerate(cell))
    assert workload.row_label(row) == f"row {row} ({values})"


def test_names_of_all_marginals():
    two = all_marginals(2, 3, 4, ways=2)
    assert (two.name, two.subsets) == ("marginals:2,3,4,ways=2", ((0, 1), (0, 2), (1, 2)))
    assert two.shape == (6 + 8 + 12, 24)
    up_to = all_marginals(2, 3, 4, upto=2)
    assert up_to.subsets == ((), (0,), (1,), (2,), *two.subsets)
    assert up_to.name == "marginals:2,3,4,upto=2"
    assert all_marginals(5, ways=0).subsets == ((),)


def test_a_domain_of_any_size_has_a_shape_and_is_never_written_out():
    workload = parse_workload("marginals:10^100,ways=2")
    assert workload.shape == (100 * math.comb(100, 2), 10**100)
    assert distinct_shape(workload) == workload.shape
    assert workload.subsets == tuple(combinations(range(100), 2))
    ones = parse_workload("marginals:10^100,ways=1")
    for write in (
        ones.to_dense,
        ones.merge,
        lambda: ones.gram(np.ones(1000)),
        lambda: ones.rmatvec(np.ones(1000)),
    ):
        with pytest.raises(InvalidInputError, match=r"1.00e\+100 .*that are ever written"):
            write()


def test_tables_of_records_are_the_answers_on_their_histogram():
    rng = np.random.default_rng(1)
    sizes, subsets, weights = (
        (3, 1, 4, 2),
        [(), (2,), (0, 1, 3), (0, 1, 2, 3)],
        [1.0, 2.0, 0.5, 3.0],
    )
    workload = TablesWorkload(sizes, subsets, weights)
    records = np.stack([rng.integers(0, size, 50) for size in sizes], axis=1)
    histogram = np.zeros(sizes)
    np.add.at(histogram, tuple(records.T), 1)
    answers = workload.split(workload.matvec(histogram.ravel()))
    for table, answer in zip(workload.of_records(records), answers, strict=True):
        np.testing.assert_array_equal(table, answer)
    assert next(workload.of_records(np.zeros((0, 4), dtype=int))).tolist() == [0.0]


def test_records_are_counted_for_queries_of_any_form():
    tables = as_workload("marginals:prefix4,3,window5/2,upto=2")
    records = np.random.default_rng(0).integers(0, [4, 3, 5], size=(50, 3))
    x = np.bincount(np.ravel_multi_index(records.T, (4, 3, 5)), minlength=60)
    np.testing.assert_allclose(np.concatenate([*tables.of_records(records)]), tables.matvec(x))
    huge = as_workload("marginals:prefix100^60,ways=1")
    first, *_ = huge.of_records(np.full((2, 60), 98))
    np.testing.assert_array_equal(first, np.where(np.arange(100) >= 98, 2, 0))


def test_names_of_queries_on_attributes():
    tables = as_workload("marginals: prefix5 , 3^2, window4/2 ,ways=2")
    assert tables.name == "marginals:prefix5,3^2,window4/2,ways=2"
    asked = [tables.ways[(i,)][0].name for i in range(4)]
    assert asked == ["prefix:5", "histogram:3", "histogram:3", "window:4,2"]
    assert as_workload("marginals:histogram5,3,ways=2").counts
    adult = as_workload(
        "marginals:prefix85,9,prefix100,16^2,7,15,6,5,2,prefix100^2,prefix99,42,upto=3"
    )
    assert (len(adult.terms), adult.counts) == (470, False)
    assert adult.shape[1] > 10**18


@pytest.mark.parametrize("attribute", ["random-range5/4/seed=3", "decay6/0.9", "window4/2"])
def test_attributes_with_several_arguments_are_read_again(attribute):
    tables = as_workload(f"marginals:{attribute}^2,2,ways=1")
    assert as_workload(tables.name).name == tables.name
    alone = as_workload(re.sub(r"(\D)(\d)", r"\1:\2", attribute, count=1).replace("/", ","))
    np.testing.assert_array_equal(tables.ways[(1,)][0].to_dense(), alone.to_dense())


def test_tables_of_records_in_a_large_domain():
    records = np.full((5, 100), 9)
    tables = list(parse_workload("marginals:10^100,ways=1").of_records(records))
    assert [table.tolist() for table in tables] == [[0.0] * 9 + [5.0]] * 100


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (np.zeros((4, 2)), r"whole numbers of shape \(N, 2\).* got float64 of shape \(4, 2\)"),
        (np.zeros((4, 3), dtype=int), r"got int64 of shape \(4, 3\)"),
        (np.zeros(2, dtype=int), r"got int64 of shape \(2,\)"),
        (np.array([[0, 0], [1, 3]]), "attribute 1 has the values 0 to 2, record 1 has 3"),
        (np.array([[-1, 0]]), "attribute 0 has the values 0 to 1, record 0 has -1"),
    ],
)
def test_records_that_do_not_fit(records, words):
    with pytest.raises(InvalidInputError, match=words):
        list(TablesWorkload([2, 3], [(0,)]).of_records(records))


def test_a_table_too_large_to_count_is_refused():
    workload = TablesWorkload([2**20, 2**20], [(0, 1)])
    with pytest.raises(
        InvalidInputError, match=r"table of attributes \(0, 1\) .* ever written out"
    ):
        list(workload.of_records(np.zeros((1, 2), dtype=int)))


def test_attributes_with_one_value_tell_nothing_apart():
    workload = TablesWorkload([3, 1, 2], [(0,), (0, 1), (1,), ()])
    assert distinct_shape(workload) == (4, 3)
    assert workload.merge().operator.shape == (4, 3)


def test_as_workload_keeps_it():
    workload = TablesWorkload([2], [(0,)])
    assert as_workload(workload) is workload
    assert workload.name == "tables"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], [()]), "at least one attribute"),
        (([2], []), "from 1 to 1048576 tables, got 0"),
        (([2, 0], [(0,)]), "size of attribute 1 must be a whole number from 1 .* got 0"),
        (([2.5], [(0,)]), "got 2.5"),
        (([True], [(0,)]), "got True"),
        (([2**53 + 1], [(0,)]), "size of attribute 0"),
        (([2, 2], [(0,), (2,)]), r"table 1 has the attributes \(2,\); .* from 0 to 1"),
        (([2, 2], [(-1,)]), r"table 0 has the attributes \(-1,\)"),
        (([2, 2], [("a",)]), "attributes .*'a'"),
        (([2, 2], [(0, 0)]), "table 0 names an attribute twice"),
        (([2, 2], [(0, 1), (), (1, 0)]), r"tables 0 and 2 are the same, \(0, 1\)"),
        (([2], [(0,), ()], [1.0]), r"one weight for each of the 2 tables, got shape \(1,\)"),
        (([2], [(0,)], [0.0]), "weight of table 0 must be positive and finite, got 0.0"),
        (([2], [(0,), ()], [1.0, np.nan]), "weight of table 1 .* got nan"),
        (([2], [(0,)], [np.inf]), "got inf"),
        (([10] * 1001, [(0,)]), r"over 10\^1000 cells"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        TablesWorkload(*arguments)
