"""Named workloads against their definitions."""

import math
from itertools import combinations

import numpy as np
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import GROUP_STARTS, TermsWorkload, census_p12, parse_workload
from pmldesign.workloads import queries as named


def test_histogram_is_the_identity():
    np.testing.assert_array_equal(parse_workload("histogram:5").to_dense(), np.eye(5))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_prefix_is_lower_triangular_with_its_closed_form_gram(n):
    workload = parse_workload(f"prefix:{n}")
    np.testing.assert_array_equal(workload.to_dense(), np.tri(n))
    # (A^T A)_jk counts the rows t >= max(j, k)
    j = np.arange(n)
    np.testing.assert_array_equal(workload.gram(np.ones(n)), n - np.maximum.outer(j, j))


def test_all_range_has_every_interval_once():
    workload = parse_workload("all-range:6")
    found = list(zip(workload.starts.tolist(), workload.stops.tolist(), strict=True))
    assert found == list(combinations(range(7), 2))


def test_haar_8_is_the_matrix_of_the_paper():
    h = np.array([[1, -1]])
    ones = np.ones
    W = np.vstack(
        [
            ones((1, 8)),
            np.kron(h, ones((1, 4))),
            np.kron(np.eye(2), np.kron(h, ones((1, 2)))),
            np.kron(np.eye(4), h),
        ]
    )
    np.testing.assert_array_equal(parse_workload("haar:8").to_dense(), W)


@pytest.mark.parametrize("n", [1, 2, 64])
def test_haar_rows_are_orthogonal(n):
    A = parse_workload(f"haar:{n}").to_dense()
    # squared lengths: N, then N / 2^k for each of the 2^k rows of level k
    lengths = [n] + [n >> k for k in range(n.bit_length() - 1) for _ in range(2**k)]
    np.testing.assert_array_equal(A @ A.T, np.diag(lengths))


def test_haar_labels_say_what_the_rows_compute():
    workload = parse_workload("haar:8")
    A = workload.to_dense()
    assert workload.row_label(0) == "row 0 (cells 0 to 7)"
    assert workload.row_label(3) == "row 3 (cells 4 to 5 minus cells 6 to 7)"
    assert A[3].tolist() == [0, 0, 0, 0, 1, 1, -1, -1]
    assert workload.row_label(7) == "row 7 (cell 6 minus cell 7)"
    assert A[7].tolist() == [0, 0, 0, 0, 0, 0, 1, -1]


@pytest.mark.parametrize(("d", "w"), [(1, 1), (4, 2), (6, 3), (5, 5)])
def test_parity_rows_are_orthogonal_products_of_signs(d, w):
    workload = parse_workload(f"parity:{d},{w}")
    A = workload.to_dense()
    assert A.shape == (math.comb(d, w), 2**d)
    np.testing.assert_array_equal(A @ A.T, 2**d * np.eye(len(A)))
    for i, chosen in enumerate(combinations(range(d), w)):
        for cell in range(2**d):
            bits = [int(bit) for bit in f"{cell:0{d}b}"]
            assert A[i, cell] == (-1) ** sum(bits[s] for s in chosen)
        assert workload.row_label(i) == f"row {i} (parity of bits {', '.join(map(str, chosen))})"


def test_parity_of_all_bits_is_a_product_of_single_ones():
    single = parse_workload("parity:1,1*parity:1,1*parity:1,1").to_dense()
    np.testing.assert_array_equal(parse_workload("parity:3,3").to_dense(), single)


def test_window_sums_the_last_cells():
    A = parse_workload("window:9,4").to_dense()
    x = np.arange(9.0) ** 2
    assert (A @ x).tolist() == [sum(x[max(0, t - 3) : t + 1]) for t in range(9)]
    np.testing.assert_array_equal(parse_workload("window:5,5").to_dense(), np.tri(5))
    np.testing.assert_array_equal(parse_workload("window:5,1").to_dense(), np.eye(5))


def test_random_ranges_repeat_with_their_seed_and_differ_without():
    def text(seed):
        workload = named.random_range(50, 20, seed=seed)
        return workload.starts.tolist(), workload.stops.tolist()

    assert text(3) == text(3) != text(4)
    default = parse_workload("random-range:50,20")
    assert (default.starts.tolist(), default.stops.tolist()) == text(0)


