from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.privacy import at_least, at_most, shortest, to_places

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(value=FINITE)
def test_the_shortest_text_reads_back(value):
    assert float(shortest(value)) == value


@given(value=FINITE, digits=st.integers(1, 12))
def test_bounds_are_rounded_to_their_side(value, digits):
    low, high = Decimal(at_most(value, digits)), Decimal(at_least(value, digits))
    # the shortest form stands for the float itself
    assert low <= Decimal(repr(value)) <= high
    assert (high - low) <= abs(Decimal(repr(value))) * Decimal(10) ** (1 - digits)


@given(value=st.floats(1e-300, 1e300), sign=st.sampled_from([1, -1]))
def test_the_form_is_that_of_six_significant_digits(value, sign):
    assert f"{sign * value:.6g}" in {at_most(sign * value), at_least(sign * value)}


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (2.30258509, "2.30258", "2.30259"),
        (1.0000049, "1", "1.00001"),
        (0.0001, "0.0001", "0.0001"),
        (1e-6, "1e-06", "1e-06"),
        (999999.99, "999999", "1e+06"),
        (float("inf"), "inf", "inf"),
        (0.0, "0", "0"),
    ],
)
def test_examples(value, down, up):
    assert (at_most(value), at_least(value)) == (down, up)


def test_integers_have_no_point():
    assert [shortest(value) for value in (1.0, 1.0000049, 1e-6, 0.1)] == [
        "1",
        "1.0000049",
        "1e-06",
        "0.1",
    ]


@given(st.floats(-1e6, 1e6))
def test_places_are_rounded_outwards(value):
    lower, upper = (Decimal(to_places(value, up=up)) for up in (False, True))
    assert lower <= Decimal(repr(value)) <= upper
    assert upper - lower in (0, Decimal("1e-6"))
    assert to_places(0.1 + 0.2, up=True) == "0.300001"
    assert to_places(-1e-9, up=True) == "0.000000"
    assert to_places(float("inf"), up=True) == "inf"
