"""Numbers as text: with all their digits, or rounded to the side where they stay bounds.

A bound whose shortest form has no more digits than asked for is shown in that form, which reads
back as the bound itself.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

NORMALISED = 1e-11
"""What normalised strategies are above 1 by rounding, as the sums of up to 10^4 numbers."""


def shortest(value: float) -> str:
    """The fewest digits that read back as the same float64: 1, 0.1, 1.0000049, 1e-06."""
    return repr(float(value)).removesuffix(".0")


def at_least(value: float, digits: int = 6) -> str:
    """So many significant digits of an upper bound, rounded upwards."""
    return _rounded(value, digits, ROUND_CEILING)


def of_scale(value: float, digits: int = 6) -> str:
    """So many digits of a scale or a sensitivity, rounded upwards but for NORMALISED of it.

    So that 1 is not shown as 1.00001.
    """
    return at_least(value * (1 - NORMALISED), digits)


def at_most(value: float, digits: int = 6) -> str:
    """So many significant digits of a lower bound, rounded downwards."""
    return _rounded(value, digits, ROUND_FLOOR)


def to_places(value: float, *, up: bool, places: int = 6) -> str:
    """So many places after the point of a bound, rounded upwards or downwards."""
    if not math.isfinite(value):
        return f"{value:g}"
    direction = ROUND_CEILING if up else ROUND_FLOOR
    exact = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), direction)
    return f"{exact + 0:f}"  # without the sign of a zero


def _rounded(value: float, digits: int, direction: str) -> str:
    """In the form of the format %g."""
    if not math.isfinite(value):
        return f"{value:g}"
    exact = Context(prec=digits, rounding=direction).create_decimal(Decimal(repr(float(value))))
    if exact == 0:
        return "0"
    exponent = exact.adjusted()
    if not -4 <= exponent < digits:
        mantissa = f"{exact.scaleb(-exponent):f}"
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{exponent:+03d}"
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