def test_random_ranges_have_the_distribution_of_the_paper():
    # P(first = l, last = r) = 1 / (N (N - l)) for l <= r; a frequency is within 5 sigma.
    m, n = 200_000, 6
    workload = named.random_range(m, n, seed=11)
    counts = np.zeros((n, n))
    np.add.at(counts, (workload.starts, workload.stops - 1), 1)
    p = np.triu(np.repeat(1 / (n * (n - np.arange(n))), n).reshape(n, n))
    assert np.all(np.abs(counts - m * p) <= 5 * np.sqrt(m * p * (1 - p)))


def test_census_rows_add_up():
    workload = census_p12()
    A = workload.to_dense()
    assert A.shape == (49, 232)
    assert A[0].sum() == 232
    np.testing.assert_array_equal(A[1] + A[25], A[0])
    for sex, total in ((0, 1), (1, 25)):
        np.testing.assert_array_equal(A[total + 1 : total + 24].sum(axis=0), A[total])
        assert A[total, sex * 116 : (sex + 1) * 116].all()
        assert A[total].sum() == 116


def test_census_merges_to_one_cell_for_each_sex_and_group():
    assert census_p12().merge().operator.shape == (49, 46)


def test_census_tables_with_states_ask_each_state_and_all():
    plus, tables = parse_workload("census-sf1plus"), parse_workload("census-sf1")
    assert plus.shape == (4151 * 52, tables.shape[1] * 51)
    x = np.zeros((tables.shape[1], 51))
    cells = np.random.default_rng(0).integers(0, tables.shape[1], 60)
    np.add.at(x, (cells, np.arange(60) % 51), 1)
    answers = plus.matvec(x.ravel()).reshape(4151, 52)
    expected = np.column_stack([x.sum(axis=1), x])
    np.testing.assert_array_equal(answers, tables.matvec(expected))


def test_census_tables_of_persons_count_persons():
    """Each table by itself: its counts of one partition add up to those of whom it is about."""
    workload = parse_workload("census-sf1")
    assert workload.shape == (4151, 2 * 2 * 64 * 115)
    parts = {}
    for term in workload.terms:
        part = TermsWorkload(workload.domain, [term], name=term.name)
        parts.setdefault(term.name, []).append(part)
    assert len(workload.terms) == 33
    assert len(parts) == 16
    everyone = np.ones(workload.shape[1])
    cells = np.arange(workload.shape[1])
    rest, age = np.divmod(cells, 115)
    races, hispanic = rest % 64, rest // 64 % 2
    for table, persons in {
        "P3": everyone,
        "P9": everyone,
        "P11": (age >= 18),
        "P12H": (hispanic == 0),
        "P12I": (hispanic == 1) & (races == 1),
        "PCT12": everyone,
        "PCT12I-O": (hispanic == 1),
    }.items():
        np.testing.assert_array_equal(
            parts[table][0].rmatvec(np.ones(parts[table][0].shape[0])), persons
        )
    by_set = next(part for part in parts["P8"] if part.shape[0] == 70)
    assert by_set.rmatvec(np.ones(70)).max() == 3  # the set, how many races, two or more


def test_census_labels_and_ages():
    workload = census_p12()
    labels = [workload.row_label(row) for row in range(49)]
    assert labels[:5] == [
        "total",
        "male",
        "male, under 5 years",
        "male, 5 to 9 years",
        "male, 10 to 14 years",
    ]
    assert labels[25:27] == ["female", "female, under 5 years"]
    ages = {label: workload.to_dense()[row].nonzero()[0] for row, label in enumerate(labels)}
    assert ages["male, 20 years"].tolist() == [20]
    assert ages["male, 60 and 61 years"].tolist() == [60, 61]
    assert ages["female, 22 to 24 years"].tolist() == [116 + 22, 116 + 23, 116 + 24]
    assert ages["female, 85 years and over"].tolist() == list(range(116 + 85, 232))
    assert len(GROUP_STARTS) == 23
    assert len(set(labels)) == 49


def test_ranges_label_their_cells():
    assert parse_workload("prefix:5").row_label(3) == "row 3 (cells 0 to 3)"
    assert parse_workload("histogram:5").row_label(3) == "row 3 (cell 3)"


@pytest.mark.parametrize("value", [2.0, "2", True, None])
def test_sizes_are_whole_numbers(value):
    with pytest.raises(InvalidInputError, match=r"cells N of prefix:N must be a whole number"):
        named.prefix(value)


def test_numpy_integers_are_whole_numbers():
    assert named.prefix(np.int32(3)).name == "prefix:3"
