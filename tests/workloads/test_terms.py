"""Workloads over attributes, against the matrix that their definition gives cell by cell."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import (
    CountsWorkload,
    DenseWorkload,
    KroneckerWorkload,
    RangeWorkload,
    TablesWorkload,
    TermsWorkload,
    UnionWorkload,
    as_terms,
    as_workload,
    attribute_queries,
    common_sizes,
    crossed_over,
    different_cells,
    distinct_shape,
    on_common_attributes,
    parse_workload,
    terms,
    terms_over,
    weighted,
)
from pmldesign_solvers.operators import DenseOperator

PREFIX = parse_workload("prefix:4")


def matrix_of(workload):
    """Entry by entry: the product of what each group asks of the cell that it has there."""
    if not isinstance(workload, TermsWorkload):
        return workload.to_dense()
    rows = []
    cells = np.array([*product(*map(range, workload.domain))])
    for term in workload.terms:
        columns = []
        for group, queries in term.queries.items():
            places = np.zeros(len(cells), dtype=int)
            for i in group:
                places = places * workload.domain[i] + cells[:, i]
            columns.append(matrix_of(queries)[:, places])
        rows += [
            term.weight * np.prod([np.ones(len(cells)), *part], axis=0)
            for part in product(*columns)
        ]
    return np.array(rows)


@st.composite
def factors(draw, cells):
    """Queries on so many cells: counts, totals, ranges, matrices with zeros and equal columns."""
    kind = draw(st.sampled_from(["histogram", "total", "prefix", "all-range", "ranges", "matrix"]))
    if kind == "ranges":
        first = draw(st.lists(st.integers(0, cells), min_size=1, max_size=3))
        return RangeWorkload(first, [draw(st.integers(s, cells)) for s in first], cells)
    if kind == "matrix":
        entry = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, 0.3])
        rows = st.lists(entry, min_size=cells, max_size=cells)
        return DenseWorkload(draw(st.lists(rows, min_size=1, max_size=3)))
    plain = parse_workload(f"{kind}:{cells}")
    return weighted(plain, 0.5) if draw(st.integers(0, 5)) == 0 else plain


@st.composite
def workloads(draw):
    """By every constructor; sizes of 1, overlapping groups, factors with terms of their own."""
    sizes = draw(
        st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(
            lambda listed: math.prod(listed) <= 40
        )
    )
    members = st.sets(st.integers(0, len(sizes) - 1)).map(lambda chosen: tuple(sorted(chosen)))
    subsets = draw(st.lists(members, min_size=1, max_size=3, unique=True))
    weights = draw(
        st.lists(st.sampled_from([1.0, 0.5, 3.0]), min_size=len(subsets), max_size=len(subsets))
    )
    parts = [_product([draw(factors(n)) for n in sizes]) for _ in range(2)]
    kind = draw(
        st.sampled_from(["product", "union", "marginals", "tables", "joined", "mixed", "nested"])
    )
    if kind == "marginals":
        return TablesWorkload(sizes, subsets, weights)
    if kind == "tables":
        ways = [
            [CountsWorkload(n), *map(parse_workload, (f"prefix:{n}", f"all-range:{n}"))]
            for n in sizes
        ]
        asked = [{i: ways[i][draw(st.integers(0, 2))] for i in subset} for subset in subsets]
        return TablesWorkload(sizes, asked, weights)
    if kind == "joined":
        cells = [math.prod(sizes[i] for i in subset) for subset in subsets]
        queries = [draw(factors(n).filter(lambda one: one.longest_column())) for n in cells]
        asked = [{S: one} if S else () for S, one in zip(subsets, queries, strict=True)]
        return TablesWorkload(sizes, asked, weights)
    if kind == "mixed":
        return UnionWorkload(
            [parts[0], draw(factors(math.prod(sizes))), TablesWorkload(sizes, subsets, weights)]
        )
    if kind == "nested":
        return KroneckerWorkload([UnionWorkload(parts), TablesWorkload([2, 1], [(0,), (0, 1)])])
    return (
        UnionWorkload(parts) if kind == "union" else KroneckerWorkload([parts[0], draw(factors(2))])
    )


def _product(factors):
    return factors[0] if len(factors) == 1 else KroneckerWorkload(factors)


@settings(max_examples=300)
@given(workloads(), st.integers(0, 2**32 - 1))
def test_every_operation_is_that_of_the_matrix(workload, seed):
    A, rng = matrix_of(workload), np.random.default_rng(seed)
    m, n = A.shape
    assert workload.shape == (m, n)
    close = {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(workload.to_dense(), A, rtol=1e-14)
    X, H, u = rng.normal(size=(n, n)), rng.normal(size=(n, 3)), rng.random(m)
    for weights in (u, np.ones(m)):
        gram = workload.gram(weights)
        np.testing.assert_allclose(gram, A.T @ (weights[:, None] * A), **close)
        np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(workload.row_quadratic(X + X.T), 2 * np.diag(A @ X @ A.T), **close)
    np.testing.assert_allclose(workload.row_norms(H), np.square(A @ H).sum(axis=1), **close)
    for columns in ((), (2,)):
        x, y = rng.normal(size=(n, *columns)), rng.normal(size=(m, *columns))
        np.testing.assert_allclose(workload.matvec(x), A @ x, **close)
        np.testing.assert_allclose(workload.rmatvec(y), A.T @ y, **close)
    np.testing.assert_allclose(
        workload.weighted_squares(H[:, 0] ** 2), A**2 @ H[:, 0] ** 2, **close
    )
    np.testing.assert_allclose(workload.column_squares(), (A**2).sum(axis=0), **close)
    np.testing.assert_allclose(workload.row_sizes(), abs(A).max(axis=1), rtol=1e-14)
    assert workload.non_negative == (A >= 0).all() or not workload.non_negative
    assert workload.binary <= bool(np.isin(A, (0, 1)).all())
    assert workload.row_label(m - 1)
    copied = pickle.loads(pickle.dumps(workload))
    np.testing.assert_array_equal(copied.to_dense(), workload.to_dense())


@settings(max_examples=200)
@given(workloads())
def test_bounds_on_columns_hold_and_are_exact_on_few_cells(workload):
    A = matrix_of(workload)
    squares, gram = (A**2).sum(axis=0), A.T @ A
    farthest = (squares[:, None] + squares - 2 * gram).max()
    rounding = 1e-10 * (1 + squares.max())
    assert workload.longest_column() == pytest.approx(squares.max(), abs=rounding)
    assert workload.longest_difference() == pytest.approx(farthest, abs=rounding)
    with pytest.MonkeyPatch.context() as patch:  # what structure tells of many cells
        patch.setattr(terms.workload, "WRITTEN_CELLS", 0)
        patch.setattr(terms.workload, "COLUMN_ENTRIES", 0)
        assert workload.longest_column() >= squares.max() * (1 - 1e-15)
        assert workload.longest_difference() >= farthest * (1 - 1e-12)
        (one, *others), counts = as_terms(workload).terms, as_terms(workload).counts
        nested = any(isinstance(q, TermsWorkload) for q in one.queries.values())
        if counts or not (others or nested):
            assert workload.longest_column() == pytest.approx(squares.max(), abs=rounding)
            assert workload.longest_difference() == pytest.approx(farthest, abs=rounding)


@settings(max_examples=200)
@given(workloads())
def test_merging_numbers_as_the_matrix_does(workload):
    A = matrix_of(workload)
    merged, dense = workload.merge(), DenseOperator(A).merge()
    np.testing.assert_array_equal(merged.row_of, dense.row_of)
    np.testing.assert_array_equal(merged.column_of, dense.column_of)
    np.testing.assert_allclose(merged.operator.to_dense(), dense.operator.to_dense(), rtol=1e-14)
    assert distinct_shape(workload) == dense.operator.shape
    assert different_cells(workload) == len(np.unique(A, axis=1).T)
    moved, left = workload.without_offsets()
    B = moved.to_dense()
    apart = A - B - (A - B).mean(axis=1, keepdims=True)
    assert abs(apart).max() <= 1e-12 + (left.max() if left.size else 0)


@settings(max_examples=200)
@given(workloads(), st.integers(0, 2**32 - 1))
def test_terms_over_other_attributes_are_the_same_queries(workload, seed):
    """Over one attribute, its finest division by prime numbers, or a random one."""
    rng, n = np.random.default_rng(seed), workload.shape[1]
    primes = [p for p in (2, 3) for _ in range(10) if n % p**1 == 0]
    sizes, rest = [], n
    for p in rng.permutation(primes):
        if rest % p == 0:
            sizes.append(int(p))
            rest //= int(p)
    for domain in ((n,), (*sizes, rest), (rest, *sizes), (1, n, 1), workload.domain or (n,)):
        over = terms_over(workload, domain)
        assert over is not None or domain not in ((n,), (1, n, 1))
        if over is not None:
            moved = TermsWorkload(domain, over, name="moved")
            np.testing.assert_allclose(matrix_of(moved), matrix_of(workload), rtol=1e-13, atol=0)
            crossed = crossed_over(workload, domain)
            assert (crossed is None) == any(len(g) > 1 for term in over for g in term.queries)
    assert terms_over(workload, (n, 2)) is None


def test_products_are_flattened_and_totals_are_no_queries():
    workload = parse_workload("2*prefix:2*total:5*histogram:3")
    (term,) = workload.terms
    assert (workload.domain, term.weight, [*term.queries]) == ((2, 5, 3), 2.0, [(0,), (2,)])
    assert [factor.name for factor in workload.factors] == ["2*prefix:2", "total:5", "histogram:3"]
    assert isinstance(workload.factors[2], CountsWorkload)
    inner = KroneckerWorkload([workload, parse_workload("census-p12")])
    assert inner.name == "2*prefix:2*total:5*histogram:3*census-p12"
    assert inner.row_label(49 * 4 + 1) == (
        "row 197 (attribute 0: row 1 (cells 0 to 1); attribute 2 is 1; attribute 3: male)"
    )
    with pytest.raises(InvalidInputError, match="at least two workloads, got 1"):
        KroneckerWorkload([parse_workload("prefix:2")])


def test_a_product_whose_first_factor_is_a_union_is_a_union_of_products():
    union = parse_workload("prefix:2*total:3+total:2*histogram:3")
    states = TablesWorkload([4], [(), (0,)])
    workload = KroneckerWorkload([union, states])
    assert [*workload.terms[0].queries] == [(0, 1), (2,)]
    assert workload.factors == (union, states)
    over = crossed_over(workload, (2, 3, 4))
    assert [term.attributes for term in over] == [(0, 2), (1, 2)]
    assert crossed_over(KroneckerWorkload([states, union]), (4, 2, 3)) is None  # other order
    assert [*terms_over(KroneckerWorkload([states, union]), (4, 2, 3))[0].queries] == [(0,), (1, 2)]


def test_parts_keep_their_names():
    union = parse_workload("prefix:4*total:3+2*total:4*histogram:3")
    assert [name for name, _ in union.part_rows] == ["prefix:4*total:3", "2*total:4*histogram:3"]
    assert ([count for _, count in union.part_rows], union.weights.tolist()) == ([4, 3], [1, 2])
    tables = parse_workload("marginals:2,prefix3,upto=2")
    assert [name for name, _ in tables.part_rows] == ["total", "0", "1", "0*1"]
    assert UnionWorkload([union, union], name="mine").name == "mine"
    assert UnionWorkload([union, union]).repeats
    assert not union.repeats


def test_where_the_attributes_differ_there_is_one():
    union = parse_workload("prefix:2*histogram:6+prefix:3*histogram:4")
    assert union.domain == (12,)
    assert attribute_queries(union) == (union,)
    with pytest.raises(InvalidInputError, match="at least two workloads, got 1"):
        UnionWorkload([parse_workload("prefix:2")])
    with pytest.raises(InvalidInputError, match="'prefix:4' has 4 cells, 'prefix:5' has 5"):
        parse_workload("prefix:4+prefix:5")


def test_parts_that_divide_many_cells_in_different_ways():
    joined = on_common_attributes(
        [parse_workload(text) for text in ("prefix:2*histogram:6", "prefix:12", "at-most:4,3")]
    )
    assert joined is not None
    assert joined.domain == (12,) or not joined.crossed
    parts = [parse_workload(text) for text in ("prefix:2*prefix:6*total:5", "within:4,3*prefix:5")]
    union = on_common_attributes(parts)
    assert (union.domain, union.crossed) == ((12, 5), True)
    np.testing.assert_array_equal(matrix_of(union), np.vstack([p.to_dense() for p in parts]))
    overlapping = [parse_workload(t) for t in ("at-most:3,4*total:2", "total:3*at-most:4,2")]
    union = on_common_attributes(overlapping)
    assert (union.domain, union.subsets) == ((3, 4, 2), ((0, 1), (1, 2)))
    np.testing.assert_array_equal(matrix_of(union), np.vstack([p.to_dense() for p in overlapping]))
    assert on_common_attributes([parse_workload("prefix:6"), parse_workload("prefix:8")]) is None


def test_which_attributes_are_joined():
    assert common_sizes([(2, 3, 4), (6, 4), (2, 3, 4)]) == (6, 4)
    assert common_sizes([(2, 3, 4, 5), (6, 20)]) == (6, 20)
    assert common_sizes([(2, 1, 3), (2, 1, 3)]) == (2, 1, 3)
    assert common_sizes([(1, 2, 1, 3, 1), (2, 3)]) == (2, 3)
    assert common_sizes([(2, 3), (3, 2)]) is None
    assert common_sizes([(2, 3), (2, 4)]) is None
    assert common_sizes([(50, 50, 2), (2500, 2)]) is None  # too many cells for a matrix


def test_what_is_asked_about_an_attribute():
    union = parse_workload("prefix:4*total:3+prefix:4*histogram:3+total:4*histogram:3")
    assert [one.name for one in attribute_queries(union)] == [
        "prefix:4+total:4",
        "histogram:3+total:3",
    ]
    tables = parse_workload("marginals:prefix3,4,5,ways=2")
    tables = TablesWorkload([parse_workload("prefix:3"), 4, 5], [(0, 1), (0,)])
    assert [one.name for one in attribute_queries(tables)] == [
        "prefix:3",
        "histogram:4+total:4",
        "total:5",
    ]
    equal = UnionWorkload(
        [
            parse_workload("prefix:3*prefix:2"),
            KroneckerWorkload(
                [DenseWorkload(np.tril(np.ones((3, 3)))), parse_workload("prefix:2")]
            ),
        ]
    )
    assert [*map(len, equal.ways.values())] == [1, 1]  # equal queries are one way
    assert equal.repeats


def test_a_large_union_is_not_merged_unless_something_is_zero(monkeypatch):
    monkeypatch.setattr(terms.workload, "MERGED_ENTRIES", 1)
    whole = parse_workload("prefix:4+prefix:4")
    assert whole.merge().operator is whole
    assert whole.merge().row_of.tolist() == list(range(8))
    hole = UnionWorkload([DenseWorkload([[1.0, 0, 2]]), DenseWorkload([[1.0, 0, 0], [0, 0, 0]])])
    assert hole.merge().operator.shape == (2, 2)
    assert hole.merge().column_of.tolist() == [0, -1, 1]
    assert hole.merge().row_of.tolist() == [0, 1, -1]


def test_attributes_that_are_summed_over_take_no_memory_to_merge():
    merged = parse_workload("prefix:300*total:5000").merge()
    assert merged.operator.shape == (300, 300)
    assert (merged.column_of == np.repeat(np.arange(300), 5000)).all()


@pytest.mark.parametrize("entries", [0, 2**20])
@pytest.mark.parametrize("text", ["all-range:4*prefix:9", "haar:4*all-range:3*prefix:2"])
def test_pairs_of_entries_are_written_out_or_asked_one_by_one(text, entries, monkeypatch):
    monkeypatch.setattr(terms.term, "PAIR_ENTRIES", entries)
    monkeypatch.setattr(terms.term, "ASKED_ONCE", entries)
    workload, rng = parse_workload(text), np.random.default_rng(2)
    A, u, H = (
        workload.to_dense(),
        rng.random(workload.shape[0]),
        rng.random((36 if "9" in text else 24, 2)),
    )
    np.testing.assert_allclose(workload.gram(u), A.T @ (u[:, None] * A), rtol=1e-13, atol=1e-13)
    norms = np.square(A @ H).sum(axis=1)
    np.testing.assert_allclose(workload.row_quadratic(H @ H.T), norms, rtol=1e-12)
    np.testing.assert_allclose(workload.row_norms(H), norms, rtol=1e-12)


def test_counts_of_an_attribute_with_any_number_of_values_need_no_array():
    tables = TablesWorkload([2**50, parse_workload("prefix:3")], [(0,), (1,), (0, 1)])
    assert tables.shape == (2**50 + 3 + 3 * 2**50, 3 * 2**50)
    assert tables.row_label(2**50 - 1) == f"row {2**50 - 1} (attribute 0 is {2**50 - 1})"
    assert tables.longest_column() == pytest.approx(1 + 3 + 3)
    assert not tables.counts


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: TablesWorkload([PREFIX, 3], [(0,), (1,), {0: PREFIX}]),
            r"tables 0 and 2 are the same, \(0,\)",
        ),
        (
            lambda: TablesWorkload([4, 3], [{2: PREFIX}]),
            r"table 0 has the attributes \(2,\); attributes are whole numbers from 0 to 1",
        ),
        (
            lambda: TablesWorkload([4, 3], [{0: PREFIX, (0, 1): parse_workload("prefix:12")}]),
            r"table 0 names an attribute twice: \(0, 0, 1\)",
        ),
        (
            lambda: TablesWorkload([5], [{0: PREFIX}]),
            r"table 0 over attributes \(0,\) has 5 cells, its queries are on 4",
        ),
        (
            lambda: TablesWorkload([as_workload(np.zeros((2, 3))), 2], [(0, 1)]),
            "queries of attribute 0 are all zero",
        ),
        (
            lambda: TablesWorkload([2, 3], [{(1, 0): parse_workload("prefix:6")}]),
            "groups are disjoint and in increasing order",
        ),
        (lambda: TablesWorkload([2], [{(): PREFIX}]), "table 0 asks about no attribute"),
        (lambda: TablesWorkload([2, 3], []), "there must be from 1 to"),
        (
            lambda: parse_workload("marginals:prefx85,9,ways=1"),
            "an attribute such as prefix85 takes a name of",
        ),
        (lambda: parse_workload("marginals:marginals3,9,ways=1"), "an attribute such as prefix85"),
        (lambda: parse_workload("marginals:prefix,9,ways=1"), "an attribute such as prefix85"),
        (lambda: parse_workload("marginals:window5,9,ways=1"), "takes 2 sizes, got 1"),
        (lambda: parse_workload("marginals:random-range5/4/sed=3,9"), "unknown option 'sed'"),
        (lambda: parse_workload("marginals:prefix5^0,9,ways=1"), "repeated 1 to"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(InvalidInputError, match=words):
        make()
