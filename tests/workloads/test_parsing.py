"""The grammar of names, and what it says about mistakes."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.errors import InvalidInputError
from pmldesign.workloads import expand_family, named_workloads, parse_workload

factors = st.one_of(
    st.builds("prefix:{}".format, st.integers(1, 9)),
    st.builds("window:{0},{0}".format, st.integers(1, 9)),
    st.builds("haar:{}".format, st.sampled_from([1, 2, 4, 8])),
    st.builds("parity:{},1".format, st.integers(1, 3)),
    st.builds(
        "random-range:{},{},seed={}".format,
        st.integers(1, 5),
        st.integers(1, 5),
        st.integers(0, 2**63 - 1),
    ),
    st.just("census-p12"),
    st.sampled_from(["marginals:2,3^2,ways=2", "marginals:2^3,4,upto=2", "marginals:1,ways=0"]),
)


@given(st.lists(factors, min_size=1, max_size=2).map("*".join))
def test_the_name_of_a_workload_parses_to_the_same_workload(text):
    workload = parse_workload(text)
    assert workload.name == text
    again = parse_workload(workload.name)
    x = np.arange(workload.shape[1], dtype=float)
    np.testing.assert_array_equal(again.matvec(x), workload.matvec(x))


@pytest.mark.parametrize(
    "text",
    [
        " prefix : 16 *histogram: 5 ",
        "prefix:16\t* histogram:5\n",
        "prefix:016*histogram:05",
    ],
)
def test_blanks_are_tolerated(text):
    assert parse_workload(text).name == "prefix:16*histogram:5"
    assert parse_workload("marginals : 2 ^ 2 , 3,ways = 1 ").name == "marginals:2^2,3,ways=1"
    assert parse_workload("marginals:2,2,3,ways=1").name == "marginals:2^2,3,ways=1"
    assert parse_workload(" random-range : 3 , 4 , seed = 7 ").name == "random-range:3,4,seed=7"
    assert parse_workload("random-range:3,seed=7,4").name == "random-range:3,4,seed=7"


def test_a_size_after_an_option_is_no_second_value():
    with pytest.raises(InvalidInputError, match="sizes come before options, got '2' after them"):
        parse_workload("marginals:4,3,ways=1,2")


def test_products_are_kronecker_products():
    workload = parse_workload("prefix:3*histogram:2*haar:2")
    assert len(workload.factors) == 3
    expected = np.kron(np.tri(3), np.kron(np.eye(2), [[1, 1], [1, -1]]))
    np.testing.assert_array_equal(workload.to_dense(), expected)


@pytest.mark.parametrize("entry", named_workloads(), ids=lambda entry: entry.name)
def test_every_example_in_the_table_parses(entry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "places.csv").write_text("state,county\nAL,Autauga\nAL,Baldwin\n")
    assert parse_workload(entry.example).name.startswith(entry.name)
    assert entry.usage.startswith(entry.name)
    assert "\n" not in entry.description


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no name"),
        ("  ", "no name"),
        ("prefx:4", "did you mean prefix\\?.*known are histogram:N, total:N, prefix:N"),
        ("PREFIX:4", "did you mean prefix\\?"),
        ("zzz", "unknown workload 'zzz'; known are"),
        (":4", "unknown workload ''"),
        ("prefix", "takes 1 size, got 0; write prefix:N, for example prefix:64"),
        ("prefix:", "'' is not a whole number"),
        ("prefix:abc", "'abc' is not a whole number"),
        ("prefix:0", "must be from 1 to 16777216, got 0"),
        ("prefix:-3", "must be from 1 to 16777216, got -3"),
        ("prefix:2.5", "'2.5' is not a whole number"),
        ("prefix:1e3", "'1e3' is not a whole number"),
        ("prefix:1_0", "'1_0' is not a whole number"),
        ("prefix:٣", "is not a whole number"),
        ("prefix:4:5", "'4:5' is not a whole number"),
        ("prefix:4,5", "takes 1 size, got 2"),
        ("prefix:4,", "'' is not a whole number"),
        ("prefix:4 5", "'4 5' is not a whole number"),
        ("parity:4", "takes 2 sizes, got 1; write parity:D,W"),
        ("census-p12:3", "takes 0 sizes, got 1"),
        ("haar:12", "power of two, got 12; try haar:8 or haar:16"),
        ("haar:0", "from 1 to"),
        ("parity:3,4", "W of parity:3,W must be from 1 to 3, got 4"),
        ("parity:3,0", "must be from 1 to 3, got 0"),
        ("parity:40,20", r"2\^D cells\) must be from 1 to 16, got 40"),
        ("parity:16,8", "12870 x 65536 entries .6.28 GiB."),
        ("window:4,9", "width W of window:4,W must be from 1 to 4, got 9"),
        ("window:4,0", "from 1 to 4, got 0"),
        ("prefix:100000000", "from 1 to 16777216, got 100000000"),
        ("prefix:" + "9" * 5000, "up to 19 digits"),
        ("all-range:20000000", "from 1 to .*, got 20000000"),
        ("random-range:20000000,4", "queries M .* from 1 to 16777216"),
        ("marginals:ways=1", "takes at least one size"),
        ("marginals:2,3", "either ways=K .* or upto=K .*marginals:2,3,4,ways=2"),
        ("marginals:2,3,ways=1,upto=1", "either ways=K"),
        ("marginals:2,3,ways=3", "ways=K of marginals must be from 0 to 2, got 3"),
        ("marginals:2,3,upto=-1", "upto=K of marginals must be from 0 to 2, got -1"),
        (
            "marginals:2,0,ways=1",
            "size of attribute 1 must be .* 9007199254740992, got 0",
        ),
        ("marginals:2^0,ways=1", "repeated 1 to 10000 times, got 0"),
        ("marginals:2^99999999999,ways=1", "repeated 1 to 10000 times"),
        ("marginals:2^3^4,ways=1", r"'3\^4' is not a whole number"),
        ("marginals:10^1001,ways=1", r"over 10\^1000 cells"),
        ("marginals:10^200,ways=5", "over 1048576 marginals; take a smaller ways"),
        ("marginals:10^100,ways=1*prefix:2", r"has 2.00e.100 cells"),
        ("prefix:2^3", r"'2\^3' is not a whole number"),
        ("prefix:4*", "empty factor"),
        ("*", "empty factor"),
        ("prefix:4**prefix:4", "empty factor"),
        ("prefix:60000*prefix:60000", "has 3600000000 cells; it may have"),
        ("prefix:4*prefx:4", "did you mean prefix"),
        ("prefix:4,seed=1", r"unknown option 'seed' \(allowed: none\)"),
        ("random-range:4,4,sed=1", r"unknown option 'sed' \(allowed: seed\)"),
        ("random-range:4,4,seed=1,seed=2", "repeated option 'seed'"),
        ("random-range:4,4,seed=x", "'x' is not a whole number"),
        ("random-range:4,4,seed=", "'' is not a whole number"),
        ("random-range:4,4,seed=-1", "seed .* from 0 to"),
    ],
)
def test_mistakes_are_explained_in_one_line(text, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_workload(text)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    assert caught.value.exit_code == 2


names = st.sampled_from([entry.name for entry in named_workloads()])
tails = st.text(alphabet="0123456789:*,=-^ seedways", max_size=12)


@given(st.one_of(st.text(max_size=30), st.builds(str.__add__, names, tails)))
def test_any_text_is_a_workload_or_an_explained_mistake(text):
    with suppress(InvalidInputError):
        workload = parse_workload(text)
        assert min(workload.shape) >= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prefix:16..64", ["prefix:16", "prefix:32", "prefix:64"]),
        ("prefix: 1 .. 4", ["prefix:1", "prefix:2", "prefix:4"]),
        ("prefix:8..8", ["prefix:8"]),
        ("window:8..16,7", ["window:8,7", "window:16,7"]),
        ("random-range:5,4..8,seed=1", ["random-range:5,4,seed=1", "random-range:5,8,seed=1"]),
        ("prefix:3*histogram:2..4", ["prefix:3*histogram:2", "prefix:3*histogram:4"]),
        ("prefix:64", ["prefix:64"]),
        ("../data.csv", ["../data.csv"]),
        ("run:1..2.csv", ["run:1..2.csv"]),
        ("-", ["-"]),
    ],
)
def test_families(text, expected):
    assert expand_family(text) == expected


@pytest.mark.parametrize(
    "text",
    ["prefix:16..100", "prefix:3..4", "prefix:64..16", "prefix:0..4", "prefix:1..9" + "9" * 30],
)
def test_ends_of_a_family_are_powers_of_two_in_order(text):
    with pytest.raises(InvalidInputError, match="powers of two in increasing order"):
        expand_family(text)


def test_a_family_has_one_range():
    with pytest.raises(InvalidInputError, match=r"has 2 sizes written as FROM\.\.TO"):
        expand_family("prefix:2..4*prefix:2..4")
